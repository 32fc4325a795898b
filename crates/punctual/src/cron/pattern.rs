//! The wall times that an expression admits, and the search for the next one.
//!
//! A wall time here is a number: seconds since 1970-01-01 00:00:00 *on the wall*, in no zone. Which instants have
//! that wall time is the business of `resolve.rs`.
//!
//! # Invariants
//! 1. `seconds`, `minutes`, `hours` and `months` are not empty.
//! 2. `kinds` has a bit for each kind of year (leap or not, and the weekday it begins on) with an admitted day, and
//!    some admitted year is of such a kind. So a search within the admitted years finds a day, or the years end.
//!
//! # Cost
//! The search looks at the day it starts on, then at the rest of that year month by month, then at whole years, for
//! which 2 is one test of a bit; then again at twelve months at most. The years end at 9999, so the worst case is
//! eight thousand such tests, for a pattern that admits few kinds of years and no more of them to come. The longest
//! distance between two matches without a list of years is 40 years (29 February, on a given weekday).

use super::calendar::{self, DAY, Date, days_in_month, is_leap, weekday};
use super::days::{DayRule, Days};
use super::field::Field;

/// The wall times that an expression admits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    seconds: u64,
    minutes: u64,
    hours: u32,
    months: u16,
    days: Days,
    years: Years,
    /// See invariant 2; bit `2 × weekday + leap`.
    kinds: u16,
    /// See [`Pattern::follows_the_clock`].
    flows: bool,
}

/// The seven fields of an expression, as written.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    pub(super) second: Field,
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day_of_month: Field,
    pub(super) month: Field,
    pub(super) day_of_week: Field,
    pub(super) year: Field,
    pub(super) rule: DayRule,
    /// How many were written: 5, 6 or 7.
    pub(super) written: u8,
}

/// Ranges of years, ascending and apart; `None` is every year.
type Years = Option<Box<[(u16, u16)]>>;

impl Pattern {
    /// The pattern of these fields, or `None` if no date can match it.
    pub(super) fn new(fields: &Fields) -> Option<Self> {
        let hours = fields.hour.bits() as u32;
        let all_day = hours.count_ones() == 24;
        let mut pattern = Self {
            seconds: fields.second.bits(),
            minutes: fields.minute.bits(),
            hours,
            months: fields.month.bits() as u16,
            days: Days::new(&fields.day_of_month, &fields.day_of_week, fields.rule),
            years: years(&fields.year),
            kinds: 0,
            flows: all_day || (fields.hour.has_step() && hours.count_ones() > 1),
        };
        for kind in 0..14 {
            let (first, leap) = (kind / 2, kind % 2 == 1);
            pattern.kinds |= u16::from(pattern.days.in_year(pattern.months, leap, first)) << kind;
        }
        // Every kind of year occurs within 400 years; a list of years may hold none of the right ones.
        let possible = match &pattern.years {
            None => pattern.kinds != 0,
            Some(_) => pattern.next_year(*calendar::YEARS.start()).is_some(),
        };
        possible.then_some(pattern)
    }

    /// Does it follow the clock through a change of the offset, firing whenever the wall shows a matching time?
    /// That is so if the hour is a wildcard, or steps through more hours than one. All others name times of the day.
    pub(super) fn follows_the_clock(&self) -> bool {
        self.flows
    }

    /// The first admitted wall time that is not before `from`.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        let earliest = calendar::number(Date { year: *calendar::YEARS.start(), month: 1, day: 1 });
        let (day, second) = match (from.div_euclid(DAY), from.rem_euclid(DAY)) {
            (day, _) if day < earliest => (earliest, 0),
            within => within,
        };
        let found = self.next_day(day)?;
        if found > day {
            return Some(found * DAY + self.next_second(0)?);
        }
        match self.next_second(second as u32) {
            Some(second) => Some(day * DAY + second),
            None => Some(self.next_day(day + 1)? * DAY + self.next_second(0)?),
        }
    }

    /// The first admitted day that is not before `from`, which is in year 1 or later.
    fn next_day(&self, from: i64) -> Option<i64> {
        let end = calendar::number(Date { year: *calendar::YEARS.end(), month: 12, day: 31 });
        if from > end {
            return None;
        }
        let mut at = calendar::date(from);
        // The rest of the year of `from`, and then, by invariant 2, one whole year.
        for _ in 0..2 {
            if let Some(year) = self.next_year(at.year) {
                if year > at.year {
                    at = Date { year, month: 1, day: 1 };
                }
            } else {
                return None;
            }
            if let Some(found) = self.next_day_in_year(at) {
                return Some(found);
            }
            at = Date { year: at.year + 1, month: 1, day: 1 };
        }
        None
    }

    /// The first admitted day of that year that is not before `from`.
    fn next_day_in_year(&self, from: Date) -> Option<i64> {
        let Date { year, month: first_month, mut day } = from;
        for month in first_month..=12 {
            if self.months & 1 << month != 0 {
                let first = calendar::number(Date { year, month, day: 1 });
                let days = self.days.in_month(days_in_month(is_leap(year), month), weekday(first));
                let rest = days & (u32::MAX << day);
                if rest != 0 {
                    return Some(first + i64::from(rest.trailing_zeros()) - 1);
                }
            }
            day = 1;
        }
        None
    }

    /// The first admitted year with an admitted day that is not before `from`.
    fn next_year(&self, from: u16) -> Option<u16> {
        let admits = |&year: &u16| {
            let first = weekday(calendar::number(Date { year, month: 1, day: 1 }));
            self.kinds & 1 << (2 * first + u8::from(is_leap(year))) != 0
        };
        match &self.years {
            None => (from..=*calendar::YEARS.end()).find(admits),
            Some(ranges) => {
                let begin = ranges.partition_point(|&(_, last)| last < from);
                ranges[begin..].iter().flat_map(|&(first, last)| first.max(from)..=last).find(admits)
            }
        }
    }

    /// The first admitted second of the day that is not before `from`.
    fn next_second(&self, from: u32) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let time = |hour: u32, minute: u32, second: u32| Some(i64::from(hour * 3600 + minute * 60 + second));
        let (first_minute, first_second) = (self.minutes.trailing_zeros(), self.seconds.trailing_zeros());
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0 {
                if let Some(second) = not_before(self.seconds, second) {
                    return time(hour, minute, second);
                }
            }
            if let Some(minute) = not_before(self.minutes, minute + 1) {
                return time(hour, minute, first_second);
            }
        }
        let hour = not_before(self.hours.into(), hour + 1)?;
        time(hour, first_minute, first_second)
    }
}

/// The lowest bit of the set at or above `from`, which is at most 63.
fn not_before(set: u64, from: u32) -> Option<u32> {
    let rest = set & (u64::MAX << from);
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The years of a field as ranges.
fn years(field: &Field) -> Years {
    if field.is_any() {
        return None;
    }
    // Marked, not collected: a long list may name every year hundreds of times.
    let mut marked = vec![false; usize::from(field.unit.max()) + 1];
    field.values().for_each(|year| marked[usize::from(year)] = true);
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for year in (0..).zip(&marked).filter(|(_, marked)| **marked).map(|(year, _)| year) {
        match ranges.last_mut() {
            Some((_, last)) if year == *last + 1 => *last = year,
            _ => ranges.push((year, year)),
        }
    }
    Some(ranges.into())
}
