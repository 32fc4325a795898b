//! How do I run something at a time of day, and what if the clock is set?
//!
//! A calendar says which instants it means; the task follows the wall clock. It never runs before its time there, never
//! twice for one instant, and what the clock was set over is missed like anything else.

use punctual::{Clock, Executor, ManualClock, Missed};
use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// Every full hour. A cron expression in a time zone is a calendar, too.
fn full_hour(after: SystemTime) -> Option<SystemTime> {
    let passed = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / 3600;
    Some(SystemTime::UNIX_EPOCH + HOUR * u32::try_from(passed + 1).ok()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let (sender, chimes) = mpsc::channel();
    let wall = clock.clone();
    let minutes = move |clock: &ManualClock| {
        clock.wall().duration_since(SystemTime::UNIX_EPOCH).map(|passed| passed.as_secs() / 60)
    };
    let chime = move || sender.send(minutes(&wall)).expect("somebody listens");
    let task = pool.task(chime).name("chime").calendar(full_hour).missed(Missed::once()).start()?;
    let heard = || chimes.try_iter().collect::<Result<Vec<u64>, _>>();

    clock.advance(HOUR + HOUR / 2);
    println!("half past one:                  {:?}", heard()?);

    // Back to 00:50. One o'clock comes again, and has been struck.
    clock.set_wall(SystemTime::UNIX_EPOCH + HOUR * 5 / 6);
    clock.advance(HOUR);
    println!("an hour after the step back:    {:?}", heard()?);

    // Forward by five hours and a half: one stroke for all that were skipped, within a minute.
    clock.set_wall(clock.wall() + HOUR * 11 / 2);
    clock.advance(Duration::from_secs(60));
    println!("a minute after the step ahead:  {:?}, and {} missed", heard()?, task.info().missed());
    task.cancel();
    pool.close()?;
    Ok(())
}
