//! The time of day, as stores count it.
//!
//! Every instant that is stored or compared is a [`Timestamp`] of the *store's* clock: the machines of a cluster
//! need not agree on theirs. A store without a clock of its own (memory, a file) asks a [`TimeSource`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::{Clock, ManualClock};
use serde::{Deserialize, Serialize};

/// An instant: microseconds since 1970-01-01T00:00:00Z, without leap seconds.
///
/// All arithmetic saturates: what lies beyond the end of time is the end of time.
///
/// ```
/// use punctual_durable::Timestamp;
/// use std::time::Duration;
///
/// let noon = Timestamp::from_micros(43_200_000_000);
/// assert_eq!(noon.to_string(), "1970-01-01T12:00:00.000000Z");
/// assert_eq!(noon.after(Duration::from_secs(1)).since(noon), Duration::from_secs(1));
/// assert_eq!(noon.after(Duration::MAX), Timestamp::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The beginning of the count, 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The end of time.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant `micros` microseconds after the epoch, or before it.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The instant `delay` later. A part of a microsecond counts as a whole one, so that nothing is early.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let micros = delay.as_nanos().div_ceil(1_000);
        Self(self.0.saturating_add(i64::try_from(micros).unwrap_or(i64::MAX)))
    }

    /// The instant `delay` earlier.
    #[must_use]
    pub fn before(self, delay: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this instant is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(i128::from(self.0) - i128::from(earlier.0)).unwrap_or(0))
    }
}

impl Timestamp {
    /// The same instant for the standard library; `None` where it cannot say it.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let distance = Duration::from_micros(self.0.unsigned_abs());
        if self.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            // Rounded down: a clock that is ahead of itself would start things early.
            Ok(since) => Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(error) => Self::EPOCH.before(error.duration()),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, in_day) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        let (year, month, day) = civil(days);
        let (seconds, micros) = (in_day / 1_000_000, in_day % 1_000_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

/// Year, month and day of the day `days` after the epoch, in the Gregorian calendar.
///
/// Counted in years that begin in March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097; // days in 400 years
    let from_march_0 = days + 719_468;
    let (cycle, day_of_cycle) = (from_march_0.div_euclid(CYCLE), from_march_0.rem_euclid(CYCLE));
    // Take the leap days out, so that every year has 365 days.
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / (CYCLE - 1)) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, over and over: 153 in five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

/// Where a store that has no clock of its own gets the time of day from.
///
/// It may be set, forward and back, as wall clocks are: whoever waits for an instant looks again on waking.
pub trait TimeSource: fmt::Debug + Send + Sync + 'static {
    /// The present instant. Cheap, and never blocks.
    fn timestamp(&self) -> Timestamp;
}

/// The machine's own time of day.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemTimeSource;

impl TimeSource for SystemTimeSource {
    #[expect(clippy::disallowed_methods, reason = "this is the source")]
    fn timestamp(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// In tests a manual clock is also a time of day: it starts at 2000-01-01T00:00:00Z.
impl TimeSource for ManualClock {
    fn timestamp(&self) -> Timestamp {
        let year_2000 = Timestamp::from_micros(946_684_800_000_000);
        Timestamp(year_2000.0.saturating_add_unsigned(self.now().as_nanos() / 1_000))
    }
}

impl<T: TimeSource + ?Sized> TimeSource for Arc<T> {
    fn timestamp(&self) -> Timestamp {
        (**self).timestamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_gregorian_calendar() {
        let day = |days: i64| Timestamp(days * 86_400_000_000).to_string();
        assert_eq!(&day(0)[..10], "1970-01-01");
        assert_eq!(&day(-1)[..10], "1969-12-31");
        assert_eq!(&day(11_016)[..10], "2000-02-29");
        assert_eq!(&day(11_017)[..10], "2000-03-01");
        assert_eq!(&day(47_540)[..10], "2100-02-28");
        assert_eq!(&day(47_541)[..10], "2100-03-01");
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_time_and_never_rounds_to_early() {
        assert_eq!(Timestamp::MAX.after(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp(i64::MIN).before(Duration::MAX), Timestamp(i64::MIN));
        assert_eq!(
            Timestamp::MAX.since(Timestamp(i64::MIN)),
            Duration::from_micros(u64::MAX),
            "the whole of time"
        );
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::EPOCH.after(Duration::from_nanos(1)), Timestamp(1));
        let _ = (Timestamp::MAX.to_string(), Timestamp(i64::MIN).to_string());
        for micros in [0, 1, -1, 1_700_000_000_000_001, -1_700_000_000_000_001] {
            assert_eq!(Timestamp::from(Timestamp(micros).to_system_time().unwrap()), Timestamp(micros));
        }
    }
}
