//! The clock of the measurements: nanoseconds since the process began, and waits that need no pool.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static EPOCH: OnceLock<Instant> = OnceLock::new();

#[inline]
#[expect(clippy::disallowed_methods, reason = "a benchmark asks the machine for the time")]
pub(crate) fn now() -> u64 {
    let epoch = EPOCH.get_or_init(Instant::now);
    epoch.elapsed().as_nanos() as u64
}

/// From now until the instant `until`; zero if it has passed.
#[inline]
pub(crate) fn left(until: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(now()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pools are what is measured; this thread keeps out of the way"
)]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Looks again and again, without taking a processor, until `is_so` or the patience is over.
pub(crate) fn eventually(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = now() + patience.as_nanos() as u64;
    loop {
        if is_so() {
            return true;
        }
        if now() > end {
            return false;
        }
        sleep(Duration::from_micros(200));
    }
}
