//! From the timing of a job to a task of the library: every decision about time is made there.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual::{
    Backoff, Executor, Jitter, OnFailure, PeriodicBuilder, RejectReason, Rejected, TaskBuilder, TaskRemote,
};

use crate::file::{Job, Missed, Overlap, Retries, Timing, Trigger};
use crate::runner::{Runner, WantsRetry};

/// How a schedule begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// At the start, or as a new job: `every` runs at once.
    Fresh,
    /// In the place of an older one: `every` runs after a period.
    Changed,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Planned {
    Task(TaskRemote),
    /// It will not run, and why.
    Never(&'static str),
}

/// Puts `job` on the executor, as the schedule of the runner's present era.
///
/// # Errors
/// If the executor refuses it.
pub(crate) fn schedule(
    pool: &Executor,
    job: &Job,
    runner: &Arc<Runner>,
    begin: Begin,
) -> Result<Planned, String> {
    let (timing, retries) = (&job.timing, job.work.retries);
    let (runner, era) = (Arc::clone(runner), runner.era());
    let task = pool.task(move || runner.perform(era)).name(Arc::clone(&job.name));
    match &timing.trigger {
        Trigger::Every { period, start_after } => {
            start(first(task, *period, *start_after, begin).every(*period), timing, retries)
        }
        Trigger::FixedDelay { delay, start_after } => {
            start(first(task, *delay, *start_after, begin).with_fixed_delay(*delay), timing, retries)
        }
        Trigger::Cron(schedule) => {
            let schedule = schedule.clone();
            let calendar = move |instant: SystemTime| schedule.next_after(instant);
            start(task.calendar(calendar), timing, retries)
        }
        // It was missed before we came. To run it now would run it again with every start of the program.
        Trigger::At { instant, .. } if *instant <= SystemTime::now() => {
            Ok(Planned::Never("its time has passed"))
        }
        Trigger::At { instant, .. } => {
            let handle =
                task.first(*instant).retry(backoff(retries)).start().map_err(|error| refusal(&error))?;
            Ok(Planned::Task(handle.remote()))
        }
    }
}

fn first<F>(
    task: TaskBuilder<'_, F>,
    period: Duration,
    start_after: Option<Duration>,
    begin: Begin,
) -> TaskBuilder<'_, F> {
    let by_default = match begin {
        Begin::Fresh => Duration::ZERO,
        Begin::Changed => period,
    };
    task.after(start_after.unwrap_or(by_default))
}

fn start<F>(task: PeriodicBuilder<'_, F>, timing: &Timing, retries: Retries) -> Result<Planned, String>
where
    F: Fn() -> Result<(), WantsRetry> + Send + Sync + 'static,
{
    let task = task
        .missed(missed(timing))
        .overlap(overlap(timing.overlap))
        .on_failure(OnFailure::Backoff(backoff(retries)))
        .jitter(Jitter::up_to(timing.jitter));
    let started = match timing.overlap {
        Overlap::Allow(_) => task.start_shared(),
        Overlap::Never | Overlap::Queue | Overlap::Replace => task.start(),
    };
    match started {
        Ok(handle) => Ok(Planned::Task(handle.remote())),
        Err(error) if error.reason() == RejectReason::NeverDue => Ok(Planned::Never("it is never due again")),
        Err(error) => Err(refusal(&error)),
    }
}

/// The runner fails as long as it wants a retry, and never more often than it may: the back-off has no end.
fn backoff(retries: Retries) -> Backoff {
    Backoff::between(retries.delay..=retries.max_delay)
}

fn missed(timing: &Timing) -> punctual::Missed {
    let missed = match timing.missed {
        Missed::Burst => punctual::Missed::burst(),
        Missed::Skip => punctual::Missed::skip(),
        Missed::Once => punctual::Missed::once(),
        Missed::Shift => punctual::Missed::shift(),
    };
    match timing.missed_within {
        Some(lateness) => missed.within(lateness),
        None => missed,
    }
}

fn overlap(overlap: Overlap) -> punctual::Overlap {
    match overlap {
        Overlap::Never => punctual::Overlap::Never,
        Overlap::Queue => punctual::Overlap::Queue,
        Overlap::Replace => punctual::Overlap::Replace,
        Overlap::Allow(most) => punctual::Overlap::Allow(most),
    }
}

fn refusal<F>(error: &Rejected<F>) -> String
where
    Rejected<F>: fmt::Display,
{
    error.to_string()
}
