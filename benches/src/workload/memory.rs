//! W6: resident bytes for each of `n` pending tasks whose closure captures 16 bytes; the handle dropped or kept.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::insert::{HOUR, delay};
use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, failed, os};

static RAN: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let n: usize = args.get("n", 1_000_000)?;
    let keep = args.get("keep", 0)? == 1;
    let peer: P = peer::start(args.get("workers", 1)?)?;
    let mut producer = peer.producer();
    let mut random = fastrand::Rng::with_seed(1);
    let mut handles = Vec::with_capacity(if keep { n } else { 0 });
    let before = os::resident();
    for at in 0..n {
        let captured = (at as u64, HOUR);
        let handle = producer.schedule(delay(false, at, n, &mut random), move || {
            RAN.fetch_add(captured.0 | captured.1, Relaxed);
        });
        match keep {
            true => handles.push(handle),
            false => producer.leave(handle),
        }
    }
    // Whatever the peer does after the call is done, and has its memory.
    producer.ping(1);
    let after = os::resident();
    if RAN.load(Relaxed) > 0 {
        return failed("a task ran an hour early");
    }
    if peer.pending().is_some_and(|pending| pending != n) {
        return failed(format!("{:?} tasks are pending, not {n}", peer.pending()));
    }
    std::mem::forget(handles);
    drop(producer);
    std::mem::forget(peer);
    Ok(Line::new().put("bytes", (after - before) as f64 / n as f64))
}
