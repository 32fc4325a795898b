//! The ends of time, and of patience.

use crate::support::{at, cron, instant, schedule, seconds};
use punctual::{CronSchedule, Gap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first and the last instants that this platform knows.
fn ends() -> (SystemTime, SystemTime) {
    let farthest = |step: &dyn Fn(SystemTime, Duration) -> Option<SystemTime>| {
        let mut reached = UNIX_EPOCH;
        for power in (0..64).rev() {
            while let Some(farther) = step(reached, Duration::from_secs(1 << power)) {
                reached = farther;
            }
        }
        step(reached, Duration::from_nanos(999_999_999)).unwrap_or(reached)
    };
    (farthest(&|at, by| at.checked_sub(by)), farthest(&|at, by| at.checked_add(by)))
}

const ZONES: [&str; 4] = ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Etc/GMT+12"];

#[test]
fn after_the_last_instant_there_is_nothing_and_the_first_is_before_everything() {
    let (first, last) = ends();
    for zone in ZONES {
        for text in ["* * * * * *", "0 0 * * *", "0 0 29 2 *", "0 0 0 1 1 ? 9999"] {
            let schedule = schedule(text, zone);
            assert_eq!(schedule.next_after(last), None);
            let run = schedule.occurrence_after(first).unwrap();
            assert!(
                run.at() > first && run.wall().as_str() >= "0001-01-01 00:00:00",
                "{text} in {zone}: {run}"
            );
        }
    }
    for text in ["@every 1ms", "@every 1000000w"] {
        let period = schedule(text, "UTC");
        assert!(period.next_after(first).is_some_and(|next| next > first));
        assert!(period.next_after(last).is_none_or(|next| next > last));
        assert!(period.clone().anchor(last).next_after(first).is_some_and(|next| next > first));
        assert!(period.clone().anchor(first).next_after(last).is_none_or(|next| next > last));
        assert_eq!(period.occurrence_after(first).map(|run| run.at()), period.next_after(first));
    }
}

#[test]
fn the_last_second_of_the_calendar_fires_in_every_zone() {
    for zone in ZONES {
        let schedule = schedule("* * * * * *", zone);
        let near = instant("9999-12-29T00:00Z");
        let mut last = near;
        for step in [DAY, 3600, 60, 1] {
            let earlier = |at: SystemTime| at - Duration::from_secs(1);
            while let Some(next) = schedule.next_after(earlier(last) + Duration::from_secs(step)) {
                last = next;
            }
        }
        let run = schedule.occurrence_after(last - Duration::from_secs(1)).unwrap();
        assert_eq!(run.wall(), "9999-12-31 23:59:59", "{zone}");
        assert_eq!(schedule.next_after(last), None);
    }
}

const DAY: u64 = 86_400;

#[test]
fn fractions_of_seconds_round_towards_the_next_run() {
    let schedule = schedule("* * * * * *", "UTC");
    for base in [-5, 0, 5] {
        let nano = Duration::from_nanos(1);
        assert_eq!(schedule.next_after(at(base) - nano), Some(at(base)));
        assert_eq!(schedule.next_after(at(base)), Some(at(base + 1)));
        assert_eq!(schedule.next_after(at(base) + nano), Some(at(base + 1)));
    }
}

#[test]
fn years_that_have_passed_are_no_error_and_have_no_next() {
    let past = schedule("0 0 0 * * * 1999", "Europe/Berlin");
    assert_eq!(past.next_after(instant("2026-01-01T00:00Z")), None);
    assert_eq!(past.upcoming(instant("1999-12-29T12:00Z")).count(), 2);
    assert_eq!(past.upcoming(instant("1998-01-01T00:00Z")).count(), 365);
}

#[test]
fn rare_dates_are_found_at_once() {
    let next =
        |text, zone| schedule(text, zone).occurrence_after(instant("2073-01-01T00:00Z")).unwrap().wall();
    assert_eq!(next("0 0 29 2 +MON", "Europe/Berlin"), "2112-02-29 00:00:00");
    // 2100 is no leap year, so forty years pass between two of these.
    let sundays = schedule("0 0 29 2 +SUN", "UTC");
    let years = sundays.occurrences(instant("2073-01-01T00:00Z")).map(|run| run.wall()[..4].to_owned());
    assert_eq!(years.take(2).collect::<Vec<_>>(), ["2088", "2128"]);
    assert_eq!(next("0 0 0 1 1 ? 9999", "America/New_York"), "9999-01-01 00:00:00");
    assert_eq!(next("0 0 0 29 2 ? 2100,2200,2400,9999", "Asia/Tokyo"), "2400-02-29 00:00:00");
}

#[test]
fn a_schedule_whose_every_time_is_skipped_ends_instead_of_searching_for_ever() {
    // New York goes forward at 02:00 on the second Sunday of March; so it has been decided for all time.
    let never = schedule("30 2 ? 3 SUN#2", "America/New_York").gap(Gap::Skip);
    assert_eq!(never.next_after(instant("2026-01-01T00:00Z")), None);
    let moved = never.gap(Gap::FirstValid);
    assert_eq!(moved.upcoming(instant("2026-01-01T00:00Z")).take(100).count(), 100);
}

#[test]
fn a_period_fires_on_its_grid_before_and_after_its_anchor() {
    let anchor = at(1000);
    let every = CronSchedule::utc(cron("@every 1m30s")).anchor(anchor);
    let next = |from: i64| every.next_after(at(from)).map(seconds);
    assert_eq!(next(1000), Some(1090));
    assert_eq!(next(1089), Some(1090));
    assert_eq!(next(999), Some(1000));
    assert_eq!(next(910), Some(1000));
    assert_eq!(next(909), Some(910));
    assert_eq!(next(-2000), Some(-1970));
    let half = CronSchedule::utc(cron("@every 500ms"));
    assert_eq!(half.next_after(at(7)), Some(at(7) + Duration::from_millis(500)));
}

#[test]
fn iterators_stay_at_their_end() {
    let once = schedule("0 0 0 1 1 ? 2030", "UTC");
    let mut upcoming = once.upcoming(instant("2026-01-01T00:00Z"));
    assert!(upcoming.next().is_some());
    assert_eq!((upcoming.next(), upcoming.next()), (None, None));
    let mut occurrences = once.occurrences(instant("2026-01-01T00:00Z"));
    assert!(occurrences.next().is_some());
    assert_eq!((occurrences.next(), occurrences.next()), (None, None));
}
