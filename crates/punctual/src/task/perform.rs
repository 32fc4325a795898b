//! One run of a task, from the hook before it to the outcome after it.
//!
//! The order is fixed: before-hook, body (inside its decoration), after-hook, *then* the counters, then the
//! outcome is published and the waiters are woken. So whoever sees the outcome sees the run counted, and the
//! hooks have seen the run before anybody can act on its result. A before-hook that panics takes the place of
//! the body: the task ends with that panic, and there is no after-hook.
//!
//! Most tasks are *bare*: a body that runs once, with no decoration, no name, no plan, and nobody who waits yet; and most
//! pools have no observer. Then there is one way through all this that is short ([`Cell::perform_bare`]), and whatever
//! else happens on it, a panic or a cancel, goes on with the general one.

use std::mem::needs_drop;
use std::sync::Arc;

use punctual_engine::Tick;

use super::cell::{Body, Cell, Task, Typed, Work};
use super::{RunOutcome, TaskInfo, Turn};
use crate::error::{Abandoned, Panic, TaskError};
use crate::future::Wakes;
use crate::observe::{Observer, Place};
use crate::unobserved::{Reporter, UnobservedFailure, Unread, is_failure};
use crate::unwind;

/// What surrounds a run.
pub(crate) struct Run<'a> {
    pub(crate) observer: Option<&'a dyn Observer>,
    /// Who learns of a failure that nobody reads.
    pub(crate) reporter: Option<&'a Arc<Reporter>>,
    pub(crate) turn: Turn,
    pub(crate) started: Tick,
    /// Whether a body that returned leaves the task ready for another run.
    pub(crate) again: bool,
    /// Called once, after the hooks and before the outcome is published, if the task is over with this run.
    pub(crate) count: &'a dyn Fn(),
    /// Decides, instead of `again`, what follows a run, whose panic it is shown.
    pub(crate) judge: Option<Judge<'a>>,
}

/// Says what follows a run.
pub(crate) type Judge<'a> = &'a dyn Fn(Option<&TaskError>) -> Verdict;

/// What follows a run.
pub(crate) enum Verdict {
    /// Another.
    Again,
    /// Nothing: the task is over, with this outcome.
    Over,
    /// Nothing: the task is over, and that is why.
    Fail(TaskError),
}

/// What came of a run.
#[must_use]
pub(crate) enum Ended {
    /// The task had been ended before it was started; nothing was called.
    Skipped,
    /// The task is over, by this run.
    Finished,
    /// The body was run to its end, but somebody had ended the task meanwhile.
    Late,
    /// A periodic task ran, or a future was polled, and is ready to be queued again.
    Again,
}

impl<T, B> Cell<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    pub(super) fn perform_typed(&self, run: &Run<'_>) -> Ended {
        if run.is_plain() {
            if let Some(body) = self.start_bare() {
                return self.perform_bare(body, run);
            }
        }
        let Some(mut work) = self.start() else {
            return self.skipped(run);
        };
        let outcome = self.call_with_hooks(&mut work, run);
        let (again, outcome) = match (run.judge, self.header().wakes()) {
            (None, None) => (run.again && outcome.is_ok(), outcome),
            (None, Some(wakes)) => match outcome {
                Ok(value) => (wakes.goes_on(run.again, value.is_some()), Ok(value)),
                failed => (false, failed),
            },
            // Not ready: nothing to judge yet.
            (Some(_), Some(wakes)) if outcome.is_ok() && wakes.stays() => (true, outcome),
            (Some(judge), wakes) => run.judged(judge, wakes, outcome, &mut work),
        };
        if again { self.give_back(work, outcome, run) } else { self.finish(work, outcome, run) }
    }

    /// The run of a task that has nothing but its body, which most have: there is nobody to call before and after it, and
    /// what it returns is the outcome.
    #[inline]
    fn perform_bare(&self, body: B, run: &Run<'_>) -> Ended {
        let mut body = Some(body);
        match unwind::catch(|| B::call(&mut body)) {
            Ok(Some(value)) if body.is_none() => {
                (run.count)();
                match self.succeed(value) {
                    Ok(()) => self.finished(false, run),
                    Err(late) => self.too_late(Ok(late), None, run),
                }
            }
            result => {
                let outcome = result.map_err(TaskError::Panicked);
                self.finish(Work { body, decoration: None }, outcome, run)
            }
        }
    }

    /// Makes the task ready for another run.
    fn give_back(&self, work: Work<B>, outcome: Result<Option<T>, TaskError>, run: &Run<'_>) -> Ended {
        run.contain(Place::Destructor, unwind::discard(outcome));
        match self.put_back(work) {
            Ok(()) => Ended::Again,
            Err(work) => {
                (run.count)();
                run.discard(work);
                run.contain(Place::Destructor, self.clear());
                Ended::Late
            }
        }
    }

    /// Ends the task with what its last run came to.
    fn finish(&self, work: Work<B>, outcome: Result<Option<T>, TaskError>, run: &Run<'_>) -> Ended {
        run.discard(work);
        (run.count)();
        let outcome = outcome.and_then(|value| value.ok_or(TaskError::Abandoned(Abandoned::Dropped)));
        let report = outcome.as_ref().err().and_then(|error| self.report(error, run));
        let failed = outcome.is_err();
        match self.complete(outcome) {
            Ok(()) => {
                // Of a periodic task it is said now; of another when nobody has read it.
                drop(report);
                self.finished(failed, run)
            }
            Err(late) => self.too_late(late, report, run),
        }
    }

    /// What nobody can ask for any more goes with the run, report and then value or payload: later the worker may have the
    /// next task in hand, which would wait for a destructor that takes its time, and be taken for the one it belongs to.
    #[inline]
    fn finished(&self, failed: bool, run: &Run<'_>) -> Ended {
        if (failed || needs_drop::<T>()) && self.header().is_unshared() {
            if failed {
                drop(self.take_unread());
            }
            run.contain(Place::Destructor, unwind::discard(self.take_remains()));
        }
        Ended::Finished
    }

    /// Somebody has ended it, and may have left something that nobody can ask for any more.
    #[cold]
    fn skipped(&self, run: &Run<'_>) -> Ended {
        run.contain(Place::Destructor, self.clear());
        Ended::Skipped
    }

    /// Cancelled while it ran: nobody may have the value, or can learn of a failure.
    #[cold]
    fn too_late(&self, late: Result<T, TaskError>, report: Option<Unread>, run: &Run<'_>) -> Ended {
        drop(report.or_else(|| self.take_unread()));
        run.contain(Place::Destructor, unwind::discard(late));
        run.contain(Place::Destructor, self.clear());
        Ended::Late
    }

    /// What is to be said of a failure when the outcome has been published. For a task that runs once, and is not over,
    /// it stays with the task until somebody reads the outcome.
    #[cold]
    fn report(&self, error: &TaskError, run: &Run<'_>) -> Option<Unread> {
        let reporter = run.reporter.filter(|_| is_failure(error))?;
        let info = TaskInfo::new(self.header(), run.turn, Some(run.started));
        let unread = Unread::new(reporter, UnobservedFailure::new(info, error.clone()));
        match self.header().schedule().is_periodic() {
            true => Some(unread),
            false => self.keep_unread(unread),
        }
    }

    /// `Ok(None)` if a decoration left the body out.
    fn call_with_hooks(&self, work: &mut Work<B>, run: &Run<'_>) -> Result<Option<T>, TaskError> {
        let info = TaskInfo::new(self.header(), run.turn, Some(run.started));
        if let Some(observer) = run.observer {
            unwind::catch(|| observer.before_run(info)).map_err(|panic| {
                run.observer_saw(Place::BeforeRun, &panic);
                TaskError::HookPanicked(panic)
            })?;
        }
        // Outside of what may unwind: a decoration that panics after the body has returned must not take the
        // value down with it, whose destructor might panic as well.
        let mut value = None;
        let result = unwind::catch(|| call_decorated(work, &mut value));
        if let Some(observer) = run.observer {
            let header = self.header();
            let noted = header.series().and_then(|series| series.noted());
            let outcome = match (&result, &noted) {
                (Err(panic), _) => RunOutcome::Panicked(panic),
                (Ok(()), _) if header.wakes().is_some_and(|wakes| wakes.is_pending()) => RunOutcome::Pending,
                (Ok(()), Some(error)) => RunOutcome::Failed(error),
                (Ok(()), None) => RunOutcome::Returned,
            };
            run.contain(Place::AfterRun, unwind::catch(|| observer.after_run(info, outcome)));
        }
        match result {
            Ok(()) => Ok(value),
            Err(panic) => {
                run.contain(Place::Destructor, unwind::discard(value));
                Err(TaskError::Panicked(panic))
            }
        }
    }
}

fn call_decorated<T, B: Body<T>>(work: &mut Work<B>, value: &mut Option<T>) {
    let body = &mut work.body;
    match &mut work.decoration {
        None => *value = B::call(body),
        Some(decoration) => decoration.run(&mut || {
            if value.is_none() {
                *value = B::call(body);
            }
        }),
    }
}

impl Run<'_> {
    /// Whether there is nobody to be asked or told, and no other run.
    #[inline]
    fn is_plain(&self) -> bool {
        self.observer.is_none() && self.judge.is_none() && !self.again
    }

    /// Has a run that is over judged: whether there is another, and with what the task is over if not.
    #[cold]
    fn judged<T, B: Body<T>>(
        &self,
        judge: Judge<'_>,
        wakes: Option<&Arc<Wakes>>,
        outcome: Result<Option<T>, TaskError>,
        work: &mut Work<B>,
    ) -> (bool, Result<Option<T>, TaskError>) {
        let outcome = match outcome {
            // A future that nobody can wake, or whose wake a decoration has left out.
            Ok(None) if wakes.is_some_and(|wakes| wakes.is_under_way()) => {
                Err(TaskError::Abandoned(Abandoned::Dropped))
            }
            outcome => outcome,
        };
        match judge(outcome.as_ref().err()) {
            Verdict::Again => {
                self.contain(Place::Destructor, unwind::catch(|| B::end_run(&mut work.body)));
                (true, outcome)
            }
            Verdict::Over => (false, outcome),
            Verdict::Fail(error) => {
                self.contain(Place::Destructor, unwind::discard(outcome));
                (false, Err(error))
            }
        }
    }

    /// Drops what is left of a body, and its decoration, one by one.
    fn discard<B>(&self, work: Work<B>) {
        if let Some(body) = work.body {
            self.contain(Place::Destructor, unwind::discard(body));
        }
        if let Some(decoration) = work.decoration {
            self.contain(Place::Destructor, unwind::discard(decoration));
        }
    }

    fn contain(&self, place: Place, result: Result<(), Panic>) {
        if let Err(panic) = result {
            self.observer_saw(place, &panic);
        }
    }

    fn observer_saw(&self, place: Place, panic: &Panic) {
        // An observer that panics while being told of a panic is past help.
        let _ = self.observer.map(|observer| unwind::catch(|| observer.contained(place, panic)));
    }
}
