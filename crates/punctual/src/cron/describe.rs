//! An expression in plain English.
//!
//! A description is a time of the day and a date: `at 09:00, on Monday to Friday, in March`. It is made from the
//! fields as written, not from the sets they become, so that `9-17` is "from 09:00 to 17:59" and not nine numbers.
//! Where a few times of the day are meant, they are simply listed.

use super::days::DayRule;
use super::field::{Field, Item, MONTHS, Unit, WEEKDAYS};
use super::pattern::Fields;
use std::time::Duration;

/// Up to so many times of the day are listed one by one.
const LISTED: u32 = 6;

/// The description of an expression with fields.
pub(super) fn fields(fields: &Fields) -> String {
    let (date, few) = (date(fields), few_times(fields));
    let time = if few { format!("at {}", and(&times(fields))) } else { time(fields) };
    match date.is_empty() {
        true if few => format!("{time}, every day"),
        true => time,
        false => format!("{time}, {date}"),
    }
}

/// The description of a period.
pub(super) fn period(period: Duration) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("week", 604_800_000),
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1000),
        ("millisecond", 1),
    ];
    let mut rest = period.as_millis() as u64;
    let mut parts = Vec::new();
    for (name, millis) in UNITS {
        match rest / millis {
            0 => {}
            1 => parts.push(format!("1 {name}")),
            count => parts.push(format!("{count} {name}s")),
        }
        rest %= millis;
    }
    match parts.as_slice() {
        [one] => format!("every {}", one.strip_prefix("1 ").unwrap_or(one)),
        _ => format!("every {}", and(&parts)),
    }
}

/// Are there so few times of the day that a list of them says it best?
fn few_times(fields: &Fields) -> bool {
    let parts = [&fields.hour, &fields.minute, &fields.second];
    let count: u32 = parts.iter().map(|field| field.bits().count_ones()).product();
    count <= LISTED && !parts.iter().any(|field| field.has_step())
}

/// The times of the day, where there are many.
fn time(fields: &Fields) -> String {
    let (second, minute, hour) = (&fields.second, &fields.minute, &fields.hour);
    let on_the_minute = second.bits() == 1;
    if on_the_minute && minute.bits() == 1 {
        return hours_on_the_hour(hour);
    }
    let mut parts = Vec::new();
    if !on_the_minute {
        parts.push(leading(second, if minute.is_any() { " of every minute" } else { "" }));
    }
    let of_every_hour = if hour.is_any() { " of every hour" } else { "" };
    match parts.is_empty() {
        true => parts.push(leading(minute, of_every_hour)),
        false if minute.is_any() => {}
        false => parts.push(following(minute, of_every_hour)),
    }
    if !hour.is_any() {
        parts.push(hours(hour));
    }
    parts.join(", ")
}

/// Every time of the day, in order.
fn times(fields: &Fields) -> Vec<String> {
    let sorted = |field: &Field| (0..64_u64).filter(|bit| field.bits() & 1 << bit != 0).collect::<Vec<_>>();
    let mut times = Vec::new();
    for hour in sorted(&fields.hour) {
        for minute in sorted(&fields.minute) {
            for second in sorted(&fields.second) {
                times.push(match fields.second.bits() {
                    1 => format!("{hour:02}:{minute:02}"),
                    _ => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
    }
    times
}

/// Hours, where the minute is 0.
fn hours_on_the_hour(hour: &Field) -> String {
    let clock = |hour: u16| format!("{hour:02}:00");
    let phrase = |item: &Item| match *item {
        Item::One(one) => format!("at {}", clock(one)),
        Item::Span { start, end, step } => {
            format!("{} from {} to {}", every(step, "hour"), clock(start), clock(end))
        }
        Item::From { start, step } => format!("{} from {}", every(step, "hour"), clock(start)),
        Item::Any { step } if 24 % step != 0 => format!("{} from 00:00 each day", every(step, "hour")),
        Item::Any { step } => every(step, "hour"),
        _ => String::new(),
    };
    and(&hour.items.iter().map(phrase).collect::<Vec<_>>())
}

/// Seconds or minutes at the beginning: `every 5 minutes`, `at minutes 5 and 10 to 20 of every hour`.
fn leading(field: &Field, of_every: &str) -> String {
    let (name, whole) = names(field.unit);
    match field.items.as_slice() {
        [Item::Any { step }] if field.unit.size() % step == 0 => every(*step, name),
        [Item::Any { step }] => format!("{} from {name} 0 of every {whole}", every(*step, name)),
        [Item::From { start, step }] => format!("{} from {name} {start}{of_every}", every(*step, name)),
        [Item::Span { start, end, step: step @ 2.. }] => {
            format!("{} from {name} {start} to {end}{of_every}", every(*step, name))
        }
        _ => format!("at {}{of_every}", listed(field)),
    }
}

/// Minutes after the seconds: `in every 5th minute`, `in minutes 5 and 10 to 20 of every hour`.
fn following(field: &Field, of_every: &str) -> String {
    match field.items.as_slice() {
        [Item::Any { step }] => format!("in every {} {}", ordinal(*step), names(field.unit).0),
        _ => format!("in {}{of_every}", listed(field)),
    }
}

/// `minutes 5, 10 to 20 and every 15 from 30`.
fn listed(field: &Field) -> String {
    let name = names(field.unit).0;
    let phrase = |item: &Item| match *item {
        Item::One(one) => one.to_string(),
        Item::Span { start, end, step: 1 } => format!("{start} to {end}"),
        Item::Span { start, end, step } => format!("every {} from {start} to {end}", ordinal(step)),
        Item::From { start, step } => format!("every {} from {start}", ordinal(step)),
        Item::Any { step } => format!("every {} from {}", ordinal(step), field.unit.min()),
        _ => String::new(),
    };
    let plural = if matches!(field.items.as_slice(), [Item::One(_)]) { "" } else { "s" };
    format!("{name}{plural} {}", and(&field.items.iter().map(phrase).collect::<Vec<_>>()))
}

/// Hours, where the minute is more than 0: `from 09:00 to 17:59`, `in every 2nd hour`.
fn hours(hour: &Field) -> String {
    let phrase = |item: &Item| match *item {
        Item::One(one) => format!("from {one:02}:00 to {one:02}:59"),
        Item::Span { start, end, step: 1 } => format!("from {start:02}:00 to {end:02}:59"),
        Item::Span { start, end, step } => {
            format!("in every {} hour from {start:02}:00 to {end:02}:59", ordinal(step))
        }
        Item::From { start, step } => format!("in every {} hour from {start:02}:00", ordinal(step)),
        Item::Any { step } => format!("in every {} hour from 00:00", ordinal(step)),
        _ => String::new(),
    };
    and(&hour.items.iter().map(phrase).collect::<Vec<_>>())
}

/// The date; nothing if every day is meant.
fn date(fields: &Fields) -> String {
    let (month, week) = (&fields.day_of_month, &fields.day_of_week);
    let of_months = match fields.month.is_any() {
        true => "of the month".to_owned(),
        false => format!("of {}", months(&fields.month)),
    };
    let in_months = match fields.month.is_any() {
        true => String::new(),
        false => format!(", in {}", months(&fields.month)),
    };
    let day = match (month.is_any(), week.is_any(), fields.rule) {
        (true, true, _) => in_months.trim_start_matches(", ").to_owned(),
        (false, true, _) => format!("on {} {of_months}", days(month)),
        (true, false, _) => format!("on {}{in_months}", weekdays(week)),
        (false, false, DayRule::Either) => {
            format!("on {} of the month or on {}{in_months}", days(month), weekdays(week))
        }
        (false, false, DayRule::Both) => {
            format!("on {} {of_months} if that is {}", days(month), weekdays(week))
        }
    };
    match (fields.year.is_any(), day.is_empty()) {
        (true, _) => day,
        (false, true) => format!("in {}", years(&fields.year)),
        (false, false) => format!("{day}, in {}", years(&fields.year)),
    }
}

/// Days of the month: `the 1st, the 15th and the last day`.
fn days(field: &Field) -> String {
    let phrase = |item: &Item| match *item {
        Item::One(day) => format!("the {}", ordinal(day)),
        Item::Span { start, end, step: 1 } => format!("the {} to the {}", ordinal(start), ordinal(end)),
        Item::Span { start, end, step } => {
            format!("every {} day from the {} to the {}", ordinal(step), ordinal(start), ordinal(end))
        }
        Item::From { start, step } => format!("every {} day from the {}", ordinal(step), ordinal(start)),
        Item::Any { step } => format!("every {} day from the 1st", ordinal(step)),
        Item::Last { before } => last(before),
        Item::Nearest(day) => format!("the weekday nearest the {}", ordinal(day.into())),
        Item::LastNearest { before: 0 } => "the last weekday (Monday to Friday)".to_owned(),
        Item::LastNearest { before } => format!("the weekday nearest {}", last(before)),
        Item::Nth { .. } | Item::LastWeekday(_) => String::new(),
    };
    and(&field.items.iter().map(phrase).collect::<Vec<_>>())
}

fn last(before: u8) -> String {
    match before {
        0 => "the last day".to_owned(),
        1 => "the day before the last".to_owned(),
        _ => format!("the day {before} days before the last"),
    }
}

/// Days of the week: `Monday to Friday`, `the 2nd Friday of the month`.
fn weekdays(field: &Field) -> String {
    let name = |day: u16| WEEKDAYS[usize::from(day)].to_owned();
    let phrases = field.items.iter().flat_map(|item| match *item {
        Item::Span { start, end, step: 1 } => vec![format!("{} to {}", name(start), name(end))],
        Item::Nth { weekday, nth } => {
            vec![format!("the {} {} of the month", ordinal(nth.into()), name(weekday.into()))]
        }
        Item::LastWeekday(weekday) => vec![format!("the last {} of the month", name(weekday.into()))],
        item => item.values(field.unit).map(name).collect(),
    });
    and(&phrases.collect::<Vec<_>>())
}

fn months(field: &Field) -> String {
    let name = |month: u16| MONTHS[usize::from(month) - 1].to_owned();
    let phrases = field.items.iter().flat_map(|item| match *item {
        Item::Span { start, end, step: 1 } => vec![format!("{} to {}", name(start), name(end))],
        item => item.values(field.unit).map(name).collect(),
    });
    and(&phrases.collect::<Vec<_>>())
}

fn years(field: &Field) -> String {
    let phrase = |item: &Item| match *item {
        Item::One(year) => year.to_string(),
        Item::Span { start, end, step: 1 } => format!("{start} to {end}"),
        Item::Span { start, end, step } => format!("every {} year from {start} to {end}", ordinal(step)),
        Item::From { start, step } => format!("every {} year from {start}", ordinal(step)),
        Item::Any { step } => format!("every {} year from {}", ordinal(step), field.unit.min()),
        _ => String::new(),
    };
    and(&field.items.iter().map(phrase).collect::<Vec<_>>())
}

/// A unit and the next larger one.
fn names(unit: Unit) -> (&'static str, &'static str) {
    if unit == Unit::Second { ("second", "minute") } else { ("minute", "hour") }
}

/// `every hour`, `every 2 hours`.
fn every(step: u16, name: &str) -> String {
    if step == 1 { format!("every {name}") } else { format!("every {step} {name}s") }
}

/// `1st`, `2nd`, `11th`, `23rd`.
fn ordinal(number: u16) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// `a`, `a and b`, `a, b and c`.
fn and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::Cron;

    #[test]
    fn descriptions_read_like_english() {
        let expected = [
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("*/7 * * * *", "every 7 minutes from minute 0 of every hour"),
            ("15 * * * *", "at minute 15 of every hour"),
            ("5/15 * * * *", "every 15 minutes from minute 5 of every hour"),
            ("10-50/20 * * * *", "every 20 minutes from minute 10 to 50 of every hour"),
            ("1,5-9,*/20 * * * *", "at minutes 1, 5 to 9 and every 20th from 0 of every hour"),
            ("0 * * * *", "every hour"),
            ("@hourly", "every hour"),
            ("0 */2 * * *", "every 2 hours"),
            ("0 */5 * * *", "every 5 hours from 00:00 each day"),
            ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
            ("0 8-18/2 * * *", "every 2 hours from 08:00 to 18:00"),
            ("*/10 9-17 * * 1-5", "every 10 minutes, from 09:00 to 17:59, on Monday to Friday"),
            ("* 9,13 * * *", "every minute, from 09:00 to 09:59 and from 13:00 to 13:59"),
            ("30 */2 * * *", "at minute 30, in every 2nd hour from 00:00"),
            ("30 2 * * *", "at 02:30, every day"),
            ("0,30 2,14 * * *", "at 02:00, 02:30, 14:00 and 14:30, every day"),
            ("15 30 9 * * *", "at 09:30:15, every day"),
            ("* * * * * *", "every second"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("5 * * * * *", "at second 5 of every minute"),
            ("*/10 */5 * * * *", "every 10 seconds, in every 5th minute"),
            ("* 5 * * * *", "every second, in minute 5 of every hour"),
            ("@yearly", "at 00:00, on the 1st of January"),
            ("@monthly", "at 00:00, on the 1st of the month"),
            ("@weekly", "at 00:00, on Sunday"),
            ("0 0 L * *", "at 00:00, on the last day of the month"),
            (
                "0 0 L-3,15W,LW 2 *",
                "at 00:00, on the day 3 days before the last, the weekday nearest the 15th and \
              the last weekday (Monday to Friday) of February",
            ),
            ("0 0 * * FRI#2,5L", "at 00:00, on the 2nd Friday of the month and the last Friday of the month"),
            ("0 0 * NOV-FEB *", "at 00:00, in November to February"),
            ("0 0 1,15 * FRI-MON", "at 00:00, on the 1st and the 15th of the month or on Friday to Monday"),
            ("0 0 29 2 +MON", "at 00:00, on the 29th of February if that is Monday"),
            ("0 0 */10 * *", "at 00:00, on every 10th day from the 1st of the month"),
            ("0 0 * * */2", "at 00:00, on Sunday, Tuesday, Thursday and Saturday"),
            ("0 0 12 * * * 2030-2035", "at 12:00, in 2030 to 2035"),
            ("0 0 12 1 1 ? 2030/4", "at 12:00, on the 1st of January, in every 4th year from 2030"),
            ("@every 1h30m", "every 1 hour and 30 minutes"),
            ("@every 1d", "every day"),
            ("@every 90s", "every 1 minute and 30 seconds"),
        ];
        for (text, english) in expected {
            assert_eq!(Cron::parse(text).unwrap().describe(), english, "{text}");
        }
    }
}
