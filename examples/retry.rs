//! How do I try something again until it works?
//!
//! With pauses that grow, a random part so that all who failed together do not come back together, and an end. No
//! thread waits in between.

use punctual::{Backoff, Executor, Jitter};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(1);
    let backoff = Backoff::between(Duration::from_millis(2)..=Duration::from_millis(50))
        .jitter(Jitter::up_to(Duration::from_millis(2)))
        .give_up_after(10);

    let mut attempts = 0;
    let fetch = move || {
        attempts += 1;
        if attempts < 4 { Err(format!("attempt {attempts}: connection refused")) } else { Ok("a page") }
    };
    let page = pool.task(fetch).name("fetch").timeout(Duration::from_secs(5)).retry(backoff).start()?;

    println!("the worker is free meanwhile: {}", pool.submit(|| 6 * 7)?.join()?);
    println!("{:?} after {} attempts", page.join()?, page.runs());
    for failed in page.recent_failures() {
        println!("    {failed}");
    }
    pool.close()?;
    Ok(())
}
