//! One thread that runs tasks one after the other: Java's `Timer`, without its traps.

use std::fmt;
use std::time::Duration;

use punctual_engine::Schedule;

use crate::clock::Clock;
use crate::error::{Abandoned, InvalidArgument, Rejected};
use crate::executor::Executor;
use crate::handle::TaskHandle;
use crate::unrun::UnrunTask;
use crate::when::When;

/// A single thread for simple timed work.
///
/// ```
/// use punctual::Timer;
/// use std::{sync::mpsc, time::Duration};
///
/// let timer = Timer::new("reminder")?;
/// let (sender, receiver) = mpsc::channel();
/// timer.schedule(Duration::from_millis(1), move || sender.send("tea is ready").unwrap())?;
/// assert_eq!(receiver.recv()?, "tea is ready");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Delays and [ticks](crate::Tick) are those of a monotonic clock, and a change of the wall clock does not move them; a
/// task that is scheduled for a `SystemTime` follows the wall clock. Dropping the last clone lets one-shot tasks that
/// wait run at their time, after which the thread ends.
///
/// # Coming from Java
/// `java.util.Timer`. A task that panics ends itself and not the timer; tasks with one deadline run in the order
/// in which they were scheduled; a cancelled task leaves at once; cancelling the timer resolves every handle.
#[derive(Clone)]
pub struct Timer {
    executor: Executor,
}

impl Timer {
    /// A timer whose thread is called `name`; it starts with the first task.
    ///
    /// # Errors
    /// If the name contains a NUL.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidArgument> {
        Self::build(name.into(), Executor::builder())
    }

    /// As [`new`](Self::new), on `clock`.
    ///
    /// # Errors
    /// As there.
    pub fn with_clock(name: impl Into<String>, clock: impl Clock) -> Result<Self, InvalidArgument> {
        Self::build(name.into(), Executor::builder().clock(clock))
    }

    fn build(name: String, builder: crate::Builder) -> Result<Self, InvalidArgument> {
        Ok(Self { executor: builder.core_threads(1).exact_thread_name(name).build()? })
    }

    /// Runs `task` once, after a `Duration`, at a [`Tick`](crate::Tick) of the timer's clock or at a `SystemTime` of the
    /// wall clock. A time that has passed means now.
    ///
    /// # Errors
    /// [`Rejected`] returns the closure if the timer is cancelled.
    pub fn schedule<F>(&self, when: impl Into<When>, task: F) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.executor.once(None, when.into(), task)
    }

    /// Runs `task` again and again, each time `period` after it has *started*. A late run moves all that follow.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and if `period` is zero.
    pub fn schedule_repeating<F>(
        &self,
        first: impl Into<When>,
        period: Duration,
        task: F,
    ) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.executor.repeat(None, first.into(), Schedule::FixedStart(period), task)
    }

    /// Runs `task` on the grid `first + n × period`. Late runs are caught up, also those before now if `first`
    /// has passed.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and if `period` is zero.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        first: impl Into<When>,
        period: Duration,
        task: F,
    ) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.executor.repeat(None, first.into(), Schedule::FixedRate(period), task)
    }

    /// Ends the timer: no task is run any more, and every handle resolves. A body that runs goes on to its end,
    /// undisturbed. Says how many tasks were dropped.
    pub fn cancel(&self) -> usize {
        let pool = self.executor.pool();
        let (queued, running) = pool.stop();
        pool.discard_all(running);
        let unrun =
            queued.into_iter().map(|(task, turn)| UnrunTask::new(task, turn, pool, Abandoned::Stopped));
        unrun.filter_map(|task| task.cancel().then_some(())).count()
    }

    /// Whether [`cancel`](Self::cancel) has been called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.executor.is_shutdown()
    }

    /// Takes cancelled tasks out of the queue. There are none: a cancelled task leaves at once.
    pub fn purge(&self) -> usize {
        self.executor.purge()
    }

    /// Waits until the timer is [cancelled](Self::cancel) and its thread is gone; false if `timeout` is over
    /// first.
    #[must_use]
    pub fn await_termination(&self, timeout: Duration) -> bool {
        self.executor.await_termination(timeout)
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").field(&self.executor.stats()).finish()
    }
}
