//! What an executor tells the outside while it works.

#[cfg(feature = "metrics")]
mod metrics;
mod pair;
#[cfg(feature = "tracing")]
mod tracing;

use std::fmt;
use std::io;
use std::time::Duration;

use crate::error::Panic;
use crate::task::{RunOutcome, TaskInfo};
use crate::unobserved::UnobservedFailure;

#[cfg(feature = "metrics")]
pub use self::metrics::MetricsObserver;
#[cfg(feature = "tracing")]
pub use self::tracing::TracingObserver;

/// Hooks into an executor; see [`Builder::observer`](crate::Builder::observer).
///
/// Every method has an empty default. They are called without any lock held, so they may call back into the
/// executor, and they may panic: the panic is contained and told to [`contained`](Self::contained).
///
/// A pair `(a, b)` of observers is an observer: `a` nests round `b`. With the features `tracing` and `metrics` there
/// are ready-made ones, `TracingObserver` and `MetricsObserver`.
///
/// # Coming from Java
/// `beforeExecute`, `afterExecute` and `terminated` of `ThreadPoolExecutor`. The differences: `after_run` is
/// always told how the body ended; a `before_run` that panics ends the task with that panic instead of losing
/// it; no panic of a hook costs a worker.
pub trait Observer: Send + Sync + 'static {
    /// Called by the worker before each run. If it panics the body is not run, and the task ends with
    /// [`HookPanicked`](crate::TaskError::HookPanicked).
    fn before_run(&self, task: TaskInfo<'_>) {
        let _ = task;
    }

    /// Called by the worker after each run, before the outcome is published.
    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        let _ = (task, outcome);
    }

    /// Called when a run has taken twice its [timeout](crate::TaskBuilder::timeout) and is still going on: it was asked
    /// to stop, and did not. Called in the thread for timeouts, once for each such run.
    fn overrunning(&self, task: TaskInfo<'_>, took: Duration) {
        let _ = (task, took);
    }

    /// Called for a failure that nobody has looked at: a handle was dropped with the failure unread, or a periodic task
    /// was ended by it. By default it is written to standard error, in one line.
    fn unobserved(&self, failure: &UnobservedFailure) {
        failure.print();
    }

    /// Called once, when no task and no worker is left, before the executor counts as terminated.
    fn terminated(&self) {}

    /// Called by each worker thread before its first task.
    fn worker_started(&self) {}

    /// Called by each worker thread after its last task.
    fn worker_stopped(&self) {}

    /// Called when a worker thread could not be started, or the spawner dropped the worker. The executor tries
    /// again when it next needs one.
    fn spawn_failed(&self, error: &io::Error) {
        let _ = error;
    }

    /// Called when user code other than a body panicked and the executor went on.
    fn contained(&self, place: Place, panic: &Panic) {
        let _ = (place, panic);
    }
}

/// Where a panic was contained.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Place {
    /// [`Observer::before_run`]
    BeforeRun,
    /// [`Observer::after_run`] or [`Observer::overrunning`]
    AfterRun,
    /// [`Observer::terminated`]
    Terminated,
    /// [`Observer::worker_started`] or [`Observer::worker_stopped`]
    Worker,
    /// The destructor of a body, of what it captured, or of a value that nobody wanted.
    Destructor,
    /// A [`Spawner`](crate::Spawner).
    Spawner,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeRun => "the hook before a run",
            Self::AfterRun => "the hook after a run",
            Self::Terminated => "the hook at termination",
            Self::Worker => "a worker hook",
            Self::Destructor => "a destructor",
            Self::Spawner => "a thread spawner",
        })
    }
}
