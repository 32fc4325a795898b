//! Every invariant of the queue, checked.

use super::coarse::Coarse;
use super::front::FRONT;
use super::index::LeafId;
use super::leaf::{LEAF, is_overgrown};
use super::sift::Stage;
use super::slab::NONE;
use super::stamp::{Order, Stamp, order};
use super::tenant::Tenant;
use super::{TimerQueue, Values};
use crate::Tick;

impl<T, E: Tenant<T>> TimerQueue<T, E> {
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
        self.verify_far();
        self.line.verify(|key| self.slab.is_live(key));
        self.verify_ramp();
        let live = self.stamps().filter(|stamp| self.slab.is_live(stamp.key)).count();
        let far = self.far.live + self.line.live;
        assert!(live + far == self.len(), "{live} live stamps and {far} far for {} entries", self.len());
        self.verify_second();
    }

    fn verify_second(&self) {
        let (mut first, mut second) = (Tick::MAX, Tick::MAX);
        for entry in self.iter() {
            second = second.min(first.max(entry.deadline));
            first = first.min(entry.deadline);
        }
        if let Some(known) = self.second_deadline() {
            assert!(known <= second, "the second entry is due at {second:?}, before {known:?}");
            assert!(known >= first, "the second entry is before the first");
        }
    }

    fn verify_front(&self) {
        if self.front_leaf == NONE {
            assert!(self.len() == self.ramp.live && self.front.is_empty(), "entries, but no front");
            return;
        }
        let leaf = self.leaves.tenant(self.front_leaf);
        assert!(leaf.stamps.is_empty(), "the front's stamps are in two places");
        let dead = self.verify_links(&self.front, self.front_leaf);
        assert!(dead == leaf.dead as usize, "the front has {dead} dead stamps, not {}", leaf.dead);
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
        let mut leaves = self.index.iter().peekable();
        while let Some((bound, id)) = leaves.next() {
            let leaf = self.leaves.tenant(id);
            assert!(id != self.front_leaf, "the front is in the index");
            assert!(!leaf.is_page, "a page is in the index");
            assert!(leaf.bound == bound, "leaf {id} does not know its bound");
            assert!(leaf.live() > 0, "leaf invariant 1: a leaf without an entry");
            // Equal orders, against the contract, may be on both sides of a bound.
            assert!(bound <= self.far.limit.saturating_add(1), "far invariant 1: a leaf above the limit");
            let next = leaves.peek().map_or(self.far.limit.saturating_add(1), |&(bound, _)| bound);
            self.verify_leaf(id, bound, next);
        }
        let behind = self.index.iter().count();
        let count = behind + self.ramp.pages.len() + usize::from(self.front_leaf != NONE);
        assert!(count == self.leaves.len(), "{count} leaves in use, {} in memory", self.leaves.len());
    }

    fn verify_far(&self) {
        let (far, line) = (&self.far, &self.line);
        let is_sifting = far.sift.stage == Stage::Sifting;
        assert!(is_sifting || far.sift.at >= far.sift.end, "sifting, but not at that stage");
        let end = self.floor().saturating_add(1);
        assert!(self.front.first().is_none_or(|stamp| stamp.order() <= end), "far invariant 1: the front");
        assert!(far.floor <= far.limit, "far invariant 1: a floor above the limit");
        assert!(line.end() <= far.floor, "line invariant 2: it ends above the floor of what is far");
        let (mut live, mut found, mut in_line) = (0, 0, 0);
        for (key, tenant) in self.slab.iter() {
            let due = Coarse::from_link(self.slab.link(key.slot));
            if due == Coarse::NEVER {
                continue;
            }
            assert!(
                due == Coarse::of(tenant.deadline()),
                "far invariant 2: it says that it is due at another time"
            );
            let order = order(tenant.deadline(), tenant.number());
            assert!(order > self.floor(), "far invariant 1, line invariant 3: it is not above the floor");
            if line.has(due) {
                in_line += 1;
                continue;
            }
            live += 1;
            let is_found = far.sift.has_found(key.slot, due);
            found += usize::from(is_found);
            let todo = (far.sift.at..far.sift.end).contains(&u64::from(key.slot));
            let above = if todo || is_found { far.sift.floor } else { far.floor };
            assert!(order > above, "far invariant 1, sift invariant 2: a far entry that is not above");
            let chunk = Values::<E>::chunk_of(key.slot);
            let is_known = far.earliest[chunk] <= due || far.sift.is_in(Values::<E>::chunk_of, chunk);
            assert!(is_known || is_found, "far invariant 3: a far entry before the earliest of its chunk");
        }
        assert!(in_line == line.live, "line invariant 2: {in_line} stand in line, not {}", line.live);
        assert!(live == far.live, "far invariant 2: {live} are far, not {}", far.live);
        assert!(found == far.sift.found, "sift invariant 3: {found} were found, not {}", far.sift.found);
        let is_closed = far.floor == Order::MAX || far.sift.is_apart();
        assert!(live > 0 || is_closed, "far invariant 4: nothing far, but a limit");
    }

    fn verify_ramp(&self) {
        let ramp = &self.ramp;
        let mut live = 0;
        let mut end: Order = 0;
        for (at, &id) in ramp.pages.iter().enumerate() {
            let leaf = self.leaves.tenant(id);
            assert!(leaf.is_page, "ramp invariant 5: a page that does not know it");
            assert!(leaf.live() > 0 || ramp.live == 0, "ramp invariant 3: a page without an entry");
            let dead = self.verify_links(&leaf.stamps, id);
            assert!(dead == leaf.dead as usize, "a page with {dead} dead stamps, not {}", leaf.dead);
            assert!(at == 0 || !is_overgrown(dead, leaf.live()), "ramp invariant 4: {dead} dead");
            assert!(leaf.len() <= LEAF, "a page of {}", leaf.len());
            assert!(end <= leaf.bound || ramp.live == 0, "ramp invariant 5: a bound below what is before");
            for stamp in &leaf.stamps {
                assert!(end.max(leaf.bound) <= stamp.order(), "ramp invariant 1: a stamp that descends");
                end = stamp.order();
            }
            live += leaf.live();
        }
        assert!(live == ramp.live, "ramp invariant 2: {live} live, not {}", ramp.live);
        if live == 0 {
            assert!(
                ramp.last == 0 && ramp.served == 0 && ramp.pages.len() <= 1,
                "ramp invariant 3: not empty"
            );
            assert!(end == 0, "ramp invariant 3: an empty ramp with stamps");
            return;
        }
        assert!(end <= ramp.last, "ramp invariant 1: a stamp above the last");
        let first = self.leaves.tenant(ramp.pages[0]);
        let (served, rest) = first.stamps.split_at(ramp.served);
        assert!(
            !served.iter().any(|stamp| self.slab.is_live(stamp.key)),
            "ramp invariant 2: skipped an entry"
        );
        assert!(self.slab.is_live(rest[0].key), "ramp invariant 2: the first is dead");
        assert!(ramp.first == rest[0].order(), "ramp invariant 2: another first");
    }

    /// Checks one leaf, whose stamps are to be from `bound` to `end`.
    fn verify_leaf(&self, id: LeafId, bound: Order, end: Order) {
        let leaf = self.leaves.tenant(id);
        let dead = self.verify_links(&leaf.stamps, id);
        assert!(dead == leaf.dead as usize, "leaf invariant 2: {dead} dead stamps, not {}", leaf.dead);
        assert!(!is_overgrown(dead, leaf.live()), "leaf invariant 2: {dead} dead");
        assert!(leaf.len() <= LEAF, "leaf invariant 1: a leaf of {}", leaf.len());
        for stamp in &leaf.stamps {
            assert!(bound <= stamp.order(), "a stamp below its leaf");
            assert!(stamp.order() <= end, "a stamp above its leaf");
        }
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
