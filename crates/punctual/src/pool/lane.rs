//! One of the lanes of the [inbox](super::inbox): what a thread leaves there, and its lock.
//!
//! # Invariants
//! Those of the inbox, of which 4 is kept here: `earliest` is not after the earliest deadline in the lane, and `crowded` says
//! whether more than [`ROOM`] are there; both are written under its lock.

use std::sync::Arc;

use punctual_engine::{TaskKey, Tick};

use super::core::Core;
use super::tether::Tether;
use crate::fetch;
use crate::latch::{Guard, Latch};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::task::{ByMark, Gone, Header, TaskRef};

/// How many entries a lane has room for; with more it is crowded.
pub(super) const ROOM: usize = if cfg!(punctual_loom) { 1 } else { 32 };
/// How many it takes if nobody comes to empty it.
pub(super) const MOST: usize = if cfg!(punctual_loom) { 2 } else { 16 * ROOM };
/// So many whoever finds it full sorts in at most.
const PORTION: usize = if cfg!(punctual_loom) { 1 } else { 8 * ROOM };
/// With so many keys of cancelled tasks, and again with each so many more, whoever leaves one tries to see to them.
pub(super) const BATCH: usize = if cfg!(punctual_loom) { 1 } else { 32 };
/// How many keys it takes. As many blocks a thread keeps in its hand (`task/cell/memory/pooled.rs`), and as many slots are kept warm.
pub(super) const KEYS: usize = if cfg!(punctual_loom) { 2 } else { 4 * BATCH };
/// So many of the last letters are looked at by whoever would cancel a task by its mark.
const LAST: usize = 4;
/// Which letter is fetched ahead, that it be there when it is written: three lines further on.
const AHEAD: usize = 8;
/// So few are sorted in while submissions wait.
const FEW: usize = if cfg!(punctual_loom) { 0 } else { 4 };
/// How often it is tried to bring it to that.
const ROUNDS: u32 = if cfg!(punctual_loom) { 1 } else { 4 };

/// Each of the two on lines of its own: workers look at the notice for every task.
pub(super) struct Lane {
    notice: Padded<Notice>,
    tray: Padded<Latch<Tray>>,
}

#[repr(align(128))]
struct Padded<T>(T);

/// For workers to look at without the lock.
struct Notice {
    earliest: AtomicU64,
    crowded: AtomicBool,
}

/// What the lock of a lane guards.
pub(super) struct Tray {
    pub(super) letters: Vec<Letter>,
    /// `None` is shut.
    pub(super) gate: Option<Tick>,
    /// Invariant 6 of the inbox.
    withdrawn: Vec<TaskKey>,
    /// The same, of tasks that were cancelled by their marks.
    gone: Vec<Gone>,
    /// What handles counted for that are gone, for those that come: see [`tether`](super::tether). All the same.
    pub(super) left: Vec<Arc<Tether>>,
    /// How many were cancelled since the lane was emptied.
    cancelled: u64,
    /// Whether keys may be left.
    takes_keys: bool,
    /// Whether few keys are left over from before, so that the pool may be given some that it may leave over.
    spare: bool,
    /// The thread that used it last.
    pub(super) user: usize,
    /// The number of the next task, if this is the only lane in use.
    pub(super) next_number: Option<u64>,
    /// Which lane it is.
    lane: usize,
}

/// A task that is to be queued.
pub(super) struct Letter {
    pub(super) deadline: Tick,
    pub(super) number: u64,
    pub(super) task: TaskRef,
}

/// What came of an attempt to cancel without the pool's lock.
pub(super) enum Withdrawn {
    /// It was in the lane, and is the caller's to drop.
    Unsorted(TaskRef),
    /// It is as good as gone from the queue.
    Noted,
    /// The same, and there are enough of those to be seen to: if nobody has the pool's lock, or in any case.
    Enough { in_any_case: bool },
    /// It has to be decided under the pool's lock.
    Refused,
}

impl Lane {
    pub(super) fn new(lane: usize, next_number: Option<u64>) -> Self {
        let tray = Tray {
            letters: Vec::new(),
            gate: None,
            withdrawn: Vec::new(),
            gone: Vec::new(),
            left: Vec::new(),
            cancelled: 0,
            takes_keys: false,
            spare: true,
            user: 0,
            next_number,
            lane,
        };
        let earliest = AtomicU64::new(Tick::MAX.as_nanos());
        let notice = Padded(Notice { earliest, crowded: AtomicBool::new(false) });
        Self { notice, tray: Padded(Latch::new(tray)) }
    }

    #[inline]
    pub(super) fn earliest(&self) -> Tick {
        Tick::from_nanos(self.notice.0.earliest.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.notice.0.crowded.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, Tray> {
        self.tray.0.lock()
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_, Tray>> {
        self.tray.0.try_lock()
    }

    /// Leaves a task, in the lane's tray, for which there is room.
    #[inline]
    pub(super) fn leave(&self, tray: &mut Tray, letter: Letter) {
        let (notice, nanos) = (&self.notice.0, letter.deadline.as_nanos());
        // Relaxed: written under the lock. Written seldom, because workers look at it.
        if nanos < notice.earliest.load(Ordering::Relaxed) {
            notice.earliest.store(nanos, Ordering::Release);
        }
        if tray.letters.len() == ROOM {
            notice.crowded.store(true, Ordering::Release);
        }
        tray.letters.push(letter);
        // Whoever emptied the lane has had it last.
        let ahead = tray.letters.len() + AHEAD;
        if ahead < tray.letters.capacity() {
            fetch::for_writing(tray.letters.as_ptr().wrapping_add(ahead));
        }
    }

    /// Moves what is there to the queue, and locks the lane when it is empty. What comes meanwhile is let in: only the last few
    /// are sorted in while it is locked.
    pub(super) fn empty(&self, core: &mut Core) -> Guard<'_, Tray> {
        let mut tray = self.lock();
        for _ in 0..ROUNDS {
            if tray.letters.len() <= FEW {
                break;
            }
            self.take_over(&mut tray, core);
            drop(tray);
            core.sort_in();
            tray = self.lock();
        }
        if !tray.letters.is_empty() {
            self.take_over(&mut tray, core);
            core.sort_in();
        }
        tray
    }

    /// Moves what came first to the queue, so that there is room again, and locks the lane.
    pub(super) fn relieve(&self, core: &mut Core) -> Guard<'_, Tray> {
        let mut tray = self.lock();
        let some = tray.letters.len().min(PORTION);
        if some == tray.letters.len() {
            self.take_over(&mut tray, core);
        } else {
            // What is left may be later than `earliest` says, and is looked for in time all the more.
            core.collect_from(self.earliest());
            core.letters.extend(tray.letters.drain(..some));
            self.notice.0.crowded.store(tray.letters.len() > ROOM, Ordering::Release);
        }
        drop(tray);
        core.sort_in();
        self.lock()
    }

    /// Moves what is there now to the queue.
    pub(super) fn sort_in(&self, core: &mut Core) {
        self.take_over(&mut self.lock(), core);
        core.sort_in();
    }

    /// Until they are in the queue nobody sees them: what is laid out and does not come before them is taken back first.
    pub(super) fn take_over(&self, tray: &mut Tray, core: &mut Core) {
        core.collect_from(self.earliest());
        std::mem::swap(&mut tray.letters, &mut core.letters);
        tray.take_left(core);
        let notice = &self.notice.0;
        notice.earliest.store(Tick::MAX.as_nanos(), Ordering::Release);
        notice.crowded.store(false, Ordering::Release);
    }

    /// Counts a task that was cancelled while it waited, and sees to it that it leaves the queue, without the pool's lock.
    /// `key` is its own.
    pub(super) fn withdraw(&self, tray: &mut Tray, task: &Header, key: TaskKey) -> Withdrawn {
        if !tray.takes_keys {
            return Withdrawn::Refused;
        }
        if key == TaskKey::NONE {
            // Most likely one of the last. If it is not here it is in another lane, or somebody is about to queue it.
            let place = tray.letters.iter().rposition(|letter| std::ptr::eq(letter.task.header(), task));
            let Some(place) = place else { return Withdrawn::Refused };
            tray.cancelled += 1;
            let letter = tray.letters.remove(place);
            if tray.letters.is_empty() {
                // Otherwise workers would go on looking out for it.
                self.notice.0.earliest.store(Tick::MAX.as_nanos(), Ordering::Release);
            }
            return Withdrawn::Unsorted(letter.task);
        }
        if !tray.has_room_for_keys() {
            return Withdrawn::Refused;
        }
        tray.withdrawn.push(key);
        tray.count_withdrawn()
    }
}

impl Tray {
    fn has_room_for_keys(&self) -> bool {
        self.spare && self.withdrawn.len() + self.gone.len() < KEYS
    }

    /// Counts a task that has just been withdrawn.
    fn count_withdrawn(&mut self) -> Withdrawn {
        self.cancelled += 1;
        match self.withdrawn.len() + self.gone.len() {
            count if count % BATCH == 0 => Withdrawn::Enough { in_any_case: count >= KEYS },
            _ => Withdrawn::Noted,
        }
    }

    /// Cancels a task by its mark, and sees to it that it leaves the queue, without a look at the task and without the pool's lock.
    #[inline]
    pub(super) fn withdraw_by_mark(&mut self, task: &ByMark<'_>) -> Withdrawn {
        // What came last need not get to the queue, if it is cancelled in the other way.
        let is_last = || self.letters.iter().rev().take(LAST).any(|letter| task.is(&letter.task));
        if !self.takes_keys || !self.has_room_for_keys() || is_last() {
            return Withdrawn::Refused;
        }
        let Some(gone) = task.cancel() else { return Withdrawn::Refused };
        // It is at hand by the time that it is told.
        gone.fetch();
        self.gone.push(gone);
        self.count_withdrawn()
    }

    /// A count for that tether, if one was left.
    #[inline]
    pub(super) fn left_for(&mut self, tether: &Arc<Tether>) -> Option<Arc<Tether>> {
        let is_such = self.left.last().is_some_and(|left| Arc::ptr_eq(left, tether));
        if is_such { self.left.pop() } else { None }
    }

    /// Takes what was left of late.
    fn take_left(&mut self, core: &mut Core) {
        let left = &mut core.left[self.lane];
        let stay = left.len().saturating_sub(KEYS - self.left.len());
        self.left.extend(left.drain(stay..));
    }

    /// Leaves what was withdrawn to the pool, which is to take it out of the queue.
    pub(super) fn hand_over(&mut self, core: &mut Core) {
        // Before: what is handed over now is about to be taken out.
        self.spare = core.left_over() <= KEYS;
        core.withdrawn.append(&mut self.withdrawn);
        core.gone.append(&mut self.gone);
        core.counts.cancelled += std::mem::take(&mut self.cancelled);
    }

    /// Sets what depends on the state of the pool.
    pub(super) fn set(&mut self, core: &Core) {
        self.gate = core.gate();
        self.takes_keys = core.may_withdraw();
        if !self.takes_keys {
            // By 8 of the inbox.
            self.left.clear();
        }
        self.spare = core.left_over() <= KEYS;
    }
}
