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
//! still in the inbox never gets to the queue.
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
//! 4. `earliest` is not after the earliest deadline in the inbox, and `crowded` says whether more than [`ROOM`] are there; both
//!    are written under its lock. If it is crowded, a worker that looks for work sees to it first.
//! 5. A task that has never been in the queue has no key; whoever wants it out of the queue empties the inbox first.
//! 6. A key in `withdrawn` is that of a plain task that is cancelled, or it is stale because a worker has taken the task, which
//!    finds out. Such a task has nothing of a user's any more, so it may be dropped under the lock.
//! 7. Keys are left only where nobody waits for the queue to run empty ([`Core::may_withdraw`]); what that depends on
//!    changes like what the gate depends on. And only of tasks so far away that the queue takes several of them in one
//!    step, as far as was known when the inbox was last emptied.
//!
//! # Protocol
//! - *Submission:* take the inbox; if there is room and the gate allows it, number the task and leave it. Otherwise let
//!   go, and take both locks: see [`Held`].
//! - *Submission to a crowded inbox:* where every worker is awake leave the task all the same, as long as there is room for
//!   it: the next that looks sorts it in. Otherwise, and if there is none, empty it, if the pool's lock is free at this
//!   moment; if not, somebody is there who will do so.
//! - *A worker that looks for work* takes what is [laid out](super::ready), if that is not after `earliest`. If nothing is, it
//!   takes the pool's lock alone. If the first task of the queue is due, not after
//!   `earliest`, and nobody else is idle, it takes that; of an inbox that is crowded, or has something due, it sorts in what is
//!   there before. Otherwise it empties the inbox first, and keeps it until the gate is set for what it decided: to take (and
//!   leave somebody idle), to wait, to go.
//! - *A worker that finds nothing due but in the inbox,* where they have been coming several at a time, lets the inbox fill for
//!   a moment first, without any lock: see *Crowds*.
//! - *A cancel* of a plain task takes the inbox: it takes the task out of it, or leaves its key. If neither will do, or there
//!   are [`BATCH`] keys, it takes the pool's lock, alone if the task has a key, and the other keys with it.
//! - *Everybody else* holds both and sees all there is.
//! - *Whoever empties the inbox* to hold it does so in a few rounds, sorting in without its lock, until few are left: a
//!   submission that finds it taken for longer than a moment goes to sleep, and to wake it takes longer than to sort them in.
//!
//! # Bounds
//! From [`ROOM`] entries on the inbox is crowded, and at [`MOST`] it is full, so no call has to move more than that, and they
//! share one step of the queue's upkeep for each chunk of it. It is more than crowded only while workers are awake: they run
//! short tasks, one after the other, and had better sort in what comes themselves, in their own cache, than find their lock
//! taken. A burst on one worker gained a third when submissions came to leave what they could not sort in at once, and what
//! falls due one after another a tenth when they came not to try.
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
//! to the other processor, an insert among 100,000 went from 158 to 281 ns. *Fetching the blocks and the letters that are
//! written next into the cache:* nothing to be gained beside the crowds.
//! *A list without a lock:* the number, the gate and the entry would have to change in one step all the same.
//! *An inbox for each producer:* with one order over all, the worker would have to look into each of them before it
//! takes anything. *Letting a submission try the pool's lock first:* the lock would go on travelling between the
//! producers and the workers, and that is what costs. *Keys of all tasks, or more of them:* a cancel of what is due soon
//! takes a step of the queue's upkeep, and with sixteen of them the longest call grew from 65 to 260 µs.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use punctual_engine::{TaskKey, Tick};

use super::core::{Core, Offer};
use super::ready::{Ready, Taken};
use super::tally::Tally;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::task::{Header, TaskId, TaskRef};

/// How many entries the inbox has room for; with more it is crowded.
pub(super) const ROOM: usize = if cfg!(punctual_loom) { 1 } else { 32 };
/// How many it takes if nobody comes to empty it.
pub(super) const MOST: usize = if cfg!(punctual_loom) { 2 } else { 8 * ROOM };
/// So few are sorted in while submissions wait.
const FEW: usize = if cfg!(punctual_loom) { 0 } else { 4 };
/// How often it is tried to bring it to that.
const ROUNDS: u32 = if cfg!(punctual_loom) { 1 } else { 4 };
/// As many at once, and more are coming as fast as they are taken.
pub(super) const CROWD: usize = if cfg!(punctual_loom) { 1 } else { 4 };
/// How many keys of cancelled tasks it takes.
pub(super) const BATCH: usize = if cfg!(punctual_loom) { 1 } else { 4 };

/// The state of a pool behind its lock, and the inbox in front of it.
pub(crate) struct Guarded {
    core: Mutex<Core>,
    inbox: Inbox,
    ready: Arc<Ready>,
}

struct Inbox {
    /// On a line of its own: workers look at it for every task.
    notice: Padded<Notice>,
    tray: Mutex<Tray>,
}

#[repr(align(128))]
struct Padded<T>(T);

/// Invariant 4, for workers to look at without the lock.
struct Notice {
    earliest: AtomicU64,
    crowded: AtomicBool,
}

/// What the lock of the inbox guards.
struct Tray {
    letters: Vec<Letter>,
    /// `None` is shut.
    gate: Option<Tick>,
    next_number: u64,
    /// Invariant 6.
    withdrawn: Vec<TaskKey>,
    /// How many were cancelled since the inbox was emptied.
    cancelled: u64,
    /// From which deadline on a key may be left; [`Tick::MAX`] where none may.
    withdraw_from: Tick,
}

/// What came of an attempt to cancel without the pool's lock.
pub(super) enum Withdrawn {
    /// It was in the inbox, and is the caller's to drop.
    Unsorted(TaskRef),
    /// It is as good as gone from the queue.
    Noted,
    /// There are enough of those: the pool's lock is to be taken for all of them.
    Crowded,
    /// It has to be decided under the pool's lock.
    Refused,
}

/// A task that is to be queued.
pub(super) struct Letter {
    pub(super) deadline: Tick,
    pub(super) number: u64,
    pub(super) task: TaskRef,
}

impl Inbox {
    fn earliest(&self) -> Tick {
        Tick::from_nanos(self.notice.0.earliest.load(Ordering::Acquire))
    }

    fn is_crowded(&self) -> bool {
        self.notice.0.crowded.load(Ordering::Acquire)
    }

    /// Gives whoever has the pool's lock a moment to empty it.
    fn linger(&self) {
        self.look_out(100, || !self.is_crowded());
    }

    /// Looks so many times at most, until it is as wanted. Models do not.
    fn look_out(&self, looks: u32, is_wanted: impl Fn() -> bool) {
        let looks = if cfg!(punctual_loom) { 0 } else { looks };
        let _ = (0..looks).any(|_| {
            std::hint::spin_loop();
            is_wanted()
        });
    }
}

impl Tray {
    fn hand_over_withdrawn(&mut self, core: &mut Core) {
        std::mem::swap(&mut self.withdrawn, &mut core.withdrawn);
        core.counts.cancelled += std::mem::take(&mut self.cancelled);
    }

    /// Sets what depends on the state of the pool.
    fn set(&mut self, core: &Core) {
        self.gate = core.gate();
        self.withdraw_from = if core.may_withdraw() { core.queue.calm_from() } else { Tick::MAX };
    }

    fn next_id(&mut self) -> TaskId {
        let number = self.next_number;
        self.next_number += 1;
        TaskId(number)
    }
}

impl Guarded {
    pub(crate) fn new(core: Core) -> Self {
        let tray = Tray {
            letters: Vec::with_capacity(ROOM),
            gate: None,
            next_number: 0,
            withdrawn: Vec::with_capacity(BATCH),
            cancelled: 0,
            withdraw_from: Tick::MAX,
        };
        let earliest = AtomicU64::new(Tick::MAX.as_nanos());
        let notice = Padded(Notice { earliest, crowded: AtomicBool::new(false) });
        let ready = Arc::clone(&core.ready);
        Self { core: Mutex::new(core), inbox: Inbox { notice, tray: Mutex::new(tray) }, ready }
    }

    /// Both locks, with everything in the queue.
    pub(crate) fn lock(&self) -> Held<'_> {
        let mut core = self.lock_whole();
        let tray = self.empty(&mut core);
        Held { tray, core }
    }

    /// The pool's lock, with nothing laid out.
    pub(super) fn lock_whole(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        core.collect();
        core
    }

    /// What comes next, if it is laid out.
    #[inline]
    pub(super) fn take_ready(&self, index: usize, tally: &Tally) -> Option<Taken> {
        self.ready.take(index, tally, || self.inbox.earliest())
    }

    /// The pool's lock alone. There may be entries in the inbox, and what the gate depends on must not change.
    pub(super) fn lock_alone(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// What is in the queue and not after this comes next; nothing does before a crowded inbox is seen to.
    #[inline]
    pub(super) fn pressing(&self) -> Tick {
        if self.inbox.is_crowded() { Tick::ZERO } else { self.inbox.earliest() }
    }

    /// Leaves a task in the inbox; gives it back if it has to be decided under the pool's lock.
    #[inline]
    pub(super) fn leave(&self, task: TaskRef, offer: &mut Offer) -> Result<(), TaskRef> {
        if offer.id.is_some() || task.header().is_special() {
            return Err(task);
        }
        let mut tray = self.inbox.tray.lock();
        let count = tray.letters.len();
        if count >= MOST || count >= ROOM && count % ROOM == 0 && tray.gate != Some(Tick::ZERO) {
            tray = self.make_room(tray);
        }
        if tray.letters.len() >= MOST || tray.gate.is_none_or(|gate| offer.deadline < gate) {
            return Err(task);
        }
        let id = tray.next_id();
        offer.id = Some(id);
        let (notice, nanos) = (&self.inbox.notice.0, offer.deadline.as_nanos());
        // Relaxed: written under the lock. Written seldom, because workers look at it.
        if nanos < notice.earliest.load(Ordering::Relaxed) {
            notice.earliest.store(nanos, Ordering::Release);
        }
        if tray.letters.len() == ROOM {
            notice.crowded.store(true, Ordering::Release);
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
            let mut tray = self.empty_letters(&mut core);
            tray.set(&core);
            return tray;
        }
        if is_full {
            self.inbox.linger();
        }
        self.inbox.tray.lock()
    }

    /// Moves what is in the inbox to the queue; the inbox stays locked. Nobody is called: see invariant 2.
    fn empty<'a>(&'a self, core: &mut Core) -> MutexGuard<'a, Tray> {
        let mut tray = self.empty_letters(core);
        if tray.cancelled > 0 {
            tray.hand_over_withdrawn(core);
            core.take_out();
        }
        tray
    }

    /// The same of letters alone, for a submission: what was withdrawn is for cancels to pay for.
    fn empty_letters<'a>(&'a self, core: &mut Core) -> MutexGuard<'a, Tray> {
        let mut tray = self.inbox.tray.lock();
        // The most of it without the lock of the inbox, so that submissions go on.
        for _ in 0..ROUNDS {
            if tray.letters.len() <= FEW {
                break;
            }
            tray = self.take_over(core, tray);
            drop(tray);
            core.sort_in();
            tray = self.inbox.tray.lock();
        }
        if !tray.letters.is_empty() {
            tray = self.take_over(core, tray);
            core.sort_in();
        }
        tray
    }

    fn take_over<'a>(&self, core: &mut Core, mut tray: MutexGuard<'a, Tray>) -> MutexGuard<'a, Tray> {
        std::mem::swap(&mut tray.letters, &mut core.letters);
        let notice = &self.inbox.notice.0;
        notice.earliest.store(Tick::MAX.as_nanos(), Ordering::Release);
        notice.crowded.store(false, Ordering::Release);
        tray
    }

    /// Whether a worker had better let the inbox fill: what is due comes in crowds, and now there are few.
    pub(super) fn is_filling(&self, core: &Core, now: Tick) -> bool {
        let earliest = self.inbox.earliest();
        core.in_crowds && !self.inbox.is_crowded() && earliest <= now && !core.has_due(now)
    }

    /// Waits until the inbox is crowded, but about a microsecond at most. To be called without a lock.
    pub(super) fn let_fill(&self) {
        self.inbox.look_out(64, || self.inbox.is_crowded());
    }

    /// What a worker has to hold for its next step: the inbox, emptied, unless it is plain what comes first and nobody
    /// else could take the next.
    pub(super) fn look<'a>(&'a self, core: &mut Core, now: Tick) -> Option<Gatekeeper<'a>> {
        if core.has_plain_step(now, self.pressing()) {
            return None;
        }
        // It is crowded, or has something that is due.
        if self.pressing() <= now {
            drop(self.take_over(core, self.inbox.tray.lock()));
            core.sort_in();
            if core.has_plain_step(now, self.pressing()) {
                return None;
            }
        }
        Some(Gatekeeper(self.empty(core)))
    }

    /// Counts a task that was cancelled while it waited, and sees to it that it leaves the queue, without the pool's lock.
    /// `deadline` is not after that of the task.
    pub(super) fn withdraw(&self, task: &Header, deadline: Tick) -> Withdrawn {
        // It has just been cancelled: if nobody has moved it up to now, nobody will.
        let Some(key) = task.plain_key() else { return Withdrawn::Refused };
        let mut tray = self.inbox.tray.lock();
        if tray.withdraw_from == Tick::MAX {
            return Withdrawn::Refused;
        }
        if key == TaskKey::NONE {
            // Most likely one of the last. If it is not here, somebody is about to queue it.
            let place = tray.letters.iter().rposition(|letter| std::ptr::eq(letter.task.header(), task));
            let Some(place) = place else { return Withdrawn::Refused };
            tray.cancelled += 1;
            let letter = tray.letters.remove(place);
            if tray.letters.is_empty() {
                // Otherwise workers would go on looking out for it.
                self.inbox.notice.0.earliest.store(Tick::MAX.as_nanos(), Ordering::Release);
            }
            return Withdrawn::Unsorted(letter.task);
        }
        if deadline < tray.withdraw_from {
            return Withdrawn::Refused;
        }
        if tray.withdrawn.len() >= BATCH {
            return Withdrawn::Crowded;
        }
        tray.withdrawn.push(key);
        tray.cancelled += 1;
        Withdrawn::Noted
    }

    /// Takes what was withdrawn out of the queue.
    pub(super) fn take_out(&self, core: &mut Core) {
        self.inbox.tray.lock().hand_over_withdrawn(core);
        core.take_out();
    }

    /// Takes a task out of the queue, wherever it is.
    pub(super) fn unlink(&self, core: &mut Core, task: &Header) -> Option<TaskRef> {
        if task.key() == TaskKey::NONE {
            drop(self.empty(core));
        }
        core.unlink(task.key()).or_else(|| core.unlay(task))
    }
}

/// The inbox, locked and empty, while a worker decides what it does next.
#[must_use]
pub(super) struct Gatekeeper<'a>(MutexGuard<'a, Tray>);

impl Gatekeeper<'_> {
    /// Lets go, after the decision.
    pub(super) fn settle(mut self, core: &Core) {
        self.0.set(core);
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
        self.tray.set(&self.core);
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{BATCH, ROOM};
    use crate::{Clock, Executor, ManualClock, Stats, TaskHandle, TaskState, Tick};

    const HOUR: Duration = Duration::from_secs(3600);

    fn pool(clock: &ManualClock) -> Executor {
        let pool = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
        pool.prestart_all_core_threads();
        clock.wait_until_idle();
        pool
    }

    fn counts(pool: &Executor) -> (usize, u64) {
        let Stats { queued, cancelled, .. } = pool.stats();
        (queued, cancelled)
    }

    /// Some from the inbox, some from the queue, few and many at once; whoever looks finds them gone.
    #[test]
    fn what_is_cancelled_is_gone_for_whoever_looks() {
        for looks_every in [1, BATCH - 1, BATCH, BATCH + 1, 3 * ROOM] {
            let clock = ManualClock::new();
            let pool = pool(&clock);
            let captured = Arc::new(());
            let mut random = fastrand::Rng::with_seed(looks_every as u64);
            let (mut waiting, mut cancelled) = (Vec::new(), 0);
            for step in 1..=10 * ROOM {
                let held = Arc::clone(&captured);
                waiting.push(pool.schedule(HOUR + HOUR * random.u32(..100), move || drop(held)).unwrap());
                if random.bool() || step > 9 * ROOM {
                    // The newest is in the inbox as a rule, the others in the queue.
                    let place = if random.bool() { waiting.len() - 1 } else { random.usize(..waiting.len()) };
                    assert!(waiting.swap_remove(place).cancel());
                    cancelled += 1;
                }
                assert_eq!(Arc::strong_count(&captured), 1 + waiting.len(), "a body goes with the cancel");
                if step % looks_every == 0 {
                    assert_eq!(counts(&pool), (waiting.len(), cancelled));
                }
            }
            clock.advance(200 * HOUR);
            assert!(waiting.iter().all(|task| task.state() == TaskState::Succeeded));
            assert_eq!(pool.stats().completed, waiting.len() as u64, "what was cancelled does not run");
            assert_eq!(counts(&pool), (0, cancelled));
            pool.close().unwrap();
        }
    }

    #[test]
    fn nobody_looks_out_for_what_was_cancelled_in_the_inbox() {
        let clock = ManualClock::new();
        let executor = pool(&clock);
        let pool = executor.pool();
        // It is watched for, so that the next may be left in the inbox.
        let first = executor.schedule(HOUR, || ()).unwrap();
        clock.wait_until_idle();
        let tasks = [2, 3].map(|hours| executor.schedule(hours * HOUR, || ()).unwrap());
        assert_eq!(pool.core.inbox.earliest(), clock.now().after(2 * HOUR), "they are in the inbox");
        let cancelled = tasks.map(|task| (task.cancel(), pool.core.inbox.earliest() < Tick::MAX));
        assert_eq!(cancelled, [(true, true), (true, false)]);
        assert!(first.cancel());
        executor.close().unwrap();
    }

    /// A worker that goes from task to task does not look into the inbox: it finds the task cancelled.
    #[test]
    fn a_worker_passes_over_what_was_cancelled_while_it_was_busy() {
        let clock = ManualClock::new();
        let pool = pool(&clock);
        let tasks: Arc<std::sync::Mutex<Vec<TaskHandle<()>>>> = Arc::default();
        let others = Arc::clone(&tasks);
        let first = pool.schedule(HOUR, move || {
            others.lock().unwrap().iter().step_by(2).for_each(|task| assert!(task.cancel()));
        });
        let more = (0..BATCH).map(|_| pool.schedule(HOUR, || ()).unwrap());
        tasks.lock().unwrap().extend(more);
        clock.advance(HOUR);
        first.unwrap().join().unwrap();
        let states: Vec<TaskState> = tasks.lock().unwrap().iter().map(TaskHandle::state).collect();
        assert!(states.iter().step_by(2).all(|state| *state == TaskState::Cancelled));
        assert!(states.iter().skip(1).step_by(2).all(|state| *state == TaskState::Succeeded));
        assert_eq!(pool.stats().completed, 1 + BATCH as u64 / 2);
        assert_eq!(counts(&pool), (0, BATCH as u64 / 2));
        pool.close().unwrap();
    }

    #[test]
    fn a_place_that_a_cancel_has_freed_can_be_taken_at_once() {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(1).capacity(BATCH).clock(clock.clone()).build().unwrap();
        pool.prestart_all_core_threads();
        clock.wait_until_idle();
        let mut waiting: Vec<_> = (0..BATCH).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
        for _ in 0..3 * BATCH {
            assert!(pool.schedule(HOUR, || ()).is_err(), "there is no more room");
            assert!(waiting.remove(0).cancel());
            waiting.push(pool.schedule(HOUR, || ()).unwrap());
        }
        pool.shutdown_now();
    }

    /// Invariant 7.
    #[test]
    fn a_thread_that_may_go_is_told_by_the_cancel_itself() {
        let keep_alive = Duration::from_secs(3);
        for core in [0, 2] {
            let clock = ManualClock::new();
            let builder = Executor::builder().core_threads(core).core_threads_time_out();
            let pool = builder.keep_alive(keep_alive).clock(clock.clone()).build().unwrap();
            let task = pool.schedule(HOUR, || ()).unwrap();
            clock.advance(2 * keep_alive);
            assert!(task.cancel());
            clock.advance(2 * keep_alive);
            assert_eq!(pool.stats().pool_size, 0);
            pool.close().unwrap();
        }
    }
}
