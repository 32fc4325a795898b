//! Every zone of the database, around every kind of change of its clocks, against the walk.

use crate::brute::{DAY, GAPS, HOUR, Matcher, OVERLAPS, Walk, Watched, datetime};
use crate::support::{at, schedule, seconds};
use jiff::Timestamp;
use jiff::tz::{self, TimeZone};
use punctual::{CronSchedule, Gap, WallOverlap};
use std::collections::BTreeSet;

/// Fixed hours of all kinds, and patterns that follow the clock.
const EXPRESSIONS: [&str; 9] = [
    "30 2 * * *",
    "0 0 * * *",
    "*/20 0-3,23 * * *",
    "15,45 1,2,13 * * *",
    "59 23 * * *",
    "7 22-1 * * MON-FRI",
    "*/30 * * * *",
    "10 */2 * * *",
    "0 12 1,15,L * SUN",
];

/// 1970 and 2038.
const BEGIN: i64 = 0;
const END: i64 = 2_145_916_800;

/// Every name that the database of this system knows, or else the bundled one.
fn names() -> Vec<String> {
    let names: Vec<_> = tz::db().available().map(|name| name.as_str().to_owned()).collect();
    assert!(names.len() > 300, "no database of time zones: {} names", names.len());
    names
}

/// Asked for with PUNCTUAL_CRON_DEEP: every change, not only one of each kind.
fn deep() -> bool {
    std::env::var_os("PUNCTUAL_CRON_DEEP").is_some()
}

/// The instants at which the clocks of a zone change.
fn changes(zone: &TimeZone) -> Vec<(i64, i64, i64)> {
    let begin = Timestamp::from_second(BEGIN).unwrap();
    let mut before = i64::from(zone.to_offset(begin).seconds());
    let mut changes = Vec::new();
    for change in zone.following(begin).take_while(|change| change.timestamp().as_second() < END) {
        let after = i64::from(change.offset().seconds());
        if after != before {
            changes.push((change.timestamp().as_second(), before, after));
        }
        before = after;
    }
    changes
}

#[test]
fn every_policy_holds_around_every_kind_of_change_in_every_zone() {
    let matchers: Vec<_> = EXPRESSIONS.iter().map(|text| Matcher::new(text)).collect();
    let (mut kinds, mut rules, mut compared) = (BTreeSet::new(), BTreeSet::new(), 0);
    for name in names() {
        let zone = TimeZone::get(&name).unwrap();
        let changes = changes(&zone);
        // Many names are links to others.
        if !rules.insert(changes.clone()) {
            continue;
        }
        for (index, &(change, before, after)) in changes.iter().enumerate() {
            // By how much, at what time of the day; and always where another change is near.
            let near = changes.get(index + 1).is_some_and(|next| next.0 - change < 4 * DAY);
            let kind = (before, after, (change + before).rem_euclid(DAY));
            if !kinds.insert(kind) && !near && !deep() {
                continue;
            }
            let (from, to) = (change - 13 * HOUR, change + 13 * HOUR + (after - before).abs());
            let walk = Walk::new(&zone, from, to);
            for (text, matcher) in EXPRESSIONS.iter().zip(&matchers) {
                compare_all(&walk, matcher, text, &name, from, to);
                compared += 1;
            }
            for text in on_the_day(change + before.min(after)) {
                compare_all(&walk, &Matcher::new(&text), &text, &name, from, to);
            }
        }
    }
    assert!(compared > 2000, "only {compared} comparisons");
}

/// Expressions for the hours around a wall time, on its date alone: the time before and after is far away.
fn on_the_day(wall: i64) -> [String; 2] {
    let at = datetime(wall);
    let (year, month, day, hour) = (at.year(), at.month(), at.day(), at.hour());
    let (earlier, later) = ((hour + 23) % 24, (hour + 1) % 24);
    [format!("5/20 {earlier},{hour},{later} {day} {month} *"), format!("0 */15 * {day} {month} ? {year}")]
}

/// Compares schedule and walk under all policies.
fn compare_all(walk: &Walk, matcher: &Matcher, text: &str, zone: &str, from: i64, to: i64) {
    let (plain, watched) = (schedule(text, zone), walk.watch(matcher));
    for gap in GAPS {
        for overlap in OVERLAPS {
            compare(&watched, plain.clone().gap(gap).overlap(overlap), (gap, overlap), from, to);
        }
    }
}

/// Compares schedule and walk under one pair of policies.
pub(crate) fn compare(
    watched: &Watched,
    schedule: CronSchedule,
    policies: (Gap, WallOverlap),
    from: i64,
    to: i64,
) {
    let expected = watched.runs(policies.0, policies.1, from, to);
    let found = schedule.upcoming(at(from - 1)).map(seconds).take_while(|&run| run < to);
    let found: Vec<_> = found.collect();
    assert_eq!(found, expected, "{schedule}, {policies:?}, from {from} to {to}");
}

#[test]
fn fire_times_increase_and_never_end_in_any_zone() {
    const STEP: i64 = 373 * DAY;
    let mut rules = BTreeSet::new();
    for name in names() {
        if !rules.insert(changes(&TimeZone::get(&name).unwrap())) {
            continue;
        }
        for text in ["30 2 * * SUN", "45 1-3 29 2 *"] {
            let schedule = schedule(text, &name);
            for from in (BEGIN..END).step_by(STEP as usize).map(at) {
                let next = schedule.next_after(from).unwrap_or_else(|| panic!("{text} in {name} ends"));
                let after = schedule.next_after(next).unwrap_or_else(|| panic!("{text} in {name} ends"));
                assert!(from < next && next < after, "{text} in {name}");
                // Asked from in between, it is the same run.
                let between = next + after.duration_since(next).unwrap() / 2;
                assert_eq!(schedule.next_after(between), Some(after), "{text} in {name}");
            }
        }
    }
    assert!(rules.len() > 200, "only {} zones", rules.len());
}
