//! How do I run something periodically so that it neither dies silently nor dies at all?
//!
//! A panic ends a periodic task, as in Java. Unlike there it cannot go unnoticed: the observer is told of every
//! run, and the handle resolves with the panic. Failures that are part of life belong in a `Result` that the body
//! deals with; for the others, a supervisor starts the beat anew.

use punctual::{Executor, Observer, RunOutcome, Scheduler, TaskHandle, TaskInfo};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Report;

impl Observer for Report {
    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        if let RunOutcome::Panicked(panic) = outcome {
            eprintln!("{task} panicked in run {}: {panic}", task.runs());
        }
    }
}

/// Fails now and then, and once does so badly.
fn ping(n: u32) -> Result<(), String> {
    match n {
        4 => panic!("a bug in beat {n}"),
        n if n % 3 == 0 => Err(format!("no answer to beat {n}")),
        _ => Ok(()),
    }
}

fn start_beat(pool: &Scheduler, count: &Arc<AtomicU32>) -> Result<TaskHandle<()>, Box<dyn Error>> {
    let count = Arc::clone(count);
    let beat = move || {
        let n = count.fetch_add(1, Ordering::Relaxed) + 1;
        match ping(n) {
            Ok(()) => println!("beat {n}"),
            Err(error) => println!("beat {n} failed and goes on: {error}"),
        }
    };
    Ok(pool.task(beat).name("heartbeat").every(Duration::from_millis(50)).start()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::builder().core_threads(1).observer(Report).build()?;
    let count = Arc::new(AtomicU32::new(0));
    let mut beat = start_beat(&pool, &count)?;
    while count.load(Ordering::Relaxed) < 8 {
        if beat.wait_timeout(Duration::from_millis(100)).is_ok() {
            println!(
                "the beat has stopped ({}); starting it anew",
                beat.failure().expect("it never succeeds")
            );
            beat = start_beat(&pool, &count)?;
        }
    }
    beat.cancel();
    pool.close()?;
    Ok(())
}
