//! Entries that come in order, kept in order.
//!
//! Much of what is queued comes with ascending deadlines: work that is due at once, time-outs of one length, periodic
//! tasks of one period. To find such an entry a place and to sort it later is wasted. So an entry above all that are on
//! the *ramp* goes to its end, and the earliest of all is the first of the ramp or of the front.
//!
//! The ramp is a list of *pages*: leaves whose stamps ascend, each page above the one before it. What has been served of
//! the first page is still there, dead, until the page is used up.
//!
//! # Invariants
//! 1. Stamps ascend along the ramp, and none is above `last`.
//! 2. `first` is the order of the first live stamp, which is in the first page, at `served`; and `live` says how many live.
//! 3. Every page has a live stamp, unless the ramp is empty: then it has at most one page, without stamps.
//! 4. A page has at most `SLACK` more dead stamps than live, except the first, which is being used up.
//! 5. A page is marked as one, and its bound is not above its stamps nor below those before it.
//!
//! # Protocol
//! - *Insert* above `last` appends. What is below it goes elsewhere, and is a *miss*.
//! - *A few late entries* at the end, alarms for next year, would keep all others off. Where no more than a page lives on
//!   the ramp, and so many came in below as patience lasts, it is *cleared*: it takes nothing more, and every insert moves
//!   its last entry behind the front, until there is none. Patience doubles each time, so that arrivals in no order at all
//!   are hardly ever moved, and is short again when a page fills up.
//! - *Cancel* counts the dead of a page; one that has too many is purged, appended to the page before it or joined by the
//!   one after it if both are small, or dropped.
//!
//! # Cost
//! An insert is a comparison and a push, a pop a read and a counter. At worst a call looks through two pages, or moves one
//! entry to where it would have been inserted. Dropping a page in the middle shifts the list, 4 bytes for some 200 entries.
//!
//! # Paths not taken
//! *Several ramps, as in patience sorting:* each costs every pop a comparison, and the second helps only where two streams
//! of ascending deadlines mix.

use alloc::collections::VecDeque;

use super::TimerQueue;
use super::index::LeafId;
use super::leaf::{LEAF, Leaf};
use super::slab::NONE;
use super::stamp::{Order, Stamp, order};
use super::tenant::Tenant;
use super::{AHEAD, Fired, Leaves};
use crate::{TaskKey, Tick};

/// So few that they may be moved.
const FEW: usize = LEAF;
/// Misses before an entry is moved: at first, and at most.
const PATIENCE: (u32, u32) = if cfg!(test) { (4, 256) } else { (16, 4_096) };

#[derive(Debug)]
pub(super) struct Ramp {
    pub(super) pages: VecDeque<LeafId>,
    /// How many stamps of the first page are behind us.
    pub(super) served: usize,
    /// Of no meaning where nothing lives.
    pub(super) first: Order,
    /// Zero where nothing lives, and the end of all orders while the ramp is cleared.
    pub(super) last: Order,
    pub(super) live: usize,
    misses: u32,
    patience: u32,
}

impl Ramp {
    pub(super) const fn new() -> Self {
        let (patience, _) = PATIENCE;
        Self { pages: VecDeque::new(), served: 0, first: 0, last: 0, live: 0, misses: 0, patience }
    }

    /// Where in the list a page is.
    fn position(&self, leaves: &Leaves, id: LeafId) -> usize {
        let bound = leaves.tenant(id).bound;
        let mut at = self.pages.partition_point(|&page| leaves.tenant(page).bound < bound);
        // Equal orders, against the contract, make equal bounds.
        while self.pages[at] != id {
            at += 1;
        }
        at
    }
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// Queues what is above all that is on the ramp.
    #[inline]
    pub(super) fn insert_on_ramp(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let order = order(deadline, number);
        let id = match self.ramp.pages.back() {
            Some(&id) if self.leaves.tenant(id).len() < LEAF => id,
            _ => self.add_page(order),
        };
        let key = self.slab.insert(E::new(deadline, number, value), id);
        self.leaves.tenant_mut(id).push(Stamp { deadline, number, key });
        if self.ramp.live == 0 {
            self.ramp.first = order;
        }
        self.ramp.last = order;
        self.ramp.live += 1;
        key
    }

    /// A new page at the end, of which `order` will be the first.
    #[cold]
    fn add_page(&mut self, order: Order) -> LeafId {
        let page =
            Leaf { is_page: true, ..Leaf::new(order, if self.ramp.pages.is_empty() { 0 } else { LEAF }) };
        let id = self.leaves.insert(page, NONE).slot;
        if !self.ramp.pages.is_empty() {
            (self.ramp.patience, self.ramp.misses) = (PATIENCE.0, 0);
        }
        self.ramp.pages.push_back(id);
        id
    }

    /// Takes out the first of the ramp.
    #[inline]
    pub(super) fn pop_ramp(&mut self, show: impl FnOnce(&T)) -> Option<Fired<T>> {
        let leaf = self.leaves.tenant_mut(*self.ramp.pages.front()?);
        let Stamp { deadline, number, key } = *leaf.stamps.get(self.ramp.served)?;
        let (tenant, _) = self.slab.remove(key)?;
        leaf.dead += 1;
        self.ramp.live -= 1;
        self.ramp.served += 1;
        let next = leaf.stamps.get(self.ramp.served);
        match next.filter(|stamp| self.slab.is_live(stamp.key)) {
            Some(next) => {
                self.ramp.first = next.order();
                let ahead = leaf.stamps.get(self.ramp.served + AHEAD - 1).unwrap_or(next);
                if let Some(tenant) = self.slab.get(ahead.key) {
                    show(tenant.value());
                }
            }
            None => self.settle_ramp(),
        }
        Some(Fired { deadline, number, value: tenant.into_value() })
    }

    /// Finds the first live stamp again: restores 2 and 3.
    #[cold]
    fn settle_ramp(&mut self) {
        while let Some(&id) = self.ramp.pages.front() {
            let leaf = self.leaves.tenant_mut(id);
            let rest = leaf.stamps.get(self.ramp.served..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|stamp| self.slab.is_live(stamp.key)) {
                self.work += at as u64;
                self.ramp.first = rest[at].order();
                self.ramp.served += at;
                return;
            }
            self.work += rest.len() as u64;
            self.ramp.served = 0;
            if self.ramp.pages.len() == 1 {
                // What is queued one at a time needs no new page each time.
                (leaf.dead, leaf.bound) = (0, 0);
                leaf.stamps.clear();
                self.ramp.last = 0;
                return;
            }
            self.ramp.pages.pop_front();
            self.drop_leaf(id);
        }
    }

    /// The entry of `key`, which was on this page, is gone.
    #[inline]
    pub(super) fn leave_ramp(&mut self, id: LeafId, key: TaskKey) {
        self.ramp.live -= 1;
        let leaf = self.leaves.tenant(id);
        if self.ramp.pages.front() != Some(&id) {
            if leaf.is_unfit() {
                self.thin_page(id);
            }
        } else if leaf.stamps.get(self.ramp.served).is_some_and(|stamp| stamp.key == key) {
            self.settle_ramp();
        }
    }

    /// Tidies a page, not the first, of which too much is dead.
    #[cold]
    fn thin_page(&mut self, id: LeafId) {
        let at = self.ramp.position(&self.leaves, id);
        let leaf = self.leaves.tenant_mut(id);
        if leaf.live() == 0 {
            self.ramp.pages.remove(at);
            self.drop_leaf(id);
            return;
        }
        self.work += leaf.len() as u64;
        leaf.purge(&self.slab);
        if leaf.len() <= LEAF / 4 && !self.join(at) && at + 1 < self.ramp.pages.len() {
            let _ = self.join(at + 1);
        }
    }

    /// Appends the page at `at` to the one before it, if both are small; says whether.
    fn join(&mut self, at: usize) -> bool {
        let (before, id) = (self.ramp.pages[at - 1], self.ramp.pages[at]);
        if self.leaves.tenant(before).len() + self.leaves.tenant(id).len() > LEAF / 2 {
            return false;
        }
        let leaf = self.leaves.tenant_mut(id);
        let (stamps, dead) = (core::mem::take(&mut leaf.stamps), leaf.dead);
        self.work += stamps.len() as u64;
        for stamp in &stamps {
            self.slab.relink(stamp.key, before);
            self.leaves.tenant_mut(before).push(*stamp);
        }
        self.leaves.tenant_mut(before).dead += dead;
        self.ramp.pages.remove(at);
        self.drop_leaf(id);
        true
    }

    /// Something has come in that is below the end of the ramp.
    #[inline]
    pub(super) fn miss_ramp(&mut self) {
        self.ramp.misses = self.ramp.misses.saturating_add(1);
        if self.ramp.misses >= self.ramp.patience && self.ramp.live <= FEW {
            self.ramp.last = Order::MAX;
            self.shorten_ramp();
        }
    }

    /// Moves the last of the ramp behind the front.
    #[cold]
    fn shorten_ramp(&mut self) {
        let Some(&id) = self.ramp.pages.back() else { return };
        let leaf = self.leaves.tenant_mut(id);
        let Some(at) = leaf.stamps.iter().rposition(|stamp| self.slab.is_live(stamp.key)) else { return };
        self.work += (leaf.len() - at) as u64;
        let stamp = leaf.stamps[at];
        leaf.dead -= (leaf.len() - at - 1) as u32;
        leaf.stamps.truncate(at);
        self.ramp.live -= 1;
        if self.ramp.live == 0 {
            (self.ramp.misses, self.ramp.patience) = (0, (2 * self.ramp.patience).min(PATIENCE.1));
            self.settle_ramp();
        } else if self.ramp.pages.len() > 1 && self.leaves.tenant(id).is_unfit() {
            self.thin_page(id);
        }
        self.put(stamp);
    }

    /// Finds a place behind the front for an entry that has one elsewhere.
    fn put(&mut self, stamp: Stamp) {
        if stamp.order() > self.far.limit {
            return self.put_far(stamp);
        }
        let id = self.near_leaf(stamp.order());
        self.slab.relink(stamp.key, id);
        self.lay(id, stamp);
    }
}
