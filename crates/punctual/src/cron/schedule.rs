//! [`CronSchedule`]: an expression in a zone, with its policies.

use super::error::CronError;
use super::expression::{Cron, Meaning};
use super::occurrence::Occurrence;
use super::resolve::{Hit, Resolver};
use super::zone::Zone;
use std::fmt;
use std::iter::FusedIterator;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What becomes of a run at a wall time that does not exist, because the clocks go forward over it.
///
/// ```text
/// New York, 8 March 2026: 01:59:59 is followed by 03:00:00
///
/// 0,30 2 * * *    FirstValid   01:00 ────┤├ 03:00*─── 03:30 ────   one run, at the change
///                 Skip         01:00 ────┤├ 03:00 ─── 03:30 ────   no run that day
///                 Shift        01:00 ────┤├ 03:00*─── 03:30*────   two runs, an hour later on the wall
/// ```
///
/// It concerns expressions that name hours. One whose hour is a wildcard or a step through several hours (`*`, `*/2`,
/// `8-18/2`) follows the clock on the wall: it has nothing to do at 02:15 if the wall never shows it.
///
/// A date that does not exist at all, as 30 December 2011 in Apia, is skipped under every policy.
///
/// # Examples
/// ```
/// use punctual::{CronSchedule, Gap};
/// # use std::time::{Duration, UNIX_EPOCH};
///
/// let nightly = CronSchedule::parse("30 2 * * *", "America/New_York")?;
/// let eve = UNIX_EPOCH + Duration::from_secs(1_772_928_000); // 2026-03-08 00:00 UTC
/// let first = |schedule: CronSchedule| schedule.occurrences(eve).next().unwrap().wall();
///
/// assert_eq!(first(nightly.clone()), "2026-03-08 03:00:00");
/// assert_eq!(first(nightly.clone().gap(Gap::Skip)), "2026-03-09 02:30:00");
/// assert_eq!(first(nightly.gap(Gap::Shift)), "2026-03-08 03:30:00");
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Gap {
    /// It happens once, at the first instant after the gap, however many wall times fell into it. The default.
    #[default]
    FirstValid,
    /// It does not happen.
    Skip,
    /// It happens as if the clocks had not been changed: as long after the change as the wall time is after the
    /// beginning of the gap.
    Shift,
}

/// When a run happens whose wall time exists twice, because the clocks go back over it.
///
/// ```text
/// New York, 1 November 2026: 01:59:59 EDT is followed by 01:00:00 EST
///
/// 30 1 * * *      First        01:00 EDT ── 01:30*───┤├ 01:00 EST ── 01:30 ────
///                 Second       01:00 EDT ── 01:30 ───┤├ 01:00 EST ── 01:30*────
///                 Both         01:00 EDT ── 01:30*───┤├ 01:00 EST ── 01:30*────
/// ```
///
/// It concerns expressions that name hours. One whose hour is a wildcard or a step through several hours (`*`, `*/2`,
/// `8-18/2`) follows the clock on the wall through both passes: `*/30 * * * *` runs every thirty minutes of real time.
///
/// # Examples
/// ```
/// use punctual::{CronSchedule, WallOverlap};
/// # use std::time::{Duration, UNIX_EPOCH};
///
/// let early = CronSchedule::parse("30 1 * * *", "America/New_York")?;
/// let eve = UNIX_EPOCH + Duration::from_secs(1_793_491_200); // 2026-11-01 00:00 UTC
/// let first = |schedule: CronSchedule| schedule.occurrences(eve).next().unwrap().to_string();
///
/// assert_eq!(first(early.clone()), "Sun 2026-11-01 01:30:00 -04:00 EDT");
/// assert_eq!(first(early.overlap(WallOverlap::Second)), "Sun 2026-11-01 01:30:00 -05:00 EST");
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WallOverlap {
    /// The first time that the wall shows it. The default.
    #[default]
    First,
    /// The second time.
    Second,
    /// Both times.
    Both,
}

/// When a [`Cron`] expression fires, in a time zone.
///
/// Fire times strictly increase, and each follows from the one before alone: no state, no clock. A schedule ends only
/// if its years do; the calendar covers the years 1 to 9999.
///
/// The rules of the zone are read when the schedule is made. A program that runs for years and wants new rules as
/// parliaments make them makes its schedules anew.
///
/// # Periods
///
/// `@every 1h30m` fires on a grid: at the [anchor](Self::anchor) plus multiples of its period. Zone and policies do
/// not concern it.
///
/// # Examples
/// ```
/// use punctual::CronSchedule;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let report = CronSchedule::parse("0 9 * * MON-FRI", "Europe/Berlin")?;
/// let saturday = UNIX_EPOCH + Duration::from_secs(1_774_656_000); // 2026-03-28 00:00 UTC
/// let next: Vec<String> = report.occurrences(saturday).take(2).map(|run| run.to_string()).collect();
/// // The clocks went forward on Sunday; nine o'clock is nine o'clock.
/// assert_eq!(next, ["Mon 2026-03-30 09:00:00 +02:00 CEST", "Tue 2026-03-31 09:00:00 +02:00 CEST"]);
///
/// let error = CronSchedule::parse("0 9 * * *", "Europe/Belrin").unwrap_err();
/// assert_eq!(error.suggestion(), Some("Europe/Berlin"));
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a schedule does nothing by itself"]
pub struct CronSchedule {
    cron: Cron,
    zone: Zone,
    gap: Gap,
    overlap: WallOverlap,
    anchor: SystemTime,
}

impl CronSchedule {
    /// A schedule in the zone of that name: an IANA name such as `Europe/Berlin`, or `UTC`, or `local` for the zone of
    /// the system.
    ///
    /// # Errors
    /// [`CronError`] if no such zone is known, with the nearest name that is.
    pub fn new(cron: Cron, zone: &str) -> Result<Self, CronError> {
        Ok(Self::with_zone(cron, Zone::named(zone)?))
    }

    /// [`Cron::parse`] and [`CronSchedule::new`] in one.
    ///
    /// # Errors
    /// [`CronError`] if the text is no expression or the zone not known.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        Self::new(Cron::parse(expression)?, zone)
    }

    /// A schedule in UTC, where the clocks never change.
    pub fn utc(cron: Cron) -> Self {
        Self::with_zone(cron, Zone::utc())
    }

    fn with_zone(cron: Cron, zone: Zone) -> Self {
        Self { cron, zone, gap: Gap::default(), overlap: WallOverlap::default(), anchor: UNIX_EPOCH }
    }

    /// What becomes of wall times that do not exist. Default: [`Gap::FirstValid`].
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// What becomes of wall times that exist twice. Default: [`WallOverlap::First`].
    pub fn overlap(mut self, overlap: WallOverlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// A point of the grid of an `@every` period. Default: the beginning of 1970, so that schedules made at different
    /// times, or on different machines, agree.
    ///
    /// # Examples
    /// ```
    /// # use {punctual::CronSchedule, std::time::{Duration, SystemTime}};
    /// let now = SystemTime::now();
    /// let schedule = CronSchedule::parse("@every 10m", "UTC")?.anchor(now);
    /// assert_eq!(schedule.next_after(now), Some(now + Duration::from_secs(600)));
    /// # Ok::<(), punctual::CronError>(())
    /// ```
    pub fn anchor(mut self, anchor: SystemTime) -> Self {
        self.anchor = anchor;
        self
    }

    /// The expression.
    #[must_use]
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// The name of the zone, as the database spells it; `local` only if the zone of the system has no name.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    /// What the schedule means, in plain English.
    ///
    /// # Examples
    /// ```
    /// # use punctual::CronSchedule;
    /// let schedule = CronSchedule::parse("0 9 * * MON-FRI", "Europe/Berlin")?;
    /// assert_eq!(schedule.describe(), "at 09:00, on Monday to Friday (Europe/Berlin)");
    /// # Ok::<(), punctual::CronError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        match self.cron.period() {
            Some(_) => self.cron.describe(),
            None => format!("{} ({})", self.cron.describe(), self.zone()),
        }
    }

    /// The first fire time that is later than `instant`; `None` if there is no more.
    ///
    /// # Examples
    /// ```
    /// # use {punctual::CronSchedule, std::time::{Duration, UNIX_EPOCH}};
    /// let hourly = CronSchedule::parse("@hourly", "UTC")?;
    /// let hour = |n: u64| UNIX_EPOCH + Duration::from_secs(3600 * n);
    /// assert_eq!(hourly.next_after(hour(7)), Some(hour(8)));
    /// # Ok::<(), punctual::CronError>(())
    /// ```
    #[must_use]
    pub fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        match &self.cron.meaning {
            Meaning::Every(period) => next_on_grid(self.anchor, *period, instant),
            Meaning::Pattern { .. } => system_time(self.next_hit(instant)?.at),
        }
    }

    /// The same as [`next_after`](Self::next_after), with what the wall shows then.
    #[must_use]
    pub fn occurrence_after(&self, instant: SystemTime) -> Option<Occurrence> {
        match &self.cron.meaning {
            Meaning::Every(_) => Some(Occurrence::new(self.next_after(instant)?, &self.zone, None)),
            Meaning::Pattern { .. } => {
                let hit = self.next_hit(instant)?;
                Some(Occurrence::new(system_time(hit.at)?, &self.zone, hit.skipped))
            }
        }
    }

    /// The fire times later than `from`, in order.
    pub fn upcoming(&self, from: SystemTime) -> Upcoming<'_> {
        Upcoming { schedule: self, last: Some(from) }
    }

    /// The same as [`upcoming`](Self::upcoming), with what the wall shows then.
    pub fn occurrences(&self, from: SystemTime) -> Occurrences<'_> {
        Occurrences { schedule: self, last: Some(from) }
    }

    fn next_hit(&self, instant: SystemTime) -> Option<Hit> {
        let Meaning::Pattern { pattern, .. } = &self.cron.meaning else { return None };
        let resolver = Resolver { pattern, zone: &self.zone, gap: self.gap, overlap: self.overlap };
        resolver.next(whole_seconds(instant).checked_add(1)?)
    }
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CronSchedule")
            .field("cron", &self.cron)
            .field("zone", &self.zone())
            .field("gap", &self.gap)
            .field("overlap", &self.overlap)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for CronSchedule {
    /// Expression and zone: `0 9 * * MON-FRI (Europe/Berlin)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.cron, self.zone())
    }
}

/// The fire times of a schedule: see [`CronSchedule::upcoming`].
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy"]
pub struct Upcoming<'a> {
    schedule: &'a CronSchedule,
    last: Option<SystemTime>,
}

impl Iterator for Upcoming<'_> {
    type Item = SystemTime;

    fn next(&mut self) -> Option<SystemTime> {
        self.last = self.schedule.next_after(self.last?);
        self.last
    }
}

impl FusedIterator for Upcoming<'_> {}

/// The occurrences of a schedule: see [`CronSchedule::occurrences`].
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy"]
pub struct Occurrences<'a> {
    schedule: &'a CronSchedule,
    last: Option<SystemTime>,
}

impl Iterator for Occurrences<'_> {
    type Item = Occurrence;

    fn next(&mut self) -> Option<Occurrence> {
        let found = self.schedule.occurrence_after(self.last?);
        self.last = found.as_ref().map(Occurrence::at);
        found
    }
}

impl FusedIterator for Occurrences<'_> {}

/// Seconds since 1970, rounded down; far beyond any calendar, the farthest there are.
pub(super) fn whole_seconds(instant: SystemTime) -> i64 {
    match instant.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let up = u64::from(before.subsec_nanos() > 0);
            before.as_secs().checked_add(up).and_then(|s| 0_i64.checked_sub_unsigned(s)).unwrap_or(i64::MIN)
        }
    }
}

/// The instant so many seconds after 1970.
fn system_time(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// The first point of the grid through `anchor` that is later than `instant`.
fn next_on_grid(anchor: SystemTime, period: Duration, instant: SystemTime) -> Option<SystemTime> {
    let rest = |distance: Duration| {
        let rest = distance.as_nanos() % period.as_nanos();
        Duration::new((rest / 1_000_000_000) as u64, (rest % 1_000_000_000) as u32)
    };
    let ahead = match instant.duration_since(anchor) {
        Ok(since) => period - rest(since),
        // Before the anchor: what is left until the next point, or a whole period if this is one.
        Err(until) => Some(rest(until.duration())).filter(|rest| !rest.is_zero()).unwrap_or(period),
    };
    instant.checked_add(ahead)
}
