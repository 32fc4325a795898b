//! How long it takes until jobs are durable: one by one, and many in one call.

use super::enqueue_in_batches;
use crate::os::{cpu, seconds};
use crate::{Args, Job, Line, Peer, Trouble};

/// `n` jobs in calls of a thousand, then `single` one by one.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let (count, single) = (args.get("n", 100_000)?, args.get("single", 1_000)?);
    let peer = P::open(args)?;
    let jobs: Vec<Job> = (0..count).map(Job::now).collect();
    enqueue_in_batches(&peer, &jobs[..jobs.len().min(1_000)])?;
    let (began, cpu_before) = (seconds(), cpu());
    enqueue_in_batches(&peer, &jobs)?;
    let (took, cpu_took) = (seconds() - began, cpu() - cpu_before);
    let mut times = Vec::new();
    for n in 0..single {
        let began = seconds();
        peer.enqueue(&Job::now(n))?;
        times.push(((seconds() - began) * 1e6) as i64);
    }
    let expected = jobs.len() + jobs.len().min(1_000) + single as usize;
    let left = peer.left()?;
    if P::COUNTS_UNSEEN && left != expected as u64 {
        return crate::failed(format!("{left} jobs are in the store, and {expected} were accepted"));
    }
    let rate = jobs.len() as f64 / took;
    Ok(Line::new().put("per_s", rate).put("cpu_s", cpu_took).put_times(times))
}
