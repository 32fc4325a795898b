//! Who stands aside because others get on better alone.
//!
//! Where tasks take less time than it takes to order them, a second worker makes a pool slower: both want the same lock, the
//! same tasks and the same memory, and on few processors the thread that submits is in their way as well. So a worker that
//! finds it is of no use ([`Spell`](super::spell) knows when; there may be work at hand) *stands aside*: it sleeps until the others
//! can use a hand.
//!
//! For the pool such a worker is busy, as if it ran a body that takes so long. So nothing depends on its coming back, and no
//! rule of the [leader](super::leader), of the [inbox](super::inbox) or of what is [laid out](super::ready) knows of it.
//!
//! # States of a worker
//! ```text
//!                  nobody is on the lookout
//!   at work ──────────────────────────────────▶ on the lookout ──── others take too few ────▶ at work
//!      │    somebody is                              ▲                    │
//!      └────────────────▶ asleep ── made lookout ────┘                    │
//!                            └───────────── nothing is taken at all ──────┴─▶ at work, all of them
//! ```
//!
//! # Invariants
//! 1. If somebody is asleep, somebody else is on the lookout, or has been woken to be.
//! 2. Whoever is on the lookout wakes after [`LONGEST`] at most (and the slack that the pool's timers have), and if it leaves, it
//!    makes one of those asleep the lookout or wakes them all. So by 1 nobody sleeps for longer than others get on, or keep up.
//! 3. One worker at least does not stand aside, if there is any. It may wait, or be blocked by its body: then nothing is taken,
//!    and the lookout comes back.
//! 4. Nobody stands aside in a pool that may have more workers than it has, or that counts who is free: for one who is gone
//!    it would start another, or refuse a task. Nor does anybody who has just put a task back into the queue: it is counted on
//!    to look there.
//!
//! # Protocol
//! - *The lookout* sleeps for a moment, and counts how many tasks were taken meanwhile. It sleeps again, for twice as long each
//!   time up to [`LONGEST`], while no body that was timed took long, and either one task was taken for each [`PACE`] and worker, or
//!   none has been due for long ([`BEHIND`]). If not, what is run may take its time, so there is something to do for another: it goes
//!   back to work, and wakes one of those asleep to be the lookout and see whether it takes still another. If nothing was taken,
//!   there is nothing to do, or all who are at work are blocked: it wakes all of them.
//! - *Whoever has come back in vain,* because the pace was slow and not because anybody was, and stands aside again at once,
//!   sleeps for longer at first: [`Spell`](super::spell) remembers.
//! - *Whoever is asleep* goes on sleeping until it is off the list: a permit may be left over from elsewhere.
//!
//! # What it costs
//! What a body that blocks has left behind may wait for about a millisecond, instead of the 0.06 ms that a thread takes to be woken
//! on the same machine: it may block early in the lookout's sleep, having taken enough before. If others are blocked one
//! after the other, each further worker comes 0.1 ms later.
//!
//! # What it buys
//! A million tasks within 100 ms on two processors, million a second, interleaved, medians of five: with two workers 2.13 to
//! 2.59, with four 2.05 to 2.74, with eight 1.36 to 2.64; at once 7.24 to 7.06, 5.68 to 6.75, 3.00 to 6.88.
//!
//! It looked every 0.2 ms then, for one task every 2 µs, and came back for that even if nothing waited; only who found nothing to do
//! left; and a body was short up to 0.5 µs. Beside that, medians of eleven, in a slow hour: within 100 ms with two workers 2.06 to
//! 2.41, with eight 1.21 to 1.91. At once, medians of five, with two workers and bodies of 0.1, 0.2, 0.3 and 0.5 µs: 3.87 and 3.89,
//! 2.50 to 3.48, 2.02 to 2.97, 2.15 and 2.13. With eight, and one body of a hundred asleep for 0.1 ms, medians of seven: 1.72 to 2.30;
//! one of fifty or twenty, level. Each time the lookout wakes, the kernel may move another thread out of its way, and a processor
//! that is woken so often does not go looking for threads that wait elsewhere.
//!
//! # Paths not taken
//! *Everybody on the lookout:* to wake, look and sleep takes 9 µs of a processor. With eight workers, each of them every 0.2 ms,
//! 1.99 and 5.34 million a second. *Looking at the clock, or at the lock, instead of sleeping:* with more threads than
//! processors whoever looks keeps another from working (two workers 2.14 to 1.77). *Laying out the next tasks before the last
//! are taken,* so that nobody finds the lock taken: two workers 2.01 to 2.16, one 3.17 to 2.86. *Leaving after 64 tasks, if others
//! have taken half as many:* where one body of twenty slept for 50 µs, eight workers took three times as long.

use std::sync::Arc;
use std::time::Duration;

use super::ready::Ready;
use crate::park::Parker;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How long the lookout sleeps at first, unless it has come back in vain.
pub(super) const MOMENT: Duration = Duration::from_micros(100);
/// How long at most.
pub(super) const LONGEST: Duration = Duration::from_micros(500);
/// Others that take a task in less time than this, each of them, need no help.
const PACE: Duration = Duration::from_micros(1);
/// Nor do those who leave nothing waiting for as long as this.
pub(super) const BEHIND: Duration = Duration::from_micros(100);

/// The workers of a pool that stand aside. Its lock is taken alone.
pub(super) struct Aside {
    /// How many workers there are, and how many of them do not stand aside.
    workers: AtomicUsize,
    at_work: AtomicUsize,
    /// Whether a body took its time since the lookout came to its post.
    slow: AtomicBool,
    list: Mutex<List>,
}

/// Why a worker that stood aside is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Others have taken nothing: there is nothing to do, or they are blocked.
    Nothing,
    /// A body took its time.
    Slow,
    /// Others have taken too few, and there is something to do.
    Few,
    /// It was woken by the lookout, which has left.
    Called,
}

#[derive(Default)]
struct List {
    lookout: Option<Arc<Parker>>,
    asleep: Vec<Arc<Parker>>,
}

impl List {
    fn looks_out(&self, parker: &Arc<Parker>) -> bool {
        self.lookout.as_ref().is_some_and(|lookout| Arc::ptr_eq(lookout, parker))
    }

    fn is_asleep(&self, parker: &Arc<Parker>) -> bool {
        self.asleep.iter().any(|other| Arc::ptr_eq(other, parker))
    }

    /// The lookout leaves; says who is to be woken.
    fn leave(&mut self, all: bool) -> Vec<Arc<Parker>> {
        if all {
            self.lookout = None;
            return std::mem::take(&mut self.asleep);
        }
        self.lookout = self.asleep.pop();
        self.lookout.iter().cloned().collect()
    }
}

// Relaxed, all of it: these are counts to judge by, and nothing is read because of them.
impl Aside {
    pub(super) fn new() -> Self {
        Self {
            workers: AtomicUsize::new(0),
            at_work: AtomicUsize::new(0),
            slow: AtomicBool::new(false),
            list: Mutex::new(List::default()),
        }
    }

    /// There is another worker.
    pub(super) fn arrive(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
        self.at_work.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker is gone.
    pub(super) fn depart(&self) {
        self.workers.fetch_sub(1, Ordering::Relaxed);
        self.at_work.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are several workers.
    pub(super) fn are_several(&self) -> bool {
        self.workers.load(Ordering::Relaxed) > 1
    }

    /// A body took its time.
    pub(super) fn note_slow(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }

    /// Whether a worker may stand aside, and then it has to: not the last that is at work.
    pub(super) fn may_stand(&self) -> bool {
        let others = |at_work: usize| at_work.checked_sub(1).filter(|others| *others > 0);
        self.at_work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, others).is_ok()
    }

    /// Sleeps as long as others get on, by what is `ready`; the lookout for so long `at_first`.
    #[cold]
    pub(super) fn stand(
        &self,
        parker: &Arc<Parker>,
        ready: &Ready,
        at_first: Duration,
        are_behind: impl Fn() -> bool,
    ) -> Why {
        let mut why = Why::Called;
        if let Some(at_first) = self.is_lookout(parker, at_first) {
            why = self.look_out(ready, at_first, are_behind, |moment| sleep(parker, moment));
            let wake = self.list.lock().leave(why == Why::Nothing);
            wake.iter().for_each(|parker| parker.unpark());
        }
        self.at_work.fetch_add(1, Ordering::Relaxed);
        why
    }

    /// Looks out until others take too few tasks. `sleep` says how long it took.
    fn look_out(
        &self,
        ready: &Ready,
        at_first: Duration,
        are_behind: impl Fn() -> bool,
        mut sleep: impl FnMut(Duration) -> Duration,
    ) -> Why {
        self.slow.store(false, Ordering::Relaxed);
        let mut moment = at_first;
        loop {
            let before = ready.taken();
            let passed = sleep(moment);
            let taken = ready.taken().wrapping_sub(before);
            // The last may have left meanwhile.
            let at_work = self.at_work.load(Ordering::Relaxed).max(1);
            let expected = passed.as_nanos() * at_work as u128;
            match taken {
                0 => return Why::Nothing,
                _ if self.slow.load(Ordering::Relaxed) => return Why::Slow,
                _ if PACE.as_nanos() * (taken as u128) < expected && are_behind() => return Why::Few,
                _ => moment = (2 * moment).min(LONGEST),
            }
        }
    }

    /// Puts the thread on the list, and returns when it is on the lookout, with how long it is to sleep at first, or off the list
    /// again. Who takes the place of another is to see soon whether others are wanted, too.
    fn is_lookout(&self, parker: &Arc<Parker>, at_first: Duration) -> Option<Duration> {
        let mut list = self.list.lock();
        if list.lookout.is_none() {
            list.lookout = Some(Arc::clone(parker));
            return Some(at_first);
        }
        list.asleep.push(Arc::clone(parker));
        while list.is_asleep(parker) {
            drop(list);
            parker.park();
            list = self.list.lock();
        }
        list.looks_out(parker).then_some(MOMENT)
    }
}

/// Sleeps for so long, by the machine's clock: the pool's may stand still. Says how long it was. A token that is left over does
/// not end it.
#[cfg(not(punctual_loom))]
fn sleep(parker: &Parker, moment: Duration) -> Duration {
    use crate::clock::{Clock, SystemClock};

    let (clock, mut passed) = (SystemClock::new(), Duration::ZERO);
    while passed < moment {
        parker.park_timeout(moment - passed);
        passed = clock.now().since(punctual_engine::Tick::ZERO);
    }
    passed
}

/// In a model time passes when nobody else can go on.
#[cfg(punctual_loom)]
fn sleep(parker: &Parker, moment: Duration) -> Duration {
    parker.park_timeout(moment);
    moment
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::Executor;

    /// Workers at work and what they have taken.
    fn pool(workers: usize) -> (Aside, Ready) {
        let (aside, ready) = (Aside::new(), Ready::new());
        (0..workers).for_each(|_| aside.arrive());
        (aside, ready)
    }

    #[test]
    fn the_last_at_work_does_not_stand_aside() {
        let (aside, _) = pool(3);
        assert!(aside.may_stand() && aside.may_stand());
        assert!(!aside.may_stand());
        aside.arrive();
        assert!(aside.may_stand());
    }

    /// How many tasks so many workers take in that time, if they are quick enough.
    fn enough(time: Duration, workers: usize) -> usize {
        workers * time.as_nanos().div_ceil(PACE.as_nanos()) as usize
    }

    #[test]
    fn the_lookout_sleeps_while_others_keep_the_pace() {
        for at_work in [1, 3] {
            let (aside, ready) = pool(at_work + 1);
            assert!(aside.may_stand());
            let moments = [MOMENT, 2 * MOMENT, 4 * MOMENT, LONGEST, LONGEST];
            let mut slept = Vec::new();
            let why = aside.look_out(
                &ready,
                MOMENT,
                || true,
                |moment| {
                    slept.push(moment);
                    let is_last = slept.len() == moments.len();
                    (0..enough(moment, at_work) - usize::from(is_last)).for_each(|_| ready.count_taken());
                    moment
                },
            );
            assert_eq!((why, slept), (Why::Few, moments.to_vec()));
        }
    }

    #[test]
    fn the_lookout_sleeps_while_nothing_waits_for_long() {
        let ((aside, ready), mut looks) = (pool(2), 0);
        assert!(aside.may_stand());
        let why = aside.look_out(
            &ready,
            MOMENT,
            || false,
            |moment| {
                looks += 1;
                if looks < 5 {
                    ready.count_taken();
                }
                moment
            },
        );
        assert_eq!((why, looks), (Why::Nothing, 5));
    }

    #[test]
    fn whoever_has_come_back_in_vain_begins_with_a_longer_sleep() {
        let ((aside, ready), mut slept) = (pool(2), Vec::new());
        assert!(aside.may_stand());
        let why = aside.look_out(
            &ready,
            LONGEST,
            || true,
            |moment| {
                slept.push(moment);
                moment
            },
        );
        assert_eq!((why, slept), (Why::Nothing, vec![LONGEST]));
    }

    #[test]
    fn the_lookout_comes_back_when_the_last_at_work_has_left() {
        let (aside, ready) = pool(2);
        assert!(aside.may_stand());
        let why = aside.look_out(
            &ready,
            MOMENT,
            || true,
            |moment| {
                aside.depart();
                moment
            },
        );
        assert_eq!(why, Why::Nothing);
    }

    #[test]
    fn the_lookout_counts_the_time_that_has_passed_and_not_the_time_it_asked_for() {
        let (aside, ready) = pool(1);
        let mut looks = 0;
        let why = aside.look_out(
            &ready,
            MOMENT,
            || true,
            |moment| {
                looks += 1;
                (0..enough(moment, 1)).for_each(|_| ready.count_taken());
                2 * moment
            },
        );
        assert_eq!((why, looks), (Why::Few, 1));
    }

    #[test]
    fn the_lookout_comes_back_when_bodies_take_their_time() {
        let (aside, ready) = pool(1);
        let mut looks = 0;
        aside.note_slow();
        let why = aside.look_out(
            &ready,
            MOMENT,
            || true,
            |moment| {
                looks += 1;
                (0..2 * enough(moment, 1)).for_each(|_| ready.count_taken());
                if looks == 3 {
                    aside.note_slow();
                }
                moment
            },
        );
        assert_eq!((why, looks), (Why::Slow, 3), "what was before it came to its post says nothing");
    }

    #[test]
    fn a_token_that_is_left_over_does_not_end_the_sleep() {
        let parker = Parker::current();
        parker.unpark();
        assert!(sleep(&parker, MOMENT) >= MOMENT);
    }

    #[test]
    fn all_who_stand_aside_come_back_when_nothing_is_taken() {
        let (aside, ready) = pool(4);
        thread::scope(|scope| {
            for _ in 0..3 {
                assert!(aside.may_stand());
                scope.spawn(|| aside.stand(&Parker::current(), &ready, MOMENT, || true));
            }
        });
        assert_eq!(aside.at_work.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn whoever_takes_the_place_of_a_lookout_sleeps_for_a_moment_at_first() {
        let (aside, first) = (Aside::new(), Parker::current());
        assert_eq!(aside.is_lookout(&first, LONGEST), Some(LONGEST));
        thread::scope(|scope| {
            let second = scope.spawn(|| aside.is_lookout(&Parker::current(), LONGEST));
            while aside.list.lock().asleep.is_empty() {
                thread::yield_now();
            }
            aside.list.lock().leave(false).iter().for_each(|parker| parker.unpark());
            assert_eq!(second.join().unwrap(), Some(MOMENT));
        });
    }

    /// Invariant 4.
    #[test]
    fn only_where_no_other_is_started_and_nothing_refused_a_worker_may_be_missed() {
        let fixed = Executor::new(2);
        fixed.prestart_all_core_threads();
        let may_grow = Executor::builder().core_threads(1).max_threads(2).build().unwrap();
        let bounded = Executor::builder().core_threads(2).capacity(9).build().unwrap();
        for pool in [&may_grow, &bounded] {
            pool.prestart_all_core_threads();
        }
        let all = [&fixed, &may_grow, &bounded, &Executor::cached()]
            .map(|pool| pool.pool().core.lock().has_all_workers());
        assert_eq!(all, [true, false, false, false]);
    }

    #[test]
    fn a_lookout_that_leaves_is_followed_by_one_or_by_all() {
        let [first, second, third] = [(); 3].map(|()| thread::spawn(Parker::current).join().unwrap());
        let mut list = List { lookout: Some(first), asleep: vec![Arc::clone(&second), Arc::clone(&third)] };
        let woken = list.leave(false);
        assert!(woken.len() == 1 && Arc::ptr_eq(&woken[0], &third) && list.looks_out(&third));
        assert!(list.is_asleep(&second) && !list.is_asleep(&third));
        let woken = list.leave(true);
        assert!(woken.len() == 1 && Arc::ptr_eq(&woken[0], &second));
        assert!(list.lookout.is_none() && list.asleep.is_empty());
        assert!(list.leave(false).is_empty() && list.lookout.is_none());
    }
}
