//! How do I keep a run from taking for ever?
//!
//! It gets a timeout. When the time is over the run is asked to stop and has failed, whatever it does then. A body that
//! does not listen cannot be stopped by anybody, but it does not go unnoticed.

use punctual::{Executor, Observer, OnFailure, TaskContext, TaskInfo};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

struct Watch;

impl Observer for Watch {
    fn overrunning(&self, task: TaskInfo<'_>, took: Duration) {
        println!("{task} was told to stop, and is still at it after {took:?}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::builder().core_threads(2).observer(Watch).build()?;
    let limit = Duration::from_millis(5);

    // One that listens: its sleep ends early. Each run has its own time.
    let polite = || TaskContext::current().sleep(Duration::from_secs(3600));
    let builder = pool.task(polite).name("polite").timeout(limit).every(4 * limit);
    let polite = builder.on_failure(OnFailure::StopAfter(3)).start()?;
    polite.wait()?;
    println!("{} runs, then: {}", polite.runs(), polite.failure().expect("it timed out"));

    // One that does not.
    let (let_go, held) = mpsc::channel::<()>();
    let rude = pool.task(move || held.recv()).name("rude").timeout(limit).start()?;
    while !rude.info().is_overrunning() {
        rude.wait_timeout(limit).ok();
    }
    let_go.send(())?;
    println!("{}", rude.join().expect_err("its value came too late"));
    pool.close()?;
    Ok(())
}
