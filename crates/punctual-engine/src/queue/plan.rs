//! Where leaves will be wanted: bounds for entries that are about to come near, made out from a sample of them.
//!
//! A leaf that has run full is split, which moves half of it and writes a link, somewhere in memory, for each stamp moved.
//! Where many entries come near at once, and it is known about how many and when they are due, their leaves can be there
//! before them, each for a little more than half of what it can hold.
//!
//! # Invariants
//! 1. Bounds ascend. None is below the first, which is the lowest order that can come, and none above the last point.
//! 2. Whatever comes, leaves split, merge and are dropped as always: a plan that is wrong costs time and nothing else.
//!
//! # Cost
//! A few divisions for each leaf, that is for about `FILL` entries. How long it is from one point of a random sample to
//! the next says little; how long it is to the sixteenth is right within a quarter: where a million deadlines are
//! spread evenly one leaf in a hundred is split, where they thin out exponentially one in twenty. Where entries crowd at one instant nothing is planned, and leaves are split as if there were no plan; where the next crowd
//! is far off, leaves are planned between the two, and nobody comes.
//!
//! # Paths not taken
//! - *Places in the index without a leaf,* filled when somebody comes: every walk along the index has to step over them, where
//!   a leaf without entries is a leaf.
//! - *Half a leaf for each, or points by eights:* a million pops could not be told apart in time. The first has a tenth more
//!   leaves and splits a quarter as many, the second splits twice as many where deadlines are spread evenly.

use super::coarse::Coarse;
use super::leaf::LEAF;
use super::stamp::{Order, deadline, order};
use crate::Tick;

/// About how many entries a planned leaf will have.
const FILL: usize = LEAF * 5 / 9;
/// Between so many points entries are taken to be due evenly.
const STRIDE: u64 = if cfg!(test) { 3 } else { 16 };
/// Places between points have so many bits behind the point.
const FRACTION: u32 = 32;

#[derive(Debug)]
pub(super) struct Plan {
    first: Order,
    /// The bound before the next.
    last: Option<Order>,
    /// How many points there are.
    points: u64,
    /// So many points, and parts of one, are before the next bound.
    at: u64,
    /// So many are between two bounds.
    step: u64,
}

impl Plan {
    pub(super) const fn new() -> Self {
        Self { first: 0, last: None, points: 0, at: 0, step: 1 }
    }

    /// A plan for what is not below `first`, by so many points, each of which stands for one in `sample` of `entries`.
    pub(super) fn of(first: Order, points: usize, sample: usize, entries: usize) -> Self {
        let step = ((FILL as u128 * sample as u128) << FRACTION).div_ceil(entries.max(1) as u128);
        // A step beyond all points is as good as a longer one.
        let step = step.min((points as u128) << FRACTION) as u64;
        Self { first, last: None, points: points as u64, at: 0, step }
    }

    /// Whether there are no more bounds.
    pub(super) const fn is_over(&self) -> bool {
        self.at >> FRACTION >= self.points
    }

    /// The next bound, by these points, which ascend; unless it is the same as the last. Only while the plan is not over.
    pub(super) fn next(&mut self, points: &[Coarse]) -> Option<Order> {
        let bound = if self.at == 0 { self.first } else { order(self.tick(points), 0) };
        self.at += self.step;
        if self.last.is_some_and(|last| bound <= last) {
            return None;
        }
        self.last = Some(bound);
        Some(bound)
    }

    /// When what is at this place between the points is due.
    fn tick(&self, points: &[Coarse]) -> Tick {
        let whole = self.at >> FRACTION;
        let start = whole - whole % STRIDE;
        let end = self.points.min(start + STRIDE);
        let point = |number: u64| match number.checked_sub(1) {
            Some(before) => points[before as usize].last(),
            None => deadline(self.first),
        };
        let (from, to) = (point(start).as_nanos(), point(end).as_nanos());
        let gone = u128::from(self.at - (start << FRACTION));
        let length = u128::from((end - start) << FRACTION);
        Tick::from_nanos(from + (u128::from(to - from) * gone / length) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::{Coarse, FILL, Plan};
    use crate::Tick;
    use crate::queue::stamp::{Order, deadline, order};

    /// All bounds for what is above `floor`, by points that are due then.
    fn bounds(floor: Order, points: &[u64], entries: usize) -> Vec<Order> {
        let points: Vec<_> = points.iter().map(|&nanos| Coarse::of(Tick::from_nanos(nanos))).collect();
        let mut plan = Plan::of(floor + 1, points.len(), points.len(), entries);
        let mut bounds = Vec::new();
        while !plan.is_over() {
            bounds.extend(plan.next(&points));
        }
        bounds
    }

    proptest! {
        /// Invariant 1; and no more than are asked for.
        #[test]
        fn bounds_ascend_from_the_floor(
            mut points in proptest::collection::vec(any::<u64>(), 1..40),
            bits in 0..64_u32,
            number: u64,
            entries in 0..10_000_usize,
        ) {
            points.iter_mut().for_each(|nanos| *nanos >>= bits);
            points.sort_unstable();
            let floor = order(Tick::from_nanos(points[0]), number).saturating_sub(1 << 64);
            let last = Coarse::of(Tick::from_nanos(points[points.len() - 1])).last();
            let bounds = bounds(floor, &points, entries);
            prop_assert_eq!(bounds.first(), Some(&(floor + 1)));
            prop_assert!(bounds.is_sorted_by(|a, b| a < b));
            prop_assert!(bounds.iter().all(|&bound| deadline(bound) <= last));
            prop_assert!(bounds.len() <= entries / FILL + 2);
        }
    }

    #[test]
    fn what_is_due_evenly_is_planned_evenly() {
        let points: Vec<u64> = (1..=30).map(|point| point * 1_000).collect();
        let bounds = bounds(0, &points, 100 * FILL);
        assert_eq!(bounds.len(), 100);
        for (at, &bound) in bounds.iter().enumerate() {
            assert!(deadline(bound).as_nanos().abs_diff(at as u64 * 300) <= 1, "{at}: {bound:x}");
        }
    }

    #[test]
    fn nothing_is_planned_within_an_instant() {
        assert_eq!(
            bounds(order(Tick::from_nanos(5), 7), &[5; 30], 100 * FILL),
            [order(Tick::from_nanos(5), 8)]
        );
    }

    #[test]
    fn the_end_of_time_is_no_end_of_the_plan() {
        let bounds = bounds(order(Tick::MAX, 0) - 1, &[u64::MAX; 20], 1_000_000);
        assert_eq!(bounds, [order(Tick::MAX, 0)]);
    }
}
