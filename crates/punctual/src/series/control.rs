//! What others do to a series, and see of it.

use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use super::plan::Backlog;
use super::{Due, History, Now, Point, Series};
use crate::failure::FailedRun;

/// What lay ahead of a paused series when somebody looked.
pub(crate) struct Ahead {
    now: Now,
    point: Point,
    /// `None` if there is no grid.
    backlog: Option<Backlog>,
}

impl Series {
    /// Somebody has moved the next run. To be called under the pool's lock, with the queueing.
    pub(crate) fn moved_to(&self, tick: Tick) {
        let mut state = self.state.lock();
        state.has_ended = false;
        if self.rules.plan.is_wall() {
            state.off_plan = true;
        } else {
            state.point = Point::Tick(tick);
            state.offset = Duration::ZERO;
            state.off_plan = false;
        }
    }

    /// Sees how far a series that was paused is behind. Calls the calendar, so it comes before the locks.
    pub(crate) fn look_ahead(&self, now: Now) -> Ahead {
        let (point, off_plan, offset) = {
            let state = self.state.lock();
            (state.point, state.off_plan, state.offset)
        };
        // One that is due this very moment has not passed.
        let passed = now.earlier(offset).earlier(Duration::from_nanos(1));
        let on_grid = !off_plan && self.rules.plan.is_grid();
        let backlog = on_grid.then(|| self.rules.plan.backlog(point, passed));
        Ahead { now, point, backlog }
    }

    /// The next run of a series that was paused: the one it was paused with, or if that has passed, the first that
    /// lies ahead. To be called under the pool's lock, with the queueing. Whoever has moved the task since its points
    /// were looked at has the last word.
    pub(crate) fn resumed(&self, planned: Tick, ahead: &Ahead) -> Due {
        let Ahead { now, point, backlog } = *ahead;
        let mut state = self.state.lock();
        if state.off_plan {
            return Due::at(planned);
        }
        match backlog.filter(|backlog| backlog.count > 0 && state.point == point) {
            None => Self::translate(&state, now),
            Some(backlog) => match backlog.next.filter(|next| !self.has_ended(*next, now)) {
                Some(next) => {
                    state.leave_out(backlog.count);
                    self.aim(&mut state, next, now)
                }
                None => {
                    state.has_ended = true;
                    Due::at(now.tick)
                }
            },
        }
    }

    /// Whether the run of that number is the last.
    pub(crate) fn is_last(&self, run: u64) -> bool {
        self.rules.at_most.is_some_and(|most| run >= most)
    }

    /// The next `n` runs, or fewer where the schedule ends or does not know. `planned` is the pending one, or the one
    /// going on. Calls the calendar.
    pub(crate) fn upcoming(&self, planned: Tick, n: usize, runs: u64, running: bool, now: Now) -> Vec<Tick> {
        let left = self.rules.at_most.map_or(u64::MAX, |most| most.saturating_sub(runs));
        let n = n.min(usize::try_from(left).unwrap_or(usize::MAX));
        let (point, off_plan) = {
            let state = self.state.lock();
            (state.point, state.off_plan)
        };
        let pending = (!running).then(|| self.planned(planned, now));
        let last = match off_plan {
            false => point,
            // The schedule is taken up where it is when that run is made.
            true => {
                let tick = pending.map_or(now.tick, |pending| pending.max(now.tick));
                let then = Now { tick, wall: now.wall_of(tick) };
                self.rules.plan.backlog(point, then.earlier(self.rules.spread)).latest
            }
        };
        let next = |last: &Point| {
            let next = self.rules.plan.after(*last).filter(|next| next != last)?;
            (!self.has_ended(next, now)).then_some(next)
        };
        let later = std::iter::successors(next(&last), next);
        let later = later.map(|point| now.tick_after(point, self.rules.spread));
        pending.into_iter().chain(later).take(n).collect()
    }

    /// The deadline that a task is planned for, whatever its header says: that may be a look at the wall.
    pub(crate) fn planned(&self, planned: Tick, now: Now) -> Tick {
        let state = self.state.lock();
        if state.off_plan { planned } else { Self::translate(&state, now).planned }
    }

    /// Whether the run going on has long been asked to stop by its timeout.
    pub(crate) fn is_overrunning(&self) -> bool {
        self.state.lock().run.is_overrunning()
    }

    pub(crate) fn recent_failures(&self) -> Vec<FailedRun> {
        self.state.lock().history.recent()
    }

    pub(crate) fn history(&self) -> History {
        self.state.lock().history.clone()
    }

    /// The time of the next point on the wall, if that is where it is.
    pub(crate) fn wall(&self) -> Option<SystemTime> {
        match self.state.lock() {
            state if state.off_plan => None,
            state => match state.point {
                Point::Wall(wall) => Some(wall),
                Point::Tick(_) => None,
            },
        }
    }
}
