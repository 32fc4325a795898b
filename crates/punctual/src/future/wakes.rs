//! When a future is polled: who wakes it, and what has come of it. The protocol is in [`future`](super).

use std::sync::{Arc, Weak};
use std::task::Wake;

use punctual_engine::{RunTimes, Schedule, Tick};

use crate::pool::Pool;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::task::TaskRef;

/// In `woken`: no wake that a poll has not answered.
const NEVER: u64 = u64::MAX;

/// In `stage`: no future has been polled in this run.
const BETWEEN: u8 = 0;
/// In `stage`: the last poll has said so, and nobody has acted on it yet.
const PENDING: u8 = 1;
/// In `stage`: a future has been polled and is to be polled again.
const UNDER_WAY: u8 = 2;

/// Decides when a future is polled.
pub(crate) struct Wakes {
    pool: Weak<Pool>,
    state: Mutex<State>,
    /// Written by the one thread that runs the task; what it wrote is published by the pool's lock.
    stage: AtomicU8,
    /// Which run of the task is the present one. Written as `stage`.
    run: AtomicU64,
    /// Invariant 1.
    woken: AtomicU64,
    /// Somebody has called a waker, and no poll has answered. Without it a future without wakers is lost.
    called: AtomicBool,
    /// Guarded by the pool's lock: invariant 2.
    idle: AtomicBool,
    /// Where the next run was moved to. Guarded by the pool's lock. The deadline of the task does not serve for it, as
    /// it does elsewhere: while a run is under way that is about the next poll.
    moved_to: AtomicU64,
}

struct State {
    /// Invariant 6.
    task: Option<TaskRef>,
    /// How the run that is under way began.
    began: Option<Began>,
}

/// How a run began.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    pub(crate) deadline: Tick,
    pub(crate) started: Tick,
    /// It is for no point of the schedule.
    pub(crate) extra: bool,
}

impl Wakes {
    pub(crate) fn new(pool: &Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::downgrade(pool),
            state: Mutex::new(State { task: None, began: None }),
            stage: AtomicU8::new(BETWEEN),
            run: AtomicU64::new(0),
            woken: AtomicU64::new(NEVER),
            called: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            moved_to: AtomicU64::new(NEVER),
        })
    }

    /// Says which task this is about, just before it is queued: from then on somebody ends it, and that breaks the
    /// circle.
    pub(crate) fn attach(&self, task: TaskRef) {
        self.state.lock().task = Some(task);
    }

    /// The body is gone, and nothing will be polled again.
    pub(super) fn detach(&self) {
        // Whoever drops the body holds the task, so this reference is not the last.
        let task = self.state.lock().task.take();
        drop(task);
    }

    // ---- for whoever runs the task

    /// A poll begins, and answers every wake so far; says whether there was one.
    pub(super) fn answer(&self) -> bool {
        // Acquire and more: invariant 1. `called` first: a wake sets it first, too, so one that is answered only
        // in part makes the future due once more.
        let called = self.called.swap(false, Ordering::AcqRel);
        self.woken.swap(NEVER, Ordering::AcqRel);
        called
    }

    pub(super) fn not_ready(&self) {
        self.stage.store(PENDING, Ordering::Relaxed);
    }

    /// Wakers made so far have nothing to wake any more.
    pub(super) fn ready(&self) {
        self.stage.store(BETWEEN, Ordering::Relaxed);
        self.run.store(self.run.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether the poll that has just ended found the future not ready.
    pub(crate) fn is_pending(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == PENDING
    }

    /// Whether a future has been polled and is not ready.
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage.load(Ordering::Relaxed) != BETWEEN
    }

    /// Whether there is another run or poll to come, after the body returned: `again` is what the schedule says.
    ///
    /// A future under way that was left out by a decoration has missed its wake, and one whose wakers are gone
    /// has ended without a value: neither goes on.
    pub(crate) fn goes_on(&self, again: bool, has_value: bool) -> bool {
        match self.is_under_way() {
            true => self.stays() || has_value && again,
            false => again,
        }
    }

    /// Whether the run goes on, because the poll that has just ended found the future not ready.
    pub(crate) fn stays(&self) -> bool {
        let pending = self.is_pending();
        if pending {
            self.stage.store(UNDER_WAY, Ordering::Relaxed);
        }
        pending
    }

    /// The next deadline, by `schedule`, of a run whose last poll was `poll`; the end of time while it is under way.
    /// What the first poll says of being `extra` holds for the run.
    pub(crate) fn next(&self, schedule: Schedule, poll: RunTimes, extra: bool) -> Option<Tick> {
        let RunTimes { deadline, started, ended } = poll;
        let mut state = self.state.lock();
        let began = *state.began.get_or_insert(Began { deadline, started, extra });
        if self.is_under_way() {
            return Some(Tick::MAX);
        }
        state.began = None;
        match began {
            Began { extra: true, deadline, .. } => Some(deadline),
            Began { deadline, started, .. } => schedule.next(RunTimes { deadline, started, ended }),
        }
    }

    /// How the run that is under way began, if one is.
    pub(crate) fn under_way(&self) -> Option<Began> {
        if self.is_under_way() { self.state.lock().began } else { None }
    }

    /// The run that began so has not ended with its first poll; `None` once it has.
    pub(crate) fn set_began(&self, began: Option<Began>) {
        self.state.lock().began = began;
    }

    // ---- under the pool's lock

    /// The task goes back to the queue: since when it is due, if somebody has woken it meanwhile.
    pub(crate) fn rest(&self) -> Option<Tick> {
        if !self.is_under_way() {
            self.idle.store(false, Ordering::Relaxed);
            return None;
        }
        let woken = self.woken.load(Ordering::Acquire);
        self.idle.store(woken == NEVER, Ordering::Relaxed);
        (woken != NEVER).then(|| Tick::from_nanos(woken))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// The future leaves its place at the end of time.
    pub(crate) fn stir(&self) {
        self.idle.store(false, Ordering::Relaxed);
    }

    pub(crate) fn move_to(&self, deadline: Tick) {
        self.moved_to.store(deadline.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn moved_to(&self) -> Tick {
        Tick::from_nanos(self.moved_to.load(Ordering::Relaxed))
    }

    // ---- for wakers, and for whoever stops a run

    /// Invariant 3, the half of the waker.
    pub(crate) fn make_due(&self) {
        let Some(pool) = self.pool.upgrade() else { return };
        // The end of time is no instant to be woken at.
        let at = pool.clock.now().min(Tick::from_nanos(NEVER - 1));
        // Release and more: invariant 1.
        if self.woken.fetch_min(at.as_nanos(), Ordering::AcqRel) != NEVER {
            return;
        }
        let Some(task) = self.state.lock().task.clone() else { return };
        pool.wake(&task, self, at);
        // It may be the last reference, to a value that nobody wants.
        pool.discard(task);
    }
}

/// What the wakers of one run share.
pub(super) struct Wakeup {
    wakes: Arc<Wakes>,
    run: u64,
}

impl Wakeup {
    pub(super) fn new(wakes: &Arc<Wakes>) -> Arc<Self> {
        Arc::new(Self { wakes: Arc::clone(wakes), run: wakes.run.load(Ordering::Relaxed) })
    }

    /// Invariant 4. Whoever has the waker has seen its run begin; one that does not see it end wakes in vain.
    fn is_current(&self) -> bool {
        self.run == self.wakes.run.load(Ordering::Relaxed)
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_current() {
            self.wakes.called.swap(true, Ordering::AcqRel);
            self.wakes.make_due();
        }
    }
}

impl Drop for Wakeup {
    /// Invariant 5.
    fn drop(&mut self) {
        if self.is_current() {
            self.wakes.make_due();
        }
    }
}
