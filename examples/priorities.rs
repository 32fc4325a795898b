//! How do I let urgent work go first without starving the rest?
//!
//! With a head start: among tasks that wait for a thread, it counts as if it had been due so much earlier. What has waited
//! longer than that goes before it.

use punctual::{Executor, ManualClock, Priority};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(1).clock(clock.clone()).build()?;
    let (sender, order) = mpsc::channel();
    let say = |word: String| {
        let sender = sender.clone();
        move || sender.send(word).expect("somebody listens")
    };

    for second in [5, 25, 45, 55] {
        pool.task(say(format!("bulk of {second}"))).after(second * SECOND).start()?;
    }
    pool.task(say("alarm of 50".into())).after(50 * SECOND).priority(Priority::ahead(30 * SECOND)).start()?;
    // The machine sleeps for a minute, and then all of it is due.
    clock.jump(60 * SECOND);
    clock.wait_until_idle();
    let order: Vec<String> = order.try_iter().collect();
    println!("{}", order.join(", "));
    assert_eq!(order[1], "alarm of 50");
    pool.close()?;
    Ok(())
}
