//! What follows a run that failed.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::backoff::Backoff;
use super::jitter::Dice;

/// What a periodic task does after a run that panicked, returned an `Err`, or ran into its timeout.
///
/// ```text
/// grid          1       2       3       4       5       6
/// stop          ok      FAIL                                     the handle resolves with the failure
/// continue      ok      FAIL    FAIL    FAIL    ok      ok
/// stop after 2  ok      FAIL    FAIL
/// backoff       ok      FAIL·F··FAIL····ok      ok      ok       sooner at first, then rarer; then the grid again
/// ```
///
/// In every case the failure reaches the observer, the failure counter and
/// [`TaskHandle::recent_failures`](crate::TaskHandle::recent_failures).
///
/// ```
/// use punctual::{Executor, ManualClock, OnFailure};
/// use std::time::Duration;
///
/// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let mut beats = 0;
/// let beat = pool
///     .task(move || {
///         beats += 1;
///         if beats < 4 { Err("no answer") } else { Ok(()) }
///     })
///     .every(10 * second)
///     .on_failure(OnFailure::backoff(second..=60 * second))
///     .start()?;
/// clock.advance(7 * second); // 0 fails, 1 fails, 3 fails, 7 succeeds
/// assert_eq!((beat.runs(), beat.info().failures()), (4, 3));
/// assert_eq!(beat.remaining().duration(), 3 * second); // the grid again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The series ends, and the handle resolves with the failure. The default, and Java's rule.
    #[default]
    Stop,
    /// The series goes on as if nothing had happened.
    Continue,
    /// The series goes on until so many runs in a row have failed; 0 counts as 1.
    StopAfter(u32),
    /// The next run comes after a pause that grows with each failure, instead of when the schedule says. After a
    /// run that succeeds the schedule is followed again; what it had planned meanwhile counts as missed.
    Backoff(Backoff),
}

impl OnFailure {
    /// [`OnFailure::Backoff`] with pauses that double from the first to the longest.
    #[must_use]
    pub fn backoff(pauses: RangeInclusive<Duration>) -> Self {
        Self::Backoff(Backoff::between(pauses))
    }

    /// What follows after so many failures in a row.
    pub(crate) fn recover(self, failures: u32, dice: &mut Dice) -> Recovery {
        match self {
            Self::Stop => Recovery::Stop,
            Self::Continue => Recovery::GoOn,
            Self::StopAfter(most) if failures >= most => Recovery::Stop,
            Self::StopAfter(_) => Recovery::GoOn,
            Self::Backoff(backoff) => backoff.next(failures, dice).map_or(Recovery::Stop, Recovery::After),
        }
    }
}

/// What follows a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovery {
    Stop,
    /// The next run is when the schedule says.
    GoOn,
    /// The next run is so long after the end of this one.
    After(Duration),
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Backoff, Dice, OnFailure, Recovery};
    use std::time::Duration;

    #[test]
    fn each_policy_follows_its_row_of_the_table() {
        let (mut dice, second) = (Dice::new(0), Duration::from_secs(1));
        let mut row = |policy: OnFailure| [1, 2, 3].map(|failures| policy.recover(failures, &mut dice));
        use Recovery::{After, GoOn, Stop};
        assert_eq!(row(OnFailure::Stop), [Stop, Stop, Stop]);
        assert_eq!(row(OnFailure::Continue), [GoOn, GoOn, GoOn]);
        assert_eq!(row(OnFailure::StopAfter(2)), [GoOn, Stop, Stop]);
        assert_eq!(row(OnFailure::StopAfter(0)), [Stop, Stop, Stop]);
        let growing = OnFailure::backoff(second..=3 * second);
        assert_eq!(row(growing), [After(second), After(2 * second), After(3 * second)]);
        let limited = OnFailure::Backoff(Backoff::constant(second).give_up_after(2));
        assert_eq!(row(limited), [After(second), Stop, Stop]);
    }
}
