//! W8: a task with no delay, and wait for its result; `n` times, one at a time.

use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, clock, failed, sample};

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let n: u64 = args.get("n", 20_000)?;
    let peer: P = peer::start(args.get("workers", 1)?)?;
    let mut producer = peer.producer();
    let mut nanos = Vec::with_capacity(n as usize);
    // The first are for the caches. Some peers take milliseconds for each, and are known after a few hundred.
    let end = clock::now() + 4_000_000_000;
    for at in 0..n + n / 4 {
        let start = clock::now();
        if start > end && nanos.len() > 100 {
            break;
        }
        let value = producer.ping(at);
        let took = clock::now() - start;
        if value != at {
            return failed(format!("asked for {at} and got {value}"));
        }
        if at >= n / 4 || start > end {
            nanos.push(took);
        }
    }
    drop(producer);
    std::mem::forget(peer);
    Ok(sample::distribution(Line::new(), nanos))
}
