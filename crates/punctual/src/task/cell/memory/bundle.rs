//! Blocks of one chunk that a thread has freed and gives back together.
//!
//! A worker frees tasks in the order in which they were made, or nearly so: one after the other from one chunk. To give each
//! back by itself is a compare-and-swap a task; a few of them are linked up here first, at the price of a comparison.

use super::Depot;
use super::depot::{Chunk, give_back};
use crate::sync::Mutex;

/// So many are given back together.
const MOST: u16 = if cfg!(punctual_loom) { 2 } else { 16 };

/// The list of them, in the blocks themselves, as it will be in the chunk.
#[derive(Clone, Copy)]
pub(super) struct Bundle<C> {
    chunk: Option<C>,
    first: u16,
    last: u16,
    count: u16,
}

impl<C: Chunk> Bundle<C> {
    pub(super) const EMPTY: Self = Self { chunk: None, first: 0, last: 0, count: 0 };

    /// Adds a block that is not to be used any more. What is to be given back for that, if anything, comes back as a bundle.
    #[inline]
    #[must_use]
    pub(super) fn add(&mut self, chunk: C, at: u16) -> Self {
        let mut full = Self::EMPTY;
        if self.chunk == Some(chunk) && self.count < MOST {
            chunk.set_next(at, self.first);
            (self.first, self.count) = (at, self.count + 1);
        } else {
            let new = Self { chunk: Some(chunk), first: at, last: at, count: 1 };
            full = std::mem::replace(self, new);
        }
        full
    }

    /// Gives back what is in it.
    #[inline]
    pub(super) fn give_back<'a>(self, depot: impl FnOnce() -> &'a Mutex<Depot<C>>)
    where
        C: 'a,
    {
        if let Some(chunk) = self.chunk {
            give_back(depot, chunk, (self.first, self.last), self.count);
        }
    }
}
