//! The caller's grip on one task.

use std::cmp::Ordering;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use crate::error::{Abandoned, TaskError, WaitError};
use crate::failure::FailedRun;
use crate::pool::{Pool, Steered};
use crate::remote::TaskRemote;
use crate::task::{Grip, Task, TaskId, TaskState, TaskView, Turn, TypedRef, join, wait_for};
use crate::unrun::UnrunTask;
use crate::when::When;

/// A grip on one task: wait for it, await it, look at it, cancel it.
///
/// The result is taken by value, once. Dropping the handle lets the task go on; see
/// [`cancel_on_drop`](Self::cancel_on_drop) for the opposite. Every handle resolves: whatever becomes of the
/// task or its executor, nobody who waits is left waiting.
///
/// ```
/// use punctual::Executor;
/// use std::time::Duration;
///
/// let pool = Executor::new(2);
/// let answer = pool.schedule(Duration::from_millis(5), || 6 * 7)?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// `ScheduledFuture`. `get` is [`join`](Self::join), `cancel(false)` is [`cancel`](Self::cancel), `cancel(true)`
/// is [`interrupt`](Self::interrupt). It is also a Rust [`Future`], under any runtime or none.
pub struct TaskHandle<T> {
    task: Grip<T>,
}

// Users have a million of them.
const _: () = assert!(size_of::<TaskHandle<String>>() == size_of::<usize>());

impl<T> TaskHandle<T> {
    /// The handle of a task that has been submitted, or refused.
    pub(crate) fn new(task: Grip<T>) -> Self {
        Self { task }
    }

    fn pool(&self) -> &Arc<Pool> {
        self.task.tether()
    }

    pub(crate) fn task(&self) -> &dyn Task {
        self.task.as_task()
    }

    #[cfg(all(test, not(punctual_loom)))]
    pub(crate) fn goes_by_mark(&self) -> bool {
        self.task.by_mark().is_some()
    }

    pub(crate) fn typed(&self) -> TypedRef<T> {
        self.task.share()
    }

    /// A second grip on the same task; the value still goes to one of them only.
    pub(crate) fn another(&self) -> Self {
        Self { task: self.task.clone() }
    }

    /// Its place in the order, as planned now.
    fn turn(&self) -> Turn {
        self.task.header().turn()
    }

    /// Tells the task its place.
    pub(crate) fn tell_turn(&self) {
        self.task.header().learn();
    }

    /// The task, which is told its place, because it may be about to change.
    fn steered(&self) -> &dyn Task {
        self.tell_turn();
        self.task()
    }

    // ---- looking

    /// The id of the task, unique in its executor, in order of submission.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.turn().id
    }

    /// The name of the task, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.task.header().name().map(|name| &**name)
    }

    /// Where the task is in its life.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.task.state()
    }

    /// Whether the task is over, in whatever way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Whether the task was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state() == TaskState::Cancelled
    }

    /// Whether the task runs more than once.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.task.header().schedule().is_periodic()
    }

    /// Whether the task is in its executor's queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.pool().core.lock().queue.contains(self.task.header().key())
    }

    /// How many runs have begun.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.task.header().runs()
    }

    /// The instant from which the next run is allowed, or the last one was. For a
    /// [future](crate::Scheduler::spawn) that waits to be woken it is [`Tick::MAX`].
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.pool().planned(self.task.header(), self.turn())
    }

    /// How long until the [`deadline`](Self::deadline), or since.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        Remaining::between(self.pool().clock.now(), self.deadline())
    }

    /// Why the task has no value, if it is over and has none. May be asked any number of times.
    #[must_use]
    pub fn failure(&self) -> Option<TaskError> {
        self.task.failure()
    }

    /// All that can be seen of the task, at this instant.
    #[must_use]
    pub fn info(&self) -> TaskView {
        self.pool().view(self.task(), self.turn())
    }

    /// The last runs that failed, the newest last; at most 16. For a task without policies it is empty: see
    /// [`failure`](Self::failure).
    #[must_use]
    pub fn recent_failures(&self) -> Vec<FailedRun> {
        self.pool().recent_failures(self.task())
    }

    /// The deadlines of the next `n` runs, as far as they are known beforehand; none while the task is paused.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Tick};
    /// use std::time::Duration;
    ///
    /// let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let backup = pool.task(|| ()).after(hour).every(12 * hour).at_most(3).start()?;
    /// let hours: Vec<u64> = backup.upcoming(10).iter().map(|at| at.since(Tick::ZERO).as_secs() / 3600).collect();
    /// assert_eq!(hours, [1, 13, 25]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn upcoming(&self, n: usize) -> Vec<Tick> {
        self.pool().upcoming(self.steered(), n)
    }

    /// As [`upcoming`](Self::upcoming), by the wall clock as it is now.
    #[must_use]
    pub fn upcoming_wall(&self, n: usize) -> Vec<SystemTime> {
        self.pool().upcoming_wall(self.steered(), n)
    }

    // ---- waiting

    /// Waits for the task and takes its value.
    ///
    /// For a periodic task this returns only when the series ends: with `Ok(())` if it was to end, after so many runs
    /// ([`at_most`](crate::PeriodicBuilder::at_most)) or at an instant ([`until`](crate::PeriodicBuilder::until)),
    /// and with an error otherwise.
    ///
    /// # Errors
    /// [`WaitError::Task`] if the task ended without a value, or the value was taken before;
    /// [`WaitError::Interrupted`] if the call was made inside a task which is interrupted;
    /// [`WaitError::WouldDeadlock`] if a task waits for itself.
    pub fn join(&self) -> Result<T, WaitError> {
        join(&*self.task, Some(self.deadline()), &*self.pool().clock, None)
    }

    /// As [`join`](Self::join), but waits at most `timeout`, on the executor's clock.
    ///
    /// # Errors
    /// As [`join`](Self::join), and [`WaitError::Timeout`] when the time is over: the task goes on, and the
    /// handle can be used again.
    pub fn join_timeout(&self, timeout: Duration) -> Result<T, WaitError> {
        let until = self.pool().clock.now().after(timeout);
        join(&*self.task, Some(self.deadline()), &*self.pool().clock, Some(until))
    }

    /// Takes the outcome if the task is over; never blocks.
    #[must_use]
    pub fn try_join(&self) -> Option<Result<T, TaskError>> {
        self.task.take()
    }

    /// Waits until the task is over and leaves the value where it is, for any number of threads.
    ///
    /// # Errors
    /// As [`join`](Self::join), but how the task ended is not one.
    pub fn wait(&self) -> Result<(), WaitError> {
        self.wait_until(None)
    }

    /// As [`wait`](Self::wait), but at most `timeout`, on the executor's clock.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`WaitError::Timeout`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_until(Some(self.pool().clock.now().after(timeout)))
    }

    pub(crate) fn wait_until(&self, until: Option<Tick>) -> Result<(), WaitError> {
        wait_for(self.task(), Some(self.deadline()), &*self.pool().clock, until)
    }

    // ---- steering

    /// Keeps the task from running until it is [resumed](Self::resume). A run that is going on ends undisturbed.
    ///
    /// A task that is paused when its executor is shut down is cancelled: nobody could wait for it.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Steered};
    /// use std::time::Duration;
    ///
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let poll = pool.schedule_at_fixed_rate(minute, minute, || ())?;
    /// assert_eq!((poll.pause(), poll.pause()), (Steered::Now, Steered::Already));
    /// clock.advance(10 * minute + minute / 2);
    /// assert_eq!((poll.resume(), poll.runs()), (Steered::Now, 0));
    /// assert_eq!(poll.remaining().duration(), minute / 2); // on its grid, and no burst
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause(&self) -> Steered {
        self.pool().pause(self.steered())
    }

    /// Lets a [paused](Self::pause) task run again. What fell into the pause is left out: a task with a grid goes on
    /// with its next point, another runs when it was to run, or at once if that has passed.
    pub fn resume(&self) -> Steered {
        self.pool().resume(self.steered())
    }

    /// Moves the next run to another time, and with it the grid of a fixed rate; a calendar is taken up again after
    /// that run. While the task runs, this is about the run after it: a body may reschedule its own task.
    ///
    /// An instant of wall time is translated as the wall clock is now: unlike the times that a task is made with, it does
    /// not follow that clock when it is set afterwards.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Steered};
    /// use std::time::Duration;
    ///
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let reminder = pool.schedule(10 * minute, || "tea")?;
    /// assert_eq!(reminder.reschedule(3 * minute), Steered::Now);
    /// clock.advance(3 * minute);
    /// assert_eq!(reminder.join()?, "tea");
    /// assert_eq!(reminder.reschedule(minute), Steered::Over);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reschedule(&self, when: impl Into<When>) -> Steered {
        self.pool().reschedule(self.steered(), when.into())
    }

    /// Has the task run as soon as a thread is free, besides the runs that are planned: the schedule does not move.
    /// A task that runs once does so now instead of later. One that is running runs once more straight after it; one
    /// that is paused runs, and stays paused. Where runs [overlap](crate::Overlap::Allow) it waits until there is a place.
    pub fn trigger_now(&self) -> Steered {
        self.pool().trigger(self.steered())
    }

    /// The same grip without the value, which can be given to others.
    #[must_use]
    pub fn remote(&self) -> TaskRemote {
        {
            self.task.header().learn();
            TaskRemote::new(self.task.erase(), self.pool())
        }
    }

    // ---- ending

    /// Cancels the task; false if it is over.
    ///
    /// A task that waits never runs, nobody finds it in the queue any more, and what it captured has been dropped when this
    /// returns. A body that runs goes on to its end, undisturbed; its value is dropped. Either way whoever
    /// waits for the task is released now.
    pub fn cancel(&self) -> bool {
        self.task.by_mark().is_some_and(|task| self.pool().cancel_by_mark(&task))
            || self.pool().cancel(self.task())
    }

    /// [Cancels](Self::cancel) the task, and if its body runs asks it to stop: see
    /// [`TaskContext::is_interrupted`](crate::TaskContext::is_interrupted).
    pub fn interrupt(&self) -> bool {
        self.pool().cancel_and_interrupt(self.task())
    }

    /// Takes the task out of the queue, unrun; `None` if it is not there.
    pub fn remove(&self) -> Option<UnrunTask> {
        let task = self.pool().remove(self.task())?;
        Some(UnrunTask::new(task, self.turn(), self.pool(), Abandoned::Removed))
    }

    /// Turns the handle into a guard that cancels the task when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop { handle: Some(self) }
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.task.poll(context.waker()) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TaskHandle");
        out.field("id", &self.id()).field("name", &self.name()).field("state", &self.state());
        if let Some(panic) = self.failure().as_ref().and_then(TaskError::panic) {
            out.field("panic", &panic.message());
        }
        out.finish()
    }
}

/// Cancels its task when dropped: for a timeout that usually does not happen.
///
/// ```
/// use punctual::Executor;
/// use std::time::Duration;
///
/// let pool = Executor::new(1);
/// {
///     let _guard = pool.schedule(Duration::from_secs(30), || panic!("too slow"))?.cancel_on_drop();
///     // ... what must be done within 30 seconds
/// }
/// assert_eq!(pool.stats().queued, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard cancels the task"]
pub struct CancelOnDrop<T> {
    /// `None` once disarmed.
    handle: Option<TaskHandle<T>>,
}

impl<T> CancelOnDrop<T> {
    /// Gives the handle back; the task goes on.
    pub fn disarm(mut self) -> TaskHandle<T> {
        self.handle.take().expect("present until it is consumed")
    }
}

impl<T> Deref for CancelOnDrop<T> {
    type Target = TaskHandle<T>;

    fn deref(&self) -> &TaskHandle<T> {
        self.handle.as_ref().expect("present until it is consumed")
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel();
        }
    }
}

/// How long until a deadline, or how long since.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Remaining {
    /// The deadline is so far ahead.
    In(Duration),
    /// The deadline has come, so long ago.
    Overdue(Duration),
}

impl Remaining {
    pub(crate) fn between(now: Tick, deadline: Tick) -> Self {
        if deadline > now { Self::In(deadline.since(now)) } else { Self::Overdue(now.since(deadline)) }
    }

    /// The time until the deadline; zero if it has come.
    #[must_use]
    pub fn duration(self) -> Duration {
        match self {
            Self::In(duration) => duration,
            Self::Overdue(_) => Duration::ZERO,
        }
    }

    /// Whether the deadline has come.
    #[must_use]
    pub fn is_due(self) -> bool {
        matches!(self, Self::Overdue(_))
    }

    fn signed(self) -> i128 {
        match self {
            Self::In(duration) => duration.as_nanos() as i128,
            Self::Overdue(duration) => -(duration.as_nanos() as i128),
        }
    }
}

impl PartialOrd for Remaining {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is due first is least.
impl Ord for Remaining {
    fn cmp(&self, other: &Self) -> Ordering {
        self.signed().cmp(&other.signed())
    }
}

impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(duration) => write!(f, "in {duration:?}"),
            Self::Overdue(duration) => write!(f, "due for {duration:?}"),
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::time::Duration;

    use super::TaskHandle;
    use crate::{Builder, Executor, ManualClock, Rejection, TaskInfo};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Who does so behaves like all others, so it cannot be seen from outside.
    #[test]
    fn what_is_far_and_has_nothing_to_be_dropped_goes_by_its_mark_and_nothing_else_does() {
        let pool = |builder: Builder| builder.clock(ManualClock::new()).build().unwrap();
        let executor = pool(Executor::builder());
        let text = String::from("to be dropped");
        let others = [
            executor.submit(|| ()).unwrap(),
            executor.schedule(Duration::from_millis(999), || ()).unwrap(),
            executor.schedule(HOUR, move || drop(text)).unwrap(),
            executor.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap(),
            executor.task(|| ()).name("named").after(HOUR).start().unwrap(),
        ];
        assert!(!others.iter().any(TaskHandle::goes_by_mark));
        let decorated = pool(Executor::builder().decorator(|_: TaskInfo<'_>| None));
        assert!(!decorated.schedule(HOUR, || ()).unwrap().goes_by_mark());
        let full = pool(Executor::builder().capacity(1).rejection(Rejection::custom(|_, _, _| ())));
        let _first = full.schedule(HOUR, || ()).unwrap();
        assert!(!full.schedule(HOUR, || ()).unwrap().goes_by_mark(), "it was refused");
        // Some chunks that this thread finds may have tasks of other pools.
        let handles: Vec<_> = (0..2_000).map(|_| executor.schedule(HOUR, || ()).unwrap()).collect();
        let by_mark: Vec<_> = handles.iter().filter(|handle| handle.goes_by_mark()).collect();
        assert!(by_mark.len() > 1_000, "{} of them do", by_mark.len());
        assert!(!by_mark.iter().any(|handle| handle.another().goes_by_mark()), "one handle alone");
    }
}
