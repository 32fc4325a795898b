//! User code at its worst: it panics, calls back, fails, and asks for the impossible. Nothing of it may hang, end
//! the process, cost a worker, or reach a task of others.

mod destructors;
mod limits;
mod panics;
mod processes;
mod reentry;
#[path = "../conformance/support.rs"]
mod support;
mod threads;

use punctual::Executor;

/// Panics when it is dropped, whatever else goes on.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor panics");
    }
}

/// The worker has survived if it still runs this, and it is the only one.
#[track_caller]
fn assert_works(pool: &Executor) {
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!(pool.stats().largest_pool_size, 1, "no worker was replaced");
}
