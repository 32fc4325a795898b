//! [`Occurrence`]: one fire time, with what the wall shows then.

use super::calendar::{self, DAY};
use super::field::WEEKDAYS;
use super::resolve::{shown_after, shown_before};
use super::schedule::whole_seconds;
use super::zone::Zone;
use std::fmt;
use std::time::SystemTime;

/// What a change of the clocks has to do with an [`Occurrence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockChange {
    /// Nothing: the wall shows this time once.
    None,
    /// Its wall time does not exist, so the [`Gap`](crate::Gap) policy moved it.
    Moved,
    /// Its wall time exists twice, and this is the first time.
    FirstPass,
    /// Its wall time exists twice, and this is the second time.
    SecondPass,
}

/// One fire time of a [`CronSchedule`](crate::CronSchedule), with what the wall shows then.
///
/// It prints as `Sun 2026-03-08 03:00:00 -04:00 EDT`, and with `{:#}` says what the clocks have to do with it.
///
/// # Examples
/// ```
/// use punctual::{ClockChange, CronSchedule};
/// # use std::time::{Duration, UNIX_EPOCH};
///
/// let nightly = CronSchedule::parse("30 2 * * *", "America/New_York")?;
/// let eve = UNIX_EPOCH + Duration::from_secs(1_772_928_000); // 2026-03-08 00:00 UTC
/// let run = nightly.occurrence_after(eve).unwrap();
///
/// assert_eq!(run.wall(), "2026-03-08 03:00:00");
/// assert_eq!((run.offset(), run.abbreviation()), ("-04:00".to_owned(), "EDT"));
/// assert_eq!(run.clock_change(), ClockChange::Moved);
/// assert_eq!(run.skipped().as_deref(), Some("2026-03-08 02:30:00"));
/// assert_eq!(
///     format!("{run:#}"),
///     "Sun 2026-03-08 03:00:00 -04:00 EDT (for 02:30:00, which the clocks skip)",
/// );
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    at: SystemTime,
    /// Seconds on the wall.
    wall: i64,
    offset: i64,
    abbreviation: String,
    change: ClockChange,
    skipped: Option<i64>,
}

impl Occurrence {
    pub(super) fn new(at: SystemTime, zone: &Zone, skipped: Option<i64>) -> Self {
        let seconds = whole_seconds(at);
        let (offset, abbreviation) = zone.offset(seconds);
        let (stretch, wall) = (zone.stretch(seconds), seconds.saturating_add(offset));
        let change = match skipped {
            Some(_) => ClockChange::Moved,
            None if shown_before(zone, stretch, wall).is_some() => ClockChange::SecondPass,
            None if shown_after(zone, stretch, wall).is_some() => ClockChange::FirstPass,
            None => ClockChange::None,
        };
        Self { at, wall, offset, abbreviation, change, skipped }
    }

    /// The instant.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// Date and time on the wall: `2026-03-08 03:00:00`. Fractions of a second, which only `@every` can have, are
    /// left out.
    #[must_use]
    pub fn wall(&self) -> String {
        Wall(self.wall).to_string()
    }

    /// The day of the week on the wall, in English.
    #[must_use]
    pub fn weekday(&self) -> &'static str {
        WEEKDAYS[usize::from(calendar::weekday(self.wall.div_euclid(DAY)))]
    }

    /// The offset from UTC: `-04:00`, and with seconds where a zone has them, as some had long ago.
    #[must_use]
    pub fn offset(&self) -> String {
        let (sign, size) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs());
        let mut text = format!("{sign}{:02}:{:02}", size / 3600, size / 60 % 60);
        if size % 60 != 0 {
            text += &format!(":{:02}", size % 60);
        }
        text
    }

    /// What the zone calls its time then: `EDT`. Zones without a name for it have the offset here, such as `-03`.
    #[must_use]
    pub fn abbreviation(&self) -> &str {
        &self.abbreviation
    }

    /// What a change of the clocks has to do with it.
    #[must_use]
    pub fn clock_change(&self) -> ClockChange {
        self.change
    }

    /// The wall time that the expression asked for, if it does not exist and this occurrence stands for it; the
    /// first one, if it stands for several.
    #[must_use]
    pub fn skipped(&self) -> Option<String> {
        self.skipped.map(|wall| Wall(wall).to_string())
    }
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wall, offset) = (Wall(self.wall), self.offset());
        write!(f, "{} {wall} {offset} {}", &self.weekday()[..3], self.abbreviation)?;
        if !f.alternate() {
            return Ok(());
        }
        match (self.change, self.skipped) {
            (_, Some(wall)) => write!(f, " (for {}, which the clocks skip)", &Wall(wall).to_string()[11..]),
            (ClockChange::FirstPass, _) => f.write_str(" (the first of two such times)"),
            (ClockChange::SecondPass, _) => f.write_str(" (the second of two such times)"),
            _ => Ok(()),
        }
    }
}

/// A wall time as text. Those outside of the calendar, which only `@every` can reach, are counted in days.
struct Wall(i64);

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let first = calendar::number(calendar::Date { year: 1, month: 1, day: 1 });
        let last = calendar::number(calendar::Date { year: 9999, month: 12, day: 31 });
        match (first..=last).contains(&day) {
            true => {
                let date = calendar::date(day);
                write!(f, "{:04}-{:02}-{:02}", date.year, date.month, date.day)?;
            }
            false => write!(f, "{day:+} days")?,
        }
        write!(f, " {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}
