//! What if a run is still going on when the next is due?
//!
//! By default the next one waits, as in Java. It can also replace the one that is going on, or run beside it.

use punctual::{Executor, ManualClock, Overlap, TaskContext};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(3).clock(clock.clone()).build()?;

    // A download that hangs is given up when the next one is due. Being replaced is no failure.
    let (sender, given_up) = mpsc::channel();
    let download = move || {
        let result = TaskContext::current().sleep(3600 * SECOND);
        sender.send(TaskContext::current().runs()).expect("somebody listens");
        result
    };
    let download =
        pool.task(download).name("download").every(10 * SECOND).overlap(Overlap::Replace).start()?;
    clock.advance(30 * SECOND);
    println!("{} downloads begun, given up: {:?}", download.runs(), given_up.try_iter().collect::<Vec<_>>());
    download.interrupt();

    // Probes may overlap, two at a time, because their body can be shared; a third is left out.
    let probe = || TaskContext::current().sleep(25 * SECOND);
    let probes =
        pool.task(probe).name("probe").every(10 * SECOND).overlap(Overlap::Allow(2)).start_shared()?;
    clock.advance(20 * SECOND);
    println!("{} probes at once, {} without a place", pool.stats().active, probes.info().missed());
    assert_eq!((pool.stats().active, probes.info().missed()), (2, 1));
    probes.interrupt();
    pool.close()?;
    Ok(())
}
