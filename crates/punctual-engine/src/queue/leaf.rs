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
//! # Cost
//! Insert is a search in the index and a push. A purge looks at two stamps at most for each cancelled entry
//! that paid for it. A split moves half a leaf and writes as many links, once in `LEAF / 2` inserts or more
//! rarely. Nothing here ever touches more than `LEAF` stamps.

use alloc::vec::Vec;

use super::index::LeafId;
use super::slab::Slab;
use super::stamp::{Order, Stamp};

/// Most stamps in a leaf.
pub(super) const LEAF: usize = 256;
/// Dead stamps that a leaf may always have, however few live ones there are.
const SLACK: usize = 16;
/// Leaves grow in such steps: a leaf that was split should not have memory for a full one.
const STEP: usize = LEAF / 4;

#[derive(Debug)]
pub(super) struct Leaf {
    /// Empty while the leaf is the front: then the front has them.
    pub(super) stamps: Vec<Stamp>,
    /// As in the index; of no meaning for the front.
    pub(super) bound: Order,
    /// How many of the stamps have lost their tenant.
    pub(super) dead: usize,
}

impl Leaf {
    /// An empty leaf with memory for this many stamps.
    pub(super) fn new(bound: Order, capacity: usize) -> Self {
        Self { stamps: Vec::with_capacity(capacity), bound, dead: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.stamps.len()
    }

    pub(super) fn live(&self) -> usize {
        self.stamps.len() - self.dead
    }

    /// Adds a stamp; there must be room for it.
    #[inline]
    pub(super) fn push(&mut self, stamp: Stamp) {
        if self.stamps.len() == self.stamps.capacity() {
            self.stamps.reserve_exact(STEP);
        }
        self.stamps.push(stamp);
    }

    /// Whether `order` is above all that is here.
    pub(super) fn is_below(&self, order: Order) -> bool {
        self.stamps.iter().map(Stamp::order).fold(0, Order::max) < order
    }

    /// Drops the dead, and memory that is not needed.
    pub(super) fn purge<T>(&mut self, slab: &Slab<T>) {
        self.stamps.retain(|stamp| slab.is_live(stamp.key));
        self.dead = 0;
        self.stamps.shrink_to(self.stamps.len() * 2 + SLACK);
    }

    /// Moves the upper half into a new leaf, which will be known as `id`. The dead are dropped on the way.
    pub(super) fn split<T>(&mut self, slab: &mut Slab<T>, id: LeafId) -> Self {
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

/// Whether so many dead are too many beside so many live.
#[inline]
pub(super) const fn is_overgrown(dead: usize, live: usize) -> bool {
    dead > live + SLACK
}
