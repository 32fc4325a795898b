//! Who is measured.

use std::sync::Arc;

use crate::{Args, Job, Trouble};

/// Called by the handler of every job, when it starts.
pub type OnRun = Arc<dyn Fn(&Job) + Send + Sync>;

/// A library of durable jobs, on one store.
///
/// Calls block; libraries that are asynchronous bring a runtime along.
pub trait Peer: Send + Sync + Sized + 'static {
    /// What runs the jobs; dropping it is not waited for.
    type Working: Working;

    /// Whether [`left`](Self::left) also counts jobs that no worker has looked for yet.
    const COUNTS_UNSEEN: bool = true;

    /// Opens the store at `args.url`, and makes the tables it needs.
    ///
    /// # Errors
    /// If it cannot.
    fn open(args: &Args) -> Result<Self, Trouble>;

    /// Accepts one job; returns when it is durable.
    ///
    /// # Errors
    /// If it cannot.
    fn enqueue(&self, job: &Job) -> Result<(), Trouble>;

    /// Accepts jobs in one call, by the fastest way there is.
    ///
    /// # Errors
    /// If it cannot.
    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble>;

    /// Runs jobs from now on.
    ///
    /// # Errors
    /// If it cannot.
    fn work(&self, args: &Args, on_run: OnRun) -> Result<Self::Working, Trouble>;

    /// How many jobs, but those that only [wait](Job::WAITS), are not over according to the store.
    ///
    /// # Errors
    /// If it does not say.
    fn left(&self) -> Result<u64, Trouble>;
}

/// Jobs are being run.
pub trait Working {
    /// Runs no more, and records what was run.
    ///
    /// # Errors
    /// If it cannot.
    fn stop(self) -> Result<(), Trouble>;
}
