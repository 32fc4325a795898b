//! What if a periodic task fails?
//!
//! Its body may return a `Result`; an `Err` is a failure as a panic is. In Java the series would end, silently. Here it
//! ends by default as well, but never silently, and a policy can say otherwise.

use punctual::{Executor, ManualClock, OnFailure};
use std::error::Error;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A service that is down for a while.
fn beat() -> impl FnMut() -> Result<(), String> + Send + 'static {
    let mut beats = 0;
    move || {
        beats += 1;
        match beats {
            3..=6 => Err(format!("no answer to beat {beats}")),
            _ => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    for (name, policy) in [
        ("stop", OnFailure::Stop),
        ("stop after three in a row", OnFailure::StopAfter(3)),
        ("continue", OnFailure::Continue),
        ("back off, then the schedule again", OnFailure::backoff(SECOND..=60 * SECOND)),
    ] {
        let task = pool.task(beat()).name(name).every(5 * SECOND).on_failure(policy).start()?;
        clock.advance(60 * SECOND);
        println!("{}", task.info());
        for failed in task.recent_failures() {
            println!("    at {:?}: {failed}", failed.started());
        }
        task.cancel();
    }
    pool.close()?;
    Ok(())
}
