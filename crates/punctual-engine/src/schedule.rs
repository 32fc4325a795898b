//! When a task runs, and when it runs again.
//!
//! A schedule is data; [`Schedule::next`] is its one rule. The executor asks once after each run and obeys.
//!
//! ```text
//!                 0    1    2    3    4    5    6    7    8   (period 2, the second run takes 3)
//! FixedRate       [1]       [===2===]  [3] [4]       [5]      grid stays: late runs catch up
//! FixedDelay      [1]            [===2===]      [3]           period counts from the end of a run
//! FixedStart      [1]       [===2===]  [3]       [4]          period counts from the start of a run
//! ```

use core::time::Duration;

use crate::Tick;

/// How often a task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// One run.
    #[default]
    Once,
    /// Deadlines on the grid `first + n × period`, however late a run starts.
    FixedRate(Duration),
    /// Each deadline a fixed delay after the previous run *ended*.
    FixedDelay(Duration),
    /// Each deadline a fixed delay after the previous run *started*: the rule of Java's `Timer`.
    FixedStart(Duration),
    /// Deadlines that are not known here: whoever queues the task finds them elsewhere, in a calendar for one.
    Custom,
}

/// What is known about a run that has just ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunTimes {
    /// The instant from which the run was allowed.
    pub deadline: Tick,
    /// When its body began.
    pub started: Tick,
    /// When its body had returned.
    pub ended: Tick,
}

impl Schedule {
    /// Whether more than one run may come of it.
    #[must_use]
    pub const fn is_periodic(self) -> bool {
        !matches!(self, Self::Once)
    }

    /// The time between two runs, if there is one.
    #[must_use]
    pub const fn period(self) -> Option<Duration> {
        match self {
            Self::Once | Self::Custom => None,
            Self::FixedRate(period) | Self::FixedDelay(period) | Self::FixedStart(period) => Some(period),
        }
    }

    /// The deadline of the run after `run`; `None` if that was the last, or is not for this rule to say. Saturates at
    /// [`Tick::MAX`].
    #[must_use]
    pub fn next(self, run: RunTimes) -> Option<Tick> {
        match self {
            Self::Once | Self::Custom => None,
            Self::FixedRate(period) => Some(run.deadline.after(period)),
            Self::FixedDelay(delay) => Some(run.ended.after(delay)),
            Self::FixedStart(period) => Some(run.started.after(period)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RunTimes, Schedule};
    use crate::Tick;
    use core::time::Duration;

    const RUN: RunTimes = RunTimes {
        deadline: Tick::from_nanos(100),
        started: Tick::from_nanos(107),
        ended: Tick::from_nanos(130),
    };
    const TEN: Duration = Duration::from_nanos(10);

    /// ST-023, ST-035, TM-012: which of its three instants the next deadline counts from is the whole
    /// difference between the periodic kinds.
    #[test]
    fn each_kind_counts_from_its_own_instant() {
        assert_eq!(Schedule::Once.next(RUN), None);
        assert_eq!(Schedule::FixedRate(TEN).next(RUN), Some(Tick::from_nanos(110)));
        assert_eq!(Schedule::FixedDelay(TEN).next(RUN), Some(Tick::from_nanos(140)));
        assert_eq!(Schedule::FixedStart(TEN).next(RUN), Some(Tick::from_nanos(117)));
    }

    /// ST-048: the addition at a re-queue saturates too.
    #[test]
    fn a_maximal_period_leads_to_the_end_of_time() {
        for schedule in [
            Schedule::FixedRate(Duration::MAX),
            Schedule::FixedDelay(Duration::MAX),
            Schedule::FixedStart(Duration::MAX),
        ] {
            assert_eq!(schedule.next(RUN), Some(Tick::MAX));
        }
    }

    #[test]
    fn only_once_is_not_periodic() {
        assert!(!Schedule::Once.is_periodic());
        assert_eq!(Schedule::Once.period(), None);
        assert!(Schedule::FixedRate(TEN).is_periodic());
        assert_eq!(Schedule::FixedDelay(TEN).period(), Some(TEN));
    }
}
