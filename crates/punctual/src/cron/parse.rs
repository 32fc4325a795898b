//! From text to fields.
//!
//! ```text
//! expression = field{5,7}, split at blanks    5: minute hour day-of-month month day-of-week
//!            | @nickname | @every duration    6: second first    7: and the year last
//! field      = ["+"] item {"," item}          the + only before the day of the week
//! item       = base ["/" step]
//! base       = "*" | "?" | value ["-" value] | "H" ["(" value "-" value ")"]
//!            | "L" ["-" n] ["W"] | n "W"      day of the month
//!            | weekday "#" n | weekday "L"    day of the week
//! ```
//!
//! Letters may be upper or lower case. Every error knows its place: the functions below pass pieces of the
//! expression on as [`Piece`]s, which remember where they came from.

use super::days::DayRule;
use super::error::{CronError, CronErrorKind};
use super::every;
use super::field::{Field, Item, Unit};
use super::pattern::Fields;
use super::spread::spread;
use std::borrow::Cow;
use std::time::Duration;

/// Longer than any list that makes sense, and short enough that a hostile one costs nothing.
const LONGEST: usize = 4096;

/// What an expression says.
pub(super) enum Parsed {
    Fields(Box<Fields>),
    Every(Duration),
}

/// What [`parse`] is told besides the text.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) seed: Option<&'a str>,
    pub(super) rule: DayRule,
}

/// A part of the expression that knows its place in it.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    whole: &'a str,
    start: usize,
    end: usize,
}

type Result<T> = std::result::Result<T, CronError>;

impl<'a> Piece<'a> {
    fn new(whole: &'a str) -> Self {
        Self { whole, start: 0, end: whole.len() }
    }

    pub(super) fn text(self) -> &'a str {
        &self.whole[self.start..self.end]
    }

    /// The part from `from` to `to`, in bytes of this piece.
    pub(super) fn part(self, from: usize, to: usize) -> Self {
        Self { whole: self.whole, start: self.start + from, end: self.start + to }
    }

    fn without_prefix(self, prefix: char) -> Option<Self> {
        let rest = self.text().strip_prefix(|found: char| found.eq_ignore_ascii_case(&prefix))?;
        Some(Self { start: self.end - rest.len(), ..self })
    }

    fn without_suffix(self, suffix: char) -> Option<Self> {
        let rest = self.text().strip_suffix(|found: char| found.eq_ignore_ascii_case(&suffix))?;
        Some(Self { end: self.start + rest.len(), ..self })
    }

    /// What is before and what is after the first `at`.
    fn split_once(self, at: char) -> Option<(Self, Self)> {
        let index = self.text().find(at)?;
        Some((self.part(0, index), Self { start: self.start + index + at.len_utf8(), ..self }))
    }

    /// What is between the separators.
    fn split(self, separator: impl Fn(char) -> bool + Copy) -> impl Iterator<Item = Self> {
        let origin = self.text().as_ptr() as usize;
        self.text().split(separator).map(move |text| {
            let from = text.as_ptr() as usize - origin;
            self.part(from, from + text.len())
        })
    }

    pub(super) fn error(self, expected: impl Into<Cow<'static, str>>) -> CronError {
        self.error_of(CronErrorKind::Syntax, expected)
    }

    pub(super) fn error_of(self, kind: CronErrorKind, expected: impl Into<Cow<'static, str>>) -> CronError {
        CronError::new(kind, self.whole, self.start..self.end, expected)
    }

    /// A number without sign, if it is one and fits.
    pub(super) fn number(self) -> Option<u16> {
        let text = self.text();
        (text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
    }
}

/// Reads an expression.
pub(super) fn parse(text: &str, settings: Settings<'_>) -> Result<Parsed> {
    if text.len() > LONGEST {
        let mut cut = LONGEST;
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let error = Piece::new(&text[..cut])
            .part(0, 0)
            .error(format!("an expression of at most {LONGEST} bytes, not {}", text.len()));
        return Err(error);
    }
    let whole = Piece::new(text);
    let pieces: Vec<_> =
        whole.split(|c| c.is_ascii_whitespace()).filter(|piece| piece.start < piece.end).collect();
    match pieces.as_slice() {
        [first, rest @ ..] if first.text().starts_with('@') => nickname(*first, rest, settings),
        _ => fields(whole, &pieces, settings).map(|fields| Parsed::Fields(Box::new(fields))),
    }
}

/// `@daily` and its like, and `@every`.
fn nickname(name: Piece<'_>, rest: &[Piece<'_>], settings: Settings<'_>) -> Result<Parsed> {
    const KNOWN: &str = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every";
    let expression = match name.text().to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@every" => return every::parse(name, rest).map(Parsed::Every),
        _ => return Err(name.error(KNOWN)),
    };
    match rest.first() {
        Some(extra) => Err(extra.error(format!("nothing after {}", name.text()))),
        None => parse(expression, settings),
    }
}

fn fields(whole: Piece<'_>, pieces: &[Piece<'_>], settings: Settings<'_>) -> Result<Fields> {
    use Unit::*;
    let field = |index: usize, unit| read_field(pieces[index], unit, settings.seed);
    let (first, written) = match pieces.len() {
        5 => (0, 5),
        count @ (6 | 7) => (1, count as u8),
        0 => return Err(whole.part(0, 0).error("5, 6 or 7 fields or a nickname such as @daily")),
        count if count < 5 => {
            let end = whole.part(whole.end, whole.end);
            return Err(end.error(format!("5, 6 or 7 fields, not {count}")));
        }
        count => return Err(pieces[7].error(format!("5, 6 or 7 fields, not {count}"))),
    };
    let (weekday, both) = match pieces[first + 4].without_prefix('+') {
        Some(weekday) => (weekday, true),
        None => (pieces[first + 4], false),
    };
    let fields = Fields {
        second: if first == 1 { field(0, Second)? } else { Field::one(Second, 0) },
        minute: field(first, Minute)?,
        hour: field(first + 1, Hour)?,
        day_of_month: field(first + 2, DayOfMonth)?,
        month: field(first + 3, Month)?,
        day_of_week: read_field(weekday, DayOfWeek, settings.seed)?,
        year: if written == 7 { field(6, Year)? } else { Field::any(Year) },
        rule: if both { DayRule::Both } else { settings.rule },
        written,
    };
    Ok(fields)
}

/// The place that an error about an impossible date points to: from the day of the month to the end.
pub(super) fn dates(text: &str, fields: &Fields) -> CronError {
    let pieces: Vec<_> =
        Piece::new(text).split(|c| c.is_ascii_whitespace()).filter(|piece| piece.start < piece.end).collect();
    let first = usize::from(fields.written > 5) + 2;
    let place = match (pieces.get(first), pieces.last()) {
        (Some(from), Some(to)) => Piece { start: from.start, ..*to },
        _ => Piece::new(text),
    };
    place.error_of(CronErrorKind::Impossible, "a date that exists")
}

fn read_field(field: Piece<'_>, unit: Unit, seed: Option<&str>) -> Result<Field> {
    let items = field.split(|c| c == ',').map(|item| read_item(item, unit, seed)).collect::<Result<_>>()?;
    Ok(Field { unit, items })
}

fn read_item(item: Piece<'_>, unit: Unit, seed: Option<&str>) -> Result<Item> {
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some(read_step(step, unit)?)),
        None => (item, None),
    };
    if let Some(rest) = base.without_prefix('H') {
        return hashed(base, rest, step, unit, seed);
    }
    match (read_base(base, unit)?, step) {
        (base, None) => Ok(base),
        (Item::Any { .. }, Some(step)) => Ok(Item::Any { step }),
        (Item::One(start), Some(step)) => Ok(Item::From { start, step }),
        (Item::Span { start, end, .. }, Some(step)) => Ok(Item::Span { start, end, step }),
        (_, Some(_)) => Err(item.error(format!("no step after {}", base.text()))),
    }
}

fn read_step(step: Piece<'_>, unit: Unit) -> Result<u16> {
    match step.number() {
        Some(number) if (1..=unit.size()).contains(&number) => Ok(number),
        _ => Err(step.error(format!("a step from 1 to {}", unit.size()))),
    }
}

fn read_base(base: Piece<'_>, unit: Unit) -> Result<Item> {
    match base.text() {
        "*" => return Ok(Item::Any { step: 1 }),
        "?" if unit.is_day() => return Ok(Item::Any { step: 1 }),
        _ => {}
    }
    let special = match unit {
        Unit::DayOfMonth => special_day(base)?,
        Unit::DayOfWeek => special_weekday(base)?,
        _ => None,
    };
    if let Some(special) = special {
        return Ok(special);
    }
    match base.split_once('-') {
        Some((start, end)) => {
            let (start, end) = (value(start, unit)?, value(end, unit)?);
            span(base, start, end, unit)
        }
        None => Ok(Item::One(value(base, unit)? % modulus(unit))),
    }
}

/// Weekday 7 is weekday 0; of the others, nothing is anything else.
fn modulus(unit: Unit) -> u16 {
    if unit == Unit::DayOfWeek { 7 } else { u16::MAX }
}

fn span(place: Piece<'_>, start: u16, end: u16, unit: Unit) -> Result<Item> {
    match (unit, start, end) {
        (Unit::Year, ..) if start > end => Err(place.error("years in ascending order")),
        // From the Sunday that begins the week to the one that ends it.
        (Unit::DayOfWeek, 0, 7) => Ok(Item::Span { start: 0, end: 6, step: 1 }),
        _ => Ok(Item::Span { start: start % modulus(unit), end: end % modulus(unit), step: 1 }),
    }
}

/// A number or a name. A weekday may be 7 here.
fn value(piece: Piece<'_>, unit: Unit) -> Result<u16> {
    let highest = if unit == Unit::DayOfWeek { 7 } else { unit.max() };
    match piece.number().or_else(|| unit.named(piece.text())) {
        Some(value) if (unit.min()..=highest).contains(&value) => Ok(value),
        _ => Err(piece.error(unit.expected())),
    }
}

/// `L`, `L-3`, `LW`, `L-3W` and `15W`.
fn special_day(base: Piece<'_>) -> Result<Option<Item>> {
    let (base, nearest) = match base.without_suffix('W') {
        Some(base) => (base, true),
        None => (base, false),
    };
    let Some(rest) = base.without_prefix('L') else {
        return match nearest {
            true => Ok(Some(Item::Nearest(value(base, Unit::DayOfMonth)? as u8))),
            false => Ok(None),
        };
    };
    let before = match rest.without_prefix('-') {
        _ if rest.text().is_empty() => 0,
        Some(number) => match number.number() {
            Some(before @ 0..=30) => before as u8,
            _ => return Err(number.error("a number of days before the last from 0 to 30")),
        },
        None => return Err(base.error("L, L-3, LW or L-3W")),
    };
    Ok(Some(if nearest { Item::LastNearest { before } } else { Item::Last { before } }))
}

/// `FRI#2` and `5L`.
fn special_weekday(base: Piece<'_>) -> Result<Option<Item>> {
    let weekday = |piece| value(piece, Unit::DayOfWeek).map(|day| (day % 7) as u8);
    if let Some((day, nth)) = base.split_once('#') {
        let weekday = weekday(day)?;
        return match nth.number() {
            Some(nth @ 1..=5) => Ok(Some(Item::Nth { weekday, nth: nth as u8 })),
            _ => Err(nth.error("a number from 1 to 5 after #")),
        };
    }
    match base.without_suffix('L') {
        Some(day) if day.text().is_empty() => Err(base.error("a weekday before L, such as FRIL")),
        Some(day) => Ok(Some(Item::LastWeekday(weekday(day)?))),
        None => Ok(None),
    }
}

/// `H`, `H/15`, `H(0-29)` and `H(0-29)/10`: `rest` is what follows the letter.
fn hashed(
    base: Piece<'_>,
    rest: Piece<'_>,
    step: Option<u16>,
    unit: Unit,
    seed: Option<&str>,
) -> Result<Item> {
    if unit == Unit::Year {
        return Err(base.error(unit.expected()));
    }
    let bounds = match rest.without_prefix('(').and_then(|inner| inner.without_suffix(')')) {
        Some(inner) => match inner.split_once('-') {
            Some((start, end)) => Some((value(start, unit)?, value(end, unit)?)),
            None => return Err(inner.error("a range such as 0-29")),
        },
        None if rest.text().is_empty() => None,
        None => return Err(base.error("H, H/15 or H(0-29)")),
    };
    if let Some((start, end)) = bounds.filter(|(start, end)| start > end || *end > unit.max()) {
        return Err(rest.error(format!("a range in ascending order up to {}, not {start}-{end}", unit.max())));
    }
    let seed = seed.ok_or_else(|| {
        base.error_of(CronErrorKind::Seed, "a seed to spread H by (CronOptions::seed), or a number")
    })?;
    // A day that every month has.
    let highest = if unit == Unit::DayOfMonth { 28 } else { unit.max() };
    let (start, end) = bounds.unwrap_or((unit.min(), highest));
    let size = end - start + 1;
    Ok(match (step, bounds) {
        (None, _) => Item::One(start + spread(seed, unit, size)),
        (Some(step), None) => Item::From { start: start + spread(seed, unit, step.min(size)), step },
        (Some(step), Some(_)) => Item::Span { start: start + spread(seed, unit, step.min(size)), end, step },
    })
}
