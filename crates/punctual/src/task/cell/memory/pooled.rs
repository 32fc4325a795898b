//! Blocks of the usual sizes, from the shelves of the calling thread.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::LazyLock;

use super::bundle::Bundle;
use super::chunk::ChunkRef;
use super::shelf::Shelf;
use super::{Depot, Spot};
use crate::fetch;
use crate::sync::Mutex;

/// From the smallest task, which is a line of the cache by itself, to one with seven words of captures.
const SIZES: [usize; 6] = [64, 72, 80, 88, 96, 104];

static DEPOTS: LazyLock<[Mutex<Depot<ChunkRef>>; SIZES.len()]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::new(Depot::new())));

/// What a thread has of one size.
struct Stock {
    hand: Cell<Hand>,
    bundle: Cell<Bundle<ChunkRef>>,
    shelf: Cell<Shelf<ChunkRef>>,
}

struct Stocks([Stock; SIZES.len()]);

thread_local! {
    static MINE: Stocks = const { Stocks([const { Stock::EMPTY }; SIZES.len()]) };
}

impl Stock {
    #[expect(clippy::declare_interior_mutable_const, reason = "what each begins with")]
    const EMPTY: Self = Self {
        hand: Cell::new(Hand::EMPTY),
        bundle: Cell::new(Bundle::EMPTY),
        shelf: Cell::new(Shelf::EMPTY),
    };

    #[inline]
    fn take(&self, size: usize) -> Option<NonNull<u8>> {
        let mut hand = self.hand.get();
        if let Some(block) = hand.take() {
            self.hand.set(hand);
            return Some(block);
        }
        let mut shelf = self.shelf.get();
        let (chunk, spot) = shelf.take(fetch_block(size))?;
        self.shelf.set(shelf);
        Some(chunk.block(spot, size))
    }

    /// Takes a block that is not used any more. What is to be given back for it comes back.
    #[inline]
    fn put(&self, block: NonNull<u8>, size: usize) -> Bundle<ChunkRef> {
        let mut hand = self.hand.get();
        if hand.put(block) {
            self.hand.set(hand);
            return Bundle::EMPTY;
        }
        let (chunk, spot) = ChunkRef::of(block, size);
        let mut bundle = self.bundle.get();
        let full = bundle.add(chunk, spot.in_group());
        self.bundle.set(bundle);
        full
    }
}

impl Drop for Stocks {
    fn drop(&mut self) {
        for ((stock, depot), size) in self.0.iter_mut().zip(&*DEPOTS).zip(SIZES) {
            while let Some(block) = stock.hand.get_mut().take() {
                let (chunk, spot) = ChunkRef::of(block, size);
                stock.bundle.get_mut().add(chunk, spot.in_group()).give_back(|| depot);
            }
            stock.bundle.replace(Bundle::EMPTY).give_back(|| depot);
            stock.shelf.get_mut().clear(depot);
        }
    }
}

/// The last few blocks that the thread has freed, wherever they came from, to be used first: they are in its cache.
///
/// A thread that makes tasks, too, comes to keep as many as it frees at once: keys of cancelled tasks are left in the inbox, and
/// seen to together. Given back to their chunks they would be used by whichever thread comes first, with their lines in the cache of this
/// one. A worker, which only frees, keeps few: each may be the last of a chunk that is not in use otherwise.
#[derive(Clone, Copy)]
struct Hand {
    last: Option<NonNull<u8>>,
    count: u8,
    /// So many are kept.
    most: u8,
}

impl Hand {
    const EMPTY: Self = Self { last: None, count: 0, most: 16 };
    const MOST: u8 = 128;

    #[inline]
    fn take(&mut self) -> Option<NonNull<u8>> {
        let block = self.last?;
        // SAFETY: what was written by `put`; by 1 nobody else uses the block.
        self.last = unsafe { block.cast().read() };
        self.count -= 1;
        if self.count == 0 {
            self.most = self.most.saturating_mul(2).min(Self::MOST);
        }
        Some(block)
    }

    /// Says whether there was room for it.
    #[inline]
    fn put(&mut self, block: NonNull<u8>) -> bool {
        if self.count >= self.most {
            return false;
        }
        // SAFETY: by 1 nobody else uses the block, which is large enough and aligned to eight.
        unsafe { block.cast().write(self.last) };
        (self.last, self.count) = (Some(block), self.count + 1);
        true
    }
}

/// Which shelf is for that; `None` if none is.
#[inline]
pub(super) const fn class(layout: Layout) -> Option<u8> {
    let words = layout.size().div_ceil(8);
    if layout.align() <= 8 && words >= SIZES[0] / 8 && words <= SIZES[SIZES.len() - 1] / 8 {
        Some((words - SIZES[0] / 8) as u8)
    } else {
        None
    }
}

/// Brings blocks of this size into the cache, their first lines.
#[inline]
fn fetch_block(size: usize) -> impl Fn(ChunkRef, Spot) {
    move |chunk, spot| fetch::for_writing(chunk.block(spot, size).as_ptr())
}

/// A block of that class.
#[inline]
pub(super) fn allocate(class: u8) -> NonNull<u8> {
    let size = SIZES[usize::from(class)];
    match MINE.try_with(|mine| mine.0[usize::from(class)].take(size)) {
        Ok(Some(block)) => block,
        _ => allocate_slowly(class),
    }
}

#[cold]
fn allocate_slowly(class: u8) -> NonNull<u8> {
    let (depot, size) = (&DEPOTS[usize::from(class)], SIZES[usize::from(class)]);
    let refill = |shelf: &mut Shelf<ChunkRef>| {
        shelf.refill(depot, fetch_block(size), || ChunkRef::make(size));
        shelf.take(|_, _| ()).expect("a shelf that has been refilled is not empty")
    };
    let taken = MINE.try_with(|mine| {
        let place = &mine.0[usize::from(class)].shelf;
        let mut shelf = place.get();
        let taken = refill(&mut shelf);
        place.set(shelf);
        taken
    });
    let (chunk, spot) = taken.unwrap_or_else(|_| {
        // The thread is ending, and has nothing of its own any more.
        let mut shelf = Shelf::EMPTY;
        let taken = refill(&mut shelf);
        shelf.clear(depot);
        taken
    });
    chunk.block(spot, size)
}

/// # Safety
/// The block came from [`allocate`] with that class and is not used any more; its address is good for the chunk.
#[inline]
pub(super) unsafe fn release(block: NonNull<u8>, class: u8) {
    let size = SIZES[usize::from(class)];
    let full = MINE.try_with(|mine| mine.0[usize::from(class)].put(block, size)).unwrap_or_else(|_| {
        // The thread is ending, and has nothing of its own any more.
        let (chunk, spot) = ChunkRef::of(block, size);
        let mut bundle = Bundle::EMPTY;
        let _nothing = bundle.add(chunk, spot.in_group());
        bundle
    });
    full.give_back(|| &DEPOTS[usize::from(class)]);
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;
    use std::collections::HashSet;
    use std::ptr::NonNull;
    use std::sync::mpsc;
    use std::thread;

    use super::{Hand, SIZES, allocate, class, release};

    /// A block with a pattern of its own from end to end, on its way to whoever frees it.
    struct Filled {
        block: NonNull<u64>,
        class: u8,
        pattern: u64,
    }

    // SAFETY: a block may be freed by any thread.
    unsafe impl Send for Filled {}

    impl Filled {
        fn new(class: u8, pattern: u64) -> Self {
            let block = allocate(class).cast();
            let words = SIZES[usize::from(class)] / 8;
            // SAFETY: the block is that large, and ours.
            (0..words).for_each(|n| unsafe { block.add(n).write(pattern ^ n as u64) });
            Self { block, class, pattern }
        }

        fn check_and_free(self) {
            let words = SIZES[usize::from(self.class)] / 8;
            for n in 0..words {
                // SAFETY: as above.
                let word = unsafe { self.block.add(n).read() };
                assert_eq!(word, self.pattern ^ n as u64, "two have one block");
            }
            // SAFETY: from `allocate` with that class, and nobody uses it after this.
            unsafe { release(self.block.cast(), self.class) };
        }
    }

    #[test]
    fn a_layout_has_the_smallest_class_that_holds_it() {
        for (number, &size) in SIZES.iter().enumerate() {
            for size in size - 7..=size {
                assert_eq!(class(Layout::from_size_align(size, 8).unwrap()), Some(number as u8));
            }
        }
        for (size, align) in [(0, 8), (56, 8), (105, 8), (64, 16), (1 << 20, 8)] {
            assert_eq!(
                class(Layout::from_size_align(size, align).unwrap()),
                None,
                "{size} aligned to {align}"
            );
        }
    }

    #[test]
    fn what_was_freed_last_is_given_out_first() {
        let [first, second] = [allocate(2), allocate(2)];
        // SAFETY: allocated with that class, and not used.
        unsafe {
            release(first, 2);
            release(second, 2);
        }
        assert_eq!([allocate(2), allocate(2)], [second, first]);
        // SAFETY: as above.
        unsafe {
            release(first, 2);
            release(second, 2);
        }
    }

    #[test]
    fn a_hand_keeps_few_until_it_has_been_emptied_and_then_more_up_to_a_bound() {
        let mut blocks: Vec<_> = (0..300).map(|_| allocate(4)).collect();
        let mut hand = Hand::EMPTY;
        let kept = [16, 32, 64, 128, 128, 128].map(|expected| {
            // The one that found no room stays with us.
            while let Some(block) = blocks.pop() {
                if !hand.put(block) {
                    blocks.push(block);
                    break;
                }
            }
            let before = blocks.len();
            blocks.extend(std::iter::from_fn(|| hand.take()));
            (blocks.len() - before, expected)
        });
        assert!(kept.iter().all(|(kept, expected)| kept == expected), "{kept:?}");
        assert_eq!(blocks.len(), 300);
        // SAFETY: allocated with that class, and not used.
        blocks.into_iter().for_each(|block| unsafe { release(block, 4) });
    }

    #[test]
    fn blocks_that_live_together_are_apart() {
        let blocks: Vec<Filled> = (0..5_000).map(|n| Filled::new(3, n << 32)).collect();
        let places: HashSet<usize> = blocks.iter().map(|filled| filled.block.addr().get()).collect();
        assert_eq!(places.len(), blocks.len());
        assert!(places.iter().all(|place| place % 8 == 0));
        blocks.into_iter().for_each(Filled::check_and_free);
    }

    /// Three threads make blocks and free those of each other, in an order of their own, some long after.
    #[test]
    fn blocks_wander_between_threads_unharmed() {
        const EACH: u64 = 20_000;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<Filled>()).unzip();
        thread::scope(|scope| {
            for (me, inbox) in receivers.into_iter().enumerate() {
                let senders = senders.clone();
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(me as u64);
                    let mut kept = Vec::new();
                    for n in 0..EACH {
                        let filled =
                            Filled::new(random.u8(..SIZES.len() as u8), (me as u64 + 1) << 56 | n << 8);
                        // The receiver may be done and gone; then what was sent comes back.
                        if let Err(sent) = senders[random.usize(..3)].send(filled) {
                            kept.push(sent.0);
                        }
                        kept.extend(inbox.try_iter());
                        while kept.len() > 500 {
                            kept.swap_remove(random.usize(..kept.len())).check_and_free();
                        }
                    }
                    drop(senders);
                    kept.into_iter().chain(inbox).for_each(Filled::check_and_free);
                });
            }
            drop(senders);
        });
    }

    #[test]
    fn what_a_thread_had_is_used_by_others_when_it_has_ended() {
        // Others may use blocks of this size at the same time, but not fifty: a thread finds what the one before it left.
        let make = || thread::spawn(|| allocate(5).addr().get()).join().unwrap();
        let _never_freed = make();
        let chunk = |address: usize| address / (16 * 1024);
        let chunks: HashSet<usize> = (0..50).map(|_| chunk(make())).collect();
        assert!(chunks.len() < 50, "each thread had a chunk of its own, and left it to nobody");
    }
}
