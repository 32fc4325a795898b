//! How a handler is asked to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why a handler is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Stop {
    /// Somebody cancelled the job.
    Cancelled,
    /// It has taken longer than its timeout.
    TimedOut,
    /// The node is shutting down.
    Shutdown,
    /// The lease of the node is running out, and another one may begin; see
    /// [`KindOptions::exclusive`](crate::KindOptions::exclusive).
    LeaseLost,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "the job was cancelled",
            Self::TimedOut => "the job took longer than its timeout",
            Self::Shutdown => "the node is shutting down",
            Self::LeaseLost => "the lease of the node is running out",
        })
    }
}

impl std::error::Error for Stop {}

/// The request to stop, shared by a handler and its node. The first reason stays.
///
/// Raising and waking are two steps: a node raises it under its lock, and wakes when it has unlocked. Whoever listens
/// leaves a waker before looking, so one of the two sees the other.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    reason: AtomicU8,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Signal {
    pub(crate) fn raise(&self, stop: Stop) {
        let number = match stop {
            Stop::Cancelled => 1,
            Stop::TimedOut => 2,
            Stop::Shutdown => 3,
            Stop::LeaseLost => 4,
        };
        // Relaxed is enough for a flag; `wake` and whoever interrupts the task synchronise.
        let _ = self.reason.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn raised(&self) -> Option<Stop> {
        match self.reason.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::TimedOut),
            3 => Some(Stop::Shutdown),
            _ => Some(Stop::LeaseLost),
        }
    }

    /// Wakes whoever listens. Called after it was raised, without any lock.
    pub(crate) fn wake(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        for waker in wakers.into_values() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                let _ = crate::node::panic_message(panic);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a waker, in the place of the one it left before.
    fn listen(&self, place: &mut Option<u64>, waker: Waker) {
        let mut listeners = self.lock();
        let place = *place.get_or_insert_with(|| {
            listeners.next += 1;
            listeners.next
        });
        let old = listeners.wakers.insert(place, waker);
        drop(listeners);
        drop(old);
    }

    fn leave(&self, place: u64) {
        let old = self.lock().wakers.remove(&place);
        drop(old);
    }
}

/// Ready when the handler is asked to stop; see [`JobContext::stop_requested`](crate::JobContext::stop_requested).
#[must_use = "it does nothing unless it is awaited"]
#[derive(Debug)]
pub struct StopRequested {
    signal: Arc<Signal>,
    place: Option<u64>,
}

impl StopRequested {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { signal, place: None }
    }
}

impl Future for StopRequested {
    type Output = Stop;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Stop> {
        let this = &mut *self;
        if this.signal.raised().is_none() {
            this.signal.listen(&mut this.place, context.waker().clone());
        }
        this.signal.raised().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for StopRequested {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.signal.leave(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            assert!(self.0.load(Ordering::SeqCst) < 9, "a waker that panics");
        }
    }

    #[test]
    fn everybody_who_listens_is_woken_and_nobody_who_left() {
        let signal = Arc::new(Signal::default());
        let counts = [(); 3].map(|()| Arc::new(Count(AtomicU32::new(0))));
        counts[0].0.store(8, Ordering::SeqCst);
        let wakers = counts.clone().map(Waker::from);
        let mut futures = [(); 3].map(|()| Box::pin(StopRequested::new(signal.clone())));
        for (future, waker) in futures.iter_mut().zip(&wakers) {
            for _ in 0..3 {
                assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            }
        }
        let [first, second, third] = futures;
        drop(third);
        signal.raise(Stop::TimedOut);
        signal.raise(Stop::Cancelled);
        signal.wake();
        assert_eq!(counts.each_ref().map(|count| count.0.load(Ordering::SeqCst)), [9, 1, 0]);
        for mut future in [first, second] {
            let ready = future.as_mut().poll(&mut Context::from_waker(&wakers[0]));
            assert_eq!(ready, Poll::Ready(Stop::TimedOut), "the first reason stays");
        }
        let mut late = pin!(StopRequested::new(signal.clone()));
        assert!(late.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_ready());
        assert!(signal.lock().wakers.is_empty());
    }
}
