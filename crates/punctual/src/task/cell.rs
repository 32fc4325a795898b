//! The one allocation of a task: closure, outcome, and whoever waits, behind one small lock.
//!
//! # States (guarded by `inner`)
//! ```text
//!              start                       complete
//!   Waiting ──────────▶ Running ──────────────────────▶ Done(outcome) ── take ──▶ Taken
//!      ▲ │                 │ put back                      ▲
//!      │ │    re-arm       ▼                               │
//!      └─┼───────────── Ready                              │
//!        └────── cancel, abandon, complete (from all) ─────┘
//! ```
//!
//! # Invariants
//! 1. `Done` is reached once, and the thread that gets there takes the waiters and wakes them.
//! 2. The body is in `inner` while the task waits, and in the hands of the one thread that runs it while it
//!    runs. Whoever ends the task early takes what body is there and drops it before waking anybody; a running
//!    body is dropped by its runner. So a cancelled task that waits holds nothing when `cancel` returns.
//! 3. No user code runs under the lock: bodies, values, wakers and decorations are moved out first, and called,
//!    woken and dropped after it.
//! 4. A task is re-armed only if nobody has ended it (`re_arm`, called under the pool's lock together with the
//!    insertion into the queue): a cancel sees it either running, and then it is not queued again, or waiting
//!    with the key under which the queue holds it.
//!
//! # Lock order
//! The pool's lock may be held when this one is taken, never the other way round.
//!
//! # Paths not taken
//! An atomic state word with the closure in an `UnsafeCell` saves the lock (two uncontended pairs per task);
//! it needs unsafe code, and so a measurement first.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use super::perform::{Ended, Run};
use super::waiters::Waiters;
use super::{Header, TaskState};
use crate::decorate::Decoration;
use crate::error::{Abandoned, Panic, TaskError};
use crate::sync::{Mutex, MutexGuard};
use crate::unwind;

/// What a task does when it is run.
pub(crate) trait Body<T>: Send + Sized {
    /// Calls the body that is there; one for a single run is used up by it.
    fn call(body: &mut Option<Self>) -> Option<T>;
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

/// A task as the queue and the workers hold it.
pub(crate) type TaskRef = Arc<dyn Task>;

/// A task, whatever its value is.
pub(crate) trait Task: Send + Sync {
    fn header(&self) -> &Header;
    fn state(&self) -> TaskState;
    /// The failure that ended it, if one did.
    fn failure(&self) -> Option<TaskError>;
    /// Runs it if it is waiting; see [`Ended`].
    fn perform(&self, run: &Run<'_>) -> Ended;
    /// Invariant 4. False if the task was ended meanwhile, and then its body is gone or is taken by `end`.
    fn re_arm(&self) -> bool;
    /// Ends it, if it is not over. `unlink` is called, without a lock, after the decision and before anybody is
    /// woken, and is told whether the task was waiting or running.
    fn end(&self, error: TaskError, unlink: &mut dyn FnMut(TaskState)) -> EndedEarly;
    /// Wakes `waker` when it is done; false, and nothing kept, if it is done already.
    fn listen(&self, waker: &Waker) -> bool;
    fn unlisten(&self, waker: &Waker);
    /// Sets the interrupt flag and wakes every wait that watches it.
    fn interrupt(&self);
    fn watch_interrupt(&self, waker: &Waker);
    fn unwatch_interrupt(&self, waker: &Waker);
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

pub(crate) struct Cell<T, B> {
    header: Header,
    inner: Mutex<Inner<T, B>>,
}

struct Inner<T, B> {
    phase: Phase<T, B>,
    /// Most tasks never need any of it.
    links: Option<Box<Links>>,
}

/// Who has to do with the task.
#[derive(Default)]
struct Links {
    decoration: Option<Box<dyn Decoration>>,
    waiters: Waiters,
    /// Waits inside the running body that are to return when it is interrupted.
    watchers: Vec<Waker>,
}

impl<T, B> Inner<T, B> {
    fn links(&mut self) -> &mut Links {
        self.links.get_or_insert_default()
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_) | Phase::Running | Phase::Ready(_))
    }

    fn take_decoration(&mut self) -> Option<Box<dyn Decoration>> {
        self.links.as_mut()?.decoration.take()
    }

    fn take_waiters(&mut self) -> Waiters {
        self.links.as_mut().map(|links| links.waiters.take()).unwrap_or_default()
    }
}

enum Phase<T, B> {
    Waiting(B),
    /// The body is in the hands of the runner.
    Running,
    /// A periodic body between its run and its return to the queue.
    Ready(B),
    Done(Result<T, TaskError>),
    Taken,
}

impl<T, B> Phase<T, B> {
    fn state(&self) -> TaskState {
        match self {
            Self::Waiting(_) => TaskState::Waiting,
            Self::Running | Self::Ready(_) => TaskState::Running,
            Self::Taken | Self::Done(Ok(_)) => TaskState::Succeeded,
            Self::Done(Err(TaskError::Cancelled)) => TaskState::Cancelled,
            Self::Done(Err(TaskError::Abandoned(_))) => TaskState::Abandoned,
            Self::Done(Err(_)) => TaskState::Failed,
        }
    }
}

/// A body in the hands of the thread that runs it.
pub(super) struct Work<B> {
    /// `None` once it is used up.
    pub(super) body: Option<B>,
    pub(super) decoration: Option<Box<dyn Decoration>>,
}

impl<T, B> Cell<T, B> {
    pub(crate) fn new(header: Header, body: B) -> Self {
        let inner = Inner { phase: Phase::Waiting(body), links: None };
        Self { header, inner: Mutex::new(inner) }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn decorate(&self, decoration: Box<dyn Decoration>) {
        self.inner.lock().links().decoration = Some(decoration);
    }

    /// Takes the body back from a task that was refused, with its decoration, which the caller drops.
    pub(crate) fn take_back(&self) -> (Option<B>, Option<Box<dyn Decoration>>) {
        let mut inner = self.inner.lock();
        if !matches!(inner.phase, Phase::Waiting(_)) {
            return (None, None);
        }
        // Whoever else may hold the task finds it abandoned.
        let refused = Phase::Done(Err(TaskError::Abandoned(Abandoned::Rejected)));
        match mem::replace(&mut inner.phase, refused) {
            Phase::Waiting(body) => (Some(body), inner.take_decoration()),
            _ => unreachable!("matched above, under the same lock"),
        }
    }

    /// `Waiting → Running`; the body goes to the caller. Loses only to whoever ended the task first.
    pub(super) fn start(&self) -> Option<Work<B>> {
        let mut inner = self.inner.lock();
        if !matches!(inner.phase, Phase::Waiting(_)) {
            return None;
        }
        let Phase::Waiting(body) = mem::replace(&mut inner.phase, Phase::Running) else {
            unreachable!("matched above, under the same lock")
        };
        // Under the lock: once a cancel has returned the count stands.
        self.header.count_run();
        Some(Work { body: Some(body), decoration: inner.take_decoration() })
    }

    /// The body of a periodic task after a run. Comes back if the task was ended meanwhile.
    pub(super) fn put_back(&self, mut work: Work<B>) -> Result<(), Work<B>> {
        let mut inner = self.inner.lock();
        if !matches!(inner.phase, Phase::Running) {
            return Err(work);
        }
        let Some(body) = work.body.take() else { return Err(work) };
        inner.phase = Phase::Ready(body);
        if work.decoration.is_some() {
            inner.links().decoration = work.decoration;
        }
        Ok(())
    }

    /// Moves to `Done` if the task is not over. What comes back is the caller's to throw away and to wake, unlocked.
    fn settle(
        inner: &mut MutexGuard<'_, Inner<T, B>>,
        outcome: Result<T, TaskError>,
    ) -> Result<Settled<B>, Result<T, TaskError>> {
        if !inner.is_open() {
            return Err(outcome);
        }
        let body = match mem::replace(&mut inner.phase, Phase::Done(outcome)) {
            Phase::Waiting(body) | Phase::Ready(body) => Some(body),
            _ => None,
        };
        Ok(Settled { body, decoration: inner.take_decoration(), waiters: inner.take_waiters() })
    }

    fn take_outcome(inner: &mut MutexGuard<'_, Inner<T, B>>) -> Option<Result<T, TaskError>> {
        match &inner.phase {
            Phase::Waiting(_) | Phase::Running | Phase::Ready(_) => None,
            Phase::Taken => Some(Err(TaskError::Taken)),
            Phase::Done(Err(error)) => Some(Err(error.clone())),
            Phase::Done(Ok(_)) => match mem::replace(&mut inner.phase, Phase::Taken) {
                Phase::Done(outcome) => Some(outcome),
                _ => unreachable!("matched above, under the same lock"),
            },
        }
    }
}

/// What a task leaves behind when it is over.
struct Settled<B> {
    /// If it was not in the hands of a runner.
    body: Option<B>,
    decoration: Option<Box<dyn Decoration>>,
    waiters: Waiters,
}

impl<B> Settled<B> {
    /// Drops a body that will not be run (again), tells its decoration, and wakes whoever waits.
    fn wind_up(self) -> Option<Panic> {
        let mut panic = self.body.and_then(|body| unwind::discard(body).err());
        if let Some(mut decoration) = self.decoration {
            let told = unwind::catch(|| decoration.cancelled()).err();
            panic = panic.or(told).or(unwind::discard(decoration).err());
        }
        self.waiters.wake();
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

    fn state(&self) -> TaskState {
        self.inner.lock().phase.state()
    }

    fn failure(&self) -> Option<TaskError> {
        match &self.inner.lock().phase {
            Phase::Done(Err(error)) => Some(error.clone()),
            _ => None,
        }
    }

    fn perform(&self, run: &Run<'_>) -> Ended {
        self.perform_typed(run)
    }

    fn re_arm(&self) -> bool {
        let mut inner = self.inner.lock();
        if !matches!(inner.phase, Phase::Ready(_)) {
            return false;
        }
        let Phase::Ready(body) = mem::replace(&mut inner.phase, Phase::Running) else {
            unreachable!("matched above, under the same lock")
        };
        inner.phase = Phase::Waiting(body);
        true
    }

    fn end(&self, error: TaskError, unlink: &mut dyn FnMut(TaskState)) -> EndedEarly {
        let mut inner = self.inner.lock();
        let was = inner.phase.state();
        let Ok(settled) = Self::settle(&mut inner, Err(error)) else {
            return EndedEarly::No;
        };
        drop(inner);
        unlink(was);
        EndedEarly::Yes(settled.wind_up())
    }

    fn listen(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut inner = self.inner.lock();
        let open = inner.is_open();
        if open {
            inner.links().waiters.add(waker);
        } else {
            drop(inner);
            drop(waker);
        }
        open
    }

    fn unlisten(&self, waker: &Waker) {
        let old = self.inner.lock().links().waiters.remove(waker);
        drop(old);
    }

    fn interrupt(&self) {
        // Under the lock, so that a wait which has looked at the flag and is about to watch is not missed.
        let inner = self.inner.lock();
        self.header.set_interrupted();
        let watchers = inner.links.as_ref().map(|links| links.watchers.clone()).unwrap_or_default();
        drop(inner);
        for watcher in watchers {
            watcher.wake();
        }
    }

    fn watch_interrupt(&self, waker: &Waker) {
        self.inner.lock().links().watchers.push(waker.clone());
    }

    fn unwatch_interrupt(&self, waker: &Waker) {
        let mut inner = self.inner.lock();
        let watchers = &mut inner.links().watchers;
        let position = watchers.iter().position(|known| known.will_wake(waker));
        let old = position.map(|position| watchers.swap_remove(position));
        drop(inner);
        drop(old);
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
        Self::take_outcome(&mut self.inner.lock())
    }

    fn poll(&self, waker: &Waker) -> Option<Result<T, TaskError>> {
        let mut inner = self.inner.lock();
        let outcome = Self::take_outcome(&mut inner);
        if outcome.is_some() || !inner.links().waiters.wants_future(waker) {
            return outcome;
        }
        // Cloning a waker is user code: do it unlocked, and look again.
        drop(inner);
        let waker = waker.clone();
        let mut inner = self.inner.lock();
        let outcome = Self::take_outcome(&mut inner);
        if outcome.is_none() {
            let old = inner.links().waiters.set_future(waker);
            drop(inner);
            let _ = unwind::discard(old);
        } else {
            drop(inner);
            // A panic here would take the value with it.
            let _ = unwind::discard(waker);
        }
        outcome
    }

    fn complete_early(
        &self,
        outcome: Result<T, TaskError>,
        unlink: &mut dyn FnMut(TaskState),
    ) -> Result<(), Result<T, TaskError>> {
        let mut inner = self.inner.lock();
        let was = inner.phase.state();
        let settled = Self::settle(&mut inner, outcome)?;
        drop(inner);
        unlink(was);
        // A task completed by hand while it waited gives up its body, as one that is cancelled does.
        let _ = settled.wind_up();
        Ok(())
    }
}
