//! The timer queue.

mod heap;
mod index;
mod leaf;
mod slab;
mod stamp;
mod verify;

use alloc::vec::Vec;
use core::fmt;

use crate::{TaskKey, Tick};
use index::{Index, LeafId, Place};
use leaf::{LEAF, Leaf, is_overgrown};
use slab::{NONE, Slab};
use stamp::{Order, Stamp, order};

pub use heap::ReferenceHeap;

/// Most stamps in the front.
const FRONT: usize = LEAF;
/// From this length on the front leaves what is above all of it to the leaves.
const SHORT: usize = 32;

/// A queue of values with deadlines that gives the earliest first.
pub struct TimerQueue<T> {
    /// The earliest stamps, latest first, so that the earliest is the last.
    front: Vec<Stamp>,
    /// The leaf to which the front's tenants are linked; `NONE` until there was one.
    front_leaf: LeafId,
    index: Index,
    leaves: Slab<Leaf>,
    slab: Slab<T>,
    /// Stamps looked at or moved so far.
    work: u64,
}

/// An entry that has left the queue because its turn had come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired<T> {
    /// When it was due.
    pub deadline: Tick,
    /// Its number among entries of the same deadline.
    pub number: u64,
    /// What was queued.
    pub value: T,
}

/// An entry that is in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a, T> {
    /// Its key.
    pub key: TaskKey,
    /// When it will be due.
    pub deadline: Tick,
    /// Its number among entries of the same deadline.
    pub number: u64,
    /// What is queued.
    pub value: &'a T,
}

/// How much memory a queue holds, for tests.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Stamps for which there is memory.
    pub stamps: usize,
    /// Values for which there is memory.
    pub slots: usize,
    /// Leaves for which there is memory.
    pub leaves: usize,
}

impl<T> TimerQueue<T> {
    /// An empty queue. It allocates nothing before the first insert.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            front: Vec::new(),
            front_leaf: NONE,
            index: Index::new(),
            leaves: Slab::new(),
            slab: Slab::new(),
            work: 0,
        }
    }

    /// How many entries there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues `value` and returns the key under which it can be cancelled.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let order = order(deadline, number);
        let leaf = match self.index.find(order) {
            Some((place, leaf)) if self.leaves.tenant(leaf).len() == LEAF => {
                self.make_room(place, leaf, order)
            }
            Some((_, leaf)) => leaf,
            None if self.front.len() < SHORT && self.front_leaf != NONE => self.front_leaf,
            None => self.make_front_room(order),
        };
        let key = self.slab.insert(value, leaf);
        let stamp = Stamp { deadline, number, key };
        if leaf == self.front_leaf {
            let at = self.front.partition_point(|stamp| stamp.order() > order);
            self.front.insert(at, stamp);
        } else {
            self.leaves.tenant_mut(leaf).push(stamp);
        }
        key
    }

    /// Takes an entry out.
    #[inline]
    pub fn cancel(&mut self, key: TaskKey) -> Option<T> {
        let (value, id) = self.slab.remove(key)?;
        let leaf = self.leaves.tenant_mut(id);
        leaf.dead += 1;
        if id == self.front_leaf {
            let dead = leaf.dead;
            if self.front.last().is_some_and(|stamp| stamp.key == key) {
                self.settle();
            } else if is_overgrown(dead, self.front.len() - dead) {
                self.purge_front();
            }
        } else if leaf.live() == 0 || is_overgrown(leaf.dead, leaf.live()) {
            self.thin(id);
        }
        Some(value)
    }

    /// Whether the entry is in the queue.
    #[must_use]
    pub fn contains(&self, key: TaskKey) -> bool {
        self.slab.get(key).is_some()
    }

    /// The value of an entry that is in the queue.
    #[must_use]
    pub fn get(&self, key: TaskKey) -> Option<&T> {
        self.slab.get(key)
    }

    /// When the earliest entry is due.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.front.last().map(|stamp| stamp.deadline)
    }

    /// The earliest entry.
    #[must_use]
    pub fn peek(&self) -> Option<(TaskKey, Tick, u64, &T)> {
        let stamp = self.front.last()?;
        Some((stamp.key, stamp.deadline, stamp.number, self.slab.get(stamp.key)?))
    }

    /// Takes out the earliest entry, if it is due at `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Tick) -> Option<Fired<T>> {
        if self.front.last()?.deadline <= now { self.pop() } else { None }
    }

    /// Takes out the earliest entry, due or not.
    #[inline]
    pub fn pop(&mut self) -> Option<Fired<T>> {
        let Stamp { deadline, number, key } = self.front.pop()?;
        let (value, _) = self.slab.remove(key)?;
        if !self.front.last().is_some_and(|stamp| self.slab.is_live(stamp.key)) {
            self.settle();
        }
        Some(Fired { deadline, number, value })
    }

    /// Takes out all entries, the earliest first, and gives all memory back.
    pub fn drain(&mut self) -> Vec<Fired<T>> {
        let mut all = Vec::with_capacity(self.len());
        all.extend(core::iter::from_fn(|| self.pop()));
        if self.front_leaf != NONE {
            let key = self.leaves.key(self.front_leaf);
            self.leaves.remove(key);
            self.front_leaf = NONE;
        }
        self.front = Vec::new();
        self.leaves.release();
        self.slab.release();
        all
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, T>> {
        self.stamps().filter_map(|&Stamp { deadline, number, key }| {
            Some(Entry { key, deadline, number, value: self.slab.get(key)? })
        })
    }

    /// How many entries are due at `now`.
    #[must_use]
    pub fn due_count(&self, now: Tick) -> usize {
        let last = order(now, u64::MAX);
        let front = self.front.partition_point(|stamp| stamp.order() > last);
        let mut due = self.front[front..].iter().filter(|stamp| self.slab.is_live(stamp.key)).count();
        let mut leaves = self.index.iter().map_while(|(bound, id)| (bound <= last).then_some(id)).peekable();
        while let Some(id) = leaves.next() {
            let leaf = self.leaves.tenant(id);
            due += if leaves.peek().is_some() {
                leaf.live()
            } else {
                let is_due = |stamp: &&Stamp| stamp.deadline <= now && self.slab.is_live(stamp.key);
                leaf.stamps.iter().filter(is_due).count()
            };
        }
        due
    }

    /// Stamps, slots and places looked at or moved since the queue was made.
    #[doc(hidden)]
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work + self.index.work() + self.slab.work() + self.leaves.work()
    }

    /// What the queue has memory for.
    #[doc(hidden)]
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let leaves = self.index.iter().map(|(_, id)| self.leaves.tenant(id).stamps.capacity());
        Footprint {
            stamps: self.front.capacity() + leaves.sum::<usize>(),
            slots: self.slab.capacity(),
            leaves: self.leaves.capacity(),
        }
    }

    /// All stamps, dead ones too.
    fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        let leaves = self.index.iter().flat_map(|(_, id)| &self.leaves.tenant(id).stamps);
        self.front.iter().chain(leaves)
    }

    /// Restores the live end of the front: the earliest stamp, if there is one, is live after this.
    #[cold]
    fn settle(&mut self) {
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

    /// Makes the first leaf the front, which is empty.
    fn refill(&mut self) {
        let Some(id) = self.index.take_first() else { return };
        let old = self.leaves.key(self.front_leaf);
        self.leaves.remove(old);
        self.front_leaf = id;
        let leaf = self.leaves.tenant_mut(id);
        self.work += 2 * leaf.len() as u64;
        self.front = core::mem::take(&mut leaf.stamps);
        if leaf.dead > 0 {
            leaf.dead = 0;
            self.front.retain(|stamp| self.slab.is_live(stamp.key));
        }
        self.front.sort_unstable_by_key(|stamp| core::cmp::Reverse(stamp.order()));
    }

    #[cold]
    fn purge_front(&mut self) {
        self.work += self.front.len() as u64;
        self.front.retain(|stamp| self.slab.is_live(stamp.key));
        self.leaves.tenant_mut(self.front_leaf).dead = 0;
    }

    /// The leaf for an order that is below all bounds; it has room.
    #[inline]
    fn make_front_room(&mut self, order: Order) -> LeafId {
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
    fn leave_to_leaves(&mut self, order: Order) -> LeafId {
        if let Some((place, id)) = self.index.first_bound().and_then(|bound| self.index.find(bound)) {
            if self.leaves.tenant(id).len() <= LEAF / 2 {
                self.index.lower(place, order);
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
        if self.leaves.tenant(self.front_leaf).dead >= FRONT / 4 {
            self.purge_front();
            return self.front_leaf;
        }
        let half = self.front.len() / 2;
        self.work += self.front.len() as u64;
        let bound = self.front[half - 1].order();
        let id = self.leaves.insert(Leaf::new(bound, LEAF), NONE).slot;
        let mut dead = 0;
        let mut stamps = Vec::with_capacity(LEAF);
        for stamp in self.front.drain(..half) {
            if self.slab.relink(stamp.key, id) {
                stamps.push(stamp);
            } else {
                dead += 1;
            }
        }
        self.leaves.tenant_mut(id).stamps = stamps;
        self.leaves.tenant_mut(self.front_leaf).dead -= dead;
        self.index.add_first(bound, id);
        if order < bound { self.front_leaf } else { id }
    }

    /// Makes room in a full leaf; the leaf in which `order` belongs now.
    #[cold]
    fn make_room(&mut self, place: Place, id: LeafId, order: Order) -> LeafId {
        self.work += LEAF as u64;
        let leaf = self.leaves.tenant_mut(id);
        if leaf.dead >= LEAF / 4 {
            leaf.purge(&self.slab);
            return id;
        }
        if leaf.is_below(order) {
            return self.go_beyond(place, order);
        }
        let new = self.leaves.insert(Leaf::new(0, 0), NONE).slot;
        let upper = self.leaves.tenant_mut(id).split(&mut self.slab, new);
        let bound = upper.bound;
        *self.leaves.tenant_mut(new) = upper;
        self.index.add_after(place, bound, new);
        if order < bound { id } else { new }
    }

    /// The leaf for an order that is above all of the full leaf at `place`.
    fn go_beyond(&mut self, place: Place, order: Order) -> LeafId {
        if let Some((next, id)) = self.index.next(place) {
            let leaf = self.leaves.tenant_mut(id);
            if leaf.len() <= LEAF / 2 {
                leaf.bound = order;
                self.index.lower(next, order);
                return id;
            }
        }
        let id = self.leaves.insert(Leaf::new(order, LEAF), NONE).slot;
        self.index.add_after(place, order, id);
        id
    }

    /// Tidies a leaf of which too much is dead.
    #[cold]
    fn thin(&mut self, id: LeafId) {
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
            self.index.lower(next, bound);
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
        let key = self.leaves.key(id);
        self.leaves.remove(key);
    }
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for TimerQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerQueue")
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
