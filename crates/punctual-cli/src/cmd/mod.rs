//! The commands, one file each.

mod check;
mod demo;
mod next;
mod papers;
mod run;

pub(crate) use check::check;
pub(crate) use demo::demo;
pub(crate) use next::next;
pub(crate) use papers::{completions, man};
pub(crate) use run::run;

use std::io::Write as _;

use crate::exit::Exit;

/// Prints `text`. A reader that has heard enough is no error.
fn print(text: &str) -> Exit {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("punctual: cannot write: {error}\n"));
            Exit::Unable
        }
        _ => Exit::Done,
    }
}

/// Says on standard error what is wrong. The exit status says so, too: nobody need read it.
fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
