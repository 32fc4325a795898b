//! What happens when a run comes due while another of the same task is going on.

use super::missed::Missed;

/// Whether runs of one task may overlap, and if not, what happens to the one that comes due too soon.
///
/// ```text
/// grid       1         2         3         4         5
/// never      [============1============] what came due follows the `Missed` policy
/// queue      [============1============][3][4]       [5]    one waits, the others are left out
/// replace    [===1====]![2]      [3]       [4]       [5]    the run is asked to stop, the new one follows it
/// allow(2)   [============1============]
///                      [============2============]
///                                        [============4===  up to two at once; 3 had no place
/// ```
///
/// With everything but `Allow` a task runs on one thread at a time, and each run sees what the one before it did.
///
/// ```
/// use punctual::{Executor, ManualClock, Overlap, TaskContext};
/// use std::time::Duration;
///
/// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// // A poll that hangs is given up when the next one is due.
/// let poll = pool
///     .task(|| TaskContext::current().sleep(Duration::from_secs(3600)))
///     .every(second)
///     .overlap(Overlap::Replace)
///     .start()?;
/// clock.advance(10 * second);
/// assert_eq!(poll.runs(), 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// A run begins when the one before it has ended; what came due meanwhile follows [`Missed`]. The default, and
    /// Java's rule.
    #[default]
    Never,
    /// One run waits for the end of the one before it; whatever else came due meanwhile is left out.
    Queue,
    /// The run that is going on is [asked to stop](crate::TaskContext::is_interrupted) when the next one is due,
    /// and that begins as soon as it has. Only a body that heeds the request is really replaced; a
    /// [future](crate::Scheduler::task_async) always is, because it is dropped.
    Replace,
    /// Up to so many runs at once, each on a thread of its own, or none while a future waits; what comes due beyond that
    /// is left out. Needs a body that may be called from several threads:
    /// [`start_shared`](crate::PeriodicBuilder::start_shared).
    Allow(usize),
}

impl Overlap {
    /// The rule for what came due during a run.
    pub(crate) fn rule(self, missed: Missed) -> Missed {
        match self {
            Self::Never => missed,
            // One at a time, or beats that take no time.
            Self::Allow(lanes) if lanes > 1 => missed,
            Self::Allow(_) => Missed::skip(),
            Self::Queue | Self::Replace => match missed.max_lateness() {
                None => Missed::once(),
                Some(lateness) => Missed::once().within(lateness),
            },
        }
    }

    /// Whether a run is to be asked to stop when the next one is due.
    pub(crate) fn replaces(self) -> bool {
        self == Self::Replace
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Missed, Overlap};
    use std::time::Duration;

    #[test]
    fn one_run_waits_whatever_the_rule_for_missed_ones() {
        let minute = Duration::from_secs(60);
        for missed in [Missed::burst().at_most(3), Missed::skip(), Missed::shift()] {
            assert_eq!(Overlap::Never.rule(missed), missed);
            assert_eq!(Overlap::Queue.rule(missed), Missed::once());
            assert_eq!(Overlap::Replace.rule(missed.within(minute)), Missed::once().within(minute));
        }
    }
}
