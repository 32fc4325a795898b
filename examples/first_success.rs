//! How do I run many things at once, and take all results, the first, or each as it comes?

use punctual::{CompletionQueue, Executor, TaskContext};
use std::error::Error;
use std::time::Duration;

/// Answers after `millis`, or gives up at once where there is nobody.
fn fetch(mirror: &'static str, millis: u64) -> Result<String, String> {
    if millis == 0 {
        return Err(format!("{mirror} is down"));
    }
    TaskContext::current().sleep(Duration::from_millis(millis)).map_err(|stopped| stopped.to_string())?;
    Ok(format!("page from {mirror}"))
}

const MIRRORS: [(&str, u64); 3] = [("oslo", 60), ("lima", 0), ("kyoto", 20)];

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(3);

    // The first that succeeds; the others are interrupted.
    println!("any: {}", pool.invoke_any(MIRRORS.map(|(mirror, millis)| move || fetch(mirror, millis)))?);

    // All, in the order given.
    for handle in pool.invoke_all(MIRRORS.map(|(mirror, millis)| move || fetch(mirror, millis)))? {
        println!("all: {:?}", handle.join()?);
    }

    // Each as it comes.
    let queue = CompletionQueue::new();
    for (mirror, millis) in MIRRORS {
        queue.submit(&pool, move || fetch(mirror, millis))?;
    }
    while let Some(handle) = queue.take()? {
        println!("next: {:?}", handle.join()?);
    }

    pool.close()?;
    Ok(())
}
