//! One table of the file, read key by key; what is wrong is noted and counts as left out.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::amount;
use super::diagnostic::Diagnostics;
use super::near::nearest;

/// A value and where it stood.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

impl<T> At<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

/// A table under its name.
pub(crate) struct Fields<'t> {
    /// As messages call it: "job `backup`".
    pub(crate) what: String,
    /// The whole file.
    text: &'t str,
    table: &'t DeTable<'t>,
    notes: &'t mut Diagnostics,
}

impl<'t> Fields<'t> {
    pub(crate) fn new(
        what: String,
        text: &'t str,
        table: &'t DeTable<'t>,
        notes: &'t mut Diagnostics,
    ) -> Self {
        Self { what, text, table, notes }
    }

    pub(crate) fn notes(&mut self) -> &mut Diagnostics {
        self.notes
    }

    /// Every key must be one of these.
    pub(crate) fn only(&mut self, known: &[&str]) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            self.notes.error_with_help(
                key.span(),
                format!("unknown key `{}` in {}", name.escape_debug(), self.what),
                help,
            );
        }
    }

    /// Whether a key that is not known was probably meant to be `key`: one message is enough then.
    pub(crate) fn has_near(&self, key: &str, known: &[&str]) -> bool {
        let unknown = self.table.keys().map(|name| &**name.get_ref()).filter(|name| !known.contains(name));
        unknown.into_iter().any(|name| nearest(name, known.iter().copied()) == Some(key))
    }

    /// Where `key` itself stands, if it is there.
    pub(crate) fn key_span(&self, key: &str) -> Option<Range<usize>> {
        self.table.keys().find(|name| name.get_ref() == key).map(Spanned::span)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    pub(crate) fn wrong_type(&mut self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        let found = value.get_ref().type_str();
        self.notes.error(value.span(), format!("`{key}` must be {expected}, not {}", with_article(found)));
    }

    pub(crate) fn string(&mut self, key: &str) -> Option<At<String>> {
        let value = self.value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, "a string");
            return None;
        };
        if text.contains('\0') {
            self.notes.error(value.span(), format!("`{key}` contains a NUL character"));
            return None;
        }
        Some(At { value: text.to_owned(), span: value.span() })
    }

    /// Where a part of a string stands in the file; the whole string, if it is not written as it is meant.
    pub(crate) fn inside(&self, string: &At<String>, part: Range<usize>) -> Range<usize> {
        let written = self.text.get(string.span.clone()).unwrap_or_default();
        let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
        let inner = written.get(quotes..written.len().saturating_sub(quotes));
        if inner != Some(string.value.as_str()) {
            return string.span.clone();
        }
        let start = string.span.start + quotes;
        start + part.start..start + part.end
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<At<bool>> {
        let value = self.value(key)?;
        let Some(flag) = value.get_ref().as_bool() else {
            self.wrong_type(key, value, "true or false");
            return None;
        };
        Some(At { value: flag, span: value.span() })
    }

    pub(crate) fn integer(&mut self, key: &str, range: std::ops::RangeInclusive<u32>) -> Option<At<u32>> {
        let value = self.value(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(key, value, "a whole number");
            return None;
        };
        let number_value = u32::from_str_radix(number.as_str(), number.radix()).ok();
        match number_value.filter(|number| range.contains(number)) {
            Some(number) => Some(At { value: number, span: value.span() }),
            None => {
                let (least, most) = (range.start(), range.end());
                let message = format!("`{key}` must be from {least} to {most}, not {number}");
                self.notes.error(value.span(), message);
                None
            }
        }
    }

    pub(crate) fn duration(&mut self, key: &str) -> Option<At<Duration>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => match amount::duration(text) {
                Ok(duration) => return Some(At { value: duration, span: value.span() }),
                Err(message) => self.notes.error_with_help(value.span(), message, amount::DURATION_HELP),
            },
            DeValue::Integer(number) => {
                let help = format!("write `{key} = \"{number}s\"` if you mean seconds");
                self.notes.error_with_help(value.span(), format!("`{key}` has no unit"), help);
            }
            _ => self.wrong_type(key, value, "a duration in quotes"),
        }
        None
    }

    /// A duration of at least `least`.
    pub(crate) fn duration_from(&mut self, key: &str, least: Duration) -> Option<At<Duration>> {
        let found = self.duration(key)?;
        if found.value < least {
            let message = format!("`{key}` must be at least {}", amount::show(least));
            self.notes.error(found.span, message);
            return None;
        }
        Some(found)
    }

    pub(crate) fn size(&mut self, key: &str) -> Option<At<u64>> {
        let text = match self.value(key)?.get_ref() {
            DeValue::Integer(number) => At { value: number.to_string(), span: self.value(key)?.span() },
            _ => self.string(key)?,
        };
        match amount::size(&text.value) {
            Ok(size) => Some(text.map(|_| size)),
            Err(message) => {
                self.notes.error_with_help(text.span, message, amount::SIZE_HELP);
                None
            }
        }
    }

    /// One of a few words; `more` is said where they are listed.
    pub(crate) fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)], more: &str) -> Option<At<T>> {
        let text = self.string(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(At { value: *value, span: text.span });
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let help = match nearest(&text.value, names.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known: \"{}\"{more}", names.join("\", \"")),
        };
        let message = format!("`{key}` cannot be \"{}\"", text.value.escape_debug());
        self.notes.error_with_help(text.span, message, help);
        None
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
