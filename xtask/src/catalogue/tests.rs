//! The report: what counts, what is missing, what is wrong. What a test names is tested in `scan`.

use super::*;

fn report(source: &str, explained: &str) -> Report {
    let tags = Tags::parse("ST-001\nST-002\nTP-001\n").unwrap();
    Report::new(tags, &[("crates/p/tests/t.rs".to_owned(), source.to_owned())], explained)
}

#[test]
fn the_tags_of_the_repository_are_376_and_each_is_there_once() {
    let text = include_str!("../../../docs/catalogue-tags.txt");
    let tags = Tags::parse(text).unwrap();
    assert_eq!(tags.0.len(), 376);
    assert_eq!(tags.prefixes(), ["ST", "TP", "FT", "AE", "NX", "EX", "CS", "DQ", "TM"]);
}

#[test]
fn the_explanations_of_the_repository_have_no_problem() {
    let tags = Tags::parse(include_str!("../../../docs/catalogue-tags.txt")).unwrap();
    let mut problems = Vec::new();
    let found = explanations(include_str!("../../../docs/catalogue.md"), &tags, &mut problems);
    assert_eq!(problems, [""; 0]);
    assert!(!found.is_empty());
}

#[test]
fn a_list_of_tags_with_a_stranger_or_a_repetition_is_refused() {
    for text in ["ST-1\n", "ST-001 \n", "\nST-001\n", "ST-001\nTP-001\nST-001\n", "st-001\n"] {
        assert!(Tags::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_tag_is_proved_explained_or_missing() {
    let report = report("/// ST-001\n#[test] fn t() {}", "| TP-001 | by type | `usize` |");
    assert_eq!(report.status("ST-001"), Status::Proved);
    assert_eq!(report.status("TP-001"), Status::ByType);
    assert_eq!(report.status("ST-002"), Status::Missing);
    assert!(!report.is_complete());
    assert_eq!(report.line(), "3 tags: 1 proved, 1 by type, 0 deliberate, 1 missing");
    assert!(report.table().contains("missing:\n  ST-002\n"));
}

#[test]
fn nothing_missing_and_no_problem_is_complete() {
    let report =
        report("/// ST-001, ST-002\n#[test] fn t() {}", "| TP-001 | deliberate | we do better, thus |");
    assert!(report.is_complete(), "{}", report.table());
}

#[test]
fn a_tag_both_proved_and_deliberate_counts_as_proved_and_the_table_says_so() {
    let report = report("/// ST-001\n#[test] fn t() {}", "| ST-001 | deliberate | resolves as cancelled |");
    assert_eq!(report.status("ST-001"), Status::Proved);
    assert!(report.table().contains("1 of the proved are deliberate"));
    assert!(report.list().contains("crates/p/tests/t.rs:1 t\n"));
    assert!(report.list().contains("docs/catalogue.md:1 deliberate: resolves as cancelled\n"));
}

#[test]
fn a_malformed_explanation_is_a_problem_with_its_line() {
    for (text, problem) in [
        ("| ST-999 | by type | x |", "docs/catalogue.md:1: `ST-999` is not a tag of the catalogue"),
        ("| ST-01 | by type | x |", "docs/catalogue.md:1: `ST-01` is not a tag of the catalogue"),
        (
            "| ST-001 | by types | x |",
            "docs/catalogue.md:1: ST-001 is `by types`: say `by type` or `deliberate`",
        ),
        ("\n| ST-001 |", "docs/catalogue.md:2: ST-001 is ``: say `by type` or `deliberate`"),
        ("| ST-001 | by type | |", "docs/catalogue.md:1: ST-001 has no reason"),
        ("| ST-001 | by type |", "docs/catalogue.md:1: ST-001 has no reason"),
        (
            "| ST-001 | by type | x |\n| ST-001 | deliberate | y |",
            "docs/catalogue.md:2: ST-001 is explained twice",
        ),
    ] {
        let report = report("", text);
        assert_eq!(report.problems, [problem]);
        assert!(!report.is_complete());
    }
}

#[test]
fn the_head_of_the_table_code_blocks_and_prose_are_not_explanations() {
    let text = "ST-999 in prose\n```text\n| ST-998 | by type | x |\n```\n| Tag | Kind | Why |\n| --- | :-- | --- |\n";
    assert_eq!(report("", text).problems, [""; 0]);
}

#[test]
fn a_reason_may_contain_a_bar() {
    let report = report("", "| ST-001 | by type | `a | b` |");
    assert_eq!(report.explained["ST-001"].why, "`a | b`");
}

#[test]
fn an_unknown_tag_in_a_test_is_a_problem_even_if_nothing_is_missing() {
    let report = report("/// ST-001 ST-002 TP-001 ST-003\n#[test] fn t() {}", "");
    assert_eq!(report.line(), "3 tags: 3 proved, 0 by type, 0 deliberate, 0 missing, 1 problems");
    assert!(!report.is_complete());
}
