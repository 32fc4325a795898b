//! A time zone: stretches of time, each with one offset from UTC.
//!
//! This is the only file that asks `jiff`, and it asks for no more than that: which offset holds at an instant, and
//! from when until when. What the wall shows, what it skips and what it shows twice follows by addition (see
//! `resolve.rs`), without a second opinion on what "the" instant of an ambiguous wall time is.
//!
//! Names are looked up in the database of the system, so that an update of its rules is an update of ours, and then in
//! the one bundled with `jiff`, name by name: small containers have no database, and some distributions leave old
//! names such as `US/Eastern` out of theirs.

use super::error::{CronError, CronErrorKind};
use jiff::tz::{self, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use std::sync::OnceLock;

/// Beyond every instant, with room to add offsets.
const NEVER: i64 = 1 << 60;

/// A time zone and the name it goes by.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    name: String,
    rules: TimeZone,
}

/// A stretch of time, `start` included and `end` not, in which one offset holds. All in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) offset: i64,
}

impl Stretch {
    /// What the wall shows at the start.
    pub(super) fn first_wall(self) -> i64 {
        self.start + self.offset
    }

    /// What the wall would show at the end.
    pub(super) fn end_wall(self) -> i64 {
        self.end + self.offset
    }

    /// Does the wall show this time within the stretch?
    pub(super) fn shows(self, wall: i64) -> bool {
        (self.first_wall()..self.end_wall()).contains(&wall)
    }
}

impl Zone {
    pub(super) fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    /// A zone that no parliament would decree.
    #[cfg(test)]
    pub(super) fn posix(rules: &str) -> Self {
        Self { name: rules.to_owned(), rules: TimeZone::posix(rules).unwrap() }
    }

    /// The zone of that name; `local` is the one of the system.
    pub(super) fn named(name: &str) -> Result<Self, CronError> {
        if name.eq_ignore_ascii_case("local") {
            return Self::local().ok_or_else(|| {
                let expected = "the zone of this system, which could not be found out, by its name";
                CronError::new(CronErrorKind::Zone, name, 0..name.len(), expected)
            });
        }
        let found = tz::db().get(name).or_else(|_| bundled().get(name));
        match found.ok().filter(|rules| !rules.is_unknown()) {
            Some(rules) => Ok(Self { name: rules.iana_name().unwrap_or(name).to_owned(), rules }),
            None => {
                let expected = "an IANA name such as Europe/Berlin, UTC or local";
                let error = CronError::new(CronErrorKind::Zone, name, 0..name.len(), expected);
                Err(error.suggest(suggestion(name)))
            }
        }
    }

    /// The zone of the system. Where none is set, local time is UTC, as it is for `date`.
    fn local() -> Option<Self> {
        match TimeZone::try_system().ok().filter(|rules| !rules.is_unknown()) {
            Some(rules) => Some(Self { name: rules.iana_name().unwrap_or("local").to_owned(), rules }),
            None => {
                let unset = std::env::var_os("TZ").is_none() && !Path::new("/etc/localtime").exists();
                (cfg!(unix) && unset).then(Self::utc)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The stretch that an instant lies in.
    pub(super) fn stretch(&self, at: i64) -> Stretch {
        let instant = instant(at);
        let start = self.rules.preceding(instant + SignedDuration::from_secs(1)).next();
        let end = self.rules.following(instant).next();
        Stretch {
            start: start.map_or(-NEVER, |change| change.timestamp().as_second()),
            end: end.map_or(NEVER, |change| change.timestamp().as_second()),
            offset: self.rules.to_offset(instant).seconds().into(),
        }
    }

    /// The stretch before, unless this is the first.
    pub(super) fn before(&self, stretch: Stretch) -> Option<Stretch> {
        (stretch.start > Timestamp::MIN.as_second()).then(|| self.stretch(stretch.start - 1))
    }

    /// The stretch after, unless this is the last.
    pub(super) fn after(&self, stretch: Stretch) -> Option<Stretch> {
        (stretch.end < Timestamp::MAX.as_second()).then(|| self.stretch(stretch.end))
    }

    /// Offset and abbreviation at an instant.
    pub(super) fn offset(&self, at: i64) -> (i64, String) {
        let info = self.rules.to_offset_info(instant(at));
        (info.offset().seconds().into(), info.abbreviation().to_owned())
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.rules == other.rules
    }
}

impl Eq for Zone {}

/// The instant, moved into the range that `jiff` knows; its last rule holds for ever.
fn instant(at: i64) -> Timestamp {
    let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second() - 1);
    Timestamp::from_second(at.clamp(first, last)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The database that comes with `jiff`. It keeps what it has parsed, so there is one for all.
fn bundled() -> &'static TimeZoneDatabase {
    static BUNDLED: OnceLock<TimeZoneDatabase> = OnceLock::new();
    BUNDLED.get_or_init(TimeZoneDatabase::bundled)
}

/// The known zone that somebody most likely meant: `Berlin`, `america/new york`, `Europe/Belrin`.
fn suggestion(name: &str) -> Option<String> {
    const LONGEST: usize = 40;
    let folded = |name: &str| name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let wanted = folded(name);
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    let known: Vec<String> =
        tz::db().available().chain(bundled().available()).map(|name| name.as_str().to_owned()).collect();
    let place = |name: &str| folded(name).rsplit('/').next().map(str::to_owned);
    let same = known.iter().find(|known| folded(known) == wanted || place(known).as_ref() == Some(&wanted));
    // Short names are near to everything: PST is no EST.
    let near = || {
        let limit = if wanted.len() < 5 { 0 } else { 1 + wanted.len() / 8 };
        let scored = known.iter().map(|known| (distance(&wanted, &folded(known)), known));
        scored.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
    };
    same.or_else(near).cloned()
}

/// How many letters must be put in, left out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        best = best.min(rows[i - 2][j - 2] + 1);
                    }
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_a_zone_touch_and_cover_all_of_time() {
        for name in ["UTC", "Europe/Berlin", "Asia/Tokyo", "Africa/Casablanca", "Pacific/Apia", "Etc/GMT+12"]
        {
            let zone = Zone::named(name).unwrap();
            let mut stretch = zone.stretch(-NEVER);
            while stretch.end < 10_000_000_000 {
                let next = zone.after(stretch).unwrap();
                assert_eq!(next.start, stretch.end, "{name}: {stretch:?} {next:?}");
                assert_eq!(zone.before(next), Some(stretch));
                assert!(next.end > next.start);
                stretch = next;
            }
            assert_eq!((zone.before(zone.stretch(-NEVER)), zone.after(zone.stretch(NEVER))), (None, None));
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_called_as_the_database_does() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::named("utc").unwrap().name(), "UTC");
        assert_eq!(Zone::named("US/Eastern").unwrap().name(), "US/Eastern");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_right_one() {
        let suggested = |name| Zone::named(name).unwrap_err().suggestion().map(str::to_owned);
        assert_eq!(suggested("Berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggested("new york").as_deref(), Some("America/New_York"));
        assert_eq!(suggested("Europe/Belrin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(suggested("Asia/Toyko").as_deref(), Some("Asia/Tokyo"));
        assert_eq!(suggested("XYZ"), None);
        assert_eq!(suggested(""), None);
        assert_eq!(suggested("Etc/Unknown"), None);
        for hostile in ["../../etc/passwd", "/etc/passwd", "\0", "Europe/\u{1f570}", &"x".repeat(100_000)] {
            assert!(Zone::named(hostile).is_err(), "{hostile:.20}");
        }
    }
}
