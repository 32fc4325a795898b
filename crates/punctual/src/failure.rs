//! Failed runs, as they are remembered.

use std::fmt;
use std::time::Duration;

use punctual_engine::Tick;

use crate::error::TaskError;

/// One run that failed; see [`TaskHandle::recent_failures`](crate::TaskHandle::recent_failures).
#[derive(Clone, Debug)]
pub struct FailedRun {
    pub(crate) error: TaskError,
    pub(crate) run: u64,
    pub(crate) in_a_row: u32,
    pub(crate) deadline: Tick,
    pub(crate) started: Tick,
    pub(crate) ended: Tick,
}

impl FailedRun {
    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &TaskError {
        &self.error
    }

    /// Which run of the task it was, counted from 1.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// How many runs in a row had failed by then, this one included.
    #[must_use]
    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// The instant from which the run was allowed.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// When it began.
    #[must_use]
    pub fn started(&self) -> Tick {
        self.started
    }

    /// When it ended.
    #[must_use]
    pub fn ended(&self) -> Tick {
        self.ended
    }

    /// How long it took.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.ended.since(self.started)
    }
}

impl fmt::Display for FailedRun {
    /// `run 7 after 12ms: the task failed: no answer`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} after {:?}: {}", self.run, self.took(), self.error)
    }
}
