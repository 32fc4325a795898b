//! The program `punctual`: runs commands on schedules.
//!
//! ```text
//! main ── args ──▶ cmd/run ── file (read, check) ──▶ driver ── plan ──▶ punctual::Executor
//!                     │ signals, watch                  │                     │ due
//!                     ▼                                 ▼                     ▼
//!                  reload, drain, stop               runner ◀───────────── worker
//!                                                       │ process (start, watch, stop)
//!                                     report ◀──────────┘ sink (our output, log files)
//! ```
//!
//! When a job is due, how runs overlap, what is missed, and how retries are spaced is the library's business; what
//! a job does is ours.
#![forbid(unsafe_code)]

mod args;
mod board;
mod cmd;
mod driver;
mod exit;
mod file;
mod log_file;
mod plan;
mod process;
mod report;
mod runner;
mod sink;
mod watch;

use std::process::ExitCode;

use args::{Cli, Cmd};
use clap::Parser as _;

fn main() -> ExitCode {
    let exit = match Cli::parse().command {
        Cmd::Run(args) => cmd::run(&args),
        Cmd::Check(args) => cmd::check(&args),
        Cmd::Next(args) => cmd::next(&args),
        Cmd::Demo(args) => cmd::demo(&args),
        Cmd::Completions { shell } => cmd::completions(shell),
        Cmd::Man => cmd::man(),
    };
    exit.into()
}
