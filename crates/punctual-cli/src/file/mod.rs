//! The schedule file: what it says, checked.
//!
//! ```toml
//! [settings]                      # of the program; may be left out
//! max-running = 32                # commands at once; more wait, and are late
//! drain-timeout = "1m"            # after the first signal; then as after the second
//!
//! [defaults]                      # for every job that does not say otherwise
//! timezone = "Europe/Berlin"
//! output = "log"
//!
//! [job.backup]
//! command = "pg_dump shop | gzip > shop.gz"    # a shell line, or ["program", "argument"]
//! cron = "30 2 * * *"             # or every = "10s", fixed-delay = "5m", at = 2026-12-24T18:00:00
//! ```
//!
//! Reading has two steps. The text becomes a tree that remembers where everything stood (`toml`); then
//! [`read`] walks the tree, makes a [`Schedule`] of it, and notes everything that is wrong on the way. There is a
//! schedule only if nothing was: whoever holds one need not check again.

mod amount;
mod diagnostic;
mod draft;
mod fields;
mod instant;
mod near;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual::CronSchedule;

pub(crate) use amount::show;
pub(crate) use diagnostic::Diagnostic;
pub(crate) use draft::{CLOCKS_BACK, CLOCKS_FORWARD};
pub(crate) use instant::{ZoneName, instant, zone};

/// No schedule is larger. Something else was named by mistake.
const LARGEST: usize = 16 << 20;

/// A file without errors.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Schedule {
    pub(crate) settings: Settings,
    /// In the order of the file, without those that are not enabled.
    pub(crate) jobs: Vec<Job>,
    /// How many are not enabled.
    pub(crate) disabled: usize,
}

/// What concerns the whole program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Commands that run at once; further ones wait.
    pub(crate) max_running: usize,
    /// How long after the first signal running jobs may go on.
    pub(crate) drain_timeout: Option<Duration>,
}

/// One job: when, and what.
///
/// The two halves are compared apart when a file is read again: a change of the work alone leaves the job's
/// place in time as it is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Job {
    pub(crate) name: Arc<str>,
    pub(crate) timing: Timing,
    pub(crate) work: Arc<Work>,
}

/// When a job runs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Timing {
    pub(crate) trigger: Trigger,
    pub(crate) overlap: Overlap,
    pub(crate) missed: Missed,
    /// Runs that are later than this are dropped.
    pub(crate) missed_within: Option<Duration>,
    /// Each run is put off by a random part of this.
    pub(crate) jitter: Duration,
}

/// What makes a job due.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Trigger {
    /// On a grid, the first point of which is `start_after` from the start.
    Every { period: Duration, start_after: Option<Duration> },
    /// So long after the end of the run before.
    FixedDelay { delay: Duration, start_after: Option<Duration> },
    /// At wall-clock times.
    Cron(CronSchedule),
    /// Once.
    At { instant: SystemTime, zone: ZoneName },
}

/// What happens to a run that is due while the one before is still on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overlap {
    /// It counts as missed.
    Never,
    /// It follows at once; one such run is kept.
    Queue,
    /// The one that runs is stopped.
    Replace,
    /// So many may run side by side.
    Allow(usize),
}

/// What happens to runs that were missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missed {
    /// All of them are made up for, one after the other.
    Burst,
    /// None; the next run is at its time.
    Skip,
    /// One is made up for, at once.
    Once,
    /// The grid is moved.
    Shift,
}

/// What a job does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Work {
    pub(crate) command: Command,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) directory: PathBuf,
    pub(crate) timeout: Option<Duration>,
    /// Between the request to end and the end by force.
    pub(crate) grace: Duration,
    pub(crate) retries: Retries,
    pub(crate) output: Output,
    pub(crate) log: Log,
}

/// The command of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// A line for `sh -c`.
    Shell(String),
    /// A program and its arguments, as they are. Never empty.
    Program(Vec<String>),
}

/// How often a failed run is tried again, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retries {
    pub(crate) count: u32,
    /// Before the first; doubled for each further one.
    pub(crate) delay: Duration,
    /// Never longer than this.
    pub(crate) max_delay: Duration,
}

/// Where the output of a job goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    /// To ours, with the name of the job before each line.
    Pass,
    /// To a file of the job's own.
    Log,
    Both,
    Discard,
}

/// The log file of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Log {
    pub(crate) directory: PathBuf,
    /// When a file has grown beyond this, another is begun.
    pub(crate) limit: u64,
    /// So many old ones are kept.
    pub(crate) keep: u32,
}

/// Why there is no schedule.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The file cannot be read at all.
    Unreadable(String),
    /// It says something that is wrong. Never empty.
    Wrong { text: String, diagnostics: Vec<Diagnostic> },
}

/// Reads and checks the file at `path`.
pub(crate) fn load(path: &Path) -> Result<Schedule, LoadError> {
    let unreadable = |error: &dyn fmt::Display| LoadError::Unreadable(format!("{}: {error}", path.display()));
    let bytes = read_some(path).map_err(|error| unreadable(&reason(&error)))?;
    if bytes.len() > LARGEST {
        return Err(unreadable(&format!("larger than {} MB", LARGEST >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        unreadable(&format!("line {line} is not UTF-8"))
    })?;
    let base = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parse(&text, base).map_err(|diagnostics| LoadError::Wrong { text, diagnostics })
}

/// The file, or as much of it as shows that it is too large.
fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks `text`; paths in it are meant from `base`.
pub(crate) fn parse(text: &str, base: &Path) -> Result<Schedule, Vec<Diagnostic>> {
    read::read(text, base)
}

/// An error of the system in the words of [`std::io::ErrorKind`], in our style.
pub(crate) fn reason(error: &io::Error) -> String {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "no such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::NotADirectory => "not a directory".to_owned(),
        ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

impl LoadError {
    /// Everything there is to say, ready to print.
    pub(crate) fn render(&self, file: &str) -> String {
        match self {
            Self::Unreadable(message) => format!("{message}\n"),
            Self::Wrong { text, diagnostics } => {
                let shown: Vec<_> =
                    diagnostics.iter().map(|diagnostic| diagnostic.render(file, text)).collect();
                let count = match diagnostics.len() {
                    1 => "1 error".to_owned(),
                    count => format!("{count} errors"),
                };
                format!("{}\n{file}: {count}\n", shown.join("\n"))
            }
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(line) => f.write_str(line),
            Self::Program(words) => f.write_str(&words.join(" ")),
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every { period, .. } => write!(f, "every {}", show(*period)),
            Self::FixedDelay { delay, .. } => write!(f, "{} after its end", show(*delay)),
            Self::Cron(schedule) => f.write_str(schedule.cron().source()),
            Self::At { instant, zone } => write!(f, "once at {}", zone.show(*instant)),
        }
    }
}
