//! Async bodies on a runtime of the user's.
//!
//! The executor keeps the time and the handle, the runtime does the polling. A [`RunOn`] is the one half, awaited
//! by a task of the executor; [`There`] is the other, spawned on the runtime. They share the outcome.
//!
//! # Protocol (guarded by `Shared::state`)
//! `There` runs the future, leaves its outcome (a value, a panic, or that it was dropped) and wakes `RunOn`, once.
//! A `RunOn` that is dropped leaves word, and wakes `There`, which drops its future when it is next polled: on the
//! runtime, where the future expects to be dropped. Wakers are called, and values and futures dropped, unlocked.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Panic;
use crate::sync::Mutex;
use crate::unwind;

/// A future of any kind, on its way to a [`Runtime`].
pub type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// Something that runs futures; see [`run_on`].
///
/// Closures `Fn(BoxedFuture)` are runtimes.
pub trait Runtime: Send + Sync + 'static {
    /// Runs `future`, without waiting for it.
    fn spawn(&self, future: BoxedFuture);
}

impl<F: Fn(BoxedFuture) + Send + Sync + 'static> Runtime for F {
    fn spawn(&self, future: BoxedFuture) {
        self(future);
    }
}

/// A body that is polled by `runtime` instead of the executor's workers.
///
/// What comes back is a future like any other: hand it to [`Scheduler::spawn`](crate::Scheduler::spawn), or return
/// it from the closure of [`Scheduler::task_async`](crate::Scheduler::task_async) to have a delayed or periodic
/// task whose every run is driven by the runtime. It starts when it is first polled. When it is dropped, because its
/// task was cancelled, say, `future` is dropped by the runtime, as soon as that polls it again, which it is asked
/// to do at once.
///
/// # Panics
/// Awaiting it panics as `future` does, with the same payload, and if the runtime drops `future` unfinished.
///
/// # Examples
/// ```
/// use punctual::{BoxedFuture, Executor, run_on};
/// use std::time::Duration;
///
/// // Any runtime will do: with tokio it is `move |future| drop(handle.spawn(future))`.
/// let other = Executor::new(1);
/// let runtime = move |future: BoxedFuture| drop(other.spawn(future));
///
/// let pool = Executor::new(1);
/// let answer = pool.spawn_after(Duration::from_millis(1), run_on(runtime, async { 6 * 7 }))?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_on<F>(runtime: impl Runtime, future: F) -> RunOn<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let shared = Arc::new(Shared { state: Mutex::new(State::new()) });
    let there = There { future: Some(Box::pin(future)), shared: Arc::clone(&shared) };
    RunOn { start: Some((Box::new(runtime), Box::pin(there))), shared }
}

/// The future that [`run_on`] returns.
#[must_use = "nothing is run unless it is awaited"]
pub struct RunOn<T> {
    /// `None` once it is on its way.
    start: Option<(Box<dyn Runtime>, BoxedFuture)>,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    outcome: Outcome<T>,
    /// Wakes the [`RunOn`].
    here: Option<Waker>,
    /// Wakes the [`There`].
    there: Option<Waker>,
    /// The [`RunOn`] is gone.
    unwanted: bool,
}

enum Outcome<T> {
    None,
    Value(T),
    Panic(Panic),
    Dropped,
    Taken,
}

impl<T> State<T> {
    fn new() -> Self {
        Self { outcome: Outcome::None, here: None, there: None, unwanted: false }
    }
}

impl<T> Shared<T> {
    /// Leaves the outcome, unless there is one.
    fn finish(&self, outcome: Outcome<T>) {
        let mut state = self.state.lock();
        if !matches!(state.outcome, Outcome::None) {
            return;
        }
        state.outcome = outcome;
        let (here, there) = (state.here.take(), state.there.take());
        drop(state);
        let _ = unwind::discard(there);
        wake(here);
    }
}

/// A waker that panics has nobody to tell: its own executor is broken.
fn wake(waker: Option<Waker>) {
    let _ = unwind::catch(|| waker.into_iter().for_each(Waker::wake));
}

impl<T> Future for RunOn<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        if let Some((runtime, there)) = this.start.take() {
            runtime.spawn(there);
        }
        // Cloned, and the old one dropped, unlocked: both are user code.
        let waker = context.waker().clone();
        let mut state = this.shared.state.lock();
        if let Outcome::None = state.outcome {
            let old = state.here.replace(waker);
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let outcome = mem::replace(&mut state.outcome, Outcome::Taken);
        drop(state);
        match outcome {
            Outcome::Value(value) => Poll::Ready(value),
            Outcome::Panic(panic) => panic.resume(),
            Outcome::Dropped => panic!("the runtime dropped the future before it was ready"),
            Outcome::None | Outcome::Taken => panic!("polled after it was ready"),
        }
    }
}

impl<T> Drop for RunOn<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.unwanted = true;
        let outcome = mem::replace(&mut state.outcome, Outcome::Taken);
        let (here, there) = (state.here.take(), state.there.take());
        drop(state);
        let _ = unwind::discard(here);
        wake(there);
        drop(outcome);
    }
}

impl<T> fmt::Debug for RunOn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOn").field("started", &self.start.is_none()).finish_non_exhaustive()
    }
}

/// The half that the runtime polls.
struct There<F: Future> {
    /// `None` once it is over.
    future: Option<Pin<Box<F>>>,
    shared: Arc<Shared<F::Output>>,
}

impl<F: Future> There<F> {
    /// False if nobody wants the outcome any more.
    fn listen(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.shared.state.lock();
        let wanted = !state.unwanted;
        let old = if wanted { state.there.replace(waker) } else { Some(waker) };
        drop(state);
        drop(old);
        wanted
    }
}

impl<F: Future> Future for There<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.listen(context.waker()) {
            this.future = None;
            return Poll::Ready(());
        }
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let outcome = match unwind::catch(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Outcome::Value(value),
            Err(panic) => Outcome::Panic(panic),
        };
        // Whoever has the outcome sees the future gone. A destructor that panics does not cost a value.
        let _ = unwind::discard(this.future.take());
        this.shared.finish(outcome);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for There<F> {
    fn drop(&mut self) {
        let _ = unwind::discard(self.future.take());
        self.shared.finish(Outcome::Dropped);
    }
}
