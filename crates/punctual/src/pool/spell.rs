//! What a worker remembers of its last tasks and waits, to know whether it is of any use.
//!
//! It is not, and had better [stand aside](super::aside), if its own bodies of late were short, and
//! - others have run tasks since it last looked round, it finds nothing [laid out](super::ready), and the pool's lock taken:
//!   somebody is about to lay out more, or submits; or
//! - of its last few hundred tasks others have run half as many in the same time, and that was so little time that none of
//!   its own can have blocked: so there is something to do, but others do it as well, and each is in the other's way; or
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
/// One that takes more is a reason for those who stand aside to come back. What lies between may be chance.
const LONG: Duration = Duration::from_nanos(500);
/// One body of so many is timed.
const SAMPLE: usize = 64;
/// Others that have taken as many meanwhile, together, are at it.
const AT_IT: usize = SAMPLE / 2;
/// A worker that takes longer from one timed body to the next runs more than short bodies, waits, or is pre-empted.
const BUSY: Duration = Duration::from_micros(SAMPLE as u64);
/// How often in a row it has to be found that others are at it, and the worker busy with what is short, for it to leave. A few bodies
/// that block among many that are short are not often timed; but hardly ever are there none among so many.
const CROWDED: u32 = 4;
/// A worker that has run no more since it came back has come in vain.
const IN_VAIN: usize = 2 * CROWDED as usize * SAMPLE;
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
    /// When it began, and whether that was soon after the one before it.
    timed: Option<Tick>,
    busy: bool,
    /// See [`CROWDED`].
    crowded: u32,
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
            timed: None,
            busy: false,
            crowded: 0,
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
        self.busy = self.timed.replace(begun).is_some_and(|before| begun.since(before) < BUSY);
        let took = clock.now().since(begun);
        self.short = took < SHORT;
        took >= LONG
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

    /// Whether the worker, which has something to do and has just timed a body, is of no use all the same.
    #[cold]
    pub(super) fn is_one_too_many(&mut self, ready: &Ready) -> bool {
        let others_are = self.look_round(ready) >= AT_IT;
        let is_so = others_are && self.busy && self.has_short_bodies();
        self.crowded = if is_so { self.crowded + 1 } else { 0 };
        self.crowded >= CROWDED
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
        // So the next that is timed counts for nothing, and with it what others have taken up to then.
        self.timed = None;
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
            assert_eq!(is_long, begun.is_some() && body >= LONG);
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

    /// Runs as many samples as it takes, while others take so many for each; says after which of them it is one too many.
    fn crowded_after(
        spell: &mut Spell,
        clock: &ManualClock,
        ready: &Ready,
        samples: &[(usize, Duration)],
    ) -> Vec<bool> {
        let one = |&(by_others, body): &(usize, Duration)| {
            run(spell, clock, ready, body);
            (0..by_others).for_each(|_| ready.count_taken());
            assert!(spell.has_just_timed() && !spell.has_just_timed(), "once for each body that is timed");
            spell.is_one_too_many(ready)
        };
        samples.iter().map(one).collect()
    }

    #[test]
    fn a_worker_is_one_too_many_if_others_do_half_as_much_of_what_is_short_again_and_again() {
        let (clock, ready) = (ManualClock::new(), Ready::new());
        let (crowd, alone, long) = ((AT_IT, SHORT / 2), (AT_IT - 1, SHORT / 2), (AT_IT, SHORT));
        let after = |samples: &[_]| crowded_after(&mut Spell::new(), &clock, &ready, samples);
        // Of the first nobody knows how soon it came after another.
        assert_eq!(after(&[crowd; 6]), [false, false, false, false, true, true]);
        assert_eq!(
            after(&[crowd, crowd, crowd, alone, crowd, crowd]),
            [false; 6],
            "others may be in long bodies"
        );
        assert_eq!(after(&[crowd, crowd, crowd, long, crowd, crowd]), [false; 6]);
    }

    #[test]
    fn a_worker_whose_bodies_block_now_and_then_is_not_one_too_many() {
        let (mut spell, clock, ready) = (Spell::new(), ManualClock::new(), Ready::new());
        for _ in 0..100 {
            assert_eq!(crowded_after(&mut spell, &clock, &ready, &[(AT_IT, Duration::ZERO); 3]), [false; 3]);
            // None that is timed.
            clock.jump(BUSY);
        }
    }

    #[test]
    fn what_others_took_before_a_worker_came_or_came_back_says_nothing() {
        let (clock, ready) = (ManualClock::new(), Ready::new());
        let took = |many: usize| (0..many).for_each(|_| ready.count_taken());
        took(100 * SAMPLE);
        let mut spell = Spell::new();
        // The first sample takes in what was before; three more are too few.
        let (crowd, alone) = ((AT_IT, Duration::ZERO), (0, Duration::ZERO));
        let after_that = [alone, crowd, crowd, crowd, alone];
        assert_eq!(crowded_after(&mut spell, &clock, &ready, &after_that), [false; 5]);
        took(100 * SAMPLE);
        spell.begin_anew(Why::Nothing);
        assert_eq!(crowded_after(&mut spell, &clock, &ready, &after_that), [false; 5]);
        assert!(!spell.is_of_no_use(&ready));
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
