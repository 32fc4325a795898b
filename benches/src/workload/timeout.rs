//! W2, W10: with `pending` tasks waiting, each operation schedules one for 30 ± 5 s and cancels a random earlier one.
//! With very many, `seconds=300` gives time to fill; with `held=1` each task holds something that is to be dropped with it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::producers::together;
use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, Trouble, clock, failed, os, verify};

static RAN: AtomicU64 = AtomicU64::new(0);

/// Within a sixth of `seconds`.
fn delay(seconds: u64, random: &mut fastrand::Rng) -> Duration {
    let sixth = seconds * 1_000_000_000 / 6;
    Duration::from_nanos(5 * sixth + random.u64(..2 * sixth))
}

fn count() {
    RAN.fetch_add(1, Relaxed);
}

/// What a task holds: to drop it takes next to no time, but somebody has to.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        std::hint::black_box(self);
    }
}

fn schedule<P: Producer>(producer: &mut P, delay: Duration, holds: bool) -> P::Handle {
    if !holds {
        return producer.schedule(delay, count);
    }
    let held = Held;
    producer.schedule(delay, move || {
        let _held = held;
        count();
    })
}

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let pending: usize = args.get("pending", 100_000)?;
    let operations: usize = args.get("n", 200_000)?;
    let producers: usize = args.get("producers", 1)?;
    let seconds: u64 = args.get("seconds", 30)?;
    let holds = args.get("held", 0)? != 0;
    let peer: P = peer::start(args.get("workers", 1)?)?;
    let each = operations / producers;
    let begun = clock::now();
    let (took, results) = together(producers, |thread| {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        let mut producer = peer.producer();
        let mut handles: Vec<_> = (0..pending / producers)
            .map(|_| schedule(&mut producer, delay(seconds, &mut random), holds))
            .collect();
        let mut pairs = move |operations: usize| {
            let mut missed = 0;
            for _ in 0..operations {
                let at = random.usize(..handles.len());
                let new = schedule(&mut producer, delay(seconds, &mut random), holds);
                let old = std::mem::replace(&mut handles[at], new);
                missed += usize::from(producer.cancel(old)? == Some(false));
            }
            Ok((missed, handles.len()))
        };
        let warm_up = pairs(each / 2);
        let before = os::resident();
        move || {
            let (missed, left) = warm_up?;
            let (more, _) = pairs(each)?;
            // The handles, and with them what a peer would cancel, outlive the measurement.
            std::mem::forget(pairs);
            Ok((missed + more, left, os::resident().saturating_sub(before)))
        }
    });
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let missed: usize = results.iter().map(|(missed, ..)| missed).sum();
    let left: usize = results.iter().map(|(_, left, _)| left).sum();
    let grown = results.iter().map(|(.., grown)| *grown).max().unwrap_or(0);
    if clock::now() - begun > seconds * 800_000_000 {
        return Err(Trouble::Unsupported("too slow: tasks came due before it was done"));
    }
    if missed > 0 {
        return failed(format!("{missed} cancels were refused, yet nothing was due"));
    }
    if RAN.load(Relaxed) > 0 {
        return failed("a task ran early, or although it was cancelled");
    }
    if peer.pending().is_some_and(|pending| pending != left) {
        return failed(format!("{:?} tasks are pending, not {left}", peer.pending()));
    }
    let before = clock::now();
    peer.producer().ping(1);
    let settle = clock::now() - before;
    verify::cancels(&peer)?;
    std::mem::forget(peer);
    let pairs = (each * producers) as f64;
    Ok(Line::new()
        .put("ns", took as f64 / pairs)
        .put("grown_bytes", grown as f64 / pairs)
        .put("settle_ms", settle as f64 / 1e6))
}
