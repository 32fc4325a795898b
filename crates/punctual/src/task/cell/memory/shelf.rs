//! The chunk from which a thread makes its tasks.

use super::depot::{see_to, update};
use super::{Chunk, Depot, GROUPS, Owner, Spot, Word};
use crate::sync::Mutex;

/// Which block is shown ahead: it is made when so many others have been, some hundred nanoseconds later, which is what it takes to
/// bring it from where it was freed.
const AHEAD: usize = 3;

/// A chunk that is in use by one thread, if it has one.
#[derive(Clone, Copy)]
pub(super) struct Shelf<C> {
    chunk: Option<C>,
    /// Blocks of one group that are at hand.
    blocks: u64,
    group: usize,
    /// Those of the groups after it.
    rest: [u64; GROUPS],
}

impl<C: Chunk> Shelf<C> {
    pub(super) const EMPTY: Self = Self { chunk: None, blocks: 0, group: 0, rest: [0; GROUPS] };

    /// A block, if there is one at hand; `show` is shown one that comes soon.
    #[inline]
    pub(super) fn take(&mut self, show: impl FnOnce(C, Spot)) -> Option<(C, Spot)> {
        let chunk = self.chunk?;
        if self.blocks == 0 {
            return None;
        }
        let spot = Spot::first(self.group, self.blocks);
        self.blocks &= self.blocks - 1;
        let ahead = (1..AHEAD).fold(self.blocks, |blocks, _| blocks & blocks.wrapping_sub(1));
        if ahead != 0 {
            show(chunk, Spot::first(self.group, ahead));
        }
        Some((chunk, spot))
    }

    /// Gets more, when there is nothing at hand. A chunk that is made has these blocks. `show` is shown the first of each group that
    /// is taken over.
    pub(super) fn refill(
        &mut self,
        depot: &Mutex<Depot<C>>,
        show: impl Fn(C, Spot),
        make: impl FnOnce() -> (C, [u64; GROUPS]),
    ) {
        if self.turn_over() {
            return;
        }
        match self.chunk {
            Some(chunk) if chunk.word().count >= chunk.sizes().enough => self.stock(chunk, show),
            _ => {
                self.let_go(depot);
                let found = depot.lock().take();
                match found {
                    Some(chunk) => self.stock(chunk, show),
                    None => {
                        let (chunk, rest) = make();
                        *self = Self { chunk: Some(chunk), rest, ..Self::EMPTY };
                    }
                }
            }
        }
        self.turn_over();
    }

    /// Goes on to the next group with blocks, if there is one.
    fn turn_over(&mut self) -> bool {
        let next = self.rest.iter().position(|blocks| *blocks != 0);
        if let Some(group) = next {
            (self.group, self.blocks) = (group, std::mem::take(&mut self.rest[group]));
        }
        next.is_some()
    }

    /// Takes over what has come back to a chunk that is on this shelf.
    fn stock(&mut self, chunk: C, show: impl Fn(C, Spot)) {
        let rest = std::array::from_fn(|group| chunk.grab(group));
        for (group, mut blocks) in rest.into_iter().enumerate() {
            for _ in 0..AHEAD.min(blocks.count_ones() as usize) {
                show(chunk, Spot::first(group, blocks));
                blocks &= blocks - 1;
            }
        }
        *self = Self { chunk: Some(chunk), rest, ..Self::EMPTY };
        let taken = rest.iter().map(|blocks| blocks.count_ones() as i16).sum::<i16>();
        if taken == chunk.sizes().all {
            chunk.vacate();
        }
        // Some of them may not have been counted yet.
        update(chunk, |was| Word { count: was.count - taken, ..was });
    }

    /// Gives everything up.
    pub(super) fn clear(&mut self, depot: &Mutex<Depot<C>>) {
        if let Some(chunk) = self.chunk {
            self.rest[self.group] |= std::mem::take(&mut self.blocks);
            let sizes = chunk.sizes();
            for (group, blocks) in std::mem::replace(&mut self.rest, [0; GROUPS]).into_iter().enumerate() {
                if blocks != 0 {
                    chunk.put(group, blocks);
                    // Nobody becomes the owner by this: it is on a shelf.
                    update(chunk, |was| was.with(blocks.count_ones() as i16, sizes));
                }
            }
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
