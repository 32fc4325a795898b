//! The operations with no queue between them.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::args::Args;
use crate::line::Line;
use crate::tally::Tally;
use crate::workload::producers::together;
use crate::{Outcome, clock, os, sample, verify};

/// A task as small as one can be: a count, a state, what to call, and a closure of 16 bytes.
type Cell = Box<[u64; 5]>;

fn cell(at: u64) -> Cell {
    Box::new([at; 5])
}

fn locked<T>(list: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock, an allocation, and a place in a list under a lock.
pub(crate) fn insert(args: &Args) -> Outcome {
    let n: usize = args.get("n", 100_000)?;
    let producers: usize = args.get("producers", 1)?;
    let each = n / producers;
    let mut nanos = Vec::new();
    for _ in 0..(100_000 / n).clamp(1, 50) {
        let list = Mutex::new(Vec::with_capacity(n));
        let (took, _) = together(producers, |_| {
            let list = &list;
            move || {
                for at in 0..each {
                    let entry = (clock::now(), at as u64, cell(at as u64));
                    locked(list).push(entry);
                }
            }
        });
        std::mem::forget(list);
        nanos.push(took as f64 / (each * producers) as f64);
    }
    Ok(Line::new().put("ns", sample::median(nanos)))
}

/// The same in place of a random one that is taken out.
pub(crate) fn timeout(args: &Args) -> Outcome {
    let pending: usize = args.get("pending", 100_000)?;
    let operations: usize = args.get("n", 200_000)?;
    let producers: usize = args.get("producers", 1)?;
    let each = operations / producers;
    let list: Mutex<Vec<_>> = Mutex::new((0..pending as u64).map(|at| (0, at, cell(at))).collect());
    let (took, _) = together(producers, |thread| {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        let list = &list;
        let mut pairs = move |operations: usize| {
            for at in 0..operations as u64 {
                let entry = (clock::now(), at, cell(at));
                // One lock for each of the two calls.
                black_box(locked(list).len());
                let old = std::mem::replace(&mut locked(list)[random.usize(..pending)], entry);
                black_box(old.2[0]);
            }
        };
        pairs(each / 2);
        move || pairs(each)
    });
    std::mem::forget(list);
    Ok(Line::new().put("ns", took as f64 / (each * producers) as f64))
}

/// Boxed closures put into a list, sorted by deadline all at once, and called.
pub(crate) fn fire(args: &Args) -> Outcome {
    type Body = Box<dyn FnOnce() + Send>;
    let n: usize = args.get("n", 1_000_000)?;
    let spread = args.millis("spread_ms", 100)?.as_nanos() as u64;
    let tally = Tally::leaked(n);
    let mut random = fastrand::Rng::with_seed(1);
    let list: Mutex<Vec<(u64, usize, Body)>> = Mutex::new(Vec::with_capacity(n));
    let start = clock::now();
    for task in 0..n {
        let deadline = clock::now() + random.u64(..=spread);
        locked(&list).push((deadline, task, Box::new(move || tally.mark(task))));
    }
    let mut all = std::mem::take(&mut *locked(&list));
    if spread > 0 {
        all.sort_unstable_by_key(|(deadline, task, _)| (*deadline, *task));
    }
    for (.., body) in all {
        black_box(locked(&list).len());
        body();
    }
    tally.wait(verify::PATIENCE)?;
    // The window has not passed, in contrast to the pools: this is the work alone.
    Ok(Line::new().put("per_s", n as f64 * 1e9 / (clock::now() - start) as f64))
}

/// A boxed closure of 16 bytes and its place in a list.
pub(crate) fn memory(args: &Args) -> Outcome {
    type Body = Box<dyn FnOnce() -> u64>;
    let n: usize = args.get("n", 1_000_000)?;
    let mut list: Vec<(u64, u64, Body)> = Vec::with_capacity(n);
    let before = os::resident();
    for at in 0..n as u64 {
        let captured = (at, before);
        list.push((at, at, Box::new(move || captured.0 + captured.1)));
    }
    let after = os::resident();
    black_box(&list);
    std::mem::forget(list);
    Ok(Line::new().put("bytes", (after - before) as f64 / n as f64))
}

/// The longest time between two looks at the clock: what is not anybody's doing.
pub(crate) fn pause(args: &Args) -> Outcome {
    let n: usize = args.get("n", 1_000_000)?;
    let passes: usize = args.get("passes", 3)?;
    let mut fastest = vec![u64::MAX; 3 * n];
    for _ in 0..passes {
        for best in &mut fastest {
            let start = clock::now();
            *best = (clock::now() - start).min(*best);
        }
    }
    let longest = fastest.into_iter().max().unwrap_or(0);
    Ok(Line::new().put("longest_us", Duration::from_nanos(longest).as_secs_f64() * 1e6))
}
