//! `punctual check`: is a schedule right?

use super::{complain, print};
use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::file::{self, Job, LoadError, Schedule};

/// Says what is wrong, or in a line for each job what is right.
pub(crate) fn check(args: &CheckArgs) -> Exit {
    let shown = args.schedule.display().to_string();
    match file::load(&args.schedule) {
        Ok(_) if args.quiet => Exit::Done,
        Ok(schedule) => {
            let count = schedule.jobs.len() + schedule.disabled;
            let jobs = if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
            let text = table(&schedule) + &format!("{shown}: {jobs}, no errors\n");
            print(&text)
        }
        Err(error) => {
            complain(&error.render(&shown));
            refused(&error)
        }
    }
}

/// A line for each job: its name, when it runs, what it does.
fn table(schedule: &Schedule) -> String {
    let whens: Vec<String> = schedule.jobs.iter().map(|job| job.timing.trigger.to_string()).collect();
    let names = schedule.jobs.iter().map(|job| job.name.len()).max().unwrap_or(0);
    let width = whens.iter().map(|when| when.chars().count()).max().unwrap_or(0);
    let line = |(job, when): (&Job, &String)| {
        // A command may have several lines.
        let command = job.work.command.to_string().replace('\n', " ");
        format!("{:<names$}  {when:<width$}  {command}\n", job.name)
    };
    schedule.jobs.iter().zip(&whens).map(line).collect()
}

/// The exit status for a schedule that is none.
pub(super) fn refused(error: &LoadError) -> Exit {
    match error {
        LoadError::Unreadable(_) => Exit::Unable,
        LoadError::Wrong { .. } => Exit::Wrong,
    }
}
