//! What hooks, listings and handles say about a task.

use std::fmt;
use std::time::Duration;

use punctual_engine::{Schedule, Tick};

use super::{Header, TaskId, Turn};
use crate::error::{Panic, TaskError};

/// Where a task is in its life.
///
/// ```text
///            start             finish
/// Waiting ──────────▶ Running ────────▶ Succeeded
///  │    ◀────────────  │   └─ panic ──▶ Failed
///  │       re-arm      │
///  ├───── cancel ──────┴──────────────▶ Cancelled     (the body goes on, its value is dropped)
///  └───── dropped unrun ──────────────▶ Abandoned
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TaskState {
    /// Not running: queued, on its way to a worker, or taken out of the executor.
    Waiting,
    /// Its body is being run.
    Running,
    /// It ended with a value.
    Succeeded,
    /// It ended with a failure: a panic of its own or of a hook's, an error, a timeout.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was dropped without having been run.
    Abandoned,
}

impl TaskState {
    /// Whether nothing more can happen to it.
    #[must_use]
    pub const fn is_done(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A task as hooks and observers see it.
#[derive(Clone, Copy)]
pub struct TaskInfo<'a> {
    header: &'a Header,
    turn: Turn,
    started: Option<Tick>,
}

impl<'a> TaskInfo<'a> {
    pub(crate) fn new(header: &'a Header, turn: Turn, started: Option<Tick>) -> Self {
        Self { header, turn, started }
    }

    /// The task's id.
    #[must_use]
    pub fn id(self) -> TaskId {
        self.turn.id
    }

    /// The task's name, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'a str> {
        self.header.name().map(|name| &**name)
    }

    /// How often it runs.
    #[must_use]
    pub fn schedule(self) -> Schedule {
        self.header.schedule()
    }

    /// The instant from which this run was allowed.
    #[must_use]
    pub fn deadline(self) -> Tick {
        self.turn.deadline
    }

    /// How many runs have begun, this one included.
    #[must_use]
    pub fn runs(self) -> u64 {
        self.header.runs()
    }

    /// How much later than its deadline this run began; zero if it has not begun.
    #[must_use]
    pub fn lateness(self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.since(self.deadline()))
    }
}

impl fmt::Debug for TaskInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskInfo")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("schedule", &self.schedule())
            .field("deadline", &self.deadline())
            .field("runs", &self.runs())
            .finish()
    }
}

impl fmt::Display for TaskInfo<'_> {
    /// `#7`, or `#7 "heartbeat"` for a task with a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} {name:?}", self.id()),
            None => write!(f, "{}", self.id()),
        }
    }
}

/// How one run ended, for hooks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RunOutcome<'a> {
    /// The body returned.
    Returned,
    /// The body is a [future](crate::Scheduler::spawn) that was polled and is not ready: the run goes on when it
    /// is woken.
    Pending,
    /// The body panicked.
    Panicked(&'a Panic),
    /// The body of a periodic task returned an `Err`, or ran into its timeout.
    Failed(&'a TaskError),
}
