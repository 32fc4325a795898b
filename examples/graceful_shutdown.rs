//! How do I stop without losing work, and without waiting for ever?

use punctual::{Executor, Keep, Leftover, TaskContext};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(2);
    pool.task(|| println!("soon")).name("soon").after(Duration::from_millis(50)).start()?;
    pool.task(|| println!("tomorrow")).name("tomorrow").after(Duration::from_secs(86_400)).start()?;
    pool.task(|| println!("tick")).name("ticker").every(Duration::from_millis(20)).start()?;
    pool.submit(|| {
        let stopped = TaskContext::current().sleep(Duration::from_secs(3600)).is_err();
        println!("the long one was {}", if stopped { "interrupted" } else { "done" });
    })?;

    // After a shutdown, delayed tasks run and periodic ones end, unless told otherwise.
    pool.set_after_shutdown(Leftover::Delayed, Keep::Run);
    pool.set_after_shutdown(Leftover::Periodic, Keep::Cancel);
    pool.shutdown();
    println!("shut down: {}", *pool);

    // Give it a moment; then stop, and see what never ran.
    if !pool.await_termination(Duration::from_millis(200)) {
        for task in pool.shutdown_now() {
            println!("never ran: {task}, due {}", task.remaining());
        }
    }
    assert!(pool.await_termination(Duration::from_secs(10)));
    println!("ended: {}", *pool);
    Ok(())
}
