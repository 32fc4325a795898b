//! The one word in which a chunk says how much has come back, and whose it is.

/// How many blocks have come back, and who may use the chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word {
    /// So many have come back, less those that were taken over. Below zero while some that were taken over are yet to be counted.
    pub(super) count: i16,
    pub(super) owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A thread allocates from it.
    Shelf,
    /// Nearly all is out.
    Nobody,
    /// Whoever made enough of it come back is about to list it.
    Lister,
    /// Enough came back, for some shelf.
    Depot,
    /// Whoever made the last of it come back decides what becomes of it.
    Last,
}

/// How many blocks a chunk has, and how many make it worth taking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) all: i16,
    pub(super) enough: i16,
}

impl Word {
    /// Nothing has come back to what is on a shelf.
    pub(super) const SHELF: Self = Self { count: 0, owner: Owner::Shelf };

    /// With so many more blocks.
    #[inline]
    pub(super) fn with(self, more: i16, sizes: Sizes) -> Self {
        let count = self.count + more;
        let owner = match self.owner {
            Owner::Nobody if count >= sizes.enough => Owner::Lister,
            Owner::Depot if count == sizes.all => Owner::Last,
            owner => owner,
        };
        Self { count, owner }
    }

    /// Taken from the shelf.
    pub(super) fn let_go(self, sizes: Sizes) -> Self {
        let owner = match self.count {
            count if count == sizes.all => Owner::Last,
            count if count >= sizes.enough => Owner::Lister,
            _ => Owner::Nobody,
        };
        Self { owner, ..self }
    }

    /// Put into the depot.
    pub(super) fn listed(self, sizes: Sizes) -> Self {
        Self { owner: if self.count == sizes.all { Owner::Last } else { Owner::Depot }, ..self }
    }

    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.count as u16) | (self.owner as u64) << 16
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> Self {
        let owner = match bits >> 16 {
            0 => Owner::Shelf,
            1 => Owner::Nobody,
            2 => Owner::Lister,
            3 => Owner::Depot,
            _ => Owner::Last,
        };
        Self { count: bits as i16, owner }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Owner, Sizes, Word};

    const SIZES: Sizes = Sizes { all: 8, enough: 2 };

    #[test]
    fn every_word_survives_its_bits() {
        for owner in [Owner::Shelf, Owner::Nobody, Owner::Lister, Owner::Depot, Owner::Last] {
            for count in [0, 0x1234, -1, i16::MIN] {
                let word = Word { count, owner };
                assert_eq!(Word::from_bits(word.to_bits()), word);
            }
        }
    }

    #[test]
    fn one_block_makes_enough_and_one_makes_all() {
        let mut word = Word::SHELF.let_go(SIZES);
        let owners: Vec<Owner> = (1..=8)
            .map(|_| {
                word = word.with(1, SIZES);
                let owner = word.owner;
                if owner == Owner::Lister {
                    word = word.listed(SIZES);
                }
                owner
            })
            .collect();
        let expected = [&[Owner::Nobody, Owner::Lister][..], &[Owner::Depot; 5], &[Owner::Last]].concat();
        assert_eq!(owners, expected);
    }

    #[test]
    fn several_that_come_back_together_make_enough_or_all() {
        let out = Word::SHELF.let_go(SIZES);
        assert_eq!(out.with(1, SIZES).owner, Owner::Nobody);
        assert_eq!(out.with(5, SIZES).owner, Owner::Lister);
        let listed = out.with(5, SIZES).listed(SIZES);
        assert_eq!(listed.with(2, SIZES).owner, Owner::Depot);
        assert_eq!(listed.with(3, SIZES), Word { count: 8, owner: Owner::Last });
        assert_eq!(out.with(8, SIZES).listed(SIZES).owner, Owner::Last);
    }

    #[test]
    fn what_all_came_back_to_meanwhile_is_whole_at_once() {
        let full = Word { count: 8, owner: Owner::Shelf };
        assert_eq!(full.let_go(SIZES).owner, Owner::Last);
        assert_eq!(Word { owner: Owner::Lister, ..full }.listed(SIZES).owner, Owner::Last);
        assert_eq!(Word { count: 7, ..full }.let_go(SIZES).owner, Owner::Lister);
        assert_eq!(Word { count: 1, ..full }.let_go(SIZES).owner, Owner::Nobody);
        assert_eq!(Word { count: -1, ..full }.let_go(SIZES).owner, Owner::Nobody);
    }
}
