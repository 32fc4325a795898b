//! "Did you mean …": the word of a list that is nearest to what was written.

/// The candidate that `word` was most likely meant to be, if one is near enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = fold(word);
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice of `_` or `-` are no difference at all.
fn fold(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// How many characters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["every", "command", "retry-delay", "timeout", "cron"];

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        for (written, meant) in [
            ("evry", "every"),
            ("comand", "command"),
            ("retry_delay", "retry-delay"),
            ("tiemout", "timeout"),
            ("Cron", "cron"),
        ] {
            assert_eq!(nearest(written, KEYS), Some(meant), "{written}");
        }
    }

    #[test]
    fn a_word_that_resembles_nothing_finds_nothing() {
        for written in ["colour", "", "x", "at"] {
            assert_eq!(nearest(written, KEYS), None, "{written}");
        }
    }

    #[test]
    fn a_swap_of_neighbours_is_one_step() {
        assert_eq!((distance("ab", "ba"), distance("abc", ""), distance("", "")), (1, 3, 0));
    }
}
