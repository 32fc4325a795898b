//! What the machine itself charges: the least that any scheduler with the same promises would have to pay.
//!
//! `floor` is, for each workload, the bare operations with nothing in between; the two sleepers are one thread
//! that sleeps to each deadline in turn, with the least timer slack there is and with the kernel's default.

mod bare;
mod hand_off;
mod parts;
mod sleeper;

use crate::args::Args;
use crate::{Outcome, Trouble};

pub(crate) const NAMES: [&str; 5] = ["floor", "floor-apart", "floor-spin", "nanosleep-1ns", "nanosleep-50us"];

pub(crate) fn measure(name: &str, args: &Args) -> Outcome {
    match (name, args.workload.as_str()) {
        ("floor", "parts") => parts::run(),
        ("floor", "insert") => bare::insert(args),
        ("floor", "timeout") => bare::timeout(args),
        ("floor", "fire") => bare::fire(args),
        ("floor", "memory") => bare::memory(args),
        ("floor", "pause") => bare::pause(args),
        ("floor", "ping") => hand_off::parked_together(args),
        ("floor-apart", "ping") => hand_off::parked_apart(args),
        ("floor-spin", "ping") => hand_off::spinning(args),
        ("floor", "idle") => sleeper::idle(args),
        ("nanosleep-1ns", "lateness") => sleeper::lateness(1, args),
        ("nanosleep-50us", "lateness") => sleeper::lateness(50_000, args),
        ("nanosleep-1ns", "periodic") => sleeper::periodic(1, args),
        ("nanosleep-50us", "periodic") => sleeper::periodic(50_000, args),
        _ => Err(Trouble::Unsupported("no such floor")),
    }
}
