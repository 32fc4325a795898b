//! What becomes of half past two on the night when the clocks skip it, and of half past one when they show it twice?
//!
//! What the schedule says: `gap` for the first, `overlap` for the second. By default either night has one run.

use punctual::{Clock, CronSchedule, Executor, Gap, ManualClock, WallOverlap};
use std::error::Error;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// Counts the runs of one day that begins at that instant, and prints when they happen.
fn one_day(name: &str, schedule: CronSchedule, midnight: u64) -> Result<u64, Box<dyn Error>> {
    let clock = ManualClock::new();
    clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(midnight));
    let pool = Executor::builder().clock(clock.clone()).build()?;
    for run in schedule.occurrences(clock.wall()).take_while(|run| run.at() < clock.wall() + 23 * HOUR) {
        println!("{name:<22} {run:#}");
    }
    let task = pool.task(|| ()).name(name).calendar(schedule).start()?;
    clock.advance(23 * HOUR);
    let runs = task.runs();
    task.cancel();
    pool.close()?;
    Ok(runs)
}

fn main() -> Result<(), Box<dyn Error>> {
    // 8 March 2026 in New York: 01:59:59 is followed by 03:00:00.
    let spring = 1_772_946_000;
    let nightly = CronSchedule::parse("30 2 * * *", "America/New_York")?;
    assert_eq!(one_day("gap: first valid", nightly.clone(), spring)?, 1);
    assert_eq!(one_day("gap: shift", nightly.clone().gap(Gap::Shift), spring)?, 1);
    assert_eq!(one_day("gap: skip", nightly.gap(Gap::Skip), spring)?, 0);

    // 1 November 2026: 01:59:59 is followed by 01:00:00.
    let autumn = 1_793_505_600;
    let early = CronSchedule::parse("30 1 * * *", "America/New_York")?;
    assert_eq!(one_day("overlap: first", early.clone(), autumn)?, 1);
    assert_eq!(one_day("overlap: second", early.clone().overlap(WallOverlap::Second), autumn)?, 1);
    assert_eq!(one_day("overlap: both", early.overlap(WallOverlap::Both), autumn)?, 2);
    Ok(())
}
