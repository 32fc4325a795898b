//! Tasks that are paused, moved or triggered.
//!
//! # How
//! The deadline in a task's header is the *planned* one. The queue may hold the task under another:
//!
//! | | in the queue for |
//! |---|---|
//! | as planned | the planned deadline |
//! | a time on the wall, more than a minute ahead | a look in a minute |
//! | paused | the end of time, which does not come |
//! | triggered | the instant at which it was triggered |
//!
//! So a paused task is in the queue like any other, and cancelled, drained and listed like any other.
//!
//! # Protocol
//! Every change is made under the pool's lock, where a task either is in the queue, and is taken out and put back
//! under another deadline at once; or is in the hands of a worker, and then the change is noted in flags of its
//! header, which are heeded when it is queued again ([`Core::link`]). A task that will not be queued again is too far
//! gone, and the caller is told so. When that is, is decided under the lock as well: a task that runs once but is taken
//! more often, for looks at the wall, is marked as begun where the worker last looks at those flags.

use std::sync::Arc;

use punctual_engine::{RunState, Tick, may_run};

use super::core::{Core, Then};
use super::{Held, Pool, TaskRef};
use crate::series::{Due, Now, Plan, Point};
use crate::task::{Header, Task, TaskId};
use crate::when::When;

/// What came of an attempt to steer a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "it may have come too late"]
#[non_exhaustive]
pub enum Steered {
    /// Done: the task was waiting.
    Now,
    /// The task is running (or about to); it takes effect when the run has ended, if there is another then: a run that
    /// fails may be the last, and so is an attempt that succeeds.
    AfterRun,
    /// Nothing to do: it was so already.
    Already,
    /// Too late: its only, or last, run has begun.
    TooLate,
    /// Too late: the task is over, or was taken out of its executor.
    Over,
}

impl Steered {
    /// Whether what was asked for is the case, or will be.
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Now | Self::AfterRun | Self::Already)
    }
}

impl Core {
    /// Whether a task waits in the queue for a run; a future that waits there for its next poll does not.
    fn has_waiting(&self, header: &Header) -> bool {
        !header.is_under_way() && self.queue.contains(header.key())
    }

    /// Whether state and policy allow a task another run, now or later.
    fn may_have_runs(&self, header: &Header, is_due: bool) -> bool {
        may_run(self.state, self.policy, header.schedule().is_periodic(), is_due)
    }

    /// Whether a task may be put back into the queue.
    pub(super) fn may_wait(&self, header: &Header, is_due: bool) -> bool {
        let running = self.state == RunState::Running;
        // Nobody resumes a paused task after a shutdown, and the end would never come.
        may_run(self.state, self.policy, header.awaits_period(), is_due)
            && (running || !header.awaits_resumption())
    }

    /// Queues a task under `number`, for `due` or for what was asked of it meanwhile.
    pub(super) fn link(&mut self, task: TaskRef, number: TaskId, due: Due, now: Tick) -> Tick {
        let header = task.header();
        if header.is_under_way() {
            // A future between two polls. What was asked of the task concerns its next run.
            self.enqueue(task, due.look, number.number(), due.planned);
            return due.look;
        }
        let due = match header.take_move() {
            Some(planned) => {
                if let Some(series) = header.series() {
                    series.moved_to(planned);
                }
                Due::at(planned)
            }
            None => due,
        };
        let look = match () {
            () if header.is_triggered() && !header.is_full() => now,
            () if header.is_paused() => Tick::MAX,
            () => due.look,
        };
        self.enqueue(task, look, number.number(), due.planned);
        look
    }
}

impl Held<'_> {
    /// The number under which a task is queued again: its own. A future that goes on has a new one each time, or it
    /// would be ahead of all that were submitted since it began.
    pub(super) fn number_for(&mut self, header: &Header) -> TaskId {
        if header.is_under_way() { self.next_id() } else { header.id() }
    }

    /// [`link`](Core::link), and says who is to see to it: nobody may be looking at the queue.
    fn put(&mut self, task: TaskRef, due: Due, now: Tick) -> Then {
        let first = self.queue.next_deadline();
        let number = self.number_for(task.header());
        let look = self.link(task, number, due, now);
        let is_due = look <= now;
        let is_first = first.is_none_or(|first| look <= first);
        let wake = match (is_first, is_due) {
            (true, true) => self.waiting.call_for_due(),
            (true, false) => self.waiting.call_to_lead(),
            (false, _) => None,
        };
        let idle = wake.is_some() || self.waiting.called() > 0;
        let spawn = if self.wants_worker(is_due, idle) { Some(self.add_worker()) } else { None };
        Then { wake, spawn }
    }
}

impl Pool {
    /// Keeps a task from running until it is resumed.
    pub(crate) fn pause(self: &Arc<Self>, task: &dyn Task) -> Steered {
        self.steer(task, |core, header| {
            if header.is_paused() {
                return Err(Steered::Already);
            }
            // After a shutdown nobody would wait for it.
            if core.state != RunState::Running {
                return Err(Steered::Over);
            }
            header.set_paused(true);
            Ok(Due::at(header.deadline()))
        })
    }

    /// Lets a paused task run again.
    pub(crate) fn resume(self: &Arc<Self>, task: &dyn Task) -> Steered {
        let header = task.header();
        if !header.is_paused() {
            return if task.state().is_done() { Steered::Over } else { Steered::Already };
        }
        // Before the lock, because it may ask a calendar.
        let ahead = header.series().map(|series| series.look_ahead(series.now(&*self.clock)));
        let now = self.clock.now();
        self.steer(task, |core, header| {
            if !header.set_paused(false) {
                return Err(Steered::Already);
            }
            let planned = header.deadline();
            // Points of its grid that fell into the pause are left out.
            Ok(match (header.series(), &ahead) {
                // One that runs goes on as if it had not been paused.
                _ if !core.has_waiting(header) => Due::at(planned),
                (Some(series), Some(ahead)) => series.resumed(planned, ahead),
                _ => Due::at(grid_from(header, planned, now)),
            })
        })
    }

    /// Moves the next run to another instant.
    pub(crate) fn reschedule(self: &Arc<Self>, task: &dyn Task, when: When) -> Steered {
        let now = self.clock.now();
        let due = when.tick(now, &*self.clock);
        self.steer(task, |core, header| {
            // After a shutdown, by whose policy it may only run now or not at all.
            if !core.may_have_runs(header, due <= now) {
                return Err(Steered::Over);
            }
            // For a task in the queue `link` comes next and takes it; for one that runs it comes later.
            header.move_to(due);
            Ok(Due::at(due))
        })
    }

    /// Has a task run as soon as possible, besides the runs that are planned.
    pub(crate) fn trigger(self: &Arc<Self>, task: &dyn Task) -> Steered {
        self.steer(task, |_, header| match header.set_triggered(true) {
            true => Err(Steered::Already),
            false => Ok(Due::at(header.deadline())),
        })
    }

    /// A run of a task whose runs overlap is over: one that is triggered may go on.
    pub(crate) fn make_room(self: &Arc<Self>, task: &dyn Task) {
        let _ = self.steer(task, |_, header| match header.is_triggered() {
            true => Ok(Due::at(header.deadline())),
            false => Err(Steered::Already),
        });
    }

    /// Changes a task by `change`, which says what it is then planned for, and puts it back where it belongs.
    fn steer(
        self: &Arc<Self>,
        task: &dyn Task,
        change: impl FnOnce(&mut Core, &Header) -> Result<Due, Steered>,
    ) -> Steered {
        let header = task.header();
        let now = self.clock.now();
        let mut core = self.core.lock();
        if task.state().is_done() {
            return Steered::Over;
        }
        if !core.has_waiting(header) {
            return self.steer_running(core, task, change);
        }
        let due = match change(&mut core, header) {
            Ok(due) => due,
            Err(steered) => return steered,
        };
        let queued = core.unlink(header.key()).expect("seen there under the same lock");
        let then = core.put(queued, due, now);
        drop(core);
        self.see_to(then);
        Steered::Now
    }

    fn steer_running(
        &self,
        mut core: Held<'_>,
        task: &dyn Task,
        change: impl FnOnce(&mut Core, &Header) -> Result<Due, Steered>,
    ) -> Steered {
        let header = task.header();
        let runs =
            core.ready.hands(|mut hands| hands.any(|(running, _)| std::ptr::addr_eq(&***running, task)));
        // A run that waits to be polled again is going on, too.
        let in_hand = runs || core.queue.contains(header.key());
        match (in_hand, header.may_run_again() && core.may_have_runs(header, false)) {
            (false, _) => Steered::Over,
            (true, false) => Steered::TooLate,
            (true, true) => change(&mut core, header).map_or_else(|steered| steered, |_| Steered::AfterRun),
        }
    }

    /// The clock's reading for a task's header.
    pub(crate) fn now_for(&self, header: &Header) -> Now {
        match header.series() {
            Some(series) => series.now(&*self.clock),
            None => Now::only(self.clock.now()),
        }
    }
}

/// The first point of a task's grid that is not before `now`; what has no grid is planned as it was.
fn grid_from(header: &Header, planned: Tick, now: Tick) -> Tick {
    let plan = Plan::Schedule(header.schedule());
    match plan.is_grid().then(|| plan.since(Point::Tick(planned), Now::only(now))) {
        Some(Point::Tick(tick)) => tick,
        _ => planned,
    }
}
