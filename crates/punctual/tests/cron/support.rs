//! Instants from text, and the walls that tests speak of.

use jiff::Timestamp;
use punctual::{Cron, CronSchedule};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant from seconds since 1970.
pub(crate) fn at(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// Seconds since 1970, of an instant that is a whole number of them.
pub(crate) fn seconds(instant: SystemTime) -> i64 {
    match instant.duration_since(UNIX_EPOCH) {
        Ok(after) => {
            assert_eq!(after.subsec_nanos(), 0);
            after.as_secs() as i64
        }
        Err(before) => {
            assert_eq!(before.duration().subsec_nanos(), 0);
            -(before.duration().as_secs() as i64)
        }
    }
}

/// An instant from text such as `2026-03-08T07:00Z`.
pub(crate) fn instant(text: &str) -> SystemTime {
    at(text.parse::<Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).as_second())
}

pub(crate) fn cron(text: &str) -> Cron {
    Cron::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn schedule(text: &str, zone: &str) -> CronSchedule {
    CronSchedule::new(cron(text), zone).unwrap_or_else(|error| panic!("{zone}: {error}"))
}

/// What the wall shows at every run from one instant, exclusive, to another, inclusive: `03-08 03:00 EDT`.
pub(crate) fn walls(schedule: &CronSchedule, from: &str, to: &str) -> Vec<String> {
    let runs = schedule.occurrences(instant(from)).take_while(|run| run.at() <= instant(to));
    runs.map(|run| format!("{} {}", &run.wall()[5..16], run.abbreviation())).collect()
}
