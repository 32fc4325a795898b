//! How do I run async code when the program has no async runtime?
//!
//! The executor's workers poll the futures; a future that waits holds none of them.

use punctual::{Executor, MissedTicks};
use std::error::Error;
use std::future;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::builder().core_threads(2).record_lateness().build()?;

    // Ten thousand sleepers on two threads.
    let mut sleepers = Vec::new();
    for n in 0..10_000_u64 {
        let nap = pool.sleep(Duration::from_millis(5 + n % 20));
        sleepers.push(pool.spawn(async move { nap.await.map(|()| n) })?);
    }
    let mut sum = 0;
    for sleeper in sleepers {
        sum += sleeper.join()??;
    }
    println!("10000 sleepers: {sum}");

    // A future awaits blocking work, with a limit on its time.
    let inner = pool.clone();
    let page = pool.spawn(async move {
        let blocking = inner.submit(|| String::from("a page")).map_err(|refused| refused.to_string())?;
        let page = inner.timeout(SECOND, blocking).await.map_err(|late| late.to_string())?;
        page.map_err(|failed| failed.to_string())
    })?;
    println!("fetched {:?}", page.join()??);

    // A limit that is reached.
    let never = pool.spawn(pool.timeout(STEP, future::pending::<()>()))?;
    println!("never: {}", never.join()?.unwrap_err());

    // An interval, awaited; what was missed is skipped.
    let mut beat = pool.interval(STEP)?.missed(MissedTicks::Skip);
    let beats = pool.spawn(async move {
        for n in 1..=3 {
            let tick = beat.tick().await?;
            println!("beat {n} at {tick:?}");
        }
        Ok::<(), punctual::TimerError>(())
    })?;
    beats.join()??;

    // A periodic task whose body is async: a new future each time, and runs never overlap.
    let inner = pool.clone();
    let sweep = pool
        .task_async(move || {
            let nap = inner.sleep(STEP / 2);
            async move { drop(nap.await) }
        })
        .name("sweep")
        .every(STEP)
        .start()?;
    let _ = sweep.wait_timeout(5 * STEP);
    println!("{} had {} runs", sweep.name().unwrap_or_default(), sweep.runs());
    sweep.cancel();

    if let Some(lateness) = pool.lateness() {
        println!("lateness: {lateness}");
    }
    pool.close()?;
    Ok(())
}
