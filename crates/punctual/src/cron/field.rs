//! One field of an expression, as written: what it counts, and the items of its list.

use super::calendar;
use std::fmt;

/// What a field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// From 0, Sunday.
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Unit {
    pub(super) fn min(self) -> u16 {
        match self {
            Unit::Second | Unit::Minute | Unit::Hour | Unit::DayOfWeek => 0,
            Unit::DayOfMonth | Unit::Month => 1,
            Unit::Year => 1970,
        }
    }

    pub(super) fn max(self) -> u16 {
        match self {
            Unit::Second | Unit::Minute => 59,
            Unit::Hour => 23,
            Unit::DayOfMonth => 31,
            Unit::Month => 12,
            Unit::DayOfWeek => 6,
            Unit::Year => *calendar::YEARS.end(),
        }
    }

    /// How many values there are; also the longest step that makes sense.
    pub(super) fn size(self) -> u16 {
        self.max() - self.min() + 1
    }

    /// What a value must be, for an error.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Unit::Second => "a second from 0 to 59",
            Unit::Minute => "a minute from 0 to 59",
            Unit::Hour => "an hour from 0 to 23",
            Unit::DayOfMonth => "a day of the month from 1 to 31",
            Unit::Month => "a month from 1 to 12 or JAN to DEC",
            Unit::DayOfWeek => "a weekday from 0 to 7 or SUN to SAT",
            Unit::Year => "a year from 1970 to 9999",
        }
    }

    pub(super) fn is_day(self) -> bool {
        matches!(self, Unit::DayOfMonth | Unit::DayOfWeek)
    }

    /// The value that a three-letter name stands for.
    pub(super) fn named(self, text: &str) -> Option<u16> {
        let names: &[&str] = match self {
            Unit::Month => &MONTHS,
            Unit::DayOfWeek => &WEEKDAYS,
            _ => return None,
        };
        let index = names.iter().position(|name| name[..3].eq_ignore_ascii_case(text))?;
        Some(index as u16 + self.min())
    }
}

/// One item of a field's list. Weekdays are 0 to 6 here; `H` has become a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// `*` or `?`, and `*/2`.
    Any { step: u16 },
    /// `5`.
    One(u16),
    /// `5/15`: from 5 to the end of the range.
    From { start: u16, step: u16 },
    /// `9-17`, `22-2` (which wraps), `8-18/2`.
    Span { start: u16, end: u16, step: u16 },
    /// `L`, and `L-3`: that many days before the last of the month.
    Last { before: u8 },
    /// `15W`: the weekday nearest to the 15th, in the same month.
    Nearest(u8),
    /// `LW`, `L-3W`: the weekday nearest to that day.
    LastNearest { before: u8 },
    /// `FRI#2`: the second Friday.
    Nth { weekday: u8, nth: u8 },
    /// `5L`: the last Friday.
    LastWeekday(u8),
}

/// A field: the list of its items, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) unit: Unit,
    pub(super) items: Vec<Item>,
}

impl Field {
    pub(super) fn any(unit: Unit) -> Self {
        Self { unit, items: vec![Item::Any { step: 1 }] }
    }

    pub(super) fn one(unit: Unit, value: u16) -> Self {
        Self { unit, items: vec![Item::One(value)] }
    }

    /// Is it `*`? A list that happens to name every value is not: whoever writes it restricts the field.
    pub(super) fn is_any(&self) -> bool {
        self.items.contains(&Item::Any { step: 1 })
    }

    /// Is there a step, or a `*`, among the items?
    pub(super) fn has_step(&self) -> bool {
        self.items.iter().any(|item| {
            matches!(item, Item::Any { .. } | Item::From { .. })
                || matches!(item, Item::Span { step, .. } if *step > 1)
        })
    }

    /// The plain values of all items, in the order written, perhaps more than once.
    pub(super) fn values(&self) -> impl Iterator<Item = u16> + '_ {
        self.items.iter().flat_map(|item| item.values(self.unit))
    }

    /// The plain values as a set of bits.
    pub(super) fn bits(&self) -> u64 {
        self.values().fold(0, |bits, value| bits | 1 << value)
    }
}

impl Item {
    /// The values that an item names; none for those that depend on the month.
    pub(super) fn values(self, unit: Unit) -> impl Iterator<Item = u16> {
        let (start, end, step) = match self {
            Item::Any { step } => (unit.min(), unit.max(), step),
            Item::One(value) => (value, value, 1),
            Item::From { start, step } => (start, unit.max(), step),
            Item::Span { start, end, step } => (start, end, step),
            _ => (1, 0, 0),
        };
        let count = match step {
            0 => 0,
            _ if start <= end => end - start + 1,
            _ => unit.size() - (start - end - 1),
        };
        (0..count).step_by(usize::from(step.max(1))).map(move |ahead| {
            let value = start + ahead;
            if value > unit.max() { value - unit.size() } else { value }
        })
    }
}

impl fmt::Display for Field {
    /// The field as the parser would read it again; weekdays by name, since crons differ in their numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: u16| match self.unit {
            Unit::DayOfWeek => WEEKDAYS[usize::from(value)][..3].to_uppercase(),
            _ => value.to_string(),
        };
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match *item {
                Item::Any { step: 1 } => f.write_str("*")?,
                Item::Any { step } => write!(f, "*/{step}")?,
                Item::One(one) => f.write_str(&value(one))?,
                Item::From { start, step } => write!(f, "{}/{step}", value(start))?,
                Item::Span { start, end, step: 1 } => write!(f, "{}-{}", value(start), value(end))?,
                Item::Span { start, end, step } => write!(f, "{}-{}/{step}", value(start), value(end))?,
                Item::Last { before: 0 } => f.write_str("L")?,
                Item::Last { before } => write!(f, "L-{before}")?,
                Item::Nearest(day) => write!(f, "{day}W")?,
                Item::LastNearest { before: 0 } => f.write_str("LW")?,
                Item::LastNearest { before } => write!(f, "L-{before}W")?,
                Item::Nth { weekday, nth } => write!(f, "{}#{nth}", value(weekday.into()))?,
                Item::LastWeekday(weekday) => write!(f, "{}L", value(weekday.into()))?,
            }
        }
        Ok(())
    }
}
