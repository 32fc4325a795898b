//! What one operation of the queue costs, beside an indexed 4-ary heap and std's `BinaryHeap`.
//!
//! ```text
//! cargo run --release --example micro -- [rounds] [--large]
//! ```
//!
//! Rounds are interleaved, so that a noisy minute hits all three alike; the table shows medians in nanoseconds.
//! Every round checks itself: pops come out in order, and what was put in comes out.

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;
use std::{cmp::Reverse, env};

use punctual_engine::{ReferenceHeap, TaskKey, Tick, TimerQueue};

const SECOND: u64 = 1_000_000_000;

trait Timers {
    const NAME: &str;
    type Key: Copy;
    fn new() -> Self;
    fn insert(&mut self, deadline: u64, number: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> bool;
    fn pop(&mut self) -> Option<(u64, u64)>;
}

impl Timers for TimerQueue<&'static u64> {
    const NAME: &str = "queue";
    type Key = TaskKey;
    fn new() -> Self {
        Self::new()
    }
    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> TaskKey {
        self.insert(Tick::from_nanos(deadline), number, &0)
    }
    #[inline]
    fn cancel(&mut self, key: TaskKey) -> bool {
        self.cancel(key).is_some()
    }
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        self.pop().map(|fired| {
            black_box(fired.value);
            (fired.deadline.as_nanos(), fired.number)
        })
    }
}

impl Timers for ReferenceHeap<&'static u64> {
    const NAME: &str = "4-heap";
    type Key = TaskKey;
    fn new() -> Self {
        Self::new()
    }
    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) -> TaskKey {
        self.insert(Tick::from_nanos(deadline), number, &0)
    }
    #[inline]
    fn cancel(&mut self, key: TaskKey) -> bool {
        self.cancel(key).is_some()
    }
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        self.pop().map(|fired| {
            black_box(fired.value);
            (fired.deadline.as_nanos(), fired.number)
        })
    }
}

/// Cannot cancel: it shows what order alone costs.
struct Std(BinaryHeap<Reverse<(u64, u64, &'static u64)>>);

impl Timers for Std {
    const NAME: &str = "std";
    type Key = ();
    fn new() -> Self {
        Self(BinaryHeap::new())
    }
    #[inline]
    fn insert(&mut self, deadline: u64, number: u64) {
        self.0.push(Reverse((deadline, number, &0)));
    }
    fn cancel(&mut self, (): ()) -> bool {
        false
    }
    #[inline]
    fn pop(&mut self) -> Option<(u64, u64)> {
        self.0.pop().map(|Reverse((deadline, number, value))| {
            black_box(value);
            (deadline, number)
        })
    }
}

const ROWS: [&str; 6] = ["insert", "ascending", "descending", "cancel+insert", "hold", "pop"];

#[expect(clippy::disallowed_methods, reason = "a benchmark asks the machine for the time")]
fn timed(operations: usize, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// Nanoseconds per operation, in the order of `ROWS`.
fn round<Q: Timers>(size: usize, seed: u64) -> [f64; ROWS.len()] {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rows = [f64::NAN; ROWS.len()];
    let operations = size.max(200_000);
    // Small queues are built many times over.
    let builds = (200_000 / size).max(1);
    for (row, shape) in ["uniform", "ascending", "descending"].into_iter().enumerate() {
        let deadlines: Vec<u64> = (0..size as u64)
            .map(|n| match shape {
                "uniform" => 3600 * SECOND + random.u64(..3600 * SECOND),
                "ascending" => n * 1000,
                _ => (size as u64 - n) * 1000,
            })
            .collect();
        let mut total = 0.0;
        for _ in 0..builds {
            let mut queue = Q::new();
            total += timed(builds * size, || {
                for (number, &deadline) in deadlines.iter().enumerate() {
                    black_box(queue.insert(deadline, number as u64));
                }
            });
        }
        rows[row] = total;
    }

    let mut queue = Q::new();
    let mut keys: Vec<Q::Key> = Vec::with_capacity(size);
    let mut number = 0;
    for _ in 0..size {
        keys.push(queue.insert(25 * SECOND + random.u64(..10 * SECOND), number));
        number += 1;
    }
    if Q::NAME != "std" {
        let mut cancelled = 0;
        // Half of it to warm up.
        let mut pairs = || {
            for _ in 0..operations {
                let key = &mut keys[random.usize(..size)];
                cancelled += usize::from(queue.cancel(*key));
                *key = queue.insert(25 * SECOND + random.u64(..10 * SECOND), number);
                number += 1;
            }
        };
        pairs();
        rows[3] = timed(operations, pairs);
        assert_eq!(cancelled, 2 * operations, "every key was good");
    }

    let mut queue = Q::new();
    for number in 0..size {
        queue.insert(random.u64(..SECOND), number as u64);
    }
    let mut last = (0, 0);
    let mut hold = |number: u64| {
        for number in number..number + operations as u64 {
            let head = queue.pop().expect("an entry");
            assert!(last <= head, "pops come in order");
            last = head;
            queue.insert(head.0 + random.u64(..SECOND), number);
        }
    };
    hold(size as u64);
    rows[4] = timed(operations, || hold((size + operations) as u64));

    let mut queue = Q::new();
    let mut total = 0.0;
    for _ in 0..builds {
        for number in 0..size {
            queue.insert(random.u64(..SECOND), number as u64);
        }
        total += timed(builds * size, || {
            let (mut last, mut count) = ((0, 0), 0);
            while let Some(head) = queue.pop() {
                assert!(last < head, "pops come in order");
                last = head;
                count += 1;
            }
            assert_eq!(count, size);
        });
    }
    rows[5] = total;
    rows
}

/// The most work in one call of each kind, at this size, while deadlines of every magnitude pass through.
fn largest(size: usize) -> [u64; 3] {
    let mut queue = TimerQueue::<&'static u64>::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut most = [0; 3];
    let mut keys = Vec::with_capacity(size);
    let mut number = 0;
    let mut insert = |queue: &mut TimerQueue<&'static u64>, random: &mut fastrand::Rng, from: u64| {
        let before = queue.work();
        number += 1;
        let key = Timers::insert(queue, from + (random.u64(..) >> random.u32(20..50)), number);
        (key, queue.work() - before)
    };
    for _ in 0..size {
        let (key, work) = insert(&mut queue, &mut random, 0);
        most[0] = most[0].max(work);
        keys.push(key);
    }
    for _ in 0..size {
        let before = queue.work();
        let head = Timers::pop(&mut queue).expect("an entry");
        most[2] = most[2].max(queue.work() - before);
        most[0] = most[0].max(insert(&mut queue, &mut random, head.0).1);
    }
    for key in keys {
        let before = queue.work();
        Timers::cancel(&mut queue, key);
        most[1] = most[1].max(queue.work() - before);
    }
    while !queue.is_empty() {
        let before = queue.work();
        Timers::pop(&mut queue);
        most[2] = most[2].max(queue.work() - before);
    }
    most
}

/// Bytes that a queue of pointers holds for each of this many entries at random deadlines.
fn bytes(size: usize) -> usize {
    let mut queue = TimerQueue::<&'static u64>::new();
    let mut random = fastrand::Rng::with_seed(2);
    for number in 0..size {
        Timers::insert(&mut queue, random.u64(..SECOND), number as u64);
    }
    let footprint = queue.footprint();
    // A stamp is 24 bytes, a slot a pointer and 8, a leaf 64.
    (footprint.stamps * 24 + footprint.slots * 16 + footprint.leaves * 64) / size
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let rounds = env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(5);
    let large = env::args().any(|word| word == "--large");
    let only_ours = env::args().any(|word| word == "--ours");
    let mut sizes = vec![1_000, 100_000, 1_000_000];
    if large {
        sizes.push(10_000_000);
    }
    println!("{:>10}  {:<14}{:>8}{:>8}{:>8}", "entries", "ns per", "queue", "4-heap", "std");
    for size in sizes {
        let mut samples: [Vec<[f64; ROWS.len()]>; 3] = Default::default();
        for seed in 0..rounds {
            samples[0].push(round::<TimerQueue<&'static u64>>(size, seed));
            if !only_ours {
                samples[1].push(round::<ReferenceHeap<&'static u64>>(size, seed));
                samples[2].push(round::<Std>(size, seed));
            }
        }
        for (row, name) in ROWS.into_iter().enumerate() {
            print!("{size:>10}  {name:<14}");
            for samples in samples.iter().filter(|samples| !samples.is_empty()) {
                print!("{:>8.1}", median(samples.iter().map(|rows| rows[row]).collect()));
            }
            println!();
        }
        let [insert, cancel, pop] = largest(size);
        println!("{size:>10}  most work in one call: insert {insert}, cancel {cancel}, pop {pop}");
        println!("{size:>10}  memory for an entry: {} bytes", bytes(size));
    }
}
