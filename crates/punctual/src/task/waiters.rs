//! Who wants to know when a task is done.
//!
//! All of them are wakers: a blocked thread (its [`Parker`](crate::Parker)), the task that awaits the handle,
//! a completion queue, a timeout that is to be withdrawn. They are taken out under the cell's lock and woken
//! after it, each under its own `catch`, so that one waker's panic reaches nobody else.

use std::mem;
use std::task::Waker;

use crate::unwind;

#[derive(Default)]
pub(crate) struct Waiters {
    /// The one future there is: the handle. Replaced at each poll, so it cannot pile up.
    future: Option<Waker>,
    /// Blocked threads and listeners.
    others: Vec<Waker>,
}

impl Waiters {
    /// Registers the handle's future; the waker that was there before is returned, to be dropped unlocked.
    #[must_use]
    pub(crate) fn set_future(&mut self, waker: Waker) -> Option<Waker> {
        self.future.replace(waker)
    }

    pub(crate) fn wants_future(&self, waker: &Waker) -> bool {
        !self.future.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    pub(crate) fn add(&mut self, waker: Waker) {
        self.others.push(waker);
    }

    /// Takes one registration of `waker` out again, to be dropped unlocked.
    #[must_use]
    pub(crate) fn remove(&mut self, waker: &Waker) -> Option<Waker> {
        let position = self.others.iter().position(|known| known.will_wake(waker))?;
        Some(self.others.swap_remove(position))
    }

    #[must_use]
    pub(crate) fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// To be called without any lock: wakers are user code.
    pub(crate) fn wake(self) {
        for waker in self.future.into_iter().chain(self.others) {
            // A waker that panics has nobody to tell: its own executor is broken.
            let _ = unwind::catch(move || waker.wake());
        }
    }
}
