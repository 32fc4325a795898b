//! Random expressions, in random zones, at random times.

use crate::brute::{DAY, GAPS, Matcher, OVERLAPS, Walk, datetime};
use crate::naive::Naive;
use crate::support::{at, cron, instant, schedule, seconds};
use crate::zones::compare;
use fastrand::Rng;
use jiff::civil::{Date, date};
use jiff::tz::{self, TimeZone};
use punctual::{Cron, CronErrorKind, CronSchedule};

/// A random item without letters, between `min` and `max`.
fn item(rng: &mut Rng, min: u16, max: u16) -> String {
    let (a, b, step) = (rng.u16(min..=max), rng.u16(min..=max), rng.u16(1..=(max - min + 1).min(40)));
    match rng.u8(0..8) {
        0 => format!("*/{step}"),
        1 => format!("{a}/{step}"),
        2 => format!("{a}-{b}"),
        3 => format!("{a}-{b}/{step}"),
        _ => a.to_string(),
    }
}

/// `*` as often as not, or a list.
fn field(rng: &mut Rng, min: u16, max: u16) -> String {
    list(rng, |rng| item(rng, min, max))
}

fn list(rng: &mut Rng, item: impl Fn(&mut Rng) -> String) -> String {
    match rng.u8(0..10) {
        0..=4 => "*".to_owned(),
        5..=7 => item(rng),
        _ => (0..rng.usize(2..=4)).map(|_| item(rng)).collect::<Vec<_>>().join(","),
    }
}

fn day_of_month(rng: &mut Rng) -> String {
    list(rng, |rng| match rng.u8(0..10) {
        0 => "L".to_owned(),
        1 => format!("L-{}", rng.u8(0..=30)),
        2 => format!("{}W", rng.u8(1..=31)),
        3 => ["LW".to_owned(), format!("l-{}w", rng.u8(0..=10))][rng.usize(0..2)].clone(),
        4 => "?".to_owned(),
        _ => item(rng, 1, 31),
    })
}

fn day_of_week(rng: &mut Rng) -> String {
    let names = ["SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT", "0", "1", "2", "3", "4", "5", "6", "7"];
    let both = if rng.bool() { "+" } else { "" };
    let days = list(rng, |rng| {
        let (a, b) = (names[rng.usize(..names.len())], names[rng.usize(..names.len())]);
        match rng.u8(0..8) {
            0 => format!("{a}#{}", rng.u8(1..=5)),
            1 => format!("{a}L"),
            2 => format!("{a}-{b}"),
            3 => format!("{a}-{b}/{}", rng.u8(1..=7)),
            4 => format!("{a}/{}", rng.u8(1..=7)),
            5 => format!("*/{}", rng.u8(1..=7)),
            _ => a.to_owned(),
        }
    });
    format!("{both}{days}")
}

/// The last three fields of five.
fn dates(rng: &mut Rng) -> String {
    let months = ["JAN", "feb-APR", "NOV-FEB/2", "JUN,dec"];
    let month = if rng.u8(0..5) == 0 { months[rng.usize(..4)].to_owned() } else { field(rng, 1, 12) };
    format!("{} {month} {}", day_of_month(rng), day_of_week(rng))
}

/// A whole expression of 5, 6 or 7 fields.
fn expression(rng: &mut Rng) -> String {
    let five = format!("{} {} {}", field(rng, 0, 59), field(rng, 0, 23), dates(rng));
    match rng.u8(0..4) {
        0 => format!("{} {five}", field(rng, 0, 59)),
        1 => format!("{} {five} {}", field(rng, 0, 59), list(rng, |rng| rng.u16(1970..2100).to_string())),
        2 => format!(
            "{} {five} {}",
            rng.u8(0..60),
            ["1990-2060", "*/3", "2000/2", "1971-2099/5"][rng.usize(..4)]
        ),
        _ => five,
    }
}

#[test]
fn random_expressions_agree_with_the_walk_in_random_zones() {
    let names: Vec<_> = tz::db().available().map(|name| name.as_str().to_owned()).collect();
    let mut rng = Rng::with_seed(20_260_308);
    for _ in 0..40 {
        let name = &names[rng.usize(..names.len())];
        let zone = TimeZone::get(name).unwrap();
        // Around a change as often as not, if the zone has any.
        let mut from = rng.i64(0..2_100_000_000) / 60 * 60;
        if let Some(change) = zone.following(at_second(from)).next().filter(|_| rng.bool()) {
            from = change.timestamp().as_second().min(2_100_000_000) / 60 * 60 - DAY;
        }
        let to = from + 3 * DAY;
        let walk = Walk::new(&zone, from, to);
        for _ in 0..4 {
            // Seconds only on the minute: the walk takes a minute at a time.
            let text = format!("{} {} {}", field(&mut rng, 0, 59), field(&mut rng, 0, 23), dates(&mut rng));
            if possible(&text) {
                let (gap, overlap) = (GAPS[rng.usize(..3)], OVERLAPS[rng.usize(..3)]);
                let schedule = schedule(&text, name).gap(gap).overlap(overlap);
                compare(&walk.watch(&Matcher::new(&text)), schedule, (gap, overlap), from, to);
            }
        }
    }
}

fn at_second(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

/// Is it an expression? All that are made here are, unless no date matches.
fn possible(text: &str) -> bool {
    match Cron::parse(text) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), CronErrorKind::Impossible, "{text}: {error}");
            false
        }
    }
}

/// The dates from the first of a year, one after the other.
fn dates_from(year: i16) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(date(year, 1, 1)), |date| date.tomorrow().ok())
}

#[test]
fn random_dates_agree_with_a_walk_from_day_to_day() {
    let mut rng = Rng::with_seed(29_02);
    for _ in 0..50 {
        let (text, year) = (format!("0 0 {}", dates(&mut rng)), rng.i16(1800..2300));
        let naive = Naive::new(&text);
        let days: Vec<_> = dates_from(year).take(5 * 365).filter(|&date| naive.matches_date(date)).collect();
        if !possible(&text) {
            assert_eq!(days, [], "{text} from {year}");
            continue;
        }
        let schedule = CronSchedule::utc(cron(&text));
        let from = instant(&format!("{year}-01-01T00:00Z"));
        let runs = schedule.upcoming(at(seconds(from) - 1)).map(seconds);
        let found: Vec<_> = runs
            .take_while(|run| *run < seconds(from) + 5 * 365 * DAY)
            .map(|run| datetime(run).date())
            .collect();
        assert_eq!(found, days, "{text} from {year}");
    }
}

#[test]
fn times_of_the_day_agree_with_a_walk_from_second_to_second() {
    let mut rng = Rng::with_seed(86_400);
    for _ in 0..6 {
        let text =
            format!("{} {} {} * * *", field(&mut rng, 0, 59), field(&mut rng, 0, 59), field(&mut rng, 0, 23));
        let matcher = Matcher::new(&text);
        let expected = (0..DAY).filter(|&wall| matcher.admits(wall));
        let schedule = CronSchedule::utc(cron(&text));
        let mut runs = schedule.upcoming(at(-1)).map(seconds);
        assert!(expected.eq(runs.by_ref().take_while(|run| *run < DAY)), "{text}");
    }
}

#[test]
fn an_expression_that_was_printed_reads_as_the_same() {
    let mut rng = Rng::with_seed(7);
    let mut read = 0;
    for _ in 0..600 {
        let text = expression(&mut rng);
        if possible(&text) {
            let (once, twice) = (cron(&text), cron(&cron(&text).to_string()));
            assert_eq!(once, twice, "{text} became {once}");
            assert_eq!(once.to_string(), twice.to_string());
            assert_eq!(once.describe(), twice.describe());
            read += 1;
        }
    }
    assert!(read > 400, "only {read} were possible");
}

#[test]
fn a_description_names_every_single_value() {
    const WEEKDAYS: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let mut rng = Rng::with_seed(11);
    for _ in 0..600 {
        let text = expression(&mut rng);
        if !possible(&text) {
            continue;
        }
        let (cron, canonical) = (cron(&text), cron(&text).to_string());
        let english = cron.describe();
        assert!(!english.is_empty() && english.is_ascii(), "{text}: {english}");
        assert!(!english.contains("  ") && !english.contains(", ,"), "{text}: {english}");
        let fields: Vec<_> = canonical.split(' ').collect();
        let first = fields.len().saturating_sub(5).min(1);
        for item in fields[first + 2].split(',').filter(|_| !fields[first + 2].contains('*')) {
            let day: String = item.chars().filter(char::is_ascii_digit).take(2).collect();
            let plain = item.bytes().all(|byte| byte.is_ascii_digit());
            assert!(!plain || english.contains(&format!("the {day}")), "{text}: {english}");
            assert!(!item.contains('L') || english.contains("last"), "{text}: {english}");
            assert!(!item.contains('W') || english.contains("weekday"), "{text}: {english}");
        }
        let weekdays = fields[first + 4].trim_start_matches('+');
        for item in weekdays.split(',').filter(|item| !weekdays.contains('*') && !item.contains('/')) {
            for name in WEEKDAYS.iter().filter(|name| item.contains(&name[..3].to_uppercase())) {
                assert!(english.contains(name), "{text}: {english}");
            }
        }
        if fields.len() == 7 && !fields[6].contains('*') {
            assert!(english.contains(&fields[6][..4]), "{text}: {english}");
        }
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let mut rng = Rng::with_seed(13);
    let alphabet: Vec<char> = "0123456789*/,-?LW#H()+@ \tMONJANevry hmsd\u{e9}\u{1f570}".chars().collect();
    for round in 0..6000 {
        let text: String = match round % 2 {
            0 => (0..rng.usize(0..30)).map(|_| alphabet[rng.usize(..alphabet.len())]).collect(),
            // A right one with one character changed.
            _ => {
                let mut text: Vec<char> = expression(&mut rng).chars().collect();
                let place = rng.usize(..text.len());
                text[place] = alphabet[rng.usize(..alphabet.len())];
                text.into_iter().collect()
            }
        };
        for seed in [None, Some("seed")] {
            let options =
                seed.map_or_else(punctual::CronOptions::new, |seed| punctual::CronOptions::new().seed(seed));
            match options.parse(&text) {
                Ok(cron) => {
                    assert!(!cron.describe().is_empty());
                    assert_eq!(Cron::parse(&cron.to_string()), Ok(cron), "{text}");
                }
                Err(error) => {
                    assert!(text.get(error.span()).is_some(), "{text}: {error:?}");
                    assert!(!format!("{error:#}").is_empty() && !error.expected().is_empty());
                }
            }
        }
    }
}
