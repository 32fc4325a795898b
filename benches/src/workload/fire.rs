//! W3, W3b: `n` tasks with delays uniform in [0, `spread_ms`] from one producer, until all have run. With `body_ns=300` each takes
//! so long; with `nap_every=20` each twentieth sleeps for `nap_us`.

use std::time::Duration;

use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::tally::Tally;
use crate::{Outcome, clock, verify};

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let n: usize = args.get("n", 1_000_000)?;
    let workers: usize = args.get("workers", 1)?;
    let spread = args.millis("spread_ms", 100)?;
    let body = Body {
        busy: args.get("body_ns", 0)?,
        nap_every: args.get("nap_every", 0)?,
        nap: Duration::from_micros(args.get("nap_us", 50)?),
    };
    let peer: P = peer::start(workers)?;
    pass(&peer, n / 10, spread, body)?;
    let (submitted, took) = pass(&peer, n, spread, body)?;
    let mut line = Line::new().put("per_s", n as f64 * 1e9 / took as f64);
    line = line.put("submit_ns", submitted as f64 / n as f64);
    if workers == 1 {
        let spread = if spread.is_zero() { spread } else { Duration::from_millis(40) };
        let order = verify::order(&peer, spread)?;
        line = line.put("disorder", order.disorder as f64).put("early_us", order.early as f64 / 1000.0);
    }
    std::mem::forget(peer);
    Ok(line)
}

/// How long it took until the last was submitted, and until the last had run.
fn pass<P: Peer>(peer: &P, n: usize, spread: Duration, body: Body) -> Result<(u64, u64), crate::Trouble> {
    let tally = Tally::leaked(n);
    let mut random = fastrand::Rng::with_seed(1);
    let mut producer = peer.producer();
    let spread = spread.as_nanos() as u64;
    let start = clock::now();
    for task in 0..n {
        let delay = Duration::from_nanos(random.u64(..=spread));
        let handle = match body {
            Body { busy: 0, nap_every: 0, .. } => producer.schedule(delay, move || tally.mark(task)),
            _ => producer.schedule(delay, move || {
                body.run(task);
                tally.mark(task);
            }),
        };
        producer.leave(handle);
    }
    let submitted = clock::now() - start;
    tally.wait(verify::PATIENCE)?;
    Ok((submitted, clock::now() - start))
}

/// What a task does besides being counted.
#[derive(Clone, Copy)]
struct Body {
    /// It keeps the thread busy for so many nanoseconds, and those it takes to look at the clock.
    busy: u64,
    /// One of so many sleeps; none if this is zero.
    nap_every: usize,
    nap: Duration,
}

impl Body {
    fn run(self, task: usize) {
        if self.nap_every > 0 && task % self.nap_every == 0 {
            clock::sleep(self.nap);
        }
        if self.busy > 0 {
            let begun = clock::now();
            while clock::now() - begun < self.busy {}
        }
    }
}
