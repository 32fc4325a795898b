//! An observer that speaks `tracing`.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{debug, error, info_span, warn};

use super::{Observer, Place};
use crate::error::Panic;
use crate::task::{RunOutcome, TaskId, TaskInfo};
use crate::unobserved::UnobservedFailure;

thread_local! {
    /// The runs that the calling thread is in; a caller-runs rejection inside a body makes it more than one.
    static OPEN: RefCell<Vec<(TaskId, EnteredSpan)>> = const { RefCell::new(Vec::new()) };
}

/// Puts every run into a [`tracing`] span, and makes failures events. Feature `tracing`.
///
/// The span `run`, at level info and with target `punctual`, is entered while the body runs, so that what the body
/// logs belongs to it. Its fields: `task` (the id), `name`, `run` (which run of the task it is), `lateness_ns`, and
/// at the end `outcome`: `returned`, `failed` (the run of a [series](crate::Report) that said so, or took longer than
/// its timeout), `pending` (a [future](crate::Scheduler::spawn) that was polled and is not ready), or `panicked`.
///
/// | event | level |
/// |---|---|
/// | a task panicked, a run failed | error |
/// | a failure that nobody has [asked for](Observer::unobserved) | error |
/// | a thread could not be started | error |
/// | a run goes on [long after its timeout](Observer::overrunning) | warn |
/// | other user code panicked and was [contained](Observer::contained) | warn |
/// | a worker started or stopped, the executor terminated | debug |
///
/// ```
/// use punctual::{Executor, TracingObserver};
///
/// let pool = Executor::builder().observer(TracingObserver::new()).build()?;
/// pool.submit(|| tracing::info!("inside the span of its run"))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver(());

impl TracingObserver {
    /// An observer for one executor or for many: it has no state of its own.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Observer for TracingObserver {
    fn before_run(&self, task: TaskInfo<'_>) {
        let lateness = u64::try_from(task.lateness().as_nanos()).unwrap_or(u64::MAX);
        let span = info_span!(
            target: "punctual",
            "run",
            task = task.id().number(),
            name = task.name(),
            run = task.runs(),
            lateness_ns = lateness,
            outcome = Empty,
        );
        let entered = span.entered();
        OPEN.with(|open| open.borrow_mut().push((task.id(), entered)));
    }

    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        // Taken out before the subscriber is called, which may have tasks run of its own.
        let span = OPEN.with(|open| {
            let mut open = open.borrow_mut();
            let position = open.iter().rposition(|(id, _)| *id == task.id())?;
            Some(open.split_off(position))
        });
        let Some(((_, span), _abandoned)) = span.and_then(|mut open| Some((open.pop()?, open))) else {
            return;
        };
        span.record("outcome", text(outcome));
        match outcome {
            RunOutcome::Panicked(panic) => {
                error!(target: "punctual", panic = panic.message(), "a task panicked");
            }
            RunOutcome::Failed(error) => error!(target: "punctual", error = %error, "a run failed"),
            RunOutcome::Returned | RunOutcome::Pending => {}
        }
    }

    fn overrunning(&self, task: TaskInfo<'_>, took: Duration) {
        warn!(target: "punctual", task = %task, ?took, "a run goes on long after its timeout");
    }

    fn unobserved(&self, failure: &UnobservedFailure) {
        error!(target: "punctual", "{failure}");
    }

    fn terminated(&self) {
        debug!(target: "punctual", "the executor terminated");
    }

    fn worker_started(&self) {
        debug!(target: "punctual", "a worker started");
    }

    fn worker_stopped(&self) {
        debug!(target: "punctual", "a worker stopped");
    }

    fn spawn_failed(&self, error: &io::Error) {
        error!(target: "punctual", error = %error, "a thread could not be started");
    }

    fn contained(&self, place: Place, panic: &Panic) {
        warn!(target: "punctual", place = %place, panic = panic.message(), "user code panicked");
    }
}

fn text(outcome: RunOutcome<'_>) -> &'static str {
    match outcome {
        RunOutcome::Returned => "returned",
        RunOutcome::Failed(_) => "failed",
        RunOutcome::Pending => "pending",
        RunOutcome::Panicked(_) => "panicked",
    }
}
