//! Who waits for the clock.
//!
//! At most one idle thread, the *leader*, waits for the earliest deadline, and one other, its *deputy*, for the one behind
//! that; the *followers* wait for being called. So n idle threads cost two timers, and a due task wakes one thread. Whoever
//! goes to work would have to wake another first, lest nobody watch the next deadline; the deputy does so already, asleep.
//! The list is plain data: whoever owns it (a pool, a delay queue) keeps it under the same lock as its queue, decides there,
//! and wakes after unlocking.
//!
//! # States of an idle thread
//! ```text
//!            follow                    call
//!   awake ───────────▶ follower ────────────────▶ called ── leave ──▶ awake
//!     │                    ▲ demoted by a new deputy   ▲
//!     ├──── assist ────▶ deputy ──────── call ─────────┤
//!     │            promoted │ ▲ demoted by a new leader │
//!     └───── lead ─────▶ leader ──────── call ─────────┘
//!            (all of them: ── leave, by time-out ──▶ awake)
//! ```
//!
//! # Invariants
//! 1. A thread is listed once, as leader, as deputy or as follower, exactly while it waits and has not been called.
//! 2. Leader and deputy wait no longer than until the deadline they were installed with.
//! 3. `called` counts the threads that were called and have not come back, and those that are awake for a moment without
//!    having been called: each of them will look at the queue before it waits again.
//! 4. If the queue is not empty and a thread is listed, then there is a leader whose deadline is not after the
//!    earliest, or `called` is not zero. The owner keeps this by three rules: *insert* calls when the new entry
//!    is the earliest; *take* and *leave* hand on ([`Waiting::hand_on`]); *wait* leads if nobody does so early
//!    enough ([`Waiting::leads`]). Of the deputy nothing is required: if it is in time it is promoted, by each of the last two.
//! 5. `kept`, if there is one, is a thread that waits or has been called, and has not come back. It waits for a deadline
//!    alone, because something was queued when it began, and would have gone otherwise: the last worker of a pool. There
//!    is one at most, since whoever comes to wait beside it is not the last.
//!
//! # Protocol
//! - *An entry becomes the earliest and is due:* call a follower, else the leader. If a thread is on its way
//!   already, call nobody: it will take the entry and hand on (3).
//! - *An entry becomes the earliest and is not due:* call the leader, who re-arms; if there is none, a follower.
//! - *A thread takes an entry or leaves for good:* if work remains that nobody is watching, the deputy leads, if it is armed
//!   in time; otherwise call one. A leader whose deadline has just passed is on its way by itself, and to call it or
//!   another would be one wake-up too many. If it is long past, the clock may have leapt and forgotten it: call.
//! - *A thread comes to wait and the leader is armed too late* (it has just put back a periodic task, say): it
//!   takes the lead itself. The old leader becomes the deputy without being woken, or a follower; it will wake at its old
//!   deadline and look round, which costs nothing that the task of that deadline would not have cost.
//! - *A thread comes to wait beside a leader:* it is the deputy, if there is none that wakes early enough.
//! - *The queue has run empty:* the kept thread, as leader or demoted, waits for a deadline that is dead. Call it: it
//!   will wait again, for its own time to go. 4 says nothing of an empty queue, and what comes meanwhile finds somebody on
//!   its way (3).
//!
//! # What the deputy buys
//! Two workers, tasks at random instants, processor time of two seconds and median lateness, interleaved, medians of five:
//! 10,000 a second 498 to 275 ms and 32 to 23 µs, one thread that sleeps to each instant 347 and 21; 100,000 a second, of one
//! second, 1,011 to 660 ms and 11 to 13 µs, that thread 606 and 11.
//!
//! # Paths not taken
//! One timer thread that hands tasks to workers: simpler, but every run pays a second wake-up. Waking all on
//! each new earliest entry: a herd for one task.

use std::sync::Arc;
use std::time::Duration;

use punctual_engine::Tick;

use crate::park::Parker;

/// How late a thread that waits for a deadline may be and still count as on its way.
const MOMENT: Duration = Duration::from_millis(1);

/// The idle threads of one queue. Guarded by the lock of that queue.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    leader: Option<Watch>,
    deputy: Option<Watch>,
    /// A stack: the thread that went idle last is the warmest.
    followers: Vec<Arc<Parker>>,
    called: usize,
    kept: Option<Arc<Parker>>,
}

/// Somebody who wakes at a deadline.
#[derive(Debug)]
struct Watch {
    parker: Arc<Parker>,
    until: Tick,
}

/// What a thread that comes to wait is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Post {
    /// Until then.
    Leader(Tick),
    /// Until then.
    Deputy(Tick),
    Follower,
}

impl Post {
    /// When it is to wake, if it is not called.
    pub(crate) fn until(self) -> Option<Tick> {
        match self {
            Self::Leader(until) | Self::Deputy(until) => Some(until),
            Self::Follower => None,
        }
    }
}

impl Waiting {
    /// Listed threads.
    pub(crate) fn len(&self) -> usize {
        self.followers.len() + usize::from(self.leader.is_some()) + usize::from(self.deputy.is_some())
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

    /// The post of a thread that comes to wait while `next` is the earliest deadline and `second`, if that is known, not after
    /// the one behind it.
    pub(crate) fn post(&mut self, next: Option<Tick>, second: Option<Tick>) -> Post {
        let Some(next) = next else { return Post::Follower };
        self.promote(next);
        if self.leads(next) {
            return Post::Leader(next);
        }
        let assists = |second: &Tick| self.deputy.as_ref().is_none_or(|deputy| deputy.until > *second);
        second.filter(assists).map_or(Post::Follower, Post::Deputy)
    }

    pub(crate) fn take_post(&mut self, parker: &Arc<Parker>, post: Post) {
        match post {
            Post::Leader(until) => self.lead(parker, until),
            Post::Deputy(until) => self.assist(Watch { parker: Arc::clone(parker), until }),
            Post::Follower => self.follow(parker),
        }
    }

    pub(crate) fn lead(&mut self, parker: &Arc<Parker>, until: Tick) {
        let new = Watch { parker: Arc::clone(parker), until };
        if let Some(old) = self.leader.replace(new) {
            self.assist(old);
        }
    }

    /// The earlier of two is the deputy.
    fn assist(&mut self, watch: Watch) {
        let later = match self.deputy.take() {
            Some(deputy) if deputy.until <= watch.until => {
                self.deputy = Some(deputy);
                Some(watch)
            }
            deputy => {
                self.deputy = Some(watch);
                deputy
            }
        };
        self.followers.extend(later.map(|watch| watch.parker));
    }

    /// Lets the deputy lead where the leader, if there is one, does not wake in time for `next` and the deputy does.
    fn promote(&mut self, next: Tick) {
        if self.leads(next) && self.deputy.as_ref().is_some_and(|deputy| deputy.until <= next) {
            std::mem::swap(&mut self.leader, &mut self.deputy);
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
        let called = !self.strike(parker);
        self.called -= usize::from(called);
        called
    }

    /// Takes the thread off the list; false if it is not there.
    fn strike(&mut self, parker: &Arc<Parker>) -> bool {
        for watch in [&mut self.leader, &mut self.deputy] {
            if watch.take_if(|watch| Arc::ptr_eq(&watch.parker, parker)).is_some() {
                return true;
            }
        }
        let position = self.followers.iter().rposition(|other| Arc::ptr_eq(other, parker));
        position.map(|position| self.followers.remove(position)).is_some()
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
        let watch = |waiting: &mut Self| waiting.deputy.take().or_else(|| waiting.leader.take());
        let parker = self.followers.pop().or_else(|| watch(self).map(|watch| watch.parker))?;
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
        self.promote(next);
        let overdue = |leader: &Watch| now.since(leader.until) > MOMENT;
        if self.leader.as_ref().is_none_or(|leader| leader.until > next || overdue(leader)) {
            self.call_for_due()
        } else {
            None
        }
    }

    /// Whoever waits only because something was queued, unless it has been called: nothing is.
    #[must_use]
    pub(crate) fn call_kept(&mut self) -> Option<Arc<Parker>> {
        let kept = self.kept.take().filter(|kept| self.strike(kept))?;
        self.called += 1;
        Some(kept)
    }

    /// Everybody: the settings have changed, or there is nothing left to wait for.
    #[must_use]
    pub(crate) fn call_all(&mut self) -> Vec<Arc<Parker>> {
        let mut all = std::mem::take(&mut self.followers);
        let watches = [self.leader.take(), self.deputy.take()];
        all.extend(watches.into_iter().flatten().map(|watch| watch.parker));
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

    /// In the order in which they come to wait, while these are the first two deadlines.
    fn posted(waiting: &mut Waiting, parkers: &[&Arc<Parker>], next: u64, second: Option<u64>) -> Vec<Post> {
        let (next, second) = (Some(Tick::from_nanos(next)), second.map(Tick::from_nanos));
        let post = |parker: &&Arc<Parker>| {
            let post = waiting.post(next, second);
            waiting.take_post(parker, post);
            post
        };
        parkers.iter().map(post).collect()
    }

    #[test]
    fn whoever_goes_to_work_leaves_the_lead_to_a_deputy_that_is_in_time_and_calls_nobody() {
        let [first, second, third] = parkers();
        let tick = Tick::from_nanos;
        let mut waiting = Waiting::default();
        let posts = posted(&mut waiting, &[&first, &second, &third], 1, Some(5));
        assert_eq!(posts, [Post::Leader(tick(1)), Post::Deputy(tick(5)), Post::Follower]);
        assert!(!waiting.leave(&first), "by itself");
        assert!(waiting.hand_on(Some(tick(5)), tick(1)).is_none());
        assert_eq!(waiting.looks_round(), Some(tick(5)));
        assert_eq!(posted(&mut waiting, &[&first], 5, Some(7)), [Post::Deputy(tick(7))]);
        assert!(!waiting.leave(&second));
        // Something has come before what the deputy waits for.
        let called = waiting.hand_on(Some(tick(6)), tick(5)).expect("somebody");
        assert!(Arc::ptr_eq(&called, &third), "who waits for nothing is called first");
        assert_eq!(posted(&mut waiting, &[&second], 6, None), [Post::Leader(tick(6))]);
        let all: Vec<_> = waiting.call_all().iter().map(Arc::as_ptr).collect();
        assert_eq!(all, [Arc::as_ptr(&second), Arc::as_ptr(&first)]);
        assert_eq!((waiting.len(), waiting.called()), (0, 3));
    }

    #[test]
    fn a_leader_that_another_gets_ahead_of_is_deputy_and_leads_again() {
        let [first, second, third] = parkers();
        let tick = Tick::from_nanos;
        let mut waiting = Waiting::default();
        assert_eq!(posted(&mut waiting, &[&first], 5, None), [Post::Leader(tick(5))]);
        assert_eq!(posted(&mut waiting, &[&second], 3, Some(5)), [Post::Leader(tick(3))]);
        assert_eq!(posted(&mut waiting, &[&third], 3, Some(5)), [Post::Follower], "the first wakes then");
        // It takes what it has waited for, and comes back: what is next is watched.
        assert!(!waiting.leave(&second));
        assert_eq!(posted(&mut waiting, &[&second], 5, Some(9)), [Post::Deputy(tick(9))]);
        assert!(!waiting.leave(&first));
        // An earlier deputy takes the place of one that would come too late.
        assert_eq!(posted(&mut waiting, &[&first], 5, Some(6)), [Post::Leader(tick(5))]);
        assert!(!waiting.leave(&third), "it follows");
        assert_eq!(posted(&mut waiting, &[&third], 5, Some(6)), [Post::Deputy(tick(6))]);
        assert!(!waiting.leave(&second), "demoted, and still there");
        assert_eq!((waiting.len(), waiting.called()), (2, 0));
    }

    #[test]
    fn a_leader_whose_time_has_come_is_on_its_way_and_one_that_is_overdue_is_called() {
        let [leader] = parkers();
        let (next, mut waiting) = (Tick::from_nanos(1), Waiting::default());
        let _ = posted(&mut waiting, &[&leader], 1, None);
        assert!(waiting.hand_on(Some(next), next.after(MOMENT)).is_none());
        assert!(waiting.hand_on(Some(next), next.after(2 * MOMENT)).is_some());
    }

    #[test]
    fn a_deputy_is_called_before_the_leader() {
        let [first, second] = parkers();
        let mut waiting = Waiting::default();
        let _ = posted(&mut waiting, &[&first, &second], 1, Some(2));
        assert!(Arc::ptr_eq(&waiting.call_for_due().expect("somebody"), &second));
        assert_eq!(waiting.looks_round(), Some(Tick::ZERO), "at once");
        assert!(waiting.leave(&second));
        assert_eq!(waiting.looks_round(), Some(Tick::from_nanos(1)));
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
