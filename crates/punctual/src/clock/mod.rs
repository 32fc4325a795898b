//! Where time comes from, and how threads wait for it.
//!
//! Everything timed in this crate asks a [`Clock`] for now and waits through it. [`SystemClock`] is the
//! machine's monotonic clock; [`ManualClock`] moves only when told, and drives real threads.

#[cfg(target_os = "linux")]
mod boot;
#[cfg(target_os = "linux")]
mod kernel;
mod manual;
mod system;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use punctual_engine::Tick;

use crate::park::Parker;

#[cfg(target_os = "linux")]
pub use boot::BootClock;
pub use manual::ManualClock;
pub use system::SystemClock;

/// A source of time for executors, delay queues and timers.
///
/// Implement [`now`](Self::now) alone for a clock that runs at the speed of real time (one that counts
/// suspended time, say). A clock with a pace of its own implements [`wait`](Self::wait) as well.
///
/// ```
/// use punctual::{Clock, Executor, SystemClock, Tick};
/// use std::time::Duration;
///
/// /// Starts at one hour instead of zero.
/// #[derive(Debug)]
/// struct Shifted(SystemClock);
///
/// impl Clock for Shifted {
///     fn now(&self) -> Tick {
///         self.0.now().after(Duration::from_secs(3600))
///     }
/// }
///
/// let pool = Executor::builder().clock(Shifted(SystemClock::new())).build()?;
/// assert_eq!(pool.schedule(Duration::from_millis(1), || 7)?.join()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Contract
/// [`now`](Self::now) and [`wall`](Self::wall) are called for every decision, also while an executor holds its lock: they
/// must not panic, block or call the executor. A thread whose clock panics is lost, with the task that it has in hand.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time since the clock's epoch. Must never go back, nor reach [`Tick::MAX`], the end of time, for which those
    /// tasks wait that are to wait for something else.
    fn now(&self) -> Tick;

    /// The time of day, which may be set forward and back. By default that of the machine.
    ///
    /// Read only for tasks that are scheduled by it.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Blocks the calling thread until its `parker` is unparked, taking the permit, or until the clock shows
    /// `until`. May return early for no reason: every caller looks again.
    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        match until {
            None => parker.park(),
            Some(until) => {
                let left = until.since(self.now());
                if !left.is_zero() {
                    let _ = parker.park_timeout(left);
                }
            }
        }
    }

    /// Called before a worker thread of an executor on this clock is started.
    fn worker_started(&self) {}

    /// Called by such a thread before anything else, with the parker it will wait with.
    fn worker_entered(&self, parker: &Arc<Parker>) {
        let _ = parker;
    }

    /// Called as the last act of such a thread, with its parker; without one, if it could not be started.
    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        let _ = parker;
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Tick {
        (**self).now()
    }

    fn wall(&self) -> SystemTime {
        (**self).wall()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        (**self).wait(parker, until);
    }

    fn worker_started(&self) {
        (**self).worker_started();
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        (**self).worker_entered(parker);
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        (**self).worker_stopped(parker);
    }
}
