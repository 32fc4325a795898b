//! A chunk in memory: a header, then blocks of one size.
//!
//! It begins at a multiple of its size, so the chunk of a block is found from the address of the block. It is a little
//! smaller than that, so that an allocator that puts a few bytes in front of each can have them side by side.
//!
//! The header is not always at its very beginning: a cache finds the places of lines by the lower bits of their addresses, and
//! of headers that agree in all of them it could keep few. So each of eight chunks in a row has its header a line further on.

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::apart::{Apart, MARKS};
use super::depot::Chunk;
use super::{GROUPS, Sizes, Spot, Word};

/// From one chunk to the next.
const PITCH: usize = 16 * 1024;
const LAYOUT: Layout = match Layout::from_size_align(PITCH - 64, PITCH) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two, and room for it"),
};
/// How many places there are for a header, from line to line.
const PLACES: usize = 8;
const LINE: usize = 64;

/// Two lines of their own: one that all who give back write to, and the marks.
#[repr(C, align(64))]
struct Head {
    word: AtomicU64,
    /// Which blocks have come back.
    back: [AtomicU64; GROUPS],
    sizes: Sizes,
    /// Guarded by the lock of the depot.
    place: std::cell::UnsafeCell<Option<u32>>,
    apart: Apart,
}

// Every block has a bit, and a mark by the line that it begins in; the marks are a line.
const _: () = assert!(LAYOUT.size() / LINE <= 64 * GROUPS && PITCH / LINE <= MARKS);
const _: () = assert!(size_of::<Head>() == 2 * LINE);

/// Where the head of the chunk is to which this address belongs, if it is that of a block.
#[inline]
pub(super) fn head_of(address: *const u8) -> *const u8 {
    address.map_addr(|address| {
        let chunk = address & !(PITCH - 1);
        chunk + chunk / PITCH % PLACES * LINE
    })
}

/// What is known apart of the task at this address, and which of the marks is its own.
///
/// # Safety
/// There is such a task, or there is about to be, in a chunk.
#[inline]
pub(in crate::task::cell) unsafe fn apart<'a>(address: usize) -> (&'a Apart, usize) {
    let head = head_of(ptr::without_provenance(address)).addr();
    // SAFETY: for the caller to see to: the chunk is there, whose address was exposed when it was made.
    let head = unsafe { &*ptr::with_exposed_provenance::<Head>(head) };
    (&head.apart, address % PITCH / LINE)
}

/// The address of a chunk, good for all of it. Whoever uses it may, by the invariants of the [module](super): it is the owner,
/// or has a block of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkRef(NonNull<Head>);

// SAFETY: what is in a chunk is atomic, or guarded as `Head` says, or belongs to whoever has the block.
unsafe impl Send for ChunkRef {}

impl ChunkRef {
    /// A new one, for a shelf, and its blocks.
    pub(super) fn make(size: usize) -> (Self, [u64; GROUPS]) {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc::alloc(LAYOUT) };
        let Some(memory) = NonNull::new(memory) else { alloc::handle_alloc_error(LAYOUT) };
        let head = Self::holding(memory).0;
        let first = head.addr().get() % PITCH + size_of::<Head>();
        let all = (LAYOUT.size() - first) / size;
        let head_in_full = Head {
            word: AtomicU64::new(Word::SHELF.to_bits()),
            back: [const { AtomicU64::new(0) }; GROUPS],
            sizes: Sizes { all: all as i16, enough: (all / 4) as i16 },
            place: std::cell::UnsafeCell::new(None),
            apart: Apart::new(),
        };
        // SAFETY: just allocated, large enough and aligned to far more.
        unsafe { head.write(head_in_full) };
        // For `apart`.
        memory.as_ptr().expose_provenance();
        let blocks = std::array::from_fn(|group| match all.saturating_sub(64 * group) {
            64.. => u64::MAX,
            some => (1 << some) - 1,
        });
        (Self(head), blocks)
    }

    /// The chunk of a block of this size, and where the block is in it.
    #[inline]
    pub(super) fn of(block: NonNull<u8>, size: usize) -> (Self, Spot) {
        let chunk = Self::holding(block);
        let at = (block.addr().get() - chunk.0.addr().get() - size_of::<Head>()) / size;
        (chunk, Spot(at as u16))
    }

    /// The chunk to which this address belongs.
    #[inline]
    fn holding(address: NonNull<u8>) -> Self {
        let head = head_of(address.as_ptr()).cast_mut();
        // SAFETY: no chunk is at zero, so this is not null.
        Self(unsafe { NonNull::new_unchecked(head.cast()) })
    }

    /// Where the chunk begins.
    #[inline]
    fn start(self) -> NonNull<u8> {
        let start = self.0.as_ptr().cast::<u8>().map_addr(|address| address & !(PITCH - 1));
        // SAFETY: as above.
        unsafe { NonNull::new_unchecked(start) }
    }

    /// The block of this size at that spot.
    #[inline]
    pub(super) fn block(self, spot: Spot, size: usize) -> NonNull<u8> {
        // SAFETY: spots of blocks are within the chunk, for the whole of which the address is good.
        unsafe { self.0.cast::<u8>().add(size_of::<Head>() + usize::from(spot.0) * size) }
    }

    fn head(&self) -> &Head {
        // SAFETY: the chunk is there, see above; and no `&mut` to its head is ever made.
        unsafe { self.0.as_ref() }
    }
}

impl Chunk for ChunkRef {
    fn sizes(self) -> Sizes {
        self.head().sizes
    }

    fn word(self) -> Word {
        // Acquire: whoever finds enough counted finds their bits. For a change, which is refused if this is old, less would do.
        Word::from_bits(self.head().word.load(Ordering::Acquire))
    }

    fn change(self, from: Word, to: Word) -> bool {
        let word = &self.head().word;
        word.compare_exchange_weak(from.to_bits(), to.to_bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn put(self, group: usize, blocks: u64) {
        self.head().back[group].fetch_or(blocks, Ordering::Release);
    }

    fn grab(self, group: usize) -> u64 {
        self.head().back[group].swap(0, Ordering::Acquire)
    }

    fn place(self) -> Option<usize> {
        // SAFETY: the lock of the depot is held by whoever asks.
        unsafe { *self.head().place.get() }.map(|place| place as usize)
    }

    fn set_place(self, place: Option<usize>) {
        // So many chunks would be sixty thousand times a thousand million tasks.
        let place = place.map(|place| u32::try_from(place).expect("fewer chunks than that"));
        // SAFETY: as above.
        unsafe { *self.head().place.get() = place };
    }

    fn vacate(self) {
        self.head().apart.vacate();
    }

    fn free(self) {
        // SAFETY: it was allocated so, and by 2 nobody else has anything of it.
        unsafe { alloc::dealloc(self.start().as_ptr(), LAYOUT) };
    }
}
