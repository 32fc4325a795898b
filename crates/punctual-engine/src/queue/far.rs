//! What is far from the front: entries in no order at all.
//!
//! Everything above the `limit` is *far*, and has no stamp: it is in its slot and nowhere else. In place of a leaf it is linked
//! to when it is due, [about](super::coarse). So what comes takes the slot that was freed last, and what is cancelled empties its own, and that is all.
//! Most timers are cancelled while they are far, and have never been searched for a place, nor are they to be cleared
//! away afterwards.
//!
//! # Invariants
//! 1. Front and leaves have nothing above `limit`, and nothing far is below `floor`, which is not above it, but for what a sifting has found, or
//!    will; see [`sift`](super::sift). As a rule they are the same, except where some of the [line](super::line) became far again. What stands
//!    in line is far as to its slot, and below the floor.
//! 2. An entry is far, or stands in line, exactly if its link says when it is due, and `live` says how many are far. It has no stamp.
//! 3. No far entry is due before what `earliest` says of the chunk that its slot is in, unless it was found by a sifting, or that chunk is
//!    being looked at: then only what has come since, and what is to be looked at.
//! 4. Where nothing is far the limit is the end of all orders, unless a sifting has yet to notice.
//!
//! # Protocol
//! - *Growing.* An insert that finds too much near *stows* the last leaf of the index: its entries are linked to when they are due, the
//!   leaf is gone, and its bound is the new limit. But the limit does not go below whoever stands in line.
//! - *Shrinking.* When too little is near, the earliest part is sifted out, and stands in line.
//!
//! # Cost
//! A far entry is in one place. To find the earliest of them all slots are looked at in a row, also those of what is near,
//! and of nobody: so how much is to be near is measured by the [`breadth`](super::slab::Slab::breadth) of the slab.
//!
//! # Paths not taken
//! *Far stamps in leaves of their own,* where a cancel leaves a dead one behind: each entry is in three places, and one in two
//! of the looks at a stamp is at a dead one, with a look at its slot to know that. With it a cancel and an insert among
//! 100,000 took 355 instructions, and two more lines of the cache for each.

use alloc::vec::Vec;

use super::coarse::Coarse;
use super::sift::Sift;
use super::stamp::{Order, Stamp};
use super::tenant::Tenant;
use super::{TimerQueue, Values};
use crate::{TaskKey, Tick};

/// More than this and a 16th of all slots is too much near; unless a sifting brought it there.
const HIGH: usize = if cfg!(test) { 24 } else { 2_048 };

#[derive(Debug)]
pub(super) struct Far {
    /// What comes above this is far.
    pub(super) limit: Order,
    /// What is far is above this, unless a sifting has found it or will.
    pub(super) floor: Order,
    /// By the number of a chunk.
    pub(super) earliest: Vec<Coarse>,
    pub(super) live: usize,
    /// An eighth more than was near after the last sifting: less than this is not too much.
    pub(super) high: usize,
    /// Entries cancelled while they were far, since the last sifting.
    pub(super) cancelled: usize,
    pub(super) sift: Sift,
}

impl Far {
    pub(super) const fn new() -> Self {
        Self {
            limit: Order::MAX,
            floor: Order::MAX,
            earliest: Vec::new(),
            live: 0,
            high: 0,
            cancelled: 0,
            sift: Sift::new(),
        }
    }

    /// There is one more, in that chunk.
    #[inline]
    pub(super) fn add(&mut self, chunk: usize, due: Coarse) {
        self.live += 1;
        match self.earliest.get_mut(chunk) {
            Some(earliest) if *earliest <= due => {}
            Some(earliest) => *earliest = due,
            None => self.add_chunk(chunk, due),
        }
    }

    #[cold]
    fn add_chunk(&mut self, chunk: usize, due: Coarse) {
        self.earliest.resize(chunk, Coarse::NEVER);
        self.earliest.push(due);
    }
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// How many entries are neither far nor on the ramp: in the front, in leaves, or in line.
    #[inline]
    pub(super) fn near(&self) -> usize {
        self.slab.len() - self.far.live - self.ramp.live
    }

    /// Queues what is above the limit.
    #[inline]
    pub(super) fn insert_far(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let due = Coarse::of(deadline);
        let key = self.slab.insert(E::new(deadline, number, value), due.link());
        self.far.add(Values::<E>::chunk_of(key.slot), due);
        key
    }

    /// Leaves an entry that was elsewhere, and is above the limit, among the far ones; unless it is gone.
    pub(super) fn put_far(&mut self, stamp: Stamp) {
        let due = Coarse::of(stamp.deadline);
        if self.slab.relink(stamp.key, due.link()) {
            self.far.add(Values::<E>::chunk_of(stamp.key.slot), due);
        }
    }

    /// A far entry was cancelled, or one that stood in line.
    #[inline]
    pub(super) fn leave_far(&mut self, key: TaskKey, due: Coarse) {
        self.far.cancelled += 1;
        if self.line.has(due) {
            return self.leave_line(due, key);
        }
        self.far.live -= 1;
        if self.far.sift.has_found(key.slot, due) {
            self.far.sift.found -= 1;
        }
        if self.far.live == 0 {
            self.close();
        }
    }

    /// Moves the limit down, below the last leaf of the index, if too much is near.
    #[inline]
    pub(super) fn stow_if_high(&mut self) {
        if self.near() > (self.slab.breadth() / 16 + HIGH).max(self.far.high) && !self.far.sift.is_under_way()
        {
            self.stow();
        }
    }

    #[cold]
    fn stow(&mut self) {
        let Some((place, id)) = self.index.last().filter(|&(place, _)| place != self.index.first()) else {
            return;
        };
        // Only equal orders, against the contract, can make a leaf at zero the last of several.
        let Some(limit) = self.leaves.tenant(id).bound.checked_sub(1) else { return };
        if limit < self.line.end() {
            return self.shorten_line();
        }
        self.index.remove(place);
        self.far.limit = limit;
        self.far.floor = self.far.floor.min(limit);
        let Some(leaf) = self.drop_leaf(id) else { return };
        self.work += leaf.len() as u64;
        leaf.stamps.into_iter().for_each(|stamp| self.put_far(stamp));
    }

    /// How many far entries are due at `now`.
    pub(super) fn far_due_count(&self, now: Tick) -> usize {
        let about = Coarse::of(now);
        let is_due = |&(link, tenant): &(u32, &E)| {
            let due = Coarse::from_link(link);
            due < about || due == about && tenant.deadline() <= now
        };
        // Those have been taken out of the account of their chunk.
        let is_elsewhere = self.line.may_be_due(about) || self.far.sift.is_apart();
        let chunks = self.far.earliest.iter().enumerate().map(|(chunk, &earliest)| {
            if earliest <= about || is_elsewhere {
                self.slab.tenants_of(chunk).filter(is_due).count()
            } else {
                0
            }
        });
        chunks.sum()
    }

    /// Restores invariant 4, when nothing is far any more.
    #[cold]
    pub(super) fn close(&mut self) {
        (self.far.limit, self.far.floor) = (Order::MAX, Order::MAX);
        self.far.cancelled = 0;
        if self.far.sift.is_under_way() {
            self.abandon();
        }
    }
}
