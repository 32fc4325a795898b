//! Tasks whose bodies are futures.
//!
//! A run lasts from its first poll until its future is ready, is dropped, or panics. So periods, timeouts, overlap and
//! failures mean what they mean for bodies that are called, and need no second set of rules: the series is asked when a
//! run begins and when it ends, and what lies between is the affair of [`future`](crate::future).

use std::fmt::Display;
use std::future::Future;

use super::{Async, PeriodicBuilder, RetryBuilder, TaskBuilder};
use crate::error::Rejected;
use crate::future::{Each, Futures, Single};
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::series::{Attempt, Beat, Report, Whole, async_run};

impl Scheduler {
    /// Describes a task with an async body step by step, with all that [`task`](Self::task) has for others: names and
    /// tags, schedules, policies, timeouts and retries.
    ///
    /// The body is a closure that makes a future when a run is due, a new one for each run. It is called by a worker,
    /// and what it returns is polled as [`spawn`](Self::spawn) says, so no worker is held while the future waits. For
    /// one that another runtime is to poll, return what [`run_on`](crate::run_on) makes of it.
    ///
    /// A run lasts from its first poll until its future is ready: a fixed delay counts from there, and the next run of
    /// the task waits for it, unless the [overlap](crate::Overlap) policy says otherwise. Runs of different tasks, and
    /// other bodies, go on meanwhile, even on a single worker. A run has failed if its future panics, returns an `Err`,
    /// is dropped by its [timeout](TaskBuilder::timeout), or can no longer be woken by anybody.
    ///
    /// When the executor is shut down, a run that is under way is treated as a future that was spawned, and the runs
    /// that would follow as those of any task.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, OnFailure};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let timers = pool.scheduler();
    /// let report = pool
    ///     .task_async(move || {
    ///         let answer = timers.sleep(3 * Duration::from_secs(1));
    ///         async move { answer.await }
    ///     })
    ///     .name("report")
    ///     .every(10 * second)
    ///     .timeout(5 * second)
    ///     .on_failure(OnFailure::Continue)
    ///     .start()?;
    /// clock.advance(25 * second);
    /// assert_eq!((report.name(), report.runs(), report.info().failures()), (Some("report"), 3, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task_async<M>(&self, make: M) -> TaskBuilder<'_, M, Async> {
        TaskBuilder::new(self, make)
    }
}

impl<M> TaskBuilder<'_, M, Async> {
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
        let (task, traits, series) = self.into_parts();
        let source = Single(Some(task.body));
        let body = |wakes| Futures::<_, F, Whole>::new(wakes, series, source);
        let entered = task.scheduler.enter_polled(traits, task.when, body);
        entered.map_err(|rejected| {
            rejected.map(|body| body.into_source().0.expect("a task that was refused has not been run"))
        })
    }
}

impl<M> PeriodicBuilder<'_, M, Async> {
    /// Submits it. The future may return nothing, or a `Result`: see [`Report`].
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Overlap};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().core_threads(1).clock(clock.clone()).build()?;
    /// let timers = pool.scheduler();
    /// // A poll that hangs is dropped when the next one is due.
    /// let poll = pool
    ///     .task_async(move || timers.sleep(Duration::from_secs(3600)))
    ///     .every(second)
    ///     .overlap(Overlap::Replace)
    ///     .at_most(5)
    ///     .start()?;
    /// clock.advance(10 * second);
    /// assert_eq!(poll.runs(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`] returns the closure, as [`PeriodicBuilder::start`](PeriodicBuilder::<M>::start) does for others.
    pub fn start<F>(self) -> Result<TaskHandle<()>, Rejected<M>>
    where
        M: FnMut() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Report + 'static,
    {
        let (task, traits, series) = self.into_alone()?;
        let source = Each(task.body);
        let body = |wakes| Futures::<_, F, Beat>::new(wakes, Some(series), source);
        let entered = task.scheduler.enter_polled(traits, task.when, body);
        entered.map_err(|rejected| rejected.map(|body| body.into_source().0))
    }

    /// As [`start`](Self::start), for a closure that several threads may call at once: what
    /// [`Overlap::Allow`](crate::Overlap::Allow) needs. The futures take no threads while they wait, so any number of
    /// runs overlap on a single worker.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Overlap};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().core_threads(1).clock(clock.clone()).build()?;
    /// let timers = pool.scheduler();
    /// let probe = pool
    ///     .task_async(move || timers.sleep(Duration::from_secs(25)))
    ///     .every(10 * second)
    ///     .overlap(Overlap::Allow(3))
    ///     .start_shared()?;
    /// clock.advance(24 * second);
    /// assert_eq!((probe.runs(), probe.info().missed(), pool.stats().pool_size), (3, 0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_shared<F>(self) -> Result<TaskHandle<()>, Rejected<M>>
    where
        M: Fn() -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: Report + 'static,
    {
        match self.is_shared() {
            true => self.start_beat(async_run::<M, F>),
            false => self.start(),
        }
    }
}

impl<M> RetryBuilder<'_, M, Async> {
    /// Submits it. Each attempt is a future of its own.
    ///
    /// ```
    /// use punctual::{Backoff, Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let mut attempts = 0;
    /// let fetch = move || {
    ///     attempts += 1;
    ///     let attempt = attempts;
    ///     async move { if attempt < 3 { Err("no answer") } else { Ok(attempt) } }
    /// };
    /// let page = pool.task_async(fetch).timeout(5 * second).retry(Backoff::constant(second)).start()?;
    /// clock.advance(2 * second);
    /// assert_eq!((page.runs(), page.join()?), (3, Ok(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Rejected`] returns the closure, as [`Scheduler::schedule`] does.
    pub fn start<F, V, E>(self) -> Result<TaskHandle<Result<V, E>>, Rejected<M>>
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
        V: Send + 'static,
        E: Display + Send + 'static,
    {
        let (task, traits, series) = self.into_parts();
        let source = Each(task.body);
        let body = |wakes| Futures::<_, F, Attempt>::new(wakes, Some(series), source);
        let entered = task.scheduler.enter_polled(traits, task.when, body);
        entered.map_err(|rejected| rejected.map(|body| body.into_source().0))
    }
}
