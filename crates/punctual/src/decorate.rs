//! Wrapping every task of an executor.

use std::fmt;

use crate::task::TaskInfo;

/// Wraps every task that enters an executor; see [`Builder::decorator`](crate::Builder::decorator).
///
/// Closures `Fn(TaskInfo<'_>) -> Option<Box<dyn Decoration>>` are decorators.
///
/// # Coming from Java
/// `decorateTask` of `ScheduledThreadPoolExecutor`. There the wrapper takes the place of the task and must
/// forward its identity; here the task stays what it is, so a decorated one is found, cancelled and removed
/// like any other.
pub trait Decorator: Send + Sync + 'static {
    /// Called once for each task, by the submitting thread, before it is queued. `None` leaves it plain.
    fn decorate(&self, task: TaskInfo<'_>) -> Option<Box<dyn Decoration>>;
}

impl<F> Decorator for F
where
    F: Fn(TaskInfo<'_>) -> Option<Box<dyn Decoration>> + Send + Sync + 'static,
{
    fn decorate(&self, task: TaskInfo<'_>) -> Option<Box<dyn Decoration>> {
        self(task)
    }
}

/// What a [`Decorator`] puts round one task.
pub trait Decoration: Send {
    /// Called in place of the body, each time the task runs; calls `body` or leaves it out.
    ///
    /// A second call of `body` does nothing. A one-shot task whose body was left out ends as
    /// [`Abandoned`](crate::TaskError::Abandoned).
    fn run(&mut self, body: &mut dyn FnMut());

    /// Called when the task is cancelled or dropped before a run, by whoever did it.
    fn cancelled(&mut self) {}
}

impl fmt::Debug for dyn Decoration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoration")
    }
}
