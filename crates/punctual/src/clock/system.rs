//! The machine's monotonic clock; the one caller of `Instant::now`.

use std::time::Instant;

use punctual_engine::Tick;

use super::Clock;

/// The monotonic clock of the machine, counted from the creation of this value.
///
/// It never goes back and does not follow changes of the wall clock. Time during which the machine is
/// suspended is not counted where the platform's monotonic clock does not count it (Linux, macOS).
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    epoch: Instant,
}

impl SystemClock {
    /// A clock whose epoch is now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        Self { epoch: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        let elapsed = self.epoch.elapsed();
        // 584 years of uptime fit.
        Tick::from_nanos(elapsed.as_secs().saturating_mul(1_000_000_000) + u64::from(elapsed.subsec_nanos()))
    }
}
