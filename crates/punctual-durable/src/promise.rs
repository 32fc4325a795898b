//! A value that comes later: one side keeps its promise, the other waits, as a thread or as a future.
//!
//! # Invariants
//! 1. Every wait ends: a promise that is dropped unkept resolves with an error.
//! 2. Nobody waits for ever for somebody who has left: a promise knows whether its value is still wanted.
//!
//! # Locks
//! One for each value, under which nothing is called. Wakers are cloned, called and dropped without it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use punctual::Parker;

use crate::error::{Error, Result};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Slot<T> {
    Open(Option<Waker>),
    Answered(Result<T>),
    /// The answer has been taken.
    Taken,
}

/// The side that will know.
pub(crate) struct Promise<T> {
    slot: Weak<Mutex<Slot<T>>>,
    /// What is said if it is never kept.
    otherwise: &'static str,
}

/// The side that waits.
pub(crate) struct Promised<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

pub(crate) fn promise<T>(otherwise: &'static str) -> (Promise<T>, Promised<T>) {
    let slot = Arc::new(Mutex::new(Slot::Open(None)));
    (Promise { slot: Arc::downgrade(&slot), otherwise }, Promised { slot })
}

impl<T> Promise<T> {
    pub(crate) fn keep(self, answer: Result<T>) {
        self.settle(answer);
    }

    /// Whether anybody waits, by 2.
    pub(crate) fn is_wanted(&self) -> bool {
        self.slot.strong_count() > 0
    }

    fn settle(&self, answer: Result<T>) {
        let Some(slot) = self.slot.upgrade() else { return };
        let mut slot = lock(&slot);
        let waker = match &mut *slot {
            Slot::Open(waker) => {
                let waker = waker.take();
                *slot = Slot::Answered(answer);
                waker
            }
            Slot::Answered(_) | Slot::Taken => None,
        };
        drop(slot);
        if let Some(waker) = waker
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
        {
            let _ = crate::node::panic_message(panic);
        }
    }
}

impl<T> Drop for Promise<T> {
    /// By 1.
    fn drop(&mut self) {
        self.settle(Err(Error::transient(self.otherwise)));
    }
}

impl<T> Promised<T> {
    /// The answer, or leaves a waker.
    pub(crate) fn look(&self, waker: &Waker) -> Poll<Result<T>> {
        let waker = waker.clone();
        let mut slot = lock(&self.slot);
        match &mut *slot {
            Slot::Open(place) => {
                let old = place.replace(waker);
                drop(slot);
                drop(old);
                Poll::Pending
            }
            Slot::Answered(_) => match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Answered(answer) => Poll::Ready(answer),
                Slot::Open(_) | Slot::Taken => Poll::Pending,
            },
            Slot::Taken => Poll::Ready(Err(Error::closed("the answer has been taken before"))),
        }
    }

    /// Waits for the answer; `park` waits for the permit of the parker it is given, or gives up.
    pub(crate) fn wait(&self, mut park: impl FnMut(&Arc<Parker>) -> bool) -> Option<Result<T>> {
        let parker = Parker::current();
        let waker = Waker::from(Arc::clone(&parker));
        loop {
            if let Poll::Ready(answer) = self.look(&waker) {
                return Some(answer);
            }
            if !park(&parker) {
                return None;
            }
        }
    }

    pub(crate) fn state(&self) -> &'static str {
        match &*lock(&self.slot) {
            Slot::Open(_) => "open",
            Slot::Answered(_) => "answered",
            Slot::Taken => "taken",
        }
    }
}
