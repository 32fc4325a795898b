//! What happened, told by those to whom it happened, in a file that knows nothing of the store.
//!
//! Every process appends whole lines. The system keeps what was written by a process that is killed the next moment, and
//! keeps the lines of all processes in one order: a line that tells of something stands after whatever led to it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use punctual_durable::{JobContext, JobId, JobState, TimeSource};

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A store has said that the job is accepted.
    Accepted { id: i64 },
    /// So many jobs are to follow it, each when the one before is done.
    Owed { id: i64, links: usize },
    /// The handler has been called.
    Started(Run),
    /// The handler has done what it is there for.
    Effect(Run),
    /// The store has said that the job is over.
    Over { id: i64, state: String, process: u32 },
    /// The store has refused what a process reported.
    Refused { id: i64, process: u32 },
}

/// One call of a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) id: i64,
    pub(crate) fence: i64,
    pub(crate) due: i64,
    /// By the clock of the process; in microseconds, as `due` is.
    pub(crate) now: i64,
    pub(crate) process: u32,
}

impl Run {
    pub(crate) fn of(context: &JobContext, clock: &dyn TimeSource) -> Self {
        Self {
            id: context.id().as_i64(),
            fence: context.fence().as_i64(),
            due: context.due().as_micros(),
            now: clock.timestamp().as_micros(),
            process: std::process::id(),
        }
    }
}

impl Entry {
    pub(crate) fn accepted(id: JobId) -> Self {
        Self::Accepted { id: id.as_i64() }
    }

    pub(crate) fn over(id: JobId, state: JobState) -> Self {
        Self::Over { id: id.as_i64(), state: state.to_string(), process: std::process::id() }
    }

    pub(crate) fn refused(id: JobId) -> Self {
        Self::Refused { id: id.as_i64(), process: std::process::id() }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, fence, due, now, process } = self;
        write!(f, "{id} {fence} {due} {now} {process}")
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { id } => write!(f, "accepted {id}"),
            Self::Owed { id, links } => write!(f, "owed {id} {links}"),
            Self::Started(run) => write!(f, "started {run}"),
            Self::Effect(run) => write!(f, "effect {run}"),
            Self::Over { id, state, process } => write!(f, "over {id} {state} {process}"),
            Self::Refused { id, process } => write!(f, "refused {id} {process}"),
        }
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<i64>().ok();
        let process = |at: usize| words.get(at)?.parse::<u32>().ok();
        let run = || {
            let (id, fence, due, now) = (number(1)?, number(2)?, number(3)?, number(4)?);
            Some(Run { id, fence, due, now, process: process(5)? })
        };
        let read = || match words[0] {
            "accepted" => Some(Self::Accepted { id: number(1)? }),
            "owed" => Some(Self::Owed { id: number(1)?, links: words.get(2)?.parse().ok()? }),
            "started" => Some(Self::Started(run()?)),
            "effect" => Some(Self::Effect(run()?)),
            "over" => {
                Some(Self::Over { id: number(1)?, state: (*words.get(2)?).to_owned(), process: process(3)? })
            }
            "refused" => Some(Self::Refused { id: number(1)?, process: process(2)? }),
            _ => None,
        };
        read().ok_or_else(|| format!("{line:?} is no line of a side log"))
    }
}

/// The file, open for appending.
#[derive(Debug)]
pub(crate) struct SideLog {
    file: File,
    path: PathBuf,
}

impl SideLog {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { file, path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// One write for one line: lines of several processes do not mix.
    pub(crate) fn write(&self, entry: &Entry) {
        (&self.file).write_all(format!("{entry}\n").as_bytes()).unwrap();
    }

    pub(crate) fn read(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let run = Run { id: 1, fence: 2, due: -3, now: 4, process: 5 };
    let over = Entry::Over { id: 7, state: "done".to_owned(), process: 8 };
    let (owed, refused) = (Entry::Owed { id: 6, links: 3 }, Entry::Refused { id: 9, process: 10 });
    for entry in [Entry::Accepted { id: 6 }, owed, Entry::Started(run), Entry::Effect(run), over, refused] {
        assert_eq!(entry.to_string().parse(), Ok(entry));
    }
    for line in ["", "started 1 2 3 4", "accepted x", "owed 1", "over 1 done"] {
        assert!(line.parse::<Entry>().is_err(), "{line:?}");
    }
}
