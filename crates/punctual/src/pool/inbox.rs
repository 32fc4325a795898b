//! Where a submission leaves its task when nobody needs to be told.
//!
//! Most tasks that come in change nothing for anybody: they are not the earliest, or every worker is busy and will look
//! round when it is done. Such a task need not go through the pool's lock, which the workers are taking all the time.
//! It is left in the *inbox*, behind a lock of its own that is held for a few instructions, and whoever next has to
//! know puts it into the queue, with all the others that have gathered there.
//!
//! # What is where
//! An entry ([`Letter`]) is in the inbox or in the queue, never in both. It has its number from the moment it was left,
//! so the order is that of submission, wherever it spent its time. Only plain tasks are left here: what has a name, a
//! period or a plan, and what had a number before, goes through the pool's lock.
//!
//! # The gate
//! The inbox takes entries whose deadline is not before the *gate*; while it is shut it takes none.
//!
//! ```text
//!   shut        submissions are to be decided under the pool's lock: it is not running, or bounded, or another worker
//!               may have to be started, or an idle worker waits for being called
//!   from t      an idle worker, the leader, looks round at t at the latest
//!   from zero   every worker is busy or on its way, and looks round before it waits
//! ```
//!
//! # Invariants
//! 1. The lock of the inbox is taken after the pool's, and never the other way round.
//! 2. Every entry in the inbox will be looked for in time: somebody awake looks before it waits, or the leader wakes no
//!    later than the entry is due.
//! 3. Whoever changes what the gate depends on so that it would have to rise ([`Core::gate`]) holds the inbox,
//!    has emptied it, and sets the gate before letting go. So 2 is decided in one place at a time. (A gate that could be
//!    lower costs a submission the pool's lock and nothing else.)
//! 4. `earliest` is not after the earliest deadline in the inbox; it is written under its lock. It is zero if the inbox is
//!    crowded: then a worker that looks for work sees to it first.
//! 5. A task that has never been in the queue has no key; whoever wants it out of the queue empties the inbox first.
//!
//! # Protocol
//! - *Submission:* take the inbox; if there is room and the gate allows it, number the task and leave it. Otherwise let
//!   go, and take both locks: see [`Held`].
//! - *Submission to a crowded inbox:* empty it, if the pool's lock is free at this moment. If not, somebody is there who will
//!   do so: leave the task all the same, as long as there is room for it.
//! - *A worker that looks for work* takes the pool's lock alone. If the first task of the queue is due, not after
//!   `earliest`, and nobody else is idle, it takes that; of a crowded inbox it sorts in what is there before. Otherwise it
//!   empties the inbox first, and keeps it until the gate is set for what it decided: to take (and leave somebody idle), to
//!   wait, to go.
//! - *A cancel* takes the pool's lock alone, if the task has a key.
//! - *Everybody else* holds both and sees all there is.
//!
//! # Bounds
//! From [`ROOM`] entries on the inbox is crowded, and at [`MOST`] it is full, so no call has to move more than that, and they
//! share one step of the queue's upkeep. It is more than crowded only while others have the pool's lock whenever a
//! submission tries it: a worker that runs short tasks, one after the other. Such a worker had better sort in what comes
//! itself, in its own cache, than find its lock taken: a burst on one worker gained a third by that.
//!
//! # Paths not taken
//! *A list without a lock:* the number, the gate and the entry would have to change in one step all the same.
//! *An inbox for each producer:* with one order over all, the worker would have to look into each of them before it
//! takes anything. *Letting a submission try the pool's lock first:* the lock would go on travelling between the
//! producers and the workers, and that is what costs.

use std::ops::{Deref, DerefMut};

use punctual_engine::{TaskKey, Tick};

use super::core::{Core, Offer};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::task::{TaskId, TaskRef};

/// How many entries the inbox has room for; with more it is crowded.
pub(super) const ROOM: usize = if cfg!(punctual_loom) { 1 } else { 32 };
/// How many it takes if nobody comes to empty it.
const MOST: usize = if cfg!(punctual_loom) { 2 } else { 8 * ROOM };

/// The state of a pool behind its lock, and the inbox in front of it.
pub(crate) struct Guarded {
    core: Mutex<Core>,
    inbox: Inbox,
}

struct Inbox {
    /// Invariant 4, for workers to look at without the lock. On a line of its own: they do so for every task.
    earliest: Padded<AtomicU64>,
    tray: Mutex<Tray>,
}

#[repr(align(128))]
struct Padded<T>(T);

/// What the lock of the inbox guards.
struct Tray {
    letters: Vec<Letter>,
    /// `None` is shut.
    gate: Option<Tick>,
    next_number: u64,
}

/// A task that is to be queued.
pub(super) struct Letter {
    pub(super) deadline: Tick,
    pub(super) number: u64,
    pub(super) task: TaskRef,
}

impl Inbox {
    fn earliest(&self) -> Tick {
        Tick::from_nanos(self.earliest.0.load(Ordering::Acquire))
    }

    /// Gives whoever has the pool's lock a moment to empty it.
    fn linger(&self) {
        const LOOKS: u32 = if cfg!(punctual_loom) { 0 } else { 100 };
        let _ = (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            self.earliest() != Tick::ZERO
        });
    }
}

impl Tray {
    fn next_id(&mut self) -> TaskId {
        let number = self.next_number;
        self.next_number += 1;
        TaskId(number)
    }
}

impl Guarded {
    pub(crate) fn new(core: Core) -> Self {
        let tray = Tray { letters: Vec::with_capacity(ROOM), gate: None, next_number: 0 };
        let earliest = Padded(AtomicU64::new(Tick::MAX.as_nanos()));
        Self { core: Mutex::new(core), inbox: Inbox { earliest, tray: Mutex::new(tray) } }
    }

    /// Both locks, with everything in the queue.
    pub(crate) fn lock(&self) -> Held<'_> {
        let mut core = self.core.lock();
        let tray = self.empty(&mut core);
        Held { tray, core }
    }

    /// The pool's lock alone. There may be entries in the inbox, and what the gate depends on must not change.
    pub(super) fn lock_alone(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Invariant 4.
    #[inline]
    pub(super) fn earliest(&self) -> Tick {
        self.inbox.earliest()
    }

    /// Leaves a task in the inbox; gives it back if it has to be decided under the pool's lock.
    #[inline]
    pub(super) fn leave(&self, task: TaskRef, offer: &mut Offer) -> Result<(), TaskRef> {
        if offer.id.is_some() || task.header().is_special() {
            return Err(task);
        }
        let mut tray = self.inbox.tray.lock();
        if tray.letters.len() >= ROOM && tray.letters.len() % ROOM == 0 {
            tray = self.make_room(tray);
        }
        if tray.letters.len() >= MOST || tray.gate.is_none_or(|gate| offer.deadline < gate) {
            return Err(task);
        }
        let id = tray.next_id();
        offer.id = Some(id);
        let crowded = tray.letters.len() >= ROOM;
        let nanos = if crowded { 0 } else { offer.deadline.as_nanos() };
        // Relaxed: written under the lock. Written seldom, because workers look at it.
        if nanos < self.inbox.earliest.0.load(Ordering::Relaxed) {
            self.inbox.earliest.0.store(nanos, Ordering::Release);
        }
        tray.letters.push(Letter { deadline: offer.deadline, number: id.number(), task });
        Ok(())
    }

    /// A crowded inbox, emptied if nobody has the pool's lock.
    #[cold]
    fn make_room<'a>(&'a self, tray: MutexGuard<'a, Tray>) -> MutexGuard<'a, Tray> {
        let is_full = tray.letters.len() >= MOST;
        drop(tray);
        if let Some(mut core) = self.core.try_lock() {
            let mut tray = self.empty(&mut core);
            tray.gate = core.gate();
            return tray;
        }
        if is_full {
            self.inbox.linger();
        }
        self.inbox.tray.lock()
    }

    /// Moves what is in the inbox to the queue; the inbox stays locked. Nobody is called: see invariant 2.
    fn empty<'a>(&'a self, core: &mut Core) -> MutexGuard<'a, Tray> {
        let mut tray = self.inbox.tray.lock();
        if !tray.letters.is_empty() {
            // The most of it without the lock of the inbox, so that submissions go on.
            tray = self.take_over(core, tray);
            drop(tray);
            core.sort_in();
            tray = self.inbox.tray.lock();
            tray = self.take_over(core, tray);
            core.sort_in();
        }
        tray
    }

    fn take_over<'a>(&self, core: &mut Core, mut tray: MutexGuard<'a, Tray>) -> MutexGuard<'a, Tray> {
        std::mem::swap(&mut tray.letters, &mut core.letters);
        self.inbox.earliest.0.store(Tick::MAX.as_nanos(), Ordering::Release);
        tray
    }

    /// What a worker has to hold for its next step: the inbox, emptied, unless it is plain what comes first and nobody
    /// else could take the next.
    pub(super) fn look<'a>(&'a self, core: &mut Core, now: Tick) -> Option<Gatekeeper<'a>> {
        if core.has_plain_step(now, self.inbox.earliest()) {
            return None;
        }
        if self.inbox.earliest() == Tick::ZERO {
            drop(self.take_over(core, self.inbox.tray.lock()));
            core.sort_in();
            if core.has_plain_step(now, self.inbox.earliest()) {
                return None;
            }
        }
        Some(Gatekeeper(self.empty(core)))
    }

    /// Takes a task out of the queue, wherever it is.
    pub(super) fn unlink(&self, core: &mut Core, key: impl Fn() -> TaskKey) -> Option<TaskRef> {
        if key() == TaskKey::NONE {
            drop(self.empty(core));
        }
        core.unlink(key())
    }
}

/// The inbox, locked and empty, while a worker decides what it does next.
#[must_use]
pub(super) struct Gatekeeper<'a>(MutexGuard<'a, Tray>);

impl Gatekeeper<'_> {
    /// Lets go, after the decision.
    pub(super) fn settle(mut self, core: &Core) {
        self.0.gate = core.gate();
    }
}

/// Both locks. Sets the gate when it is given up.
pub(crate) struct Held<'a> {
    tray: MutexGuard<'a, Tray>,
    core: MutexGuard<'a, Core>,
}

impl Held<'_> {
    pub(crate) fn next_id(&mut self) -> TaskId {
        self.tray.next_id()
    }
}

impl Deref for Held<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.tray.gate = self.core.gate();
    }
}
