//! Marks put in order of when they are due, about, a little in every step.
//!
//! A *mark* is what is known of a far entry without a look at it: its key, and [about](super::coarse) when it is due. Marks come
//! in any order; they are sorted by one digit after the other, the lowest first, each time from one pile to another and back. So
//! a step may end after any mark, and nothing is ever moved twice for one digit.
//!
//! # States
//! ```text
//! gathering ── step ──▶ digit 0 ──▶ digit 1 ──▶ … ──▶ over
//! ```
//!
//! # Invariants
//! 1. Both piles have as many marks. While gathering, those of `other` are room and mean nothing.
//! 2. `counts` says, for each digit, how many marks have which value of it. Of the digit that is being sorted by, it says where
//!    in `other` the next mark with that value goes.
//! 3. Marks in `pile` are in order of all digits below `digit`.
//!
//! # Cost
//! For each mark two pushes and a count for each digit, then a move for each digit in which they differ: two or three of them. They are
//! read in a row, and written in as many rows as a digit has values. Memory comes a *sheet* at a time, so nothing is copied to grow.
//!
//! # Paths not taken
//! *A comparison sort:* cannot stop after any move as simply, and takes log n moves instead of three.

use alloc::vec::Vec;

use super::coarse::Coarse;
use crate::TaskKey;

/// Marks in a sheet.
pub(super) const SHEET: usize = if cfg!(test) { 4 } else { 256 };
/// Bits of a digit.
const DIGIT: u32 = if cfg!(test) { 4 } else { 11 };
const VALUES: usize = 1 << DIGIT;
const DIGITS: usize = Coarse::BITS.div_ceil(DIGIT) as usize;
/// Work for a digit, whatever the number of marks.
const PER_DIGIT: u64 = if cfg!(test) { 1 } else { VALUES as u64 / 16 };

/// A far entry, and about when it is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) due: Coarse,
    pub(super) key: TaskKey,
}

/// Some marks.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) marks: Vec<Mark>,
    /// How many of them are known to be dead, in [line](super::line).
    pub(super) dead: usize,
    /// When the last is due, in line.
    pub(super) last: Coarse,
}

impl Sheet {
    fn new() -> Self {
        Self { marks: Vec::with_capacity(SHEET), dead: 0, last: Coarse::NEVER }
    }
}

/// Marks, a sheet at a time.
#[derive(Debug)]
pub(super) struct Pile {
    sheets: Vec<Sheet>,
    len: usize,
}

impl Pile {
    const fn new() -> Self {
        Self { sheets: Vec::new(), len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn push(&mut self, mark: Mark) {
        if self.len % SHEET == 0 {
            self.sheets.push(Sheet::new());
        }
        self.len += 1;
        if let Some(last) = self.sheets.last_mut() {
            last.marks.push(mark);
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Mark {
        self.sheets[at / SHEET].marks[at % SHEET]
    }

    #[inline]
    fn set(&mut self, at: usize, mark: Mark) {
        self.sheets[at / SHEET].marks[at % SHEET] = mark;
    }

    /// That mark is to stay there, behind all that are before it.
    #[inline]
    pub(super) fn keep(&mut self, at: usize, mark: Mark) {
        let sheet = &mut self.sheets[at / SHEET];
        sheet.marks[at % SHEET] = mark;
        sheet.last = mark.due;
    }

    /// The first `len` of them; the other sheets are added to `rest`.
    pub(super) fn into_sheets(mut self, len: usize, rest: &mut Vec<Sheet>) -> Vec<Sheet> {
        add(rest, self.sheets.split_off(len.div_ceil(SHEET)));
        if let Some(last) = self.sheets.last_mut() {
            last.marks.truncate(len - (len - 1) / SHEET * SHEET);
        }
        self.sheets
    }
}

#[derive(Debug)]
pub(super) struct Sorter {
    pub(super) pile: Pile,
    other: Pile,
    /// By digit and value.
    counts: Vec<u32>,
    digit: usize,
    /// So many marks have been moved for this digit.
    at: usize,
}

impl Sorter {
    pub(super) const fn new() -> Self {
        Self { pile: Pile::new(), other: Pile::new(), counts: Vec::new(), digit: 0, at: 0 }
    }

    /// Adds a mark, while gathering.
    #[inline]
    pub(super) fn add(&mut self, mark: Mark) {
        if self.counts.is_empty() {
            self.counts.resize(DIGITS * VALUES, 0);
        }
        for digit in 0..DIGITS {
            self.counts[digit * VALUES + value(mark, digit)] += 1;
        }
        self.pile.push(mark);
        self.other.push(mark);
    }

    pub(super) const fn is_over(&self) -> bool {
        self.digit == DIGITS || self.pile.len() == 0
    }

    /// Goes on, until about so much is done; says how much was.
    pub(super) fn step(&mut self, budget: u64) -> u64 {
        let mut done = 0;
        while done < budget && !self.is_over() {
            if self.at == 0 && !self.begin_digit() {
                self.digit += 1;
                done += PER_DIGIT;
                continue;
            }
            done += self.move_some(budget - done);
            if self.at == self.pile.len() {
                core::mem::swap(&mut self.pile, &mut self.other);
                (self.digit, self.at) = (self.digit + 1, 0);
                done += PER_DIGIT;
            }
        }
        done
    }

    /// Finds out where marks go by this digit; says whether they differ in it.
    fn begin_digit(&mut self) -> bool {
        let counts = &mut self.counts[self.digit * VALUES..][..VALUES];
        if counts[value(self.pile.get(0), self.digit)] as usize == self.pile.len() {
            return false;
        }
        let mut before = 0;
        for count in counts {
            before += core::mem::replace(count, before);
        }
        true
    }

    /// Moves marks of one sheet.
    fn move_some(&mut self, most: u64) -> u64 {
        let (sheet, start) = (&self.pile.sheets[self.at / SHEET].marks, self.at % SHEET);
        let end = sheet.len().min(start.saturating_add(usize::try_from(most).unwrap_or(usize::MAX)));
        let places = &mut self.counts[self.digit * VALUES..][..VALUES];
        for &mark in &sheet[start..end] {
            let place = &mut places[value(mark, self.digit)];
            self.other.set(*place as usize, mark);
            *place += 1;
        }
        self.at += end - start;
        (end - start) as u64
    }

    /// A sheet without marks, of those that are not needed any more once all is sorted.
    pub(super) fn blank(&mut self) -> Sheet {
        self.other.sheets.pop().map_or_else(Sheet::new, |mut sheet| {
            sheet.marks.clear();
            sheet
        })
    }

    /// What is not needed any more.
    pub(super) fn into_litter(self, litter: &mut Vec<Sheet>) {
        add(litter, self.pile.sheets);
        add(litter, self.other.sheets);
    }

    /// The sorted pile; what else there was is added to `litter`.
    pub(super) fn into_pile(self, litter: &mut Vec<Sheet>) -> Pile {
        add(litter, self.other.sheets);
        self.pile
    }

    /// Marks for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        let sheets = self.pile.sheets.iter().chain(&self.other.sheets);
        sheets.map(|sheet| sheet.marks.capacity()).sum()
    }
}

/// Adds sheets to a list, which is empty as a rule.
pub(super) fn add(list: &mut Vec<Sheet>, mut sheets: Vec<Sheet>) {
    if list.is_empty() {
        *list = sheets;
    } else {
        list.append(&mut sheets);
    }
}

/// A digit of when a mark is due.
#[inline]
fn value(mark: Mark, digit: usize) -> usize {
    mark.due.bits() as usize >> (digit as u32 * DIGIT) & (VALUES - 1)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::{Mark, SHEET, Sorter};
    use crate::queue::coarse::Coarse;
    use crate::{TaskKey, Tick};

    /// By any steps, and those that are equal stay as they were.
    #[test]
    fn marks_come_out_in_order() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..300 {
            let len = random.usize(..100);
            let bits = random.u32(..64);
            let mut sorter = Sorter::new();
            let mut expected: Vec<(Coarse, u32)> = (0..len as u32)
                .map(|slot| (Coarse::of(Tick::from_nanos(random.u64(..) >> bits)), slot))
                .collect();
            for &(due, slot) in &expected {
                sorter.add(Mark { due, key: TaskKey { slot, generation: 0 } });
            }
            let (mut done, mut steps) = (0, 0);
            while !sorter.is_over() {
                done += sorter.step(random.u64(1..20));
                steps += 1;
                assert!(steps < 10_000, "round {round} does not end");
            }
            assert!(done <= (8 * len + 8) as u64, "{done} for {len} marks");
            expected.sort();
            let mut litter = Vec::new();
            let kept = random.usize(..=len);
            let sheets = sorter.into_pile(&mut litter).into_sheets(kept, &mut litter);
            assert!(sheets.iter().all(|sheet| (1..=SHEET).contains(&sheet.marks.len())));
            let sorted: Vec<_> =
                sheets.iter().flat_map(|sheet| &sheet.marks).map(|mark| (mark.due, mark.key.slot)).collect();
            assert_eq!(sorted, expected[..kept]);
        }
    }
}
