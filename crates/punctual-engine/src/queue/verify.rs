//! Every invariant of the queue, checked.

use super::TimerQueue;
use super::front::FRONT;
use super::leaf::{LEAF, is_overgrown};
use super::slab::NONE;
use super::stamp::Stamp;

impl<T> TimerQueue<T> {
    /// Checks the whole queue, for tests.
    ///
    /// # Panics
    /// If an invariant is broken: a bug of this crate.
    pub fn verify(&self) {
        self.slab.verify();
        self.leaves.verify();
        self.index.verify();
        self.verify_front();
        self.verify_leaves();
        let live = self.stamps().filter(|stamp| self.slab.is_live(stamp.key)).count();
        assert!(live == self.slab.len(), "{live} live stamps for {} entries", self.slab.len());
    }

    fn verify_front(&self) {
        if self.front_leaf == NONE {
            assert!(self.is_empty() && self.front.is_empty(), "entries, but no front");
            return;
        }
        let leaf = self.leaves.tenant(self.front_leaf);
        assert!(leaf.stamps.is_empty(), "the front's stamps are in two places");
        let dead = self.verify_links(&self.front, self.front_leaf);
        assert!(dead == leaf.dead, "the front has {dead} dead stamps, not {}", leaf.dead);
        assert!(self.front.len() <= FRONT, "a front of {}", self.front.len());
        assert!(self.front.is_sorted_by_key(|stamp| core::cmp::Reverse(stamp.order())), "an unsorted front");
        let head = self.front.last();
        assert!(head.is_none_or(|stamp| self.slab.is_live(stamp.key)), "the earliest stamp is dead");
        assert!(head.is_some() || self.index.first_bound().is_none(), "an empty front before leaves");
        if let (Some(latest), Some(bound)) = (self.front.first(), self.index.first_bound()) {
            assert!(latest.order() <= bound, "the front reaches into a leaf");
        }
    }

    fn verify_leaves(&self) {
        let mut count = usize::from(self.front_leaf != NONE);
        let mut leaves = self.index.iter().peekable();
        while let Some((bound, id)) = leaves.next() {
            count += 1;
            let leaf = self.leaves.tenant(id);
            assert!(id != self.front_leaf, "the front is in the index");
            assert!(leaf.bound == bound, "leaf {id} does not know its bound");
            let dead = self.verify_links(&leaf.stamps, id);
            assert!(dead == leaf.dead, "leaf invariant 2: {dead} dead stamps, not {}", leaf.dead);
            assert!(!is_overgrown(dead, leaf.live()), "leaf invariant 2: {dead} dead in a leaf");
            assert!(leaf.len() <= LEAF, "leaf invariant 1: a leaf of {}", leaf.len());
            assert!(leaf.live() > 0, "leaf invariant 1: a leaf without an entry");
            let next = leaves.peek().map(|&(bound, _)| bound);
            for stamp in &leaf.stamps {
                assert!(bound <= stamp.order(), "a stamp below its leaf");
                assert!(next.is_none_or(|next| stamp.order() <= next), "a stamp above its leaf");
            }
        }
        assert!(count == self.leaves.len(), "{count} leaves in use, {} in memory", self.leaves.len());
    }

    /// Checks that the live among `stamps` are linked to leaf `id`; how many are dead.
    fn verify_links(&self, stamps: &[Stamp], id: u32) -> usize {
        let live = stamps.iter().filter(|stamp| self.slab.is_live(stamp.key));
        let linked = live.inspect(|stamp| {
            assert!(self.slab.link(stamp.key.slot) == id, "leaf invariant 3: a link to another leaf");
        });
        stamps.len() - linked.count()
    }
}
