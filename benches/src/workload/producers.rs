//! Several threads that do the same thing at the same time.

use std::sync::Barrier;
use std::thread;

use crate::clock;

/// Runs `prepare` on each of `threads` threads, then what it returns on all of them at once, and returns the
/// nanoseconds from the first start to the last end, and what each of them returned.
pub(crate) fn together<T: Send, R: FnOnce() -> T>(
    threads: usize,
    prepare: impl Fn(usize) -> R + Sync,
) -> (u64, Vec<T>) {
    let barrier = Barrier::new(threads);
    let one = |thread: usize| {
        let run = prepare(thread);
        barrier.wait();
        let start = clock::now();
        let result = run();
        (start, clock::now(), result)
    };
    let one = &one;
    let ended: Vec<(u64, u64, T)> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let start = ended.iter().map(|(start, ..)| *start).min().unwrap_or(0);
    let end = ended.iter().map(|(_, end, _)| *end).max().unwrap_or(0);
    (end - start, ended.into_iter().map(|(.., result)| result).collect())
}
