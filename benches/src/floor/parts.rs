//! The prices of the machine, one by one.

use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;

use rustix::thread::futex;

use crate::line::Line;
use crate::workload::producers::together;
use crate::{Outcome, clock, sample};

const OPERATIONS: usize = 200_000;

/// The median of five goes, in nanoseconds for each operation.
fn price(mut operation: impl FnMut()) -> f64 {
    let goes = (0..5).map(|_| {
        let start = clock::now();
        for _ in 0..OPERATIONS {
            operation();
        }
        (clock::now() - start) as f64 / OPERATIONS as f64
    });
    sample::median(goes.collect())
}

/// The same for two threads at it together: wall time for each operation of either.
fn shared(operation: impl Fn() + Sync) -> f64 {
    let goes = (0..5).map(|_| {
        let (took, _) = together(2, |_| || (0..OPERATIONS).for_each(|_| operation()));
        took as f64 / (2 * OPERATIONS) as f64
    });
    sample::median(goes.collect())
}

pub(crate) fn run() -> Outcome {
    let mut fresh = Vec::with_capacity(5 * OPERATIONS);
    let mutex = Mutex::new(0_u64);
    let add = || *mutex.lock().expect("not poisoned") += 1;
    let counter = AtomicU64::new(0);
    let word = AtomicU32::new(0);
    let line = Line::new()
        .put("clock_ns", price(|| _ = black_box(clock::now())))
        .put("malloc_free_64_ns", price(|| drop(black_box(Box::new([0_u64; 8])))))
        .put("malloc_fresh_64_ns", price(|| fresh.push(black_box(Box::new([1_u64; 8])))))
        .put("mutex_ns", price(add))
        .put("mutex_shared_ns", shared(add))
        .put("atomic_add_ns", price(|| _ = counter.fetch_add(1, Relaxed)))
        .put("atomic_add_shared_ns", shared(|| _ = counter.fetch_add(1, Relaxed)))
        .put("futex_wake_nobody_ns", price(|| _ = futex::wake(&word, futex::Flags::PRIVATE, 1)))
        .put("futex_wake_sleeper_ns", wake_sleeper());
    std::mem::forget(fresh);
    Ok(line)
}

/// What it costs to wake a thread that sleeps, on the side of the one that wakes.
fn wake_sleeper() -> f64 {
    static WORD: AtomicU32 = AtomicU32::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        while !IS_OVER.load(Relaxed) {
            let _ = futex::wait(&WORD, futex::Flags::PRIVATE, 0, None);
        }
    });
    let nanos = (0..2_000).filter_map(|_| {
        // Time for it to fall asleep again.
        let until = clock::now() + 20_000;
        while clock::now() < until {
            spin_loop();
        }
        let start = clock::now();
        let woken = futex::wake(&WORD, futex::Flags::PRIVATE, 1);
        let took = clock::now() - start;
        (woken == Ok(1)).then_some(took as f64)
    });
    let nanos: Vec<_> = nanos.collect();
    IS_OVER.store(true, Relaxed);
    if nanos.is_empty() { f64::NAN } else { sample::median(nanos) }
}
