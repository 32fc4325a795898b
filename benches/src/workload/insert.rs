//! W1, W10: `n` tasks an hour away or more, from one or several producers.
//!
//! `order=descending` makes each new task the earliest: the worst for a heap, and every insert moves the wake-up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::producers::together;
use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, clock, failed, sample};

pub(crate) const HOUR: u64 = 3_600_000_000_000;

/// How many of the tasks have run. None should.
static RAN: AtomicU64 = AtomicU64::new(0);

/// The delay of insert `at` of `n`.
#[inline]
pub(crate) fn delay(descending: bool, at: usize, n: usize, random: &mut fastrand::Rng) -> Duration {
    Duration::from_nanos(match descending {
        true => 2 * HOUR - HOUR / n as u64 * at as u64,
        false => HOUR + random.u64(..HOUR),
    })
}

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let n: usize = args.get("n", 100_000)?;
    let producers: usize = args.get("producers", 1)?;
    let descending = args.get("order", "random".to_owned())? == "descending";
    // A short run is repeated with a new pool, lest it be over before the clock has noticed.
    let repeats = (100_000 / n).clamp(1, 50);
    let (mut nanos, mut settle) = (Vec::new(), 0);
    for repeat in 0..repeats {
        let peer: P = peer::start(args.get("workers", 1)?)?;
        let each = n / producers;
        let (took, _) = together(producers, |thread| {
            let mut random = fastrand::Rng::with_seed(thread as u64);
            let peer = &peer;
            move || {
                let mut producer = peer.producer();
                for at in 0..each {
                    let delay = delay(descending, at, each, &mut random);
                    let handle = producer.schedule(delay, || {
                        RAN.fetch_add(1, Relaxed);
                    });
                    producer.leave(handle);
                }
            }
        });
        nanos.push(took as f64 / (each * producers) as f64);
        // A peer that only takes notes while it is called has the work still before it.
        let before = clock::now();
        peer.producer().ping(1);
        settle = clock::now() - before;
        if RAN.load(Relaxed) > 0 {
            return failed("a task ran an hour early");
        }
        if peer.pending().is_some_and(|pending| pending != each * producers) {
            return failed(format!("{:?} tasks are pending, not {}", peer.pending(), each * producers));
        }
        match repeat + 1 < repeats {
            true => peer.stop(),
            false => std::mem::forget(peer),
        }
    }
    Ok(Line::new().put("ns", sample::median(nanos)).put("settle_ms", settle as f64 / 1e6))
}
