//! Who stands aside because others get on better alone.
//!
//! Where tasks take less time than it takes to order them, a second worker makes a pool slower: both want the same lock, the
//! same tasks and the same memory, and on few processors the thread that submits is in their way as well. So a worker that
//! finds it is of no use ([`Spell`](super::spell) knows when) *stands aside*: it sleeps until the others can use a hand.
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
//! 2. Whoever is on the lookout wakes after [`LONGEST`] at most, and if it leaves, it makes one of those asleep the lookout or
//!    wakes them all. So by 1 nobody sleeps for longer than others get on.
//! 3. One worker at least does not stand aside, if there is any.
//!
//! # Protocol
//! - *The lookout* sleeps for a moment, and counts how many tasks were taken meanwhile. While it is more than one for each
//!   [`PACE`], it sleeps again. If it is less, what is run may take its time, so there is something to do for another: it goes
//!   back to work, and wakes one of those asleep to be the lookout and see whether it takes still another. If nothing was
//!   taken, there is nothing to do, or all who are at work are blocked: it wakes all of them.
//! - *Whoever is asleep* goes on sleeping until it is off the list: a permit may be left over from elsewhere.
//!
//! # What it costs
//! While half a million tasks a second are run, or more, those that a body which blocks has left behind may wait for 0.4 ms:
//! it may block just after the lookout looked, having taken enough before. A thread that is woken for them takes 0.06 ms on
//! the same machine.
//!
//! # What it buys
//! A million tasks within 100 ms on two processors, million a second, interleaved, medians of five: with two workers 2.12 to
//! 2.71, with four 1.95 to 2.56, with eight 1.25 to 2.64; at once 6.76 to 6.99, 4.69 to 6.99, 2.73 to 6.66. With bodies of 0.5
//! to 5 µs nothing changes.
//!
//! # Paths not taken
//! *Everybody on the lookout:* to wake, look and sleep takes 9 µs of a processor. With eight workers, each of them every 0.2 ms,
//! 1.99 and 5.34 million a second. *Looking at the clock, or at the lock, instead of sleeping:* with more threads than
//! processors whoever looks keeps another from working (two workers 2.14 to 1.77). *Laying out the next tasks before the last
//! are taken,* so that nobody finds the lock taken: two workers 2.01 to 2.16, one 3.17 to 2.86.

use std::sync::Arc;
use std::time::Duration;

use super::ready::Ready;
use crate::park::Parker;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How long the lookout sleeps at first.
const MOMENT: Duration = Duration::from_micros(100);
/// How long at most.
const LONGEST: Duration = Duration::from_micros(200);
/// Others that take a task in less time than this, all together, need no help.
const PACE: Duration = Duration::from_micros(2);

/// The workers of a pool that stand aside. Its lock is taken alone.
pub(super) struct Aside {
    /// How many workers there are that do not stand aside.
    at_work: AtomicUsize,
    list: Mutex<List>,
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

impl Aside {
    pub(super) fn new() -> Self {
        Self { at_work: AtomicUsize::new(0), list: Mutex::new(List::default()) }
    }

    /// There is another worker.
    pub(super) fn arrive(&self) {
        self.at_work.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker is gone.
    pub(super) fn depart(&self) {
        self.at_work.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a worker may stand aside, and then it has to: not the last that is at work.
    pub(super) fn may_stand(&self) -> bool {
        let others = |at_work: usize| at_work.checked_sub(1).filter(|others| *others > 0);
        self.at_work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, others).is_ok()
    }

    /// How many workers do not stand aside.
    pub(super) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }

    /// Sleeps as long as others get on, by what is `ready`.
    #[cold]
    pub(super) fn stand(&self, parker: &Arc<Parker>, ready: &Ready) {
        if self.is_lookout(parker) {
            let taken = look_out(ready, |moment| {
                parker.park_timeout(moment);
            });
            let wake = self.list.lock().leave(taken == 0);
            wake.iter().for_each(|parker| parker.unpark());
        }
        self.arrive();
    }

    /// Puts the thread on the list, and returns when it is on the lookout, or off the list again.
    fn is_lookout(&self, parker: &Arc<Parker>) -> bool {
        let mut list = self.list.lock();
        if list.lookout.is_none() {
            list.lookout = Some(Arc::clone(parker));
            return true;
        }
        list.asleep.push(Arc::clone(parker));
        while list.is_asleep(parker) {
            drop(list);
            parker.park();
            list = self.list.lock();
        }
        list.looks_out(parker)
    }
}

/// Looks out until others take too few tasks; says how many it were in the last moment.
fn look_out(ready: &Ready, mut sleep: impl FnMut(Duration)) -> usize {
    let mut moment = MOMENT;
    loop {
        let before = ready.taken();
        sleep(moment);
        let taken = ready.taken().wrapping_sub(before);
        if (taken as u128) * PACE.as_nanos() < moment.as_nanos() {
            return taken;
        }
        moment = LONGEST;
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::thread;

    use super::*;

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

    #[test]
    fn the_lookout_sleeps_while_others_keep_the_pace() {
        let (_, ready) = pool(2);
        let enough = |moment: Duration| moment.as_nanos().div_ceil(PACE.as_nanos()) as usize;
        let mut meanwhile = [enough(MOMENT), enough(LONGEST), enough(LONGEST) - 1].into_iter();
        let mut slept = Vec::new();
        let taken = look_out(&ready, |moment| {
            slept.push(moment);
            (0..meanwhile.next().unwrap()).for_each(|_| ready.count_taken());
        });
        assert_eq!((taken, slept), (enough(LONGEST) - 1, vec![MOMENT, LONGEST, LONGEST]));
    }

    #[test]
    fn all_who_stand_aside_come_back_when_nothing_is_taken() {
        let (aside, ready) = pool(4);
        thread::scope(|scope| {
            for _ in 0..3 {
                assert!(aside.may_stand());
                scope.spawn(|| aside.stand(&Parker::current(), &ready));
            }
        });
        assert_eq!(aside.at_work(), 4);
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
