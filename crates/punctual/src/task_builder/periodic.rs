//! A task that runs more than once, and the policies of its series.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_engine::Schedule;

use super::{Blocking, TaskBuilder};
use crate::error::{RejectReason, Rejected};
use crate::handle::TaskHandle;
use crate::policy::{Jitter, Missed, OnFailure, Overlap, Priority, Spread};
use crate::series::{Beat, NewRun, NextBy, Plan, Report, Reporting, Rules, Series, Sharing, sync_run};
use crate::task::Traits;
use crate::when::When;

/// A [`TaskBuilder`] for a task that runs more than once.
///
/// Its body may return nothing, or a `Result`: see [`Report`].
#[must_use = "a task runs only when it is started"]
pub struct PeriodicBuilder<'a, F, K = Blocking> {
    pub(super) task: TaskBuilder<'a, F, K>,
    plan: Plan,
    /// Locked only so that the builder can be shared as any other.
    next_by: Mutex<Option<NextBy>>,
    missed: Option<Missed>,
    overlap: Overlap,
    on_failure: OnFailure,
    jitter: Option<Jitter>,
    spread: Option<Spread>,
    at_most: Option<u64>,
    until: Option<When>,
}

impl<'a, F, K> PeriodicBuilder<'a, F, K> {
    pub(super) fn new(task: TaskBuilder<'a, F, K>, schedule: Schedule) -> Self {
        Self::with_plan(task, Plan::Schedule(schedule), None)
    }

    pub(super) fn with_plan(task: TaskBuilder<'a, F, K>, plan: Plan, next_by: Option<NextBy>) -> Self {
        Self {
            task,
            plan,
            next_by: Mutex::new(next_by),
            missed: None,
            overlap: Overlap::default(),
            on_failure: OnFailure::default(),
            jitter: None,
            spread: None,
            at_most: None,
            until: None,
        }
    }

    /// As [`TaskBuilder::name`].
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.task = self.task.name(name);
        self
    }

    /// As [`TaskBuilder::tag`].
    pub fn tag(mut self, tag: impl Into<Arc<str>>) -> Self {
        self.task = self.task.tag(tag);
        self
    }

    /// As [`TaskBuilder::first`].
    pub fn first(mut self, when: impl Into<When>) -> Self {
        self.task = self.task.first(when);
        self
    }

    /// As [`TaskBuilder::timeout`], for each run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.task = self.task.timeout(timeout);
        self
    }

    /// As [`TaskBuilder::priority`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.task = self.task.priority(priority);
        self
    }

    /// What becomes of runs whose time has passed. By default [every one is run](Missed::burst), as in Java; of a
    /// calendar [one for all](Missed::once).
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = Some(missed);
        self
    }

    /// What happens when a run comes due while another is going on. By default it [waits](Overlap::Never).
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What follows a run that failed. By default the series [stops](OnFailure::Stop), as in Java.
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Adds a random delay to each deadline. By default there is none.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// Adds a delay to each deadline that depends on the task's name. By default there is none.
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = Some(spread);
        self
    }

    /// Ends the series with its `runs`th run; then the handle resolves with `Ok(())`, or with the failure of that
    /// run. By default there is no end. 0 counts as 1.
    pub fn at_most(mut self, runs: u64) -> Self {
        self.at_most = Some(runs.max(1));
        self
    }

    /// Ends the series with its last run that is due no later than this; then the handle resolves with `Ok(())`, or
    /// with the failure of that run. By default there is no end.
    pub fn until(mut self, when: impl Into<When>) -> Self {
        self.until = Some(when.into());
        self
    }

    /// Whether runs are to overlap.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.overlap, Overlap::Allow(2..))
    }

    /// For runs that do not overlap.
    pub(super) fn into_alone(self) -> Result<Parts<'a, F, K>, Rejected<F>> {
        match self.is_shared() {
            true => Err(Rejected::new(self.task.body, RejectReason::NotShared)),
            false => self.into_parts(),
        }
    }

    /// For runs that overlap, each made by `new_run`.
    pub(super) fn start_beat(self, new_run: NewRun<F>) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: Send + Sync + 'static,
    {
        let (task, traits, series) = self.into_parts()?;
        let beat = Sharing::new(task.body, series, traits.name.clone(), task.scheduler.pool(), new_run);
        let (cell, beat) = beat.allocate(traits);
        let placed = task.scheduler.place(cell, beat, task.when);
        placed.map_err(|rejected| rejected.map(Sharing::into_body))
    }

    fn into_parts(self) -> Result<Parts<'a, F, K>, Rejected<F>> {
        let schedule = match &self.plan {
            Plan::Schedule(schedule) => *schedule,
            Plan::Calendar(_) | Plan::NextBy => Schedule::Custom,
        };
        let task = self.task;
        if schedule.period().is_some_and(|period| period.is_zero()) {
            return Err(Rejected::new(task.body, RejectReason::ZeroPeriod));
        }
        let default = if self.plan.is_wall() { Missed::once() } else { Missed::burst() };
        let label = task.name.as_ref().or(task.tags.first());
        let rules = Rules {
            plan: self.plan,
            missed: task.bounded(self.missed.unwrap_or(default)),
            overlap: self.overlap,
            on_failure: self.on_failure,
            jitter: self.jitter,
            spread: self.spread.zip(label).map(|(spread, label)| spread.delay(label)).unwrap_or_default(),
            at_most: self.at_most,
            until: self.until.map(|until| until.point(task.scheduler.pool().clock.now())),
            timeout: task.timeout,
            returns_errors: false,
        };
        let next_by = self.next_by.into_inner().unwrap_or_else(PoisonError::into_inner);
        let series = Arc::new(Series::new(rules, next_by));
        let (task, traits, _) = task.into_traits(schedule, Some(Arc::clone(&series)));
        Ok((task, traits, series))
    }
}

/// What a task is started from.
type Parts<'a, F, K> = (TaskBuilder<'a, F, K>, Traits, Arc<Series>);

impl<F> PeriodicBuilder<'_, F> {
    /// Submits it.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_at_fixed_rate`](crate::Scheduler::schedule_at_fixed_rate); if the schedule has
    /// [no point ahead](RejectReason::NeverDue); if runs are to [overlap](Overlap::Allow), which takes
    /// [`start_shared`](Self::start_shared).
    pub fn start<R>(self) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() -> R + Send + 'static,
        R: Report + 'static,
    {
        let (task, traits, series) = self.into_alone()?;
        let body = Reporting::<_, Beat>::new(task.body, series);
        let entered = task.scheduler.enter(traits, body, task.when);
        entered.map_err(|rejected| rejected.map(Reporting::into_body))
    }

    /// As [`start`](Self::start), for a body that several threads may call at once: what
    /// [`Overlap::Allow`] needs.
    ///
    /// Each run is a task of its own then, with the name of this one, and a failure is dealt with when it happens;
    /// the pauses of a [back-off](OnFailure::Backoff) make no sense there and are left out.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Overlap, TaskContext};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().core_threads(3).clock(clock.clone()).build()?;
    /// let slow = || TaskContext::current().sleep(Duration::from_secs(90));
    /// let probe = pool.task(slow).every(60 * second).overlap(Overlap::Allow(2)).start_shared()?;
    /// clock.advance(60 * second);
    /// assert_eq!(pool.stats().active, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_shared<R>(self) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Report + 'static,
    {
        match self.is_shared() {
            true => self.start_beat(sync_run::<F, R>),
            false => self.start(),
        }
    }
}

impl<F, K> fmt::Debug for PeriodicBuilder<'_, F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicBuilder")
            .field("task", &self.task)
            .field("plan", &self.plan)
            .field("missed", &self.missed)
            .field("overlap", &self.overlap)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
