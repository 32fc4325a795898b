//! Why an expression or a zone was refused: where, what was found, what was expected.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::ops::Range;

/// Quoted text is cut to this many characters, so that a hostile expression does not flood a log.
const QUOTED: usize = 60;

/// Why a cron expression or a time zone was refused.
///
/// It says where ([`span`](Self::span), in bytes), what was found and what was expected. Printed with `{:#}` it
/// also shows the expression with a mark under the place.
///
/// # Examples
/// ```
/// use punctual::Cron;
///
/// let error = Cron::parse("0 24 * * *").unwrap_err();
/// assert_eq!(error.to_string(), "column 3: expected an hour from 0 to 23, found \"24\"");
/// assert_eq!(error.span(), 2..4);
/// assert_eq!(
///     format!("{error:#}"),
///     "column 3: expected an hour from 0 to 23, found \"24\"\n  0 24 * * *\n    ^^",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: CronErrorKind,
    input: String,
    span: Range<usize>,
    expected: Cow<'static, str>,
    suggestion: Option<String>,
}

/// What sort of mistake a [`CronError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CronErrorKind {
    /// The text is not a cron expression.
    Syntax,
    /// It is one, but no date can ever match it, as with 30 February.
    Impossible,
    /// It contains `H`, and no seed was given to spread it by.
    Seed,
    /// No time zone of that name is known.
    Zone,
}

impl CronError {
    pub(super) fn new(
        kind: CronErrorKind,
        input: &str,
        span: Range<usize>,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self(Box::new(Details {
            kind,
            input: input.to_owned(),
            span,
            expected: expected.into(),
            suggestion: None,
        }))
    }

    pub(super) fn suggest(mut self, suggestion: Option<String>) -> Self {
        self.0.suggestion = suggestion;
        self
    }

    /// What sort of mistake it is.
    #[must_use]
    pub fn kind(&self) -> CronErrorKind {
        self.0.kind
    }

    /// The expression, or the name of the zone, as it was given.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.0.input
    }

    /// The place of the mistake in [`input`](Self::input), in bytes. Empty where something is missing.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.0.span.clone()
    }

    /// The place of the mistake as people count: the first character is column 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.input[..self.0.span.start].chars().count() + 1
    }

    /// The text that was not understood.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.0.input[self.0.span.clone()]
    }

    /// What would have been understood in its place.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.0.expected
    }

    /// What was probably meant, where something known is near.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.0.suggestion.as_deref()
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.0.kind == CronErrorKind::Zone;
        match zone {
            true => write!(f, "unknown time zone {}: expected {}", Quoted(&self.0.input), self.0.expected)?,
            false => write!(
                f,
                "column {}: expected {}, found {}",
                self.column(),
                self.0.expected,
                Quoted(self.found())
            )?,
        }
        if let Some(suggestion) = &self.0.suggestion {
            write!(f, "; did you mean \"{suggestion}\"?")?;
        }
        // One line with a mark only makes sense if it is one line, and short enough to see.
        if f.alternate() && !zone && self.0.input.len() <= 200 && !self.0.input.contains(char::is_control) {
            let (before, width) = (self.column() - 1, self.found().chars().count().max(1));
            write!(f, "\n  {}\n  {:before$}{:^<width$}", self.0.input, "", "")?;
        }
        Ok(())
    }
}

impl Error for CronError {}

/// Text in quotes, escaped and cut to a sensible length; nothing at all is called that.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        match self.0.char_indices().nth(QUOTED) {
            Some((cut, _)) => write!(f, "\"{}…\"", self.0[..cut].escape_debug()),
            None => write!(f, "\"{}\"", self.0.escape_debug()),
        }
    }
}
