//! What is waiting, and how do I get hold of it without having kept a handle?
//!
//! By name or by tag: look at it, pause it, run it now, move it, end it.

use punctual::{Executor, ManualClock, Steered};
use std::error::Error;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    pool.task(|| ()).name("report").tag("mail").after(6 * HOUR).every(24 * HOUR).start()?;
    pool.task(|| ()).name("digest").tag("mail").after(HOUR).every(HOUR).start()?;
    pool.task(|| Err::<(), _>("disk full")).name("backup").after(2 * HOUR).every(HOUR).start()?;
    clock.advance(2 * HOUR);

    // The backup has ended with its failure; the others wait.
    pool.tasks().iter().for_each(|task| println!("{task}"));
    assert!(pool.find("backup").is_none());

    // Once more now; the schedule does not move.
    let report = pool.find("report").ok_or("no report")?;
    assert_eq!(report.trigger_now(), Steered::Now);
    clock.wait_until_idle();
    println!("{}", report.info());

    // No mail while we are away, and no flood of it after that.
    for task in pool.tagged("mail") {
        assert!(task.pause().is_done());
    }
    clock.advance(72 * HOUR);
    for task in pool.tagged("mail") {
        assert!(task.resume().is_done());
        println!("{}, {} left out", task.info(), task.info().missed());
    }

    // An hour later today.
    assert_eq!(report.reschedule(5 * HOUR), Steered::Now);
    let next: Vec<String> = report.upcoming(3).iter().map(|at| format!("{at:?}")).collect();
    println!("then at {}", next.join(", "));
    assert!(report.cancel());
    assert_eq!(report.pause(), Steered::Over);
    pool.close()?;
    Ok(())
}
