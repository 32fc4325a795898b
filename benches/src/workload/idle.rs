//! W7: one task an hour away, for `millis`: what does waiting cost?

use std::time::Duration;

use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, Trouble, clock, os};

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let peer: P = peer::start_at_most(args.get("workers", 2)?);
    let mut producer = peer.producer();
    let handle = producer.schedule(Duration::from_secs(3600), || {
        eprintln!("kit: a task ran an hour early");
        std::process::exit(1);
    });
    producer.leave(handle);
    let line = watch(args)?;
    drop(producer);
    std::mem::forget(peer);
    Ok(line)
}

/// Context switches and processor time of all threads but this one, after things have come to rest.
pub(crate) fn watch(args: &Args) -> Result<Line, Trouble> {
    let length = args.millis("millis", 5_000)?;
    clock::sleep(Duration::from_millis(100));
    let (switches, cpu) = (os::switches(), os::cpu());
    clock::sleep(length);
    let (switches, cpu) = (os::switches() - switches, os::cpu() - cpu);
    let seconds = length.as_secs_f64();
    Ok(Line::new()
        .put("switches_per_s", switches as f64 / seconds)
        .put("cpu_us_per_s", cpu as f64 / 1e3 / seconds))
}
