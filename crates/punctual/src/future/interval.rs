//! A series of instants to await.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use punctual_engine::Tick;

use super::{Sleep, TimerError};
use crate::error::InvalidArgument;
use crate::scheduler::Scheduler;
use crate::when::When;

/// What an [`Interval`] does about instants that have passed before anybody awaited them.
///
/// ```text
///            0    1    2    3    4    5    6    (period 1; the caller is busy from 1 to 3½)
/// Burst           1           23 4    5    6
/// Skip            1           2  4    5    6
/// Delay           1           2    3    4
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum MissedTicks {
    /// Each of them comes, one right after the other, until the series has caught up: as with
    /// [`schedule_at_fixed_rate`](Scheduler::schedule_at_fixed_rate). The default.
    #[default]
    Burst,
    /// One of them comes, the earliest; the next is the first instant of the grid that lies ahead.
    Skip,
    /// One of them comes, and the grid is moved: the next is a whole period from then.
    Delay,
}

/// Instants on the grid `first + n × period`, to be awaited one by one; see [`Scheduler::interval`].
#[must_use = "an interval does nothing unless its ticks are awaited"]
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    missed: MissedTicks,
}

impl Interval {
    fn new(scheduler: &Scheduler, first: When, period: Duration) -> Result<Self, InvalidArgument> {
        if period.is_zero() {
            return Err(InvalidArgument::new("the period of an interval must not be zero: 0ns"));
        }
        Ok(Self { sleep: Sleep::new(scheduler, first), period, missed: MissedTicks::default() })
    }

    /// What becomes of instants that nobody awaited in time. Default [`MissedTicks::Burst`].
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// The time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The next instant.
    #[must_use]
    pub fn next(&self) -> Tick {
        self.sleep.deadline()
    }

    /// Waits for the next instant and says which it was. A call that is dropped loses nothing: the next one waits
    /// for the same instant.
    ///
    /// # Errors
    /// [`TimerError`], as [`Scheduler::sleep`]; then the series is over, and says so each time.
    pub async fn tick(&mut self) -> Result<Tick, TimerError> {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// [`tick`](Self::tick) for futures that are written by hand.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Result<Tick, TimerError>> {
        ready!(Pin::new(&mut self.sleep).poll(context))?;
        let tick = self.sleep.deadline();
        self.sleep.reset(next(tick, self.sleep.now(), self.period, self.missed));
        Poll::Ready(Ok(tick))
    }
}

/// The instant after `tick`, which was awaited until `now`. The whole rule of missed ticks.
fn next(tick: Tick, now: Tick, period: Duration, missed: MissedTicks) -> Tick {
    let late = now.since(tick);
    match missed {
        MissedTicks::Burst => tick.after(period),
        MissedTicks::Delay if late < period => tick.after(period),
        MissedTicks::Delay => now.after(period),
        MissedTicks::Skip => {
            // Both fit: they are ticks, or a period that one has lasted.
            let behind = late.as_nanos() / period.as_nanos();
            let skipped = period.as_nanos().saturating_mul(behind);
            tick.after(Duration::from_nanos(u64::try_from(skipped).unwrap_or(u64::MAX))).after(period)
        }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.next())
            .field("period", &self.period)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Instants to await, every `period`, the first one a period from now. Works under any async runtime.
    ///
    /// # Errors
    /// If `period` is zero.
    ///
    /// # Examples
    /// ```
    /// use punctual::{Executor, ManualClock, Tick};
    /// use std::time::Duration;
    ///
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let mut beat = pool.interval(second)?;
    /// let third = pool.spawn(async move {
    ///     beat.tick().await?;
    ///     beat.tick().await?;
    ///     beat.tick().await
    /// })?;
    /// clock.advance(3 * second);
    /// assert_eq!(third.join()??, Tick::ZERO.after(3 * second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interval(&self, period: Duration) -> Result<Interval, InvalidArgument> {
        Interval::new(self, When::After(period), period)
    }

    /// As [`interval`](Self::interval), with the first instant given: so long from now, or at a tick of the
    /// executor's clock.
    ///
    /// # Errors
    /// If `period` is zero.
    pub fn interval_at(&self, first: impl Into<When>, period: Duration) -> Result<Interval, InvalidArgument> {
        Interval::new(self, first.into(), period)
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{MissedTicks, next};
    use crate::Tick;
    use std::time::Duration;

    const PERIOD: Duration = Duration::from_nanos(10);

    fn after(tick: u64, now: u64, missed: MissedTicks) -> u64 {
        next(Tick::from_nanos(tick), Tick::from_nanos(now), PERIOD, missed).as_nanos()
    }

    #[test]
    fn a_tick_that_was_awaited_in_time_is_followed_by_the_grid_under_every_rule() {
        for missed in [MissedTicks::Burst, MissedTicks::Skip, MissedTicks::Delay] {
            for now in 100..110 {
                assert_eq!(after(100, now, missed), 110, "{missed:?} at {now}");
            }
        }
    }

    #[test]
    fn each_rule_treats_missed_ticks_in_its_own_way() {
        assert_eq!(after(100, 135, MissedTicks::Burst), 110);
        assert_eq!(after(100, 135, MissedTicks::Skip), 140);
        assert_eq!(after(100, 140, MissedTicks::Skip), 150, "an instant that has come does not lie ahead");
        assert_eq!(after(100, 135, MissedTicks::Delay), 145);
    }

    #[test]
    fn the_end_of_time_is_the_last_tick_of_every_rule() {
        for missed in [MissedTicks::Burst, MissedTicks::Skip, MissedTicks::Delay] {
            assert_eq!(next(Tick::MAX, Tick::MAX, PERIOD, missed), Tick::MAX);
            assert_eq!(next(Tick::ZERO, Tick::MAX, Duration::MAX, missed), Tick::MAX);
            let late = next(Tick::ZERO, Tick::MAX, Duration::from_nanos(1), missed);
            assert_eq!(late, if missed == MissedTicks::Burst { Tick::from_nanos(1) } else { Tick::MAX });
        }
    }
}
