//! What is far from the front: leaves in no order.
//!
//! Everything above the `limit` is *far*. It is kept in leaves like all the rest, so that a cancel counts the dead
//! as it does elsewhere; but these leaves are a mere list: a stamp that comes is put at the end of the newest, the
//! *tail*, wherever it belongs. Most timers are cancelled while they are far, and have never been searched for a place.
//!
//! # Invariants
//! 1. Front and index have nothing above `limit`, far leaves nothing that is not above `floor`. The two are equal
//!    except during a sifting; see [`sift`](super::sift) for what holds then.
//! 2. `stamps` and `live` count what the far leaves have.
//! 3. A leaf is in the list exactly if it knows its place there, and no stamp of it is below its bound.
//! 4. A far leaf has a live stamp, and at most `SLACK` more dead than live. Only the tail and the leaf that is being
//!    sifted need not have a live one.
//! 5. Where nothing far is live there is no far leaf, and the limit is the end of all orders. So there is always
//!    something near if there is anything.
//!
//! # Protocol
//! - *Growing.* An insert that finds too much near *stows* the last leaf of the index: it leaves the index for the
//!   list, as it is, and its bound is the new limit. No stamp moves, no link is written.
//! - *Thinning.* A far leaf of which too much is dead is *poured*: what lives goes to the tail, and the leaf is gone.
//!   So far leaves stay full, although nothing is ever added to them but to the tail.
//! - *Shrinking.* When too little is near, the earliest part is sifted out; see there.

use alloc::vec::Vec;

use super::index::LeafId;
use super::leaf::{LEAF, Leaf, keep_live};
use super::sift::{Sift, Stage};
use super::slab::NONE;
use super::stamp::{Order, Stamp, order};
use super::{Leaves, TimerQueue};
use crate::{TaskKey, Tick};

/// More than this and a 16th of the far stamps is too much near; unless a sifting brought it there.
const HIGH: usize = if cfg!(test) { 24 } else { 6_144 };

#[derive(Debug)]
pub(super) struct Far {
    /// What is above this is far.
    pub(super) limit: Order,
    /// What is far is above this.
    pub(super) floor: Order,
    /// In no order; but the first `sift.todo` of them have not been sifted yet.
    pub(super) leaves: Vec<LeafId>,
    /// The leaf that takes what comes, or `NONE`.
    pub(super) tail: LeafId,
    pub(super) stamps: usize,
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
            leaves: Vec::new(),
            tail: NONE,
            stamps: 0,
            live: 0,
            high: 0,
            cancelled: 0,
            sift: Sift::new(),
        }
    }

    /// Adds a leaf to the list.
    fn add(&mut self, id: LeafId, leaf: &mut Leaf) {
        leaf.place = self.leaves.len() as u32;
        self.leaves.push(id);
        self.stamps += leaf.len();
        self.live += leaf.live();
    }

    /// Takes a leaf out of the list.
    pub(super) fn take(&mut self, leaves: &mut Leaves, id: LeafId) {
        let leaf = leaves.tenant_mut(id);
        self.stamps -= leaf.len();
        self.live -= leaf.live();
        let mut place = leaf.place as usize;
        if place < self.sift.todo {
            // The last that is not sifted fills the gap, and leaves one among the others.
            self.sift.todo -= 1;
            self.put(leaves, place, self.leaves[self.sift.todo]);
            place = self.sift.todo;
        }
        if let Some(last) = self.leaves.pop().filter(|_| place < self.leaves.len()) {
            self.put(leaves, place, last);
        }
        leaves.tenant_mut(id).place = NONE;
        self.sift.forget(id);
        if self.tail == id {
            self.tail = NONE;
        }
    }

    /// Drops a leaf.
    fn remove(&mut self, leaves: &mut Leaves, id: LeafId) {
        self.take(leaves, id);
        let key = leaves.key(id);
        leaves.remove(key);
    }

    fn put(&mut self, leaves: &mut Leaves, place: usize, id: LeafId) {
        self.leaves[place] = id;
        leaves.tenant_mut(id).place = place as u32;
    }
}

impl<T> TimerQueue<T> {
    /// How many entries are neither far nor on the ramp.
    #[inline]
    pub(super) fn near(&self) -> usize {
        self.slab.len() - self.far.live - self.ramp.live
    }

    /// Queues what is above the limit.
    #[inline]
    pub(super) fn insert_far(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let id = self.tail(order(deadline, number));
        let key = self.slab.insert(value, id);
        self.lay_far(id, Stamp { deadline, number, key });
        key
    }

    /// Puts a stamp that was elsewhere, and is above the limit, among the far ones.
    pub(super) fn put_far(&mut self, stamp: Stamp) {
        let id = self.tail(stamp.order());
        self.slab.relink(stamp.key, id);
        self.lay_far(id, stamp);
    }

    #[inline]
    fn lay_far(&mut self, id: LeafId, stamp: Stamp) {
        self.leaves.tenant_mut(id).push_far(stamp);
        self.far.stamps += 1;
        self.far.live += 1;
    }

    /// The tail, with room for one more.
    #[inline]
    fn tail(&mut self, order: Order) -> LeafId {
        let id = self.far.tail;
        if id != NONE && self.leaves.tenant(id).len() < LEAF { id } else { self.add_tail(order) }
    }

    /// A new tail, of which `order` will be the first.
    #[cold]
    fn add_tail(&mut self, order: Order) -> LeafId {
        let id = self.leaves.insert(Leaf::new(order, LEAF), NONE).slot;
        self.far.add(id, self.leaves.tenant_mut(id));
        self.far.tail = id;
        id
    }

    /// Makes the tail a far leaf like the others.
    pub(super) fn release_tail(&mut self) {
        let id = core::mem::replace(&mut self.far.tail, NONE);
        if id != NONE && self.leaves.tenant(id).live() == 0 {
            self.far.remove(&mut self.leaves, id);
        }
    }

    /// Moves the limit down, below the last leaf of the index, if too much is near.
    #[inline]
    pub(super) fn stow_if_high(&mut self) {
        if self.near() > (self.far.stamps / 16 + HIGH).max(self.far.high)
            && self.far.sift.stage == Stage::Idle
        {
            self.stow();
        }
    }

    #[cold]
    fn stow(&mut self) {
        let Some((place, id)) = self.index.last().filter(|&(place, _)| place != self.index.first()) else {
            return;
        };
        let leaf = self.leaves.tenant_mut(id);
        // Only equal orders, against the contract, can make a leaf at zero the last of several.
        let Some(limit) = leaf.bound.checked_sub(1) else { return };
        self.index.remove(place);
        self.far.add(id, leaf);
        self.far.limit = limit;
        self.far.floor = limit;
        self.work += 1;
        self.tidy(id);
    }

    /// Drops a far leaf in which nothing lives, and pours one of which little is left or much is dead.
    pub(super) fn tidy(&mut self, id: LeafId) {
        let leaf = self.leaves.tenant(id);
        if id == self.far.tail || leaf.len() > LEAF / 4 && !leaf.is_unfit() {
            return;
        }
        if leaf.live() == 0 {
            self.far.remove(&mut self.leaves, id);
        } else if self.far.tail == NONE {
            self.purge_far(id);
            self.far.tail = id;
        } else {
            self.pour(id);
        }
    }

    /// Tidies a far leaf of which too much is dead.
    pub(super) fn thin_far(&mut self, id: LeafId) {
        let leaf = self.leaves.tenant(id);
        let (place, sift) = (leaf.place as usize, &self.far.sift);
        if id == self.far.tail || leaf.live() > 0 && (id == sift.current || place < sift.todo) {
            self.purge_far(id);
        } else {
            self.tidy(id);
        }
        self.close_if_empty();
    }

    /// Drops the dead of a far leaf, which stays where it is.
    fn purge_far(&mut self, id: LeafId) {
        let leaf = self.leaves.tenant_mut(id);
        self.work += leaf.len() as u64;
        self.far.stamps -= leaf.dead as usize;
        leaf.purge(&self.slab);
        if id == self.far.sift.current {
            self.part();
        }
    }

    /// Moves what lives in a far leaf into the tail, and drops the leaf.
    fn pour(&mut self, id: LeafId) {
        let leaf = self.leaves.tenant_mut(id);
        leaf.dead = 0;
        let mut stamps = core::mem::take(&mut leaf.stamps);
        self.work += stamps.len() as u64;
        self.far.stamps -= stamps.len();
        self.far.remove(&mut self.leaves, id);
        keep_live(&mut stamps, 0, &self.slab);
        self.far.stamps += stamps.len();
        for stamp in stamps {
            let into = self.tail(stamp.order());
            self.slab.relink(stamp.key, into);
            self.leaves.tenant_mut(into).push_far(stamp);
        }
    }

    /// Restores invariant 5.
    pub(super) fn close_if_empty(&mut self) {
        if self.far.live == 0 {
            // By 4 there are two at most.
            while let Some(&id) = self.far.leaves.last() {
                self.far.remove(&mut self.leaves, id);
            }
            if self.far.sift.stage == Stage::Sifting {
                self.end_sifting();
            }
            self.far = Far { high: self.far.high, sift: self.far.sift.reset(), ..Far::new() };
        }
    }
}
