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
//!   jobs are not due before that. When a look finds that it has ended, `low` goes back there, in every line, whether the
//!   look was at it or not: a line whose queue is paused, or of a kind that another node on this connection knows, is looked
//!   at when its time comes. Who looks ahead looks again at once, and finds them overdue.
//! - All this is about a clock that does not go back. When it has been set back, what comes to wait may be due before `low`:
//!   everything is forgotten, and begins at the beginning. It is noticed when an answer shows less than one before it, or
//!   less than it must by the time that has passed here (`clock.rs`).
//!
//! So `low` is the lesser of `first` and what is settled; and the look after the end of a transaction that was passed over
//! begins where it may have added something. Those who only read have no number, and are not waited for. A line that a look
//! was not at keeps its `low`: what is settled only grows, and what was added there since is not due before it.
//!
//! # Not noticed
//! A clock that is set back by less than an answer takes. Clocks that are wrong by so little are slowed down, not set.
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
    /// Whether the last look has found out that it should have begun before.
    back: bool,
    /// What the server's clock showed last.
    shown: Option<i64>,
    /// How often it has been set back, by the last answer.
    setbacks: u64,
    /// Whether it has been since the last look.
    forgot: bool,
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

    /// The answer of a look at `now`, at the beginning of which the numbers `pending` were in progress.
    pub(super) fn learn(&mut self, lines: &[i32], firsts: &[Option<i64>], pending: &[i64], now: i64) {
        self.hear(now);
        let ended = self.passed.extract_if(.., |number, _| !pending.contains(number));
        let ended = ended.map(|(_, settled)| settled).min();
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
        self.back = std::mem::take(&mut self.forgot) || ended.is_some();
        if let Some(settled) = ended {
            // Of all lines, also of those that this look was not at.
            self.lower(settled);
        }
    }

    fn lower(&mut self, to: i64) {
        for known in self.lines.values_mut() {
            known.low = known.low.min(to);
        }
    }

    /// Whether something may be due that the last look has not seen.
    pub(super) fn must_look_back(&self) -> bool {
        self.back
    }

    /// The server's clock showed this, after all that it has shown before.
    pub(super) fn hear(&mut self, at: i64) {
        if self.shown.is_some_and(|shown| at < shown) {
            self.forget();
        }
        self.shown = Some(at);
    }

    /// How often the server's clock has been set back by the time an answer came. Whether that is more often than before:
    /// then the answer may be from before it, or after.
    pub(super) fn follow(&mut self, setbacks: u64) -> bool {
        let more = setbacks != self.setbacks;
        if more {
            self.setbacks = setbacks;
            self.forget();
        }
        more
    }

    fn forget(&mut self) {
        self.lower(i64::MIN);
        self.passed.clear();
        (self.open, self.settled, self.forgot) = (None, None, true);
    }

    /// An exchange that had that number, and began before it was drawn; the clock has not been set back in between.
    pub(super) fn note(&mut self, began: i64, number: i64) {
        self.open.get_or_insert((began, number));
    }

    pub(super) fn name(&mut self, id: i32, line: Line) {
        self.lines.entry(id).or_insert(Known { line: None, low: i64::MIN }).line = Some(line);
    }

    pub(super) fn name_if_new(&mut self, id: i32, line: impl FnOnce() -> Line) {
        if self.line(id).is_none() {
            self.name(id, line());
        }
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
        low_of(lows, 1)
    }

    fn low_of(lows: &Lows, line: i32) -> i64 {
        let (lines, lows) = lows.question();
        lows[lines.iter().position(|known| *known == line).unwrap()]
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
    fn a_line_that_was_not_looked_at_when_a_transaction_ended_is_looked_at_from_there_later() {
        let mut lows = named();
        lows.name(2, Line { queue: "paused".to_owned(), kind: "k".to_owned(), lane: Lane::Normal });
        lows.note(400, 10);
        lows.learn(&[1, 2], &[None, None], &[], 400);
        lows.note(500, 13);
        lows.learn(&[1, 2], &[None, None], &[11], 500 + PATIENCE);
        assert_eq!((low_of(&lows, 1), low_of(&lows, 2)), (500, 500), "11 is passed over");
        lows.learn(&[1], &[None], &[], 500 + PATIENCE);
        assert!(lows.must_look_back());
        lows.learn(&[1], &[None], &[], 500 + PATIENCE);
        assert!(!lows.must_look_back());
        assert_eq!((low_of(&lows, 1), low_of(&lows, 2)), (500, 400));
        lows.learn(&[1, 2], &[None, Some(410)], &[], 500 + PATIENCE);
        assert_eq!(low_of(&lows, 2), 410);
        lows.learn(&[1, 2], &[None, None], &[], 500 + PATIENCE);
        assert_eq!(low_of(&lows, 2), 500, "it has been looked at");
    }

    #[test]
    fn a_line_without_a_name_goes_back_too() {
        let mut lows = named();
        lows.note(400, 10);
        lows.learn(&[1, 2], &[None, None], &[], 400);
        lows.note(500, 13);
        lows.learn(&[1, 2], &[None, None], &[11], 500 + PATIENCE);
        lows.learn(&[1], &[None], &[], 500 + PATIENCE);
        lows.name(2, Line { queue: "q".to_owned(), kind: "k".to_owned(), lane: Lane::Low });
        assert_eq!(low_of(&lows, 2), 400);
    }

    #[test]
    fn a_clock_that_was_set_back_begins_at_the_beginning() {
        let mut lows = named();
        lows.note(10_000, 10);
        lows.learn(&[1], &[None], &[], 10_000);
        assert_eq!(low(&lows), 10_000);
        lows.note(5_200, 12);
        lows.learn(&[1], &[None], &[], 5_300);
        assert_eq!((low(&lows), lows.must_look_back()), (i64::MIN, true));
        lows.learn(&[1], &[None], &[], 5_400);
        assert_eq!((low(&lows), lows.must_look_back()), (i64::MIN, false), "nothing is settled yet");
        lows.note(5_500, 13);
        lows.learn(&[1], &[None], &[], 5_600);
        assert_eq!(low(&lows), 5_500, "and goes on from there");
    }

    #[test]
    fn what_was_passed_over_before_the_clock_was_set_back_is_forgotten() {
        let mut lows = named();
        lows.note(10_000, 10);
        lows.learn(&[1], &[None], &[5], 10_000 + PATIENCE);
        assert!(!lows.follow(0));
        assert!(lows.follow(1), "somebody else has noticed, and time has passed since");
        assert_eq!(low(&lows), i64::MIN);
        lows.learn(&[1], &[None], &[5], 11_000 + PATIENCE);
        assert!(lows.must_look_back());
        lows.note(12_000 + PATIENCE, 20);
        lows.learn(&[1], &[None], &[], 12_000 + PATIENCE);
        assert_eq!((low(&lows), lows.must_look_back()), (12_000 + PATIENCE, false));
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
