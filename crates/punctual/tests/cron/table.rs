//! The days on which schedulers disagree, one test for each row of the table in the comparison.

use crate::support::{instant, schedule, walls};
use punctual::{ClockChange, Gap, WallOverlap};

const NEW_YORK: &str = "America/New_York";

#[test]
fn a_time_in_a_gap_fires_once_at_the_first_valid_instant() {
    let nightly = schedule("30 2 * * *", NEW_YORK);
    let days = walls(&nightly, "2026-03-07T05:00Z", "2026-03-10T05:00Z");
    assert_eq!(days, ["03-07 02:30 EST", "03-08 03:00 EDT", "03-09 02:30 EDT"]);
}

#[test]
fn a_list_in_a_gap_fires_once() {
    let nightly = schedule("0,30 2 * * *", NEW_YORK);
    let runs = walls(&nightly, "2026-03-08T05:00Z", "2026-03-09T05:00Z");
    assert_eq!(runs, ["03-08 03:00 EDT"]);
}

#[test]
fn a_time_in_a_gap_and_the_time_after_it_are_one_run() {
    let nightly = schedule("0 2,3 * * *", NEW_YORK);
    let runs: Vec<_> = nightly.occurrences(instant("2026-03-08T05:00Z")).take(2).collect();
    assert_eq!(runs[0].wall(), "2026-03-08 03:00:00");
    assert_eq!((runs[0].clock_change(), runs[0].skipped()), (ClockChange::None, None));
    assert_eq!(runs[1].wall(), "2026-03-09 02:00:00");
}

#[test]
fn a_skipped_time_is_skipped_on_request() {
    let nightly = schedule("0,30 2 * * *", NEW_YORK).gap(Gap::Skip);
    let runs = walls(&nightly, "2026-03-08T05:00Z", "2026-03-09T07:00Z");
    assert_eq!(runs, ["03-09 02:00 EDT", "03-09 02:30 EDT"]);
}

#[test]
fn shifted_times_keep_their_distance_and_their_order_among_others() {
    let nightly = schedule("15,45 2,3 * * *", NEW_YORK).gap(Gap::Shift);
    let runs = walls(&nightly, "2026-03-08T05:00Z", "2026-03-08T12:00Z");
    assert_eq!(runs, ["03-08 03:15 EDT", "03-08 03:45 EDT"]);
    let mixed = schedule("40 2 * * *", NEW_YORK).gap(Gap::Shift);
    let run = mixed.occurrence_after(instant("2026-03-08T05:00Z")).unwrap();
    assert_eq!(
        (run.wall(), run.skipped()),
        ("2026-03-08 03:40:00".into(), Some("2026-03-08 02:40:00".into()))
    );
}

#[test]
fn a_time_in_an_overlap_fires_at_its_first_pass_only() {
    let nightly = schedule("30 1 * * *", NEW_YORK);
    let runs = walls(&nightly, "2026-11-01T04:00Z", "2026-11-02T12:00Z");
    assert_eq!(runs, ["11-01 01:30 EDT", "11-02 01:30 EST"]);
}

#[test]
fn a_list_in_an_overlap_fires_each_wall_time_once() {
    let twice = schedule("0 1,13 * * *", NEW_YORK);
    let runs = walls(&twice, "2026-11-01T04:00Z", "2026-11-02T04:00Z");
    assert_eq!(runs, ["11-01 01:00 EDT", "11-01 13:00 EST"]);
}

#[test]
fn the_second_pass_and_both_passes_come_on_request_and_in_order() {
    let early = schedule("0,30 1 * * *", NEW_YORK);
    let runs = |policy| walls(&early.clone().overlap(policy), "2026-11-01T04:00Z", "2026-11-02T04:00Z");
    assert_eq!(runs(WallOverlap::Second), ["11-01 01:00 EST", "11-01 01:30 EST"]);
    let both = ["11-01 01:00 EDT", "11-01 01:30 EDT", "11-01 01:00 EST", "11-01 01:30 EST"];
    assert_eq!(runs(WallOverlap::Both), both);
}

#[test]
fn the_second_pass_is_not_lost_if_the_date_comes_only_once() {
    // After the first pass, the next time on the wall is a year ahead, or nowhere.
    for text in ["30 1 1 11 *", "0 30 1 1 11 ? 2026"] {
        let once = schedule(text, NEW_YORK);
        let runs = |policy| walls(&once.clone().overlap(policy), "2026-11-01T04:00Z", "2026-11-02T04:00Z");
        assert_eq!(runs(WallOverlap::First), ["11-01 01:30 EDT"], "{text}");
        assert_eq!(runs(WallOverlap::Second), ["11-01 01:30 EST"], "{text}");
        assert_eq!(runs(WallOverlap::Both), ["11-01 01:30 EDT", "11-01 01:30 EST"], "{text}");
    }
    let follows = schedule("0 30 1-5/4 1 11 ? 2026", NEW_YORK);
    let runs = walls(&follows, "2026-11-01T04:00Z", "2026-11-02T04:00Z");
    assert_eq!(runs, ["11-01 01:30 EDT", "11-01 01:30 EST", "11-01 05:30 EST"]);
}

#[test]
fn an_occurrence_says_which_pass_it_is() {
    let both = schedule("30 1 * * *", NEW_YORK).overlap(WallOverlap::Both);
    let runs: Vec<_> = both.occurrences(instant("2026-10-31T04:00Z")).take(3).collect();
    let changes: Vec<_> = runs.iter().map(|run| run.clock_change()).collect();
    assert_eq!(changes, [ClockChange::None, ClockChange::FirstPass, ClockChange::SecondPass]);
    assert_eq!(format!("{:#}", runs[1]), "Sun 2026-11-01 01:30:00 -04:00 EDT (the first of two such times)");
    assert_eq!(format!("{:#}", runs[2]), "Sun 2026-11-01 01:30:00 -05:00 EST (the second of two such times)");
}

#[test]
fn a_wildcard_hour_keeps_real_time_through_overlap_and_gap_whatever_the_policy() {
    for gap in [Gap::FirstValid, Gap::Skip, Gap::Shift] {
        for overlap in [WallOverlap::First, WallOverlap::Second, WallOverlap::Both] {
            for (text, distance) in [("*/30 * * * *", 1800), ("15 * * * *", 3600), ("7 0-23 * * *", 3600)] {
                let steady = schedule(text, NEW_YORK).gap(gap).overlap(overlap);
                for eve in ["2026-11-01T03:00Z", "2026-03-08T03:00Z"] {
                    let runs: Vec<_> = steady.upcoming(instant(eve)).take(20).collect();
                    for pair in runs.windows(2) {
                        assert_eq!(pair[1].duration_since(pair[0]).unwrap().as_secs(), distance, "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_step_of_hours_shows_every_matching_wall_time_and_no_other() {
    let steps = schedule("0 */2 * * *", NEW_YORK);
    let spring = walls(&steps, "2026-03-08T04:30Z", "2026-03-08T10:30Z");
    assert_eq!(spring, ["03-08 00:00 EST", "03-08 04:00 EDT", "03-08 06:00 EDT"]);
    let odd = schedule("0 1-23/2 * * *", NEW_YORK);
    let autumn = walls(&odd, "2026-11-01T03:30Z", "2026-11-01T09:30Z");
    assert_eq!(autumn, ["11-01 01:00 EDT", "11-01 01:00 EST", "11-01 03:00 EST"]);
}

#[test]
fn a_step_that_leaves_one_hour_names_that_hour() {
    let nightly = schedule("30 2/22 * * *", NEW_YORK);
    assert_eq!(walls(&nightly, "2026-03-08T05:00Z", "2026-03-09T05:00Z"), ["03-08 03:00 EDT"]);
}

#[test]
fn a_midnight_that_does_not_exist_is_the_first_valid_instant_of_its_day() {
    // Santiago goes forward at midnight on 6 September 2026, Beirut on 29 March 2026.
    let days = walls(&schedule("@daily", "America/Santiago"), "2026-09-05T05:00Z", "2026-09-07T12:00Z");
    assert_eq!(days, ["09-06 01:00 -03", "09-07 00:00 -03"]);
    let days = walls(&schedule("0 0 * * *", "Asia/Beirut"), "2026-03-28T12:00Z", "2026-03-30T12:00Z");
    assert_eq!(days, ["03-29 01:00 EEST", "03-30 00:00 EEST"]);
}

#[test]
fn a_gap_that_ends_at_midnight_moves_its_times_to_the_next_day() {
    // Nuuk goes from 23:00 on 28 March 2026 to 00:00 on the 29th.
    let late = schedule("30 23 28 3 *", "America/Nuuk");
    assert_eq!(walls(&late, "2026-03-28T12:00Z", "2026-03-30T12:00Z"), ["03-29 00:00 -01"]);
}

#[test]
fn half_an_hour_is_skipped_and_repeated_on_lord_howe_island() {
    let list = schedule("0,15,30,45 2 * * *", "Australia/Lord_Howe");
    // 4 October 2026: 02:00 +10:30 becomes 02:30 +11.
    let spring = walls(&list, "2026-10-03T13:00Z", "2026-10-04T13:00Z");
    assert_eq!(spring, ["10-04 02:30 +11", "10-04 02:45 +11"]);
    // 5 April 2026: 02:00 +11 becomes 01:30 +10:30.
    let list = schedule("0,15,30,45 1 * * *", "Australia/Lord_Howe");
    let autumn = walls(&list, "2026-04-04T13:00Z", "2026-04-05T13:00Z");
    assert_eq!(autumn, ["04-05 01:00 +11", "04-05 01:15 +11", "04-05 01:30 +11", "04-05 01:45 +11"]);
}

#[test]
fn a_day_that_never_was_is_skipped_and_the_schedule_goes_on() {
    // Samoa went from 29 to 31 December 2011.
    for gap in [Gap::FirstValid, Gap::Skip, Gap::Shift] {
        let noon = schedule("0 12 * * *", "Pacific/Apia").gap(gap);
        let days = walls(&noon, "2011-12-28T12:00Z", "2012-01-01T12:00Z");
        assert_eq!(
            days,
            ["12-28 12:00 -10", "12-29 12:00 -10", "12-31 12:00 +14", "01-01 12:00 +14"],
            "{gap:?}"
        );
        let that_day = schedule("0 0 12 30 12 ? 2011", "Pacific/Apia").gap(gap);
        assert_eq!(that_day.next_after(instant("2011-01-01T00:00Z")), None);
        let every_30th = schedule("0 12 30 12 *", "Pacific/Apia").gap(gap);
        let next = every_30th.occurrence_after(instant("2011-12-01T00:00Z")).unwrap();
        assert_eq!(next.wall(), "2012-12-30 12:00:00");
    }
}

#[test]
fn weekday_1_is_monday_and_both_0_and_7_are_sunday() {
    for (text, day) in [("0 0 * * 1", "Monday"), ("0 0 * * 0", "Sunday"), ("0 0 * * 7", "Sunday")] {
        let runs = schedule(text, "UTC");
        assert!(runs.occurrences(instant("2026-01-01T00:00Z")).take(10).all(|run| run.weekday() == day));
    }
}

#[test]
fn day_of_month_and_day_of_week_are_alternatives_and_on_request_conditions() {
    let either = walls(&schedule("0 0 13 * FRI", "UTC"), "2026-02-01T01:00Z", "2026-02-28T01:00Z");
    assert_eq!(either, ["02-06 00:00 UTC", "02-13 00:00 UTC", "02-20 00:00 UTC", "02-27 00:00 UTC"]);
    let both = walls(&schedule("0 0 13 * +FRI", "UTC"), "2026-01-01T01:00Z", "2026-12-31T01:00Z");
    assert_eq!(both, ["02-13 00:00 UTC", "03-13 00:00 UTC", "11-13 00:00 UTC"]);
}

#[test]
fn offsets_with_seconds_are_exact() {
    // Liberia was 44 minutes and 30 seconds behind until 1972, the Netherlands 19 minutes and 32 seconds ahead
    // until 1937.
    let monrovia = schedule("0 12 * * *", "Africa/Monrovia");
    let run = monrovia.occurrence_after(instant("1971-06-01T00:00Z")).unwrap();
    assert_eq!((run.at(), run.offset()), (instant("1971-06-01T12:44:30Z"), "-00:44:30".to_owned()));
    let change = walls(&monrovia, "1972-01-06T00:00Z", "1972-01-08T23:00Z");
    assert_eq!(change, ["01-06 12:00 MMT", "01-07 12:00 GMT", "01-08 12:00 GMT"]);
    let gap =
        schedule("20 0 7 1 *", "Africa/Monrovia").occurrence_after(instant("1972-01-06T12:00Z")).unwrap();
    assert_eq!((gap.at(), gap.wall()), (instant("1972-01-07T00:44:30Z"), "1972-01-07 00:44:30".to_owned()));
}
