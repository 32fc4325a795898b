//! How do I keep a thousand tasks from starting in the same second?
//!
//! *Spread* gives each name a place of its own, always the same. *Jitter* rolls dice for each run. Neither is ever early,
//! and neither moves the schedule.

use punctual::{Clock, Executor, Jitter, ManualClock, Spread, Tick};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let starts = Arc::new(Mutex::new([0_u32; 60]));
    for n in 0..600 {
        let (starts, time) = (Arc::clone(&starts), clock.clone());
        let poll = move || {
            let second = time.now().since(Tick::ZERO).as_secs() % 60;
            starts.lock().expect("nobody panics")[usize::try_from(second).expect("it is small")] += 1;
        };
        pool.task(poll).name(format!("poll-{n}")).every(10 * MINUTE).spread(Spread::over(MINUTE)).start()?;
    }
    clock.advance(MINUTE);
    let starts = starts.lock().expect("nobody panics");
    println!("600 tasks, {} to {} in any second", starts.iter().min().unwrap(), starts.iter().max().unwrap());

    let dice = pool.task(|| ()).every(MINUTE).jitter(Jitter::up_to(MINUTE / 4)).start()?;
    for _ in 0..3 {
        clock.advance(MINUTE);
        println!("jitter: the next {}", dice.remaining());
    }
    drop(pool.shutdown_now());
    Ok(())
}
