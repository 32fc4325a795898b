//! Far entries that stand in line: they are known to come next, and about in which order.
//!
//! What is [`sift`](super::sift)ed out of the far entries is put in order by when it is due, [about](super::coarse), and stands in
//! *line* from then on. Its slots are as before; only when the front wants more are the next in line *called*, some hundred at a
//! time: they get stamps, with all that their order depends on, and go to the leaves, where those are that have come since. So an
//! entry is looked at when it is about to fire, and not before.
//!
//! The line is a list of *rows*, each with up to a sheet of [marks](super::sorter).
//!
//! # Invariants
//! 1. Marks in line are in order of when they are due. Of those that live, `live` says how many there are.
//! 2. While anybody stands in line, all far entries that are not due after `until` do, and nobody else. Their slots say that they are far.
//! 3. Whoever stands in line is above `floor`. It never sinks while anybody does.
//! 4. No more than `CROWD` marks in a row are due at the same instant, about.
//! 5. A row, but for the first, has a mark that is not known to be dead, and at most `SLACK` more that are than others. There are at most a sheet of dead ones besides, for each
//!    sifting.
//!
//! # Protocol
//! - *Calling* takes marks from the beginning, until there are enough and all are called that are due at the same instant, about. The floor
//!   is just before the next.
//! - *Cancel* finds the row by when the entry is due. A row with too many dead is purged, or dropped.
//! - *Too much is near,* and the line reaches further than what has come since: its last row is far again. Somebody who is due in a year
//!   would keep everybody else near.
//! - *When nobody lives* the line is disbanded. Its memory is given back a few sheets at a time.
//!
//! # Cost
//! 12 bytes for each mark, and one look at the entry, with those of its neighbours all at once. By 4 and 5 a pop looks at a
//! few hundred marks at most. Those that are due at one instant, about, are called together, whatever work they make in the leaves: where
//! that instant is long, because it is a year ahead, and more than sixty leaves within it are just full, that is much in one call.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::coarse::Coarse;
use super::leaf::LEAF;
use super::sorter::{Mark, SHEET, Sheet, add};
use super::stamp::{Order, Stamp, order};
use super::tenant::Tenant;
use super::{TimerQueue, Values};
use crate::TaskKey;

/// So many are called at once; more only if they are due at the same instant, about.
const CALL: usize = if cfg!(test) { 5 } else { 128 };
/// More that are due at the same instant, about, do not stand in line.
pub(super) const CROWD: usize = if cfg!(test) { 3 } else { 64 };
/// So many entries are looked at before any of them is brought near.
const FEW: usize = if cfg!(test) { 3 } else { 16 };
/// In a call that has made so much work in the leaves nobody else is called.
const ENOUGH_WORK: u64 = if cfg!(test) { 20 } else { 256 };
/// Marks of the dead that a row may always have.
const SLACK: usize = if cfg!(test) { 1 } else { 16 };

#[derive(Debug)]
pub(super) struct Line {
    /// Of the first row, only those that are not behind us count among the dead.
    rows: VecDeque<Sheet>,
    /// How many marks of the first row are behind us.
    served: usize,
    pub(super) live: usize,
    /// Of no meaning where nobody lives, like the floor.
    until: Coarse,
    pub(super) floor: Order,
    /// Sheets that are to be given back.
    pub(super) litter: Vec<Sheet>,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { rows: VecDeque::new(), served: 0, live: 0, until: Coarse::LAST, floor: 0, litter: Vec::new() }
    }

    /// Whether a far entry that is due then stands in line.
    #[inline]
    pub(super) fn has(&self, due: Coarse) -> bool {
        self.live > 0 && due <= self.until
    }

    /// Nobody who stands in line is above this.
    pub(super) fn end(&self) -> Order {
        if self.live > 0 { order(self.until.last(), u64::MAX) } else { 0 }
    }

    /// The next, dead or alive.
    fn next(&self) -> Option<&Mark> {
        self.rows.front()?.marks.get(self.served)
    }

    /// More join the line behind all others: so many of them live, they are above `base`, and nobody else is far and due when the last
    /// is, or earlier.
    pub(super) fn append(&mut self, sheets: Vec<Sheet>, live: usize, base: Order) {
        if self.live == 0 {
            self.floor = base;
        }
        self.live += live;
        if self.rows.is_empty() {
            self.rows = VecDeque::from(sheets);
        } else {
            self.rows.extend(sheets);
        }
        self.end_with_last();
        self.raise_floor();
    }

    /// The last row, with room for so many more marks.
    pub(super) fn open_row(&mut self, room: usize, blank: impl FnOnce() -> Sheet) -> &mut Sheet {
        if self.rows.back().is_none_or(|row| row.marks.len() + room > SHEET) {
            self.rows.push_back(blank());
        }
        self.rows.back_mut().expect("just added, if there was none")
    }

    /// So many have been added to the last row, who live, are above `base`, and are all that are far and due when the last is, or
    /// earlier.
    pub(super) fn close_row(&mut self, live: usize, base: Order) {
        if self.live == 0 {
            self.floor = base;
        }
        self.live += live;
        self.end_with_last();
        self.raise_floor();
    }

    /// All others are far.
    fn end_with_last(&mut self) {
        if let Some(row) = self.rows.back_mut() {
            let last = row.marks.last().map_or(row.last, |mark| mark.due);
            (row.last, self.until) = (last, last);
        }
    }

    /// When the last is due, about, of those who are called together.
    fn end_of_call(&self) -> Option<Coarse> {
        let marks = &self.rows.front()?.marks;
        marks.get(marks.len().min(self.served + CALL) - 1).map(|mark| mark.due)
    }

    /// How many of the first row are looked at together, of those who are not due after `end`.
    fn few(&self, end: Coarse) -> usize {
        let Some(row) = self.rows.front() else { return 0 };
        row.marks[self.served..].iter().take(FEW).take_while(|mark| mark.due <= end).count()
    }

    /// So many more of the first row are behind us, and so many of them were alive.
    fn go_on(&mut self, marks: usize, live: usize) {
        let Some(row) = self.rows.front_mut() else { return };
        row.dead = row.dead.saturating_sub(marks - live);
        self.live -= live;
        self.served += marks;
        if row.marks.len() == self.served {
            self.rows.pop_front();
            self.served = 0;
        }
    }

    fn raise_floor(&mut self) {
        if let Some(&Mark { due, .. }) = self.next() {
            self.floor = self.floor.max(order(due.first(), 0).saturating_sub(1));
        }
    }

    /// Nobody lives any more.
    fn disband(&mut self) {
        self.served = 0;
        add(&mut self.litter, Vec::from(core::mem::take(&mut self.rows)));
    }

    /// The row that has the mark of this key.
    fn row_of(&self, due: Coarse, key: TaskKey) -> Option<usize> {
        let first = self.rows.partition_point(|row| row.last < due);
        if self.rows.get(first).is_some_and(|row| row.last > due) {
            // So those that are due then are all in this row.
            return Some(first);
        }
        let mut rows = self.rows.range(first..).enumerate();
        rows.find_map(|(at, row)| {
            let start = row.marks.partition_point(|mark| mark.due < due);
            let mut same = row.marks[start..].iter().take_while(|mark| mark.due == due);
            same.any(|mark| mark.key == key).then_some(first + at)
        })
    }

    /// Whether anybody in line may be due then, about.
    pub(super) fn may_be_due(&self, about: Coarse) -> bool {
        self.live > 0 && self.next().is_some_and(|mark| mark.due <= about)
    }

    /// All marks that are not behind us.
    pub(super) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.rows.iter().flat_map(|row| &row.marks).skip(self.served)
    }

    /// Marks for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        let rows = self.rows.iter().map(|row| row.marks.capacity());
        rows.chain(self.litter.iter().map(|sheet| sheet.marks.capacity())).sum()
    }

    /// Checks what can be checked without a look at the entries, but for who `is_live`.
    pub(super) fn verify(&self, is_live: impl Fn(TaskKey) -> bool) {
        assert!(self.live > 0 || self.rows.is_empty(), "line invariant 1: nobody, but marks");
        assert!(self.marks().is_sorted_by_key(|mark| mark.due), "line invariant 1: out of order");
        let live = self.marks().filter(|mark| is_live(mark.key)).count();
        assert!(live == self.live, "line invariant 1: {live} in line, not {}", self.live);
        for (at, row) in self.rows.iter().enumerate() {
            let marks = &row.marks[if at == 0 { self.served } else { 0 }..];
            assert!(!marks.is_empty(), "an empty row");
            assert!(marks.last().is_some_and(|mark| mark.due == row.last), "a row that ends with another");
            let dead = marks.iter().filter(|mark| !is_live(mark.key)).count();
            assert!(row.dead <= dead, "line invariant 5: {dead} dead, not {}", row.dead);
            assert!(
                at == 0 || !is_overgrown(row.dead, marks.len()),
                "line invariant 5: {} of {}",
                row.dead,
                marks.len()
            );
        }
    }
}

/// Whether so many dead are too many among so many marks.
fn is_overgrown(dead: usize, marks: usize) -> bool {
    dead >= marks || dead > marks - dead + SLACK
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// An entry that stood in line was cancelled.
    #[cold]
    pub(super) fn leave_line(&mut self, due: Coarse, key: TaskKey) {
        self.line.live -= 1;
        if self.line.live == 0 {
            return self.disband();
        }
        let Some(at) = self.line.row_of(due, key) else { return };
        self.line.rows[at].dead += 1;
        self.thin_row(at);
        self.line.raise_floor();
    }

    /// Drops the dead of a row, if they are too many, or all of it.
    fn thin_row(&mut self, at: usize) {
        let served = if at == 0 { self.line.served } else { 0 };
        let Some(row) = self.line.rows.get_mut(at) else { return };
        if !is_overgrown(row.dead, row.marks.len() - served) {
            return;
        }
        self.work += (row.marks.len() - served) as u64;
        row.marks.drain(..served);
        row.marks.retain(|mark| self.slab.is_live(mark.key));
        row.marks.shrink_to(2 * row.marks.len());
        row.dead = 0;
        row.last = row.marks.last().map_or(row.last, |mark| mark.due);
        let is_empty = row.marks.is_empty();
        if at == 0 {
            self.line.served = 0;
        }
        if is_empty {
            self.line.rows.remove(at);
        }
    }

    fn disband(&mut self) {
        self.line.disband();
        self.clear_if_idle();
    }

    /// The last row leaves the line, or half of it if it is the only one, with all that are due when its first is, about: they are
    /// far again.
    #[cold]
    pub(super) fn shorten_line(&mut self) {
        let Some(row) = self.line.rows.back() else { return };
        let is_first = self.line.rows.len() == 1;
        let middle = if is_first { (self.line.served + row.marks.len()) / 2 } else { 0 };
        let Some(&Mark { due: from, .. }) = row.marks.get(middle) else { return };
        // By 3 they are above that of the line.
        let floor = order(from.first(), 0).saturating_sub(1).max(self.line.floor);
        self.far.floor = self.far.floor.min(floor);
        loop {
            let start = if self.line.rows.len() == 1 { self.line.served } else { 0 };
            let Some(row) = self.line.rows.back_mut() else { break };
            let Some(&mark) = row.marks.last().filter(|mark| mark.due >= from) else { break };
            row.marks.pop();
            self.work += 1;
            if self.slab.is_live(mark.key) {
                self.line.live -= 1;
                self.far.add(Values::<E>::chunk_of(mark.key.slot), mark.due);
            } else {
                row.dead = row.dead.saturating_sub(1);
            }
            if row.marks.len() == start {
                self.line.rows.pop_back();
            }
        }
        if self.far.live == 0 {
            // All of them were dead.
            self.close();
        }
        if self.line.live == 0 {
            return self.disband();
        }
        // What was the last but one has lost some, too, perhaps.
        self.thin_row(self.line.rows.len() - 1);
        self.line.end_with_last();
        self.line.raise_floor();
    }

    /// Brings the next in line near, for a front that has run empty. Somebody stands in line; but those who come first may all be dead.
    pub(super) fn call(&mut self) {
        let Some(end) = self.line.end_of_call() else { return };
        self.fetch_called(end);
        // Nobody who has come since is among them, as a rule, and then they are what the front wants.
        if self.index.first_bound().is_none_or(|bound| bound > order(end.last(), u64::MAX)) {
            self.call_to_front(end);
        } else {
            self.call_to_leaves(end);
        }
        if self.line.live == 0 {
            self.disband();
        }
        self.line.raise_floor();
    }

    /// Has those of the first row who are called fetched, before the first is looked at: where each is somewhere else in memory, all
    /// are waited for together.
    fn fetch_called(&mut self, end: Coarse) {
        let Some(row) = self.line.rows.front() else { return };
        let called = row.marks[self.line.served..].iter().take_while(|mark| mark.due <= end);
        for mark in called {
            self.work += 1;
            if let Some(tenant) = self.slab.get(mark.key) {
                tenant.fetch();
            }
        }
    }

    /// Those who are not due after `end` become the front.
    fn call_to_front(&mut self, end: Coarse) {
        self.front.reserve(CALL + CROWD);
        while let few @ 1.. = self.line.few(end) {
            let before = self.front.len();
            self.stamp_few(few);
            let live = self.front.len() - before;
            self.line.go_on(few, live);
            self.work += few as u64;
        }
        self.front.reverse();
        for at in 0..self.front.len() {
            self.slab.relink(self.front[at].key, self.front_leaf);
            // Hardly ever far: they are in order, about.
            let place = self.front[..at].iter().rposition(|other| other.order() > self.front[at].order());
            self.front[place.map_or(0, |place| place + 1)..=at].rotate_right(1);
        }
    }

    /// Those who are not due after `end` go to the leaves, or some of them, if they make much work there.
    fn call_to_leaves(&mut self, end: Coarse) {
        let (before, mut last) = (self.work(), None);
        while let few @ 1.. = self.line.few(end) {
            self.stamp_few(few);
            let mut stamps = core::mem::take(&mut self.front);
            let mut rest = stamps.iter();
            for _ in 0..few {
                let Some(&Mark { due, key }) = self.line.next() else { break };
                if self.work() - before > ENOUGH_WORK && last != Some(due) {
                    return;
                }
                last = Some(due);
                let stamp = rest.as_slice().first().filter(|stamp| stamp.key == key);
                self.line.go_on(1, usize::from(stamp.is_some()));
                self.work += 1;
                if let Some(&stamp) = stamp {
                    rest.next();
                    self.bring_near(stamp);
                }
            }
            stamps.clear();
            self.front = stamps;
        }
    }

    /// Adds the stamps of the next few in line to the front, which is not yet one.
    fn stamp_few(&mut self, few: usize) {
        let Some(row) = self.line.rows.front() else { return };
        // One after the other: where each is somewhere else in memory, all are waited for together.
        self.front.extend(row.marks[self.line.served..][..few].iter().filter_map(|&Mark { key, .. }| {
            let tenant = self.slab.get(key)?;
            Some(Stamp { deadline: tenant.deadline(), number: tenant.number(), key })
        }));
    }

    /// Puts an entry that was far where it belongs.
    pub(super) fn bring_near(&mut self, stamp: Stamp) {
        let order = stamp.order();
        let id = match self.index.find(order) {
            Some((place, leaf)) if self.leaves.tenant(leaf).len() == LEAF => {
                self.make_room(place, leaf, order)
            }
            Some((_, leaf)) => leaf,
            // It is above the floor, and so above all of the front.
            None => self.leave_to_leaves(order),
        };
        self.slab.relink(stamp.key, id);
        self.leaves.tenant_mut(id).push(stamp);
    }
}
