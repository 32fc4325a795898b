//! Where tasks are in memory.
//!
//! A task is a few dozen bytes, made by one thread and, as a rule, freed by another: just what general allocators like
//! least. So small tasks live in *chunks*, blocks of one size side by side. A thread makes tasks in the chunk on its
//! *shelf*, without a lock or an atomic; whoever frees some gives the blocks back to the chunk they came from, several with
//! two read-modify-writes; and what has come back is used again.
//!
//! # States of a chunk
//! Who may use the chunk itself, apart from the blocks that are out, is said by its [`Word`], with how many have come back; which
//! ones, by a bit for each:
//!
//! ```text
//!            none left, few came back            enough came back              listed
//!   Shelf ─────────────────────────▶ Nobody ────────────────────▶ Lister ──────────────▶ Depot
//!     ▲  └── none left, enough came back ─────────────────────────▲                       │ │
//!     └────────────────────────── taken for a shelf ────────────────────────────────────────┘ │ all came back
//!                                                   freed, or kept as a spare ◀── Last ◀──────┘
//! ```
//!
//! # Invariants
//! 1. A block is out, or has its bit in the chunk, or in what the shelf took over, or is in
//!    the *hand* of a thread, which keeps a few that it has freed for itself, or in its *bundle* of a few that it will give
//!    back together.
//! 2. The count and the owner change together, in one word. So one thread makes enough of a chunk come back, and lists it;
//!    and one makes all of it come back, and has it for itself. A block is counted after its bit was set. What is on a shelf is
//!    taken over by its bits, and then no longer counted; nobody else looks at the count meanwhile. So as long as somebody has yet to count
//!    a block, not all are counted, and the chunk is there.
//! 3. Whoever gives blocks back and does not become the owner by it does not touch the chunk again: it may be gone.
//! 4. A chunk is in the list of the depot exactly if its place says so. Both are guarded by the lock of the depot.
//! 5. While the owner is `Depot`, the chunk is in the list. (While it is `Last` it may be, and then it is nobody's but that of
//!    whoever became the owner, who takes it out.)
//!
//! # Cost
//! A task is made by a few instructions, and a lock for some hundred. A chunk, 16 KiB, is used again, before a new one is
//! made, when a quarter of it has come back: so tasks that come and go hold at most a third more than what lives. It is
//! freed when all of it has come back; one task that stays keeps its chunk. Besides there are two spares for each size; for
//! each thread that makes tasks the chunk on its shelf, of which pages that were never touched cost nothing; and for each
//! thread that frees them what it has in its hand and its bundle, at worst of as many chunks as blocks. What a thread has is
//! given up when it ends.
//!
//! The head of a chunk has what is known of its tasks [apart](super::apart) from them, too.
//!
//! Blocks are made in order of their addresses, and the third from now is being [fetched](crate::fetch) meanwhile: as a rule its
//! line is where it was freed, in the cache of another processor.
//!
//! # What the unsafe code buys
//! In instructions: 185 for `malloc` and 118 for `free` in another thread become about 15 and 25. With a
//! general allocator that is good at this (mimalloc was tried) the executor gains as much; but a library cannot choose it.
//!
//! # Paths not taken
//! *A list of what came back, in the blocks themselves:* it gives them out in the order in which they came back, and to know which is
//! next is to wait for the one before. A million tasks within 100 ms, where the two processors are far from each other: whoever submitted
//! took 170 ns for each, 155 when the next of the list was fetched, and 130 by bits. *A list of free tasks,* each allocated by itself: does not help the first task, and mixes memory of all ages. *Chunks
//! that are freed when all is given back and are never used again before:* of tasks that end in random order five times
//! as much memory would be held as is used. *Chunks of one executor:* a handle may outlive it.
//!
//! Large tasks, and those that want to be aligned, are allocated one by one. So are all in models, and where
//! `punctual_plain_memory` is set: for tools that find errors by looking after every allocation.

#[cfg(not(punctual_plain_memory))]
mod bundle;
#[cfg(not(any(punctual_loom, punctual_plain_memory)))]
mod chunk;
#[cfg(not(punctual_plain_memory))]
mod depot;
#[cfg(all(test, punctual_loom))]
mod loom_memory;
#[cfg(not(any(punctual_loom, punctual_plain_memory)))]
mod pooled;
#[cfg(not(punctual_plain_memory))]
mod shelf;
#[cfg(not(punctual_plain_memory))]
mod word;

use std::alloc::{self, Layout};
use std::ptr::NonNull;

#[cfg(not(any(punctual_loom, punctual_plain_memory)))]
pub(super) use chunk::apart;
#[cfg(not(punctual_plain_memory))]
use depot::{Chunk, Depot};
#[cfg(not(punctual_plain_memory))]
use word::{Owner, Sizes, Word};

/// The blocks of a chunk are in so many groups, of 64 each.
#[cfg(not(punctual_plain_memory))]
const GROUPS: usize = if cfg!(punctual_loom) { 1 } else { 4 };

/// Where a block is in its chunk: how many are before it.
#[cfg(not(punctual_plain_memory))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Spot(u16);

#[cfg(not(punctual_plain_memory))]
impl Spot {
    /// Of the first of these blocks of a group.
    #[inline]
    fn first(group: usize, blocks: u64) -> Self {
        Self(64 * group as u16 + blocks.trailing_zeros() as u16)
    }

    /// Its group, and the bit that stands for it there.
    #[inline]
    fn in_group(self) -> (usize, u64) {
        (usize::from(self.0 / 64) % GROUPS, 1 << (self.0 % 64))
    }
}

/// Memory for one task.
#[inline]
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
    if let Some(class) = pooled::class(layout) {
        return pooled::allocate(class);
    }
    // SAFETY: a task has a header, so its size is not zero.
    let memory = unsafe { alloc::alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// Whether tasks of that layout are where there are [marks](super::apart).
#[inline]
pub(super) const fn has_marks(layout: Layout) -> bool {
    #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
    return pooled::class(layout).is_some();
    #[cfg(any(punctual_loom, punctual_plain_memory))]
    return layout.size() > 0;
}

/// What will be written to when that memory is released, if it is that of a small task. Not to be followed.
#[inline]
pub(super) fn home(memory: *const u8) -> *const u8 {
    #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
    let memory = chunk::head_of(memory);
    memory
}

/// Takes it back.
///
/// # Safety
/// The memory came from [`allocate`] with this layout, is good for the whole of what it was allocated with, and nobody
/// uses it any more.
#[inline]
pub(super) unsafe fn release(memory: NonNull<u8>, layout: Layout) {
    #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
    if let Some(class) = pooled::class(layout) {
        // SAFETY: for the caller to see to; the same layout had the same class then.
        return unsafe { pooled::release(memory, class) };
    }
    // SAFETY: for the caller to see to.
    unsafe { alloc::dealloc(memory.as_ptr(), layout) };
}
