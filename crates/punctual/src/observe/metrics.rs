//! An observer that counts through the `metrics` facade.

use std::fmt;
use std::io;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit};

use super::{Observer, Place};
use crate::error::Panic;
use crate::task::{RunOutcome, TaskInfo};
use crate::unobserved::UnobservedFailure;

/// Counts runs, lateness and failures through the [`metrics`] facade, whatever exporter is behind it. Feature
/// `metrics`.
///
/// | metric | kind | label besides `pool` |
/// |---|---|---|
/// | `punctual_runs_total` | counter | `outcome`: `returned`, `failed`, `pending`, `panicked` |
/// | `punctual_lateness_seconds` | histogram: start of a run after its deadline | |
/// | `punctual_overruns_total` | counter: runs that went on long after their timeout | |
/// | `punctual_unobserved_failures_total` | counter: failures that nobody looked at, which are written to standard error, too | |
/// | `punctual_workers` | gauge: worker threads | |
/// | `punctual_spawn_failures_total` | counter: threads that could not be started | |
/// | `punctual_contained_panics_total` | counter: panics of other user code | |
///
/// The metrics are looked up once, here: install the recorder before.
///
/// ```
/// use punctual::{Executor, MetricsObserver};
///
/// let pool = Executor::builder().observer(MetricsObserver::new("mailer")).build()?;
/// pool.submit(|| ())?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MetricsObserver {
    returned: Counter,
    failed: Counter,
    pending: Counter,
    panicked: Counter,
    lateness: Histogram,
    overruns: Counter,
    unobserved: Counter,
    workers: Gauge,
    spawn_failures: Counter,
    contained: Counter,
}

const RUNS: &str = "punctual_runs_total";
const LATENESS: &str = "punctual_lateness_seconds";
const OVERRUNS: &str = "punctual_overruns_total";
const UNOBSERVED: &str = "punctual_unobserved_failures_total";
const WORKERS: &str = "punctual_workers";
const SPAWN_FAILURES: &str = "punctual_spawn_failures_total";
const CONTAINED: &str = "punctual_contained_panics_total";

impl MetricsObserver {
    /// An observer whose metrics are labelled `pool` = `name`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let pool = name.into();
        metrics::describe_counter!(RUNS, Unit::Count, "Runs that ended, by outcome");
        metrics::describe_histogram!(LATENESS, Unit::Seconds, "How much later than its deadline a run began");
        metrics::describe_counter!(OVERRUNS, Unit::Count, "Runs that went on long after their timeout");
        metrics::describe_counter!(UNOBSERVED, Unit::Count, "Failures that nobody looked at");
        metrics::describe_gauge!(WORKERS, Unit::Count, "Worker threads");
        metrics::describe_counter!(SPAWN_FAILURES, Unit::Count, "Threads that could not be started");
        metrics::describe_counter!(CONTAINED, Unit::Count, "Panics of user code other than bodies");
        let runs = |outcome| metrics::counter!(RUNS, "pool" => pool.clone(), "outcome" => outcome);
        Self {
            returned: runs("returned"),
            failed: runs("failed"),
            pending: runs("pending"),
            panicked: runs("panicked"),
            lateness: metrics::histogram!(LATENESS, "pool" => pool.clone()),
            overruns: metrics::counter!(OVERRUNS, "pool" => pool.clone()),
            unobserved: metrics::counter!(UNOBSERVED, "pool" => pool.clone()),
            workers: metrics::gauge!(WORKERS, "pool" => pool.clone()),
            spawn_failures: metrics::counter!(SPAWN_FAILURES, "pool" => pool.clone()),
            contained: metrics::counter!(CONTAINED, "pool" => pool),
        }
    }
}

impl Observer for MetricsObserver {
    fn before_run(&self, task: TaskInfo<'_>) {
        self.lateness.record(task.lateness());
    }

    fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        match outcome {
            RunOutcome::Returned => self.returned.increment(1),
            RunOutcome::Failed(_) => self.failed.increment(1),
            RunOutcome::Pending => self.pending.increment(1),
            RunOutcome::Panicked(_) => self.panicked.increment(1),
        }
    }

    fn overrunning(&self, _: TaskInfo<'_>, _: Duration) {
        self.overruns.increment(1);
    }

    fn unobserved(&self, failure: &UnobservedFailure) {
        self.unobserved.increment(1);
        // A number has no name.
        failure.print();
    }

    fn worker_started(&self) {
        self.workers.increment(1);
    }

    fn worker_stopped(&self) {
        self.workers.decrement(1);
    }

    fn spawn_failed(&self, _: &io::Error) {
        self.spawn_failures.increment(1);
    }

    fn contained(&self, _: Place, _: &Panic) {
        self.contained.increment(1);
    }
}

impl fmt::Debug for MetricsObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsObserver").finish_non_exhaustive()
    }
}
