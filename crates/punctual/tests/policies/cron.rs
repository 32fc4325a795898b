//! Tasks by cron expressions, on days when the clocks change.

use std::time::{Duration, SystemTime};

use punctual::{Clock, CronSchedule, Executor, Gap, ManualClock, TaskHandle};

use crate::support::{HOUR, Log, finish, manual};

/// Hours since the beginning of 1970 of 2026-03-08, 00:00 UTC: New York goes forward that day, at 07:00 UTC.
const FORWARD: u64 = 492_480;
/// And of 2026-11-01: it goes back, at 06:00 UTC.
const BACK: u64 = 498_192;

fn hour(hours: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600)
}

/// A pool whose wall clock shows that hour, and a body that notes minutes since then.
fn from(hours: u64) -> (Executor, ManualClock, Log<u64>, impl FnMut() + Send + 'static) {
    let (pool, clock) = manual(1);
    clock.set_wall(hour(hours));
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add(time.wall().duration_since(hour(hours)).unwrap().as_secs() / 60);
    (pool, clock, log, body)
}

#[test]
fn a_nightly_task_runs_once_on_days_when_the_clocks_change() {
    for (day, expression, expected) in [
        // 02:30 does not exist: 03:00, which is 07:00 UTC, and then 06:30 UTC.
        (FORWARD, "30 2 * * *", [7 * 60, (24 + 6) * 60 + 30]),
        // 01:30 exists twice: the first is 05:30 UTC; the day after it is 06:30 UTC.
        (BACK, "30 1 * * *", [5 * 60 + 30, (24 + 6) * 60 + 30]),
    ] {
        let (pool, clock, log, body) = from(day);
        let _task = pool.task(body).cron(expression, "America/New_York").unwrap().start().unwrap();
        clock.advance(47 * HOUR);
        assert_eq!(log.entries(), expected, "{expression}");
        finish(&pool);
    }
}

#[test]
fn a_schedule_with_rules_of_its_own_is_a_calendar() {
    let (pool, clock, log, body) = from(FORWARD);
    let nightly = CronSchedule::parse("30 2 * * *", "America/New_York").unwrap().gap(Gap::Skip);
    let _task = pool.task(body).calendar(nightly).start().unwrap();
    clock.advance(47 * HOUR);
    assert_eq!(log.entries(), [(24 + 6) * 60 + 30]);
    finish(&pool);
}

/// The wall clock goes back by an hour at the very moment at which the zone does, as on a machine that was set to local
/// time: no hour is struck twice.
#[test]
fn a_wall_clock_that_is_set_back_does_not_repeat_what_was_run() {
    let (pool, clock, log, body) = from(BACK);
    let _task = pool.task(body).cron("0 * * * *", "America/New_York").unwrap().start().unwrap();
    clock.advance(6 * HOUR);
    clock.set_wall(hour(BACK + 5));
    clock.advance(3 * HOUR);
    assert_eq!(log.entries(), [60, 120, 180, 240, 300, 360, 420, 480]);
    finish(&pool);
}

#[test]
fn an_h_is_spread_by_the_name_of_the_task() {
    let (pool, _clock) = manual(1);
    let task = |name: &str| -> TaskHandle<()> {
        pool.task(|| ()).name(name).cron("H H * * *", "UTC").unwrap().start().unwrap()
    };
    let [a, b, again] = ["backup", "nightly-report", "backup"].map(task);
    assert_eq!(a.upcoming_wall(3), again.upcoming_wall(3));
    assert_ne!(a.upcoming_wall(3), b.upcoming_wall(3));
    assert!(pool.task(|| ()).cron("H H * * *", "UTC").is_err(), "it has no name");
    finish(&pool);
}

#[test]
fn mistakes_are_found_when_the_schedule_is_made() {
    let (pool, _clock) = manual(1);
    for (expression, zone) in [("0 0 30 2 *", "UTC"), ("61 * * * *", "UTC"), ("0 9 * * *", "Europe/Belrin")] {
        assert!(pool.task(|| ()).cron(expression, zone).is_err(), "{expression} {zone}");
    }
    // A year that has passed is no mistake, but it never comes.
    let past = pool.task(|| ()).cron("0 0 0 1 1 * 1970", "UTC").unwrap().start().unwrap_err();
    assert_eq!(past.reason(), punctual::RejectReason::NeverDue);
    finish(&pool);
}
