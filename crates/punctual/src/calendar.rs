//! Schedules in wall time: what comes next, by the clock on the wall.

use std::sync::Arc;
use std::time::SystemTime;

/// A schedule whose points are instants of wall time, such as a cron expression in a time zone.
///
/// Closures `Fn(SystemTime) -> Option<SystemTime>` are calendars. The executor asks after each run, without any
/// lock held, and obeys: it never runs before the instant comes by the wall clock of its
/// [`Clock`](crate::Clock::wall), follows that clock when it is set, and never runs twice for one instant.
///
/// ```
/// use punctual::{Clock, Executor, ManualClock};
/// use std::time::{Duration, SystemTime};
///
/// /// Every full hour.
/// fn full_hour(after: SystemTime) -> Option<SystemTime> {
///     let passed = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / 3600;
///     Some(SystemTime::UNIX_EPOCH + Duration::from_secs((passed + 1) * 3600))
/// }
///
/// let clock = ManualClock::new();
/// clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(50 * 60));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let chime = pool.task(|| ()).calendar(full_hour).start()?;
/// clock.advance(Duration::from_secs(10 * 60));
/// assert_eq!(chime.runs(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Calendar: Send + Sync + 'static {
    /// The first point after `instant`; `None` if there is none. A point that is not after it ends the schedule, as
    /// none does.
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime>;
}

impl<F: Fn(SystemTime) -> Option<SystemTime> + Send + Sync + 'static> Calendar for F {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        self(instant)
    }
}

impl Calendar for Arc<dyn Calendar> {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        (**self).next_after(instant)
    }
}
