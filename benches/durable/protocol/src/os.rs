//! What the machine knows: the time of day, and processor time.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since 1970: the clock by which jobs are due, rounded down.
#[must_use]
pub fn micros() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Seconds that only ever grow, to measure with.
pub(crate) fn seconds() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Processor time of this process so far, in seconds.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor time of another process so far, in seconds; with that of its children that have ended.
#[must_use]
pub fn cpu_of(process: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: Option<f64> = (11..15).map(|field| fields.get(field)?.parse::<f64>().ok()).sum();
    Some(ticks? / 100.0)
}
