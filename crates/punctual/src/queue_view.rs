//! What is waiting in an executor.

use std::fmt;
use std::sync::Arc;

use punctual_engine::{Schedule, Tick};

use crate::handle::Remaining;
use crate::task::TaskId;

/// One waiting task, as it was when [`Scheduler::queue`](crate::Scheduler::queue) looked.
#[derive(Clone, Debug)]
pub struct QueuedTask {
    pub(crate) id: TaskId,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) schedule: Schedule,
    pub(crate) deadline: Tick,
    pub(crate) remaining: Remaining,
    pub(crate) runs: u64,
}

impl QueuedTask {
    /// The id of the task, the same as its handle's.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The name of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How often it runs.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Whether it runs more than once.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.schedule.is_periodic()
    }

    /// The instant from which it may run.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// How long until then, or since.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// How many runs it has had.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }
}

impl fmt::Display for QueuedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name:?} {}", self.id, self.remaining),
            None => write!(f, "{} {}", self.id, self.remaining),
        }
    }
}
