//! A task that is tried again until it succeeds.

use std::fmt::{self, Display};
use std::sync::Arc;

use punctual_engine::Schedule;

use super::{Blocking, TaskBuilder};
use crate::error::Rejected;
use crate::handle::TaskHandle;
use crate::policy::{Backoff, OnFailure};
use crate::series::{Attempt, Reporting, Rules, Series};
use crate::task::Traits;

/// A [`TaskBuilder`] for a task that is tried again after an `Err`, a panic or a timeout.
///
/// Between two attempts the task waits in the queue, and no thread with it. The handle resolves with the first `Ok`,
/// or with what the last attempt came to.
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
///     if attempts < 3 { Err(format!("attempt {attempts}: no answer")) } else { Ok(attempts) }
/// };
/// let page = pool.task(fetch).retry(Backoff::between(second..=60 * second).give_up_after(5)).start()?;
/// clock.advance(3 * second);
/// assert_eq!((page.runs(), page.join()?), (3, Ok(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task runs only when it is started"]
pub struct RetryBuilder<'a, F, K = Blocking> {
    task: TaskBuilder<'a, F, K>,
    backoff: Backoff,
}

impl<'a, F, K> RetryBuilder<'a, F, K> {
    pub(super) fn new(task: TaskBuilder<'a, F, K>, backoff: Backoff) -> Self {
        Self { task, backoff }
    }

    pub(super) fn into_parts(self) -> (TaskBuilder<'a, F, K>, Traits, Arc<Series>) {
        let rules =
            Rules { on_failure: OnFailure::Backoff(self.backoff), returns_errors: true, ..self.task.rules() };
        let series = Arc::new(Series::new(rules, None));
        let (task, traits, _) = self.task.into_traits(Schedule::Once, Some(Arc::clone(&series)));
        (task, traits, series)
    }
}

impl<F> RetryBuilder<'_, F> {
    /// Submits it.
    ///
    /// # Errors
    /// As [`Scheduler::schedule`](crate::Scheduler::schedule).
    pub fn start<V, E>(self) -> Result<TaskHandle<Result<V, E>>, Rejected<F>>
    where
        F: FnMut() -> Result<V, E> + Send + 'static,
        V: Send + 'static,
        E: Display + Send + 'static,
    {
        let (task, traits, series) = self.into_parts();
        let body = Reporting::<_, Attempt>::new(task.body, series);
        let entered = task.scheduler.enter(traits, body, task.when);
        entered.map_err(|rejected| rejected.map(Reporting::into_body))
    }
}

impl<F, K> fmt::Debug for RetryBuilder<'_, F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBuilder").field("task", &self.task).field("backoff", &self.backoff).finish()
    }
}
