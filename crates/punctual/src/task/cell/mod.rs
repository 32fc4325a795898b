//! The one allocation of a task: closure, outcome, and whoever waits, behind one small lock.
//!
//! All unsafe code of this crate is in this folder, but for that of a lock ([`latch`](crate::latch)) and of a hint to the cache
//! ([`fetch`](crate::fetch)). [`refs`] are references to
//! tasks, [`header`] is what all tasks have in common with the lock in it, and here is the payload: the closure, and in its
//! place later the outcome. What the lock guards is moved in and out under it, and called, woken and dropped after it.
//!
//! # States (guarded by the lock)
//! ```text
//!              start                       complete
//!   Waiting ──────────▶ Running ──────────────────────▶ Succeeded ── take ──▶ Taken
//!      ▲ │                 │ put back                      ▲  or Failed, Cancelled, Abandoned
//!      │ │    re-arm       ▼                               │
//!      └─┼───────────── Ready                              │
//!        └────── cancel, abandon, complete (from all) ─────┘
//! ```
//!
//! # Invariants
//! 1. An end is reached once, and the thread that gets there takes the waiters and wakes them.
//! 2. The body is the payload while the task waits, and in the hands of the one thread that runs it while it
//!    runs. Whoever ends the task early takes what body is there and drops it before waking anybody; a running
//!    body is dropped by its runner. So a cancelled task that waits holds nothing when `cancel` returns.
//! 3. No user code runs under the lock: bodies, values, wakers and decorations are moved out first, and called,
//!    woken and dropped after it.
//! 4. A task is re-armed only if nobody has ended it (`re_arm`, called under the pool's lock together with the
//!    insertion into the queue): a cancel sees it either running, and then it is not queued again, or waiting
//!    with the key under which the queue holds it.
//! 5. The phase says what the payload is: see [`Phase`]. Whoever changes one changes the other, under one lock.
//!
//! # Lock order
//! The pool's lock may be held when this one is taken, never the other way round.
//!
//! # What the unsafe code buys
//! A plain task with 16 bytes of captures is one allocation of 64 bytes, with its place in the order, and one word in the
//! queue. With `Arc<dyn Task>`, a `Mutex` and an enum it would be 48 more; see `docs/performance.md`.

mod apart;
mod count;
mod extra;
mod grip;
mod header;
#[cfg(all(test, punctual_loom))]
mod loom_apart;
#[cfg(all(test, punctual_loom))]
mod loom_cell;
mod memory;
mod refs;

use std::mem::ManuallyDrop;
use std::task::Waker;

use super::TaskState;
use super::waiters::Waiters;
use crate::decorate::Decoration;
use crate::error::{Abandoned, Panic, TaskError};
use crate::sync::UnsafeCell;
use crate::unobserved::Unread;
use crate::unwind;

pub(crate) use extra::Traits;
pub(crate) use grip::{ByMark, Gone, Grip, Marked};
pub(crate) use header::Header;
use header::{Guard, Phase};
pub(crate) use refs::{Half, Owner, TaskRef, TypedRef, allocate, allocate_plain};

/// What a task does when it is run.
pub(crate) trait Body<T>: Send + Sized {
    /// Calls the body that is there; one for a single run is used up by it.
    fn call(body: &mut Option<Self>) -> Option<T>;
    /// A run is over and another will follow: drops what was of that run alone.
    fn end_run(_body: &mut Option<Self>) {}
}

/// A body for one run.
pub(crate) struct Once<F>(pub(crate) F);

impl<T, F: FnOnce() -> T + Send> Body<T> for Once<F> {
    fn call(body: &mut Option<Self>) -> Option<T> {
        let Once(body) = body.take()?;
        Some(body())
    }
}

/// A body for any number of runs.
pub(crate) struct Many<F>(pub(crate) F);

impl<T, F: FnMut() -> T + Send> Body<T> for Many<F> {
    fn call(body: &mut Option<Self>) -> Option<T> {
        // Called where it is: should it panic, what it captured is not dropped by the same unwinding.
        let Many(body) = body.as_mut()?;
        Some(body())
    }
}

/// A task, whatever its value is.
pub(crate) trait Task: Send + Sync {
    fn header(&self) -> &Header;
    fn state(&self) -> TaskState {
        self.header().state()
    }
    /// The failure that ended it, if one did.
    fn failure(&self) -> Option<TaskError>;
    /// Invariant 4. False if the task was ended meanwhile, and then its body is gone or is taken by `end`.
    fn re_arm(&self) -> bool;
    /// Ends it, if it is not over. `unlink` is called, without a lock, after the decision and before anybody is
    /// woken, and is told whether the task was waiting or running.
    fn end(&self, error: TaskError, unlink: &mut dyn FnMut(TaskState)) -> EndedEarly;
    /// Cancels a task that waits and has nothing but its body, as most do; `None` if it is another. `unlink` is called as by
    /// [`end`](Self::end), and then the body is dropped, whose destructor may panic.
    fn cancel_bare(&self, unlink: &mut dyn FnMut()) -> Option<Result<(), Panic>>;
    /// Wakes `waker` when it is done; false, and nothing kept, if it is done already.
    fn listen(&self, waker: &Waker) -> bool;
    fn unlisten(&self, waker: &Waker);
    /// Sets the interrupt flag and wakes every wait that watches it.
    fn interrupt(&self);
    /// Wakes every wait that watches the interrupt flag.
    fn nudge(&self);
    fn watch_interrupt(&self, waker: &Waker);
    fn unwatch_interrupt(&self, waker: &Waker);
    /// Keeps the report of a failure that is about to be published until somebody reads the outcome. Comes back if the
    /// task was ended meanwhile, or is about to end with another.
    fn keep_unread(&self, unread: Unread) -> Option<Unread>;
    fn take_unread(&self) -> Option<Unread>;
    /// Drops what a task that is over holds of a user's, its value or the payload of a panic, if nobody else has the task;
    /// its failure goes unread. Says so if a destructor panicked.
    fn clear(&self) -> Result<(), Panic>;
}

/// A task whose value is a `T`.
pub(crate) trait Typed<T>: Task {
    /// The same task without its type.
    fn as_task(&self) -> &dyn Task;
    /// The outcome, if there is one: a value by move, a failure as often as it is asked for.
    fn take(&self) -> Option<Result<T, TaskError>>;
    /// As `take`, but `waker` is registered as the handle's future if there is no outcome yet.
    fn poll(&self, waker: &Waker) -> Option<Result<T, TaskError>>;
    /// Ends the task with this outcome, unless it has one: then that of the caller comes back.
    fn complete(&self, outcome: Result<T, TaskError>) -> Result<(), Result<T, TaskError>> {
        self.complete_early(outcome, &mut |_| ())
    }
    /// As `complete`, for a task that may be queued; `unlink` is called as by [`Task::end`].
    fn complete_early(
        &self,
        outcome: Result<T, TaskError>,
        unlink: &mut dyn FnMut(TaskState),
    ) -> Result<(), Result<T, TaskError>>;
}

/// What came of an attempt to end a task.
#[must_use]
pub(crate) enum EndedEarly {
    /// It was over already.
    No,
    /// Done; a destructor of the body may have panicked on the way.
    Yes(Option<Panic>),
}

/// The header comes first: its address is that of the task.
#[repr(C)]
pub(crate) struct Cell<T, B> {
    header: Header,
    payload: UnsafeCell<Payload<T, B>>,
}

/// What it is, if anything, is said by the phase.
union Payload<T, B> {
    body: ManuallyDrop<B>,
    outcome: ManuallyDrop<Result<T, TaskError>>,
}

// SAFETY: body and outcome move from thread to thread, so they must be `Send`. They are touched under the lock only,
// and never through a shared reference outside of it, so they need not be `Sync`.
unsafe impl<T: Send, B: Send> Send for Cell<T, B> {}
// SAFETY: as above.
unsafe impl<T: Send, B: Send> Sync for Cell<T, B> {}

/// A body in the hands of the thread that runs it.
pub(super) struct Work<B> {
    /// `None` once it is used up.
    pub(super) body: Option<B>,
    pub(super) decoration: Option<Box<dyn Decoration>>,
}

impl<T, B> Cell<T, B> {
    fn new(header: Header, body: B) -> Self {
        Self { header, payload: UnsafeCell::new(Payload { body: ManuallyDrop::new(body) }) }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    // ---- the payload; a guard shows that the lock is held, and its phase what is there

    /// # Panics
    /// If there is no body.
    fn take_body(&self, guard: &mut Guard<'_>, then: Phase) -> B {
        assert!(guard.phase().has_body() && matches!(then, Phase::Running | Phase::Cancelled));
        guard.set_phase(then);
        // SAFETY: by 5 the payload was a body, and the phase has moved on, so nobody reads it again.
        self.payload.with_mut(|payload| unsafe { ManuallyDrop::take(&mut (*payload).body) })
    }

    fn put_body(&self, guard: &mut Guard<'_>, body: B) {
        assert!(guard.phase() == Phase::Running);
        // SAFETY: by 5 there is no payload that could be lost, and the lock is held.
        self.payload.with_mut(|payload| unsafe { (*payload).body = ManuallyDrop::new(body) });
        guard.set_phase(Phase::Ready);
    }

    /// For a phase without a payload, or whose payload has been taken.
    fn put_outcome(&self, guard: &mut Guard<'_>, outcome: Result<T, TaskError>) {
        assert!(guard.phase() == Phase::Running);
        let phase = match &outcome {
            Ok(_) => Phase::Succeeded,
            Err(TaskError::Cancelled) => return guard.set_phase(Phase::Cancelled),
            Err(TaskError::Abandoned(_)) => Phase::Abandoned,
            Err(_) => Phase::Failed,
        };
        // SAFETY: by 5 there is no payload that could be lost, and the lock is held.
        self.payload.with_mut(|payload| unsafe { (*payload).outcome = ManuallyDrop::new(outcome) });
        guard.set_phase(phase);
    }

    fn take_outcome(&self, guard: &mut Guard<'_>) -> Option<Result<T, TaskError>> {
        match guard.phase() {
            Phase::Waiting | Phase::Running | Phase::Ready => None,
            Phase::Taken => Some(Err(TaskError::Taken)),
            Phase::Succeeded => {
                guard.set_phase(Phase::Taken);
                // SAFETY: by 5 the payload was an outcome, and the phase has moved on, so nobody reads it again.
                Some(self.payload.with_mut(|payload| unsafe { ManuallyDrop::take(&mut (*payload).outcome) }))
            }
            Phase::Cancelled | Phase::Abandoned | Phase::Failed => self.error(guard).map(Err),
        }
    }

    /// The failure that ended the task, if one did.
    fn error(&self, guard: &mut Guard<'_>) -> Option<TaskError> {
        match guard.phase() {
            Phase::Cancelled => return Some(TaskError::Cancelled),
            Phase::Abandoned | Phase::Failed => {}
            _ => return None,
        }
        // SAFETY: by 5 the payload is an outcome, and the lock is held. An error is cloned by code of ours.
        self.payload.with_mut(|payload| unsafe { (*payload).outcome.as_ref().err().cloned() })
    }

    /// What the task holds once it is over. A failure is one as before, but does not say any more what it was.
    pub(super) fn take_remains(&self) -> Option<Result<T, TaskError>> {
        let mut guard = self.header.lock();
        if !matches!(guard.phase(), Phase::Abandoned | Phase::Failed) {
            return self.take_outcome(&mut guard);
        }
        // SAFETY: by 5 the payload is an outcome, and the lock is held.
        let outcome = |payload: *mut Payload<T, B>| unsafe {
            std::mem::replace(&mut *(*payload).outcome, Err(TaskError::Taken))
        };
        Some(self.payload.with_mut(outcome))
    }

    /// Unlocks. If that is an outcome, and a failure, it counts as read.
    fn read(mut guard: Guard<'_>, outcome: Option<Result<T, TaskError>>) -> Option<Result<T, TaskError>> {
        if matches!(outcome, Some(Err(_))) {
            let unread = guard.links(|links| links.unread.take()).flatten();
            drop(guard);
            unread.into_iter().for_each(Unread::read);
        }
        outcome
    }

    // ---- transitions

    pub(crate) fn decorate(&self, decoration: Box<dyn Decoration>) {
        self.header.lock().links_of_own(|links| links.decoration = Some(decoration));
    }

    /// Takes the body back from a task that was refused, with what clung to it, which the caller drops.
    pub(crate) fn take_back(&self) -> Option<(B, Option<Clung>)> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Waiting {
            return None;
        }
        // Whoever else may hold the task finds it abandoned.
        let body = self.take_body(&mut guard, Phase::Running);
        self.put_outcome(&mut guard, Err(TaskError::Abandoned(Abandoned::Rejected)));
        Some((body, Self::take_clung(&mut guard)))
    }

    /// `Waiting → Running`; the body goes to the caller. Loses only to whoever ended the task first.
    pub(super) fn start(&self) -> Option<Work<B>> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Waiting {
            return None;
        }
        let body = self.take_body(&mut guard, Phase::Running);
        // Under the lock: once a cancel has returned the count stands.
        guard.count_run();
        let decoration = guard.links(|links| links.decoration.take()).flatten();
        Some(Work { body: Some(body), decoration })
    }

    /// [`start`](Self::start) for a task with nothing but its body. `None` if it is another, or not waiting.
    #[inline]
    pub(super) fn start_bare(&self) -> Option<B> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Waiting || !guard.is_bare() {
            return None;
        }
        guard.count_run();
        Some(self.take_body(&mut guard, Phase::Running))
    }

    /// Publishes what the run of such a task returned, and wakes whoever has come to wait meanwhile. The value comes back
    /// if somebody has ended the task.
    #[inline]
    pub(super) fn succeed(&self, value: T) -> Result<(), T> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Running {
            return Err(value);
        }
        // SAFETY: by 5 there is no payload that could be lost, and the lock is held.
        self.payload.with_mut(|payload| unsafe { (*payload).outcome = ManuallyDrop::new(Ok(value)) });
        guard.set_phase(Phase::Succeeded);
        if !guard.is_bare() {
            let clung = Self::take_clung(&mut guard);
            drop(guard);
            // Nobody is to be told: a body that has run is nobody's loss.
            let _ = Settled::<B> { body: None, clung }.wind_up();
        }
        Ok(())
    }

    #[cold]
    fn take_clung(guard: &mut Guard<'_>) -> Option<Clung> {
        guard.links(|links| (links.decoration.take(), links.waiters.take()))
    }

    /// The body of a periodic task after a run. Comes back if the task was ended meanwhile.
    pub(super) fn put_back(&self, mut work: Work<B>) -> Result<(), Work<B>> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Running {
            return Err(work);
        }
        let Some(body) = work.body.take() else { return Err(work) };
        self.put_body(&mut guard, body);
        if work.decoration.is_some() {
            guard.links_of_own(|links| links.decoration = work.decoration);
        }
        Ok(())
    }

    /// Ends the task if it is not over. What comes back is the caller's to throw away and to wake, unlocked.
    fn settle(
        &self,
        guard: &mut Guard<'_>,
        outcome: Result<T, TaskError>,
    ) -> Result<Settled<B>, Result<T, TaskError>> {
        let phase = guard.phase();
        if !phase.is_open() {
            return Err(outcome);
        }
        let body = if phase.has_body() { Some(self.take_body(guard, Phase::Running)) } else { None };
        self.put_outcome(guard, outcome);
        let clung = if guard.is_bare() { None } else { Self::take_clung(guard) };
        Ok(Settled { body, clung })
    }
}

impl<T, B> Drop for Cell<T, B> {
    fn drop(&mut self) {
        // Nobody else has the task any more.
        match self.header.phase() {
            Phase::Waiting | Phase::Ready => {
                // SAFETY: by 5 the payload is a body, and it is dropped once, here.
                self.payload.with_mut(|payload| unsafe { ManuallyDrop::drop(&mut (*payload).body) });
            }
            Phase::Running | Phase::Taken | Phase::Cancelled => {}
            Phase::Succeeded | Phase::Abandoned | Phase::Failed => {
                // SAFETY: by 5 the payload is an outcome, and it is dropped once, here.
                self.payload.with_mut(|payload| unsafe { ManuallyDrop::drop(&mut (*payload).outcome) });
            }
        }
    }
}

/// What clings to a task until it is over.
type Clung = (Option<Box<dyn Decoration>>, Waiters);

/// What a task leaves behind when it is over.
struct Settled<B> {
    /// If it was not in the hands of a runner.
    body: Option<B>,
    clung: Option<Clung>,
}

impl<B> Settled<B> {
    /// Drops a body that will not be run (again), tells its decoration, and wakes whoever waits.
    fn wind_up(self) -> Option<Panic> {
        let mut panic = self.body.and_then(|body| unwind::discard(body).err());
        let Some((decoration, waiters)) = self.clung else { return panic };
        if let Some(mut decoration) = decoration {
            let told = unwind::catch(|| decoration.cancelled()).err();
            panic = panic.or(told).or(unwind::discard(decoration).err());
        }
        waiters.wake();
        panic
    }
}

impl<T, B> Task for Cell<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    fn header(&self) -> &Header {
        &self.header
    }

    fn failure(&self) -> Option<TaskError> {
        let mut guard = self.header.lock();
        let error = self.error(&mut guard)?;
        Self::read(guard, Some(Err(error)))?.err()
    }

    fn re_arm(&self) -> bool {
        let mut guard = self.header.lock();
        let ready = guard.phase() == Phase::Ready;
        if ready {
            guard.set_phase(Phase::Waiting);
        }
        ready
    }

    fn end(&self, error: TaskError, unlink: &mut dyn FnMut(TaskState)) -> EndedEarly {
        let mut guard = self.header.lock();
        let was = guard.phase().state();
        let settled = self.settle(&mut guard, Err(error));
        // Before the error of a task that was over is dropped: there may be a payload in it.
        drop(guard);
        let Ok(settled) = settled else {
            return EndedEarly::No;
        };
        unlink(was);
        EndedEarly::Yes(settled.wind_up())
    }

    fn cancel_bare(&self, unlink: &mut dyn FnMut()) -> Option<Result<(), Panic>> {
        let mut guard = self.header.lock();
        if guard.phase() != Phase::Waiting || !guard.is_bare() {
            return None;
        }
        let body = self.take_body(&mut guard, Phase::Cancelled);
        drop(guard);
        unlink();
        Some(unwind::discard(body))
    }

    fn listen(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut guard = self.header.lock();
        let open = guard.phase().is_open();
        if open {
            guard.links_of_own(|links| links.waiters.add(waker));
        } else {
            drop(guard);
            drop(waker);
        }
        open
    }

    fn unlisten(&self, waker: &Waker) {
        let old = self.header.lock().links(|links| links.waiters.remove(waker));
        drop(old);
    }

    fn interrupt(&self) {
        self.header.set_interrupted();
        self.nudge();
    }

    fn nudge(&self) {
        // A wait registers before it looks at the flag, which is set by now: it is here, or it sees the flag.
        let mut guard = self.header.lock();
        let watchers = guard.links(|links| links.watchers.clone()).unwrap_or_default();
        drop(guard);
        for watcher in watchers {
            watcher.wake();
        }
    }

    fn watch_interrupt(&self, waker: &Waker) {
        let waker = waker.clone();
        self.header.lock().links_of_own(|links| links.watchers.push(waker));
    }

    fn unwatch_interrupt(&self, waker: &Waker) {
        let old = self.header.lock().links(|links| {
            let position = links.watchers.iter().position(|known| known.will_wake(waker))?;
            Some(links.watchers.swap_remove(position))
        });
        drop(old);
    }

    fn keep_unread(&self, unread: Unread) -> Option<Unread> {
        let mut guard = self.header.lock();
        if !guard.phase().is_open() {
            return Some(unread);
        }
        guard.links_of_own(|links| match links.unread {
            Some(_) => Some(unread),
            None => {
                links.unread = Some(unread);
                None
            }
        })
    }

    fn take_unread(&self) -> Option<Unread> {
        self.header.lock().links(|links| links.unread.take()).flatten()
    }

    fn clear(&self) -> Result<(), Panic> {
        if !self.header.is_unshared() {
            return Ok(());
        }
        drop(self.take_unread());
        unwind::discard(self.take_remains())
    }
}

impl<T, B> Typed<T> for Cell<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    fn as_task(&self) -> &dyn Task {
        self
    }

    fn take(&self) -> Option<Result<T, TaskError>> {
        let mut guard = self.header.lock();
        let outcome = self.take_outcome(&mut guard);
        Self::read(guard, outcome)
    }

    fn poll(&self, waker: &Waker) -> Option<Result<T, TaskError>> {
        let mut guard = self.header.lock();
        let outcome = self.take_outcome(&mut guard);
        if outcome.is_some() || !guard.links(|links| links.waiters.wants_future(waker)).unwrap_or(true) {
            return Self::read(guard, outcome);
        }
        // Cloning a waker is user code: do it unlocked, and look again.
        drop(guard);
        let waker = waker.clone();
        let mut guard = self.header.lock();
        let outcome = self.take_outcome(&mut guard);
        if outcome.is_none() {
            let old = guard.links_of_own(|links| links.waiters.set_future(waker));
            drop(guard);
            let _ = unwind::discard(old);
            None
        } else {
            let outcome = Self::read(guard, outcome);
            // A panic here would take the value with it.
            let _ = unwind::discard(waker);
            outcome
        }
    }

    fn complete_early(
        &self,
        outcome: Result<T, TaskError>,
        unlink: &mut dyn FnMut(TaskState),
    ) -> Result<(), Result<T, TaskError>> {
        let mut guard = self.header.lock();
        let was = guard.phase().state();
        let settled = self.settle(&mut guard, outcome)?;
        drop(guard);
        unlink(was);
        // A task completed by hand while it waited gives up its body, as one that is cancelled does.
        let _ = settled.wind_up();
        Ok(())
    }
}
