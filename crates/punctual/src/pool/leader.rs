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
//!
//! # Protocol
//! - *An entry becomes the earliest and is due:* call a follower, else the leader. If a thread is on its way
//!   already, call nobody: it will take the entry and hand on (3).
//! - *An entry becomes the earliest and is not due:* call the leader, who re-arms; if there is none, a follower.
//! - *A thread takes an entry or leaves for good:* if work remains that nobody is watching, call one.
//! - *A thread comes to wait and the leader is armed too late* (it has just put back a periodic task, say): it
//!   takes the lead itself. The old leader becomes a follower without being woken; it will wake at its old
//!   deadline and look round, which costs nothing that the task of that deadline would not have cost.
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

    /// The thread has come back from waiting; says whether it was called.
    pub(crate) fn leave(&mut self, parker: &Arc<Parker>) -> bool {
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
}
