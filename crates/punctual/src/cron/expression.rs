//! [`Cron`]: an expression that has been read and found possible.

use super::days::DayRule;
use super::describe;
use super::error::CronError;
use super::every::Period;
use super::parse::{self, Parsed, Settings};
use super::pattern::{Fields, Pattern};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

/// A cron expression.
///
/// # The language
///
/// | Fields | |
/// |---|---|
/// | 5 | minute, hour, day of the month, month, day of the week |
/// | 6 | a second before them |
/// | 7 | and a year (1970 to 9999) after them |
///
/// | Item | means | where |
/// |---|---|---|
/// | `*` | every value | |
/// | `?` | the same | days |
/// | `5`, `1,15`, `9-17` | a value, a list, a range | |
/// | `22-2`, `FRI-MON` | a range that wraps | not years |
/// | `*/10`, `5/10`, `8-18/2` | every tenth value: from the first, from 5; every second one of a range | |
/// | `JAN`, `mon` | names | months, weekdays |
/// | `0` and `7` | Sunday; 1 is Monday | day of the week |
/// | `L`, `L-3` | the last day, the third before the last | day of the month |
/// | `15W`, `LW` | the weekday, Monday to Friday, nearest to the 15th or to the last, in the same month | day of the month |
/// | `FRI#2`, `FRIL` or `5L` | the second Friday, the last Friday | day of the week |
/// | `H`, `H(0-29)`, `H/15`, `H(0-29)/10` | a value, or a step from a value, spread by a [seed](CronOptions::seed) | not years |
///
/// `@yearly` (`@annually`), `@monthly`, `@weekly`, `@daily` (`@midnight`) and `@hourly` are what they say.
/// `@every 1h30m` is no pattern of wall times but a [period](Self::period).
///
/// If both the day of the month and the day of the week are restricted, [`DayRule`] says how they combine.
///
/// # What is refused
///
/// An expression that no date can match, such as 30 February, is an error. An expression whose years have all
/// passed is not: reading it asks no clock. Its schedule has no next occurrence.
///
/// # Equality
///
/// Two expressions are equal if they mean the same, however written: `@daily` is `0 0 * * *`. The hours of `*/8` and
/// of `0,8,16` are the same, yet the two differ where the clocks change ([`WallOverlap`](crate::WallOverlap)), and so
/// they are not equal.
///
/// # Examples
/// ```
/// use punctual::Cron;
///
/// let office: Cron = "0 9 * * mon-fri".parse()?;
/// assert_eq!(office.to_string(), "0 9 * * MON-FRI");
/// assert_eq!(office.describe(), "at 09:00, on Monday to Friday");
///
/// let impossible = Cron::parse("0 0 31 2,4 *").unwrap_err();
/// assert_eq!(impossible.to_string(), "column 5: expected a date that exists, found \"31 2,4 *\"");
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Clone)]
pub struct Cron {
    pub(super) meaning: Meaning,
    source: Box<str>,
}

#[derive(Debug, Clone)]
pub(super) enum Meaning {
    Pattern { pattern: Pattern, fields: Box<Fields> },
    Every(Duration),
}

impl Cron {
    /// Reads an expression. One with `H` needs a seed: see [`CronOptions`].
    ///
    /// # Errors
    /// [`CronError`] says where the text is no expression, or that no date can match it.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        CronOptions::new().parse(text)
    }

    /// The expression as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The period of an `@every` expression; `None` for a pattern of wall times.
    ///
    /// # Examples
    /// ```
    /// # use {punctual::Cron, std::time::Duration};
    /// assert_eq!(Cron::parse("@every 1h30m")?.period(), Some(Duration::from_secs(5400)));
    /// assert_eq!(Cron::parse("@hourly")?.period(), None);
    /// # Ok::<(), punctual::CronError>(())
    /// ```
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        match self.meaning {
            Meaning::Every(period) => Some(period),
            Meaning::Pattern { .. } => None,
        }
    }

    /// What the expression means, in plain English.
    ///
    /// The text is for people: it may change between versions.
    ///
    /// # Examples
    /// ```
    /// # use punctual::Cron;
    /// let describe = |text| Cron::parse(text).map(|cron| cron.describe());
    /// assert_eq!(describe("*/5 * * * *")?, "every 5 minutes");
    /// assert_eq!(describe("30 6 L * *")?, "at 06:30, on the last day of the month");
    /// assert_eq!(describe("0 0 13 * FRI")?, "at 00:00, on the 13th of the month or on Friday");
    /// assert_eq!(describe("0 0 13 * +FRI")?, "at 00:00, on the 13th of the month if that is Friday");
    /// # Ok::<(), punctual::CronError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.meaning {
            Meaning::Pattern { fields, .. } => describe::fields(fields),
            Meaning::Every(period) => describe::period(*period),
        }
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        Self::parse(text)
    }
}

impl fmt::Display for Cron {
    /// The expression in a form that stands for itself: `H` replaced by what it became, `+` where both days must
    /// match, weekdays by name. Read again, it is equal to this one. [`source`](Cron::source) has the original.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = match &self.meaning {
            Meaning::Every(period) => return f.pad(&format!("@every {}", Period(*period))),
            Meaning::Pattern { fields, .. } => fields,
        };
        let restricted = !fields.day_of_month.is_any() && !fields.day_of_week.is_any();
        let both = if restricted && fields.rule == DayRule::Both { "+" } else { "" };
        let mut text = format!(
            "{} {} {} {} {both}{}",
            fields.minute, fields.hour, fields.day_of_month, fields.month, fields.day_of_week
        );
        if fields.written > 5 {
            text = format!("{} {text}", fields.second);
        }
        if fields.written > 6 {
            text = format!("{text} {}", fields.year);
        }
        f.pad(&text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(&self.to_string()).finish()
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        match (&self.meaning, &other.meaning) {
            (Meaning::Pattern { pattern: ours, .. }, Meaning::Pattern { pattern: theirs, .. }) => {
                ours == theirs
            }
            (Meaning::Every(ours), Meaning::Every(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

impl Eq for Cron {}

impl Hash for Cron {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.meaning {
            Meaning::Pattern { pattern, .. } => pattern.hash(state),
            Meaning::Every(period) => period.hash(state),
        }
    }
}

/// How to read an expression: the seed for `H`, and the rule for days.
///
/// # Examples
/// ```
/// use punctual::{Cron, CronOptions, DayRule};
///
/// // Some minute and some hour, the same ones whenever this task is planned.
/// let nightly = CronOptions::new().seed("nightly-report").parse("H H(0-5) * * *")?;
/// assert_eq!(nightly.source(), "H H(0-5) * * *");
/// assert_eq!(nightly, Cron::parse(&nightly.to_string())?);
///
/// let friday_13th = CronOptions::new().days(DayRule::Both).parse("0 0 13 * FRI")?;
/// assert_eq!(friday_13th, Cron::parse("0 0 13 * +FRI")?);
/// # Ok::<(), punctual::CronError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they parse"]
pub struct CronOptions {
    seed: Option<String>,
    rule: DayRule,
}

impl CronOptions {
    /// No seed, and [`DayRule::Either`].
    pub fn new() -> Self {
        Self::default()
    }

    /// What `H` is derived from, usually the name of the task. Default: none, and `H` is refused.
    ///
    /// The same seed gives the same times on every machine and in every version. Different seeds spread evenly.
    pub fn seed(mut self, seed: impl Into<String>) -> Self {
        self.seed = Some(seed.into());
        self
    }

    /// How the day of the month and the day of the week combine. Default: [`DayRule::Either`].
    pub fn days(mut self, rule: DayRule) -> Self {
        self.rule = rule;
        self
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// [`CronError`] says where the text is no expression, or that no date can match it.
    pub fn parse(&self, text: &str) -> Result<Cron, CronError> {
        let settings = Settings { seed: self.seed.as_deref(), rule: self.rule };
        let meaning = match parse::parse(text, settings)? {
            Parsed::Every(period) => Meaning::Every(period),
            Parsed::Fields(fields) => match Pattern::new(&fields) {
                Some(pattern) => Meaning::Pattern { pattern, fields },
                None => return Err(parse::dates(text, &fields)),
            },
        };
        Ok(Cron { meaning, source: text.into() })
    }
}
