//! Dates as numbers: days since 1 January 1970, in the proleptic Gregorian calendar of the years 1 to 9999.
//!
//! The search asks the same two questions over and over, how long a month is and on what weekday it begins, so it
//! wants them as plain arithmetic. Zones are another matter, and `jiff`'s.

use std::ops::RangeInclusive;

pub(super) const DAY: i64 = 86_400;

/// The years that the search covers.
pub(super) const YEARS: RangeInclusive<u16> = 1..=9999;

/// Days before each month of a common year.
const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The days from 1 January of year 1 to 1 January 1970.
const EPOCH: i64 = 719_162;

/// The mean length of a year is `CYCLE` / 400 days.
const CYCLE: i64 = 146_097;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: u16,
    /// 1 to 12.
    pub(super) month: u8,
    /// 1 to 31.
    pub(super) day: u8,
}

pub(super) fn is_leap(year: u16) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(leap: bool, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// The number of 1 January.
fn first_of_year(year: u16) -> i64 {
    let past = i64::from(year) - 1;
    365 * past + past / 4 - past / 100 + past / 400 - EPOCH
}

/// The number of a date.
pub(super) fn number(date: Date) -> i64 {
    let leap_day = i64::from(date.month > 2 && is_leap(date.year));
    first_of_year(date.year) + BEFORE_MONTH[usize::from(date.month) - 1] + leap_day + i64::from(date.day) - 1
}

/// The date of a number, which must lie within [`YEARS`].
pub(super) fn date(number: i64) -> Date {
    // The estimate is the year or the one before.
    let estimate = ((number + EPOCH) * 400 / CYCLE + 1) as u16;
    let year = [estimate + 1, estimate].into_iter().find(|&year| first_of_year(year) <= number);
    let year = year.unwrap_or(estimate - 1);
    let mut day = (number - first_of_year(year)) as u16;
    let mut month = 1;
    while day >= u16::from(days_in_month(is_leap(year), month)) {
        day -= u16::from(days_in_month(is_leap(year), month));
        month += 1;
    }
    Date { year, month, day: day as u8 + 1 }
}

/// The weekday of a date's number; 0 is Sunday.
pub(super) fn weekday(number: i64) -> u8 {
    // 1 January 1970 was a Thursday.
    (number + 4).rem_euclid(7) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_number_and_its_weekday() {
        assert_eq!(number(Date { year: 1, month: 1, day: 1 }), -EPOCH);
        // Whole cycles of 400 years at the beginning, now and at the end: 1 January is the same weekday in all.
        for (first, last) in [(1, 401), (1601, 2401), (9601, 9999)] {
            count_every_day(first, last);
        }
    }

    fn count_every_day(first: u16, last: u16) {
        let (mut expected, mut weekday_expected) = (number(Date { year: first, month: 1, day: 1 }), 1);
        for year in first..=last {
            for month in 1..=12 {
                for day in 1..=days_in_month(is_leap(year), month) {
                    let it = Date { year, month, day };
                    assert_eq!((number(it), date(expected)), (expected, it));
                    assert_eq!(weekday(expected), weekday_expected);
                    (expected, weekday_expected) = (expected + 1, (weekday_expected + 1) % 7);
                }
            }
        }
    }

    #[test]
    fn the_calendar_is_that_of_jiff() {
        for (year, month, day) in
            [(1, 1, 1), (1582, 10, 15), (1900, 2, 28), (2000, 2, 29), (2026, 3, 8), (9999, 12, 31)]
        {
            let theirs = jiff::civil::date(year, month, day);
            let ours = number(Date { year: year as u16, month: month as u8, day: day as u8 });
            let seconds = jiff::tz::Offset::UTC.to_timestamp(theirs.at(0, 0, 0, 0)).map(|at| at.as_second());
            // The last day is beyond what jiff can count as an instant.
            assert!(seconds.is_err() || seconds.unwrap() == ours * DAY);
            assert_eq!(theirs.weekday().to_sunday_zero_offset(), weekday(ours) as i8);
        }
    }
}
