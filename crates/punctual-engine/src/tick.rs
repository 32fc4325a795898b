//! A point on a clock that the engine never reads.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since the epoch of some clock.
///
/// The engine compares ticks and adds durations to them; where they come from is the caller's affair. All
/// arithmetic saturates, so a deadline beyond the end of time is the end of time ([`Tick::MAX`], some 584
/// years after the epoch) and never wraps round to the past.
///
/// ```
/// use core::time::Duration;
/// use punctual_engine::Tick;
///
/// let noon = Tick::from_nanos(1_000);
/// assert_eq!(noon.after(Duration::from_nanos(5)), Tick::from_nanos(1_005));
/// assert_eq!(noon.after(Duration::MAX), Tick::MAX);
/// assert_eq!(noon.since(Tick::from_nanos(2_000)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// The end of time.
    pub const MAX: Self = Self(u64::MAX);

    /// The tick `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The tick `delay` later, or [`Tick::MAX`] if there is none.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(delay)))
    }

    /// How long after `earlier` this tick is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The nanoseconds of `delay`, or `u64::MAX` where they do not fit.
pub(crate) fn saturating_nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tick({:?})", Duration::from_nanos(self.0))
    }
}
