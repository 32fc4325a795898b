//! How do I await a task from async code: under tokio, and with no runtime at all?

use punctual::{Executor, Parker};
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Any executor of futures will do. This is the smallest one: the calling thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Parker::current();
    let waker = Waker::from(Arc::clone(&parker));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(2);

    // The handle is a future. Blocking work belongs on the pool, the waiting stays async.
    let page =
        pool.schedule(Duration::from_millis(20), || String::from("a page, fetched by blocking code"))?;
    println!("no runtime: {}", block_on(page)?);

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let sum = runtime.block_on(async {
        let first = pool.schedule(Duration::from_millis(20), || 40)?;
        let second = pool.schedule(Duration::from_millis(10), || 2)?;
        let (first, second) = tokio::join!(first, second);
        Ok::<i32, Box<dyn Error>>(first? + second?)
    })?;
    println!("tokio: {sum}");

    pool.close()?;
    Ok(())
}
