//! Who waits for the clock.
//!
//! At most one idle thread, the *leader*, waits for the earliest deadline; the *followers* wait for being
//! called. So n idle threads cost one timer, and a due task wakes one thread. The list is plain data: whoever
//! owns it (a pool, a delay queue) keeps it under the same lock as its queue, decides there, and wakes after
//! unlocking.
//!
//! # States of an idle thread
//! ```text
//!            follow                    call
//!   awake ───────────▶ follower ────────────────▶ called ── leave ──▶ awake
//!     │                    ▲ demoted by a new leader   ▲
//!     └───── lead ─────▶ leader ───────── call ────────┘
//!            (follower and leader: ── leave, by time-out ──▶ awake)
//! ```
//!
//! # Invariants
//! 1. A thread is listed once, as leader or as follower, exactly while it waits and has not been called.
//! 2. The leader waits no longer than until the deadline it was installed with.
//! 3. `called` counts the threads that were called and have not come back, and those that are awake for a moment without
//!    having been called: each of them will look at the queue before it waits again.
//! 4. If the queue is not empty and a thread is listed, then there is a leader whose deadline is not after the
//!    earliest, or `called` is not zero. The owner keeps this by three rules: *insert* calls when the new entry
//!    is the earliest; *take* and *leave* hand on ([`Waiting::hand_on`]); *wait* leads if nobody does so early
//!    enough ([`Waiting::leads`]).
//! 5. `kept`, if there is one, is a thread that waits or has been called, and has not come back. It waits for a deadline
//!    alone, because something was queued when it began, and would have gone otherwise: the last worker of a pool. There
//!    is one at most, since whoever comes to wait beside it is not the last.
//!
//! # Protocol
//! - *An entry becomes the earliest and is due:* call a follower, else the leader. If a thread is on its way
//!   already, call nobody: it will take the entry and hand on (3).
//! - *An entry becomes the earliest and is not due:* call the leader, who re-arms; if there is none, a follower.
//! - *A thread takes an entry or leaves for good:* if work remains that nobody is watching, call one.
//! - *A thread comes to wait and the leader is armed too late* (it has just put back a periodic task, say): it
//!   takes the lead itself. The old leader becomes a follower without being woken; it will wake at its old
//!   deadline and look round, which costs nothing that the task of that deadline would not have cost.
//! - *The queue has run empty:* the kept thread, as leader or demoted, waits for a deadline that is dead. Call it: it
//!   will wait again, for its own time to go. 4 says nothing of an empty queue, and what comes meanwhile finds somebody on
//!   its way (3).
//!
//! # Paths not taken
//! One timer thread that hands tasks to workers: simpler, but every run pays a second wake-up. Waking all on
//! each new earliest entry: a herd for one task.

use std::sync::Arc;

use punctual_engine::Tick;

use crate::park::Parker;

/// The idle threads of one queue. Guarded by the lock of that queue.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    leader: Option<Leader>,
    /// A stack: the thread that went idle last is the warmest.
    followers: Vec<Arc<Parker>>,
    called: usize,
    kept: Option<Arc<Parker>>,
}

#[derive(Debug)]
struct Leader {
    parker: Arc<Parker>,
    until: Tick,
}

impl Waiting {
    /// Listed threads.
    pub(crate) fn len(&self) -> usize {
        self.followers.len() + usize::from(self.leader.is_some())
    }

    pub(crate) fn called(&self) -> usize {
        self.called
    }

    /// When somebody will look at the queue without being called: at once, or when the leader wakes. `None` if all wait
    /// for a call.
    pub(crate) fn looks_round(&self) -> Option<Tick> {
        match (&self.leader, self.called > 0 || self.len() == 0) {
            (_, true) => Some(Tick::ZERO),
            (Some(leader), false) => Some(leader.until),
            (None, false) => None,
        }
    }

    /// Whether a thread that comes to wait while `next` is the earliest deadline has to lead.
    pub(crate) fn leads(&self, next: Tick) -> bool {
        self.leader.as_ref().is_none_or(|leader| leader.until > next)
    }

    pub(crate) fn lead(&mut self, parker: &Arc<Parker>, until: Tick) {
        let new = Leader { parker: Arc::clone(parker), until };
        if let Some(old) = self.leader.replace(new) {
            self.followers.push(old.parker);
        }
    }

    pub(crate) fn follow(&mut self, parker: &Arc<Parker>) {
        self.followers.push(Arc::clone(parker));
    }

    /// The thread, which is about to wait, does so only while something is queued: see invariant 5.
    pub(crate) fn keep(&mut self, parker: &Arc<Parker>) {
        self.kept = Some(Arc::clone(parker));
    }

    /// The thread has come back from waiting; says whether it was called.
    pub(crate) fn leave(&mut self, parker: &Arc<Parker>) -> bool {
        if self.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, parker)) {
            self.kept = None;
        }
        if self.leader.as_ref().is_some_and(|leader| Arc::ptr_eq(&leader.parker, parker)) {
            self.leader = None;
            false
        } else if let Some(position) = self.followers.iter().rposition(|other| Arc::ptr_eq(other, parker)) {
            self.followers.remove(position);
            false
        } else {
            self.called -= 1;
            true
        }
    }

    /// The thread does something short of its own, and then looks at the queue: it counts as called until it
    /// [has](Self::has_looked).
    pub(crate) fn will_look(&mut self) {
        self.called += 1;
    }

    pub(crate) fn has_looked(&mut self) {
        self.called -= 1;
    }

    /// Somebody for an entry that is due now and has just become the earliest.
    #[must_use]
    pub(crate) fn call_for_due(&mut self) -> Option<Arc<Parker>> {
        if self.called > 0 {
            return None;
        }
        let parker = self.followers.pop().or_else(|| self.leader.take().map(|leader| leader.parker))?;
        self.called += 1;
        Some(parker)
    }

    /// Somebody to wait for an entry that has just become the earliest and is not due.
    #[must_use]
    pub(crate) fn call_to_lead(&mut self) -> Option<Arc<Parker>> {
        if let Some(leader) = self.leader.take() {
            self.called += 1;
            return Some(leader.parker);
        }
        self.call_for_due()
    }

    /// Somebody for what a thread that goes to work, or for good, leaves behind: `next` is the earliest
    /// deadline that remains.
    #[must_use]
    pub(crate) fn hand_on(&mut self, next: Option<Tick>, now: Tick) -> Option<Arc<Parker>> {
        let next = next?;
        if next <= now || self.leads(next) { self.call_for_due() } else { None }
    }

    /// Whoever waits only because something was queued, unless it has been called: nothing is.
    #[must_use]
    pub(crate) fn call_kept(&mut self) -> Option<Arc<Parker>> {
        let kept = self.kept.take()?;
        if self.leader.as_ref().is_some_and(|leader| Arc::ptr_eq(&leader.parker, &kept)) {
            self.leader = None;
        } else {
            let position = self.followers.iter().rposition(|other| Arc::ptr_eq(other, &kept))?;
            self.followers.remove(position);
        }
        self.called += 1;
        Some(kept)
    }

    /// Everybody: the settings have changed, or there is nothing left to wait for.
    #[must_use]
    pub(crate) fn call_all(&mut self) -> Vec<Arc<Parker>> {
        let mut all = std::mem::take(&mut self.followers);
        all.extend(self.leader.take().map(|leader| leader.parker));
        self.called += all.len();
        all
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_will_look_is_enough_and_nobody_else_is_called() {
        let (mut waiting, parker) = (Waiting::default(), Parker::current());
        waiting.follow(&parker);
        waiting.will_look();
        assert!(waiting.call_for_due().is_none() && waiting.call_to_lead().is_none());
        assert!(waiting.hand_on(Some(Tick::ZERO), Tick::ZERO).is_none());
        assert_eq!(waiting.looks_round(), Some(Tick::ZERO), "at once");
        waiting.has_looked();
        assert_eq!(waiting.looks_round(), None, "the other waits for a call");
        assert!(waiting.call_for_due().is_some());
    }

    /// Parkers of other threads.
    fn parkers<const N: usize>() -> [Arc<Parker>; N] {
        [(); N].map(|()| std::thread::spawn(Parker::current).join().unwrap())
    }

    #[test]
    fn whoever_was_kept_is_called_once_as_leader_or_demoted_and_nobody_else() {
        let [kept, other, third] = parkers();
        let tick = Tick::from_nanos;
        for demoted in [false, true] {
            let mut waiting = Waiting::default();
            waiting.follow(&third);
            waiting.keep(&kept);
            waiting.lead(&kept, tick(2));
            match demoted {
                true => waiting.lead(&other, tick(1)),
                false => waiting.follow(&other),
            }
            let called = waiting.call_kept().expect("it waits");
            assert!(Arc::ptr_eq(&called, &kept));
            assert_eq!((waiting.called(), waiting.len()), (1, 2));
            assert!(waiting.call_kept().is_none(), "it is on its way");
            assert!(waiting.leave(&kept), "it was called");
            waiting.follow(&kept);
            assert!(waiting.call_kept().is_none(), "it waits for its time");
            assert_eq!((waiting.called(), waiting.len()), (0, 3));
        }
    }

    #[test]
    fn a_kept_thread_that_is_on_its_way_or_has_come_back_is_not_called() {
        let [kept, other] = parkers();
        let mut waiting = Waiting::default();
        waiting.keep(&kept);
        waiting.lead(&kept, Tick::ZERO);
        waiting.follow(&other);
        assert!(waiting.call_to_lead().is_some());
        assert!(waiting.call_kept().is_none() && waiting.called() == 1);
        assert!(waiting.leave(&kept));
        waiting.keep(&kept);
        waiting.follow(&kept);
        assert!(!waiting.leave(&kept), "by itself");
        assert!(waiting.call_kept().is_none() && waiting.called() == 0);
    }
}
