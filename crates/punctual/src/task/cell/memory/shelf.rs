//! The chunk from which a thread makes its tasks.

use super::depot::{see_to, update};
use super::{Chunk, Depot, Owner, Word};
use crate::sync::Mutex;

/// A chunk that is in use by one thread, if it has one.
#[derive(Clone, Copy)]
pub(super) struct Shelf<C> {
    chunk: Option<C>,
    /// First of the blocks that came back and were taken over, or zero.
    first: u16,
    /// Where the blocks begin that have never been used, and where they end.
    fresh: u16,
    end: u16,
    /// From one to the next.
    step: u16,
}

impl<C: Chunk> Shelf<C> {
    pub(super) const EMPTY: Self = Self { chunk: None, first: 0, fresh: 0, end: 0, step: 0 };

    /// A block, if there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(C, u16)> {
        let chunk = self.chunk?;
        if self.first != 0 {
            let at = self.first;
            self.first = chunk.next(at);
            return Some((chunk, at));
        }
        if self.fresh < self.end {
            let at = self.fresh;
            self.fresh += self.step;
            return Some((chunk, at));
        }
        None
    }

    /// Gets more, when there is nothing left. A chunk that is made has its blocks from `.0` to `.1`, every `.2`.
    pub(super) fn refill(&mut self, depot: &Mutex<Depot<C>>, make: impl FnOnce() -> (C, (u16, u16, u16))) {
        if let Some(chunk) = self.chunk {
            let sizes = chunk.sizes();
            if chunk.word().count >= sizes.enough {
                let (was, _) = update(chunk, |_| Word::SHELF);
                self.first = was.first;
                return;
            }
        }
        self.let_go(depot);
        let found = depot.lock().take();
        *self = match found {
            Some((chunk, word)) => Self { chunk: Some(chunk), first: word.first, ..Self::EMPTY },
            None => {
                let (chunk, (fresh, end, step)) = make();
                Self { chunk: Some(chunk), first: 0, fresh, end, step }
            }
        };
    }

    /// Gives everything up.
    pub(super) fn clear(&mut self, depot: &Mutex<Depot<C>>) {
        while let Some((chunk, at)) = self.take() {
            let sizes = chunk.sizes();
            // Nobody becomes the owner by this: it is on a shelf.
            update(chunk, |was| {
                chunk.set_next(at, was.first);
                was.with(at, 1, sizes)
            });
        }
        self.let_go(depot);
    }

    /// Gives the chunk up, of which there is nothing left here.
    fn let_go(&mut self, depot: &Mutex<Depot<C>>) {
        let Some(chunk) = std::mem::replace(self, Self::EMPTY).chunk else { return };
        let sizes = chunk.sizes();
        let (_, word) = update(chunk, |word| word.let_go(sizes));
        if word.owner != Owner::Nobody {
            see_to(depot, chunk, word.owner);
        }
    }
}
