//! One way to describe a task; the four Java forms are shorthands of it.
//!
//! [`TaskBuilder`] is a task that runs once. Saying how often it runs makes it a [`PeriodicBuilder`], which has the
//! policies of a series; saying that it is to be tried again makes it a [`RetryBuilder`]. What is said is the same
//! whether the body is [called](Blocking) or makes a [future](Async); only `start` is different, and for futures it is in
//! `futures.rs`.

#[cfg(feature = "cron")]
mod cron;
mod futures;
mod periodic;
mod retry;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{RunTimes, Schedule, Tick};

use crate::calendar::Calendar;
use crate::error::Rejected;
use crate::handle::TaskHandle;
use crate::policy::{Backoff, Missed, Priority};
use crate::scheduler::Scheduler;
use crate::series::{Plan, Rules, Series, Shelf};
use crate::task::Traits;
use crate::when::When;

pub use periodic::PeriodicBuilder;
pub use retry::RetryBuilder;

/// Says of a [`TaskBuilder`] that its body is a closure which does the work: see [`Scheduler::task`].
#[derive(Debug)]
pub enum Blocking {}

/// Says of a [`TaskBuilder`] that its body is a closure which makes a future: see [`Scheduler::task_async`].
#[derive(Debug)]
pub enum Async {}

/// A task that is being described; see [`Scheduler::task`] and, for bodies that are futures,
/// [`Scheduler::task_async`]. Nothing happens before `start`.
///
/// ```
/// use punctual::{Executor, ManualClock, Missed, OnFailure};
/// use std::time::Duration;
///
/// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let sweep = pool
///     .task(|| std::fs::read_dir(".").map(Iterator::count))
///     .name("sweep")
///     .tag("housekeeping")
///     .after(5 * minute)
///     .every(minute)
///     .missed(Missed::skip())
///     .on_failure(OnFailure::StopAfter(3))
///     .at_most(10)
///     .start()?;
/// clock.advance(60 * minute);
/// assert_eq!((sweep.runs(), sweep.join()?), (10, ()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task runs only when it is started"]
pub struct TaskBuilder<'a, F, K = Blocking> {
    scheduler: &'a Scheduler,
    body: F,
    name: Option<Arc<str>>,
    tags: Vec<Arc<str>>,
    when: When,
    timeout: Option<Duration>,
    max_lateness: Option<Duration>,
    priority: Option<Priority>,
    kind: PhantomData<K>,
}

impl<'a, F, K> TaskBuilder<'a, F, K> {
    pub(crate) fn new(scheduler: &'a Scheduler, body: F) -> Self {
        Self {
            scheduler,
            body,
            name: None,
            tags: Vec::new(),
            when: When::After(Duration::ZERO),
            timeout: None,
            max_lateness: None,
            priority: None,
            kind: PhantomData,
        }
    }

    /// Names the task, for listings, hooks and messages, and to [find](Scheduler::find) it by. By default it has no
    /// name. Names need not be unique.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a tag, to find tasks [together](Scheduler::tagged) by. By default there are none.
    pub fn tag(mut self, tag: impl Into<Arc<str>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// When the (first) run is due: after a `Duration`, at a [`Tick`] of the executor's clock, or at a `SystemTime` of
    /// its wall clock. By default at once.
    pub fn first(mut self, when: impl Into<When>) -> Self {
        self.when = when.into();
        self
    }

    /// As [`first`](Self::first) with a delay.
    pub fn after(self, delay: Duration) -> Self {
        self.first(delay)
    }

    /// How long a run may take. By default as long as it likes.
    ///
    /// When the time is over the run is [asked to stop](crate::TaskContext::is_interrupted), and whatever it does
    /// then, it has failed with [`TimedOut`](crate::TaskError::TimedOut). A body that does not heed the request keeps
    /// its thread, and when it has taken twice the time it is reported as
    /// [overrunning](crate::Observer::overrunning). Time spent waiting for a thread does not count.
    ///
    /// A run that is a [future](Scheduler::task_async) counts from its first poll. When the time is over it is made due,
    /// and the next free worker drops the future instead of polling it; one that is being polled is dropped after that
    /// poll.
    ///
    /// ```
    /// use punctual::{Executor, TaskContext, TaskError};
    /// use std::time::Duration;
    ///
    /// let pool = Executor::new(1);
    /// let nap = || TaskContext::current().sleep(Duration::from_secs(3600));
    /// let task = pool.task(nap).timeout(Duration::from_millis(1)).start()?;
    /// assert!(matches!(task.join().unwrap_err().task(), Some(TaskError::TimedOut(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Leaves the run out if it could only begin later than this after its time: the handle resolves as
    /// [abandoned](crate::Abandoned::Missed). By default nothing is too late. For periodic tasks this is the bound of
    /// their [`Missed`] policy, unless that has one of its own.
    pub fn max_lateness(mut self, lateness: Duration) -> Self {
        self.max_lateness = Some(lateness);
        self
    }

    /// Lets it go ahead of other tasks that are due. By default the order is that of the deadlines.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Runs it on the grid `first + n × period`; see [`Scheduler::schedule_at_fixed_rate`].
    pub fn every(self, period: Duration) -> PeriodicBuilder<'a, F, K> {
        PeriodicBuilder::new(self, Schedule::FixedRate(period))
    }

    /// Runs it again `delay` after it has ended; see [`Scheduler::schedule_with_fixed_delay`].
    pub fn with_fixed_delay(self, delay: Duration) -> PeriodicBuilder<'a, F, K> {
        PeriodicBuilder::new(self, Schedule::FixedDelay(delay))
    }

    /// Runs it again `period` after it has started, as Java's `Timer` does.
    pub fn with_fixed_start(self, period: Duration) -> PeriodicBuilder<'a, F, K> {
        PeriodicBuilder::new(self, Schedule::FixedStart(period))
    }

    /// Runs it at the points of a [`Calendar`], the first after [`first`](Self::first). What is missed is run
    /// [once](Missed::once) by default.
    pub fn calendar(self, calendar: impl Calendar) -> PeriodicBuilder<'a, F, K> {
        PeriodicBuilder::with_plan(self, Plan::Calendar(Shelf::new(calendar)), None)
    }

    /// Runs it again when `next` says, which is asked after each run and told of it. `None` ends the series; an
    /// instant that has passed means at once.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// // Ever more rarely, four times.
    /// let mut pause = second;
    /// let poll = pool
    ///     .task(|| ())
    ///     .next_by(move |run| {
    ///         pause *= 2;
    ///         (pause < 20 * second).then(|| run.ended.after(pause))
    ///     })
    ///     .start()?;
    /// clock.advance(2 * second + 4 * second + 8 * second + 16 * second);
    /// assert_eq!(poll.runs(), 5);
    /// assert!(poll.is_done());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_by(
        self,
        next: impl FnMut(RunTimes) -> Option<Tick> + Send + 'static,
    ) -> PeriodicBuilder<'a, F, K> {
        PeriodicBuilder::with_plan(self, Plan::NextBy, Some(Box::new(next)))
    }

    /// Runs it until it returns `Ok`, with a pause after each `Err` or panic; see [`RetryBuilder`].
    pub fn retry(self, backoff: Backoff) -> RetryBuilder<'a, F, K> {
        RetryBuilder::new(self, backoff)
    }

    /// The traits of a task that runs once, with its series if it takes one.
    fn into_parts(self) -> (Self, Traits, Option<Arc<Series>>) {
        let plain = self.timeout.is_none() && self.max_lateness.is_none();
        let series = match plain {
            true => Series::for_wall(self.when, Schedule::Once),
            false => Some(Arc::new(Series::new(self.rules(), None))),
        };
        self.into_traits(Schedule::Once, series)
    }

    fn into_traits(
        mut self,
        schedule: Schedule,
        series: Option<Arc<Series>>,
    ) -> (Self, Traits, Option<Arc<Series>>) {
        let traits = Traits {
            name: self.name.take(),
            tags: std::mem::take(&mut self.tags),
            schedule,
            series: series.clone(),
            wakes: None,
            priority: self.priority,
        };
        (self, traits, series)
    }

    /// The rules that are said here.
    fn rules(&self) -> Rules {
        Rules { missed: self.bounded(Missed::burst()), timeout: self.timeout, ..Rules::default() }
    }

    fn bounded(&self, missed: Missed) -> Missed {
        match (missed.max_lateness(), self.max_lateness) {
            (None, Some(lateness)) => missed.within(lateness),
            _ => missed,
        }
    }
}

impl<F> TaskBuilder<'_, F> {
    /// Submits it for one run.
    ///
    /// # Errors
    /// As [`Scheduler::schedule`].
    pub fn start<T>(self) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (task, traits, _) = self.into_parts();
        task.scheduler.enter_once(traits, task.body, task.when)
    }
}

impl<F, K> fmt::Debug for TaskBuilder<'_, F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("tags", &self.tags)
            .field("when", &self.when)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
