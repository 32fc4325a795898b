//! Where worker threads come from.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::{Pool, worker};
use crate::sync::atomic::{AtomicBool, Ordering};

/// Starts the threads of an executor; see [`Builder::spawner`](crate::Builder::spawner).
///
/// A spawner may fail, panic, or drop the worker: the executor counts it as not started, tells the
/// [observer](crate::Observer::spawn_failed), and tries again when it next needs a thread. If that was the last
/// worker there could have been, the submission fails; what others had queued meanwhile resolves as
/// [`Abandoned`](crate::TaskError::Abandoned).
///
/// ```
/// use punctual::{Executor, Spawner, WorkerThread};
/// use std::{io, thread};
///
/// #[derive(Debug)]
/// struct Pinned;
///
/// impl Spawner for Pinned {
///     fn spawn(&self, worker: WorkerThread) -> io::Result<Option<thread::JoinHandle<()>>> {
///         let builder = thread::Builder::new().name(worker.name().to_owned());
///         builder.spawn(move || { /* pin the thread here */ worker.run() }).map(Some)
///     }
/// }
///
/// let pool = Executor::builder().spawner(Pinned).build()?;
/// assert_eq!(pool.submit(|| 1 + 1)?.join()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// `ThreadFactory`. It gets the work to run rather than returning a thread to be started, so it cannot return
/// one that is running, finished or missing.
pub trait Spawner: Send + Sync + 'static {
    /// Starts a thread that calls [`WorkerThread::run`] and then ends. The handle, if given, is joined by whoever
    /// waits for the executor to terminate, so the thread itself must not.
    ///
    /// # Errors
    /// If there is no thread to be had.
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>>;
}

/// A worker that waits for a thread.
pub struct WorkerThread {
    pool: Arc<Pool>,
    index: usize,
    name: String,
    started: bool,
    asked: Arc<Asked>,
}

/// The call of a spawner and the worker that was given to it: which of them ends first.
///
/// A worker lost during the call is the caller's to make good (it may have a task to take back); one lost after
/// it, by whatever thread, has nobody but that thread.
#[derive(Debug, Default)]
pub(super) struct Asked {
    one_is_over: AtomicBool,
}

impl Asked {
    /// To be called by each of the two at its end, by the worker only if it is lost: whether the other has.
    pub(super) fn is_over(&self) -> bool {
        // Acquire and Release: whoever comes second sees what the first has done.
        self.one_is_over.swap(true, Ordering::AcqRel)
    }
}

impl WorkerThread {
    pub(super) fn new(pool: Arc<Pool>, index: usize, name: String, asked: Arc<Asked>) -> Self {
        Self { pool, index, name, started: false, asked }
    }

    /// The name the executor would give the thread.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Works on the calling thread until the executor has no more use for it.
    pub fn run(mut self) {
        self.started = true;
        worker::work(&self.pool, self.index);
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        if self.started {
            return;
        }
        self.pool.worker_not_started(self.index);
        if self.asked.is_over() {
            self.pool.tell_lost();
            self.pool.give_up();
        }
    }
}

impl fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerThread").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The default: plain threads of the standard library.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadSpawner {
    pub(crate) stack_size: Option<usize>,
}

impl Spawner for ThreadSpawner {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        let mut builder = std::thread::Builder::new().name(worker.name().to_owned());
        if let Some(size) = self.stack_size {
            builder = builder.stack_size(size);
        }
        builder.spawn(move || worker.run()).map(Some)
    }
}
