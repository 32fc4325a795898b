//! When occurrences come.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use punctual::{Cron, CronError, CronErrorKind, CronOptions, CronSchedule, Gap, WallOverlap};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// When occurrences come.
///
/// # `H`
/// In a cron expression `H` stands for a value that is arbitrary but always the same: it is derived from the name of the
/// schedule, so it is the same on every node and after every restart. A hundred schedules at `0 0 * * *` start at the same
/// second; at `H H(0-5) * * *` they are spread over the night. Under another name, a schedule comes at other times.
///
/// ```text
/// H H(0-5) * * *        0:00      1:00      2:00      3:00      4:00      5:00
/// "backup"              ───────────────────────────────·────────────────────────────  3:09
/// "nightly-report"      ──────────────────────────────────────────────────────────·─  5:51
/// ```
///
/// ```
/// # use punctual_durable::{Cadence, NewJob, NewSchedule, Timestamp};
/// let first = |name: &str| {
///     let cadence = Cadence::cron("H H(0-5) * * *", "UTC")?;
///     Ok::<_, punctual_durable::Error>(NewSchedule::new(name, cadence, NewJob::new("work", "{}")).first(Timestamp::EPOCH))
/// };
/// let at = |hour: i64, minute: i64| Some(Timestamp::from_micros((60 * hour + minute) * 60_000_000));
/// assert_eq!([first("backup")?, first("nightly-report")?], [at(3, 9), at(5, 51)]);
/// # Ok::<(), punctual_durable::Error>(())
/// ```
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
        match cadence.wall("") {
            // Whether a date can match it depends on the name.
            Some(Err(error)) if error.kind() == CronErrorKind::Impossible && has_h(expression) => Ok(cadence),
            Some(Err(error)) => Err(no_schedule(expression, zone, error)),
            Some(Ok(_)) | None => Ok(cadence),
        }
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

    /// Whether the schedule of that name may have it.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        match self {
            Self::Every(period) | Self::Delay(period) if *period < Duration::from_millis(1) => {
                Err(Error::invalid(format!("a period of {period:?} is less than a millisecond")))
            }
            Self::Every(_) | Self::Delay(_) => Ok(()),
            Self::Cron { expression, zone, .. } => match self.wall(name) {
                Some(Err(error)) => Err(no_schedule(expression, zone, error)),
                Some(Ok(_)) | None => Ok(()),
            },
        }
    }

    /// The schedule of a cron expression under that name, as far as it can be read.
    fn wall(&self, name: &str) -> Option<std::result::Result<CronSchedule, CronError>> {
        let Self::Cron { expression, zone, gap, wall_overlap } = self else { return None };
        let cron = CronOptions::new().seed(name).parse(expression);
        let schedule = cron.and_then(|cron| CronSchedule::new(cron, zone));
        Some(schedule.map(|schedule| schedule.gap(*gap).overlap(*wall_overlap)))
    }

    /// The schedule of a cron expression under that name. What could be read when it was saved can be read now, unless
    /// the zone is gone.
    pub(super) fn on_the_wall(&self, name: &str) -> Option<CronSchedule> {
        self.wall(name)?.ok()
    }

    /// The first time after `now`, for a schedule of that name that begins then. A cron expression that cannot be read any
    /// more has none.
    pub(super) fn first(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(period) | Self::Delay(period) => Some(now.after(*period)),
            Self::Cron { .. } => next_after(&self.on_the_wall(name)?, now),
        }
    }
}

fn no_schedule(expression: &str, zone: &str, error: CronError) -> Error {
    Error::invalid(format!("{expression:?} in {zone:?} is no schedule")).with_source(error)
}

/// Whether it depends on a name.
fn has_h(expression: &str) -> bool {
    Cron::parse(expression).is_err_and(|error| error.kind() == CronErrorKind::Seed)
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

/// The most times that are counted at once, by 4.
const COUNTED: usize = 1_000;

/// How many times of `cron` there are from `first` until before `end`, as far as they are counted.
pub(super) fn count(cron: &CronSchedule, first: Timestamp, end: Timestamp) -> u64 {
    if first >= end {
        return 0;
    }
    let before = Timestamp::from_micros(first.as_micros().saturating_sub(1));
    let walk = std::iter::successors(next_after(cron, before), |time| next_after(cron, *time));
    walk.take_while(|time| *time < end).take(COUNTED).count() as u64
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
