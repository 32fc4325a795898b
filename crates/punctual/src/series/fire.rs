//! What a worker does with a task of a series that it has taken from the queue.

use std::time::Duration;

use punctual_engine::{RunTimes, Schedule, Tick};

use super::plan::Backlog;
use super::{Due, Fire, Now, Plan, Point, Series, State};
use crate::error::{Abandoned, TaskError};
use crate::policy::{Choice, MissedRule, Moment};

impl Series {
    /// Says what to do with the task, which was taken from the queue and is planned for `planned`. Calls the calendar.
    pub(crate) fn fire(&self, planned: Tick, now: Now) -> Fire {
        match self.decide(planned, now) {
            Fire::End(_) if self.begins_to_close() => Fire::Linger,
            fire => fire,
        }
    }

    fn decide(&self, planned: Tick, now: Now) -> Fire {
        let (point, offset) = {
            let mut state = self.state.lock();
            if state.has_ended {
                return Fire::End(TaskError::Abandoned(Abandoned::Missed));
            }
            if state.off_plan {
                // It may have been taken for a look at the wall, which it does not go by.
                return if planned > now.tick {
                    Fire::Later(Due::at(planned))
                } else {
                    self.begin(&mut state, planned)
                };
            }
            let due = Self::translate(&state, now);
            if due.planned > now.tick {
                if !self.rules.plan.is_wall() || now.wall >= state.planned_at.wall {
                    return Fire::Later(due);
                }
                drop(state);
                return Fire::Later(self.plan_anew(due, now));
            }
            if self.is_full(&state.going) {
                drop(state);
                return self.let_go(due.planned, now);
            }
            if !self.minds_lateness() {
                self.settle_on_clock(&mut state, now);
                return self.begin(&mut state, due.planned);
            }
            (state.point, state.offset)
        };
        let seen = now.earlier(offset);
        let backlog = self.backlog(point, seen);
        self.choose_fired(backlog, seen, now)
    }

    /// The wall clock was set back behind the moment at which the next point was chosen: there may be an earlier one that
    /// is still ahead, and was not run. Calls the calendar.
    fn plan_anew(&self, due: Due, now: Now) -> Due {
        let behind = match self.state.lock().behind {
            Point::Tick(tick) => now.wall_of(tick),
            Point::Wall(wall) => wall,
        };
        let next = self.rules.plan.after(Point::Wall(behind.max(now.wall)));
        let mut state = self.state.lock();
        match (next, state.point) {
            (Some(next @ Point::Wall(sooner)), Point::Wall(point)) if sooner < point => {
                self.aim(&mut state, next, now)
            }
            _ => {
                state.planned_at = now;
                due
            }
        }
    }

    /// There is no place for a run now, or it is too late for it: the next point is the next chance. Where that counts
    /// from a run it does so from this moment. Calls the calendar, or the function.
    fn let_go(&self, planned: Tick, now: Now) -> Fire {
        let times = RunTimes { deadline: planned, started: now.tick, ended: now.tick };
        self.state.lock().leave_out(1);
        match self.advance(times, now) {
            Some(due) => Fire::Later(due),
            None => Fire::End(TaskError::Abandoned(Abandoned::Missed)),
        }
    }

    /// Whether the next point counts from a run, and is made by it.
    fn counts_on(&self) -> bool {
        let plan = &self.rules.plan;
        !plan.is_grid() && !matches!(plan, Plan::Schedule(Schedule::Once))
    }

    /// Whether a run that is late may be treated in any other way than being run.
    fn minds_lateness(&self) -> bool {
        let missed = self.rules.missed;
        let bursts = missed.rule() == MissedRule::Burst;
        missed.max_lateness().is_some() || (self.rules.plan.is_grid() && !bursts)
    }

    fn choose_fired(&self, backlog: Backlog, seen: Now, now: Now) -> Fire {
        let choice = self.rules.missed.choose(Moment::Fired, backlog.overdue(seen), 0);
        let chosen = self.chosen(choice, backlog, seen);
        let mut state = self.state.lock();
        match chosen {
            Some(point) if self.has_ended(point, now) => Fire::End(TaskError::Abandoned(Abandoned::Missed)),
            Some(point) if now.tick_after(point, state.offset) <= now.tick => {
                state.leave_out(self.left_out(choice, backlog, point));
                state.point = point;
                let planned = now.tick_after(point, state.offset);
                self.settle_on_clock(&mut state, now);
                self.begin(&mut state, planned)
            }
            Some(point) => {
                state.leave_out(backlog.count);
                Fire::Later(self.aim(&mut state, point, now))
            }
            None if self.counts_on() => {
                let planned = Self::translate(&state, now).planned;
                drop(state);
                self.let_go(planned, now)
            }
            None => Fire::End(TaskError::Abandoned(Abandoned::Missed)),
        }
    }

    /// The points from `from` on, seen from `seen`, or from the end of the schedule if that has passed.
    pub(super) fn backlog(&self, from: Point, seen: Now) -> Backlog {
        self.rules.plan.backlog(from, self.before_end(seen))
    }

    fn before_end(&self, now: Now) -> Now {
        self.rules.until.map_or(now, |until| now.no_later_than(until))
    }

    /// The first point of a fixed rate may be on the wall; the others count from it on the executor's clock. A point that
    /// is older than that clock has no place there: it stays on the wall, and what follows it keeps its distance.
    fn settle_on_clock(&self, state: &mut State, now: Now) {
        let is_older = now.lateness(state.point) > now.tick.since(Tick::ZERO);
        if !self.rules.plan.is_wall() && !is_older {
            state.point = Point::Tick(now.tick_of(state.point));
        }
    }

    /// A run that was triggered begins: it is for no point, and what was left out is told to the next that is.
    pub(crate) fn begin_extra(&self, planned: Tick) -> Fire {
        self.state.lock().missed = 0;
        Fire::Run(planned)
    }

    fn begin(&self, state: &mut State, planned: Tick) -> Fire {
        state.missed = std::mem::take(&mut state.skipped);
        state.behind = state.point;
        Fire::Run(planned)
    }

    /// The point that a choice means. Calls the calendar.
    pub(super) fn chosen(&self, choice: Choice, backlog: Backlog, now: Now) -> Option<Point> {
        match choice {
            Choice::Oldest => Some(backlog.oldest),
            Choice::Latest => Some(backlog.latest),
            Choice::Next => backlog.next,
            Choice::Since(ago) => Some(self.rules.plan.since(backlog.oldest, now.earlier(ago))),
            Choice::Now if self.rules.plan.is_wall() => Some(backlog.latest),
            Choice::Now => Some(Point::Tick(self.before_end(now).tick)),
        }
    }

    /// How many points a choice leaves out.
    pub(super) fn left_out(&self, choice: Choice, backlog: Backlog, chosen: Point) -> u64 {
        match choice {
            Choice::Oldest => 0,
            Choice::Next => backlog.count,
            Choice::Latest => backlog.count.saturating_sub(1),
            Choice::Now if self.rules.plan.is_wall() => backlog.count.saturating_sub(1),
            Choice::Now => 0,
            Choice::Since(_) => {
                let steps = match &self.rules.plan {
                    Plan::Schedule(schedule) => {
                        backlog.oldest.steps_to(chosen, schedule.period().unwrap_or(Duration::MAX))
                    }
                    Plan::Calendar(_) | Plan::NextBy => None,
                };
                // How many lie between two days of a calendar is not known without asking for each.
                steps.unwrap_or_else(|| u64::from(backlog.oldest != chosen))
            }
        }
    }
}
