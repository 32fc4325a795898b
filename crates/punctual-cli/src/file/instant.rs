//! Time zones by name, and instants written as dates.

use std::fmt;
use std::time::SystemTime;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::near::nearest;

/// The name of a zone that exists: `Europe/Berlin`, `UTC`, or `local` for the machine's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ZoneName(String);

impl ZoneName {
    /// The machine's own zone.
    pub(crate) fn local() -> Self {
        Self("local".to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The rules of the zone. It existed when the name was checked; should it be gone, the machine's is used.
    pub(crate) fn rules(&self) -> TimeZone {
        zone(&self.0).map_or_else(|_| TimeZone::system(), |(_, zone)| zone)
    }

    /// `2026-12-24 18:00:00 CET`
    pub(crate) fn show(&self, instant: SystemTime) -> String {
        match Timestamp::try_from(instant) {
            Ok(timestamp) => timestamp.to_zoned(self.rules()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
            Err(_) => "beyond all dates".to_owned(),
        }
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Looks a zone up.
///
/// # Errors
/// What is wrong, and what may have been meant.
pub(crate) fn zone(name: &str) -> Result<(ZoneName, TimeZone), (String, String)> {
    if name.eq_ignore_ascii_case("local") {
        return Ok((ZoneName::local(), TimeZone::system()));
    }
    match TimeZone::get(name) {
        Ok(zone) => Ok((ZoneName(name.to_owned()), zone)),
        Err(_) => {
            let names: Vec<_> = jiff::tz::db().available().map(|name| name.to_string()).collect();
            let help = match guess(name, &names) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "write a name such as \"Europe/Berlin\", \"UTC\", or \"local\"".to_owned(),
            };
            Err((format!("no time zone is called `{}`", name.escape_debug()), help))
        }
    }
}

/// A near name, or the zone of a city that was named alone.
fn guess<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let city = |zone: &&'a String| {
        zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&name.replace(' ', "_")))
    };
    let by_city = names.iter().find(city).map(String::as_str);
    by_city.or_else(|| nearest(name, names.iter().map(String::as_str)))
}

/// The instant that `text` names in `zone`: a date and a time, with an offset of its own or without.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn instant(text: &str, zone: &TimeZone) -> Result<SystemTime, String> {
    let text = text.trim();
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp.into());
    }
    let wall = wall_time(text)?;
    let ambiguous = zone.to_ambiguous_zoned(wall);
    if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
        let first = ambiguous.later().map(|zoned: Zoned| zoned.strftime("%H:%M").to_string());
        let first = first.unwrap_or_default();
        return Err(format!("{wall} does not exist in this zone: clocks are put forward then, past {first}"));
    }
    let zoned = ambiguous.earlier().map_err(|error| format!("{wall} is out of range: {error}"))?;
    Ok(zoned.timestamp().into())
}

fn wall_time(text: &str) -> Result<DateTime, String> {
    let has_time = text.contains(':');
    match text.parse::<DateTime>() {
        Ok(wall) if has_time => Ok(wall),
        Ok(_) => Err(format!("`{text}` has no time of day")),
        Err(_) => Err(format!("`{text}` is not a date and time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin() -> TimeZone {
        zone("Europe/Berlin").unwrap().1
    }

    fn utc(text: &str) -> Result<String, String> {
        instant(text, &berlin()).map(|instant| Timestamp::try_from(instant).unwrap().to_string())
    }

    #[test]
    fn a_date_without_an_offset_is_meant_in_the_zone() {
        assert_eq!(utc("2026-12-24T18:00:00").unwrap(), "2026-12-24T17:00:00Z");
        assert_eq!(utc("2026-12-24 18:00").unwrap(), "2026-12-24T17:00:00Z");
        assert_eq!(utc("2026-12-24T18:00:00Z").unwrap(), "2026-12-24T18:00:00Z");
        assert_eq!(utc("2026-12-24T18:00:00-05:00").unwrap(), "2026-12-24T23:00:00Z");
    }

    #[test]
    fn a_time_that_does_not_exist_is_refused_and_one_that_exists_twice_is_the_first() {
        assert!(utc("2026-03-29T02:30:00").unwrap_err().contains("does not exist"));
        assert_eq!(utc("2026-10-25T02:30:00").unwrap(), "2026-10-25T00:30:00Z");
    }

    #[test]
    fn what_is_no_date_with_a_time_is_refused() {
        assert!(utc("2026-12-24").unwrap_err().contains("no time of day"));
        for text in ["", "18:00", "tomorrow", "2026-13-01T00:00"] {
            assert!(utc(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_zone_that_is_misspelt_or_named_by_its_city_is_guessed() {
        for (written, meant) in
            [("Europe/Berln", "Europe/Berlin"), ("berlin", "Europe/Berlin"), ("new york", "America/New_York")]
        {
            let (_, help) = zone(written).unwrap_err();
            assert_eq!(help, format!("did you mean \"{meant}\"?"));
        }
        assert!(zone("Mars/Olympus Mons").is_err());
        assert!(zone("").is_err());
    }
}
