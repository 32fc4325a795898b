//! How do I get a value from work that runs later?

use punctual::Executor;
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(2);

    let answer = pool.schedule(Duration::from_millis(100), || 6 * 7)?;
    println!("scheduled {}, due {}", answer.id(), answer.remaining());

    // `join` blocks; `join_timeout` gives up for now, and the handle stays good.
    match answer.join_timeout(Duration::from_millis(10)) {
        Ok(value) => println!("already there: {value}"),
        Err(error) => println!("not yet: {error}"),
    }
    println!("the answer is {}", answer.join()?);

    // A body that panics costs nobody else anything; its handle says why there is no value.
    let broken = pool.submit(|| -> u32 { panic!("no luck today") })?;
    println!("{}", broken.join().unwrap_err());

    pool.close()?;
    Ok(())
}
