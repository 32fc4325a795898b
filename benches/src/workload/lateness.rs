//! W4: `rate` tasks a second for `millis`, at random instants, all scheduled beforehand: how late do they start,
//! and what does it cost?
//!
//! A task is meant for an absolute instant D and scheduled with the delay D − now. The pool reads its clock after
//! we did, so its deadline is at D or a little after: a start before D is early for certain.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, Trouble, clock, failed, os, sample, verify};

/// The instants, in the order in which they are scheduled, and the start of the window.
pub(crate) fn instants(args: &Args) -> Result<(u64, u64, Vec<u64>), Trouble> {
    let rate: u64 = args.get("rate", 10_000)?;
    let length = args.millis("millis", 5_000)?.as_nanos() as u64;
    let n = rate * length / 1_000_000_000;
    // Time to schedule them all, also for a slow peer.
    let start = clock::now() + 300_000_000 + n * 4_000;
    let mut random = fastrand::Rng::with_seed(rate);
    let instants = (0..n).map(|_| start + random.u64(..length)).collect();
    Ok((start, start + length, instants))
}

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let peer: P = peer::start_at_most(args.get("workers", 2)?);
    let (window, end, instants) = instants(args)?;
    // What a start was, relative to the instant meant: 0 is "not yet", 1 on time.
    let starts: &'static [AtomicU64] = Vec::leak(instants.iter().map(|_| AtomicU64::new(0)).collect());
    let mut producer = peer.producer();
    for (task, instant) in instants.iter().copied().enumerate() {
        let handle = producer.schedule(clock::left(instant), move || {
            if starts[task].swap(clock::now(), Relaxed) != 0 {
                eprintln!("kit: task {task} ran twice");
                std::process::exit(1);
            }
        });
        producer.leave(handle);
    }
    let overrun = clock::now() > window;
    clock::sleep(clock::left(window));
    let cpu = os::cpu();
    clock::sleep(clock::left(end));
    let all_ran = || starts.iter().all(|start| start.load(Relaxed) != 0);
    if !clock::eventually(verify::PATIENCE, all_ran) {
        return failed("a task did not run");
    }
    let cpu = os::cpu() - cpu;
    drop(producer);
    std::mem::forget(peer);
    let pairs = || instants.iter().zip(starts.iter().map(|start| start.load(Relaxed)));
    let early = pairs().map(|(instant, start)| instant.saturating_sub(start)).max().unwrap_or(0);
    verify::early::<P>(early)?;
    let late = pairs().map(|(instant, start)| start.saturating_sub(*instant)).collect();
    let line = sample::distribution(Line::new(), late).put("cpu_ms", cpu as f64 / 1e6);
    Ok(line.put("early_us", early as f64 / 1000.0).put("overrun", f64::from(u8::from(overrun))))
}
