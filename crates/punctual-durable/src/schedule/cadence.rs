//! When occurrences come.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use punctual::{CronError, CronSchedule, Gap, WallOverlap};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// When occurrences come.
///
/// # When the clocks are changed
/// An hour in spring that no wall shows and one in autumn that it shows twice concern only [`Cadence::Cron`], and there
/// only expressions that name hours. What becomes of them is part of the cadence and stored with it: every node and
/// every preview agrees.
///
/// ```text
/// New York, 8 March 2026: 01:59:59 is followed by 03:00:00             30 2 * * *
/// first valid   01:00 ──── 01:30 ────┤├ 03:00*─── 03:30 ────            once, at the change: the default
/// skip          01:00 ──── 01:30 ────┤├ 03:00 ─── 03:30 ────            not on that day
/// shift         01:00 ──── 01:30 ────┤├ 03:00 ─── 03:30*────            an hour later on the wall
///
/// New York, 1 November 2026: 01:59:59 is followed by 01:00:00          30 1 * * *
/// first         01:00 ──── 01:30*────┤├ 01:00 ─── 01:30 ────            the default
/// second        01:00 ──── 01:30 ────┤├ 01:00 ─── 01:30*────
/// both          01:00 ──── 01:30*────┤├ 01:00 ─── 01:30*────            two occurrences, an hour apart
/// ```
///
/// ```
/// use punctual::{Gap, WallOverlap};
/// use punctual_durable::{Cadence, NewJob, NewSchedule, ScheduleRecord, Timestamp};
///
/// let nightly = Cadence::cron("30 2 * * *", "America/New_York")?.gap(Gap::Shift)?;
/// let early = Cadence::cron("30 1 * * *", "America/New_York")?.wall_overlap(WallOverlap::Both)?;
/// let day = |cadence, midnight: i64| {
///     let schedule = NewSchedule::new("s", cadence, NewJob::new("report", "{}"));
///     let [from, until] = [midnight, midnight + 86_400].map(|s| Timestamp::from_micros(1_000_000 * s));
///     let times = ScheduleRecord::saved(schedule, from).times(from, until, 9).unwrap();
///     times.iter().map(|time| time.to_string()[11..16].to_owned()).collect::<Vec<_>>()
/// };
/// // By the clock of Greenwich, which is never changed.
/// assert_eq!(day(nightly, 1_772_928_000), ["07:30"]);
/// assert_eq!(day(early, 1_793_491_200), ["05:30", "06:30"]);
/// # Ok::<(), punctual_durable::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cadence {
    /// On the grid `start + n × period`, however late one is.
    Every(Duration),
    /// This long after the occurrence before it was over.
    Delay(Duration),
    /// By the clock on the wall; see [`punctual::CronSchedule`].
    #[non_exhaustive]
    Cron {
        /// Such as `0 9 * * MON-FRI`.
        expression: String,
        /// Such as `Europe/Berlin`.
        zone: String,
        /// What becomes of wall times that do not exist. Records that do not say have the default.
        #[serde(default, with = "StoredGap", skip_serializing_if = "is_default")]
        gap: Gap,
        /// What becomes of wall times that exist twice. Records that do not say have the default.
        #[serde(default, with = "StoredWallOverlap", skip_serializing_if = "is_default")]
        wall_overlap: WallOverlap,
    },
}

/// How [`Gap`] is stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Gap")]
#[non_exhaustive]
enum StoredGap {
    FirstValid,
    Skip,
    Shift,
}

/// How [`WallOverlap`] is stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "WallOverlap")]
#[non_exhaustive]
enum StoredWallOverlap {
    First,
    Second,
    Both,
}

/// What is at its default is not stored.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Cadence {
    /// By the clock on the wall. When the clocks are changed, [`Gap::FirstValid`] and [`WallOverlap::First`] say what
    /// happens, unless [`gap`](Self::gap) and [`wall_overlap`](Self::wall_overlap) say otherwise.
    ///
    /// # Errors
    /// If the expression or the zone makes no sense.
    pub fn cron(expression: &str, zone: &str) -> Result<Self> {
        let (gap, wall_overlap) = (Gap::default(), WallOverlap::default());
        let cadence =
            Self::Cron { expression: expression.to_owned(), zone: zone.to_owned(), gap, wall_overlap };
        cadence.check().map(|()| cadence)
    }

    /// What becomes of wall times that do not exist. Default: [`Gap::FirstValid`].
    ///
    /// # Errors
    /// If it does not go by the clock on the wall.
    pub fn gap(mut self, policy: Gap) -> Result<Self> {
        match &mut self {
            Self::Cron { gap, .. } => *gap = policy,
            other => return Err(other.knows_no_wall("wall times that do not exist")),
        }
        Ok(self)
    }

    /// What becomes of wall times that exist twice. Default: [`WallOverlap::First`].
    ///
    /// # Errors
    /// If it does not go by the clock on the wall.
    pub fn wall_overlap(mut self, policy: WallOverlap) -> Result<Self> {
        match &mut self {
            Self::Cron { wall_overlap, .. } => *wall_overlap = policy,
            other => return Err(other.knows_no_wall("wall times that exist twice")),
        }
        Ok(self)
    }

    fn knows_no_wall(&self, what: &str) -> Error {
        Error::invalid(format!("a schedule that comes {self} knows no {what}: only a cron expression does"))
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Every(period) | Self::Delay(period) if *period < Duration::from_millis(1) => {
                Err(Error::invalid(format!("a period of {period:?} is less than a millisecond")))
            }
            Self::Every(_) | Self::Delay(_) => Ok(()),
            Self::Cron { expression, zone, .. } => match self.wall() {
                Some(Err(error)) => {
                    Err(Error::invalid(format!("{expression:?} in {zone:?} is no schedule"))
                        .with_source(error))
                }
                _ => Ok(()),
            },
        }
    }

    /// The schedule of a cron expression, as far as it can be read.
    fn wall(&self) -> Option<std::result::Result<CronSchedule, CronError>> {
        let Self::Cron { expression, zone, gap, wall_overlap } = self else { return None };
        let schedule = CronSchedule::parse(expression, zone);
        Some(schedule.map(|schedule| schedule.gap(*gap).overlap(*wall_overlap)))
    }

    /// The schedule of a cron expression. What could be read when it was saved can be read now, unless the zone is gone.
    pub(super) fn on_the_wall(&self) -> Option<CronSchedule> {
        self.wall()?.ok()
    }

    /// The first time after `now`, for a schedule that begins then. A cron expression that cannot be read any more has
    /// none.
    pub(super) fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(period) | Self::Delay(period) => Some(now.after(*period)),
            Self::Cron { .. } => next_after(&self.on_the_wall()?, now),
        }
    }
}

pub(super) fn next_after(cron: &CronSchedule, instant: Timestamp) -> Option<Timestamp> {
    cron.next_after(instant.to_system_time()?).map(Timestamp::from)
}

/// The latest `most` times of `cron` from `first`, which is one, to `until`; in order.
///
/// By 4 of `schedule.rs` it does not walk along from `first`: it walks through a window at the end. One that has too few
/// times in it is made longer; one that has far too many, because a dense stretch lies before a long silence, shorter
/// again.
pub(super) fn latest(
    cron: &CronSchedule,
    first: Timestamp,
    until: Timestamp,
    most: usize,
) -> VecDeque<Timestamp> {
    // A window that is made longer has hardly more than this, if the times lie evenly.
    let steps = most.saturating_mul(10).max(1_000);
    let (mut too_short, mut too_long) = (Duration::ZERO, None);
    let mut window = Duration::from_secs(2);
    loop {
        let from = first.max(until.before(window));
        let before = Timestamp::from_micros(from.as_micros().saturating_sub(1));
        let walk = std::iter::successors(next_after(cron, before), |time| next_after(cron, *time));
        let mut found = VecDeque::new();
        let mut walked = 0;
        for time in walk.take_while(|time| *time <= until).take(steps) {
            walked += 1;
            found.push_back(time);
            if found.len() > most {
                found.pop_front();
            }
        }
        if walked < steps && (found.len() == most || from == first) {
            return found;
        }
        if walked < steps {
            too_short = window;
        } else {
            too_long = Some(window);
        }
        // Times lie a second apart or more, so between the two there is a window with enough of them and no more.
        window = too_long.map_or(window.saturating_mul(8), |too_long| too_short + (too_long - too_short) / 2);
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(period) => write!(f, "every {period:?}"),
            Self::Delay(delay) => write!(f, "{delay:?} after the last"),
            Self::Cron { expression, zone, .. } => write!(f, "{expression} ({zone})"),
        }
    }
}
