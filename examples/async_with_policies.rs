//! How do I give an async body a timeout, retries, or a policy for failures?
//!
//! `task_async` is the same builder as `task`: whatever can be said of a closure can be said of one that makes a
//! future for each run. A run lasts from its first poll until the future is ready.

use punctual::{Backoff, Executor, OnFailure, Overlap, Scheduler};
use std::error::Error;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

/// A service that answers the sooner the more often it is asked.
async fn ask(timers: Scheduler, attempt: u32) -> Result<String, String> {
    timers.sleep(STEP * 8 / attempt).await.map_err(|lost| lost.to_string())?;
    if attempt < 3 {
        Err(format!("attempt {attempt}: busy"))
    } else {
        Ok(format!("after {attempt} attempts"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // One thread is enough: a future that waits holds none.
    let pool = Executor::new(1);

    // Each attempt is a new future, and one that takes longer than its timeout is dropped.
    let timers = pool.scheduler();
    let mut attempt = 0;
    let answer = pool
        .task_async(move || {
            attempt += 1;
            ask(timers.clone(), attempt)
        })
        .name("ask")
        .timeout(STEP * 5)
        .retry(Backoff::between(STEP..=4 * STEP).give_up_after(5))
        .start()?;
    println!("answered {}", answer.join()??);

    // A poll that hangs is replaced by the next; failures are counted, and the series goes on.
    let timers = pool.scheduler();
    let poll = pool
        .task_async(move || timers.sleep(Duration::from_secs(3600)))
        .name("poll")
        .tag("housekeeping")
        .every(STEP)
        .overlap(Overlap::Replace)
        .on_failure(OnFailure::Continue)
        .at_most(3)
        .start()?;
    poll.join()?;
    println!("polled, and never waited for an hour");

    // Up to four probes at once, on one thread.
    let timers = pool.scheduler();
    let probe = pool
        .task_async(move || timers.sleep(3 * STEP))
        .every(STEP)
        .overlap(Overlap::Allow(4))
        .at_most(8)
        .start_shared()?;
    probe.join()?;
    println!("{} probes were sent", probe.runs());

    pool.close()?;
    Ok(())
}
