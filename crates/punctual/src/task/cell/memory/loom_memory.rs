//! Models of the memory of tasks: the real protocol on chunks that tell of misuse.

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::bundle::Bundle;
use super::depot::{Chunk, Depot, give_back, update};
use super::shelf::Shelf;
use super::{GROUPS, Owner, Sizes, Spot, Word};
use crate::loom_support::explore;
use crate::sync::Mutex;

/// Two of three blocks make it worth taking.
const SIZES: Sizes = Sizes { all: 3, enough: 2 };
/// All of them.
const ALL: [u64; GROUPS] = [0b111];

struct Memory {
    word: AtomicU64,
    back: [AtomicU64; GROUPS],
    /// Written by whoever has the block, so loom tells of two who do.
    blocks: [UnsafeCell<u16>; SIZES.all as usize],
    place: UnsafeCell<Option<usize>>,
    /// Of the standard library: only counted.
    freed: AtomicUsize,
}

/// Leaked, so that a model may look at what was freed.
#[derive(Clone, Copy)]
struct Model(&'static Memory);

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Model {
    fn new(word: Word) -> Self {
        Self(Box::leak(Box::new(Memory {
            word: AtomicU64::new(word.to_bits()),
            back: std::array::from_fn(|_| AtomicU64::new(0)),
            blocks: std::array::from_fn(|_| UnsafeCell::new(0)),
            place: UnsafeCell::new(None),
            freed: AtomicUsize::new(0),
        })))
    }

    fn memory(self) -> &'static Memory {
        assert_eq!(self.freed(), 0, "used after it was freed");
        self.0
    }

    /// Uses it. Others may come first within a step of loom's, so it is looked at after that, too.
    fn with<R>(self, act: impl FnOnce(&'static Memory) -> R) -> R {
        let result = act(self.memory());
        self.memory();
        result
    }

    fn freed(self) -> usize {
        self.0.freed.load(Ordering::SeqCst)
    }

    /// Uses a block that is out.
    fn scribble(self, at: u16) {
        // SAFETY: loom tells of a race.
        self.memory().blocks[usize::from(at)].with_mut(|block| unsafe { *block += 1 });
    }
}

impl Chunk for Model {
    fn sizes(self) -> Sizes {
        self.memory();
        SIZES
    }

    fn word(self) -> Word {
        Word::from_bits(self.with(|memory| memory.word.load(Ordering::Acquire)))
    }

    fn change(self, from: Word, to: Word) -> bool {
        let (from, to) = (from.to_bits(), to.to_bits());
        let changed =
            self.memory().word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        // By 3 who has changed it may have no right to it any more.
        if !changed {
            self.memory();
        }
        changed
    }

    fn put(self, group: usize, blocks: u64) {
        let were = self.with(|memory| memory.back[group].fetch_or(blocks, Ordering::Release));
        assert_eq!(were & blocks, 0, "given back once");
    }

    fn grab(self, group: usize) -> u64 {
        self.with(|memory| memory.back[group].swap(0, Ordering::Acquire))
    }

    fn place(self) -> Option<usize> {
        // SAFETY: as above.
        self.memory().place.with(|place| unsafe { *place })
    }

    fn set_place(self, place: Option<usize>) {
        // SAFETY: as above.
        self.memory().place.with_mut(|old| unsafe { *old = place });
    }

    fn vacate(self) {
        // Whoever has a block uses it.
        (0..SIZES.all as u16).for_each(|at| self.scribble(at));
    }

    fn free(self) {
        assert_eq!(self.word(), Word { owner: Owner::Last, count: SIZES.all });
        assert_eq!(self.0.freed.fetch_add(1, Ordering::SeqCst), 0, "freed once");
    }
}

type Shared = Arc<Mutex<Depot<Model>>>;

fn put_back(depot: &Mutex<Depot<Model>>, chunk: Model, at: u16) {
    let (group, block) = Spot(at).in_group();
    give_back(|| depot, chunk, group, block);
}

fn ignore(_: Model, _: Spot) {}

fn take(shelf: &mut Shelf<Model>) -> Option<(Model, u16)> {
    shelf.take(ignore).map(|(chunk, Spot(at))| (chunk, at))
}

fn give_back_in_thread(depot: &Shared, chunk: Model, blocks: &'static [u16]) -> thread::JoinHandle<()> {
    let depot = Arc::clone(depot);
    thread::spawn(move || {
        for &at in blocks {
            chunk.scribble(at);
            put_back(&depot, chunk, at);
        }
    })
}

/// Has no spare to give, and keeps none.
fn full_depot() -> (Shared, Vec<Model>) {
    let depot = Arc::new(Mutex::new(Depot::new()));
    let spares: Vec<Model> = (0..2)
        .map(|_| {
            let chunk = Model::new(Word::SHELF.let_go(SIZES));
            (0..SIZES.all as u16).for_each(|at| put_back(&depot, chunk, at));
            chunk
        })
        .collect();
    (depot, spares)
}

/// Everything that can be had without making a chunk.
fn take_all(depot: &Mutex<Depot<Model>>, shelf: &mut Shelf<Model>) -> Vec<(Model, u16)> {
    let mut taken = Vec::new();
    let mut made = false;
    while !made {
        while let Some((chunk, at)) = take(shelf) {
            chunk.scribble(at);
            taken.push((chunk, at));
        }
        shelf.refill(depot, ignore, || {
            made = true;
            (Model::new(Word::SHELF), [0; GROUPS])
        });
        if !made {
            let (chunk, at) = take(shelf).expect("a shelf that has been refilled is not empty");
            chunk.scribble(at);
            taken.push((chunk, at));
        }
    }
    taken
}

fn is_distinct(taken: &[(Model, u16)]) -> bool {
    taken.iter().enumerate().all(|(n, block)| !taken[..n].contains(block))
}

#[test]
fn a_chunk_that_comes_back_from_three_threads_is_freed_once() {
    explore(3, || {
        let (depot, _spares) = full_depot();
        let chunk = Model::new(Word::SHELF.let_go(SIZES));
        let others = [&[1][..], &[2]].map(|blocks| give_back_in_thread(&depot, chunk, blocks));
        chunk.scribble(0);
        put_back(&depot, chunk, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(chunk.freed(), 1);
    });
}

#[test]
fn a_chunk_that_comes_back_in_bundles_is_freed_once_and_none_of_it_is_lost() {
    explore(3, || {
        let (depot, _spares) = full_depot();
        let chunk = Model::new(Word::SHELF.let_go(SIZES));
        let other = give_back_in_thread(&depot, chunk, &[2]);
        let mut bundle = Bundle::EMPTY;
        for at in [0, 1] {
            chunk.scribble(at);
            bundle.add(chunk, Spot(at).in_group()).give_back(|| &*depot);
        }
        bundle.give_back(|| &*depot);
        other.join().unwrap();
        assert_eq!(chunk.freed(), 1);
    });
}

#[test]
fn what_comes_back_in_a_bundle_is_taken_block_by_block() {
    explore(3, || {
        let depot: Shared = Arc::new(Mutex::new(Depot::new()));
        let chunks = [1, 2].map(|_| Model::new(Word::SHELF.let_go(SIZES)));
        let other = give_back_in_thread(&depot, chunks[0], &[2]);
        let mut bundle = Bundle::EMPTY;
        // Of one chunk, of another, and of the first again: each change gives back what there was.
        for (chunk, at) in [(0, 0), (0, 1), (1, 1), (1, 2), (1, 0)] {
            chunks[chunk].scribble(at);
            bundle.add(chunks[chunk], Spot(at).in_group()).give_back(|| &*depot);
        }
        bundle.give_back(|| &*depot);
        other.join().unwrap();
        let taken = take_all(&depot, &mut Shelf::EMPTY);
        assert!(is_distinct(&taken) && taken.len() == 6, "{} blocks", taken.len());
    });
}

#[test]
fn a_chunk_is_taken_or_comes_back_as_a_whole() {
    explore(3, || {
        let (depot, spares) = full_depot();
        let chunk = Model::new(Word::SHELF.let_go(SIZES));
        let other = give_back_in_thread(&depot, chunk, &[0, 1, 2]);
        let mut shelf = Shelf::EMPTY;
        let taken = take_all(&depot, &mut shelf);
        other.join().unwrap();
        assert!(is_distinct(&taken), "no block is handed out twice");
        assert!(spares.iter().all(|spare| taken.iter().filter(|(chunk, _)| chunk == spare).count() == 3));
        let had = taken.iter().filter(|(other, _)| *other == chunk).count();
        assert!(had == 0 || had >= 2);
        for (chunk, at) in taken {
            put_back(&depot, chunk, at);
        }
        shelf.clear(&depot);
        // Two are kept, whichever; of the others nothing is left.
        let kept = spares.iter().chain([&chunk]).filter(|chunk| chunk.freed() == 0).count();
        assert!(kept <= 2);
    });
}

#[test]
fn what_comes_back_to_a_shelf_is_used_again_or_let_go() {
    explore(3, || {
        let depot: Shared = Arc::new(Mutex::new(Depot::new()));
        let chunk = Model::new(Word::SHELF);
        let mut shelf = Shelf::EMPTY;
        shelf.refill(&depot, ignore, || (chunk, ALL));
        let first: Vec<u16> = std::iter::from_fn(|| take(&mut shelf)).map(|(_, at)| at).collect();
        assert_eq!(first, [0, 1, 2]);
        let other = give_back_in_thread(&depot, chunk, &[0, 1]);
        let taken = take_all(&depot, &mut shelf);
        other.join().unwrap();
        assert!(is_distinct(&taken) && taken.iter().all(|(other, at)| *other == chunk && *at < 2));
        shelf.clear(&depot);
        // What was let go with too little come back, and had enough come back later, is in the depot.
        let owner = chunk.word().owner;
        assert!(owner == if taken.is_empty() { Owner::Depot } else { Owner::Nobody }, "{owner:?}");
    });
}

#[test]
fn a_thread_that_ends_leaves_what_it_has_to_the_others() {
    explore(3, || {
        let depot: Shared = Arc::new(Mutex::new(Depot::new()));
        let chunk = Model::new(Word::SHELF);
        let mut shelf = Shelf::EMPTY;
        shelf.refill(&depot, ignore, || (chunk, ALL));
        let (_, out) = take(&mut shelf).expect("there are three");
        assert_eq!(out, 0);
        let other = give_back_in_thread(&depot, chunk, &[0]);
        shelf.clear(&depot);
        other.join().unwrap();
        let (was, _) = update(chunk, |word| word);
        assert_eq!((was.count, was.owner), (3, Owner::Depot), "a spare");
        assert_eq!(take_all(&depot, &mut shelf).len(), 3);
    });
}

#[test]
fn blocks_that_are_taken_before_they_are_counted_come_back_again() {
    explore(3, || {
        let depot: Shared = Arc::new(Mutex::new(Depot::new()));
        let chunk = Model::new(Word::SHELF);
        let mut shelf = Shelf::EMPTY;
        shelf.refill(&depot, ignore, || (chunk, ALL));
        let out: Vec<u16> = std::iter::from_fn(|| take(&mut shelf)).map(|(_, at)| at).collect();
        assert_eq!(out, [0, 1, 2]);
        // One of them has its bit set, perhaps, and is not counted, when the others are enough.
        let others = [&[0, 1][..], &[2]].map(|blocks| give_back_in_thread(&depot, chunk, blocks));
        let taken = take_all(&depot, &mut shelf);
        assert!(is_distinct(&taken));
        for (chunk, at) in taken {
            chunk.scribble(at);
            put_back(&depot, chunk, at);
        }
        shelf.clear(&depot);
        others.into_iter().for_each(|other| other.join().unwrap());
        // All is back, and it is a spare, whoever came last.
        assert_eq!(chunk.word(), Word { count: SIZES.all, owner: Owner::Depot });
        assert_eq!(take_all(&depot, &mut shelf).iter().filter(|(other, _)| *other == chunk).count(), 3);
    });
}
