//! What a worker remembers of its last tasks and waits, to know whether it is of any use.
//!
//! It is not, and had better [stand aside](super::aside), if its own bodies of late were short, and
//! - others have run tasks since it last looked round, it finds nothing [laid out](super::ready), and the pool's lock taken:
//!   somebody is about to lay out more, or submits; or
//! - others have run many of late, so they are at it at this moment, and short of nothing but tasks; or
//! - another waits for the next deadline, and of the waits of this worker each has brought several tasks: they come so
//!   densely that one of two is up all the time.
//!
//! Where there are several workers, one body of [`SAMPLE`] is timed, by the pool's clock. To time all of them would cost as much
//! as they do; the way from one to the next would be long also where threads only meet at a lock.

use std::time::Duration;

use punctual_engine::Tick;

use super::aside::{LONGEST, MOMENT, Why};
use super::ready::Ready;
use crate::clock::Clock;

/// A body that takes less is not worth a second worker: to give it out takes as long. With two clock readings, as it is timed.
const SHORT: Duration = Duration::from_nanos(200);
/// One body of so many is timed.
const SAMPLE: usize = 64;
/// Others that have taken as many since the worker looked round are at it.
const AT_IT: usize = SAMPLE / 2;
/// A worker that has run no more since it came back has come in vain.
const IN_VAIN: usize = 4 * SAMPLE;
/// After so many waits it is seen how many tasks they brought.
const WAITS: usize = 8;
/// As many for each of them are many.
const MANY: usize = 4;

pub(super) struct Spell {
    /// How many tasks it has run, counted round and round.
    ran: usize,
    /// Whether the last body that was timed was short.
    short: bool,
    /// Whether that was the last body of all.
    just_timed: bool,
    /// How many tasks others had taken when it last looked.
    by_others: usize,
    /// Waits since it began to count them, and `ran` at that time.
    waits: usize,
    ran_before: usize,
    /// How long it sleeps at first when it stands aside the next time, unless it is of use before; and `ran` when it came back
    /// the last time.
    at_first: Duration,
    ran_back: usize,
}

impl Spell {
    pub(super) const fn new() -> Self {
        Self {
            ran: 0,
            short: false,
            just_timed: false,
            by_others: 0,
            waits: 0,
            ran_before: 0,
            at_first: MOMENT,
            ran_back: 0,
        }
    }

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
        self.just_timed = true;
        self.short = clock.now().since(begun) < SHORT;
        !self.short
    }

    /// The worker looks round; says how many tasks others have taken since it last did.
    pub(super) fn look_round(&mut self, ready: &Ready) -> usize {
        let by_others = ready.taken().wrapping_sub(self.ran);
        by_others.wrapping_sub(std::mem::replace(&mut self.by_others, by_others))
    }

    /// Whether the worker, which has nothing to do, is of no use: others have, and it is short.
    pub(super) fn is_of_no_use(&mut self, ready: &Ready) -> bool {
        self.look_round(ready) > 0 && self.has_short_bodies()
    }

    /// Whether the last body was timed; true once.
    #[inline]
    pub(super) fn has_just_timed(&mut self) -> bool {
        std::mem::take(&mut self.just_timed)
    }

    /// Whether the worker, which has something to do, is of no use all the same: others do as much, and it is short.
    #[cold]
    pub(super) fn is_one_too_many(&mut self, ready: &Ready) -> bool {
        self.look_round(ready) >= AT_IT && self.has_short_bodies()
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

    /// The worker stands aside; says how long it is to sleep at first: for longer each time that it has come back in vain.
    pub(super) fn at_first(&mut self) -> Duration {
        if self.ran.wrapping_sub(self.ran_back) > IN_VAIN {
            self.at_first = MOMENT;
        }
        self.at_first
    }

    /// The worker comes back: what it remembers of its tasks was long ago.
    pub(super) fn begin_anew(&mut self, why: Why) {
        (self.short, self.just_timed, self.ran_back) = (false, false, self.ran);
        self.at_first = match why {
            Why::Few => (2 * self.at_first).min(LONGEST),
            Why::Nothing | Why::Slow | Why::Called => MOMENT,
        };
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
        let (mut spell, clock, ready) = (Spell::new(), ManualClock::new(), Ready::new());
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
        spell.begin_anew(Why::Few);
        assert!(!spell.is_of_no_use(&ready), "nothing is known of what is run now");
    }

    #[test]
    fn a_worker_is_one_too_many_if_others_do_as_much_of_what_is_short() {
        let (mut spell, clock, ready) = (Spell::new(), ManualClock::new(), Ready::new());
        let mut is_one_too_many = |by_others: usize, body: Duration| {
            run(&mut spell, &clock, &ready, body);
            (0..by_others).for_each(|_| ready.count_taken());
            let looks = spell.has_just_timed();
            assert!(looks && !spell.has_just_timed(), "once for each body that is timed");
            spell.is_one_too_many(&ready)
        };
        assert!(!is_one_too_many(AT_IT - 1, Duration::ZERO), "another may be in a long body");
        assert!(is_one_too_many(AT_IT, Duration::ZERO));
        assert!(!is_one_too_many(AT_IT - 1, Duration::ZERO), "what it has seen before does not count");
        assert!(!is_one_too_many(AT_IT, SHORT));
    }

    #[test]
    fn whoever_comes_back_in_vain_sleeps_longer_at_first() {
        let (mut spell, clock, ready) = (Spell::new(), ManualClock::new(), Ready::new());
        assert_eq!(spell.at_first(), MOMENT);
        let mut after = |why, samples: usize| {
            spell.begin_anew(why);
            (0..samples).for_each(|_| run(&mut spell, &clock, &ready, Duration::ZERO));
            spell.at_first()
        };
        assert_eq!([after(Why::Few, 0), after(Why::Few, IN_VAIN / SAMPLE)], [2 * MOMENT, 4 * MOMENT]);
        assert_eq!([after(Why::Few, 0), after(Why::Few, 0)], [LONGEST; 2]);
        for useful in [Why::Nothing, Why::Slow, Why::Called] {
            assert_eq!(after(useful, 0), MOMENT);
            assert_eq!(after(Why::Few, 0), 2 * MOMENT);
        }
        assert_eq!(after(Why::Few, IN_VAIN / SAMPLE + 1), MOMENT, "it was of use");
    }

    #[test]
    fn a_worker_waits_in_vain_if_each_wait_brings_many_tasks() {
        let (mut spell, clock, ready) = (Spell::new(), ManualClock::new(), Ready::new());
        let mut after = |tasks: usize| {
            (0..tasks).for_each(|_| run(&mut spell, &clock, &ready, Duration::ZERO));
            (0..WAITS).filter(|_| spell.waits_in_vain()).count()
        };
        assert_eq!(after(1), 1, "the last of so many waits");
        assert_eq!(after(0), 0, "they brought nothing");
        assert_eq!(after(1), 1);
    }
}
