//! How do I run something periodically so that it neither dies silently nor dies at all?
//!
//! A failure ends a periodic task by default, as in Java; unlike there it cannot go unnoticed. A beat that must go on
//! says so with a policy: it backs off while things are bad, and takes up its schedule when they are good again. Errors
//! and panics are the same to it, and both are told to the observer and remembered by the handle.

use punctual::{Executor, Observer, OnFailure, RunOutcome, TaskInfo};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

struct Report;

impl Observer for Report {
    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        match outcome {
            RunOutcome::Panicked(panic) => eprintln!("{task} panicked in run {}: {panic}", task.runs()),
            RunOutcome::Failed(error) => eprintln!("{task}, run {}: {error}", task.runs()),
            _ => println!("{task}, run {}: fine", task.runs()),
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

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::builder().core_threads(1).observer(Report).build()?;
    let (sender, beats) = mpsc::channel();
    let mut n = 0;
    let beat = move || {
        n += 1;
        sender.send(n).expect("somebody listens");
        ping(n)
    };
    let beat = pool
        .task(beat)
        .name("heartbeat")
        .every(Duration::from_millis(20))
        .on_failure(OnFailure::backoff(Duration::from_millis(5)..=Duration::from_secs(60)))
        .start()?;
    while beats.recv()? < 8 {}
    beat.cancel();
    println!("{} failures, and still alive:", beat.info().failures());
    for failed in beat.recent_failures() {
        println!("    {failed}");
    }
    pool.close()?;
    Ok(())
}
