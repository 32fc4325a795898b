//! Deadlines in 31 bits, for what is far: they say about when, and fit where a link is.
//!
//! As in a number with a floating point, the upper bits are kept, and how many were dropped. So later is never less, equal
//! is equal, and the error grows with the deadline: a nanosecond below 67 ms, 30 ns at one second, 2 µs at a day, a millisecond
//! at a year.

use crate::Tick;

/// So many bits below the first are kept.
const KEPT: u32 = 25;

/// About when: one for all deadlines of a short while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Coarse(u32);

impl Coarse {
    /// Later than every deadline.
    pub(super) const NEVER: Self = Self(u32::MAX);
    /// The end of time.
    pub(super) const LAST: Self = Self::of(Tick::MAX);
    /// So many bits it takes, unless it is never.
    pub(super) const BITS: u32 = 31;

    #[inline]
    pub(super) const fn of(deadline: Tick) -> Self {
        let nanos = deadline.as_nanos();
        let dropped = (u64::BITS - KEPT - 1).saturating_sub(nanos.leading_zeros());
        Self((dropped << KEPT) + (nanos >> dropped) as u32)
    }

    #[inline]
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// The first deadline of which this is said.
    pub(super) const fn first(self) -> Tick {
        let dropped = (self.0 >> KEPT).saturating_sub(1);
        Tick::from_nanos(((self.0 - (dropped << KEPT)) as u64) << dropped)
    }

    /// The last deadline of which this is said.
    pub(super) const fn last(self) -> Tick {
        let dropped = (self.0 >> KEPT).saturating_sub(1);
        let kept = (self.0 - (dropped << KEPT)) as u64;
        Tick::from_nanos(kept << dropped | ((1 << dropped) - 1))
    }

    /// As a link, which no leaf has.
    #[inline]
    pub(super) const fn link(self) -> u32 {
        1 << 31 | self.0
    }

    /// Out of a link. What links a leaf, or nothing, is never.
    #[inline]
    pub(super) const fn from_link(link: u32) -> Self {
        let this = Self(link.wrapping_sub(1 << 31));
        if this.0 <= Self::LAST.0 { this } else { Self::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coarse;
    use crate::Tick;
    use crate::queue::slab::NONE;

    fn of(nanos: u64) -> Coarse {
        Coarse::of(Tick::from_nanos(nanos))
    }

    proptest! {
        /// In the order of deadlines, and not far off.
        #[test]
        fn later_is_not_less(a: u64, b: u64, bits in 0..64_u32) {
            let (a, b) = (a >> bits, b >> bits);
            prop_assert_eq!(of(a).cmp(&of(b)), of(a).last().cmp(&of(b).last()));
            prop_assert!(a > b || of(a) <= of(b));
            let last = of(a).last().as_nanos();
            prop_assert!(a <= last && last - a <= a >> 25);
            prop_assert!(last == u64::MAX || of(last + 1) > of(a));
            let first = of(a).first().as_nanos();
            prop_assert!(first <= a && of(first) == of(a) && (first == 0 || of(first - 1) < of(a)));
            prop_assert_eq!(Coarse::from_link(of(a).link()), of(a));
        }

        #[test]
        fn a_leaf_is_never(id in 0..1_u32 << 31) {
            prop_assert_eq!(Coarse::from_link(id), Coarse::NEVER);
        }
    }

    #[test]
    fn every_power_of_two_is_where_it_belongs() {
        for bit in 0..64 {
            let power = 1_u64 << bit;
            assert!(of(power - 1) <= of(power) && of(power) <= of(power + 1));
            assert!(of(power).last().as_nanos() >= power);
        }
        assert_eq!(Coarse::LAST.last(), Tick::MAX);
        assert!(Coarse::LAST.bits() >> Coarse::BITS == 0);
        assert!(Coarse::LAST < Coarse::NEVER && Coarse::LAST.link() < NONE);
        assert_eq!(Coarse::from_link(NONE), Coarse::NEVER);
    }
}
