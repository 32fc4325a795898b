//! A handful of neighbouring stamps in no order.
//!
//! A leaf takes a new stamp at its end and looks at what it has only when it is full, when most of it is dead,
//! or when it becomes the front. A cancelled entry leaves its stamp behind, *dead*: its generation is no longer
//! that of its slot. The leaf knows how many there are, because each tenant of the slab is linked to its leaf.
//!
//! # Invariants
//! 1. At most `LEAF` stamps; at least one is live.
//! 2. `dead` is the number of dead stamps, and at most `live + SLACK`.
//! 3. The tenant of every live stamp is linked to this leaf.
//!
//! The first two have exceptions among the pages of the [`ramp`](super::ramp).
//!
//! # Cost
//! Insert is a push. A purge looks at two stamps at most for each cancelled entry
//! that paid for it. A split moves half a leaf and writes as many links, once in `LEAF / 2` inserts or more
//! rarely. Nothing here ever touches more than a leaf and a half.
//!
//! # Paths not taken
//! - *The highest order of a leaf kept in it,* to know without a scan that a new one is above all: 16 bytes more in
//!   every leaf, read and written on every insert, to save a scan that ends at the second stamp unless it succeeds.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::index::{LeafId, Place};
use super::slab::NONE;
use super::stamp::{Order, Stamp};
use super::tenant::Tenant;
use super::{TimerQueue, Values};

/// Most stamps in a leaf.
pub(super) const LEAF: usize = if cfg!(test) { 16 } else { 288 };
/// Dead stamps that a leaf may always have, however few live ones there are.
const SLACK: usize = if cfg!(test) { 2 } else { 16 };
/// Leaves grow in such steps: a leaf that was split should not have memory for a full one.
const STEP: usize = LEAF / 4;

#[derive(Debug)]
pub(super) struct Leaf {
    /// Empty while the leaf is the front: then the front has them.
    pub(super) stamps: Vec<Stamp>,
    /// No stamp is below it. As in the index, if the leaf is there; of no meaning for the front.
    pub(super) bound: Order,
    /// How many of the stamps have lost their tenant.
    pub(super) dead: u32,
    /// Whether it is a page of the [`ramp`](super::ramp).
    pub(super) is_page: bool,
}

impl Leaf {
    /// An empty leaf with memory for this many stamps.
    pub(super) fn new(bound: Order, capacity: usize) -> Self {
        Self { stamps: Vec::with_capacity(capacity), bound, dead: 0, is_page: false }
    }

    pub(super) fn len(&self) -> usize {
        self.stamps.len()
    }

    pub(super) fn live(&self) -> usize {
        self.stamps.len() - self.dead as usize
    }

    /// Whether invariant 1 or 2 asks for something to be done about the dead.
    #[inline]
    pub(super) fn is_unfit(&self) -> bool {
        self.live() == 0 || is_overgrown(self.dead as usize, self.live())
    }

    /// Adds a stamp; there must be room for it.
    #[inline]
    pub(super) fn push(&mut self, stamp: Stamp) {
        if self.stamps.len() == self.stamps.capacity() {
            self.stamps.reserve_exact(STEP);
        }
        self.stamps.push(stamp);
    }

    /// The highest order, if `order` is above it.
    pub(super) fn highest_below(&self, order: Order) -> Option<Order> {
        // The newest first: unless arrivals ascend this ends at once.
        self.stamps.iter().rev().try_fold(0, |highest: Order, stamp| {
            (stamp.order() < order).then_some(highest.max(stamp.order()))
        })
    }

    /// Drops the dead, and memory that is not needed.
    pub(super) fn purge<E>(&mut self, slab: &Values<E>) {
        keep_live(&mut self.stamps, 0, slab);
        self.dead = 0;
        self.stamps.shrink_to(self.stamps.len() * 2 + SLACK);
    }

    /// Brings the earliest `count` stamps to the end, or all if few more are here, but none that is above `floor`. Raises the bound
    /// to that of the rest, and returns how many these are.
    pub(super) fn set_earliest_last(&mut self, count: usize, floor: Order) -> usize {
        let mut above = 0;
        for at in 0..self.stamps.len() {
            if self.stamps[at].order() > floor {
                self.stamps.swap(at, above);
                above += 1;
            }
        }
        let earlier = &mut self.stamps[above..];
        if earlier.len() <= count + count / 2 {
            if above > 0 {
                self.bound = floor.saturating_add(1);
            }
            return above;
        }
        let rest = earlier.len() - count;
        let (_, last, _) = earlier.select_nth_unstable_by_key(rest, |stamp| Reverse(stamp.order()));
        self.bound = last.order();
        above + rest
    }

    /// Moves the upper half into a new leaf, which will be known as `id`. The dead are dropped on the way.
    pub(super) fn split<E>(&mut self, slab: &mut Values<E>, id: LeafId) -> Self {
        let middle = self.stamps.len() / 2;
        let (_, stamp, _) = self.stamps.select_nth_unstable_by_key(middle, Stamp::order);
        let mut upper = Self::new(stamp.order(), LEAF - middle + STEP);
        for &stamp in &self.stamps[middle..] {
            if slab.relink(stamp.key, id) {
                upper.stamps.push(stamp);
            } else {
                self.dead -= 1;
            }
        }
        self.stamps.truncate(middle);
        self.stamps.shrink_to(middle + STEP);
        upper
    }
}

/// Drops the dead from `start` on; how many there were.
///
/// Every stamp is written, and the next over it if it is dead: which of them are nobody can guess, and a processor that guesses
/// waits for one slot after the other, instead of for all of them at once.
pub(super) fn keep_live<E>(stamps: &mut Vec<Stamp>, start: usize, slab: &Values<E>) -> usize {
    let mut end = start;
    for at in start..stamps.len() {
        let stamp = stamps[at];
        stamps[end] = stamp;
        end += usize::from(slab.is_live(stamp.key));
    }
    let dropped = stamps.len() - end;
    stamps.truncate(end);
    dropped
}

/// Whether so many dead are too many beside so many live.
#[inline]
pub(super) const fn is_overgrown(dead: usize, live: usize) -> bool {
    dead > live + SLACK
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// Makes room in a full leaf; the leaf in which `order` belongs now.
    #[cold]
    pub(super) fn make_room(&mut self, place: Place, id: LeafId, order: Order) -> LeafId {
        let leaf = self.leaves.tenant_mut(id);
        if leaf.dead as usize >= LEAF / 4 {
            self.work += LEAF as u64;
            leaf.purge(&self.slab);
            return id;
        }
        if let Some(highest) = leaf.highest_below(order) {
            self.work += LEAF as u64;
            return self.go_beyond(place, highest + 1);
        }
        // Parted at the median, and half of it moved.
        self.work += (LEAF + LEAF / 2) as u64;
        let new = self.leaves.insert(Leaf::new(0, 0), NONE).slot;
        let upper = self.leaves.tenant_mut(id).split(&mut self.slab, new);
        let bound = upper.bound;
        *self.leaves.tenant_mut(new) = upper;
        self.index.add_after(place, bound, new);
        if order < bound { id } else { new }
    }

    /// The leaf for what is not below `bound`, which is above all of the full leaf at `place`.
    fn go_beyond(&mut self, place: Place, bound: Order) -> LeafId {
        if let Some((next, id)) = self.index.next(place) {
            let leaf = self.leaves.tenant_mut(id);
            if leaf.len() <= LEAF / 2 {
                leaf.bound = bound;
                self.index.rebound(next, bound);
                return id;
            }
        }
        let id = self.leaves.insert(Leaf::new(bound, LEAF), NONE).slot;
        self.index.add_after(place, bound, id);
        id
    }

    /// Tidies a leaf of which too much is dead.
    #[cold]
    pub(super) fn thin(&mut self, id: LeafId) {
        let leaf = self.leaves.tenant_mut(id);
        if leaf.live() > 0 {
            self.work += leaf.len() as u64;
            leaf.purge(&self.slab);
            if leaf.len() <= LEAF / 4 {
                self.merge(id);
            }
            return;
        }
        let place = self.index.locate(leaf.bound, id);
        self.remove_leaf(place, id);
    }

    /// Moves a small leaf into a neighbour that is small too.
    fn merge(&mut self, id: LeafId) {
        let Leaf { bound, ref stamps, .. } = *self.leaves.tenant(id);
        let len = stamps.len();
        let place = self.index.locate(bound, id);
        let fits = |other: LeafId| self.leaves.tenant(other).len() + len <= LEAF / 2;
        let into = if let Some((next, other)) = self.index.next(place).filter(|&(_, other)| fits(other)) {
            self.index.rebound(next, bound);
            self.leaves.tenant_mut(other).bound = bound;
            other
        } else if let Some(other) = self.index.previous(place).filter(|&other| fits(other)) {
            other
        } else {
            return;
        };
        self.work += len as u64;
        let stamps = core::mem::take(&mut self.leaves.tenant_mut(id).stamps);
        for &stamp in &stamps {
            self.slab.relink(stamp.key, into);
            self.leaves.tenant_mut(into).push(stamp);
        }
        self.remove_leaf(place, id);
    }

    fn remove_leaf(&mut self, place: Place, id: LeafId) {
        self.index.remove(place);
        self.drop_leaf(id);
    }

    /// Drops a leaf that nothing leads to any more; what it had comes back.
    pub(super) fn drop_leaf(&mut self, id: LeafId) -> Option<Leaf> {
        let key = self.leaves.key(id);
        self.leaves.remove(key).map(|(leaf, _)| leaf)
    }
}
