//! How do I keep producers from outrunning the pool?
//!
//! Bound what may wait. What comes then is refused, and the refusal returns the closure; or a policy deals with
//! it, for example by letting the producer do the work.

use punctual::{Executor, Rejection, TaskContext};
use std::error::Error;
use std::thread;
use std::time::Duration;

fn work(n: u32) {
    let _ = TaskContext::current().sleep(Duration::from_millis(2));
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    println!("item {n} on {name}");
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool =
        Executor::builder().core_threads(1).max_threads(2).capacity(2).thread_name("worker").build()?;

    for n in 0..6 {
        match pool.execute(move || work(n)) {
            Ok(()) => {}
            Err(rejected) => {
                println!("item {n}: {}; done elsewhere", rejected.reason());
                rejected.into_task()();
            }
        }
    }

    // The same as a policy.
    pool.set_rejection(Rejection::CallerRuns);
    for n in 10..16 {
        pool.execute(move || work(n))?;
    }
    pool.close()?;
    println!("{}", *pool);
    Ok(())
}
