//! Where a submission leaves its task when nobody needs to be told.
//!
//! Most tasks that come in change nothing for anybody: they are not the earliest, or every worker is busy and will look
//! round when it is done. Such a task need not go through the pool's lock, which the workers are taking all the time.
//! It is left in the *inbox*, behind a lock of its own that is held for a few instructions, and whoever next has to
//! know puts it into the queue, with all the others that have gathered there.
//!
//! It is the same with a task that is cancelled before its time: its body is dropped by whoever cancels it, and then what is
//! left in the queue is an entry that concerns nobody. So only its key is left here, and whoever next looks takes a few
//! of them out together; each of them is somewhere else in memory, and together they are waited for once. A task that is
//! still in the inbox never gets to the queue. If the body has nothing to be dropped the task need not even be looked at
//! (`task/cell/apart.rs`).
//!
//! # Lanes
//! The inbox is a few *lanes* ([`lane`](super::lane)), each with its lock. A thread keeps to one of them, the first unless it has
//! met another thread there: so one thread that submits has no more to do with lanes than that there is one, and several are
//! not in each other's way. A lane is in use from the first time that a thread comes to it. What is said of the inbox here
//! is said of all lanes in use; to hold the inbox is to hold all of them, in order.
//!
//! # What is where
//! An entry ([`Letter`]) is in the inbox or in the queue, never in both. It has its number from the moment it was left,
//! so the order is that of submission, wherever it spent its time: numbers are counted for all lanes together, and in
//! the first while it is the only one. Only plain tasks are left here: what has a name, a
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
//!    has emptied it, and sets the gate of every lane before letting go. So 2 is decided in one place at a time. (A gate that
//!    could be lower costs a submission the pool's lock and nothing else.) Lanes are taken into use under the pool's lock; until
//!    then their gates are shut.
//! 4. `earliest` of a lane is not after the earliest deadline there, and `crowded` says whether more than [`ROOM`] are there. If
//!    one is crowded, a worker that looks for work sees to it first. What is in the queue comes before all in the inbox if it
//!    is due before; with one lane also if it is due at the same instant, since it came before. Of several lanes one may
//!    have been emptied after what is in another came.
//! 5. A task that has never been in the queue has no key; whoever wants it out of the queue empties the inbox first.
//! 6. A key in `withdrawn` is that of a plain task that is cancelled, or it is stale because a worker has taken the task, which
//!    finds out. So is that of a task in `gone`, once it has one: until then it is in a lane, or in the hands of whoever sorts
//!    that in. Such a task has nothing of a user's any more, so it may be dropped under the lock.
//! 7. Keys are left only where nobody waits for the queue to run empty ([`Core::may_withdraw`]), and while few are left over; what
//!    that depends on changes like what the gate depends on. A worker that is about to wait sees to them first. (Should it
//!    leave some over, it may wait for a task that is cancelled, and look once more than it need.)
//! 8. Counts for the pool are kept ([`tether`](super::tether)) only where keys may be left. So none are once it is shut down: what it has
//!    itself would keep it there for good.
//!
//! # Protocol
//! - *Submission:* take the lane; if there is room and the gate allows it, number the task and leave it. Otherwise let
//!   go, and take all locks: see [`Held`]. Whoever has waited for the lane, and was not the last to use it, keeps to the next
//!   one from then on.
//! - *Submission to a crowded lane:* where every worker is awake leave the task all the same, as long as there is room for
//!   it: the next that looks sorts it in. If there is none, sort in what came first; otherwise, empty it; if the pool's lock is
//!   free at this moment: if not, somebody is there who will do so. Where it is full and the lock taken, it looks for a while
//!   whether that is still so, and then takes all locks.
//! - *A worker that looks for work* takes what is [laid out](super::ready), if that comes before the inbox by 4. If nothing is,
//!   it takes the pool's lock alone. If the first task of the queue is due, comes before the inbox,
//!   and nobody else is idle, it takes that; of a lane that is crowded, or has something due, it sorts in what is
//!   there before. Otherwise it empties the inbox first, and keeps it until the gate is set for what it decided: to take (and
//!   leave somebody idle), to wait, to go.
//! - *A worker that finds nothing due but in the inbox,* where they have been coming several at a time, lets the inbox fill for
//!   a moment first, without any lock: see *Crowds*.
//! - *A cancel* of a plain task takes its thread's lane: it takes the task out of it, or leaves its key. If neither will do, it
//!   takes the pool's lock, alone if the task has a key. One that goes by its mark is decided under the lock of the lane, if
//!   there is room, and left there; if it is one of the last that came it is taken out like the others. With every
//!   [`BATCH`](super::lane::BATCH) of them it takes the pool's lock to have them out of the queue, if that is free; with
//!   [`KEYS`](super::lane::KEYS) of them in any case. While their slots are waited for it sorts in what its lane has, if
//!   that is not crowded. What would make the call long is left to the next.
//! - *Everybody else* holds all locks and sees all there is.
//! - *Whoever empties the inbox* to hold it does so in a few rounds, sorting in without its locks, until few are left: a
//!   submission that finds it taken for longer than a moment goes to sleep, and to wake it takes longer than to sort them in.
//!
//! # Bounds
//! From [`ROOM`] entries on a lane is crowded, and at [`MOST`] it is full, so no call has to move more than that, and they
//! share one step of the queue's upkeep for each chunk of it; a submission that finds it full moves half of it. It is more than crowded only while workers are awake: they run
//! short tasks, one after the other, and had better sort in what comes themselves, in their own cache, than find their lock
//! taken. A burst on one worker gained a third when submissions came to leave what they could not sort in at once, and what
//! falls due one after another a tenth when they came not to try. There is room for what comes while a worker runs a whole portion
//! of what is [laid out](super::ready), and more: whoever finds the lane full is in the worker's way, or asleep.
//!
//! # Crowds
//! Where one thread submits as fast as it can, and a worker runs what it submits, the worker is a little faster. So it would
//! find three or four in the inbox each time, and for so few both sides pay as much as for thirty: the lock, the letters and
//! the queue travel to the other processor and back. So if the last time there were several ([`CROWD`]) it looks on for about
//! a microsecond, until there are [`ROOM`] of them. It is awake all the time, so 2 holds; a task waits that microsecond
//! longer at most; and as soon as fewer come it does not look on. A burst of half a million on one worker went from 4.3 to 7.3
//! million a second, and on two from 5.5 to 6.8.
//!
//! # Paths not taken
//! *A worker that is called to sort in what comes while nothing is due,* so that submissions need not: every task then travels
//! to the other processor, an insert among 100,000 went from 158 to 281 ns.
//! *A list without a lock:* the number, the gate and the entry would have to change in one step all the same. *Letting a submission try the pool's lock first:* the lock would go on travelling between the
//! producers and the workers, and that is what costs.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use punctual_engine::{TaskKey, Tick};

use super::aside::BEHIND;
use super::core::{Core, Offer};
use super::lane::{BATCH, Lane, Letter, MOST, ROOM, Tray, Withdrawn};
use super::ready::{Ready, Taken};
use super::tally::Tally;
use crate::latch::Guard;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, thread_local};
use crate::task::{ByMark, Header, TaskId, TaskRef};

/// How many lanes there are at most, also where fewer threads can run at once: one that is pre-empted keeps its lane. A worker
/// looks at each that is in use.
pub(super) const LANES: usize = if cfg!(punctual_loom) { 2 } else { 8 };
/// As many at once, and more are coming as fast as they are taken.
pub(super) const CROWD: usize = if cfg!(punctual_loom) { 1 } else { 4 };

/// How often a submission that finds its lane full, and the pool's lock taken, looks whether either is so no more, before it waits
/// for the lock: for some thirty microseconds. To sleep and be woken takes longer than to sort in what is there.
const PATIENCE: u32 = if cfg!(punctual_loom) { 1 } else { 20 };

thread_local! {
    /// The lane that this thread keeps to, in every pool.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static MINE: Cell<usize> = Cell::new(0);
}

/// The lane of this thread, and what tells it from other threads.
#[inline]
fn mine() -> (usize, usize) {
    MINE.try_with(|lane| (lane.get(), std::ptr::from_ref(lane).addr())).unwrap_or((0, 0))
}

/// The lane of this thread, whether it is in use or not.
#[inline]
pub(super) fn lane_of_this_thread() -> usize {
    mine().0
}

/// The state of a pool behind its lock, and the inbox in front of it.
pub(crate) struct Guarded {
    core: Mutex<Core>,
    /// The number of the next task, if several lanes are in use. On a line of its own: every submission writes to it.
    numbers: Padded<AtomicU64>,
    inbox: Padded<Inbox>,
}

#[repr(align(128))]
struct Padded<T>(T);

/// What every submission reads and nobody writes to, or hardly ever.
struct Inbox {
    lanes: [Lane; LANES],
    /// So many lanes, the first, are in use. Written under the pool's lock.
    in_use: AtomicUsize,
    ready: Arc<Ready>,
}

/// The locks of the lanes that are in use.
type Trays<'a> = [Option<Guard<'a, Tray>>; LANES];

impl Inbox {
    /// The lanes that are in use.
    #[inline]
    fn lanes(&self) -> &[Lane] {
        // Acquire: pairs with the store in `take_into_use`, for whoever does not have the pool's lock.
        &self.lanes[..self.in_use.load(Ordering::Acquire)]
    }

    /// The lane of this thread; one that is in use.
    #[inline]
    fn lane(&self, mine: usize) -> &Lane {
        let lanes = self.lanes();
        lanes.get(mine).unwrap_or(&lanes[0])
    }

    fn earliest(&self) -> Tick {
        self.lanes().iter().map(Lane::earliest).min().unwrap_or(Tick::MAX)
    }

    fn is_crowded(&self) -> bool {
        self.lanes().iter().any(Lane::is_crowded)
    }

    /// What is in the queue and not after this comes before all that is in the inbox: invariant 4.
    #[inline]
    fn clear_until(&self) -> Option<Tick> {
        match self.lanes() {
            [lane] => Some(lane.earliest()),
            lanes => {
                let earliest = lanes.iter().map(Lane::earliest).min().unwrap_or(Tick::MAX).as_nanos();
                if earliest == Tick::MAX.as_nanos() {
                    return Some(Tick::MAX);
                }
                earliest.checked_sub(1).map(Tick::from_nanos)
            }
        }
    }
}

/// Looks so many times at most, until it is as wanted. Models do not.
fn look_out(looks: u32, is_wanted: impl Fn() -> bool) {
    let looks = if cfg!(punctual_loom) { 0 } else { looks };
    let _ = (0..looks).any(|_| {
        std::hint::spin_loop();
        is_wanted()
    });
}

impl Guarded {
    pub(crate) fn new(core: Core) -> Self {
        let ready = Arc::clone(&core.ready);
        let lanes = std::array::from_fn(|lane| Lane::new(lane, (lane == 0).then_some(0)));
        let inbox = Padded(Inbox { lanes, in_use: AtomicUsize::new(1), ready });
        Self { core: Mutex::new(core), numbers: Padded(AtomicU64::new(0)), inbox }
    }

    /// The number of another task, for whoever has the lane of this tray.
    #[inline]
    fn next_id(&self, tray: &mut Tray) -> TaskId {
        TaskId(match &mut tray.next_number {
            Some(next) => {
                *next += 1;
                *next - 1
            }
            // Relaxed: of two calls, one of which came after the other, the later has the higher number all the same.
            None => self.numbers.0.fetch_add(1, Ordering::Relaxed),
        })
    }

    // ---- holding the pool

    /// All locks, with everything in the queue.
    pub(crate) fn lock(&self) -> Held<'_> {
        let mut held = self.lock_to_submit();
        held.core.take_out();
        held
    }

    /// All locks, with everything in the queue; but what was withdrawn may not have left it.
    pub(super) fn lock_to_submit(&self) -> Held<'_> {
        let mut core = self.lock_whole();
        self.take_into_use(mine().0, &core);
        let trays = self.empty(&mut core);
        Held { trays, core, guarded: self }
    }

    /// The pool's lock, with nothing laid out.
    pub(super) fn lock_whole(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        core.collect();
        core
    }

    /// The pool's lock alone, as below, if nobody has it.
    pub(super) fn try_lock_alone(&self) -> Option<MutexGuard<'_, Core>> {
        self.core.try_lock()
    }

    /// What is laid out.
    pub(super) fn ready(&self) -> &Ready {
        &self.inbox.0.ready
    }

    /// The pool's lock alone. There may be entries in the inbox, and what the gate depends on must not change.
    pub(super) fn lock_alone(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// From now on there is this lane, too.
    #[inline]
    fn take_into_use(&self, lane: usize, core: &Core) {
        // Relaxed: written under the pool's lock.
        let in_use = self.inbox.0.in_use.load(Ordering::Relaxed);
        if in_use <= lane {
            self.open(in_use..lane + 1, core);
        }
    }

    #[cold]
    fn open(&self, new: Range<usize>, core: &Core) {
        let Inbox { lanes, in_use, .. } = &self.inbox.0;
        if let Some(next) = lanes[0].lock().next_number.take() {
            // Relaxed: whoever finds no number in the first lane has its lock, and in the others knows that they are in use.
            self.numbers.0.store(next, Ordering::Relaxed);
        }
        lanes[new.clone()].iter().for_each(|lane| lane.lock().set(core));
        // Release: whoever sees them in use sees where the numbers are.
        in_use.store(new.end, Ordering::Release);
    }

    /// Moves what is in the inbox to the queue; the inbox stays locked. Nobody is called: see invariant 2.
    fn empty<'a>(&'a self, core: &mut Core) -> Trays<'a> {
        let mut trays = [const { None }; LANES];
        let lanes = self.inbox.0.lanes();
        if lanes.len() > 1 {
            // The most of it before the first is locked, so that submissions go on.
            lanes.iter().filter(|lane| lane.earliest() < Tick::MAX).for_each(|lane| lane.sort_in(core));
        }
        for (tray, lane) in trays.iter_mut().zip(lanes) {
            *tray = Some(lane.empty(core));
        }
        trays.iter_mut().flatten().for_each(|tray| tray.hand_over(core));
        trays
    }

    // ---- submissions and cancels

    /// The lane of this thread, locked.
    #[inline]
    fn own(&self) -> (&Lane, Guard<'_, Tray>) {
        let (mine, me) = mine();
        let lane = self.inbox.0.lane(mine);
        let mut tray = lane.try_lock().unwrap_or_else(|| self.contend(lane, mine, me));
        tray.user = me;
        (lane, tray)
    }

    /// The same if somebody has it at this moment.
    #[cold]
    fn contend<'a>(&'a self, lane: &'a Lane, mine: usize, me: usize) -> Guard<'a, Tray> {
        let tray = lane.lock();
        if tray.user != me {
            // Two threads in one lane. The other is taken into use when the thread next has the pool's lock.
            let _ = MINE.try_with(|lane| lane.set((mine + 1) % LANES));
        }
        tray
    }

    /// Leaves a task in the inbox; gives it back if it has to be decided under the pool's lock.
    #[inline]
    pub(super) fn leave(&self, task: TaskRef, offer: &mut Offer<'_>) -> Result<(), TaskRef> {
        if offer.id.is_some() || task.header().is_special() {
            return Err(task);
        }
        let (lane, mut tray) = self.own();
        let count = tray.letters.len();
        if count >= MOST || count >= ROOM && count % ROOM == 0 && tray.gate != Some(Tick::ZERO) {
            tray = self.make_room(lane, tray);
        }
        if tray.letters.len() >= MOST || tray.gate.is_none_or(|gate| offer.deadline < gate) {
            return Err(task);
        }
        let id = self.next_id(&mut tray);
        offer.id = Some(id);
        task.header().set_place(offer.turn());
        offer.left = offer.tether.and_then(|tether| tray.left_for(tether));
        lane.leave(&mut tray, Letter { deadline: offer.deadline, number: id.number(), task });
        Ok(())
    }

    /// A crowded lane, emptied, or relieved if it is full, if nobody has the pool's lock.
    #[cold]
    fn make_room<'a>(&'a self, lane: &'a Lane, mut tray: Guard<'a, Tray>) -> Guard<'a, Tray> {
        for _ in 0..PATIENCE {
            let is_full = tray.letters.len() >= MOST;
            drop(tray);
            if let Some(mut core) = self.core.try_lock() {
                self.take_into_use(mine().0, &core);
                // What was withdrawn is for cancels to pay for.
                let mut tray = if is_full { lane.relieve(&mut core) } else { lane.empty(&mut core) };
                tray.set(&core);
                return tray;
            }
            if is_full {
                // Whoever has the lock may be at it.
                look_out(100, || !lane.is_crowded());
            }
            tray = lane.lock();
            if tray.letters.len() < MOST {
                break;
            }
        }
        tray
    }

    /// Counts a task that was cancelled while it waited, and sees to it that it leaves the queue, without the pool's lock.
    pub(super) fn withdraw(&self, task: &Header) -> Withdrawn {
        // It has just been cancelled: if nobody has moved it up to now, nobody will.
        let Some(key) = task.plain_key() else { return Withdrawn::Refused };
        let (lane, mut tray) = self.own();
        let withdrawn = lane.withdraw(&mut tray, task, key);
        drop(tray);
        self.see_to(lane, &withdrawn);
        withdrawn
    }

    /// The same for a task that is to be cancelled by its mark; false if it is not.
    pub(super) fn withdraw_by_mark(&self, task: &ByMark<'_>) -> bool {
        task.fetch();
        let (lane, mut tray) = self.own();
        let withdrawn = tray.withdraw_by_mark(task);
        drop(tray);
        self.see_to(lane, &withdrawn);
        !matches!(withdrawn, Withdrawn::Refused)
    }

    /// Takes what was withdrawn in that lane out of the queue, if it is enough.
    #[inline(always)]
    fn see_to(&self, lane: &Lane, withdrawn: &Withdrawn) {
        if let Withdrawn::Enough { in_any_case } = *withdrawn {
            let core = if in_any_case { Some(self.core.lock()) } else { self.core.try_lock() };
            if let Some(mut core) = core {
                self.take_out(lane, &mut core);
            }
        }
    }

    /// Takes what was withdrawn in that lane, or is left over, out of the queue, or some of it. While its slots are waited for it
    /// sorts in what the lane has.
    #[inline(never)]
    fn take_out(&self, lane: &Lane, core: &mut Core) {
        let mut tray = lane.lock();
        tray.hand_over(core);
        if !lane.is_crowded() {
            lane.take_over(&mut tray, core);
        }
        drop(tray);
        core.fetch_withdrawn();
        // Meanwhile.
        core.sort_in();
        self.take_into_use(mine().0, core);
        if core.gone.len() >= 2 * BATCH && core.gone_on_the_way() >= BATCH {
            // In other lanes, of which one is much for one call.
            let holds = |lane: &&Lane| lane.earliest() < Tick::MAX;
            if let Some(lane) = self.inbox.0.lanes().iter().find(holds) {
                lane.sort_in(core);
            }
        }
        core.take_out_some();
    }

    /// Takes a task out of the queue, wherever it is.
    pub(super) fn unlink(&self, core: &mut Core, task: &Header) -> Option<TaskRef> {
        if core.left_over() > 0 {
            // Otherwise no more keys would be taken.
            self.take_out(self.inbox.0.lane(mine().0), core);
        }
        if task.key() == TaskKey::NONE {
            drop(self.empty(core));
        }
        core.unlink(task.key()).or_else(|| core.unlay(task))
    }

    // ---- workers

    /// What comes next, if it is laid out.
    #[inline]
    pub(super) fn take_ready(&self, index: usize, tally: &Tally) -> Option<Taken> {
        self.inbox.0.ready.take(index, tally, || self.inbox.0.clear_until())
    }

    /// Whether something has been due for longer than workers take to come for it.
    pub(super) fn is_behind(&self, now: Tick) -> bool {
        let is_overdue = |due: Tick| now.since(due) > BEHIND;
        let inbox = &self.inbox.0;
        is_overdue(inbox.earliest())
            || inbox.ready.next_deadline().is_some_and(is_overdue)
            || self.core.lock().queue.next_deadline().is_some_and(is_overdue)
    }

    /// What is in the queue and not after this comes next; nothing does before a crowded lane is seen to.
    #[inline]
    pub(super) fn clear_until(&self) -> Option<Tick> {
        if self.inbox.0.is_crowded() { None } else { self.inbox.0.clear_until() }
    }

    /// Whether a worker had better let the inbox fill: what is due comes in crowds, and now there are few.
    pub(super) fn is_filling(&self, core: &Core, now: Tick) -> bool {
        let inbox = &self.inbox.0;
        core.in_crowds && !inbox.is_crowded() && inbox.earliest() <= now && !core.has_due(now)
    }

    /// Waits until the inbox is crowded, but about a microsecond at most. To be called without a lock.
    pub(super) fn let_fill(&self) {
        look_out(64, || self.inbox.0.is_crowded());
    }

    /// What a worker has to hold for its next step: the inbox, emptied, unless it is plain what comes first and nobody
    /// else could take the next.
    pub(super) fn look<'a>(&'a self, core: &mut Core, now: Tick) -> Option<Gatekeeper<'a>> {
        if core.has_plain_step(now, self.clear_until()) {
            return None;
        }
        let presses = |lane: &&Lane| lane.is_crowded() || lane.earliest() <= now;
        let mut pressing = self.inbox.0.lanes().iter().filter(presses).peekable();
        if pressing.peek().is_some() {
            pressing.for_each(|lane| lane.sort_in(core));
            if core.has_plain_step(now, self.clear_until()) {
                return None;
            }
        }
        let trays = self.empty(core);
        core.take_out_some();
        Some(Gatekeeper(trays))
    }

    #[cfg(all(test, not(punctual_loom)))]
    pub(super) fn first_lane(&self) -> &Lane {
        &self.inbox.0.lanes[0]
    }

    #[cfg(all(test, not(punctual_loom)))]
    pub(super) fn earliest(&self) -> Tick {
        self.inbox.0.earliest()
    }
}

/// The inbox, locked and empty, while a worker decides what it does next.
#[must_use]
pub(super) struct Gatekeeper<'a>(Trays<'a>);

impl Gatekeeper<'_> {
    /// Lets go, after the decision.
    pub(super) fn settle(mut self, core: &Core) {
        self.0.iter_mut().flatten().for_each(|tray| tray.set(core));
    }
}

/// All locks. Sets the gates when it is given up.
pub(crate) struct Held<'a> {
    trays: Trays<'a>,
    core: MutexGuard<'a, Core>,
    guarded: &'a Guarded,
}

impl Held<'_> {
    pub(crate) fn next_id(&mut self) -> TaskId {
        let [Some(first), ..] = &mut self.trays else { unreachable!("the first lane is in use") };
        self.guarded.next_id(first)
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
        let core = &mut *self.core;
        if !core.may_withdraw() {
            // By 8.
            core.left.iter_mut().for_each(Vec::clear);
        }
        self.trays.iter_mut().flatten().for_each(|tray| tray.set(core));
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests;
