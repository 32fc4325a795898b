//! What a handler answers.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// How a handler ended, when it did not fail.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Done,
    /// There is nothing to do any more; the reason is kept.
    Discard(String),
    /// Not yet: run it again after this time. This attempt does not count.
    Snooze(Duration),
}

/// Why a handler failed. Every error becomes one with `?`, and so do texts.
///
/// A job that failed is tried again, after its kind's [backoff](crate::Backoff), until its attempts are used up.
///
/// ```
/// use punctual_durable::{Done, JobError, Outcome};
/// use std::time::Duration;
///
/// fn deliver(address: &str) -> Result<Outcome, JobError> {
///     let port: u16 = address.parse()?; // tried again
///     match port {
///         0 => Err(JobError::permanent("there is no port 0")), // dead at once
///         1 => Err(JobError::from("busy").retry_after(Duration::from_secs(60))),
///         _ => Ok(Done),
///     }
/// }
/// assert_eq!(deliver("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct JobError {
    source: Box<dyn StdError + Send + Sync>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Try again as the kind's backoff says.
    Backoff,
    /// Try again after this time.
    After(Duration),
    /// Do not try again.
    Give,
}

impl JobError {
    /// A failure that trying again cannot mend: the job is dead at once.
    pub fn permanent(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: error.into(), then: Then::Give }
    }

    /// The same failure, to be tried again after `time` instead of the usual backoff.
    #[must_use]
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.then = Then::After(time);
        self
    }

    pub(crate) fn then(&self) -> Then {
        self.then
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self { source: error.into(), then: Then::Backoff }
    }
}

impl fmt::Display for JobError {
    /// The error and everything behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut behind = self.source.source();
        while let Some(error) = behind {
            write!(f, ": {error}")?;
            behind = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobError").field("source", &self.source).field("then", &self.then).finish()
    }
}
