//! The language of cron, read naively: does this expression, as text, match that date and time?
//!
//! Written to be obviously right, not to be fast: every question is answered from the text, for one value at a time, and
//! what depends on the calendar is asked of `jiff`. It shares nothing with the crate.

use jiff::civil::{Date, Weekday};

/// The seven fields as text: second to year.
pub(crate) struct Naive {
    second: String,
    minute: String,
    hour: String,
    day: String,
    month: String,
    weekday: String,
    year: String,
    /// Must both days match?
    both: bool,
}

impl Naive {
    pub(crate) fn new(text: &str) -> Self {
        let text = text.to_uppercase();
        let mut parts: Vec<&str> = text.split_whitespace().collect();
        if parts.len() == 5 {
            parts.insert(0, "0");
        }
        if parts.len() == 6 {
            parts.push("*");
        }
        let [second, minute, hour, day, month, weekday, year] = parts.try_into().expect("5, 6 or 7 fields");
        Self {
            second: second.into(),
            minute: minute.into(),
            hour: hour.into(),
            day: day.into(),
            month: numbered(month, &MONTHS, 1),
            weekday: numbered(weekday.trim_start_matches('+'), &WEEKDAYS, 0),
            year: year.into(),
            both: weekday.starts_with('+'),
        }
    }

    pub(crate) fn matches_hour(&self, hour: i8) -> bool {
        any(&self.hour, hour.into(), 0, 23)
    }

    pub(crate) fn matches_minute(&self, minute: i8) -> bool {
        any(&self.minute, minute.into(), 0, 59)
    }

    pub(crate) fn matches_second(&self, second: i8) -> bool {
        any(&self.second, second.into(), 0, 59)
    }

    pub(crate) fn matches_date(&self, date: Date) -> bool {
        let unrestricted =
            |field: &str| field.split(',').any(|item| ["*", "?", "*/1", "?/1"].contains(&item));
        let month = self.day.split(',').any(|item| day_of_month(item, date));
        let week = self.weekday.split(',').any(|item| day_of_week(item, date));
        let day = match unrestricted(&self.day) || unrestricted(&self.weekday) || self.both {
            true => month && week,
            false => month || week,
        };
        let year = self.year == "*" || any(&self.year, date.year().into(), 1970, 9999);
        day && year && any(&self.month, date.month().into(), 1, 12)
    }

    /// Does it follow the clock: a wildcard or a step, and more than one hour?
    pub(crate) fn follows_the_clock(&self) -> bool {
        let count = (0..24).filter(|&hour| self.matches_hour(hour)).count();
        let wild = self.hour.split(',').any(|item| match item.split_once('/') {
            Some((base, step)) => !base.contains('-') || step != "1",
            None => item == "*",
        });
        count == 24 || (count > 1 && wild)
    }
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

fn numbered(field: &str, names: &[&str], first: usize) -> String {
    let replace =
        |text: String, (index, name): (usize, &&str)| text.replace(name, &(index + first).to_string());
    names.iter().enumerate().fold(field.to_owned(), replace)
}

fn any(field: &str, value: i32, min: i32, max: i32) -> bool {
    field.split(',').any(|item| plain(item, value, min, max))
}

/// An item without letters: walk from its start, by its step, until its end, and see whether the value is met.
fn plain(item: &str, value: i32, min: i32, max: i32) -> bool {
    let (base, step) = item.split_once('/').unwrap_or((item, "1"));
    let step: i32 = step.parse().unwrap();
    let (start, end) = match base.split_once('-') {
        _ if base == "*" || base == "?" => (min, max),
        Some((start, end)) => (start.parse().unwrap(), end.parse().unwrap()),
        None if item.contains('/') => (base.parse().unwrap(), max),
        None => (base.parse().unwrap(), base.parse().unwrap()),
    };
    let end = if end < start { end + (max - min + 1) } else { end };
    let mut at = start;
    while at <= end {
        if (at - min) % (max - min + 1) + min == value {
            return true;
        }
        at += step;
    }
    false
}

fn day_of_month(item: &str, date: Date) -> bool {
    let last = i32::from(date.days_in_month());
    let anchor = |text: &str| match text.strip_prefix('L') {
        Some("") => last,
        Some(before) => last - before.trim_start_matches('-').parse::<i32>().unwrap(),
        None => text.parse().unwrap(),
    };
    if let Some(text) = item.strip_suffix('W') {
        let wanted = anchor(text);
        let is_working = |day: &i32| {
            let weekday = date.with().day(*day as i8).build().unwrap().weekday();
            weekday != Weekday::Saturday && weekday != Weekday::Sunday
        };
        let nearest = (1..=last).filter(is_working).min_by_key(|day| (day - wanted).abs());
        return (1..=last).contains(&wanted) && nearest == Some(date.day().into());
    }
    match item.starts_with('L') {
        true => anchor(item) == date.day().into(),
        false => plain(item, date.day().into(), 1, 31),
    }
}

fn day_of_week(item: &str, date: Date) -> bool {
    let weekday = |text: &str| Weekday::from_sunday_zero_offset(text.parse::<i8>().unwrap() % 7).unwrap();
    if let Some((day, nth)) = item.split_once('#') {
        return date.nth_weekday_of_month(nth.parse().unwrap(), weekday(day)).is_ok_and(|nth| nth == date);
    }
    if let Some(day) = item.strip_suffix('L') {
        return date.nth_weekday_of_month(-1, weekday(day)).unwrap() == date;
    }
    let today = i32::from(date.weekday().to_sunday_zero_offset());
    // Sunday is at both ends of the week.
    let base = item.split('/').next().unwrap();
    match (base.starts_with('7'), base.ends_with('7')) {
        (true, _) => plain(&item.replace(base, &base.replace('7', "0")), today, 0, 6),
        (false, true) => plain(item, if today == 0 && !base.starts_with('0') { 7 } else { today }, 0, 7),
        (false, false) => plain(item, today, 0, 6),
    }
}
