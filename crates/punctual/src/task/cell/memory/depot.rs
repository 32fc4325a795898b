//! Chunks of one size that enough has come back to, for whoever runs out.

use super::{Owner, Sizes, Word};
use crate::sync::Mutex;

/// A chunk, as the protocol sees it: a name for it, to be used by those who may. Real ones are memory; those of the models
/// tell of misuse.
pub(super) trait Chunk: Copy + PartialEq {
    fn sizes(self) -> Sizes;
    fn word(self) -> Word;
    /// In one step, if it is `from`. Acquire and release: who takes the whole sees what was done with all of it.
    fn change(self, from: Word, to: Word) -> bool;
    /// Notes that these blocks of a group have come back. Release: who takes them over sees what was done with them.
    fn put(self, group: usize, blocks: u64);
    /// Takes over what has come back of a group. Acquire, for that.
    fn grab(self, group: usize) -> u64;
    /// Where it is in the list of the depot, whose lock guards that.
    fn place(self) -> Option<usize>;
    fn set_place(self, place: Option<usize>);
    /// There is no task in it. For whoever has all of its blocks.
    fn vacate(self);
    /// Frees it. For whoever has all of it.
    fn free(self);
}

/// Changes the word of a chunk; says what it was and is.
#[inline]
pub(super) fn update<C: Chunk>(chunk: C, change: impl Fn(Word) -> Word) -> (Word, Word) {
    loop {
        let was = chunk.word();
        let word = change(was);
        if chunk.change(was, word) {
            return (was, word);
        }
    }
}

/// See the [module](super).
pub(super) struct Depot<C> {
    chunks: Vec<C>,
    /// Those of them that have nothing out.
    spare: usize,
}

/// So many chunks that have nothing out are kept.
const SPARE: usize = 2;

impl<C: Chunk> Depot<C> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), spare: 0 }
    }

    /// A chunk for a shelf.
    pub(super) fn take(&mut self) -> Option<C> {
        while let Some(chunk) = self.chunks.pop() {
            chunk.set_place(None);
            let sizes = chunk.sizes();
            let (was, _) = update(chunk, |was| match was.owner {
                Owner::Depot => Word { owner: Owner::Shelf, ..was },
                // All came back just now: whoever has it now finds that it is no longer listed.
                _ => was,
            });
            if was.owner == Owner::Depot {
                self.spare -= usize::from(was.count == sizes.all);
                return Some(chunk);
            }
        }
        None
    }

    fn push(&mut self, chunk: C) {
        chunk.set_place(Some(self.chunks.len()));
        self.chunks.push(chunk);
    }

    fn remove(&mut self, chunk: C) {
        if let Some(place) = chunk.place() {
            chunk.set_place(None);
            self.chunks.swap_remove(place);
            if let Some(&moved) = self.chunks.get(place) {
                moved.set_place(Some(place));
            }
        }
    }
}

/// Does what the new owner of a chunk, who has just changed its word, has to do.
pub(super) fn see_to<C: Chunk>(depot: &Mutex<Depot<C>>, chunk: C, became: Owner) {
    let mut last = became == Owner::Last;
    let mut guard = depot.lock();
    if became == Owner::Lister {
        guard.push(chunk);
        let sizes = chunk.sizes();
        last = update(chunk, |word| word.listed(sizes)).1.owner == Owner::Last;
    }
    if last {
        guard.remove(chunk);
        if guard.spare < SPARE {
            guard.spare += 1;
            chunk.vacate();
            guard.push(chunk);
            update(chunk, |word| Word { owner: Owner::Depot, ..word });
        } else {
            drop(guard);
            chunk.free();
        }
    }
}

/// Gives blocks of one group back, which are not to be used any more.
#[inline]
pub(super) fn give_back<'a, C>(
    depot: impl FnOnce() -> &'a Mutex<Depot<C>>,
    chunk: C,
    group: usize,
    blocks: u64,
) where
    C: Chunk + 'a,
{
    let (sizes, more) = (chunk.sizes(), blocks.count_ones() as i16);
    chunk.put(group, blocks);
    let (was, word) = update(chunk, |was| was.with(more, sizes));
    if was.owner != word.owner {
        see_to(depot(), chunk, word.owner);
    }
}
