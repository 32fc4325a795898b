//! Due tasks that are laid out for the workers, and what each of them has in hand.
//!
//! Where tasks fall due faster than they are run, a worker that comes for the next would take the pool's lock for each of
//! them, and so would whoever brings more: they would be in each other's way all the time, and one of them asleep. So a
//! worker that finds several due lays out some of them here, behind a lock of its own that is held for a few instructions.
//! Whoever is next takes the first. Meanwhile the pool's lock is free for sorting in what comes.
//!
//! It is no batch of anybody's: every worker takes from it, one task at a time, so a body that blocks holds nothing back.
//!
//! # Invariants
//! 1. What is laid out is in order, was due when it was laid out, and comes before all that is in the queue. Whoever queues
//!    something that does not come after it takes it back first ([`Core::collect`]), and so does whoever takes such a thing
//!    out of the inbox to queue it: on its way from there nobody sees it.
//! 2. Tasks are laid out under the pool's lock, and only while no worker is idle, none can be added, submissions need not
//!    be decided there, and whatever is cancelled and waits is to be removed, or nothing is. So nobody waits while something is
//!    laid out, and nothing has to be decided when it is taken.
//! 3. Whoever holds both the pool's lock and the inbox has taken back what was laid out, so for him everything that waits is
//!    in the queue, and nobody takes anything.
//! 4. A worker takes what is laid out only if nothing in the inbox comes before it, by 4 of the [inbox](super::inbox); so the
//!    order is exact.
//! 5. What a worker has in hand is noted in the same step in which it is taken.
//!
//! # Protocol
//! - *A worker* takes the first, if 4 allows it; otherwise it takes the pool's lock. If nothing is laid out there, it takes
//!   the first task of the queue, and if more are due and 2 allows it, it lays out a portion.
//! - *A cancel* of a task that is laid out takes it from here, if it takes the pool's lock; otherwise whoever comes to take it,
//!   or takes back what is left, finds that it is cancelled, and has nothing of anybody's any more.
//! - *How many:* one, then twice as many each time, up to [`MOST`]; one again if some had to be taken back: where others hold
//!   both locks all the time, hardly anything is.
//!
//! # Lock order
//! This lock is taken after the pool's and that of the inbox, and before a task's own.
//!
//! # Cost
//! This lock costs a worker what the pool's did; what is gained is that only workers want it, and that the memory of a whole
//! portion is on its way to the worker's cache before the first of it runs. A million tasks due within 100 ms, one worker: 3.1
//! to 3.4 million a second, when it came.
//!
//! # Paths not taken
//! *Submissions that sort in what they bring while workers run,* since the pool's lock is free for that: a submission takes 190
//! ns instead of 160, and the whole is slower. *An inbox of 2,048:* nothing more.

use std::iter::Flatten;
use std::slice;

use punctual_engine::{Fired, Tick};

use super::control::with_turn;
use super::core::Core;
use super::tally::Tally;
use crate::policy::OnCancel;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::task::{Half, Header, TaskRef, Turn};

/// How many are laid out at most.
pub(super) const MOST: usize = if cfg!(punctual_loom) { 2 } else { 64 };

/// In a step that has done so much work no more tasks are laid out.
const MOST_WORK: u64 = 1_024;

/// On lines of its own: workers write to it for every task.
#[repr(align(128))]
pub(super) struct Ready {
    /// How many are laid out, written under the lock: nobody takes it for nothing.
    count: AtomicUsize,
    /// How many workers have taken, counted round and round; written under the lock.
    taken: AtomicUsize,
    table: Mutex<Table>,
}

struct Table {
    /// The last first, so that the first is at the end.
    laid: Vec<Fired<TaskRef>>,
    /// What each worker has taken, so that a stop can interrupt it.
    hands: Vec<Option<(Half, Turn)>>,
}

/// What workers have in hand, one after the other.
type Hands<'a> = Flatten<slice::Iter<'a, Option<(Half, Turn)>>>;

/// A task that a worker has taken, and the note of the one before it, unless that was struck out.
pub(super) struct Taken {
    pub(super) task: Half,
    pub(super) turn: Turn,
    /// When it was due in the queue.
    pub(super) due: Tick,
    pub(super) before: Option<Half>,
}

impl Ready {
    pub(super) fn new() -> Self {
        let table = Table { laid: Vec::with_capacity(MOST), hands: Vec::new() };
        Self { count: AtomicUsize::new(0), taken: AtomicUsize::new(0), table: Mutex::new(table) }
    }

    /// The first of what is laid out, for the worker at this place, if the inbox is `clear` so far.
    #[inline]
    pub(super) fn take(
        &self,
        index: usize,
        tally: &Tally,
        clear: impl FnOnce() -> Option<Tick>,
    ) -> Option<Taken> {
        // Relaxed: if there is more than it says, that is found under the pool's lock.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut table = self.table.lock();
        let first = table.laid.last()?;
        if clear().is_none_or(|clear| first.deadline > clear) {
            return None;
        }
        let fired = table.laid.pop()?;
        self.count.store(table.laid.len(), Ordering::Relaxed);
        self.count_taken();
        Some(table.hand(index, tally, fired))
    }

    /// Notes what the worker at this place has taken from the queue.
    pub(super) fn note(&self, index: usize, tally: &Tally, fired: Fired<TaskRef>) -> Taken {
        let mut table = self.table.lock();
        self.count_taken();
        table.hand(index, tally, fired)
    }

    /// A task was taken. To be called under the lock, if others may take one.
    #[inline]
    pub(super) fn count_taken(&self) {
        // Relaxed: it tells whoever stands aside how others get on, and nothing else.
        self.taken.store(self.taken().wrapping_add(1), Ordering::Relaxed);
    }

    /// How many tasks were taken, counted round and round.
    #[inline]
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Lays out what `next` gives, so many at most. Nothing is laid out.
    pub(super) fn lay_out(&self, most: usize, mut next: impl FnMut() -> Option<Fired<TaskRef>>) {
        let mut table = self.table.lock();
        while table.laid.len() < most {
            let Some(fired) = next() else { break };
            table.laid.push(fired);
        }
        table.laid.reverse();
        self.count.store(table.laid.len(), Ordering::Relaxed);
    }

    /// When the first of what is laid out was due.
    pub(super) fn next_deadline(&self) -> Option<Tick> {
        self.table.lock().laid.last().map(|first| first.deadline)
    }

    /// Takes back what is left, the last first.
    pub(super) fn collect(&self, taken: impl FnMut(Fired<TaskRef>)) {
        let mut table = self.table.lock();
        table.laid.drain(..).for_each(taken);
        self.count.store(0, Ordering::Relaxed);
    }

    /// Takes back one task, if it is laid out.
    pub(super) fn remove(&self, is_it: impl Fn(&TaskRef) -> bool) -> Option<TaskRef> {
        let mut table = self.table.lock();
        let place = table.laid.iter().position(|fired| is_it(&fired.value))?;
        let fired = table.laid.remove(place);
        self.count.store(table.laid.len(), Ordering::Relaxed);
        Some(fired.value)
    }

    // ---- what workers have in hand

    /// There is a worker at this place, with nothing in hand.
    pub(super) fn add(&self, index: usize) {
        let mut table = self.table.lock();
        if table.hands.len() <= index {
            table.hands.resize_with(index + 1, || None);
        }
    }

    /// Strikes out what the worker at this place has in hand.
    pub(super) fn strike_out(&self, index: usize) -> Option<Half> {
        self.table.lock().hands[index].take().map(|(noted, _)| noted)
    }

    /// What the worker at this place has in hand.
    pub(super) fn in_hand(&self, index: usize) -> Option<(TaskRef, Turn)> {
        let table = self.table.lock();
        table.hands[index].as_ref().map(|(task, turn)| (TaskRef::clone(task), *turn))
    }

    /// What the worker at this place has in hand is for another instant than it was queued for.
    pub(super) fn replan(&self, index: usize, planned: Tick) {
        if let Some((_, turn)) = self.table.lock().hands[index].as_mut() {
            turn.deadline = planned;
        }
    }

    /// Looks at all that workers have in hand.
    pub(super) fn hands<R>(&self, look: impl FnOnce(Hands<'_>) -> R) -> R {
        look(self.table.lock().hands.iter().flatten())
    }
}

impl Table {
    #[inline]
    fn hand(&mut self, index: usize, tally: &Tally, fired: Fired<TaskRef>) -> Taken {
        let due = fired.deadline;
        let (task, turn) = with_turn(fired);
        let (task, noted) = task.halve();
        tally.begin();
        let before = self.hands[index].replace((noted, turn)).map(|(before, _)| before);
        Taken { task, turn, due, before }
    }
}

impl Core {
    /// Lays out what else is due, a portion of it, if nobody has to decide anything when it is taken.
    pub(super) fn lay_out(&mut self, now: Tick) {
        let is_due = self.queue.next_deadline().is_some_and(|next| next <= now);
        // Of what is taken back nobody could tell whether it was cancelled to be kept.
        if !is_due || self.waiting.len() > 0 || self.gate().is_none() || self.may_have_kept {
            return;
        }
        let (queue, mut last) = (&mut self.queue, None);
        let before = queue.work();
        self.ready.lay_out(self.portion, || {
            if queue.work() - before > MOST_WORK {
                return None;
            }
            let fired = queue.pop_due(now)?;
            // It lay idle since it was queued, and is wanted soon.
            fired.value.prefetch();
            last = Some((fired.deadline, fired.number));
            Some(fired)
        });
        self.laid_out = last;
        self.portion = (2 * self.portion).min(MOST);
    }

    /// Takes back what is laid out: then everything that waits is in the queue.
    #[inline]
    pub(super) fn collect(&mut self) {
        if self.laid_out.take().is_some() {
            self.collect_what_is_left();
        }
    }

    /// The same, unless all of it comes before whatever is due at `deadline`.
    pub(super) fn collect_from(&mut self, deadline: Tick) {
        if self.laid_out.is_some_and(|(last, _)| deadline <= last) {
            self.collect();
        }
    }

    #[cold]
    fn collect_what_is_left(&mut self) {
        let (queue, on_cancel, mut left) = (&mut self.queue, self.on_cancel, false);
        self.ready.collect(|Fired { deadline, number, value }| {
            left = true;
            if on_cancel == OnCancel::Remove && value.header().is_cancelled_and_plain() {
                // Nothing of a user's is dropped here: see invariant 6 of the inbox.
                return;
            }
            let key = queue.insert_untended(deadline, number, value);
            let set = |task: &TaskRef| {
                task.header().set_key(key);
                task.header().is_cancelled_and_plain()
            };
            // Whoever has cancelled it meanwhile may have seen the key of before; from now on it is this one.
            if queue.get(key).is_some_and(set) && on_cancel == OnCancel::Remove {
                drop(queue.cancel(key));
            }
        });
        if left {
            self.portion = 1;
            self.queue.upkeep();
        }
    }

    /// Takes a task back that is laid out.
    pub(super) fn unlay(&mut self, task: &Header) -> Option<TaskRef> {
        self.laid_out?;
        self.ready.remove(|other| std::ptr::eq(other.header(), task))
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests;
