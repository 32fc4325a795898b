//! What every task has, whatever it does and returns: who refers to it, where it is in its life, where it is queued.
//!
//! The header is what a plain task costs beside its closure, so it is 48 bytes and holds nothing that only some
//! tasks need. A name, a period, a decoration and whoever waits are in an [`Extra`], which is allocated for the
//! first of them. With 16 bytes of captures, or room for an outcome, a task is a line of the cache, and where its handle is
//! not much is to be looked at: a cancel looks at two lines, that of the handle and this.
//!
//! # The word
//! ```text
//!   bit 0      1..=3      4            5                                               6..=9
//!   locked     phase      interrupted  started (plain tasks; others count their runs)  paused, triggered, moved, begun
//!
//!   10                                   11..=12
//!   goes by its mark, see `apart.rs`     base of the mark
//! ```
//! The lock is a bit because a mutex of its own would cost a plain task 8 bytes, and a read-modify-write more for
//! every pair: unlocking is a store, since only the holder writes. It is held for a few instructions, never across
//! a call of anything that is not ours, and never while another lock is asked for. Whoever meets it held looks again
//! a few times, then yields, then sleeps for moments at a time: should the holder be pre-empted, it gets to run,
//! whatever the priorities.
//!
//! # Where it is queued
//! The key under which the queue has it, and its place there: deadline and number. They are written before the task is shared,
//! or under the pool's lock, or after it was refused, and nobody else may need them to agree. As long as a task has never been steered, its place is
//! what it was submitted for; after that an [`Extra`] has what is planned, and the place is where the queue has it meanwhile:
//! at the end of time if it is paused.
//!
//! # Invariants
//! 1. `phase`, `extra.links` and the payload of the cell are touched by the holder of the lock only, but for a phase
//!    that is only looked at. Whoever has the one and last reference needs no lock.
//! 2. An `Extra` lives as long as its header.

mod guard;
#[cfg(all(test, punctual_loom))]
mod loom_lock;

use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use punctual_engine::{RunTimes, Schedule, TaskKey, Tick};

use super::Task;
use super::apart::{Apart, Base, Mark, Standing};
use super::count::Count;
use super::extra::{Extra, Special, Traits, UNKNOWN, is_number, number, seat};
use crate::future::Wakes;
use crate::policy::Priority;
use crate::pool::Tether;
use crate::series::Series;
use crate::sync::Backoff;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::task::perform::{Ended, Run};
use crate::task::{TaskId, TaskState, Turn};
pub(super) use guard::Guard;

#[repr(C)]
pub(crate) struct Header {
    /// What can be done with the whole task by the address of its header.
    kind: &'static Kind,
    pub(super) count: Count,
    word: AtomicU32,
    /// [`TaskKey::NONE`] before it is queued for the first time.
    key: AtomicU64,
    /// Its number, or the way to what only some tasks have: see [`extra`](super::extra).
    seat: AtomicU64,
    deadline: AtomicU64,
    /// What keeps the pool there for those who have a [`Grip`](super::Grip); null if nobody ever had.
    pub(super) tether: AtomicPtr<Tether>,
    /// Where there are no chunks.
    #[cfg(any(punctual_loom, punctual_plain_memory))]
    pub(super) apart: Apart,
    /// Lets models pass the lock one after the other, without the looking again that multiplies interleavings.
    #[cfg(punctual_loom)]
    gate: loom::sync::Mutex<()>,
}

/// What differs from one type of task to another, for those who have no more than the header.
///
/// To run a task and to free it are functions of their own: through the object that `erase` makes a run would cost three
/// calls more.
///
/// # Safety
/// All are to be called with the address of the header they were stored in, which is good for the whole task.
pub(super) struct Kind {
    /// From the header to the whole task.
    pub(super) erase: unsafe fn(NonNull<Header>) -> NonNull<dyn Task>,
    /// The same, with the type of its value: a [`Typify`](super::refs) that has forgotten which.
    pub(super) typify: unsafe fn(),
    /// Runs it if it is waiting; see [`Ended`].
    pub(super) perform: unsafe fn(NonNull<Header>, &Run<'_>) -> Ended,
    /// Drops the task and takes its memory back. For whoever has the last reference.
    pub(super) free: unsafe fn(NonNull<Header>),
    /// Whether to drop a value is to run code.
    pub(super) needs_drop: bool,
    /// Of the whole task.
    pub(super) layout: Layout,
}

/// Where a task is in its life, and so what its payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Phase {
    /// The payload is the body.
    Waiting = 0,
    /// The body is in the hands of the runner; there is no payload.
    Running = 1,
    /// A periodic body between its run and its return to the queue.
    Ready = 2,
    /// The payload is an outcome, `Ok`.
    Succeeded = 3,
    /// The value has been taken; there is no payload.
    Taken = 4,
    /// There is no payload: this says all. Half of all tasks are in two lines of the cache, and most cancels need one.
    Cancelled = 5,
    /// The payload is an outcome, `Err`, from here on.
    Abandoned = 6,
    Failed = 7,
}

const LOCKED: u32 = 1;
const PHASE_SHIFT: u32 = 1;
const PHASE: u32 = 0b111 << PHASE_SHIFT;
const INTERRUPTED: u32 = 1 << 4;
const STARTED: u32 = 1 << 5;
/// Not to run until it is resumed. Written under the pool's lock, too, as the two below.
const PAUSED: u32 = 1 << 6;
/// One run is wanted as soon as possible, besides those that are planned.
const TRIGGERED: u32 = 1 << 7;
/// While it ran somebody wrote the deadline of the next run.
const MOVED: u32 = 1 << 8;
/// The run of a task that has a series and runs once has begun. Written under the pool's lock.
const BEGUN: u32 = 1 << 9;
/// The mark of the task says whether it is cancelled. Never set while the lock is held.
const BY_MARK: u32 = 1 << 10;
/// Where the base of the mark is. To be looked at only if the task goes by its mark, or did.
const BASE_SHIFT: u32 = 11;

impl Phase {
    fn of(word: u32) -> Self {
        match (word & PHASE) >> PHASE_SHIFT {
            0 => Self::Waiting,
            1 => Self::Running,
            2 => Self::Ready,
            3 => Self::Succeeded,
            4 => Self::Taken,
            5 => Self::Cancelled,
            6 => Self::Abandoned,
            _ => Self::Failed,
        }
    }

    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Running | Self::Ready)
    }

    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Waiting | Self::Ready)
    }

    pub(super) fn state(self) -> TaskState {
        match self {
            Self::Waiting => TaskState::Waiting,
            Self::Running | Self::Ready => TaskState::Running,
            Self::Succeeded | Self::Taken => TaskState::Succeeded,
            Self::Cancelled => TaskState::Cancelled,
            Self::Abandoned => TaskState::Abandoned,
            Self::Failed => TaskState::Failed,
        }
    }
}

impl Header {
    /// For a task that begins with `refs` references.
    #[inline]
    pub(super) fn new(traits: Traits, refs: u32, kind: &'static Kind) -> Self {
        let seat = if traits.is_plain() { seat(UNKNOWN) } else { Extra::of(traits) };
        Self::with_seat(seat, refs, kind)
    }

    /// For a task without traits.
    #[inline]
    pub(super) fn plain(refs: u32, kind: &'static Kind) -> Self {
        Self::with_seat(seat(UNKNOWN), refs, kind)
    }

    #[inline]
    fn with_seat(seat: u64, refs: u32, kind: &'static Kind) -> Self {
        Self {
            kind,
            count: Count::new(refs),
            word: AtomicU32::new(0),
            key: AtomicU64::new(TaskKey::NONE.to_bits()),
            seat: AtomicU64::new(seat),
            deadline: AtomicU64::new(0),
            tether: AtomicPtr::new(ptr::null_mut()),
            #[cfg(any(punctual_loom, punctual_plain_memory))]
            apart: Apart::new(),
            #[cfg(punctual_loom)]
            gate: loom::sync::Mutex::new(()),
        }
    }

    #[inline]
    pub(super) fn kind(&self) -> &'static Kind {
        self.kind
    }

    // ---- what can be read at any time

    /// Whether there is one reference alone, so that nobody can ask for the outcome.
    #[inline]
    pub(crate) fn is_unshared(&self) -> bool {
        self.count.is_one()
    }

    /// Whether it is over and nothing of a user's is left in it: what remains is memory.
    pub(crate) fn is_spent(&self) -> bool {
        let empty = match self.phase() {
            Phase::Taken => true,
            Phase::Succeeded => !self.kind.needs_drop,
            _ => false,
        };
        // A plan may have been left with what tells when the next run is due.
        empty && !self.is_special()
    }

    pub(crate) fn state(&self) -> TaskState {
        self.phase().state()
    }

    /// As it is now; the lock makes it stay.
    pub(super) fn phase(&self) -> Phase {
        // Acquire: pairs with the Release in which the lock is given up. Whoever sees the end sees what led to it.
        let word = self.word.load(Ordering::Acquire);
        if word & BY_MARK != 0 { self.phase_by_mark(word) } else { Phase::of(word) }
    }

    /// By 1 of `apart`.
    #[cold]
    fn phase_by_mark(&self, word: u32) -> Phase {
        match self.mark(word).standing() {
            Standing::Cancelled | Standing::LetGo => Phase::Cancelled,
            Standing::Open | Standing::Closed => {
                // It may have been settled since the word was looked at; then the word knows more.
                let word = self.word.load(Ordering::Acquire);
                if word & BY_MARK != 0 { Phase::Waiting } else { Phase::of(word) }
            }
        }
    }

    /// For a task that goes by its mark, as its word says.
    fn mark(&self, word: u32) -> Mark<'_> {
        // SAFETY: see above, and the task is there.
        unsafe { Apart::of(self, Base::from_bits((word >> BASE_SHIFT) as usize)) }.1
    }

    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.special()?.traits.name.as_ref()
    }

    pub(crate) fn tags(&self) -> &[Arc<str>] {
        self.special().map_or(&[], |special| &special.traits.tags)
    }

    /// Whether anything sets it apart from a task that runs once.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.special().is_some()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        self.special().map_or(Schedule::Once, |special| special.traits.schedule)
    }

    pub(crate) fn series(&self) -> Option<&Arc<Series>> {
        self.special()?.traits.series.as_ref()
    }

    pub(crate) fn wakes(&self) -> Option<&Arc<Wakes>> {
        self.special()?.traits.wakes.as_ref()
    }

    /// Whether a future of the task has been polled and is not ready.
    pub(crate) fn is_under_way(&self) -> bool {
        self.wakes().is_some_and(|wakes| wakes.is_under_way())
    }

    /// Whether what the task waits for is its next period.
    pub(crate) fn awaits_period(&self) -> bool {
        self.schedule().is_periodic() && !self.is_under_way()
    }

    /// The deadline after this run, or this poll; `None` if there is none. The schedule knows nothing of an `extra` run,
    /// and goes on where it was.
    pub(crate) fn next(&self, run: RunTimes, extra: bool) -> Option<Tick> {
        match self.wakes() {
            Some(wakes) => wakes.next(self.schedule(), run, extra),
            None if extra => Some(run.deadline),
            None => self.schedule().next(run),
        }
    }

    pub(crate) fn priority(&self) -> Option<Priority> {
        self.special()?.traits.priority
    }

    /// Of a task in the hands of a worker: whether another run may follow the one that is going on, or about to.
    pub(crate) fn may_run_again(&self) -> bool {
        match self.series() {
            None => self.schedule().is_periodic(),
            Some(series) if self.schedule().is_periodic() => !series.is_last(self.present_run()),
            // An attempt may be followed by another. What has not begun may be a look at the wall.
            Some(series) => series.rules().returns_errors || !(self.is_begun() || self.is_under_way()),
        }
    }

    /// The number of the run that is going on, or else about to begin.
    fn present_run(&self) -> u64 {
        let guard = self.lock();
        let waits = guard.phase() == Phase::Waiting && !self.is_under_way();
        self.runs() + u64::from(waits)
    }

    /// Whether as many runs go on beside it as may.
    pub(crate) fn is_full(&self) -> bool {
        self.series().is_some_and(|series| series.has_no_place())
    }

    /// The place of the task in the order, as planned: of its next run, or the last.
    pub(crate) fn turn(&self) -> Turn {
        self.planned().unwrap_or_else(|| self.place())
    }

    /// The same, of a task that has been told; for others it is where they are queued.
    pub(crate) fn planned(&self) -> Option<Turn> {
        // Relaxed: published by the pool's lock. A number is written once, after the first deadline.
        let extra = self.extra()?;
        let number = extra.number.load(Ordering::Acquire);
        let deadline = Tick::from_nanos(extra.deadline.load(Ordering::Relaxed));
        (number != UNKNOWN).then_some(Turn { deadline, id: TaskId(number) })
    }

    /// Where the queue has it, or had it last.
    #[inline]
    pub(crate) fn place(&self) -> Turn {
        // Relaxed: see the top of the file.
        let deadline = Tick::from_nanos(self.deadline.load(Ordering::Relaxed));
        let seat = self.seat.load(Ordering::Acquire);
        let number = match self.extra_in(seat) {
            None => number(seat),
            Some(extra) => extra.queued.load(Ordering::Relaxed),
        };
        Turn { deadline, id: TaskId(number) }
    }

    /// As planned.
    pub(crate) fn deadline(&self) -> Tick {
        self.turn().deadline
    }

    pub(crate) fn id(&self) -> TaskId {
        self.turn().id
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PAUSED != 0
    }

    /// Whether what the task waits for is to be resumed. A run that is under way goes on to its end.
    pub(crate) fn awaits_resumption(&self) -> bool {
        self.is_paused() && !self.is_under_way()
    }

    pub(crate) fn is_triggered(&self) -> bool {
        self.word.load(Ordering::Relaxed) & TRIGGERED != 0
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.word.load(Ordering::Relaxed) & MOVED != 0
    }

    pub(crate) fn runs(&self) -> u64 {
        match self.special() {
            Some(special) => special.runs.load(Ordering::Relaxed),
            None => u64::from(self.word.load(Ordering::Relaxed) & STARTED != 0),
        }
    }

    pub(crate) fn key(&self) -> TaskKey {
        // Acquire: pairs with the Release in `set_key`.
        TaskKey::from_bits(self.key.load(Ordering::Acquire))
    }

    /// The key of a task that nothing sets apart, and that has never been steered.
    #[inline]
    pub(crate) fn plain_key(&self) -> Option<TaskKey> {
        self.extra().is_none().then(|| self.key())
    }

    /// Whether it was cancelled, and has nothing of anybody's any more.
    pub(crate) fn is_cancelled_and_plain(&self) -> bool {
        self.state() == TaskState::Cancelled && self.plain_key().is_some()
    }

    /// Acquire and Release: what was done before interrupting is seen by the body that notices.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0
    }

    #[inline]
    fn special(&self) -> Option<&Special> {
        self.extra()?.special.as_ref()
    }

    #[inline]
    fn extra(&self) -> Option<&Extra> {
        // Acquire: pairs with the Release in `extra_of_own`.
        self.extra_in(self.seat.load(Ordering::Acquire))
    }

    /// The extra to which this seat leads.
    #[inline]
    fn extra_in(&self, seat: u64) -> Option<&Extra> {
        if is_number(seat) {
            return None;
        }
        // SAFETY: an even seat is the address of an `Extra` from a box (`Extra::make`), exposed there, which by 2 lives as long
        // as `self`; no `&mut` to it is ever made.
        Some(unsafe { &*ptr::with_exposed_provenance::<Extra>(seat as usize) })
    }

    // ---- where it is queued

    /// The place that it is about to be queued in.
    #[inline]
    pub(crate) fn set_place(&self, place: Turn) {
        // Relaxed: see the top of the file.
        self.deadline.store(place.deadline.as_nanos(), Ordering::Relaxed);
        let (was, new) = (self.seat.load(Ordering::Acquire), seat(place.id.number()));
        if was == new {
            return;
        }
        if is_number(was) && self.count.is_two() {
            // Whoever makes a task, and is having it queued: both references are with the caller. Relaxed: as above.
            return self.seat.store(new, Ordering::Relaxed);
        }
        self.renumber(was, new);
    }

    #[cold]
    fn renumber(&self, mut was: u64, new: u64) {
        while is_number(was) {
            // Acquire: the extra that may be there instead is finished.
            match self.seat.compare_exchange(was, new, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => was = now,
            }
        }
        if let Some(extra) = self.extra_in(was) {
            extra.queued.store(number(new), Ordering::Relaxed);
        }
    }

    /// The place of a task that was refused, so that nobody has queued it, or will. Others may have it in hand.
    pub(crate) fn set_refused_place(&self, place: Turn) {
        if self.place().id == Turn::NONE.id {
            self.deadline.store(place.deadline.as_nanos(), Ordering::Relaxed);
            self.renumber(self.seat.load(Ordering::Acquire), seat(place.id.number()));
        }
    }

    /// The task has entered the queue, for a run that is planned for then. To be called under the pool's lock. Whoever cancels
    /// it and does not see the key looks for it under that lock, or sees to it that it is not queued again.
    #[inline]
    pub(crate) fn set_queued(&self, key: TaskKey, planned: Tick) {
        // Release: whoever cancels the task by this key does so after it was queued.
        self.key.store(key.to_bits(), Ordering::Release);
        if let Some(extra) = self.extra() {
            let guard = self.lock();
            extra.deadline.store(planned.as_nanos(), Ordering::Relaxed);
            drop(guard);
        }
    }

    // ---- what is written under the lock

    /// The task has entered the queue again, as it was. Whoever cancels it sees this key, or is seen by whoever asks after this.
    pub(crate) fn set_key(&self, key: TaskKey) {
        let guard = self.lock();
        self.key.store(key.to_bits(), Ordering::Release);
        drop(guard);
    }

    /// Tells the task that its place in the order is what is planned, unless it knows: it may be moved from there.
    pub(crate) fn learn(&self) {
        let mut guard = self.lock();
        let place = self.place();
        let extra = guard.extra_of_own();
        if extra.number.load(Ordering::Relaxed) == UNKNOWN {
            extra.set_turn(place);
        }
    }

    /// Another plan for a task that has been told its place. To be called under the pool's lock.
    pub(crate) fn set_deadline(&self, deadline: Tick) {
        let mut guard = self.lock();
        guard.extra_of_own().deadline.store(deadline.as_nanos(), Ordering::Relaxed);
    }

    /// Another plan for the next run, noticed when the task is queued. As above.
    pub(crate) fn move_to(&self, deadline: Tick) {
        match self.wakes() {
            Some(wakes) => wakes.move_to(deadline),
            None => self.set_deadline(deadline),
        }
        self.flag(MOVED, true);
    }

    /// Where the next run was moved to, if it was since the last time this was asked. As above.
    pub(crate) fn take_move(&self) -> Option<Tick> {
        let moved = self.flag(MOVED, false);
        moved.then(|| self.wakes().map_or_else(|| self.deadline(), |wakes| wakes.moved_to()))
    }

    /// Says whether it was.
    pub(crate) fn set_paused(&self, paused: bool) -> bool {
        self.flag(PAUSED, paused)
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.word.load(Ordering::Relaxed) & BEGUN != 0
    }

    pub(crate) fn set_begun(&self, begun: bool) {
        self.flag(BEGUN, begun);
    }

    /// Says whether it was.
    pub(crate) fn set_triggered(&self, triggered: bool) -> bool {
        self.flag(TRIGGERED, triggered)
    }

    /// Only the flag: see [`Task::nudge`](super::Task::nudge).
    pub(crate) fn set_interrupted(&self) {
        self.flag(INTERRUPTED, true);
    }

    fn flag(&self, flag: u32, set: bool) -> bool {
        // Nothing to clear, as usual. One that is being set at this moment stays set.
        if !set && self.word.load(Ordering::Acquire) & flag == 0 {
            return false;
        }
        let mut guard = self.lock();
        let was = guard.word & flag != 0;
        guard.word = if set { guard.word | flag } else { guard.word & !flag };
        was
    }

    pub(crate) fn take_interrupt(&self) -> bool {
        self.flag(INTERRUPTED, false)
    }

    /// From now on the task goes by its mark, until somebody takes the lock. For whoever has just made it, and shown it to nobody.
    #[inline]
    pub(super) fn go_by_mark(&self, base: Base) {
        // Relaxed: whoever gets the task gets this with it.
        let word = self.word.load(Ordering::Relaxed) | BY_MARK | (base.bits() as u32) << BASE_SHIFT;
        self.word.store(word, Ordering::Relaxed);
    }

    /// Of a task that goes by its mark, or did.
    #[inline]
    pub(super) fn base(&self) -> Base {
        // Relaxed: nobody changes it.
        Base::from_bits((self.word.load(Ordering::Relaxed) >> BASE_SHIFT) as usize)
    }

    /// From now on the task goes by its word alone.
    pub(super) fn close(&self) {
        drop(self.lock());
    }

    /// Whether nobody has ever taken the lock of a task that was to go by its mark. Then it has nothing to be dropped.
    #[inline]
    pub(super) fn goes_by_mark(&self) -> bool {
        // Acquire: what was done under the lock comes before what is done with a task that is given up.
        self.word.load(Ordering::Acquire) & BY_MARK != 0
    }

    #[inline]
    pub(super) fn lock(&self) -> Guard<'_> {
        #[cfg(punctual_loom)]
        let gate = self.gate.lock().unwrap();
        let mut word = self.lock_word();
        if word & BY_MARK != 0 {
            word = self.close_mark(word);
        }
        Guard {
            header: self,
            word,
            #[cfg(punctual_loom)]
            _gate: gate,
        }
    }

    /// The word of a task that went by its mark, under the lock, when it does so no more.
    #[cold]
    fn close_mark(&self, word: u32) -> u32 {
        let closed = word & !BY_MARK;
        if self.mark(word).change(Standing::Open, Standing::Closed) {
            return closed;
        }
        // Cancelled; of a body that has nothing to be dropped nothing is lost.
        closed & !PHASE | (Phase::Cancelled as u32) << PHASE_SHIFT
    }

    /// The word without the bit that the caller has now set.
    #[inline]
    fn lock_word(&self) -> u32 {
        let word = self.word.load(Ordering::Relaxed) & !LOCKED;
        // Acquire: what earlier holders did is seen by this one.
        match self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => word,
            Err(_) => self.lock_word_slowly(),
        }
    }

    #[cold]
    fn lock_word_slowly(&self) -> u32 {
        let mut backoff = Backoff::new();
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & LOCKED == 0
                && self
                    .word
                    .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return word;
            }
            backoff.wait();
        }
    }

    #[inline]
    fn unlock_word(&self, word: u32) {
        // Release: what was done under the lock is seen by the next holder, and by whoever looks at the phase.
        self.word.store(word, Ordering::Release);
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        let seat = self.seat.load(Ordering::Relaxed);
        if !is_number(seat) {
            // SAFETY: it came from `Extra::make`, and by 2 nobody can look at it any more.
            drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Extra>(seat as usize)) });
        }
    }
}
