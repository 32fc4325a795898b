//! How the body of a periodic task says that a run has failed.

use std::fmt::Display;
use std::sync::Arc;

use super::Series;
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

/// The body of a periodic task that reports to its series.
pub(crate) struct Reporting<F> {
    pub(crate) body: F,
    pub(crate) series: Arc<Series>,
}

impl<F, R> Body<()> for Reporting<F>
where
    F: FnMut() -> R + Send,
    R: Report,
{
    fn call(this: &mut Option<Self>) -> Option<()> {
        // Called where it is: should it panic, what it captured is not dropped by the same unwinding.
        let Reporting { body, series } = this.as_mut()?;
        let report = body();
        if let Some(message) = report.failure() {
            series.note(TaskError::Failed(message.into()));
        }
        Some(())
    }
}

/// A body that is run again until it succeeds; its value is the last result.
pub(crate) struct Retrying<F> {
    pub(crate) body: F,
    pub(crate) series: Arc<Series>,
}

impl<F, V, E> Body<Result<V, E>> for Retrying<F>
where
    F: FnMut() -> Result<V, E> + Send,
    E: Display,
{
    fn call(this: &mut Option<Self>) -> Option<Result<V, E>> {
        let Retrying { body, series } = this.as_mut()?;
        let result = body();
        if let Some(message) = result.failure() {
            series.note(TaskError::Failed(message.into()));
        }
        Some(result)
    }
}
