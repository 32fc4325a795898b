//! How fast jobs are accepted and run for a long time, always some thousands ahead.

use std::time::Duration;

use super::BATCH;
use crate::os::{cpu, seconds};
use crate::peer::Working;
use crate::tally::Tally;
use crate::{Args, Job, Line, Peer, Trouble, failed};

/// Not over at any time.
const AHEAD: usize = 20_000;
/// More than that nobody runs within the time.
const MOST: usize = 50_000_000;

/// For `seconds` somebody accepts jobs that are due at once while others are run, and then all are run to the end. Beside the
/// rate within that time (`per_s`) those of its first and its last quarter are told: what wears down shows there.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let lasts = args.get("seconds", 120)? as f64;
    let peer = P::open(args)?;
    let tally = Tally::of(MOST);
    let working = peer.work(args, tally.on_run())?;
    let (began, cpu_before) = (seconds(), cpu());
    let (mut sent, mut quarters) = (0, [0; 4]);
    while seconds() - began < lasts {
        while sent - tally.count() > AHEAD - BATCH {
            std::thread::sleep(Duration::from_micros(500));
        }
        let jobs: Vec<Job> = (sent..sent + BATCH).map(|n| Job::now(n as u64)).collect();
        peer.enqueue_many(&jobs)?;
        sent += BATCH;
        let quarter = (4.0 * (seconds() - began) / lasts) as usize;
        // What has run by the end of a quarter is what had by the last look in it.
        quarters[quarter.min(3)..].fill(tally.count());
    }
    let deadline = seconds() + 60.0;
    while tally.count() < sent || peer.left()? > 0 {
        std::thread::sleep(Duration::from_millis(5));
        if seconds() > deadline {
            return failed(format!("{} of {sent} jobs have run, {} are not over", tally.count(), peer.left()?));
        }
    }
    let cpu_took = cpu() - cpu_before;
    working.stop()?;
    let runs = tally.take();
    runs.check(&args.peer)?;
    let quarter = lasts / 4.0;
    let line = Line::new().put("per_s", quarters[3] as f64 / lasts).put("cpu_s", cpu_took);
    let line = line.put("first_per_s", quarters[0] as f64 / quarter);
    Ok(line.put("last_per_s", (quarters[3] - quarters[2]) as f64 / quarter).put("again", runs.again as f64))
}
