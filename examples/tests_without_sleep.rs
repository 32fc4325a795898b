//! How do I test timed code without sleeping?
//!
//! Give it a `ManualClock`. The threads are real; only time is yours.

use punctual::{Clock, Executor, ManualClock, Scheduler, TaskHandle, Tick};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// What is to be tested: a report every hour, first in half an hour.
fn start_reports(pool: &Scheduler, to: mpsc::Sender<Duration>) -> Result<TaskHandle<()>, Box<dyn Error>> {
    let clock = pool.clock();
    let report = move || {
        let now = Duration::from_nanos(clock.now().as_nanos());
        to.send(now).expect("somebody listens");
    };
    Ok(pool.task(report).name("report").after(HOUR / 2).every(HOUR).start()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let (sender, reports) = mpsc::channel();
    let handle = start_reports(&pool, sender)?;

    // `advance` stops at every deadline on the way and returns when all that came due has run.
    clock.advance(HOUR / 2 - Duration::from_nanos(1));
    assert_eq!(reports.try_iter().count(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [HOUR / 2]);
    clock.advance(24 * HOUR);
    assert_eq!(reports.try_iter().count(), 24);

    // `advance_to_next` asks when something happens next; `jump` makes things late.
    assert_eq!(clock.advance_to_next(), Some(HOUR));
    handle.cancel();
    assert_eq!(clock.advance_to_next(), None);

    println!("{:?} of clock time and 26 reports, without a sleep", clock.now().since(Tick::ZERO));
    pool.close()?;
    Ok(())
}
