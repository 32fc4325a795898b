//! What the models share.
//!
//! A model is a few steps of two or three threads, run in every order that loom's bound on pre-emptions allows.
//! A lost wake-up shows itself as a deadlock, which loom reports; the rest is asserted. What a model only counts
//! is in the atomics of the standard library, which loom does not look at: each of its own costs interleavings.
//!
//! Time is a [`ManualClock`](crate::ManualClock) that a thread of the model moves with `jump`, so a timed wait
//! may end at any moment after its time has come, or be ended by a call first.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{Builder, Executor, ManualClock, Spawner, WorkerThread};

pub(crate) const STEP: Duration = Duration::from_secs(1);

/// Explores `model`, with at most `most` pre-emptions or what `LOOM_MAX_PREEMPTIONS` says, if that is fewer.
pub(crate) fn explore(most: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |asked| asked.min(most)));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Counts how many of its clones have been dropped.
#[derive(Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

/// Something to capture or return, counted when it is dropped.
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn counted(&self) -> Counted {
        Counted(Arc::clone(&self.0))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts its wake-ups.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Bell {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Threads of the model as workers; the first `failures` of them cannot be had.
pub(crate) struct LoomSpawner {
    failures: usize,
    calls: AtomicUsize,
}

impl Spawner for LoomSpawner {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.failures {
            return Err(io::Error::other("no thread"));
        }
        drop(loom::thread::spawn(move || worker.run()));
        Ok(None)
    }
}

/// The settings of a pool of one worker, on a clock that stands still, whose spawner fails `failures` times.
pub(crate) fn pool(clock: &ManualClock, failures: usize) -> Builder {
    let spawner = LoomSpawner { failures, calls: AtomicUsize::new(0) };
    Executor::builder().clock(clock.clone()).spawner(spawner).thread_name("loom")
}
