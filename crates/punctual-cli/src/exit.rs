//! How the program ends, for whoever started it.

use std::process::ExitCode;

/// What is said by the exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// All went well: drained after one signal, nothing left to run, the file is right.
    Done,
    /// The schedule or the expression has errors.
    Wrong,
    /// A file cannot be read or written, or a thread not be started. (2 is for wrong arguments.)
    Unable,
    /// Commands were stopped before they had ended: a second signal came, or the drain took too long.
    Stopped,
}

/// For the help text and the manual.
pub(crate) const EXIT_CODES: &str = "Exit status:
  0  all went well: drained after one signal, nothing left to run, no errors
  1  the schedule or the expression has errors
  2  the arguments are wrong
  3  a file cannot be read or written, or the machine refuses something else
  4  running commands were stopped: a second signal came, or `drain-timeout` was over";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Wrong => 1,
            Exit::Unable => 3,
            Exit::Stopped => 4,
        })
    }
}
