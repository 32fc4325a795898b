//! One measurement: `kit <workload> <peer> key=value…` prints one line of `key=value` results.
//!
//! One process per measurement, so that no peer warms the memory or leaves threads for the next, and resident
//! bytes mean what they say. `cargo xtask bench` runs many, interleaved, and makes tables of them.
//!
//! # What comes out
//! - exit code 0: measured and verified, the results on one line;
//! - exit code 1: a promise was broken (a task lost, run twice, run early, …), the reason on standard error;
//! - exit code 3: the peer cannot express the workload, `unsupported=` and the reason on one line.

mod args;
mod clock;
mod floor;
mod line;
mod os;
mod peer;
mod sample;
mod tally;
mod verify;
mod workload;

use std::process::ExitCode;

use args::Args;
use line::Line;
use peer::Peer;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The peer cannot do this, and why.
    Unsupported(&'static str),
    /// The run did not pass its own verification, or the command line is wrong.
    Failed(String),
}

pub(crate) type Outcome = Result<Line, Trouble>;

/// A failed verification, with its reason.
pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Failed(why.into()))
}

fn main() -> ExitCode {
    clock::now();
    let code = match Args::parse(std::env::args().skip(1)).and_then(|args| measure(&args)) {
        Ok(line) => {
            println!("{line}");
            0
        }
        Err(Trouble::Unsupported(why)) => {
            println!("unsupported={why}");
            3
        }
        Err(Trouble::Failed(why)) => {
            eprintln!("kit: {why}");
            1
        }
    };
    // Millions of tasks may be pending: end without dropping them one by one.
    std::process::exit(code)
}

fn measure(args: &Args) -> Outcome {
    match args.peer.as_str() {
        "punctual" => on::<peer::Punctual<1>>(args),
        "punctual-50us" => on::<peer::Punctual<50_000>>(args),
        "tokio" => on::<peer::Tokio>(args),
        "tokio-delay-queue" => on::<peer::TokioDelayQueue>(args),
        "scheduled-thread-pool" => on::<peer::ScheduledThreads>(args),
        "async-io" => on::<peer::AsyncIo>(args),
        "hash-wheel" => on::<peer::HashWheel>(args),
        floor if floor::NAMES.contains(&floor) => floor::measure(floor, args),
        engine if workload::pause::ENGINES.contains(&engine) => workload::pause::engine(engine, args),
        other => failed(format!("no peer `{other}`")),
    }
}

fn on<P: Peer>(args: &Args) -> Outcome {
    match args.workload.as_str() {
        "insert" => workload::insert::run::<P>(args),
        "timeout" => workload::timeout::run::<P>(args),
        "fire" => workload::fire::run::<P>(args),
        "lateness" => workload::lateness::run::<P>(args),
        "periodic" => workload::periodic::run::<P>(args),
        "memory" => workload::memory::run::<P>(args),
        "idle" => workload::idle::run::<P>(args),
        "ping" => workload::ping::run::<P>(args),
        "pause" => workload::pause::run::<P>(args),
        other => failed(format!("no workload `{other}`")),
    }
}
