//! What others do to a series, and see of it.

use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use super::{Due, History, Now, Point, Series};
use crate::failure::FailedRun;

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

    /// The next run of a series that was paused: the one it was paused with, or if that has passed, the first that
    /// lies ahead. Calls the calendar.
    pub(crate) fn resumed(&self, planned: Tick, now: Now) -> Due {
        let (point, off_plan, offset) = {
            let state = self.state.lock();
            (state.point, state.off_plan, state.offset)
        };
        if off_plan || !self.rules.plan.is_grid() {
            return match point {
                Point::Wall(_) if !off_plan => Self::translate(&self.state.lock(), now),
                _ => Due::at(planned),
            };
        }
        // One that is due this very moment has not passed.
        let passed = now.earlier(offset).earlier(Duration::from_nanos(1));
        let backlog = self.rules.plan.backlog(point, passed);
        let next = backlog.next.filter(|next| !self.has_ended(*next, now));
        let mut state = self.state.lock();
        match next {
            _ if backlog.count == 0 => Self::translate(&state, now),
            Some(next) => {
                state.leave_out(backlog.count);
                self.aim(&mut state, next, now)
            }
            None => {
                state.has_ended = true;
                Due::at(now.tick)
            }
        }
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
        let ahead = self.rules.plan.backlog(point, now).latest;
        let last = if off_plan { ahead } else { point };
        let next = |last: &Point| {
            let next = self.rules.plan.after(*last).filter(|next| next != last)?;
            (!self.has_ended(next, now)).then_some(next)
        };
        let later = std::iter::successors(next(&last), next);
        let later = later.map(|point| now.tick_of(point).after(self.rules.spread));
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
