//! The machine's clock that goes on while the machine is suspended.

use std::sync::Arc;
use std::time::Duration;

use punctual_engine::Tick;
use rustix::time::ClockId;

use super::Clock;
use super::kernel::nanos;
use crate::park::Parker;

/// The longest wait in one go. The kernel counts a wait in time awake, so after a suspension a longer one would go on
/// for as long as the machine slept.
const LOOK: Duration = Duration::from_secs(60);

/// A monotonic clock that counts the time during which the machine is suspended, unlike
/// [`SystemClock`](crate::SystemClock); Linux only.
///
/// With it "in ten minutes" means ten minutes for whoever sits before the machine. While anything waits for instants one or two
/// threads look once a minute, so what came due during a suspension runs within a minute of its end.
///
/// ```
/// use punctual::{BootClock, Executor};
/// use std::time::Duration;
///
/// let pool = Executor::builder().clock(BootClock::new()).build()?;
/// assert_eq!(pool.schedule(Duration::from_millis(1), || 7)?.join()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    epoch: u64,
}

impl BootClock {
    /// A clock whose epoch is now.
    #[must_use]
    pub fn new() -> Self {
        Self { epoch: nanos(ClockId::Boottime) }
    }
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for BootClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(nanos(ClockId::Boottime).saturating_sub(self.epoch))
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        match until {
            None => parker.park(),
            Some(until) => {
                let left = until.since(self.now()).min(LOOK);
                if !left.is_zero() {
                    let _ = parker.park_timeout(left);
                }
            }
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{BootClock, LOOK};
    use crate::{Clock, Parker, SystemClock};

    #[test]
    fn it_never_goes_back_nor_falls_behind_time_awake() {
        let (boot, awake) = (BootClock::new(), SystemClock::new());
        let mut last = boot.now();
        for _ in 0..1_000 {
            let floor = awake.now();
            let now = boot.now();
            assert!(now >= last && now >= floor, "{now:?} after {last:?}, awake {floor:?}");
            last = now;
        }
    }

    #[test]
    fn a_permit_ends_a_wait_for_a_far_instant() {
        let (clock, parker) = (BootClock::new(), Parker::current());
        parker.unpark();
        clock.wait(&parker, Some(clock.now().after(10 * LOOK)));
        assert!(!parker.take_permit(), "the wait took it");
        clock.wait(&parker, Some(clock.now()));
    }
}
