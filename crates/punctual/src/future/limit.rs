//! A future with a limit on its time.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use super::TimerError;
use crate::scheduler::Scheduler;

/// Why [`Scheduler::timeout`] has no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TimeoutError {
    /// This time was over first.
    Elapsed(Duration),
    /// There is no timer to limit the time with.
    Timer(TimerError),
}

impl TimeoutError {
    /// Whether the time was over.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        matches!(self, Self::Elapsed(_))
    }
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed(limit) => write!(f, "not ready after {limit:?}"),
            Self::Timer(error) => error.fmt(f),
        }
    }
}

impl Error for TimeoutError {}

impl Scheduler {
    /// Awaits `future`, at most for `limit` from now; then the future is dropped. Works under any async runtime.
    ///
    /// A future that is ready when it is polled is never too late, and one that is ready at once costs no timer.
    /// Dropping the whole takes the timer out of the queue.
    ///
    /// # Errors
    /// Awaiting it ends with [`TimeoutError::Elapsed`], or with [`TimeoutError::Timer`] if the executor refuses the
    /// timer or gives it up, as with [`sleep`](Self::sleep): nothing is awaited without the limit that was asked for.
    ///
    /// # Examples
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::{future, time::Duration};
    ///
    /// let clock = ManualClock::new();
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let limited = pool.timeout(Duration::from_millis(200), future::pending::<()>());
    /// let ping = pool.spawn(limited)?;
    /// clock.advance(Duration::from_millis(200));
    /// assert_eq!(ping.join()?.unwrap_err().to_string(), "not ready after 200ms");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, TimeoutError>> + use<F> {
        let mut sleep = self.sleep(limit);
        async move {
            let mut future = pin!(future);
            poll_fn(move |context| {
                if let Poll::Ready(value) = future.as_mut().poll(context) {
                    return Poll::Ready(Ok(value));
                }
                Pin::new(&mut sleep).poll(context).map(|over| match over {
                    Ok(()) => Err(TimeoutError::Elapsed(limit)),
                    Err(error) => Err(TimeoutError::Timer(error)),
                })
            })
            .await
        }
    }
}
