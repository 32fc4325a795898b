//! How fast jobs are run that are all due.

use std::time::Duration;

use super::enqueue_in_batches;
use crate::os::{cpu, seconds};
use crate::peer::Working;
use crate::tally::Tally;
use crate::{Args, Job, Line, Peer, Trouble};

/// `n` jobs that do nothing, from the start of the worker until the store says that all are over.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let count = args.get("n", 100_000)?;
    let peer = P::open(args)?;
    let jobs: Vec<Job> = (0..count as u64).map(Job::now).collect();
    enqueue_in_batches(&peer, &jobs)?;
    let tally = Tally::of(count);
    let (began, cpu_before) = (seconds(), cpu());
    let working = peer.work(args, tally.on_run())?;
    tally.await_all()?;
    let ran = seconds() - began;
    while peer.left()? > 0 {
        std::thread::sleep(Duration::from_millis(5));
        if seconds() - began > ran + 60.0 {
            return crate::failed(format!("{} jobs have run and are not over", peer.left()?));
        }
    }
    let (took, cpu_took) = (seconds() - began, cpu() - cpu_before);
    working.stop()?;
    let runs = tally.take();
    runs.check(&args.peer)?;
    let line = Line::new().put("per_s", count as f64 / took).put("cpu_s", cpu_took);
    Ok(line.put("settle_ms", (took - ran) * 1e3).put("again", runs.again as f64))
}
