//! How do I run something on a schedule of my own, and when does it end?
//!
//! A function is asked after each run when the next is due. Any schedule may end: after so many runs, at an instant, or
//! when the function says so; then the handle has a value.

use punctual::{Executor, ManualClock};
use std::error::Error;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;

    // Ever more rarely, until it is not worth it.
    let mut pause = SECOND;
    let poll = pool
        .task(|| println!("anything new?"))
        .next_by(move |run| {
            pause *= 2;
            (pause < 10 * SECOND).then(|| run.ended.after(pause))
        })
        .start()?;
    clock.advance(60 * SECOND);
    poll.join()?;
    println!("{} polls", poll.runs());

    let thrice = pool.task(|| ()).every(SECOND).at_most(3).start()?;
    let a_while = pool.task(|| ()).every(SECOND).until(10 * SECOND).start()?;
    clock.advance(60 * SECOND);
    println!("{} and {} runs", thrice.runs(), a_while.runs());
    assert_eq!((thrice.join()?, a_while.join()?), ((), ()));
    pool.close()?;
    Ok(())
}
