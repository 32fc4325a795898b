//! The machine's monotonic clock.

use punctual_engine::Tick;

use super::Clock;

/// The monotonic clock of the machine, counted from the creation of this value.
///
/// It never goes back and does not follow changes of the wall clock. Time during which the machine is
/// suspended is not counted where the platform's monotonic clock does not count it (Linux, macOS).
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    epoch: u64,
}

impl SystemClock {
    /// A clock whose epoch is now.
    #[must_use]
    pub fn new() -> Self {
        Self { epoch: reading() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(reading().saturating_sub(self.epoch))
    }
}

/// The clock that [`Instant`](std::time::Instant) shows, too, in nanoseconds: without its checks, which take a fifth of the time
/// of a look at the clock, and every submission takes one.
#[cfg(target_os = "linux")]
fn reading() -> u64 {
    super::kernel::nanos(rustix::time::ClockId::Monotonic)
}

/// Nanoseconds since it was first called.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn reading() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;

    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let elapsed = ORIGIN.elapsed();
    // 584 years of uptime fit.
    elapsed.as_secs().saturating_mul(1_000_000_000) + u64::from(elapsed.subsec_nanos())
}
