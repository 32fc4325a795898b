//! Which days of a month an expression admits: a function of the month's length and of its first weekday alone.

use super::calendar::days_in_month;
use super::field::{Field, Item};

/// How a day of the month and a day of the week combine when an expression restricts both.
///
/// ```text
/// 0 0 13 * FRI    Either: every 13th, and every Friday
///                 Both:   every Friday the 13th
/// ```
///
/// A field is unrestricted only if it is written `*` or `?`; then the other one decides, whatever the rule.
/// In an expression, a `+` before the day of the week asks for [`Both`](Self::Both): `0 0 13 * +FRI`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DayRule {
    /// A day that either field admits, as POSIX has it. The default.
    #[default]
    Either,
    /// Only a day that both fields admit.
    Both,
}

/// The days that an expression admits, as bits: bit `n` is day, or weekday, `n`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Days {
    /// Days of the month.
    of_month: u32,
    /// Bit `n`: the day `n` days before the last.
    from_last: u32,
    /// Days whose nearest weekday is meant.
    nearest: u32,
    /// Bit `n`: the weekday nearest to the day `n` days before the last.
    nearest_from_last: u32,
    /// Days of the week, at any time of the month.
    of_week: u8,
    /// Element `n`: weekdays that are meant in their occurrence `n + 1`.
    nth: [u8; 5],
    /// Weekdays that are meant in their last occurrence.
    last: u8,
    rule: DayRule,
}

impl Days {
    pub(super) fn new(of_month: &Field, of_week: &Field, rule: DayRule) -> Self {
        // If one of them is unrestricted, a day must satisfy both: everything satisfies that one.
        let restricted = !of_month.is_any() && !of_week.is_any();
        let mut days = Self {
            of_month: of_month.bits() as u32,
            from_last: 0,
            nearest: 0,
            nearest_from_last: 0,
            of_week: of_week.bits() as u8,
            nth: [0; 5],
            last: 0,
            rule: if restricted { rule } else { DayRule::Both },
        };
        for item in of_month.items.iter().chain(&of_week.items) {
            match *item {
                Item::Last { before } => days.from_last |= 1 << before,
                Item::Nearest(day) => days.nearest |= 1 << day,
                Item::LastNearest { before } => days.nearest_from_last |= 1 << before,
                Item::Nth { weekday, nth } => days.nth[usize::from(nth) - 1] |= 1 << weekday,
                Item::LastWeekday(weekday) => days.last |= 1 << weekday,
                Item::Any { .. } | Item::One(_) | Item::From { .. } | Item::Span { .. } => {}
            }
        }
        days
    }

    /// The days admitted in a month of that length whose first day is that weekday, as bits 1 to `length`.
    pub(super) fn in_month(&self, length: u8, first: u8) -> u32 {
        let (month, week) = (self.by_month(length, first), self.by_week(length, first));
        match self.rule {
            DayRule::Either => month | week,
            DayRule::Both => month & week,
        }
    }

    /// Does some month of such a year have a day that is admitted?
    pub(super) fn in_year(&self, months: u16, leap: bool, mut first: u8) -> bool {
        (1..=12).any(|month| {
            let length = days_in_month(leap, month);
            let found = months & 1 << month != 0 && self.in_month(length, first) != 0;
            first = (first + length) % 7;
            found
        })
    }

    fn by_month(&self, length: u8, first: u8) -> u32 {
        let mut days = self.of_month;
        for before in bits(self.from_last).filter(|&before| before < length) {
            days |= 1 << (length - before);
        }
        for day in bits(self.nearest).filter(|&day| day <= length) {
            days |= 1 << nearest_weekday(day, length, first);
        }
        for before in bits(self.nearest_from_last).filter(|&before| before < length) {
            days |= 1 << nearest_weekday(length - before, length, first);
        }
        // Bits 1 to `length`.
        days & ((2_u32 << (length - 1)) - 1) << 1
    }

    fn by_week(&self, length: u8, first: u8) -> u32 {
        if self.of_week == 0x7f {
            return ((2_u32 << (length - 1)) - 1) << 1;
        }
        (1..=length)
            .filter(|day| {
                let weekday = 1 << ((first + day - 1) % 7);
                let nth = self.nth[usize::from((day - 1) / 7)];
                let last = if day + 7 > length { self.last } else { 0 };
                (self.of_week | nth | last) & weekday != 0
            })
            .fold(0, |days, day| days | 1 << day)
    }
}

/// The positions of the bits that are set.
fn bits(set: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |bit| set & 1 << bit != 0)
}

/// The day from Monday to Friday nearest to `day`, without leaving the month.
fn nearest_weekday(day: u8, length: u8, first: u8) -> u8 {
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::Unit;
    use super::*;

    fn days(of_month: &[Item], of_week: &[Item], rule: DayRule) -> Days {
        let field = |unit, items: &[Item]| Field { unit, items: items.to_vec() };
        Days::new(&field(Unit::DayOfMonth, of_month), &field(Unit::DayOfWeek, of_week), rule)
    }

    fn listed(set: u32) -> Vec<u8> {
        bits(set).collect()
    }

    const ANY: &[Item] = &[Item::Any { step: 1 }];

    #[test]
    fn an_unrestricted_field_leaves_the_other_to_decide_under_both_rules() {
        for rule in [DayRule::Either, DayRule::Both] {
            assert_eq!(listed(days(&[Item::One(13)], ANY, rule).in_month(31, 0)), [13]);
            assert_eq!(listed(days(ANY, &[Item::One(1)], rule).in_month(28, 1)), [1, 8, 15, 22]);
            assert_eq!(listed(days(ANY, ANY, rule).in_month(31, 4)), (1..=31).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_restricted_fields_are_joined_by_the_rule() {
        // The first is a Sunday, the 13th a Friday.
        let both = days(&[Item::One(13)], &[Item::One(5)], DayRule::Both);
        let either = days(&[Item::One(13)], &[Item::One(5)], DayRule::Either);
        assert_eq!(listed(both.in_month(30, 0)), [13]);
        assert_eq!(listed(either.in_month(30, 1)), [5, 12, 13, 19, 26]);
        assert_eq!(listed(both.in_month(30, 1)), []);
        // A step restricts, even one that begins with a star.
        let stepped = days(&[Item::Any { step: 10 }], &[Item::One(0)], DayRule::Either);
        assert_eq!(listed(stepped.in_month(28, 0)), [1, 8, 11, 15, 21, 22]);
    }

    #[test]
    fn days_beyond_the_end_of_the_month_are_not_admitted() {
        assert_eq!(listed(days(&[Item::One(30), Item::One(31)], ANY, DayRule::Either).in_month(30, 3)), [30]);
        assert_eq!(listed(days(&[Item::Nearest(31)], ANY, DayRule::Either).in_month(30, 3)), []);
        assert_eq!(listed(days(&[Item::Last { before: 30 }], ANY, DayRule::Either).in_month(30, 3)), []);
        assert_eq!(listed(days(&[Item::Last { before: 30 }], ANY, DayRule::Either).in_month(31, 3)), [1]);
    }

    #[test]
    fn the_nearest_weekday_stays_in_its_month() {
        // Saturday the first goes forward to Monday the third, Sunday the last back to Friday.
        assert_eq!(nearest_weekday(1, 31, 6), 3);
        assert_eq!(nearest_weekday(30, 30, 6), 28);
        assert_eq!(nearest_weekday(1, 31, 0), 2);
        assert_eq!(nearest_weekday(15, 31, 0), 16);
        assert_eq!(nearest_weekday(14, 31, 0), 13);
        assert_eq!(nearest_weekday(11, 31, 0), 11);
    }

    #[test]
    fn the_nth_and_the_last_weekday_are_counted_in_the_month() {
        let second = days(ANY, &[Item::Nth { weekday: 5, nth: 2 }], DayRule::Either);
        assert_eq!(listed(second.in_month(30, 5)), [8]);
        assert_eq!(listed(second.in_month(30, 6)), [14]);
        let fifth = days(ANY, &[Item::Nth { weekday: 5, nth: 5 }], DayRule::Either);
        assert_eq!((listed(fifth.in_month(29, 5)), listed(fifth.in_month(28, 5))), (vec![29], vec![]));
        let last = days(ANY, &[Item::LastWeekday(5)], DayRule::Either);
        assert_eq!((listed(last.in_month(29, 5)), listed(last.in_month(28, 5))), (vec![29], vec![22]));
    }
}
