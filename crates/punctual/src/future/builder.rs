//! One way to describe a task with an async body.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::Schedule;

use crate::error::Rejected;
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::when::When;

/// A task with an async body that is being described; see [`Scheduler::task_async`]. Nothing happens before
/// `start`.
///
/// The closure makes the future when its time has come: it runs on a worker, and what it returns is polled as
/// [`Scheduler::spawn`] says, so no worker is held while the future waits.
///
/// ```
/// use punctual::{Executor, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let inner = pool.clone();
/// let report = pool
///     .task_async(move || {
///         let nap = inner.sleep(Duration::from_secs(3));
///         async move { nap.await.unwrap() }
///     })
///     .name("report")
///     .every(Duration::from_secs(10))
///     .start()?;
/// clock.advance(Duration::from_secs(25));
/// assert_eq!((report.name(), report.runs()), (Some("report"), 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task runs only when it is started"]
pub struct AsyncBuilder<'a, M> {
    scheduler: &'a Scheduler,
    make: M,
    name: Option<Arc<str>>,
    when: When,
}

/// An [`AsyncBuilder`] for a task that runs more than once.
///
/// A run lasts from the call of the closure until its future is ready, and [periods](crate::Schedule) count as
/// they do for other tasks: from deadline to deadline, or from the end of a run. Runs of one task never overlap;
/// those of different tasks, and sync bodies, do, even on a single worker.
///
/// The series ends when the handle is cancelled, a run panics, nobody can wake the future of a run any more, or the
/// shutdown policy says so: a run that is under way is then treated as a future that was spawned, and the periods
/// that would follow as those of a periodic task.
#[must_use = "a task runs only when it is started"]
pub struct AsyncPeriodicBuilder<'a, M> {
    task: AsyncBuilder<'a, M>,
    schedule: Schedule,
}

impl<'a, M> AsyncBuilder<'a, M> {
    pub(super) fn new(scheduler: &'a Scheduler, make: M) -> Self {
        Self { scheduler, make, name: None, when: When::After(Duration::ZERO) }
    }

    /// Names the task, for listings, hooks and messages. By default it has no name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// When the (first) run is due: after a `Duration`, or at a [`Tick`](crate::Tick) of the executor's clock.
    /// By default at once.
    pub fn first(mut self, when: impl Into<When>) -> Self {
        self.when = when.into();
        self
    }

    /// As [`first`](Self::first) with a delay.
    pub fn after(self, delay: Duration) -> Self {
        self.first(delay)
    }

    /// Runs it on the grid `first + n × period`; see [`Scheduler::schedule_at_fixed_rate`].
    pub fn every(self, period: Duration) -> AsyncPeriodicBuilder<'a, M> {
        AsyncPeriodicBuilder { task: self, schedule: Schedule::FixedRate(period) }
    }

    /// Runs it again `delay` after its future was ready; see [`Scheduler::schedule_with_fixed_delay`].
    pub fn with_fixed_delay(self, delay: Duration) -> AsyncPeriodicBuilder<'a, M> {
        AsyncPeriodicBuilder { task: self, schedule: Schedule::FixedDelay(delay) }
    }

    /// Runs it again `period` after it has started.
    pub fn with_fixed_start(self, period: Duration) -> AsyncPeriodicBuilder<'a, M> {
        AsyncPeriodicBuilder { task: self, schedule: Schedule::FixedStart(period) }
    }

    /// Submits it for one run.
    ///
    /// # Errors
    /// [`Rejected`] returns the closure, as [`Scheduler::schedule`] does.
    pub fn start<F>(self) -> Result<TaskHandle<F::Output>, Rejected<M>>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let Self { scheduler, make, name, when } = self;
        scheduler.enter_made(name, when, make)
    }
}

impl<M> AsyncPeriodicBuilder<'_, M> {
    /// Submits it.
    ///
    /// # Errors
    /// [`Rejected`] returns the closure, as [`Scheduler::schedule_at_fixed_rate`] does.
    pub fn start<F>(self) -> Result<TaskHandle<()>, Rejected<M>>
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let AsyncBuilder { scheduler, make, name, when } = self.task;
        scheduler.enter_remade(name, when, self.schedule, make)
    }
}

impl<M> fmt::Debug for AsyncBuilder<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncBuilder")
            .field("name", &self.name)
            .field("when", &self.when)
            .finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for AsyncPeriodicBuilder<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncPeriodicBuilder")
            .field("task", &self.task)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}
