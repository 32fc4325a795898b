//! The earliest stamps, sorted.
//!
//! The front is a leaf like the others as far as its dead and its links are concerned, and has a number among
//! them; but its stamps are sorted, latest first, and kept in the queue itself, where every pop looks.
//!
//! # Invariants
//! Those of the queue: 1 (sorted, not above the first bound) and 2 (its last stamp is live). Besides, it never has
//! more than `FRONT` stamps; so it does not matter how many of them are dead, and a cancel in the middle of the
//! front costs nothing more.
//!
//! # Protocol
//! Refilling takes from the first leaf only what will be needed soon, and nothing above the *floor*, because what is far or in
//! [line](super::line) may come before that; and raises the leaf's bound. Whatever comes
//! in below that bound, and not above the floor, belongs to the front from then on, however far the front has been served. If there is no such
//! leaf, those who are next in line are called: they become the front as they are, or go to the leaves if others are among them that
//! have come since.
//!
//! # Cost
//! An insert moves the stamps that are earlier, 3 KiB on average in a full front. What is later than all of the
//! front, the usual case, goes to the leaves instead as soon as the front has `SHORT` stamps: else a small queue
//! with ascending deadlines would move all it has on every insert.

use core::cmp::Reverse;

use super::TimerQueue;
use super::index::LeafId;
use super::leaf::{LEAF, Leaf, keep_live};
use super::slab::NONE;
use super::stamp::Order;
use super::tenant::Tenant;

/// Most stamps in the front.
pub(super) const FRONT: usize = if cfg!(test) { 12 } else { 256 };
/// Stamps that the front takes from a leaf at once; half as many again if that is all there is.
const REFILL: usize = if cfg!(test) { 6 } else { 128 };
/// From this length on the front leaves what is above all of it to the leaves.
pub(super) const SHORT: usize = if cfg!(test) { 3 } else { 32 };

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// Restores the live end of the front: the earliest stamp, if there is one, is live after this.
    #[cold]
    pub(super) fn settle(&mut self) {
        while let Some(stamp) = self.front.last() {
            if self.slab.is_live(stamp.key) {
                return;
            }
            self.front.pop();
            self.leaves.tenant_mut(self.front_leaf).dead -= 1;
            self.work += 1;
        }
        self.refill();
    }

    /// Moves the earliest part of the leaves into the front, which is empty.
    fn refill(&mut self) {
        while self.front.is_empty() {
            let floor = self.floor();
            let first = self.index.first_leaf();
            let Some(id) = first.filter(|_| self.index.first_bound().is_some_and(|bound| bound <= floor))
            else {
                // Others come before what is in the leaves.
                if !self.approach() {
                    // The queue is empty, and what was much before says nothing any more.
                    self.far.high = 0;
                    return;
                }
                continue;
            };
            let leaf = self.leaves.tenant_mut(id);
            self.work += leaf.len() as u64;
            let rest = leaf.set_earliest_last(REFILL, floor);
            // A look at all of them before anything is done: the misses overlap.
            let live = leaf.stamps[rest..].iter().filter(|stamp| self.slab.is_live(stamp.key)).count();
            self.front.reserve(live);
            for stamp in leaf.stamps.drain(rest..) {
                if self.slab.relink(stamp.key, self.front_leaf) {
                    self.front.push(stamp);
                } else {
                    leaf.dead -= 1;
                }
            }
            if rest > 0 {
                self.index.rebound(self.index.first(), leaf.bound);
            }
            if leaf.is_unfit() {
                self.thin(id);
            }
        }
        self.work += self.front.len() as u64;
        self.front.sort_unstable_by_key(|stamp| Reverse(stamp.order()));
    }

    /// Drops the dead.
    pub(super) fn purge_front(&mut self) {
        self.work += self.front.len() as u64;
        keep_live(&mut self.front, 0, &self.slab);
        self.leaves.tenant_mut(self.front_leaf).dead = 0;
    }

    /// The leaf for an order that is below all bounds; it has room.
    #[inline]
    pub(super) fn make_front_room(&mut self, order: Order) -> LeafId {
        let Some(latest) = self.front.first() else {
            if self.front_leaf == NONE {
                self.front_leaf = self.leaves.insert(Leaf::new(0, 0), NONE).slot;
            }
            return self.front_leaf;
        };
        if order > latest.order() {
            return self.leave_to_leaves(order);
        }
        if self.front.len() < FRONT {
            return self.front_leaf;
        }
        self.shorten_front(order)
    }

    /// The leaf for an order that is above all of the front and below all bounds.
    #[cold]
    pub(super) fn leave_to_leaves(&mut self, order: Order) -> LeafId {
        if let Some((place, id)) = self.index.first_bound().and_then(|bound| self.index.find(bound)) {
            if self.leaves.tenant(id).len() <= LEAF / 2 {
                self.index.rebound(place, order);
                self.leaves.tenant_mut(id).bound = order;
                return id;
            }
        }
        let id = self.leaves.insert(Leaf::new(order, LEAF), NONE).slot;
        self.index.add_first(order, id);
        id
    }

    /// Makes room in the front, which is full, for an order that belongs to it.
    #[cold]
    fn shorten_front(&mut self, order: Order) -> LeafId {
        if self.leaves.tenant(self.front_leaf).dead as usize >= FRONT / 4 {
            self.purge_front();
            return self.front_leaf;
        }
        let half = self.front.len() / 2;
        self.work += self.front.len() as u64;
        let bound = self.front[half - 1].order();
        let id = self.leaves.insert(Leaf::new(bound, LEAF), NONE).slot;
        let leaf = self.leaves.tenant_mut(id);
        leaf.stamps.extend(self.front.drain(..half).filter(|stamp| self.slab.relink(stamp.key, id)));
        let dropped = half - leaf.len();
        self.leaves.tenant_mut(self.front_leaf).dead -= dropped as u32;
        self.index.add_first(bound, id);
        if order < bound { self.front_leaf } else { id }
    }
}
