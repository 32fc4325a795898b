//! The pools and timers that are measured, behind one interface.
//!
//! A peer is used as its own documentation would have it used: a runtime spawns and sleeps, a pool schedules, a
//! queue is polled. Differences of kind are stated as constants, and a peer that cannot do something says so.

mod async_io;
mod hash_wheel;
mod punctual;
mod scheduled_threads;
mod tokio;
mod tokio_delay_queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Trouble;

pub(crate) use async_io::AsyncIo;
pub(crate) use hash_wheel::HashWheel;
pub(crate) use punctual::Punctual;
pub(crate) use scheduled_threads::ScheduledThreads;
pub(crate) use tokio::Tokio;
pub(crate) use tokio_delay_queue::TokioDelayQueue;

pub(crate) trait Peer: Sync + Sized {
    /// Whether it promises the exact order of (deadline, submission) with one worker: a run that sees another
    /// order has failed then. For others disorder is only counted.
    const EXACT: bool = false;
    /// How much it is known to run early.
    const EARLY: Duration = Duration::ZERO;
    /// Whether it can have more than one worker.
    const WORKERS: bool = true;

    /// What one thread needs to use it.
    type Producer<'a>: Producer
    where
        Self: 'a;

    fn start(workers: usize) -> Self;

    /// To be called by the thread that will use it.
    fn producer(&self) -> Self::Producer<'_>;

    /// How many tasks wait, if it can tell.
    fn pending(&self) -> Option<usize> {
        None
    }

    /// Ends its threads, soon and without running what waits.
    fn stop(self);
}

pub(crate) trait Producer {
    type Handle: Send;

    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> Self::Handle;

    /// Whether it was in time, if the peer can tell.
    fn cancel(&mut self, handle: Self::Handle) -> Result<Option<bool>, Trouble>;

    /// Drops the handle; the task goes on.
    fn leave(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble>;

    /// Has a task run at once return `value`, and waits for it.
    fn ping(&mut self, value: u64) -> u64 {
        // With a result of its own a pool does better; this is what its user would write without.
        let slot = Arc::new((AtomicU64::new(u64::MAX), thread::current()));
        let theirs = Arc::clone(&slot);
        let handle = self.schedule(Duration::ZERO, move || {
            theirs.0.store(value, Ordering::Release);
            theirs.1.unpark();
        });
        self.leave(handle);
        loop {
            match slot.0.load(Ordering::Acquire) {
                u64::MAX => thread::park(),
                value => return value,
            }
        }
    }
}

/// Starts a peer, or says that it cannot have so many workers. All its threads are there on return.
pub(crate) fn start<P: Peer>(workers: usize) -> Result<P, Trouble> {
    if workers > 1 && !P::WORKERS {
        return Err(Trouble::Unsupported("runs everything on one thread"));
    }
    Ok(start_at_most(workers))
}

/// Starts a peer with as many workers as it can have, where their number is not the point.
pub(crate) fn start_at_most<P: Peer>(workers: usize) -> P {
    let peer = P::start(workers);
    peer.producer().ping(1);
    peer
}
