//! The clocks of the kernel, Linux only.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// What it shows, in nanoseconds.
#[inline]
pub(super) fn nanos(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    // Neither is negative; 584 years of uptime fit.
    (tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(tv_nsec as u64)
}
