//! The choices an executor is built with.

use std::fmt;
use std::sync::Arc;

use crate::error::RejectReason;
use crate::scheduler::Scheduler;
use crate::unrun::UnrunTask;

/// What becomes of a task that an executor refuses; see [`Builder::rejection`](crate::Builder::rejection).
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Rejection {
    /// The submission fails and returns the closure. The default.
    #[default]
    Abort,
    /// The submitting thread runs the task itself, [timeout](crate::TaskBuilder::timeout) included. A task that is not
    /// due, or may need more than one run (it is periodic, or has [retries](crate::TaskBuilder::retry)), or an executor
    /// that is shut down makes the submission fail instead: nothing runs early, nothing is lost.
    CallerRuns,
    /// The task is dropped; its handle resolves as [`Abandoned`](crate::TaskError::Abandoned).
    Discard,
    /// The earliest queued task is dropped in favour of the new one. On an executor that is shut down the new
    /// one is dropped.
    DiscardOldest,
    /// The task is given to a handler.
    Custom(Arc<dyn RejectionHandler>),
}

impl Rejection {
    /// [`Rejection::Custom`] from a closure.
    pub fn custom(handler: impl Fn(UnrunTask, RejectReason, &Scheduler) + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(handler))
    }
}

impl fmt::Debug for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abort => "Abort",
            Self::CallerRuns => "CallerRuns",
            Self::Discard => "Discard",
            Self::DiscardOldest => "DiscardOldest",
            Self::Custom(_) => "Custom",
        })
    }
}

/// Decides what becomes of a refused task.
///
/// Closures `Fn(UnrunTask, RejectReason, &Scheduler)` are handlers.
pub trait RejectionHandler: Send + Sync {
    /// Called once for each refused task, in the submitting thread, without any lock held. The handler may run
    /// the task, keep it, or drop it: then its handle resolves as [`Abandoned`](crate::TaskError::Abandoned).
    fn rejected(&self, task: UnrunTask, reason: RejectReason, scheduler: &Scheduler);
}

impl<F: Fn(UnrunTask, RejectReason, &Scheduler) + Send + Sync> RejectionHandler for F {
    fn rejected(&self, task: UnrunTask, reason: RejectReason, scheduler: &Scheduler) {
        self(task, reason, scheduler);
    }
}

/// Whether a cancelled task leaves the queue at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum OnCancel {
    /// It does. The default.
    #[default]
    Remove,
    /// Its empty entry stays until it is due or [purged](crate::Executor::purge), as by default in Java. What
    /// the task had captured is dropped at once all the same.
    KeepUntilDue,
}

/// What happens when the last [`Executor`](crate::Executor) or [`Scheduler`] of a pool is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum OnDrop {
    /// An orderly [`shutdown`](Scheduler::shutdown): the threads finish what the shutdown policy leaves and end
    /// by themselves. The default.
    #[default]
    Detach,
    /// An orderly shutdown, and the drop waits for its end. On a worker of the same pool it does not wait.
    Join,
    /// A [stop](Scheduler::shutdown_now): running bodies are interrupted, queued tasks are dropped.
    Abort,
}
