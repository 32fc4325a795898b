//! How an executor is put together.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_engine::{Keep, Leftover, ShutdownPolicy};

use crate::clock::{Clock, SystemClock};
use crate::decorate::Decorator;
use crate::error::InvalidArgument;
use crate::executor::Executor;
use crate::observe::Observer;
use crate::policy::{OnCancel, OnDrop, Rejection};
use crate::pool::{Parts, Pool, Sizes, Spawner, ThreadSpawner};
use crate::scheduler::Scheduler;
use crate::unobserved::{Sink, UnobservedFailure};

/// Pools without a name of their own are numbered.
static POOLS: AtomicU64 = AtomicU64::new(1);

/// Puts an [`Executor`] together; see [`Executor::builder`]. Everything is checked in [`build`](Self::build).
///
/// ```
/// use punctual::{Executor, Rejection};
/// use std::time::Duration;
///
/// let pool = Executor::builder()
///     .core_threads(2)
///     .max_threads(8)
///     .keep_alive(Duration::from_secs(10))
///     .capacity(1_000)
///     .rejection(Rejection::CallerRuns)
///     .thread_name("mailer")
///     .build()?;
/// assert_eq!(pool.submit(|| std::thread::current().name().map(str::to_owned))?.join()?.unwrap(), "mailer-thread-1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "an executor exists only when it is built"]
pub struct Builder {
    sizes: Sizes,
    policy: ShutdownPolicy,
    on_cancel: OnCancel,
    on_drop: OnDrop,
    rejection: Rejection,
    clock: Option<Arc<dyn Clock>>,
    observer: Option<Arc<dyn Observer>>,
    unobserved: Option<Sink>,
    decorator: Option<Arc<dyn Decorator>>,
    spawner: Option<Arc<dyn Spawner>>,
    thread_name: Option<String>,
    numbered: bool,
    record_lateness: bool,
    stack_size: Option<usize>,
    timer_slack: Duration,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let sizes = Sizes {
            core: 1,
            max: None,
            capacity: None,
            keep_alive: Duration::from_secs(10),
            core_times_out: false,
        };
        Self {
            sizes,
            policy: ShutdownPolicy::default(),
            on_cancel: OnCancel::default(),
            on_drop: OnDrop::default(),
            rejection: Rejection::default(),
            clock: None,
            observer: None,
            unobserved: None,
            decorator: None,
            spawner: None,
            thread_name: None,
            numbered: true,
            record_lateness: false,
            stack_size: None,
            timer_slack: Duration::from_nanos(1),
        }
    }

    /// Threads that stay even when idle. They are started one by one, as tasks come. Default 1.
    ///
    /// With 0, one thread is started when there is work, and leaves when the queue is empty and its
    /// [`keep_alive`](Self::keep_alive) is over.
    pub fn core_threads(mut self, threads: usize) -> Self {
        self.sizes.core = threads;
        self
    }

    /// The most threads there may be. Default: as many as [`core_threads`](Self::core_threads), at least 1.
    ///
    /// Beyond the core a thread is added when a task is due, or waits for its time, and no thread is free to
    /// see to it; with a [`capacity`](Self::capacity), only when the queue is full.
    pub fn max_threads(mut self, threads: usize) -> Self {
        self.sizes.max = Some(threads);
        self
    }

    /// The most tasks that may wait, due or not. Default: no bound. What comes then meets the
    /// [`rejection`](Self::rejection) policy. Periodic tasks, once accepted, are always queued again.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.sizes.capacity = Some(tasks);
        self
    }

    /// How long a thread beyond the core stays idle before it goes. Default 10 s.
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.sizes.keep_alive = time;
        self
    }

    /// Lets core threads go as well when they have been idle for the [`keep_alive`](Self::keep_alive). By
    /// default they stay.
    pub fn core_threads_time_out(mut self) -> Self {
        self.sizes.core_times_out = true;
        self
    }

    /// What happens after a shutdown to tasks that are left. By default delayed ones run and periodic ones end.
    pub fn after_shutdown(mut self, kind: Leftover, keep: Keep) -> Self {
        self.policy = self.policy.with(kind, keep);
        self
    }

    /// Whether a cancelled task leaves the queue at once. By default it does.
    pub fn on_cancel(mut self, on_cancel: OnCancel) -> Self {
        self.on_cancel = on_cancel;
        self
    }

    /// What happens when the last handle on the executor is dropped. By default an orderly shutdown in the
    /// background.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// What becomes of refused tasks. By default the submission fails and returns the closure.
    pub fn rejection(mut self, rejection: Rejection) -> Self {
        self.rejection = rejection;
        self
    }

    /// The clock to live by. By default a new [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Hooks round every run and every thread. By default there are none.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Counts how late every run begins; see [`Scheduler::lateness`](crate::Scheduler::lateness). By default it is
    /// not counted.
    ///
    /// It costs a look at the clock for every run, a few tens of nanoseconds, where a worker otherwise takes one
    /// due task after the other without looking; and 15 kB for each worker.
    pub fn record_lateness(mut self) -> Self {
        self.record_lateness = true;
        self
    }

    /// Where failures go that nobody has looked at: a handle was dropped with the failure unread, or a periodic task was
    /// ended by it. By default to [`Observer::unobserved`], which by default, and if there is no observer, writes one line
    /// to standard error; with this, to `sink` and to the observer.
    ///
    /// It is called without any lock held, in whichever thread has the last grip on the task, and should be quick.
    ///
    /// ```
    /// use punctual::Executor;
    /// use std::sync::mpsc;
    ///
    /// let (sender, failures) = mpsc::channel();
    /// let tell = move |failure: &punctual::UnobservedFailure| sender.send(failure.to_string()).unwrap();
    /// let pool = Executor::builder().unobserved(tell).build()?;
    /// drop(pool.task(|| panic!("out of paper")).name("print").start::<()>()?);
    /// assert_eq!(failures.recv()?, "task #0 \"print\" failed and nobody looked: the task panicked: out of paper");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unobserved(mut self, sink: impl Fn(&UnobservedFailure) + Send + Sync + 'static) -> Self {
        self.unobserved = Some(Arc::new(sink));
        self
    }

    /// Wraps every task. By default tasks are plain.
    pub fn decorator(mut self, decorator: impl Decorator) -> Self {
        self.decorator = Some(Arc::new(decorator));
        self
    }

    /// Where threads come from. By default from the standard library.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }

    /// The first part of the threads' names; `-thread-1` and so on follow. Default `pool-1`, `pool-2`, …
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// The name of the only thread, without a number.
    pub(crate) fn exact_thread_name(mut self, name: String) -> Self {
        self.thread_name = Some(name);
        self.numbered = false;
        self
    }

    /// The stack size of threads, unless a [`spawner`](Self::spawner) is given. Default: the platform's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// How late the kernel may end a timed wait in order to serve several with one interrupt. Default 1 ns:
    /// exact. 50 µs, the kernel's own default, costs a fraction of the processor time when deadlines are dense.
    /// Heeded on Linux, up to two seconds.
    pub fn timer_slack(mut self, slack: Duration) -> Self {
        self.timer_slack = slack;
        self
    }

    /// Builds the executor. No thread is started yet.
    ///
    /// # Errors
    /// [`InvalidArgument`] if the sizes contradict each other, or the thread name contains a NUL.
    pub fn build(self) -> Result<Executor, InvalidArgument> {
        let sizes = self.sizes.check()?;
        if let Some(name) = self.thread_name.as_ref().filter(|name| name.contains('\0')) {
            let message = format!("thread_name must not contain a NUL character: {name:?}");
            return Err(InvalidArgument::new(message));
        }
        let number = || POOLS.fetch_add(1, Ordering::Relaxed);
        let stack_size = self.stack_size;
        let pool = Pool::new(Parts {
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            observer: self.observer,
            unobserved: self.unobserved,
            decorator: self.decorator,
            record_lateness: self.record_lateness,
            timer_slack: self.timer_slack,
            thread_name: self.thread_name.unwrap_or_else(|| format!("pool-{}", number())),
            threads_numbered: self.numbered,
            spawner: self.spawner.unwrap_or_else(|| Arc::new(ThreadSpawner { stack_size })),
            rejection: self.rejection,
            sizes,
            policy: self.policy,
            on_cancel: self.on_cancel,
        });
        Ok(Executor::over(Scheduler::new(pool, self.on_drop)))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("sizes", &self.sizes)
            .field("policy", &self.policy)
            .field("on_cancel", &self.on_cancel)
            .field("on_drop", &self.on_drop)
            .field("rejection", &self.rejection)
            .field("clock", &self.clock)
            .field("thread_name", &self.thread_name)
            .field("timer_slack", &self.timer_slack)
            .finish_non_exhaustive()
    }
}
