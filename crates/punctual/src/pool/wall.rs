//! Noticing that the wall clock was set.
//!
//! A task that goes by the wall clock is looked at once a minute, and so finds out by itself (see
//! [`series`](crate::series)). Any worker that wakes for whatever reason compares both clocks as well, and if they have
//! drifted apart since such a task was queued, has every one of them looked at now. So a machine with anything to do
//! follows its wall clock at once, and one with nothing to do within a minute.
//!
//! Where no task goes by the wall clock, it is never read.

use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use super::core::Core;
use crate::clock::Clock;
use crate::series::{Due, Now};
use crate::task::{Header, TaskRef};

/// How far the clocks may drift apart before it counts as a step. A clock that is being slewed gets there, too.
const DRIFT: Duration = Duration::from_millis(50);

/// Both clocks as they were when they were last compared. Guarded by the pool's lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    tick: Tick,
    wall: SystemTime,
}

impl Compared {
    fn has_drifted(self, now: Now) -> bool {
        // Where the wall clock would be by now, if nobody had touched it.
        let expected = self.wall.checked_add(now.tick.since(self.tick));
        expected.is_none_or(|expected| {
            let apart = now.wall.duration_since(expected).unwrap_or_else(|back| back.duration());
            apart > DRIFT
        })
    }
}

impl Core {
    /// A task has been queued that may go by the wall clock. The clocks are compared with what they showed when it was
    /// planned: one that was set since then has been set for this task.
    pub(crate) fn note_wall(&mut self, header: &Header) {
        if self.wall.is_none() {
            let planned =
                header.series().filter(|series| series.is_on_wall()).map(|series| series.planned_at());
            self.wall = planned.map(|Now { tick, wall }| Compared { tick, wall });
        }
    }

    /// If the wall clock was set, has every task that goes by it looked at now.
    pub(super) fn compare_clocks(&mut self, clock: &dyn Clock) {
        let Some(compared) = self.wall else { return };
        let now = Now::of(clock);
        if !compared.has_drifted(now) {
            return;
        }
        let on_wall = |task: &TaskRef| task.header().series().is_some_and(|series| series.is_on_wall());
        // One that runs will be queued again, by what the clocks show then; so will a future between two polls.
        let mut runs = self.ready.hands(|mut hands| hands.any(|(task, _)| on_wall(task)));
        let concerned = self.extract(|_, task| {
            let under_way = task.header().is_under_way();
            runs |= under_way && on_wall(task);
            !under_way && on_wall(task)
        });
        let Now { tick, wall } = now;
        self.wall = (runs || !concerned.is_empty()).then_some(Compared { tick, wall });
        // They go straight back, so none of them is dropped here.
        for task in concerned {
            let planned = task.header().deadline();
            let number = task.header().id();
            self.link(task, number, Due { planned, look: tick.min(planned) }, tick);
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Compared, DRIFT};
    use crate::series::Now;
    use punctual_engine::Tick;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_step_in_either_direction_is_noticed_and_the_passage_of_time_is_not() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let tick = Tick::ZERO.after(Duration::from_secs(500));
        let compared = Compared { tick, wall };
        let (day, nano) = (Duration::from_secs(86400), Duration::from_nanos(1));
        let later = |passed: Duration, wall: SystemTime| Now { tick: tick.after(passed), wall };
        for passed in [Duration::ZERO, DRIFT, day] {
            assert!(!compared.has_drifted(later(passed, wall + passed)));
            assert!(!compared.has_drifted(later(passed, wall + passed + DRIFT)));
            assert!(!compared.has_drifted(later(passed, wall + passed - DRIFT)));
            assert!(compared.has_drifted(later(passed, wall + passed + DRIFT + nano)));
            assert!(compared.has_drifted(later(passed, wall + passed - DRIFT - nano)));
        }
    }
}
