//! How late jobs start that are due one after the other, while many wait.

use super::enqueue_in_batches;
use crate::os::cpu;
use crate::peer::Working;
use crate::tally::{Tally, spread};
use crate::{Args, Job, Line, Peer, Trouble, micros};

/// `n` jobs due over `seconds`, among `waiting` that are due tomorrow.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let (count, waiting) = (args.get("n", 10_000)?, args.get("waiting", 100_000)?);
    let duration = args.get("seconds", 10)?;
    let peer = P::open(args)?;
    let tomorrow = micros() + 86_400_000_000;
    let idle: Vec<Job> = (0..waiting).map(|n: i64| Job::at(Job::WAITS, tomorrow + n)).collect();
    enqueue_in_batches(&peer, &idle)?;
    drop(idle);
    let tally = Tally::of(count);
    let working = peer.work(args, tally.on_run())?;
    // Time for the jobs to be accepted, and for workers that elect a leader to have one.
    let lead = 7_000_000 + 100 * count as i64;
    let begin = micros() + lead;
    enqueue_in_batches(&peer, &spread(count, begin, duration))?;
    if micros() > begin {
        return crate::failed("accepting the jobs took longer than until the first was due");
    }
    let cpu_before = cpu();
    tally.await_all()?;
    let cpu_took = cpu() - cpu_before;
    working.stop()?;
    let runs = tally.take();
    runs.check(&args.peer)?;
    let line = Line::new().put_times(runs.lateness.clone()).put("cpu_s", cpu_took);
    Ok(line.put("early", runs.early as f64).put("again", runs.again as f64))
}
