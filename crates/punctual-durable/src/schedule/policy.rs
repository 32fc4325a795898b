//! What happens when occurrences were missed, would overlap, or fail.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cadence::is_default;

/// What becomes of occurrences whose time has passed while nobody could fire them. One that is at most a second late is
/// not missed: it happens, and counts among the latest.
///
/// ```text
/// nominal   1    2    3    4    5         nobody was there from 1 to 4½
/// skip                          5
/// once                       4  5         the latest of them, late
/// all(2)                   3 4  5         the latest two
/// shift                      4    5       the latest of them, now, and the others from then on
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Missed {
    pub(super) most: u32,
    pub(super) within: Option<Duration>,
    /// Whether the grid moves. Records that do not say do not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) shifts: bool,
}

impl Missed {
    /// The most occurrences that are made up for: they become jobs in one transaction.
    pub const MOST: u32 = 100_000;

    /// None of them happens.
    #[must_use]
    pub const fn skip() -> Self {
        Self::all(0)
    }

    /// The latest of them happens. The default.
    #[must_use]
    pub const fn once() -> Self {
        Self::all(1)
    }

    /// The latest `most` of them happen. No schedule is saved with more than [`MOST`](Self::MOST).
    #[must_use]
    pub const fn all(most: u32) -> Self {
        Self { most, within: None, shifts: false }
    }

    /// One happens, and the grid goes on from there: the next comes a whole period after it. For a fixed rate alone.
    ///
    /// ```
    /// use punctual_durable::{Cadence, Missed, NewJob, NewSchedule, ScheduleRecord, Timestamp};
    /// use std::time::Duration;
    ///
    /// let mut hourly = NewSchedule::new("water", Cadence::Every(Duration::from_secs(3600)), NewJob::new("water", "{}"));
    /// hourly.missed = Missed::shift();
    /// let at = |minutes: i64| Timestamp::from_micros(60_000_000 * minutes);
    /// // It begins at midnight, and nobody is there until twenty past three.
    /// let firing = ScheduleRecord::saved(hourly, at(0)).firing(at(200), at(200)).unwrap();
    /// assert_eq!((firing.occurrences, firing.next), (vec![at(200)], Some(at(260))));
    /// ```
    #[must_use]
    pub const fn shift() -> Self {
        Self { most: 1, within: None, shifts: true }
    }

    /// Only those that are not later than this.
    #[must_use]
    pub const fn within(mut self, lateness: Duration) -> Self {
        self.within = Some(lateness);
        self
    }

    /// Whatever it says, it may have been saved by somebody who did not check.
    pub(super) fn most(self) -> u32 {
        self.most.min(Self::MOST)
    }
}

impl Default for Missed {
    fn default() -> Self {
        Self::once()
    }
}

/// What happens when it is time for an occurrence and the one before is not over: it waits, or is tried again, or runs.
///
/// ```text
/// nominal     1         2         3         4         5
/// wait        [============1============][3][4]       [5]    of those that wait, the latest happens
/// skip        [============1============]   [4]       [5]
/// replace     [===1====]![2]      [3]       [4]       [5]    the first is asked to stop, the second follows it
/// at most 2   [============1============]
///                       [============2============]
///                                           [=====4=====     3 had no place
/// allow       each on its own, as many as there are
/// ```
///
/// It is decided in the transaction in which the occurrence comes, so it holds over all nodes. Occurrences that somebody
/// has [asked for](crate::Client::trigger) happen in any case, and count while they are alive.
///
/// ```
/// # use punctual::ManualClock;
/// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore, Overlap};
/// # use std::{sync::Arc, sync::mpsc, time::Duration};
/// # let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
/// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
/// # let (sender, receiver) = mpsc::channel();
/// let jobs = builder
///     .handle("poll", move |_: (), cx: &JobContext| {
///         sender.send(cx.series().unwrap().1)?;
///         cx.sleep(Duration::from_secs(3600))?; // it hangs
///         Ok(Done)
///     })
///     .start()?;
/// // One that hangs is given up when the next one comes.
/// jobs.schedule("poll").every(minute).overlap(Overlap::Replace).job(()).save()?;
/// clock.advance(10 * minute);
/// assert_eq!(receiver.try_iter().count(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Overlap {
    /// It waits until that one is over; of several that wait the latest happens, and the others are skipped. The default.
    #[default]
    Wait,
    /// It is skipped.
    Skip,
    /// It happens all the same, however many are alive.
    Allow,
    /// It happens all the same, unless so many are alive: then it is skipped. At least 1, which is the same as
    /// [`Skip`](Self::Skip).
    AtMost(u32),
    /// The one before is cancelled. If it has not begun, or waits to be tried again, that is all, and the new one takes
    /// its place. If it runs, its handler is [asked to stop](crate::JobContext::stopped), and the new one happens
    /// as soon as it is over: never two at once, and only a handler that heeds the request is really replaced.
    ///
    /// It is asked when the new one comes, not before. On the node that makes the new one it hears of that at once, on
    /// others as of any [cancel](crate::Client::cancel): with the next renewal of their lease.
    Replace,
}

impl Overlap {
    /// How many may be alive at once.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Wait | Self::Skip | Self::Replace => 1,
            Self::AtMost(most) => usize::try_from(most).unwrap_or(usize::MAX),
            Self::Allow => usize::MAX,
        }
    }
}

/// What becomes of a schedule whose occurrences fail. One has failed if its job is [dead](crate::JobState::Dead): all its
/// attempts have failed, or it was lost.
///
/// ```text
/// nominal         1       2       3       4       5       6
/// continue        ok      DEAD    DEAD    DEAD    ok      ok
/// stop after 2    ok      DEAD    DEAD    ── paused ──▶ until it is resumed
/// ```
///
/// They are counted as they end, in the transactions in which they do. One that is done or discarded begins the count
/// anew, one that is cancelled says nothing. [`ScheduleRecord::failures`](crate::ScheduleRecord::failures) shows it.
///
/// ```
/// # use punctual::ManualClock;
/// # use punctual_durable::{JobContext, JobError, Jobs, MemoryStore, OnFailure, Outcome};
/// # use std::{sync::Arc, time::Duration};
/// # let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
/// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
/// let jobs = builder
///     .handle("poll", |_: (), _: &JobContext| Err::<Outcome, _>(JobError::permanent("no such host")))
///     .start()?;
/// jobs.schedule("poll").every(minute).on_failure(OnFailure::StopAfter(3)).job(()).save()?;
/// clock.advance(10 * minute);
/// let poll = jobs.schedules()?.remove(0);
/// assert_eq!(poll.last, poll.definition.first(jobs.store().now().before(8 * minute)), "the third");
/// assert_eq!(poll.paused.unwrap().1, "3 occurrences in a row have failed");
/// jobs.resume_schedule("poll")?;
/// assert!(jobs.schedules()?[0].paused.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnFailure {
    /// It goes on as if nothing had happened. The default.
    #[default]
    Continue,
    /// It goes on until so many in a row have failed, at least 1; then it is paused, with a reason that says so.
    /// [Resumed](crate::Client::resume_schedule), it counts anew.
    StopAfter(u32),
}
