//! How a thread of ours waits.
//!
//! A [`Parker`] belongs to one thread and holds one permit. [`unpark`](Parker::unpark) leaves the permit,
//! whoever waits with the parker takes it. Everything that blocks (workers, `join`, `take`, `sleep`) waits
//! through a [`Clock`](crate::Clock) with the parker of its thread, and everything that wakes uses the parker
//! as a [`Waker`](std::task::Waker): blocking and async waiters are one list.
//!
//! # Invariants
//! 1. The permit is set before the thread is unparked, and taken by its own thread only: a wake-up between
//!    "decided to wait" and "waits" is not lost.
//! 2. User code on the same thread may park and unpark it as it likes: that makes waits here return early at
//!    most, and every caller looks again.

use std::fmt;
use std::sync::Arc;
#[cfg(not(punctual_loom))]
use std::sync::LazyLock;
use std::task::Wake;
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Seat, thread_local};

/// The means of one thread to wait and to be woken; see [`Clock::wait`](crate::Clock::wait).
pub struct Parker {
    seat: Seat,
    permit: AtomicBool,
}

thread_local! {
    static MINE: Arc<Parker> = Parker::fresh();
}

impl Parker {
    fn fresh() -> Arc<Self> {
        Arc::new(Self { seat: Seat::of_current(), permit: AtomicBool::new(false) })
    }

    /// The parker of the calling thread.
    #[must_use]
    pub fn current() -> Arc<Self> {
        // A thread that waits while its locals are being torn down gets one for the occasion.
        MINE.try_with(Arc::clone).unwrap_or_else(|_| Self::fresh())
    }

    /// Leaves the permit and wakes the thread.
    pub fn unpark(&self) {
        // Release: what the caller did before waking is seen by the woken thread. If the permit was there
        // already, whoever left it wakes the thread.
        if !self.permit.swap(true, Ordering::AcqRel) {
            self.seat.unpark();
        }
    }

    /// Takes the permit, if it is there. For the parker's own thread.
    pub fn take_permit(&self) -> bool {
        // Acquire: pairs with the swap in `unpark`.
        self.permit.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn has_permit(&self) -> bool {
        self.permit.load(Ordering::Acquire)
    }

    /// Waits for the permit and takes it. For the parker's own thread.
    pub fn park(&self) {
        while !self.take_permit() {
            self.seat.park();
        }
    }

    /// Waits for the permit at most about `timeout` and takes it; may return early without one.
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        if self.take_permit() {
            return true;
        }
        self.seat.park_timeout(timeout);
        self.take_permit()
    }

    /// Looks for the permit, so many times at most, and leaves it where it is: for a thread that has reason to expect it,
    /// because parking and being woken costs more than that, to both sides. Sixty looks take about a microsecond.
    #[cfg(not(punctual_loom))]
    pub(crate) fn linger(&self, looks: u32) {
        // With one processor whoever is to leave the permit cannot run meanwhile.
        static ALONE: LazyLock<bool> =
            LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from) < 2);
        if !*ALONE {
            let _ = (0..looks).any(|_| {
                std::hint::spin_loop();
                self.has_permit()
            });
        }
    }

    #[cfg(punctual_loom)]
    pub(crate) fn linger(&self, _looks: u32) {}

    /// Blocks until somebody unparks the thread, for whatever reason; the permit is not touched.
    pub(crate) fn block(&self) {
        self.seat.park();
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").field("permit", &self.has_permit()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::Parker;
    use std::time::Duration;

    #[test]
    fn a_permit_left_beforehand_is_taken_at_once() {
        let parker = Parker::current();
        parker.unpark();
        parker.unpark();
        parker.park();
        assert!(!parker.take_permit(), "two wake-ups before a wait are one permit");
        assert!(!parker.park_timeout(Duration::from_nanos(1)));
    }
}
