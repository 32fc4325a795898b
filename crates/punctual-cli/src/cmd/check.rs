//! `punctual check`: is a schedule right?

use super::print;
use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::file::{self, LoadError};

/// Says what is wrong, or in a line for each job what is right.
pub(crate) fn check(args: &CheckArgs) -> Exit {
    let shown = args.schedule.display().to_string();
    match file::load(&args.schedule) {
        Ok(schedule) if args.quiet => {
            let _ = schedule;
            Exit::Done
        }
        Ok(schedule) => {
            let width = schedule.jobs.iter().map(|job| job.name.len()).max().unwrap_or(0);
            let mut text = String::new();
            for job in &schedule.jobs {
                text += &format!("{:<width$}  {}  {}\n", job.name, job.timing.trigger, job.work.command);
            }
            text += &format!("{shown}: {} jobs, no errors\n", schedule.jobs.len() + schedule.disabled);
            print(&text)
        }
        Err(error) => {
            eprint!("{}", error.render(&shown));
            refused(&error)
        }
    }
}

/// The exit status for a schedule that is none.
pub(super) fn refused(error: &LoadError) -> Exit {
    match error {
        LoadError::Unreadable(_) => Exit::Unable,
        LoadError::Wrong { .. } => Exit::Wrong,
    }
}
