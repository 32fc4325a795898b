//! `punctual next`: the days on which the clocks change, and what is no expression.

use super::support::call;

/// What is printed for an expression in a zone, without how far away each time is.
fn table(expression: &str, zone: &str, from: &str, count: &str) -> Vec<String> {
    let said = call(&["next", expression, "--tz", zone, "--from", from, "-n", count]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let away = |line: &str| {
        let mut parts: Vec<&str> = line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
        parts.retain(|part| !part.ends_with(" ago") && !part.starts_with("in "));
        parts.join(" | ")
    };
    said.out.lines().map(away).collect()
}

#[test]
fn a_time_that_the_clocks_skip_is_marked_with_the_change() {
    assert_eq!(
        table("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00", "3"),
        [
            "at 02:30, every day (Europe/Berlin)",
            "",
            "Europe/Berlin | UTC",
            "1 | Sat 2026-03-28 02:30:00 +01:00 CET | 2026-03-28 01:30:00Z",
            "~ the clocks go forward by 1h on Sun 2026-03-29 02:00, to 03:00 (CEST)",
            "2 | Sun 2026-03-29 03:00:00 +02:00 CEST | 2026-03-29 01:00:00Z | ! stands for 02:30:00, which the clocks skip",
            "3 | Mon 2026-03-30 02:30:00 +02:00 CEST | 2026-03-30 00:30:00Z",
        ]
    );
}

#[test]
fn times_that_exist_twice_are_marked_with_the_change() {
    assert_eq!(
        table("*/30 * * * *", "America/New_York", "2026-11-01T00:40", "5")[3..],
        [
            "1 | Sun 2026-11-01 01:00:00 -04:00 EDT | 2026-11-01 05:00:00Z | ! the first of two such times",
            "2 | Sun 2026-11-01 01:30:00 -04:00 EDT | 2026-11-01 05:30:00Z | ! the first of two such times",
            "~ the clocks go back by 1h on Sun 2026-11-01 02:00, to 01:00 (EST)",
            "3 | Sun 2026-11-01 01:00:00 -05:00 EST | 2026-11-01 06:00:00Z | ! the second of two such times",
            "4 | Sun 2026-11-01 01:30:00 -05:00 EST | 2026-11-01 06:30:00Z | ! the second of two such times",
            "5 | Sun 2026-11-01 02:00:00 -05:00 EST | 2026-11-01 07:00:00Z",
        ]
    );
}

#[test]
fn rules_say_what_the_clocks_do() {
    let walls = |from: &str, rule: &[&str]| -> Vec<String> {
        let zone = ["next", "30 2 * * *", "--tz", "Europe/Berlin", "--json", "-n", "2", "--from", from];
        let said = call(&[&zone[..], rule].concat());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        let objects = said.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        objects
            .map(|object| {
                format!("{} {}", object["wall"].as_str().unwrap(), object["offset"].as_str().unwrap())
            })
            .collect()
    };
    let spring = "2026-03-28T12:00";
    assert_eq!(walls(spring, &["--clocks-forward", "first-valid"])[0], "2026-03-29 03:00:00 +02:00");
    assert_eq!(walls(spring, &["--clocks-forward", "skip"])[0], "2026-03-30 02:30:00 +02:00");
    assert_eq!(walls(spring, &["--clocks-forward", "shift"])[0], "2026-03-29 03:30:00 +02:00");
    let autumn = "2026-10-24T12:00";
    let (first, second) = ("2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00");
    assert_eq!(walls(autumn, &["--clocks-back", "first"]), [first, "2026-10-26 02:30:00 +01:00"]);
    assert_eq!(walls(autumn, &["--clocks-back", "second"])[0], second);
    assert_eq!(walls(autumn, &["--clocks-back", "both"]), [first, second]);
    assert_eq!(call(&["next", "@daily", "--clocks-back", "third"]).code, Some(2));
}

#[test]
fn half_an_hour_is_half_an_hour() {
    let lines = table("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "1");
    assert_eq!(lines[3], "~ the clocks go forward by 30m on Sun 2026-10-04 02:00, to 02:30 (+11)");
    assert!(lines[4].contains("02:30:00 +11:00"), "{lines:?}");
}

#[test]
fn ten_times_by_default_in_the_zone_of_the_machine() {
    let said = call(&["next", "0 9 * * MON-FRI"]);
    assert_eq!(said.code, Some(0));
    assert_eq!(said.out.lines().filter(|line| line.contains("09:00:00 +00:00")).count(), 10);
    assert!(said.out.starts_with("at 09:00, on Monday to Friday ("), "{}", said.out);
}

#[test]
fn what_ends_says_so() {
    let said = call(&["next", "0 0 0 1 1 * 2027", "--from", "2026-06-01T00:00"]);
    assert!(said.out.ends_with("that was the last time\n"), "{}", said.out);
    let said = call(&["next", "0 0 0 1 1 * 2020"]);
    // Whether a year in the past is refused or never fires is the library's choice; it must not hang.
    assert!(said.code == Some(1) || said.out.contains("never fires again"), "{said:?}");
}

#[test]
fn json_has_an_object_for_each_time() {
    let said = call(&[
        "next",
        "30 2 * * *",
        "--tz",
        "Europe/Berlin",
        "--from",
        "2026-03-28T12:00",
        "-n",
        "2",
        "--json",
    ]);
    let objects: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[0]["utc"], "2026-03-29T01:00:00Z");
    assert_eq!(objects[0]["clock_change"], "moved");
    assert_eq!(objects[0]["stands_for"], "2026-03-29 02:30:00");
    assert_eq!(
        (&objects[1]["wall"], &objects[1]["clock_change"]),
        (&"2026-03-30 02:30:00".into(), &"none".into())
    );
}

#[test]
fn what_is_no_expression_is_shown_with_a_mark_under_it() {
    let said = call(&["next", "0 24 * * *"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    let expected = "punctual: this is no cron expression: column 3: expected an hour from 0 to 23, found \"24\"\n  0 24 * * *\n    ^^\n";
    assert_eq!(said.err, expected);
}

#[test]
fn a_zone_or_a_time_that_is_none_is_named() {
    for (args, words) in [
        (&["next", "@daily", "--tz", "Europe/Berln"][..], "did you mean \"Europe/Berlin\"?"),
        (&["next", "@daily", "--tz", ""], "no time zone is called"),
        (&["next", "@daily", "--from", "yesterday"], "`--from`: `yesterday` is not a date and time"),
        (&["next", ""], "expected"),
    ] {
        let said = call(args);
        assert_eq!(said.code, Some(1), "{args:?}");
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    }
}

#[test]
fn the_name_of_the_job_spreads_it() {
    let first = |name: &str| {
        let said =
            call(&["next", "H * * * *", "--name", name, "--from", "2026-01-01T00:00", "--json", "-n", "1"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        said.out
    };
    assert_eq!(first("a"), first("a"));
    let different: std::collections::BTreeSet<_> = ["a", "b", "c", "d", "e"].map(first).into();
    assert!(different.len() > 1);
}
