//! When a task is to run, and after whom.

use std::fmt;

use punctual_engine::Tick;

/// Names a task for the life of its executor: the number of its submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
    /// The submission number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The place of one run in the order of all. The queue has it while the task waits; whoever takes the task out, or
/// put it in, carries it along, so that the task itself need not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Turn {
    pub(crate) deadline: Tick,
    pub(crate) id: TaskId,
}

impl Turn {
    /// Of a task that no executor has numbered.
    pub(crate) const NONE: Self = Self { deadline: Tick::ZERO, id: TaskId(u64::MAX) };
}
