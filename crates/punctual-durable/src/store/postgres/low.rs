//! Before which instant nothing waits in a line.
//!
//! A job that is over leaves its entry in the index until the server has cleaned up, which it cannot while anybody holds
//! an old snapshot: a backup, a report, a forgotten session. Whoever looks for what is due from the beginning of a line
//! then walks over all of them, every time. So we do not begin at the beginning: each node remembers for each line an
//! instant before which nothing waits, and looks from there on.
//!
//! # Invariant
//! 1. A job that waits in a line and can be seen is not due before `low`, unless it is marked as `late`.
//!
//! # Protocol
//! What a look finds first is due at `first`: what could be seen then and waits is not due before it. But a transaction
//! that has not ended may have added a job that nobody can see yet, and end later.
//!
//! - Who adds a job that is due before *now*, or moves one there, marks it as `late`. These have an index of their own, in
//!   which every look begins at the beginning. They are few: jobs given back, times in the past.
//! - Everybody else draws the number of the transaction *before* reading the clock, and adds what is due from then on.
//!   Each exchange takes note of its own number and of the time before it was drawn (`began`, `number`): all greater numbers
//!   were drawn after that time. When a look finds no number in progress that is not greater, then what it cannot see is not
//!   due before `began` either.
//!
//! So `low` is the lesser of `first` and the last such `began`. A transaction that writes, in any database of the server,
//! and does not end holds it back, which costs time and nothing else; one that only reads has no number, and does not.
//!
//! # Paths not taken
//! *In a row of the line:* every look would write there, and nodes would wait for each other. *A counter in the line that
//! late jobs increase:* a transaction that adds one and takes its time would make all others wait. *Looking back a minute,
//! and from the beginning now and then:* late whenever a transaction takes longer, and slow every time.

use std::collections::HashMap;

use crate::lane::Lane;

/// A line as the store knows it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) queue: String,
    pub(super) kind: String,
    pub(super) lane: Lane,
}

/// What one connection knows of lines.
#[derive(Debug, Default)]
pub(super) struct Lows {
    lines: HashMap<i32, Known>,
    /// `began` and `number` of an exchange, until all that were in progress then are over.
    open: Option<(i64, i64)>,
    /// The last `began` for which they are.
    settled: Option<i64>,
}

#[derive(Debug)]
struct Known {
    line: Option<Line>,
    low: i64,
}

/// What a question carries: lines, and their lows.
pub(super) type Question = (Vec<i32>, Vec<i64>);

impl Lows {
    /// Lines whose names are not known are not mentioned: the answer to an exchange then names them.
    pub(super) fn question(&self) -> Question {
        let known = self.lines.iter().filter(|(_, known)| known.line.is_some());
        let mut question = Question::default();
        for (line, known) in known {
            question.0.push(*line);
            question.1.push(known.low);
        }
        question
    }

    /// The answer of a look in which `oldest` was the least number in progress.
    pub(super) fn learn(&mut self, lines: &[i32], firsts: &[Option<i64>], oldest: i64) {
        if let Some((began, _)) = self.open.take_if(|(_, number)| *number < oldest) {
            self.settled = Some(began);
        }
        let settled = self.settled.unwrap_or(i64::MIN);
        for (line, first) in lines.iter().zip(firsts) {
            let low = first.unwrap_or(i64::MAX).min(settled);
            self.lines.entry(*line).or_insert(Known { line: None, low }).low = low;
        }
    }

    /// An exchange that had that number, and began before it was drawn.
    pub(super) fn note(&mut self, began: i64, number: i64) {
        self.open.get_or_insert((began, number));
    }

    pub(super) fn name(&mut self, id: i32, line: Line) {
        self.lines.entry(id).or_insert(Known { line: None, low: i64::MIN }).line = Some(line);
    }

    pub(super) fn line(&self, id: i32) -> Option<&Line> {
        self.lines.get(&id)?.line.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Lows {
        let mut lows = Lows::default();
        lows.name(1, Line { queue: "q".to_owned(), kind: "k".to_owned(), lane: Lane::Normal });
        lows
    }

    fn low(lows: &Lows) -> i64 {
        lows.question().1[0]
    }

    #[test]
    fn nothing_is_left_out_before_the_transactions_of_then_are_over() {
        let mut lows = named();
        lows.learn(&[1], &[Some(500)], 10);
        assert_eq!(low(&lows), i64::MIN, "nothing is known of those in progress");
        lows.note(400, 10);
        lows.learn(&[1], &[Some(500)], 10);
        assert_eq!(low(&lows), i64::MIN, "number 10 itself is in progress");
        lows.learn(&[1], &[Some(500)], 11);
        assert_eq!(low(&lows), 400);
        lows.note(450, 12);
        lows.note(460, 13);
        lows.learn(&[1], &[Some(430)], 13);
        assert_eq!(low(&lows), 430, "something waits");
        lows.learn(&[1], &[None], 14);
        assert_eq!(low(&lows), 450);
    }
}
