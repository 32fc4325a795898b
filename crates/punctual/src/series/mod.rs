//! A task with a plan of its own: which point of its schedule is next, and what its policies say.
//!
//! The four Java forms have none of this: their rule is [`Schedule::next`](punctual_engine::Schedule::next), and
//! their cost is that of a task. A task made by the builder that runs more than once, or has a timeout, a time on
//! the wall or a lateness that is too much, hangs a `Series` on its header. The worker asks it twice for each run:
//!
//! ```text
//!  taken from the queue                                    the run has ended
//!         │ fire                                                  │ after
//!         ├─ Run ─────────────▶ hooks, body, hooks ──────────────▶├─ Again(due): queued for it
//!         ├─ Later(due): queued for it, unrun                     ├─ Done: the handle has the value
//!         ├─ End(error): the handle has the error                 ├─ Fail(error): the handle has the error
//!         └─ Linger: runs that overlap go on                      └─ Linger: runs that overlap go on
//! ```
//!
//! # Invariants (guarded by `state`)
//! 1. `point` is the point of the schedule that the run in the queue, or the one going on, is for. It lies after
//!    `behind`, the last that was run, which only ever moves forward unless somebody reschedules the task; so nothing
//!    is run twice for one point, whatever the wall clock does. Between the two there is no point ahead of the wall
//!    clock as it was when this one was chosen: if the clock is set back behind that, the choice is made anew.
//! 2. `off_plan` says that the run in the queue is for no point: a run after a pause for a failure, or one that was
//!    rescheduled in a calendar. After it the schedule is taken up at its first point that lies ahead.
//! 3. A task is in the hands of one worker between `fire` and its return to the queue, so these two calls never meet
//!    another of themselves. What others do meanwhile (pause, reschedule, trigger) is noted in the header, under the
//!    pool's lock, and heeded when the task is queued again.
//!
//! # Wall time
//! The queue knows only the executor's clock. A point on the wall is translated when the task is queued, and the
//! translation is good for a minute: a task whose time is further ahead is queued for a look in a minute, is taken,
//! found not to be due, translated anew and queued again (`Later`). So when the wall clock is set, a calendar follows
//! within a minute; a task is never run before its time on the wall, because the wall is looked at when it is taken.
//!
//! # Lock order
//! The pool's lock, then `state`, then a task's own. User code (calendars, functions, destructors of what they
//! panicked with) is called without any of them.
//!
//! # Paths not taken
//! Policies in the task's cell: every plain task would pay for the fields. A wrapper round the body that catches its
//! panics: the hooks of an observer and decorations would fail outside of it, and end what is told to go on.

mod after;
mod control;
mod fire;
mod history;
mod hold;
mod plan;
mod report;
mod shared;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{Schedule, Tick};

use crate::clock::Clock;
use crate::error::TaskError;
use crate::policy::{Dice, Jitter, Missed, OnFailure, Overlap, Recovery};
use crate::sync::Mutex;
use crate::task::TaskRef;
use crate::when::When;

pub(crate) use history::History;
pub(crate) use hold::Hold;
pub(crate) use plan::{NextBy, Now, Plan, Point, Shelf};
pub use report::Report;
pub(crate) use report::{Attempt, Beat, Ending, Reporting, Whole};
pub(crate) use shared::{NewRun, Sharing, async_run, sync_run};
pub(crate) use watch::Watch;

/// How long a translation from the wall to the executor's clock is trusted.
const TRUSTED: Duration = Duration::from_secs(60);

/// Everything that is decided when the task is made. Immutable after construction.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) plan: Plan,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
    pub(crate) on_failure: OnFailure,
    pub(crate) jitter: Option<Jitter>,
    /// The part of the delay that is always the same.
    pub(crate) spread: Duration,
    pub(crate) at_most: Option<u64>,
    pub(crate) until: Option<Point>,
    pub(crate) timeout: Option<Duration>,
    /// Whether an error of the body is the task's value as well.
    pub(crate) returns_errors: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            plan: Plan::Schedule(Schedule::Once),
            missed: Missed::burst(),
            overlap: Overlap::Never,
            on_failure: OnFailure::Stop,
            jitter: None,
            spread: Duration::ZERO,
            at_most: None,
            until: None,
            timeout: None,
            returns_errors: false,
        }
    }
}

pub(crate) struct Series {
    rules: Rules,
    state: Mutex<State>,
}

struct State {
    point: Point,
    /// The clocks when that point was made the next one.
    planned_at: Now,
    /// The last point that was run, or else where the schedule begins.
    behind: Point,
    off_plan: bool,
    /// The last point fell into a pause.
    has_ended: bool,
    /// The delay of the pending run, drawn once for each point.
    offset: Duration,
    /// Runs back to back that have caught up with the grid.
    caught_up: u64,
    /// Points left out since the last run began, and before it.
    skipped: u64,
    missed: u64,
    /// What the body reported of the run going on.
    noted: Option<TaskError>,
    history: History,
    dice: Dice,
    /// `None` while it is being called.
    next_by: Option<NextBy>,
    /// The run going on, for what watches over it.
    run: watch::Going,
    /// Runs that go on besides the task itself; see [`shared`].
    going: Vec<TaskRef>,
    /// The last of them to begin has: the series ends when all have ended.
    closing: bool,
    /// Of those that have ended the one that began last, by its number, and its failure.
    latest: (u64, Option<TaskError>),
}

impl State {
    fn leave_out(&mut self, points: u64) {
        self.skipped = self.skipped.saturating_add(points);
        self.history.missed = self.history.missed.saturating_add(points);
    }
}

/// When a task is to be queued for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    /// The instant from which it may run.
    pub(crate) planned: Tick,
    /// The instant at which it is to be looked at: the same, or earlier for a time on the wall.
    pub(crate) look: Tick,
}

impl Due {
    pub(crate) fn at(tick: Tick) -> Self {
        Self { planned: tick, look: tick }
    }
}

/// What to do with a task that was taken from the queue.
#[must_use]
#[derive(Debug)]
pub(crate) enum Fire {
    /// Run it, as the run that was due then.
    Run(Tick),
    Later(Due),
    /// As [`After::Linger`].
    Linger,
    End(TaskError),
}

/// What to do with a task whose run has ended.
#[must_use]
#[derive(Debug)]
pub(crate) enum After {
    Again(Due),
    /// Not queued again, and not over: whoever ends its last run completes it; see [`shared`].
    Linger,
    /// The task is over, with the outcome of this run.
    Done,
    /// The task is over, and that is why.
    Fail(TaskError),
}

impl Series {
    pub(crate) fn new(rules: Rules, next_by: Option<NextBy>) -> Self {
        let dice = rules.jitter.and_then(Jitter::seed).map_or_else(Dice::random, Dice::new);
        let state = State {
            point: Point::Tick(Tick::ZERO),
            planned_at: Now::only(Tick::ZERO),
            behind: Point::Tick(Tick::ZERO),
            off_plan: false,
            has_ended: false,
            offset: Duration::ZERO,
            caught_up: 0,
            skipped: 0,
            missed: 0,
            noted: None,
            history: History::default(),
            dice,
            next_by,
            run: watch::Going::default(),
            going: Vec::new(),
            closing: false,
            latest: (0, None),
        };
        Self { rules, state: Mutex::new(state) }
    }

    /// What a task without policies needs all the same if its first run is by the wall clock.
    pub(crate) fn for_wall(when: When, schedule: Schedule) -> Option<Arc<Self>> {
        let rules = Rules { plan: Plan::Schedule(schedule), ..Rules::default() };
        matches!(when, When::Wall(_)).then(|| Arc::new(Self::new(rules, None)))
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether its next point is on the wall.
    pub(crate) fn is_on_wall(&self) -> bool {
        self.rules.plan.is_wall() || matches!(self.state.lock().point, Point::Wall(_))
    }

    /// Both clocks when its next point was chosen, if that is on the wall.
    pub(crate) fn planned_at(&self) -> Now {
        self.state.lock().planned_at
    }

    /// Both clocks, if both matter.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Now {
        let on_wall = |point: Point| matches!(point, Point::Wall(_));
        let wall = self.is_on_wall() || self.rules.until.is_some_and(on_wall);
        if wall { Now::of(clock) } else { Now::only(clock.now()) }
    }

    // ---- the first run

    /// When the first run is due, counting from `start`; `None` if never. Calls the calendar.
    pub(crate) fn first(&self, start: Point, now: Now) -> Option<Due> {
        let point = match &self.rules.plan {
            Plan::Calendar(calendar) => {
                let start = match start {
                    Point::Wall(wall) => wall,
                    Point::Tick(tick) => now.wall.checked_add(tick.since(now.tick)).unwrap_or(now.wall),
                };
                Point::Wall(calendar.next_after(start)?)
            }
            Plan::Schedule(_) | Plan::NextBy => start,
        };
        if self.has_ended(point, now) {
            return None;
        }
        let mut state = self.state.lock();
        state.behind = start;
        Some(self.aim(&mut state, point, now))
    }

    /// Whether the schedule ends before `point`.
    fn has_ended(&self, point: Point, now: Now) -> bool {
        self.rules.until.is_some_and(|until| match (point, until) {
            // Compared where they are: a translation could be off when the wall clock is set.
            (Point::Wall(point), Point::Wall(until)) => point > until,
            _ => now.tick_of(point) > now.tick_of(until),
        })
    }

    /// Makes `point` the next one.
    fn aim(&self, state: &mut State, point: Point, now: Now) -> Due {
        state.point = point;
        state.planned_at = now;
        state.off_plan = false;
        let jitter = self.rules.jitter.map_or(Duration::ZERO, |jitter| jitter.draw(&mut state.dice));
        state.offset = self.rules.spread.saturating_add(jitter);
        Self::translate(state, now)
    }

    fn translate(state: &State, now: Now) -> Due {
        let planned = now.tick_after(state.point, state.offset);
        let look = match state.point {
            Point::Tick(_) => planned,
            Point::Wall(_) => planned.min(now.tick.after(TRUSTED)),
        };
        Due { planned, look }
    }

    // ---- during a run

    /// How many points were left out between the run before and the one going on.
    pub(crate) fn missed(&self) -> u64 {
        self.state.lock().missed
    }

    /// The body says that its run has failed.
    pub(crate) fn note(&self, error: TaskError) {
        let old = self.state.lock().noted.replace(error);
        drop(old);
    }

    /// The failure of the run going on, unless it is a panic.
    pub(crate) fn noted(&self) -> Option<TaskError> {
        let state = self.state.lock();
        self.failure_of(state.noted.as_ref(), state.run.stopped())
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("rules", &self.rules).finish_non_exhaustive()
    }
}
