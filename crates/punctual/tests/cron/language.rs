//! What is an expression and what is not.

use crate::support::{at, cron, instant, schedule, seconds};
use punctual::{Cron, CronErrorKind, CronOptions, CronSchedule, DayRule};
use std::time::Duration;

#[test]
fn ways_to_write_the_same_are_equal() {
    for (one, other) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "@YEARLY"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "@midnight"),
        ("@daily", "0 0 0 * * *"),
        ("@hourly", "0 * * * ?"),
        ("0 0 * * 7", "0 0 * * SUN"),
        ("0 0 * * 1-5", "0 0 * * mon-Fri"),
        ("0 0 * * 5-7", "0 0 * * FRI,SAT,SUN"),
        ("0 0 * * FRI-MON", "0 0 * * 5,6,0,1"),
        ("0 0 * * 0-7", "0 0 * * */1,MON"),
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 0 * NOV-FEB *", "0 0 * 11,12,1,2 *"),
        ("0 0 30-2 * *", "0 0 30,31,1,2 * *"),
        ("50-10/10 * * * *", "50,0,10 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("0 0 L-0 * *", "0 0 l * *"),
        ("0 0 * * 5L", "0 0 * * FRIL"),
        ("0 0 * * 7#2", "0 0 * * sun#2"),
        (" \t0  0 *\t* *  ", "0 0 * * *"),
        ("0 0 0 1 1 ? 2030-2032", "0 0 0 1 1 * 2032,2030,2031"),
        ("@every 90m", "@every 1h30m"),
        ("@every 1d", "@EVERY 24H"),
        ("@every 1h 30m", "@every 5400000ms"),
    ] {
        assert_eq!(cron(one), cron(other), "{one} and {other}");
    }
}

#[test]
fn expressions_that_fire_at_other_times_differ() {
    for (one, other) in [
        ("0 0 * * 1", "0 0 * * 0"),
        ("0 0 13 * FRI", "0 0 13 * +FRI"),
        // The same hours, but one follows the clock where it changes, the other names times.
        ("0 */8 * * *", "0 0,8,16 * * *"),
        // A list of all days restricts the field; a star does not.
        ("0 0 13 * 0-6", "0 0 13 * *"),
        ("0 0 15 * *", "0 0 15W * *"),
        ("0 0 L * *", "0 0 LW * *"),
        ("0 0 0 1 1 ? 2030", "0 0 0 1 1 ? 2031"),
        ("@every 1h", "@hourly"),
    ] {
        assert_ne!(cron(one), cron(other), "{one} and {other}");
    }
}

#[test]
fn an_error_names_its_place_and_what_was_expected_there() {
    let year = "a year from 1970 to 9999";
    let weekday = "a weekday from 0 to 7 or SUN to SAT";
    let duration = "a duration such as 1h30m (units: w d h m s ms)";
    for (text, span, expected) in [
        ("", 0..0, "5, 6 or 7 fields or a nickname such as @daily"),
        ("* * * *", 7..7, "5, 6 or 7 fields, not 4"),
        ("* * * * * * * *", 14..15, "5, 6 or 7 fields, not 8"),
        ("60 * * * *", 0..2, "a minute from 0 to 59"),
        ("-1 * * * *", 0..0, "a minute from 0 to 59"),
        ("60 0 0 * * *", 0..2, "a second from 0 to 59"),
        ("0 24 * * *", 2..4, "an hour from 0 to 23"),
        ("0 9-25 * * *", 4..6, "an hour from 0 to 23"),
        ("0 0 0 * *", 4..5, "a day of the month from 1 to 31"),
        ("0 0 32 * *", 4..6, "a day of the month from 1 to 31"),
        ("0 0 1 13 *", 6..8, "a month from 1 to 12 or JAN to DEC"),
        ("0 0 1 JANUARY *", 6..13, "a month from 1 to 12 or JAN to DEC"),
        ("0 0 * * 8", 8..9, weekday),
        ("0 0 * * MON-FRY", 12..15, weekday),
        ("0 0 * * L", 8..9, "a weekday before L, such as FRIL"),
        ("0 0 * * FRI#6", 12..13, "a number from 1 to 5 after #"),
        ("0 0 * * FRI#", 12..12, "a number from 1 to 5 after #"),
        ("0 0 L-31 * *", 6..8, "a number of days before the last from 0 to 30"),
        ("0 0 L3 * *", 4..6, "L, L-3, LW or L-3W"),
        ("0 0 W * *", 4..4, "a day of the month from 1 to 31"),
        ("0 0 L/2 * *", 4..7, "no step after L"),
        ("0 0 0 1 1 * 1969", 12..16, year),
        ("0 0 0 1 1 * 10000", 12..17, year),
        ("0 0 0 1 1 * H", 12..13, year),
        ("0 0 0 1 1 * 2030-2029", 12..21, "years in ascending order"),
        ("*/0 * * * *", 2..3, "a step from 1 to 60"),
        ("*/61 * * * *", 2..4, "a step from 1 to 60"),
        ("*/ * * * *", 2..2, "a step from 1 to 60"),
        ("*/5/5 * * * *", 2..5, "a step from 1 to 60"),
        ("1,,2 * * * *", 2..2, "a minute from 0 to 59"),
        ("1,2, * * * *", 4..4, "a minute from 0 to 59"),
        ("? * * * *", 0..1, "a minute from 0 to 59"),
        ("99999999999999999999 * * * *", 0..20, "a minute from 0 to 59"),
        ("é * * * *", 0..2, "a minute from 0 to 59"),
        ("0 0 * * +", 9..9, weekday),
        ("0 0 +1 * *", 4..6, "a day of the month from 1 to 31"),
        ("@reboot", 0..7, "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every"),
        ("@daily 5", 7..8, "nothing after @daily"),
        ("@every", 6..6, duration),
        ("@every 0s", 7..9, "a duration longer than nothing"),
        ("@every 1h30", 9..11, duration),
        ("@every 1h5x", 9..11, duration),
        ("@every -1h", 7..10, duration),
        ("@every 99999999999999999999h", 7..28, duration),
        ("@every 18446744073709551615ms 1ms", 7..29, "a duration that fits into 64 bits of milliseconds"),
    ] {
        let error = Cron::parse(text).expect_err(text);
        assert_eq!((error.span(), error.expected()), (span, expected), "{text}");
        assert_eq!(error.kind(), CronErrorKind::Syntax, "{text}");
        assert_eq!((error.input(), error.found()), (text, &text[error.span()]));
        assert_eq!(error.column(), text[..error.span().start].chars().count() + 1);
    }
}

#[test]
fn an_error_shows_the_place_in_full_print() {
    let error = Cron::parse("0 0 * * MON-FRY").unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "column 13: expected a weekday from 0 to 7 or SUN to SAT, found \"FRY\"\n  \
         0 0 * * MON-FRY\n              ^^^"
    );
    let missing = Cron::parse("1,,2 * * * *").unwrap_err();
    assert_eq!(missing.to_string(), "column 3: expected a minute from 0 to 59, found nothing");
}

#[test]
fn a_very_long_text_is_refused_without_repeating_it() {
    for long in ["1,".repeat(1_000_000), "é".repeat(1_000_000), "9".repeat(4000) + " * * * *"] {
        let error = Cron::parse(&long).unwrap_err();
        assert!(format!("{error:#}").len() < 300, "{error}");
    }
}

#[test]
fn dates_that_cannot_be_are_refused() {
    for (text, found) in [
        ("0 0 30 2 *", "30 2 *"),
        ("0 0 31 2,4 *", "31 2,4 *"),
        ("0 0 31 4,6,9,11 *", "31 4,6,9,11 *"),
        ("0 0 L-30 4 *", "L-30 4 *"),
        ("0 0 30W 2 *", "30W 2 *"),
        ("0 0 1 2 +MON#5", "1 2 +MON#5"),
        ("0 0 8 * +MON#1", "8 * +MON#1"),
        ("0 0 0 29 2 ? 2023", "29 2 ? 2023"),
        ("0 0 0 29 2 ? 2100,2200,2300", "29 2 ? 2100,2200,2300"),
        ("0 0 0 29 2 +MON 2024", "29 2 +MON 2024"),
    ] {
        let error = Cron::parse(text).expect_err(text);
        assert_eq!((error.kind(), error.found()), (CronErrorKind::Impossible, found), "{text}");
    }
    for text in ["0 0 29 2 *", "0 0 31 1,2 *", "0 0 30 2 MON", "0 0 29 2 +MON#5", "0 0 0 29 2 ? 2024"] {
        assert!(Cron::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn h_is_spread_by_its_seed_within_its_bounds() {
    let read = |text: &str, seed: &str| CronOptions::new().seed(seed).parse(text).unwrap();
    for task in 0..300 {
        let seed = format!("task-{task}");
        let bounded = read("H(10-19) H(0-5) H * H", &seed).to_string();
        let fields: Vec<_> = bounded.split(' ').collect();
        assert!((10..=19).contains(&fields[0].parse::<u8>().unwrap()), "{bounded}");
        assert!((0..=5).contains(&fields[1].parse::<u8>().unwrap()), "{bounded}");
        assert!((1..=28).contains(&fields[2].parse::<u8>().unwrap()), "{bounded}");
        let stepped = read("H/15 * * * *", &seed);
        let runs: Vec<_> = CronSchedule::utc(stepped).upcoming(at(-1)).map(seconds).take(5).collect();
        assert!(runs[0] < 900 && runs.windows(2).all(|pair| pair[1] - pair[0] == 900), "{runs:?}");
        let within = read("H(5-29)/10 * * * *", &seed);
        let first_hour =
            CronSchedule::utc(within).upcoming(at(-1)).map(seconds).take_while(|run| *run < 3600).count();
        assert!((2..=3).contains(&first_hour));
    }
    assert_eq!(read("H H * * *", "backup"), read("H H * * *", "backup"));
    assert_eq!(read("H H * * *", "backup").to_string(), "9 9 * * *");
}

#[test]
fn h_without_a_seed_and_h_with_wrong_bounds_are_refused() {
    let error = Cron::parse("0 H * * *").unwrap_err();
    assert_eq!((error.kind(), error.span()), (CronErrorKind::Seed, 2..3));
    let options = CronOptions::new().seed("x");
    for text in
        ["H(30-10) * * * *", "H(0-60) * * * *", "H(5) * * * *", "Hx * * * *", "H( * * * *", "0 0 * * H(0-7)"]
    {
        let error = options.parse(text).expect_err(text);
        assert_eq!(error.kind(), CronErrorKind::Syntax, "{text}: {error}");
    }
    // In order, but Sunday is 0 there.
    let error = options.parse("0 0 * * H(1-7)").unwrap_err();
    assert_eq!(error.expected(), "a range in ascending order up to 6, not 1-7");
}

#[test]
fn the_rule_for_days_can_be_asked_for_in_text_or_by_option() {
    let option = CronOptions::new().days(DayRule::Both).parse("0 0 13 * FRI").unwrap();
    assert_eq!(option, cron("0 0 13 * +FRI"));
    assert_eq!(option.to_string(), "0 0 13 * +FRI");
    // Without two restrictions there is nothing to combine.
    assert_eq!(cron("0 0 13 * +*"), cron("0 0 13 * *"));
    assert_eq!(cron("0 0 * * +FRI").to_string(), "0 0 * * FRI");
}

#[test]
fn last_nearest_and_nth_days_are_those_of_the_calendar() {
    let days = |text: &str, count| -> Vec<String> {
        let runs = schedule(text, "UTC");
        runs.occurrences(instant("2026-01-01T00:00Z"))
            .take(count)
            .map(|run| run.wall()[5..10].to_owned())
            .collect()
    };
    assert_eq!(days("0 1 L * *", 3), ["01-31", "02-28", "03-31"]);
    assert_eq!(days("0 1 L-3 * *", 3), ["01-28", "02-25", "03-28"]);
    // 31 January and 28 February 2026 are Saturdays, 31 May is a Sunday.
    assert_eq!(days("0 1 LW 1,2,5 *", 3), ["01-30", "02-27", "05-29"]);
    // 1 February and 1 March are Sundays, 1 August is a Saturday.
    assert_eq!(days("0 1 1W 2,3,8 *", 3), ["02-02", "03-02", "08-03"]);
    assert_eq!(days("0 1 * * FRI#2", 3), ["01-09", "02-13", "03-13"]);
    assert_eq!(days("0 1 * * MON#5", 3), ["03-30", "06-29", "08-31"]);
    assert_eq!(days("0 1 * * 5L", 3), ["01-30", "02-27", "03-27"]);
}

#[test]
fn an_expression_prints_with_its_text_padded_and_its_debug_short() {
    let daily = cron("@daily");
    assert_eq!((daily.to_string().as_str(), daily.source()), ("0 0 * * *", "@daily"));
    assert_eq!(format!("[{daily:>12}]"), "[   0 0 * * *]");
    assert_eq!(format!("{daily:?}"), "Cron(\"0 0 * * *\")");
    let berlin = schedule("@daily", "europe/berlin");
    assert_eq!(berlin.to_string(), "0 0 * * * (Europe/Berlin)");
    assert_eq!(cron("@every 36h").to_string(), "@every 36h");
    assert_eq!(cron("@every 2w").to_string(), "@every 2w");
    assert_eq!(cron("@every 1500ms").to_string(), "@every 1s500ms");
    assert_eq!(cron("@every 7d").period(), Some(Duration::from_secs(7 * 86_400)));
}

#[test]
fn an_unknown_zone_is_named_with_the_nearest_known_one() {
    let error = CronSchedule::parse("@daily", "Europe/Belrin").unwrap_err();
    assert_eq!((error.kind(), error.suggestion()), (CronErrorKind::Zone, Some("Europe/Berlin")));
    assert_eq!(
        error.to_string(),
        "unknown time zone \"Europe/Belrin\": expected an IANA name such as Europe/Berlin, UTC or local; \
         did you mean \"Europe/Berlin\"?"
    );
    assert_eq!(CronSchedule::utc(cron("@daily")).zone(), "UTC");
}

#[test]
fn the_zone_of_the_system_is_found_or_asked_for() {
    // Which it is depends on the machine, and on TZ.
    match CronSchedule::parse("@daily", "local") {
        Ok(schedule) => assert!(!schedule.zone().is_empty()),
        Err(error) => assert!(error.kind() == CronErrorKind::Zone && error.to_string().contains("could not")),
    }
}
