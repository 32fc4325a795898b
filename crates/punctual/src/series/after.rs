//! What follows a run of a series.

use punctual_engine::{RunTimes, Tick};

use super::{After, Due, Now, Plan, Point, Series};
use crate::error::TaskError;
use crate::policy::{Choice, Moment, Recovery};
use crate::unwind;

impl Series {
    /// Says what follows a run. `thrown` is the panic that ended it, if one did; `extra` says that it was for no
    /// point of the schedule, which stays as it was. Calls the calendar, or the function, of the user.
    pub(crate) fn after(
        &self,
        times: RunTimes,
        runs: u64,
        thrown: Option<&TaskError>,
        extra: bool,
        now: Now,
    ) -> After {
        let (failure, recovery) = self.record(times, runs, thrown);
        if recovery == Recovery::Stop {
            return self.over(failure);
        }
        let due = match recovery {
            _ if self.rules.at_most.is_some_and(|most| runs >= most) => None,
            _ if extra => Some(self.unmoved(times.deadline, now)),
            Recovery::After(pause) => self.pause(now.tick.after(pause), now),
            _ => match unwind::catch(|| self.advance(times, now)) {
                Ok(due) => due,
                Err(panic) => return After::Fail(TaskError::Panicked(panic)),
            },
        };
        match (due, failure) {
            (Some(due), _) => After::Again(due),
            (None, None) if self.is_shared() => self.close(),
            (None, failure) => self.over(failure),
        }
    }

    /// The end of the series, with a run that failed or did not.
    fn over(&self, failure: Option<TaskError>) -> After {
        match failure {
            None => After::Done,
            // The error itself is the value.
            Some(TaskError::Failed(_)) if self.rules.returns_errors => After::Done,
            Some(failure) => After::Fail(failure),
        }
    }

    fn record(
        &self,
        times: RunTimes,
        runs: u64,
        thrown: Option<&TaskError>,
    ) -> (Option<TaskError>, Recovery) {
        let mut state = self.state.lock();
        let stopped = state.run.stopped();
        let noted = state.noted.take();
        let failure = thrown.cloned().or_else(|| self.failure_of(noted.as_ref(), stopped));
        if self.is_shared() && failure.is_none() {
            // Only a beat: its runs are noted when they end.
            return (None, Recovery::GoOn);
        }
        let forgotten = state.history.note(times, runs, failure.as_ref());
        let in_a_row = state.history.in_a_row;
        let recovery = match &failure {
            None => Recovery::GoOn,
            Some(_) => self.rules.on_failure.recover(in_a_row, &mut state.dice),
        };
        drop(state);
        drop((forgotten, noted));
        (failure, recovery)
    }

    /// The run that was planned before an extra one.
    fn unmoved(&self, planned: Tick, now: Now) -> Due {
        let state = self.state.lock();
        if state.off_plan { Due::at(planned) } else { Self::translate(&state, now) }
    }

    /// The next run is for no point, and due then.
    fn pause(&self, until: Tick, now: Now) -> Option<Due> {
        if self.has_ended(Point::Tick(until), now) {
            return None;
        }
        self.state.lock().off_plan = true;
        Some(Due::at(until))
    }

    /// Moves on to the next point.
    pub(super) fn advance(&self, times: RunTimes, now: Now) -> Option<Due> {
        let point = match &self.rules.plan {
            Plan::NextBy => Point::Tick(self.call_next_by(times)?),
            plan if plan.is_grid() => self.next_of_grid(now)?,
            Plan::Schedule(schedule) => Point::Tick(schedule.next(times)?),
            Plan::Calendar(_) => unreachable!("a calendar is a grid"),
        };
        if self.has_ended(point, now) {
            return None;
        }
        let mut state = self.state.lock();
        Some(self.aim(&mut state, point, now))
    }

    fn call_next_by(&self, times: RunTimes) -> Option<Tick> {
        // Taken out, because it is user code. If it panics it is gone, and so is the series.
        let mut next_by = self.state.lock().next_by.take()?;
        let next = next_by(times);
        self.state.lock().next_by = Some(next_by);
        next
    }

    fn next_of_grid(&self, now: Now) -> Option<Point> {
        let (point, off_plan, caught_up) = {
            let state = self.state.lock();
            (state.point, state.off_plan, state.caught_up)
        };
        let candidate = self.rules.plan.after(point)?;
        // A point is due when its spread is over, too.
        let seen = now.earlier(self.rules.spread);
        let backlog = self.backlog(candidate, seen);
        if backlog.count == 0 {
            self.state.lock().caught_up = 0;
            return Some(candidate);
        }
        let missed = self.rules.overlap.rule(self.rules.missed);
        let choice = match off_plan {
            // What came due while a failure was waited out is not wanted any more.
            true => Choice::Next,
            false => missed.choose(Moment::Ended, backlog.overdue(seen), caught_up),
        };
        let chosen = self.chosen(choice, backlog, seen)?;
        let left_out = self.left_out(choice, backlog, chosen);
        let mut state = self.state.lock();
        state.leave_out(left_out);
        state.caught_up = if choice == Choice::Next { 0 } else { caught_up + 1 };
        Some(chosen)
    }
}
