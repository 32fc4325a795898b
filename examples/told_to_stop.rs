//! How do I stop a body that is running?
//!
//! Cooperatively: the handle sets a flag of this one task; the body looks at it, and its waits return early. There
//! is nothing to clean up on the thread, and the next task on it sees a clear flag.

use punctual::{Executor, Interrupted, TaskContext};
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

fn scan(progress: &mpsc::Sender<u32>) -> Result<u32, Interrupted> {
    let cx = TaskContext::current();
    for file in 0.. {
        cx.check()?;
        cx.sleep(Duration::from_millis(1))?;
        progress.send(file).expect("somebody listens");
    }
    unreachable!("there are always more files")
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Executor::new(1);
    let (sender, progress) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let scan =
        pool.task(move || ended.send(scan(&sender)).expect("somebody listens")).name("scan").start()?;

    println!("scanned {} files", progress.iter().take(5).count());
    assert!(scan.interrupt());
    // The handle is cancelled at once; the body notices in its own time.
    println!("the handle: {:?}", scan.state());
    println!("the body: {:?}", end.recv()?);
    println!(
        "the next task is {}",
        pool.submit(|| TaskContext::current().check().map_or("hit, too", |()| "fine"))?.join()?
    );

    pool.close()?;
    Ok(())
}
