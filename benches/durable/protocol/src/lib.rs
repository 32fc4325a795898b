//! What is measured of durable jobs: the same workloads, on the same clock, with the same checks, for everybody.
//!
//! `<program> <workload> <peer> url=… key=value…` prints one line of `key=value` results. One process for each
//! measurement, on a store of its own.
//!
//! # What comes out
//! - exit code 0: measured and verified, the results on one line;
//! - exit code 1: a promise was broken (a job lost, run early, …), the reason on standard error;
//! - exit code 3: the peer cannot express the workload, `unsupported=` and the reason on one line.
//!
//! # Verification
//! Every job carries its number. All of them must have run before a measurement ends, and the store must say that none is
//! left. Runs beyond the first of a job are counted (`again`), and so are those before the due time (`early`): peers
//! whose promises allow that are not failed for it, we are.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod args;
mod job;
mod line;
mod os;
mod peer;
mod tally;
mod workload;

use std::process::ExitCode;

pub use args::Args;
pub use job::Job;
pub use line::Line;
pub use os::{cpu_of, micros};
pub use peer::{OnRun, Peer, Working};

/// Why there is no result.
#[derive(Debug)]
pub enum Trouble {
    /// The peer cannot do this, and why.
    Unsupported(&'static str),
    /// The run did not pass its own verification, or the command line is wrong.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        let (mut text, mut behind) = (error.to_string(), error.source());
        while let Some(error) = behind {
            text += &format!(": {error}");
            behind = error.source();
        }
        Self::Failed(text)
    }
}

/// A failed verification, with its reason.
pub fn failed<T>(why: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Failed(why.into()))
}

/// Measures what the command line says; `choose` finds the peer of that name and calls [`run`] with it.
pub fn main(choose: impl FnOnce(&Args) -> Result<Line, Trouble>) -> ExitCode {
    let code = match Args::parse(std::env::args().skip(1)).and_then(|args| choose(&args)) {
        Ok(line) => {
            println!("{line}");
            0
        }
        Err(Trouble::Unsupported(why)) => {
            println!("unsupported={why}");
            3
        }
        Err(Trouble::Failed(why)) => {
            eprintln!("{why}");
            1
        }
    };
    // Whatever still runs in the background is of no interest any more.
    std::process::exit(code)
}

/// Runs the workload that is named on `P`.
pub fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    match args.workload.as_str() {
        "enqueue" => workload::enqueue::run::<P>(args),
        "burn" => workload::burn::run::<P>(args),
        "flow" => workload::flow::run::<P>(args),
        "late" => workload::late::run::<P>(args),
        "start" => workload::start::run::<P>(args),
        "restart" => workload::restart::run::<P>(args),
        workload::start::WORKER => workload::start::work::<P>(args),
        workload::restart::WORKER => workload::restart::work::<P>(args),
        other => failed(format!("no workload `{other}`")),
    }
}
