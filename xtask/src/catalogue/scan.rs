//! Which tags the tests of a file claim to prove.
//!
//! A tag counts only where a reader would look for it: in the comments attached to a test function (above it,
//! between or below its attributes), in the comments its body begins with, or in its name, `st_041_…`. In
//! prose, in a module's essay, on a helper or further down in a body it is a mention and proves nothing.
//!
//! A *test function* has `#[test]` (or `#[some::test]`), or stands in a `proptest!` block. One with a bare
//! `#[ignore]` proves nothing: the gate does not run it. A plain comment is attached if no empty line parts it
//! from what follows; documentation is attached in any case, as rustdoc sees it.
//!
//! Ranges are written out: `ST-025..ST-031` names seven behaviours and shows a reader two, so it is refused.

use super::Tags;
use super::lex::{Kind, Token, lex};

/// One naming of one tag by one test.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) tag: String,
    file: String,
    line: usize,
    test: String,
}

impl Proof {
    pub(crate) fn place(&self) -> String {
        format!("{}:{} {}", self.file, self.line, self.test)
    }
}

/// Finds the tags that tests name in `source`. Tags that do not exist are added to `problems`.
pub(crate) fn scan(file: &str, source: &str, tags: &Tags, problems: &mut Vec<String>) -> Vec<Proof> {
    let tokens = lex(source);
    let mut proofs = Vec::new();
    for test in tests(&tokens) {
        for comment in &test.comments {
            for found in tags_in(comment.text) {
                let line = comment.line + comment.text[..found.at].matches('\n').count();
                if let Some(range) = range_after(comment.text, &found) {
                    problems.push(format!("{file}:{line}: `{range}`: write every tag out"));
                } else if tags.contains(found.text) {
                    push(
                        &mut proofs,
                        Proof {
                            tag: found.text.to_owned(),
                            file: file.to_owned(),
                            line,
                            test: test.name.to_owned(),
                        },
                    );
                } else if found.is_well_formed() && !tags.has_prefix(found.prefix()) {
                    problems.push(unknown(file, line, found.text));
                }
            }
        }
        for tag in tags_in_name(test.name).filter(|tag| tags.has_prefix(&tag[..2])) {
            let (file, test_name) = (file.to_owned(), test.name.to_owned());
            match tags.contains(&tag) {
                true => push(&mut proofs, Proof { tag, file, line: test.line, test: test_name }),
                false => problems.push(unknown(&file, test.line, &tag)),
            }
        }
    }
    for comment in tokens.iter().filter(|token| is_comment(token)) {
        for found in tags_in(comment.text) {
            if tags.has_prefix(found.prefix()) && !tags.contains(found.text) {
                let line = comment.line + comment.text[..found.at].matches('\n').count();
                problems.push(unknown(file, line, found.text));
            }
        }
    }
    proofs
}

/// Once per tag and test is enough.
fn push(proofs: &mut Vec<Proof>, proof: Proof) {
    if !proofs.iter().any(|earlier| earlier.tag == proof.tag && earlier.test == proof.test) {
        proofs.push(proof);
    }
}

fn unknown(file: &str, line: usize, tag: &str) -> String {
    format!("{file}:{line}: `{tag}` is not a tag of the catalogue")
}

/// A test function and the comments that speak for it.
struct Test<'a> {
    name: &'a str,
    line: usize,
    comments: Vec<&'a Token<'a>>,
}

/// What has been read since the last piece of code and may belong to the function that follows.
#[derive(Default)]
struct Pending<'a> {
    comments: Vec<&'a Token<'a>>,
    is_test: bool,
    is_ignored: bool,
    /// The line on which the last comment or attribute ended.
    last_line: usize,
}

impl<'a> Pending<'a> {
    /// Plain comments above an empty line belong to nothing.
    fn note_gap(&mut self, line: usize) {
        if line > self.last_line + 1 {
            self.comments.retain(|comment| comment.kind == Kind::Doc);
        }
    }

    fn comment(&mut self, comment: &'a Token<'a>) {
        self.note_gap(comment.line);
        self.comments.push(comment);
        self.last_line = comment.last_line();
    }

    fn attribute(&mut self, attribute: &[Token<'_>]) {
        // The path: words and colons up to the first other sign.
        let path = attribute.iter().take_while(|token| token.kind == Kind::Word || token.is(":"));
        let path: Vec<_> = path.filter(|token| token.kind == Kind::Word).map(|token| token.text).collect();
        self.is_test |= path.last() == Some(&"test");
        self.is_ignored |= path == ["ignore"];
    }
}

fn tests<'a>(tokens: &'a [Token<'a>]) -> Vec<Test<'a>> {
    let mut found = Vec::new();
    let mut pending = Pending::default();
    // How deep in brackets we are, and at which depths a `proptest!` block began.
    let (mut depth, mut proptests) = (0_usize, Vec::new());
    let mut code_line = 0;
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        let rest = &tokens[at..];
        if is_comment(token) {
            // A comment behind code on its line speaks of that code.
            if token.kind != Kind::InnerDoc && token.line != code_line {
                pending.comment(token);
            }
            at += 1;
            continue;
        }
        pending.note_gap(token.line);
        if token.is("#") && rest.get(1).is_some_and(|next| next.is("[")) {
            let length = 1 + group(&rest[1..]);
            let end = rest.get(2..length.saturating_sub(1)).unwrap_or(&[]);
            pending.attribute(end);
            pending.last_line = rest[length - 1].last_line();
            at += length;
            // A comment behind an attribute still speaks of the function.
            continue;
        }
        code_line = token.last_line();
        if token.is("pub") && rest.get(1).is_some_and(|next| next.is("(")) {
            at += 1 + group(&rest[1..]);
            continue;
        }
        let is_qualifier = ["pub", "async", "unsafe", "const", "extern"].iter().any(|word| token.is(word));
        if is_qualifier || token.kind == Kind::Literal {
            pending.last_line = token.last_line();
            at += 1;
            continue;
        }
        if let (true, Some(name)) = (token.is("fn"), rest.get(1)) {
            let pending = std::mem::take(&mut pending);
            if (pending.is_test || !proptests.is_empty()) && !pending.is_ignored && name.kind == Kind::Word {
                let comments = pending.comments.into_iter().chain(opening_comments(rest)).collect();
                found.push(Test { name: name.text, line: name.line, comments });
            }
            at += 2;
            continue;
        }
        if token.is("proptest") && rest.get(1).is_some_and(|next| next.is("!")) {
            proptests.push(depth);
            at += 1;
        } else if ["(", "[", "{"].iter().any(|sign| token.is(sign)) {
            depth += 1;
        } else if [")", "]", "}"].iter().any(|sign| token.is(sign)) {
            depth = depth.saturating_sub(1);
            if proptests.last() == Some(&depth) {
                proptests.pop();
            }
        }
        pending = Pending::default();
        at += 1;
    }
    found
}

fn is_comment(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::Comment | Kind::Doc | Kind::InnerDoc)
}

/// How many tokens the bracketed group at the start of `tokens` takes.
fn group(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        if ["(", "[", "{"].iter().any(|sign| token.is(sign)) {
            depth += 1;
        } else if [")", "]", "}"].iter().any(|sign| token.is(sign)) {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The comments that the body of the function at the start of `function` begins with.
fn opening_comments<'a>(function: &'a [Token<'a>]) -> impl Iterator<Item = &'a Token<'a>> {
    let mut at = 0;
    while at < function.len() && !function[at].is("{") && !function[at].is(";") {
        let is_group = function[at].is("(") || function[at].is("[");
        at += if is_group { group(&function[at..]) } else { 1 };
    }
    let has_body = function.get(at).is_some_and(|token| token.is("{"));
    let body = if has_body { &function[at + 1..] } else { &[] };
    body.iter().take_while(|token| is_comment(token))
}

/// Something that looks like a tag: two capitals, a dash, digits.
#[derive(Debug, PartialEq)]
pub(crate) struct Found<'a> {
    pub(crate) text: &'a str,
    /// Where it begins.
    at: usize,
}

impl Found<'_> {
    fn prefix(&self) -> &str {
        &self.text[..2]
    }

    pub(crate) fn is_well_formed(&self) -> bool {
        self.text.len() == 6
    }
}

/// Everything in `text` that looks like a tag, with however many digits.
pub(crate) fn tags_in(text: &str) -> Vec<Found<'_>> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut found = Vec::new();
    for dash in text.match_indices('-').map(|(dash, _)| dash).filter(|dash| *dash >= 2) {
        let at = dash - 2;
        let begins_there = at == 0 || !(is_part(&bytes[at - 1]) || bytes[at - 1] == b'-');
        let digits = bytes[dash + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = dash + 1 + digits;
        let ends_there = !bytes.get(end).is_some_and(is_part);
        if begins_there && digits > 0 && ends_there && bytes[at..dash].iter().all(u8::is_ascii_uppercase) {
            found.push(Found { text: &text[at..end], at });
        }
    }
    found
}

/// The range or the abbreviated list that begins with this tag, as in `ST-025..ST-031` and `ST-025/026`.
fn range_after<'a>(text: &'a str, found: &Found<'a>) -> Option<&'a str> {
    let after = &text[found.at + found.text.len()..];
    let (sign, rest) = ["...", "..=", "..", "…", "–", "—", "-", "/"]
        .iter()
        .find_map(|sign| Some((*sign, after.trim_start_matches(' ').strip_prefix(sign)?)))?;
    let rest = rest.trim_start_matches(' ');
    let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
    let is_tag = tags_in(rest).first().is_some_and(|next| next.at == 0);
    let length = rest.find([' ', ',', ';', ':', ')', '\n']).unwrap_or(rest.len());
    let end = text.len() - rest.len() + length;
    (is_number || is_tag && sign != "/").then(|| &text[found.at..end])
}

/// The tags in the name of a function: `st_041_a_hole_may_need_to_go_up`.
fn tags_in_name(name: &str) -> impl Iterator<Item = String> {
    let parts: Vec<&str> = name.split('_').collect();
    let mut tags = Vec::new();
    for pair in parts.windows(2) {
        let is_prefix = pair[0].len() == 2 && pair[0].bytes().all(|byte| byte.is_ascii_lowercase());
        let is_number = pair[1].len() == 3 && pair[1].bytes().all(|byte| byte.is_ascii_digit());
        if is_prefix && is_number {
            tags.push(format!("{}-{}", pair[0].to_ascii_uppercase(), pair[1]));
        }
    }
    tags.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(source: &str) -> (Vec<String>, Vec<String>) {
        let tags = Tags::parse("ST-001\nST-002\nST-003\nTP-001\n").unwrap();
        let mut problems = Vec::new();
        let proofs = scan("f.rs", source, &tags, &mut problems);
        (proofs.into_iter().map(|p| format!("{} {}:{}", p.tag, p.test, p.line)).collect(), problems)
    }

    /// What the tests of `source` prove; nothing in it may be a problem.
    fn proved(source: &str) -> Vec<String> {
        let (proofs, problems) = scanned(source);
        assert_eq!(problems, [""; 0]);
        proofs
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn comments_above_a_test_count_through_attributes() {
        assert_eq!(proved("/// ST-001: x\n#[test]\nfn a() {}"), ["ST-001 a:1"]);
        assert_eq!(proved("// ST-001, ST-002\n#[test]\nfn a() {}"), ["ST-001 a:1", "ST-002 a:1"]);
        assert_eq!(proved("#[test]\n// ST-001\nfn a() {}"), ["ST-001 a:2"]);
        assert_eq!(
            proved("/// ST-001\n#[test]\n#[should_panic(expected = \"x\")]\nfn a() {}"),
            ["ST-001 a:1"]
        );
        assert_eq!(proved("#[test] // ST-001\nfn a() {}"), ["ST-001 a:1"]);
        assert_eq!(proved("/**\n x\n ST-001 */\n#[test]\npub(crate) async fn a() {}"), ["ST-001 a:3"]);
        assert_eq!(proved("// ST-001\n#[tokio::test(flavor = \"x\")]\nasync fn a() {}"), ["ST-001 a:1"]);
    }

    #[test]
    fn every_line_of_a_block_of_comments_counts() {
        assert_eq!(
            proved("// x\n// ST-001\n//\n// TP-001.\n#[test]\nfn a() {}"),
            ["ST-001 a:2", "TP-001 a:4"]
        );
    }

    #[test]
    fn the_comments_that_a_body_begins_with_count() {
        let source = "#[test]\nfn a() { // ST-001\n    // ST-002\n    let x = 1; // ST-003\n    // TP-001\n}";
        assert_eq!(proved(source), ["ST-001 a:2", "ST-002 a:3"]);
        assert_eq!(
            proved("#[test]\nfn a<T: Fn() -> [u8; 2]>() -> Result<(), E> {\n// ST-001\n}"),
            ["ST-001 a:3"]
        );
    }

    #[test]
    fn the_name_of_a_test_counts() {
        assert_eq!(
            proved("#[test]\nfn st_001_and_tp_001() {}"),
            ["ST-001 st_001_and_tp_001:2", "TP-001 st_001_and_tp_001:2"]
        );
        assert_eq!(proved("fn st_001() {}"), NOTHING, "not a test");
        assert_eq!(proved("#[test]\nfn at_100_runs() {}"), NOTHING, "no prefix of the catalogue");
    }

    #[test]
    fn prose_helpers_and_module_essays_prove_nothing() {
        for source in [
            "//! ST-001\n#[test]\nfn a() {}",
            "// ST-001\nfn helper() {}\n#[test]\nfn a() {}",
            "/// ST-001\nstruct S;\n#[test]\nfn a() {}",
            "// ST-001\n\n#[test]\nfn a() {}",
            "let x = 1; // ST-001\n#[test]\nfn a() {}",
            "#[cfg(test)]\n// ST-001\nmod tests {\n#[test]\nfn a() {}\n}",
            "#[test]\nfn a() { f(\"ST-001\") }",
            "#[test]\nfn a() {}\n// ST-001\n",
            "// ST-001\nmod st_001;",
            "// ST-001\n#[cfg(test)]\nfn a() {}",
            "const S: &str = \"// ST-001\n#[test]\nfn a() {}\";",
        ] {
            assert_eq!(proved(source), NOTHING, "{source}");
        }
    }

    #[test]
    fn documentation_is_attached_across_an_empty_line_and_a_plain_comment_is_not() {
        assert_eq!(proved("/// ST-001\n\n// TP-001\n\n#[test]\nfn a() {}"), ["ST-001 a:1"]);
        assert_eq!(proved("#[test]\n\n// TP-001\nfn a() {}"), ["TP-001 a:3"]);
    }

    #[test]
    fn a_function_in_a_proptest_block_is_a_test_and_one_after_it_is_not() {
        let source = "proptest! {\n    #![proptest_config(c(1))]\n    /// ST-001\n    fn a(x in 0..9) { f(x); }\n}\n/// ST-002\nfn b() {}";
        assert_eq!(proved(source), ["ST-001 a:3"]);
        let source =
            "proptest! { // ST-001\n #[test] fn a(x in v(0..9, 1)) { // ST-002\n } }\n// TP-001\nfn b() {}";
        assert_eq!(proved(source), ["ST-002 a:2"]);
    }

    #[test]
    fn an_ignored_test_proves_nothing() {
        assert_eq!(proved("// ST-001\n#[test]\n#[ignore = \"slow\"]\nfn a() {}"), NOTHING);
        assert_eq!(proved("// ST-001\n#[test]\n#[cfg_attr(miri, ignore)]\nfn a() {}"), ["ST-001 a:1"]);
    }

    #[test]
    fn a_tag_that_does_not_exist_is_a_problem_wherever_a_comment_names_it() {
        for (source, line, tag) in [
            ("/// ST-004\n#[test]\nfn a() {}", 1, "ST-004"),
            ("/// x\n/// ST-01\n#[test]\nfn a() {}", 2, "ST-01"),
            ("//! as ST-0001 has it", 1, "ST-0001"),
            ("/// XX-001\n#[test]\nfn a() {}", 1, "XX-001"),
            ("#[test]\nfn st_999() {}", 2, "ST-999"),
        ] {
            assert_eq!(scanned(source).1, [format!("f.rs:{line}: `{tag}` is not a tag of the catalogue")]);
        }
    }

    #[test]
    fn what_only_resembles_a_tag_is_left_alone() {
        for text in [
            "UTF-8", "SHA-256", "x-ST-001", "AST-001", "ST-001a", "ST_001", "ST-", "st-001", "IO-9",
            "ISO-8601",
        ] {
            assert_eq!(proved(&format!("/// {text}\n#[test]\nfn a() {{}}")), NOTHING, "{text}");
        }
    }

    #[test]
    fn ranges_and_abbreviated_lists_are_refused() {
        for range in ["ST-001..ST-003", "ST-001..003", "ST-001 – ST-003", "ST-001/002", "ST-001-003"] {
            let (_, problems) = scanned(&format!("/// {range}: x\n#[test]\nfn a() {{}}"));
            assert_eq!(problems, [format!("f.rs:1: `{range}`: write every tag out")]);
        }
        assert_eq!(proved("/// ST-001/ST-002\n#[test]\nfn a() {}").len(), 2);
        assert_eq!(proved("/// ST-001 - as Java has it - and ST-002...\n#[test]\nfn a() {}").len(), 2);
    }

    #[test]
    fn a_tag_named_twice_by_one_test_is_one_proof() {
        assert_eq!(proved("/// ST-001, again ST-001\n#[test]\nfn st_001() {}"), ["ST-001 st_001:1"]);
    }
}
