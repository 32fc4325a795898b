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
//!   due before `began` either. That instant is *settled*.
//! - A transaction that writes, in any database of the server, and does not end would hold this back for as long. So after
//!   [`PATIENCE`] it is passed over: `began` counts as settled without it, and we remember what was settled before it: its
//!   jobs are not due before that. When a look finds that it has ended, the next one goes back there, once; who looks
//!   ahead does so at once, and finds them overdue.
//!
//! So `low` is the lesser of `first` and what is settled; and the look after the end of a transaction that was passed over
//! begins where it may have added something. Those who only read have no number, and are not waited for.
//!
//! # Paths not taken
//! *In a row of the line:* every look would write there, and nodes would wait for each other. *A counter in the line that
//! late jobs increase:* a transaction that adds one and takes its time would make all others wait. *Looking back a minute,
//! and from the beginning now and then:* late whenever a transaction takes longer, and slow every time.

use std::collections::{BTreeMap, HashMap};

use crate::lane::Lane;

/// How long a transaction may take before it is passed over, in microseconds.
const PATIENCE: i64 = 250_000;

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
    /// The last `began` for which they are, or have been passed over.
    settled: Option<i64>,
    /// Numbers in progress that have been passed over, and what was settled before.
    passed: BTreeMap<i64, i64>,
    /// From where to look the next time, because some of them have ended.
    back: Option<i64>,
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
            question.1.push(self.back.map_or(known.low, |back| known.low.min(back)));
        }
        question
    }

    /// The answer of a look at `now`, at the beginning of which the numbers `pending` were in progress.
    pub(super) fn learn(&mut self, lines: &[i32], firsts: &[Option<i64>], pending: &[i64], now: i64) {
        let ended = self.passed.extract_if(.., |number, _| !pending.contains(number));
        // What was asked for has been looked at; what has ended since then has not.
        self.back = ended.map(|(_, settled)| settled).min();
        let before = self.settled.unwrap_or(i64::MIN);
        if let Some((began, number)) = self.open {
            let slow = pending.iter().filter(|slow| **slow <= number && !self.passed.contains_key(slow));
            let slow: Vec<i64> = slow.copied().collect();
            if slow.is_empty() || now.saturating_sub(began) >= PATIENCE {
                self.passed.extend(slow.into_iter().map(|slow| (slow, before)));
                (self.open, self.settled) = (None, Some(began));
            }
        }
        let settled = self.settled.unwrap_or(i64::MIN);
        for (line, first) in lines.iter().zip(firsts) {
            let low = first.unwrap_or(i64::MAX).min(settled);
            self.lines.entry(*line).or_insert(Known { line: None, low }).low = low;
        }
    }

    /// Whether something may be due that the last look has not seen.
    pub(super) fn must_look_back(&self) -> bool {
        self.back.is_some()
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
        lows.learn(&[1], &[Some(500)], &[], 500);
        assert_eq!(low(&lows), i64::MIN, "nothing is known of those in progress");
        lows.note(400, 10);
        lows.learn(&[1], &[Some(500)], &[7, 12], 500);
        assert_eq!(low(&lows), i64::MIN, "number 7 is in progress");
        lows.learn(&[1], &[Some(500)], &[12], 500);
        assert_eq!(low(&lows), 400, "number 12 came later");
        lows.note(450, 12);
        lows.note(460, 13);
        lows.learn(&[1], &[Some(430)], &[13], 500);
        assert_eq!(low(&lows), 430, "something waits");
        lows.learn(&[1], &[None], &[14], 500);
        assert_eq!(low(&lows), 450);
        assert!(!lows.must_look_back());
    }

    #[test]
    fn a_transaction_that_takes_long_is_passed_over_and_looked_for_when_it_has_ended() {
        let mut lows = named();
        lows.note(400, 10);
        lows.learn(&[1], &[None], &[], 400);
        assert_eq!(low(&lows), 400);
        // Numbers 11 and 12 are drawn by somebody else, later than 400.
        lows.note(500, 13);
        lows.learn(&[1], &[None], &[11, 12], 500 + PATIENCE - 1);
        assert_eq!(low(&lows), 400, "there is still time");
        lows.learn(&[1], &[None], &[11, 12], 500 + PATIENCE);
        assert_eq!(low(&lows), 500);
        lows.note(600, 14);
        lows.learn(&[1], &[None], &[11, 12], 600 + PATIENCE);
        assert_eq!(low(&lows), 600, "those that are passed over are not waited for again");
        lows.learn(&[1], &[None], &[12], 600 + PATIENCE);
        assert!(lows.must_look_back(), "11 has ended");
        assert_eq!(low(&lows), 400, "and nothing of it is due before that");
        lows.learn(&[1], &[Some(410)], &[12], 600 + PATIENCE);
        assert!(!lows.must_look_back());
        assert_eq!(low(&lows), 410, "this waits, and is not overlooked again");
        lows.learn(&[1], &[None], &[], 600 + PATIENCE);
        assert_eq!((lows.must_look_back(), low(&lows)), (true, 400), "and now 12");
        lows.learn(&[1], &[None], &[], 600 + PATIENCE);
        assert_eq!((lows.must_look_back(), low(&lows)), (false, 600));
        assert!(lows.passed.is_empty());
    }

    #[test]
    fn each_look_goes_back_no_further_than_it_must() {
        let mut lows = named();
        for (began, number, slow) in [(400, 10, vec![5]), (500, 20, vec![5, 15])] {
            lows.note(began, number);
            lows.learn(&[1], &[None], &slow, began + PATIENCE);
        }
        lows.learn(&[1], &[None], &[5], 500 + PATIENCE);
        assert_eq!(low(&lows), 400, "15 came after what was settled without 5");
        lows.learn(&[1], &[None], &[], 500 + PATIENCE);
        assert_eq!(low(&lows), i64::MIN, "before 5 nothing was");
    }
}
