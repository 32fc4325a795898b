//! How do I run something every weekday at nine, where the office is?
//!
//! With a cron expression and the name of a time zone. Days on which the clocks change are the library's business.

use punctual::{Clock, Executor, ManualClock, Missed};
use std::error::Error;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_602_000)); // Fri 2026-03-27 10:00 in Berlin
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let report = pool
        .task(|| println!("the report is out"))
        .name("report")
        .cron("0 9 * * MON-FRI", "Europe/Berlin")?
        // The machine slept through nine o'clock? By noon it is still wanted, after that it is not.
        .missed(Missed::once().within(3 * HOUR))
        .start()?;

    // From Friday to Monday the clocks go forward: nine o'clock comes after 70 hours, not 71.
    println!("{}", report.info());
    clock.advance(70 * HOUR);
    assert_eq!(report.runs(), 1);

    // On Tuesday the machine wakes at ten: late, but wanted. On Wednesday at two in the afternoon: too late.
    for (hours, runs) in [(25, 2), (28, 2)] {
        clock.set_wall(clock.wall() + hours * HOUR);
        clock.advance(Duration::from_secs(60));
        assert_eq!(report.runs(), runs);
    }
    println!("{}, {} missed", report.info(), report.info().missed());
    report.cancel();
    pool.close()?;
    Ok(())
}
