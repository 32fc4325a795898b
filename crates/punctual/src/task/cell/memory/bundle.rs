//! Blocks of one group that a thread has freed and gives back together.
//!
//! A worker frees tasks in the order in which they were made, or nearly so: one after the other from one chunk. To give each
//! back by itself is two read-modify-writes a task; those of one group are gathered here first, at the price of a comparison.

use super::Depot;
use super::depot::{Chunk, give_back};
use crate::sync::Mutex;

/// So many are given back together.
const MOST: u32 = if cfg!(punctual_loom) { 2 } else { 16 };

/// Those of one group.
#[derive(Clone, Copy)]
pub(super) struct Bundle<C> {
    home: Option<(C, usize)>,
    blocks: u64,
}

impl<C: Chunk> Bundle<C> {
    pub(super) const EMPTY: Self = Self { home: None, blocks: 0 };

    /// Adds a block that is not to be used any more. What is to be given back for that, if anything, comes back as a bundle.
    #[inline]
    #[must_use]
    pub(super) fn add(&mut self, chunk: C, (group, block): (usize, u64)) -> Self {
        if self.home == Some((chunk, group)) && self.blocks.count_ones() < MOST {
            self.blocks |= block;
            Self::EMPTY
        } else {
            std::mem::replace(self, Self { home: Some((chunk, group)), blocks: block })
        }
    }

    /// Gives back what is in it.
    #[inline]
    pub(super) fn give_back<'a>(self, depot: impl FnOnce() -> &'a Mutex<Depot<C>>)
    where
        C: 'a,
    {
        if let Some((chunk, group)) = self.home {
            give_back(depot, chunk, group, self.blocks);
        }
    }
}
