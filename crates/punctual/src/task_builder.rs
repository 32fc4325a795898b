//! One way to describe a task; the four Java forms are shorthands of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::Schedule;

use crate::error::Rejected;
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::when::When;

/// A task that is being described; see [`Scheduler::task`]. Nothing happens before `start`.
#[must_use = "a task runs only when it is started"]
pub struct TaskBuilder<'a, F> {
    scheduler: &'a Scheduler,
    body: F,
    name: Option<Arc<str>>,
    when: When,
}

/// A [`TaskBuilder`] for a task that runs more than once.
#[must_use = "a task runs only when it is started"]
pub struct PeriodicBuilder<'a, F> {
    task: TaskBuilder<'a, F>,
    schedule: Schedule,
}

impl<'a, F> TaskBuilder<'a, F> {
    pub(crate) fn new(scheduler: &'a Scheduler, body: F) -> Self {
        Self { scheduler, body, name: None, when: When::After(Duration::ZERO) }
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
    pub fn every(self, period: Duration) -> PeriodicBuilder<'a, F> {
        PeriodicBuilder { task: self, schedule: Schedule::FixedRate(period) }
    }

    /// Runs it again `delay` after it has ended; see [`Scheduler::schedule_with_fixed_delay`].
    pub fn with_fixed_delay(self, delay: Duration) -> PeriodicBuilder<'a, F> {
        PeriodicBuilder { task: self, schedule: Schedule::FixedDelay(delay) }
    }

    /// Runs it again `period` after it has started, as Java's `Timer` does.
    pub fn with_fixed_start(self, period: Duration) -> PeriodicBuilder<'a, F> {
        PeriodicBuilder { task: self, schedule: Schedule::FixedStart(period) }
    }

    /// Submits it for one run.
    ///
    /// # Errors
    /// As [`Scheduler::schedule`].
    pub fn start<T>(self) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.scheduler.once(self.name, self.when, self.body)
    }
}

impl<F> PeriodicBuilder<'_, F> {
    /// Submits it.
    ///
    /// # Errors
    /// As [`Scheduler::schedule_at_fixed_rate`].
    pub fn start(self) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        let TaskBuilder { scheduler, body, name, when } = self.task;
        scheduler.repeat(name, when, self.schedule, body)
    }
}

impl<F> fmt::Debug for TaskBuilder<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("when", &self.when)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for PeriodicBuilder<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicBuilder")
            .field("task", &self.task)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}
