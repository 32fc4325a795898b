//! What can go wrong, one small type per operation. Nothing that a caller handed in is lost on the way.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::unwind;

/// The payload of a panic, shared by everybody who asks for the outcome.
#[derive(Clone)]
pub struct Panic {
    shared: Arc<Payload>,
}

struct Payload {
    message: Box<str>,
    /// `None` once somebody has resumed it.
    payload: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Drop for Payload {
    /// Whoever is the last to hold the panic, a worker say, is not to die of it.
    fn drop(&mut self) {
        unwind::bury(self.payload.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Panic {
    /// Wraps what `catch_unwind` or `JoinHandle::join` returned.
    #[must_use]
    pub fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => Box::from(*text),
            (None, Some(text)) => Box::from(text.as_str()),
            (None, None) => Box::from("panic with a payload that is not text"),
        };
        Self { shared: Arc::new(Payload { message, payload: Mutex::new(Some(payload)) }) }
    }

    /// A failure of one's own making, for [`FutureTask::fail`](crate::FutureTask::fail).
    #[must_use]
    pub fn new(payload: impl Any + Send) -> Self {
        Self::from_payload(Box::new(payload))
    }

    /// The text the body panicked with.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.shared.message
    }

    /// Shows the payload to `look`; `None` if it was taken or is not a `P`.
    ///
    /// It is locked meanwhile: `look` must not ask this panic for its payload again.
    pub fn with_payload<P: Any, R>(&self, look: impl FnOnce(&P) -> R) -> Option<R> {
        let payload = self.shared.payload.lock().unwrap_or_else(PoisonError::into_inner);
        payload.as_deref()?.downcast_ref().map(look)
    }

    /// Takes the payload, leaving the message; `None` if it was taken before.
    #[must_use]
    pub fn take_payload(&self) -> Option<Box<dyn Any + Send>> {
        self.shared.payload.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Goes on panicking in the calling thread, with the original payload if it is still there.
    pub fn resume(&self) -> ! {
        let message = || Box::new(self.message().to_owned()) as Box<dyn Any + Send>;
        std::panic::resume_unwind(self.take_payload().unwrap_or_else(message))
    }

    /// Whether both are the same panic, not just equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Why a task has no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// It was cancelled, by its handle or by a shutdown.
    Cancelled,
    /// Its body panicked.
    Panicked(Panic),
    /// A hook panicked before the body was run, and so it was not.
    HookPanicked(Panic),
    /// Its body returned an `Err`, with this message.
    Failed(Message),
    /// Its body ran into its timeout of this length.
    TimedOut(Duration),
    /// It left the executor unrun, and whoever had it dropped it.
    Abandoned(Abandoned),
    /// It had a value, which was taken earlier.
    Taken,
}

/// What a body said when it failed: the text of its `Err`.
///
/// One word, because every task has room for the failure it may end with.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message(Arc<Box<str>>);

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self(Arc::new(text.into()))
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self(Arc::new(text.into()))
    }
}

impl Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// How a task came to be dropped unrun.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Abandoned {
    /// Taken out of the queue by its owner.
    Removed,
    /// Drained by [`shutdown_now`](crate::Scheduler::shutdown_now).
    Stopped,
    /// Refused, and discarded by the [`Rejection`](crate::Rejection) policy.
    Rejected,
    /// Thrown out to make room for a newer one.
    Displaced,
    /// No thread could be had to run it.
    NoWorker,
    /// The object that would have run it is gone.
    Dropped,
    /// It could only have begun later than its [`Missed`](crate::Missed) policy allows, and there was no next time.
    Missed,
}

impl TaskError {
    /// Whether this is [`TaskError::Cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// The panic behind it, of the body or of a hook.
    #[must_use]
    pub fn panic(&self) -> Option<&Panic> {
        match self {
            Self::Panicked(panic) | Self::HookPanicked(panic) => Some(panic),
            _ => None,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Panicked(panic) => write!(f, "the task panicked: {panic}"),
            Self::HookPanicked(panic) => write!(f, "the task was not run because a hook panicked: {panic}"),
            Self::Failed(message) => write!(f, "the task failed: {message}"),
            Self::TimedOut(timeout) => write!(f, "the task took longer than its timeout of {timeout:?}"),
            Self::Abandoned(how) => write!(f, "the task was dropped unrun: {how}"),
            Self::Taken => f.write_str("the value of the task was taken before"),
        }
    }
}

impl Error for TaskError {}

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "removed from the queue",
            Self::Stopped => "the executor was stopped",
            Self::Rejected => "discarded by the rejection policy",
            Self::Displaced => "displaced by a newer task",
            Self::NoWorker => "no thread could be started",
            Self::Dropped => "its owner is gone",
            Self::Missed => "its time had passed",
        })
    }
}

/// Why a wait for a task ended without its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The time given was over first. The task goes on, and can be waited for again.
    Timeout,
    /// The wait was made inside a task, and that task was interrupted.
    Interrupted,
    /// The task was told to wait for itself, which would never end.
    WouldDeadlock,
    /// The task ended without a value.
    Task(TaskError),
}

impl WaitError {
    /// The outcome of the task, if that is what ended the wait.
    #[must_use]
    pub fn task(&self) -> Option<&TaskError> {
        match self {
            Self::Task(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the wait ended because the task was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.task().is_some_and(TaskError::is_cancelled)
    }

    /// Whether the wait ended because its time was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout)
    }

    /// The panic that ended the task.
    #[must_use]
    pub fn panic(&self) -> Option<&Panic> {
        self.task().and_then(TaskError::panic)
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("the wait timed out"),
            Self::Interrupted => f.write_str("the waiting task was interrupted"),
            Self::WouldDeadlock => f.write_str("a task cannot wait for itself"),
            Self::Task(error) => error.fmt(f),
        }
    }
}

impl Error for WaitError {}

impl From<TaskError> for WaitError {
    fn from(error: TaskError) -> Self {
        Self::Task(error)
    }
}

/// A wait inside a task ended early because the task was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task was interrupted")
    }
}

impl Error for Interrupted {}

impl From<Interrupted> for WaitError {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Why an executor refused a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// The executor has been shut down.
    ShutDown,
    /// As many tasks are waiting as [`capacity`](crate::Builder::capacity) allows, and every thread is busy.
    Saturated,
    /// A period of zero would run for ever without time passing.
    ZeroPeriod,
    /// There is no worker, and no thread could be started.
    NoWorker,
    /// Its schedule has no point ahead: a calendar that has ended, or an end before the first run.
    NeverDue,
    /// Runs that [overlap](crate::Overlap::Allow) need a body that several threads may call:
    /// [`start_shared`](crate::PeriodicBuilder::start_shared).
    NotShared,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ShutDown => "the executor is shut down",
            Self::Saturated => "the executor is saturated",
            Self::ZeroPeriod => "the period is zero",
            Self::NoWorker => "no worker thread could be started",
            Self::NeverDue => "the schedule has no point ahead",
            Self::NotShared => "runs that overlap need a shared body",
        })
    }
}

/// A task that was refused, with the closure.
pub struct Rejected<F> {
    task: F,
    reason: RejectReason,
}

impl<F> Rejected<F> {
    pub(crate) fn new(task: F, reason: RejectReason) -> Self {
        Self { task, reason }
    }

    /// Why it was refused.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }

    /// The closure, to be run elsewhere.
    pub fn into_task(self) -> F {
        self.task
    }

    pub(crate) fn map<G>(self, f: impl FnOnce(F) -> G) -> Rejected<G> {
        Rejected { task: f(self.task), reason: self.reason }
    }
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task rejected: {}", self.reason)
    }
}

impl<F> Error for Rejected<F> {}

/// A setting that cannot be: the old one stays in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidArgument {
    message: String,
}

impl InvalidArgument {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for InvalidArgument {}

/// Why [`invoke_all`](crate::Scheduler::invoke_all) gave up. Every task it had submitted is cancelled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InvokeAllError {
    /// The executor refused one of the tasks.
    Rejected(RejectReason),
    /// The calling task was interrupted.
    Interrupted,
}

impl fmt::Display for InvokeAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(reason) => write!(f, "task rejected: {reason}"),
            Self::Interrupted => Interrupted.fmt(f),
        }
    }
}

impl Error for InvokeAllError {}

/// Why [`invoke_any`](crate::Scheduler::invoke_any) has no value. Every task it had submitted is cancelled.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvokeAnyError<E> {
    /// There was nothing to run.
    Empty,
    /// The executor refused a task before any had succeeded.
    Rejected(RejectReason),
    /// The calling task was interrupted.
    Interrupted,
    /// None succeeded in time.
    Timeout,
    /// All failed; this is the error of the one that failed last.
    Failed(E),
    /// All failed, and the last did so without an error of its own (it panicked, say).
    Died(TaskError),
}

impl<E: fmt::Display> fmt::Display for InvokeAnyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there was no task to run"),
            Self::Rejected(reason) => write!(f, "task rejected: {reason}"),
            Self::Interrupted => Interrupted.fmt(f),
            Self::Timeout => f.write_str("no task succeeded in time"),
            Self::Failed(error) => write!(f, "every task failed, the last with: {error}"),
            Self::Died(error) => write!(f, "every task failed: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for InvokeAnyError<E> {}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::TaskError;

    /// Two words, beside a unit value as well: every waiting task has room for the failure it may end with.
    #[test]
    fn a_failure_costs_a_task_no_more_than_sixteen_bytes() {
        assert!(size_of::<TaskError>() <= 16, "{}", size_of::<TaskError>());
        assert!(size_of::<Result<(), TaskError>>() <= 16);
    }
}
