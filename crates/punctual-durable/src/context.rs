//! What a handler knows of its job, and how it is asked to stop.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use punctual::TaskContext;

use crate::client::Client;
use crate::job::{Fence, JobId, JobRecord};
use crate::time::Timestamp;

/// Why a handler is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Stop {
    /// Somebody cancelled the job.
    Cancelled,
    /// It has taken longer than its timeout.
    TimedOut,
    /// The node is shutting down.
    Shutdown,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the job was cancelled",
            Self::TimedOut => "the job took longer than its timeout",
            Self::Shutdown => "the node is shutting down",
        })
    }
}

impl std::error::Error for Stop {}

/// The request to stop, shared by a handler and its node. The first reason stays.
#[derive(Debug, Default)]
pub(crate) struct Signal(AtomicU8);

impl Signal {
    pub(crate) fn raise(&self, stop: Stop) {
        let number = match stop {
            Stop::Cancelled => 1,
            Stop::TimedOut => 2,
            Stop::Shutdown => 3,
        };
        // Relaxed is enough for a flag; whoever raises it also interrupts the task, which synchronises.
        let _ = self.0.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn raised(&self) -> Option<Stop> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::TimedOut),
            _ => Some(Stop::Shutdown),
        }
    }
}

/// One attempt, as its handler sees it.
#[derive(Debug)]
pub struct JobContext {
    job: JobRecord,
    signal: std::sync::Arc<Signal>,
    client: Client,
}

impl JobContext {
    pub(crate) fn new(job: JobRecord, signal: std::sync::Arc<Signal>, client: Client) -> Self {
        Self { job, signal, client }
    }

    pub(crate) fn job(&self) -> &JobRecord {
        &self.job
    }

    /// The id of the job: the same for every attempt, so it can serve as a key to do things once.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// Which attempt this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.job.attempt
    }

    /// Whether the job is dead if this attempt fails.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.job.attempt >= self.job.limits.max_attempts
    }

    /// The number of this claim. It is greater than that of every claim before it: an external system that
    /// remembers the greatest it has seen can refuse a handler that has been superseded.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.job.fence
    }

    /// When the job was due.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.job.due
    }

    /// The schedule that this is an occurrence of, and its nominal time, which is the same for every attempt.
    #[must_use]
    pub fn series(&self) -> Option<(&str, Timestamp)> {
        self.job.series.as_ref().map(|(name, nominal)| (name.as_str(), *nominal))
    }

    /// Everything the store knew of the job when it was claimed.
    #[must_use]
    pub fn record(&self) -> &JobRecord {
        &self.job
    }

    /// Whether and why the handler is asked to stop. Handlers that take long look from time to time.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        self.signal.raised()
    }

    /// The request to stop as an error, for use with `?`.
    ///
    /// # Errors
    /// [`Stop`] if the handler is asked to stop.
    pub fn check(&self) -> Result<(), Stop> {
        self.stopped().map_or(Ok(()), Err)
    }

    /// Waits for `time` on the clock of the node.
    ///
    /// # Errors
    /// [`Stop`], at once, if the handler is asked to stop.
    pub fn sleep(&self, time: Duration) -> Result<(), Stop> {
        self.check()?;
        match TaskContext::current().sleep(time) {
            Ok(()) => self.check(),
            Err(_) => Err(self.stopped().unwrap_or(Stop::Shutdown)),
        }
    }

    /// For jobs that follow from this one.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}
