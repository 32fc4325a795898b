//! So many operations on a queue of so many entries, and nothing else: for a tool that counts instructions.
//!
//! ```text
//! count_engine <operation> <entries> <operations>
//! ```
//!
//! `cargo xtask count` runs it twice with different numbers of operations; the difference is what the operations cost,
//! whatever start, filling and end did. So everything here is the same in every run: the seed is fixed, the time is not
//! asked, and the queue is left to the operating system at the end.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use punctual_engine::{TaskKey, Tick, TimerQueue};

const SECOND: u64 = 1_000_000_000;

/// A queue that is filled, and what is needed to go on with it.
struct Filled {
    queue: TimerQueue<&'static u64>,
    keys: Vec<TaskKey>,
    random: fastrand::Rng,
    number: u64,
}

impl Filled {
    fn new(entries: usize) -> Self {
        let mut filled = Self {
            queue: TimerQueue::new(),
            keys: Vec::with_capacity(entries),
            random: fastrand::Rng::with_seed(1),
            number: 0,
        };
        for _ in 0..entries {
            let key = filled.insert_within(SECOND, 10 * SECOND);
            filled.keys.push(key);
        }
        filled
    }

    fn insert(&mut self, deadline: u64) -> TaskKey {
        self.number += 1;
        self.queue.insert(Tick::from_nanos(deadline), self.number, &0)
    }

    fn insert_within(&mut self, from: u64, length: u64) -> TaskKey {
        let deadline = from + self.random.u64(..length);
        self.insert(deadline)
    }

    fn pop(&mut self) -> Result<u64, String> {
        let fired = self.queue.pop().ok_or("the queue is empty: fewer operations, or more entries")?;
        Ok(fired.deadline.as_nanos())
    }
}

fn run(operation: &str, entries: usize, operations: usize) -> Result<(), String> {
    let mut filled = Filled::new(entries);
    match operation {
        "insert" => {
            for _ in 0..operations {
                black_box(filled.insert_within(SECOND, 10 * SECOND));
            }
        }
        "insert-ascending" => {
            for n in 0..operations as u64 {
                black_box(filled.insert(11 * SECOND + n * 1000));
            }
        }
        "insert-descending" => {
            for n in 0..operations as u64 {
                black_box(filled.insert(SECOND - n * 1000));
            }
        }
        "cancel+insert" => {
            for _ in 0..operations {
                let at = filled.random.usize(..entries);
                filled.queue.cancel(filled.keys[at]).ok_or("a key was not good")?;
                filled.keys[at] = filled.insert_within(SECOND, 10 * SECOND);
            }
        }
        "hold" => {
            for _ in 0..operations {
                let head = filled.pop()?;
                filled.insert_within(head, 10 * SECOND);
            }
        }
        "pop" => {
            for _ in 0..operations {
                black_box(filled.pop()?);
            }
        }
        other => return Err(format!("there is no operation `{other}`")),
    }
    // Without dropping it entry by entry: that would be counted, too.
    std::mem::forget(black_box(filled));
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let numbers = |words: &[String]| Some((words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?));
    let outcome = match (words.first(), numbers(&words)) {
        (Some(operation), Some((entries, operations))) => run(operation, entries, operations),
        _ => Err("usage: count_engine <operation> <entries> <operations>".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("count_engine: {why}");
            ExitCode::FAILURE
        }
    }
}
