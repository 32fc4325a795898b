//! What a worker remembers of its last tasks and waits, to know whether it is of any use.
//!
//! It is not, and had better [stand aside](super::aside), if its own bodies of late were short, and
//! - others have run tasks since it last looked round, it finds nothing [laid out](super::ready), and the pool's lock taken:
//!   somebody is about to lay out more, or submits; or
//! - another waits for the next deadline, and of the waits of this worker each has brought several tasks: they come so
//!   densely that one of two is up all the time.
//!
//! Where there are several workers, one body of [`SAMPLE`] is timed, by the pool's clock. To time all of them would cost as much
//! as they do; the way from one to the next would be long also where threads only meet at a lock.

use std::time::Duration;

use punctual_engine::Tick;

use super::ready::Ready;
use crate::clock::Clock;

/// A body that takes less is not worth a second worker.
const SHORT: Duration = Duration::from_nanos(500);
/// One body of so many is timed.
const SAMPLE: usize = 64;
/// After so many waits it is seen how many tasks they brought.
const WAITS: usize = 8;
/// As many for each of them are many.
const MANY: usize = 4;

#[derive(Default)]
pub(super) struct Spell {
    /// How many tasks it has run, counted round and round.
    ran: usize,
    /// Whether the last body that was timed was short.
    short: bool,
    /// How many tasks others had taken when it last looked.
    by_others: usize,
    /// Waits since it began to count them, and `ran` at that time.
    waits: usize,
    ran_before: usize,
}

impl Spell {
    /// A task begins; says when, if it is timed: where there are others who could run it.
    #[inline]
    pub(super) fn begin(&mut self, clock: &dyn Clock, others: impl FnOnce() -> bool) -> Option<Tick> {
        self.ran = self.ran.wrapping_add(1);
        if self.ran % SAMPLE == 0 && others() { Some(clock.now()) } else { None }
    }

    /// The task is over; says whether it was timed and has taken its time.
    #[inline]
    pub(super) fn end(&mut self, begun: Option<Tick>, clock: &dyn Clock) -> bool {
        let Some(begun) = begun else { return false };
        self.short = clock.now().since(begun) < SHORT;
        !self.short
    }

    /// The worker looks round; says whether others have taken tasks since it last did.
    pub(super) fn look_round(&mut self, ready: &Ready) -> bool {
        let by_others = ready.taken().wrapping_sub(self.ran);
        std::mem::replace(&mut self.by_others, by_others) != by_others
    }

    /// Whether the worker, which has nothing to do, is of no use: others have, and it is short.
    pub(super) fn is_of_no_use(&mut self, ready: &Ready) -> bool {
        self.look_round(ready) && self.has_short_bodies()
    }

    /// Whether the worker, which is about to wait beside another, had better leave waiting to that one.
    pub(super) fn waits_in_vain(&mut self) -> bool {
        self.waits += 1;
        if self.waits < WAITS {
            return false;
        }
        let ran = self.ran.wrapping_sub(self.ran_before);
        (self.waits, self.ran_before) = (0, self.ran);
        ran >= WAITS * MANY && self.has_short_bodies()
    }

    fn has_short_bodies(&self) -> bool {
        // In a model a body takes no time, and whoever sleeps is woken only when nobody else can go on.
        self.short && !cfg!(punctual_loom)
    }

    /// The worker comes back: what it remembers of its tasks was long ago.
    pub(super) fn begin_anew(&mut self) {
        self.short = false;
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::*;
    use crate::ManualClock;

    /// Runs as many tasks as it takes to time one, each of which takes so long.
    fn run(spell: &mut Spell, clock: &ManualClock, ready: &Ready, body: Duration) {
        for _ in 0..SAMPLE {
            ready.count_taken();
            let begun = spell.begin(clock, || true);
            clock.jump(body);
            let is_long = spell.end(begun, clock);
            assert_eq!(is_long, begun.is_some() && body >= SHORT);
        }
    }

    #[test]
    fn a_worker_is_of_no_use_if_others_run_tasks_and_they_are_short() {
        let (mut spell, clock, ready) = (Spell::default(), ManualClock::new(), Ready::new());
        run(&mut spell, &clock, &ready, SHORT / 2);
        assert!(!spell.is_of_no_use(&ready), "it runs all of them itself");
        ready.count_taken();
        assert!(spell.is_of_no_use(&ready));
        assert!(!spell.is_of_no_use(&ready), "the other has taken nothing since");
        ready.count_taken();
        run(&mut spell, &clock, &ready, SHORT);
        assert!(!spell.is_of_no_use(&ready), "they take their time");
        ready.count_taken();
        run(&mut spell, &clock, &ready, Duration::ZERO);
        spell.begin_anew();
        assert!(!spell.is_of_no_use(&ready), "nothing is known of what is run now");
    }

    #[test]
    fn a_worker_waits_in_vain_if_each_wait_brings_many_tasks() {
        let (mut spell, clock, ready) = (Spell::default(), ManualClock::new(), Ready::new());
        let mut after = |tasks: usize| {
            (0..tasks).for_each(|_| run(&mut spell, &clock, &ready, Duration::ZERO));
            (0..WAITS).filter(|_| spell.waits_in_vain()).count()
        };
        assert_eq!(after(1), 1, "the last of so many waits");
        assert_eq!(after(0), 0, "they brought nothing");
        assert_eq!(after(1), 1);
    }
}
