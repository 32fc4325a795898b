//! Rust source as words, comments and signs: enough to see which comment belongs to which function, and never
//! to take the inside of a string for either.

/// A piece of source.
#[derive(Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The line it begins on, from 1.
    pub(crate) line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// A name, a keyword or a number.
    Word,
    /// One character of punctuation.
    Sign,
    /// A string, a character or a lifetime.
    Literal,
    /// `//` or `/*`.
    Comment,
    /// `///` or `/**`: the documentation of what follows.
    Doc,
    /// `//!` or `/*!`: the documentation of what surrounds it.
    InnerDoc,
}

impl Token<'_> {
    /// The line it ends on.
    pub(crate) fn last_line(&self) -> usize {
        self.line + self.text.matches('\n').count()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Sign) && self.text == text
    }
}

/// Splits `source`. What is not Rust comes out as some tokens or other, never as a panic.
pub(crate) fn lex(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            line += usize::from(first == '\n');
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (kind, length) = next(rest);
        let (text, after) = rest.split_at(length);
        tokens.push(Token { kind, text, line });
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The kind and the length of the token that `rest` begins with.
fn next(rest: &str) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (comment_kind(rest, "///", "//!", "////"), rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (comment_kind(rest, "/**", "/*!", "/***"), block_comment(rest));
    }
    if let Some(length) = string(rest) {
        return (Kind::Literal, length);
    }
    if rest.starts_with('\'') {
        return (Kind::Literal, quote(rest));
    }
    let name = rest.strip_prefix("r#").unwrap_or(rest);
    let length = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
    match length {
        0 => (Kind::Sign, rest.chars().next().map_or(1, char::len_utf8)),
        _ => (Kind::Word, length + (rest.len() - name.len())),
    }
}

fn comment_kind(rest: &str, outer: &str, inner: &str, plain: &str) -> Kind {
    let is_empty_block = rest.starts_with("/**/");
    match rest {
        _ if rest.starts_with(inner) => Kind::InnerDoc,
        _ if rest.starts_with(outer) && !rest.starts_with(plain) && !is_empty_block => Kind::Doc,
        _ => Kind::Comment,
    }
}

/// The length of a block comment; they nest.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a string of any kind: `"…"`, `r#"…"#`, with `b` or `c` before it.
fn string(rest: &str) -> Option<usize> {
    let plain = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    if let Some(body) = plain.strip_prefix('"') {
        return Some(rest.len() - body.len() + escaped(body, '"'));
    }
    let raw = plain.strip_prefix('r')?;
    let body = raw.trim_start_matches('#');
    let hashes = &raw[..raw.len() - body.len()];
    let body = body.strip_prefix('"')?;
    let close = format!("\"{hashes}");
    let length = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(rest.len() - body.len() + length)
}

/// The length of a character or of a lifetime.
fn quote(rest: &str) -> usize {
    let body = &rest[1..];
    let mut chars = body.chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => 1 + escaped(body, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1 + body.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(body.len()),
    }
}

/// The length up to and with the next `close` that no backslash precedes.
fn escaped(body: &str, close: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == close => return at + c.len_utf8(),
            _ => {}
        }
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str, kind: Kind) -> Vec<&str> {
        lex(source).into_iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn comments_are_told_apart() {
        let source = "/// a\n// b\n//! c\n//// d\n/** e */ /* f /* g */ h */ /*! i */ /**/ x";
        assert_eq!(texts(source, Kind::Doc), ["/// a", "/** e */"]);
        assert_eq!(texts(source, Kind::Comment), ["// b", "//// d", "/* f /* g */ h */", "/**/"]);
        assert_eq!(texts(source, Kind::InnerDoc), ["//! c", "/*! i */"]);
        assert_eq!(texts(source, Kind::Word), ["x"]);
    }

    #[test]
    fn the_inside_of_a_string_is_no_comment_and_no_code() {
        let source = r####"a("// no", r#"/* no " */"#, b"\" // no", '"', '\'', c"x", r"\") // yes"####;
        assert_eq!(texts(source, Kind::Comment), ["// yes"]);
        assert_eq!(texts(source, Kind::Word), ["a"]);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = "fn f<'a>(x: &'a str, c: char) -> &'static str { 'ä'; 'b: loop {} } // yes";
        assert_eq!(texts(source, Kind::Comment), ["// yes"]);
        assert_eq!(texts(source, Kind::Literal), ["'a", "'a", "'static", "'ä'", "'b"]);
    }

    #[test]
    fn raw_names_are_words() {
        assert_eq!(texts("r#fn r#type r b", Kind::Word), ["r#fn", "r#type", "r", "b"]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let source = "\"a\nb\" x /* c\n\nd */ y\n// e\nz";
        let lines: Vec<_> = lex(source).iter().map(|token| (token.line, token.last_line())).collect();
        assert_eq!(lines, [(1, 2), (2, 2), (2, 4), (4, 4), (5, 5), (6, 6)]);
    }

    #[test]
    fn what_is_cut_off_ends_at_the_end() {
        for source in ["\"abc", "/* a /* b */", "r#\"abc\"", "'", "'\\", "'\\x41", "// x", "b", "é"] {
            let tokens = lex(source);
            assert_eq!(tokens.len(), 1, "{source}");
            assert_eq!(tokens[0].text, source);
        }
    }
}
