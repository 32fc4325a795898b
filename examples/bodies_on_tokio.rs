//! How do I schedule async work that needs my runtime: its sockets, its tasks, its timers?
//!
//! punctual keeps the time and the handle; tokio does the polling.

use punctual::{BoxedFuture, Executor, run_on};
use std::error::Error;
use std::time::Duration;

/// Stands for a request that needs a tokio reactor.
async fn fetch(n: u32) -> u32 {
    tokio::task::yield_now().await;
    assert!(tokio::runtime::Handle::try_current().is_ok(), "this runs on tokio");
    n * n
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    let pool = Executor::new(1);

    // Any closure that takes a future is a runtime.
    let handle = tokio.handle().clone();
    let runtime = move |future: BoxedFuture| drop(handle.spawn(future));

    tokio.block_on(async {
        // Once, after a delay; awaited by tokio, too.
        let square = pool.spawn_after(Duration::from_millis(5), run_on(runtime.clone(), fetch(12)))?;
        println!("later: {}", square.await?);

        // Again and again: a new future at every deadline.
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut n = 0;
        let poll = pool
            .task_async(move || {
                n += 1;
                let (sender, request) = (sender.clone(), fetch(n));
                run_on(runtime.clone(), async move { sender.send(request.await).unwrap_or_default() })
            })
            .name("poll")
            .every(Duration::from_millis(5))
            .start()?;
        // The pool's timers work here as well.
        let mut results = Vec::new();
        let mut look = pool.interval(Duration::from_millis(1))?;
        while results.len() < 3 {
            look.tick().await?;
            results.extend(receiver.try_iter());
        }
        poll.cancel();
        println!("again and again: {results:?}");
        Ok::<(), Box<dyn Error>>(())
    })?;

    pool.close()?;
    Ok(())
}
