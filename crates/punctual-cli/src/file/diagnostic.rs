//! What is wrong with a file, where, and what was expected instead.
//!
//! A reader does not stop at the first error: it adds to [`Diagnostics`] and goes on with what it can still
//! make sense of, so that one `check` shows everything there is to mend.

use std::fmt::Write as _;
use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

/// One error, at a place in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Diagnostic {
    /// The bytes it is about.
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
    /// What was expected, or how to mend it.
    pub(crate) help: Option<String>,
}

/// Every error found so far.
#[derive(Default, Debug)]
pub(crate) struct Diagnostics {
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn error(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.found.push(Diagnostic { span, message: message.into(), help: None });
    }

    pub(crate) fn error_with_help(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.found.push(Diagnostic { span, message: message.into(), help: Some(help.into()) });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of the text, each once.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
        self.found.dedup();
        self.found
    }
}

/// A place in a text as people count: both from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let offset = floor_char(text, offset);
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { line, column: before[start..].chars().count() + 1 }
    }
}

impl Diagnostic {
    /// The error as people read it:
    ///
    /// ```text
    /// schedule.toml:3:1: error: unknown key `evry` in job `backup`
    ///   |
    /// 3 | evry = "10s"
    ///   | ^^^^
    ///   = help: did you mean `every`?
    /// ```
    pub(crate) fn render(&self, file: &str, text: &str) -> String {
        let Position { line, column } = Position::of(text, self.span.start);
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let (shown, caret) = self.line_and_caret(text);
        let mut out = format!("{file}:{line}:{column}: error: {}\n", self.message);
        let _ = writeln!(out, "{margin} |\n{number} | {shown}\n{margin} | {caret}");
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{margin} = help: {help}");
        }
        out
    }

    /// The first line of the span, and what underlines the span in it.
    fn line_and_caret(&self, text: &str) -> (String, String) {
        let start = floor_char(text, self.span.start);
        let end = floor_char(text, self.span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let before = visible(&text[line_start..start]);
        let marked = visible(&text[start..end.min(line_end)]);
        let after = visible(text[end.min(line_end)..line_end].trim_end());
        let indent = " ".repeat(before.width());
        let caret = "^".repeat(marked.trim_end().width().max(1));
        ((before + &marked + &after).trim_end().to_owned(), indent + &caret)
    }
}

/// `text` without characters that would move the cursor: a tab is four blanks, other controls are shown as `?`.
fn visible(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\t' => out.push_str("    "),
            '\r' => {}
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

fn floor_char(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(span: Range<usize>) -> Diagnostic {
        Diagnostic { span, message: "bad".to_owned(), help: None }
    }

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let text = "a = 1\nü = 2\n";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        let two = text.find('2').unwrap();
        assert_eq!(Position::of(text, two), Position { line: 2, column: 5 });
        assert_eq!(Position::of(text, 9999), Position { line: 3, column: 1 });
    }

    #[test]
    fn the_caret_underlines_the_span_whatever_stands_before_it() {
        let text = "\tü = 'x'\r\nnext";
        let start = text.find('\'').unwrap();
        let shown = at(start..start + 3).render("f", text);
        assert_eq!(shown, "f:1:6: error: bad\n  |\n1 |     ü = 'x'\n  |         ^^^\n");
    }

    #[test]
    fn a_span_over_several_lines_is_underlined_on_its_first() {
        let shown = at(0..100).render("f", "[a\nb");
        assert_eq!(shown, "f:1:1: error: bad\n  |\n1 | [a\n  | ^^\n");
    }

    #[test]
    fn a_span_at_the_end_of_the_file_or_inside_a_character_is_shown_all_the_same() {
        for span in [3..3, 2..3, 7..9] {
            assert!(at(span).render("f", "aü").contains('^'));
        }
        assert!(at(0..0).render("f", "").contains('^'));
    }
}
