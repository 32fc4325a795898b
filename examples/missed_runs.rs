//! What happens to runs whose time has passed?
//!
//! A run takes longer than its period, the machine sleeps, every thread is busy: some points of the schedule cannot be
//! met. Each task says what it wants then. Here every policy has the same bad day: a poll every ten minutes, the first
//! of which hangs for 25.

use punctual::{Clock, Executor, ManualClock, Missed, TaskContext, Tick};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// The minutes at which a poll begins within the first hour, and how many were left out before each.
fn polls(missed: Missed) -> Result<Vec<(u64, u64)>, Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let (sender, polls) = mpsc::channel();
    let time = clock.clone();
    let poll = move || {
        let context = TaskContext::current();
        let minute = time.now().since(Tick::ZERO).as_secs() / 60;
        sender.send((minute, context.missed())).expect("somebody listens");
        if context.runs() == 1 {
            time.jump(25 * MINUTE); // it hangs
        }
    };
    pool.task(poll).every(10 * MINUTE).missed(missed).start()?;
    clock.wait_until_idle();
    clock.advance(15 * MINUTE);
    drop(pool.shutdown_now());
    Ok(polls.try_iter().collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, policy) in [
        ("burst: every run, late ones back to back", Missed::burst()),
        ("skip: on with the next point", Missed::skip()),
        ("once: one run for all that were missed", Missed::once()),
        ("shift: the schedule starts anew", Missed::shift()),
        ("burst, but at most one to catch up", Missed::burst().at_most(1)),
        ("burst, but nothing later than 10 minutes", Missed::burst().within(10 * MINUTE)),
    ] {
        println!("{name:<42} {:?}", polls(policy)?);
    }
    Ok(())
}
