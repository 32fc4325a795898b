//! Which leaf an order belongs to.
//!
//! The leaves in order, in groups of at most `GROUP`. A leaf holds what is at or above its own bound and
//! below that of the next; what is below all bounds is not the index's affair.
//!
//! # Invariants
//! 1. Bounds ascend within a group and from group to group.
//! 2. `bounds[g]` is the first bound of group `g`. No group is empty, none has more than `GROUP` leaves.
//!
//! # Cost
//! Finding looks at two arrays of nothing but bounds: with a million near entries about 50 groups of 90 leaves, 1.5 KiB
//! each. Adding or removing a leaf moves at most `GROUP` places, and once in `GROUP / 4` times or more rarely the
//! list of groups, 40 KiB with ten million near entries.
//!
//! # Paths not taken
//! - *A binary search:* see `last_not_above`. In throughput the two could not be told apart; counting has no branch
//!   to guess and is kept for that.
//! - *One sorted array of leaves:* at ten million entries every new leaf would move 50,000 places.
//! - *A balanced tree of leaves:* no move at all, but a cache miss for each level, and more of them.

use alloc::vec::Vec;

use super::stamp::Order;

/// Most leaves in a group.
pub(super) const GROUP: usize = if cfg!(test) { 4 } else { 128 };

/// The number under which the slab of leaves knows a leaf.
pub(super) type LeafId = u32;

#[derive(Debug)]
pub(super) struct Index {
    bounds: Vec<Order>,
    groups: Vec<Group>,
    /// Places moved so far.
    work: u64,
}

#[derive(Debug)]
struct Group {
    bounds: Vec<Order>,
    leaves: Vec<LeafId>,
}

/// Where in the index a leaf is. Good until the index changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    group: usize,
    at: usize,
}

impl Index {
    pub(super) const fn new() -> Self {
        Self { bounds: Vec::new(), groups: Vec::new(), work: 0 }
    }

    pub(super) const fn work(&self) -> u64 {
        self.work
    }

    /// The lowest bound; `None` if there is no leaf.
    #[inline]
    pub(super) fn first_bound(&self) -> Option<Order> {
        self.bounds.first().copied()
    }

    /// The leaf to which `order` belongs; `None` if it is below all of them.
    #[inline]
    pub(super) fn find(&self, order: Order) -> Option<(Place, LeafId)> {
        if order < self.first_bound()? {
            return None;
        }
        let group = last_not_above(&self.bounds, order);
        let here = &self.groups[group];
        let at = last_not_above(&here.bounds, order);
        Some((Place { group, at }, here.leaves[at]))
    }

    /// Where this leaf, which has this bound, is.
    ///
    /// # Panics
    /// If it is not in the index.
    pub(super) fn locate(&self, bound: Order, leaf: LeafId) -> Place {
        let (mut place, mut found) = self.find(bound).expect("a leaf in the index");
        // Bounds can only be equal if orders are, against the contract; even then nothing is to break.
        while found != leaf {
            place = self.before(place).expect("a leaf in the index");
            found = self.groups[place.group].leaves[place.at];
        }
        place
    }

    /// The place before this one, in whatever group.
    fn before(&self, Place { group, at }: Place) -> Option<Place> {
        if let Some(at) = at.checked_sub(1) {
            return Some(Place { group, at });
        }
        let group = group.checked_sub(1)?;
        Some(Place { group, at: self.groups[group].leaves.len() - 1 })
    }

    /// The first place; only if there is a leaf.
    pub(super) const fn first(&self) -> Place {
        Place { group: 0, at: 0 }
    }

    /// The first leaf.
    pub(super) fn first_leaf(&self) -> Option<LeafId> {
        self.groups.first().map(|group| group.leaves[0])
    }

    /// The last leaf.
    pub(super) fn last(&self) -> Option<(Place, LeafId)> {
        let group = self.groups.len().checked_sub(1)?;
        let leaves = &self.groups[group].leaves;
        Some((Place { group, at: leaves.len() - 1 }, *leaves.last()?))
    }

    /// The leaf after this one, if it is in the same group.
    pub(super) fn next(&self, Place { group, at }: Place) -> Option<(Place, LeafId)> {
        let leaf = *self.groups.get(group)?.leaves.get(at + 1)?;
        Some((Place { group, at: at + 1 }, leaf))
    }

    /// The leaf before this one, if it is in the same group.
    pub(super) fn previous(&self, Place { group, at }: Place) -> Option<LeafId> {
        at.checked_sub(1).map(|at| self.groups[group].leaves[at])
    }

    /// Gives a leaf another bound, which must be between those of its neighbours.
    pub(super) fn rebound(&mut self, Place { group, at }: Place, bound: Order) {
        self.groups[group].bounds[at] = bound;
        if at == 0 {
            self.bounds[group] = bound;
        }
    }

    /// Adds a leaf before all others.
    pub(super) fn add_first(&mut self, bound: Order, leaf: LeafId) {
        if self.groups.is_empty() {
            self.add_group(0, Group::of(bound, leaf));
            return;
        }
        let group = self.with_room(Place { group: 0, at: 0 }).group;
        self.add(Place { group, at: 0 }, bound, leaf);
    }

    /// Adds a leaf after the one that is at `place`.
    pub(super) fn add_after(&mut self, place: Place, bound: Order, leaf: LeafId) {
        let Place { group, at } = place;
        let is_last = group + 1 == self.groups.len() && at + 1 == self.groups[group].leaves.len();
        if is_last && at + 1 == GROUP {
            // Ascending arrivals: splitting would leave a trail of half-full groups.
            self.add_group(group + 1, Group::of(bound, leaf));
            return;
        }
        let Place { group, at } = self.with_room(place);
        self.add(Place { group, at: at + 1 }, bound, leaf);
    }

    /// Takes out the leaf that is at `place`.
    pub(super) fn remove(&mut self, Place { group, at }: Place) {
        let here = &mut self.groups[group];
        here.bounds.remove(at);
        here.leaves.remove(at);
        self.work += (here.leaves.len() - at) as u64;
        self.tidy(group);
    }

    /// Restores 2 where a group has lost some of its leaves.
    fn tidy(&mut self, group: usize) {
        match self.groups[group].bounds.first() {
            None => drop(self.remove_group(group)),
            Some(&bound) => {
                self.bounds[group] = bound;
                self.join(group);
            }
        }
    }

    /// All leaves with their bounds, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Order, LeafId)> {
        self.groups.iter().flat_map(|group| group.bounds.iter().copied().zip(group.leaves.iter().copied()))
    }

    fn add(&mut self, Place { group, at }: Place, bound: Order, leaf: LeafId) {
        let here = &mut self.groups[group];
        self.work += (here.leaves.len() - at) as u64;
        here.bounds.insert(at, bound);
        here.leaves.insert(at, leaf);
        if at == 0 {
            self.bounds[group] = bound;
        }
    }

    /// Splits the group of `place` if it is full; the same leaf's place after that.
    fn with_room(&mut self, Place { group, at }: Place) -> Place {
        let here = &mut self.groups[group];
        let half = here.leaves.len() / 2;
        if here.leaves.len() < GROUP {
            return Place { group, at };
        }
        let upper = Group { bounds: here.bounds.split_off(half), leaves: here.leaves.split_off(half) };
        self.work += half as u64;
        self.add_group(group + 1, upper);
        if at < half { Place { group, at } } else { Place { group: group + 1, at: at - half } }
    }

    /// Joins a group that has become small to a neighbour that is small too.
    fn join(&mut self, group: usize) {
        let len = self.groups[group].leaves.len();
        if len > GROUP / 4 {
            return;
        }
        let fits =
            |other: usize| self.groups.get(other).is_some_and(|other| len + other.leaves.len() <= GROUP / 2);
        let left = if fits(group + 1) {
            group
        } else if group > 0 && fits(group - 1) {
            group - 1
        } else {
            return;
        };
        let mut right = self.remove_group(left + 1);
        let left = &mut self.groups[left];
        self.work += right.leaves.len() as u64;
        left.bounds.append(&mut right.bounds);
        left.leaves.append(&mut right.leaves);
    }

    fn add_group(&mut self, at: usize, group: Group) {
        self.work += (self.groups.len() - at) as u64;
        self.bounds.insert(at, group.bounds[0]);
        self.groups.insert(at, group);
    }

    fn remove_group(&mut self, at: usize) -> Group {
        self.bounds.remove(at);
        let group = self.groups.remove(at);
        self.work += (self.groups.len() - at) as u64;
        if self.groups.is_empty() {
            self.bounds = Vec::new();
            self.groups = Vec::new();
        }
        group
    }

    /// Checks every invariant.
    pub(super) fn verify(&self) {
        assert!(self.bounds.len() == self.groups.len(), "index invariant 2: a bound for each group");
        for (&bound, group) in self.bounds.iter().zip(&self.groups) {
            assert!(group.bounds.len() == group.leaves.len(), "index invariant 2: a bound for each leaf");
            assert!(group.bounds.first() == Some(&bound), "index invariant 2: the bound of a group");
            assert!(group.leaves.len() <= GROUP, "index invariant 2: a group of {}", group.leaves.len());
        }
        assert!(self.iter().is_sorted_by_key(|(bound, _)| bound), "index invariant 1: bounds do not ascend");
    }
}

impl Group {
    fn of(bound: Order, leaf: LeafId) -> Self {
        Self { bounds: alloc::vec![bound], leaves: alloc::vec![leaf] }
    }
}

/// Where the last bound is that is not above `order`; the first is not.
///
/// Counted rather than searched: first every sixteenth bound, then sixteen in a row. A binary search has fewer
/// steps, but each waits for the one before it, and of its branches a processor guesses every second wrong. Only
/// deadlines are counted, which is half the work; where one is equal the numbers decide, by a search.
#[inline]
fn last_not_above(bounds: &[Order], order: Order) -> usize {
    const STRIDE: usize = 16;
    let not_above = |bound: &Order| usize::from(deadline(*bound) <= deadline(order));
    let block = bounds.iter().step_by(STRIDE).map(not_above).sum::<usize>() - 1;
    let rest = &bounds[block * STRIDE..];
    let row = &rest[..rest.len().min(STRIDE)];
    let last = block * STRIDE + row.iter().map(not_above).sum::<usize>() - 1;
    if bounds[last] <= order { last } else { among_equals(&bounds[..last], order) }
}

#[cold]
fn among_equals(bounds: &[Order], order: Order) -> usize {
    bounds.partition_point(|bound| *bound <= order) - 1
}

/// The upper half of an order.
#[inline]
const fn deadline(order: Order) -> u64 {
    (order >> 64) as u64
}
