//! Real processes, really killed, stopped and starved.
//!
//! The test starts itself again as other processes (`program.rs`), each with a node on a shared store. They tell what they
//! do in a side log that knows nothing of the store (`side_log.rs`). When all is over, a checker (`checker.rs`) compares
//! the two: nothing acknowledged is lost, everything has one outcome, nothing was early, no stale report was believed,
//! every occurrence of a schedule happened once, and what was to follow a job followed it, once and not before. What handlers
//! write to the database of the jobs, in transactions in which they complete them, happened exactly once (`books.rs`).
//!
//! | Fault | File |
//! |---|---|
//! | SIGKILL at random, and death between any two steps (`fuse.rs`) | `scenarios.rs` |
//! | SIGKILL, and how soon others take over: the figures | `outlived.rs` |
//! | SIGKILL of a process that copies one store to another | `copies.rs` |
//! | SIGSTOP for longer than a lease | `sqlite/stops.rs`, `postgres/mod.rs` |
//! | a server that is cut off, stopped and started again | `postgres/server.rs` |
//! | a disk that is full, a file or folder that is read-only | `sqlite/disk.rs`, `sqlite/full.rs` |
//! | a log that is cut off or garbled, as after a power cut | `sqlite/torn.rs` |
//! | a clock that is set an hour forward and back (`shift.rs`) | `sqlite/clocks.rs`, `postgres/clocks.rs` |
//! | a store that really does lose, repeat and hurry: does the checker notice? | `sqlite/seeded.rs` |
//!
//! The short form runs with the other tests. `cargo xtask chaos` runs the long form: `PUNCTUAL_CHAOS_CYCLES` is the number
//! of kills at random, and each test prints what it has seen.
#![cfg(all(feature = "sqlite", feature = "postgres", unix))]

mod books;
mod checker;
mod copies;
#[path = "../folder/mod.rs"]
mod folder;
mod fuse;
mod node;
mod outlived;
mod place;
mod postgres;
mod program;
mod scenarios;
mod shift;
mod side_log;
mod sqlite;
mod world;

use std::time::Duration;

use checker::Seen;

/// Real time after which processes that do nothing are taken for a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many processes are killed at random.
fn cycles() -> usize {
    std::env::var("PUNCTUAL_CHAOS_CYCLES").map_or(30, |text| text.parse().expect("a number of cycles"))
}

/// One line for `cargo xtask chaos`.
fn tell(what: &str, seen: Seen) {
    println!("chaos: {what}: {seen}");
}

/// Does nothing unless it is run as the program under test.
#[test]
fn child_process() {
    if let Ok(orders) = std::env::var(program::ORDERS) {
        program::run(&serde_json::from_str(&orders).unwrap());
    }
}
