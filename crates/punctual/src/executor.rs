//! The scheduled pool with its settings.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{Keep, Leftover};

use crate::builder::Builder;
use crate::error::InvalidArgument;
use crate::policy::{OnCancel, Rejection};
use crate::pool::Spawner;
use crate::scheduler::Scheduler;

/// A pool of threads that runs tasks at the right moment.
///
/// Clones share one pool. Everything about tasks is on [`Scheduler`], which an executor derefs to; here are the
/// settings. Every setting may be changed at any time, from any thread, also from a task of the pool itself.
///
/// ```
/// use punctual::Executor;
/// use std::time::Duration;
///
/// let pool = Executor::new(4);
/// let answer = pool.schedule(Duration::from_millis(5), || 6 * 7)?;
/// assert_eq!(answer.join()?, 42);
/// pool.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// `ScheduledThreadPoolExecutor`, and with a [`capacity`](Builder::capacity) `ThreadPoolExecutor`.
#[derive(Clone)]
pub struct Executor {
    scheduler: Scheduler,
}

impl Deref for Executor {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl Executor {
    /// A pool of `core_threads` threads with every setting at its default.
    ///
    /// No thread is started before there is a task. With 0 a single thread comes and goes as needed.
    #[must_use]
    pub fn new(core_threads: usize) -> Self {
        match Self::builder().core_threads(core_threads).build() {
            Ok(executor) => executor,
            Err(error) => unreachable!("the defaults make sense: {error}"),
        }
    }

    /// For the builder alone: whoever was given a scheduler is not to change its pool.
    pub(crate) fn over(scheduler: Scheduler) -> Self {
        Self { scheduler }
    }

    /// A pool to be put together step by step.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A pool that always has room for a task: threads are added when none is free, and go after a minute
    /// without work.
    ///
    /// # Coming from Java
    /// `Executors.newCachedThreadPool`.
    #[must_use]
    pub fn cached() -> Self {
        let builder =
            Self::builder().core_threads(0).max_threads(usize::MAX).keep_alive(Duration::from_secs(60));
        match builder.build() {
            Ok(executor) => executor,
            Err(error) => unreachable!("these settings make sense: {error}"),
        }
    }

    /// A pool of exactly `threads` threads.
    ///
    /// # Errors
    /// If `threads` is 0.
    ///
    /// # Coming from Java
    /// `Executors.newFixedThreadPool`.
    pub fn fixed(threads: usize) -> Result<Self, InvalidArgument> {
        Self::builder().core_threads(threads).max_threads(threads).build()
    }

    /// One thread, in a form that cannot be changed: its tasks run strictly one after the other.
    ///
    /// # Coming from Java
    /// `Executors.newSingleThreadExecutor` and `newSingleThreadScheduledExecutor`.
    #[must_use]
    pub fn single() -> Scheduler {
        Self::new(1).scheduler
    }

    /// The same pool, in a form that cannot change its settings.
    ///
    /// # Coming from Java
    /// `Executors.unconfigurableScheduledExecutorService`.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler.clone()
    }

    // ---- threads

    /// See [`Builder::core_threads`].
    #[must_use]
    pub fn core_threads(&self) -> usize {
        self.pool().core.lock().sizes.core
    }

    /// Changes the number of core threads. Surplus threads go when they have been idle for the keep-alive, or, if
    /// [`max_threads`](Builder::max_threads) was left to follow, as soon as they have no task in hand. If the
    /// number grows, threads are started at once for tasks that wait.
    ///
    /// # Errors
    /// If it exceeds a [`max_threads`](Builder::max_threads) that was given. The old value stays.
    pub fn set_core_threads(&self, threads: usize) -> Result<(), InvalidArgument> {
        self.pool().resize(|sizes| sizes.core = threads)
    }

    /// See [`Builder::max_threads`].
    #[must_use]
    pub fn max_threads(&self) -> usize {
        self.pool().core.lock().sizes.max()
    }

    /// Changes the most threads there may be. Surplus threads go as soon as they have no task in hand.
    ///
    /// # Errors
    /// If it is 0 or less than [`core_threads`](Self::core_threads). The old value stays.
    pub fn set_max_threads(&self, threads: usize) -> Result<(), InvalidArgument> {
        self.pool().resize(|sizes| sizes.max = Some(threads))
    }

    /// Makes it a pool of exactly `threads` threads: surplus ones go at once, new ones come with tasks.
    ///
    /// # Errors
    /// If it is 0. The old sizes stay.
    pub fn resize(&self, threads: usize) -> Result<(), InvalidArgument> {
        self.pool().resize(|sizes| (sizes.core, sizes.max) = (threads, Some(threads)))
    }

    /// See [`Builder::keep_alive`].
    #[must_use]
    pub fn keep_alive(&self) -> Duration {
        self.pool().core.lock().sizes.keep_alive
    }

    /// Changes how long surplus threads stay idle; threads that are idle now are measured by it, too.
    ///
    /// # Errors
    /// If it is zero while core threads may time out. The old value stays.
    pub fn set_keep_alive(&self, time: Duration) -> Result<(), InvalidArgument> {
        self.pool().resize(|sizes| sizes.keep_alive = time)
    }

    /// Whether idle core threads go, too.
    #[must_use]
    pub fn core_threads_time_out(&self) -> bool {
        self.pool().core.lock().sizes.core_times_out
    }

    /// Lets idle core threads go when their keep-alive is over, or stay.
    ///
    /// # Errors
    /// If they are to go and the keep-alive is zero. The old value stays.
    pub fn set_core_threads_time_out(&self, time_out: bool) -> Result<(), InvalidArgument> {
        self.pool().resize(|sizes| sizes.core_times_out = time_out)
    }

    /// Starts one idle core thread, if there are fewer than [`core_threads`](Self::core_threads); says whether.
    pub fn prestart_core_thread(&self) -> bool {
        self.pool().prestart(1) == 1
    }

    /// Starts all core threads; says how many that took.
    pub fn prestart_all_core_threads(&self) -> usize {
        self.pool().prestart(usize::MAX)
    }

    /// Changes where threads come from, from the next one on.
    pub fn set_spawner(&self, spawner: impl Spawner) {
        let old = std::mem::replace(&mut *self.pool().spawner.lock(), Arc::new(spawner));
        drop(old);
    }

    // ---- tasks

    /// See [`Builder::capacity`].
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.pool().core.lock().sizes.capacity
    }

    /// What becomes of refused tasks.
    #[must_use]
    pub fn rejection(&self) -> Rejection {
        self.pool().rejection.lock().clone()
    }

    /// Changes what becomes of refused tasks.
    pub fn set_rejection(&self, rejection: Rejection) {
        let old = std::mem::replace(&mut *self.pool().rejection.lock(), rejection);
        drop(old);
    }

    /// What happens after a shutdown to tasks of this kind.
    #[must_use]
    pub fn after_shutdown(&self, kind: Leftover) -> Keep {
        self.pool().core.lock().policy.get(kind)
    }

    /// Changes what happens after a shutdown to tasks of this kind. After a shutdown it takes effect at once.
    ///
    /// # Coming from Java
    /// `setExecuteExistingDelayedTasksAfterShutdownPolicy` and
    /// `setContinueExistingPeriodicTasksAfterShutdownPolicy`.
    pub fn set_after_shutdown(&self, kind: Leftover, keep: Keep) {
        self.pool().set_policy(kind, keep);
    }

    /// Whether cancelled tasks leave the queue at once.
    #[must_use]
    pub fn on_cancel(&self) -> OnCancel {
        self.pool().core.lock().on_cancel
    }

    /// Changes whether cancelled tasks leave the queue at once.
    ///
    /// # Coming from Java
    /// `setRemoveOnCancelPolicy`, which is off there by default.
    pub fn set_on_cancel(&self, on_cancel: OnCancel) {
        self.pool().core.lock().set_on_cancel(on_cancel);
    }

    /// Takes cancelled tasks that were [kept](OnCancel::KeepUntilDue) out of the queue; says how many.
    pub fn purge(&self) -> usize {
        self.pool().purge()
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executor").field(&self.stats()).finish()
    }
}

impl fmt::Display for Executor {
    /// `running, pool size = 2, active = 1, queued = 3, completed = 7`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
