//! Failures that nobody has looked at.
//!
//! A task that runs once and fails leaves an [`Unread`] in its cell, from before the outcome is published. Whoever asks
//! for the outcome takes it out. If the task goes while it is still there, because its handle was dropped before or
//! after the failure, the failure is reported then, by its destructor. So a success costs nothing, and a failure is
//! reported once or read.
//!
//! A periodic task that a failure ends is reported at once: nobody joins a series. So is a panic in a body that had been
//! cancelled, which no handle can tell of.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use crate::error::TaskError;
use crate::observe::Observer;
use crate::task::{TaskId, TaskInfo};
use crate::unwind;

/// A failure of a task that nobody has looked at; see [`Builder::unobserved`](crate::Builder::unobserved).
#[derive(Clone, Debug)]
pub struct UnobservedFailure {
    id: TaskId,
    name: Option<Arc<str>>,
    runs: u64,
    is_periodic: bool,
    error: TaskError,
}

impl UnobservedFailure {
    pub(crate) fn new(task: TaskInfo<'_>, error: TaskError) -> Self {
        Self {
            id: task.id(),
            name: task.name().map(Arc::from),
            runs: task.runs(),
            is_periodic: task.schedule().is_periodic(),
            error,
        }
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The name of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Which run of the task it was, counted from 1.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.runs
    }

    /// Whether the failure has ended a periodic task.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.is_periodic
    }

    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &TaskError {
        &self.error
    }

    /// One line on standard error.
    pub(crate) fn print(&self) {
        // Whatever the message is, it is one line. If there is no standard error, there is nobody to tell.
        let line: String = self.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(io::stderr(), "punctual: {line}");
    }
}

impl fmt::Display for UnobservedFailure {
    /// `task #7 "heartbeat" has stopped with run 3: the task panicked: no answer`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match self.is_periodic {
            true => write!(f, " has stopped with run {}: {}", self.runs, self.error),
            false => write!(f, " failed and nobody looked: {}", self.error),
        }
    }
}

/// The function of a user that is told.
pub(crate) type Sink = Arc<dyn Fn(&UnobservedFailure) + Send + Sync>;

/// Who is told of failures that nobody has looked at.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) sink: Option<Sink>,
}

impl Reporter {
    /// To be called without any lock: the observer and the sink are user code. Their panics have nobody to go to.
    pub(crate) fn report(&self, failure: &UnobservedFailure) {
        if let Some(sink) = &self.sink {
            let _ = unwind::catch(|| sink(failure));
        }
        match &self.observer {
            Some(observer) => drop(unwind::catch(|| observer.unobserved(failure))),
            None if self.sink.is_none() => failure.print(),
            None => {}
        }
    }
}

/// Whether it says that a body did not do what it was to do, so that somebody should know.
pub(crate) fn is_failure(error: &TaskError) -> bool {
    match error {
        TaskError::Panicked(_)
        | TaskError::HookPanicked(_)
        | TaskError::Failed(_)
        | TaskError::TimedOut(_) => true,
        TaskError::Cancelled | TaskError::Abandoned(_) | TaskError::Taken => false,
    }
}

/// Reports a failure when it is dropped, unless somebody has read it.
pub(crate) struct Unread {
    /// `None` once it is read.
    failure: Option<Box<(Arc<Reporter>, UnobservedFailure)>>,
}

impl Unread {
    pub(crate) fn new(reporter: &Arc<Reporter>, failure: UnobservedFailure) -> Self {
        Self { failure: Some(Box::new((Arc::clone(reporter), failure))) }
    }

    /// Somebody knows.
    pub(crate) fn read(mut self) {
        drop(self.failure.take());
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(unread) = self.failure.take() {
            let (reporter, failure) = *unread;
            reporter.report(&failure);
        }
    }
}
