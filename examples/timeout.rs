//! How do I limit the time of something, when the limit is usually not needed?
//!
//! Scheduling and cancelling costs well under a microsecond, and of a cancelled task nothing is left: what it captured is
//! dropped at once, and its entry in the queue goes with the next few. So a million limits a second leak nothing.

use punctual::{Executor, TaskContext};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(2);

    // A guard: falls out of scope, timer gone.
    for request in 0..100_000_u32 {
        let _guard = pool
            .schedule(Duration::from_secs(30), move || eprintln!("request {request} hangs"))?
            .cancel_on_drop();
        // ... the request, which is quick
    }
    println!("after 100000 guarded requests: {}", *pool);

    // A task with a limit on its own time: when it is over, the body is asked to stop.
    let slow = pool.submit_with_timeout(Duration::from_millis(20), || {
        let outcome = TaskContext::current().sleep(Duration::from_secs(3600));
        println!("the slow body was {}", if outcome.is_err() { "interrupted" } else { "left alone" });
    })?;
    println!("{}", slow.join().unwrap_err());

    // Or a stand-in for the value.
    let stand_in = pool.submit_with_fallback(
        Duration::from_millis(20),
        || {
            let _ = TaskContext::current().sleep(Duration::from_secs(3600));
            "fresh"
        },
        || "stale",
    )?;
    println!("served the {} page", stand_in.join()?);

    pool.close()?;
    Ok(())
}
