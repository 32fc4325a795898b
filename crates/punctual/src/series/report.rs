//! How the body of a periodic task says that a run has failed.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Hold, Series};
use crate::error::TaskError;
use crate::task::Body;

/// What the body of a periodic task may return: nothing, or a `Result` whose `Err` is a failure as a panic is.
///
/// ```
/// use punctual::{Executor, ManualClock, OnFailure};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let parse = pool
///     .task(|| "seven".parse::<u32>())
///     .every(Duration::from_secs(1))
///     .on_failure(OnFailure::StopAfter(2))
///     .start()?;
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(parse.failure().unwrap().to_string(), "the task failed: invalid digit found in string");
/// assert_eq!(parse.runs(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Report {
    /// The message of the failure, if it is one.
    fn failure(&self) -> Option<String>;
}

impl Report for () {
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<V, E: Display> Report for Result<V, E> {
    fn failure(&self) -> Option<String> {
        self.as_ref().err().map(E::to_string)
    }
}

/// Names the type of what never returns.
#[doc(hidden)]
pub trait Returns {
    type Output;
}

impl<R> Returns for fn() -> R {
    type Output = R;
}

/// The type of a body that never returns: one that always panics, in a test perhaps.
impl Report for <fn() -> ! as Returns>::Output {
    fn failure(&self) -> Option<String> {
        None
    }
}

/// What becomes of that which a body returned: the value of the task, and the failure of the run, if it is one.
pub(crate) trait Ending<R> {
    type Value;
    fn split(returned: R) -> (Self::Value, Option<TaskError>);
    /// The value of a task whose last run was stopped, if there is one.
    fn of_stopped() -> Option<Self::Value>;
}

/// The only run of a task: what is returned is the value.
pub(crate) enum Whole {}

/// One of many runs: what is returned is a [`Report`].
pub(crate) enum Beat {}

/// A run that is followed by another until one succeeds; the value is the last result.
pub(crate) enum Attempt {}

impl<R> Ending<R> for Whole {
    type Value = R;

    fn split(returned: R) -> (R, Option<TaskError>) {
        (returned, None)
    }

    fn of_stopped() -> Option<R> {
        None
    }
}

impl<R: Report> Ending<R> for Beat {
    type Value = ();

    fn split(returned: R) -> ((), Option<TaskError>) {
        ((), failed(&returned))
    }

    fn of_stopped() -> Option<()> {
        Some(())
    }
}

impl<V, E: Display> Ending<Result<V, E>> for Attempt {
    type Value = Result<V, E>;

    fn split(returned: Result<V, E>) -> (Result<V, E>, Option<TaskError>) {
        let failure = failed(&returned);
        (returned, failure)
    }

    fn of_stopped() -> Option<Result<V, E>> {
        None
    }
}

fn failed(report: &impl Report) -> Option<TaskError> {
    report.failure().map(|message| TaskError::Failed(message.into()))
}

/// A closure that is called for each run of a series, and what follows is decided there.
pub(crate) struct Reporting<F, E> {
    body: F,
    series: Hold,
    ending: PhantomData<fn() -> E>,
}

impl<F, E> Reporting<F, E> {
    pub(crate) fn new(body: F, series: Arc<Series>) -> Self {
        Self { body, series: Hold::new(series), ending: PhantomData }
    }

    pub(crate) fn into_body(self) -> F {
        self.body
    }
}

impl<F, R, E> Body<E::Value> for Reporting<F, E>
where
    F: FnMut() -> R + Send,
    E: Ending<R>,
{
    fn call(this: &mut Option<Self>) -> Option<E::Value> {
        // Called where it is: should it panic, what it captured is not dropped by the same unwinding.
        let Reporting { body, series, .. } = this.as_mut()?;
        let (value, failure) = E::split(body());
        failure.into_iter().for_each(|failure| series.note(failure));
        Some(value)
    }
}
