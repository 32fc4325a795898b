//! What a body can know about its own task, and how its waits are interrupted.
//!
//! A worker says once, in a thread-local, which worker of which pool it is; what it runs is noted in the pool and
//! looked up there when a body asks. So a run that does not ask costs nothing here. A thread that runs a task by
//! hand has it in another thread-local, saved and restored round nested runs (a caller-runs rejection inside a
//! body), which is looked at first.
//!
//! Every blocking wait of this crate goes through a [`Wait`]: it registers the thread's parker with the current
//! task before it looks at the interrupt flag, so an interrupt either is seen or wakes it.
//!
//! An interrupt belongs to a task, not to a thread: there is no flag that could leak into the next task on the
//! same worker.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use punctual_engine::Tick;

use crate::clock::{Clock, SystemClock};
use crate::error::Interrupted;
use crate::park::Parker;
use crate::pool::{Pool, Tally};
use crate::sync::thread_local;
use crate::task::{Task, TaskId, TaskRef, Turn};

#[derive(Clone)]
struct Current {
    task: TaskRef,
    turn: Turn,
    host: Host,
}

/// Where a task is run, and so by which clock it sleeps.
#[derive(Clone)]
pub(crate) enum Host {
    /// For a pool, on a worker of it or by hand.
    Pool(Weak<Pool>),
    /// By whatever thread has it.
    Nobody(Arc<dyn Clock>),
}

impl Current {
    fn is_of(&self, pool: &Pool) -> bool {
        matches!(&self.host, Host::Pool(host) if std::ptr::eq(host.as_ptr(), pool))
    }
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static CURRENT: RefCell<Option<Current>> = RefCell::new(None);
    /// Which worker of which pool the calling thread is.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static WORKER: RefCell<Option<Post>> = RefCell::new(None);
}

/// While it lives, the calling thread runs `task`, and is no worker that was told to.
pub(crate) struct Enter {
    outer: Option<Current>,
}

impl Enter {
    pub(crate) fn new(task: TaskRef, turn: Turn, host: Host) -> Self {
        let current = Some(Current { task, turn, host });
        Self { outer: CURRENT.with(|cell| cell.replace(current)) }
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let inner = CURRENT.with(|cell| cell.replace(outer));
        drop(inner);
    }
}

fn current() -> Option<Current> {
    let by_hand = CURRENT.try_with(|cell| cell.borrow().clone()).ok()?;
    by_hand.or_else(|| {
        let Post { pool, index, tally } = WORKER.try_with(|cell| cell.borrow().clone()).ok().flatten()?;
        let (task, turn) = pool.upgrade()?.task_of(index, &tally)?;
        Some(Current { task, turn, host: Host::Pool(pool) })
    })
}

/// The place of a worker in its pool, and its tally: the place is given to another when the worker has left.
#[derive(Clone)]
struct Post {
    pool: Weak<Pool>,
    index: usize,
    tally: Arc<Tally>,
}

/// While it lives, the calling thread is a worker of a pool.
pub(crate) struct Work {
    _serve: Serve,
}

impl Work {
    pub(crate) fn new(pool: &Arc<Pool>, index: usize, tally: &Arc<Tally>) -> Self {
        let post = Post { pool: Arc::downgrade(pool), index, tally: Arc::clone(tally) };
        WORKER.with(|cell| cell.replace(Some(post)));
        BELONGS_TO.with(|cell| cell.set(address(pool)));
        Self { _serve: Serve::new(pool) }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        WORKER.with(|cell| drop(cell.replace(None)));
    }
}

thread_local! {
    /// The pools that the calling thread works for, by their addresses; never followed.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static SERVES: RefCell<Vec<usize>> = RefCell::new(Vec::new());
    /// The pool that the calling thread was started for, likewise. It has no destructor, and so is there to the very end of
    /// the thread: destructors of a user's thread-locals run when the worker has left its pool, but those who wait for the
    /// pool may be joining the thread.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro knows no const")]
    static BELONGS_TO: Cell<usize> = Cell::new(0);
}

/// While it lives, `pool` cannot terminate, because the calling thread works for it.
pub(crate) struct Serve(());

impl Serve {
    pub(crate) fn new(pool: &Pool) -> Self {
        // A thread on its way out may have none.
        let _ = SERVES.try_with(|serves| serves.borrow_mut().push(address(pool)));
        Self(())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = SERVES.try_with(|serves| serves.borrow_mut().pop());
    }
}

fn address(pool: &Pool) -> usize {
    std::ptr::from_ref(pool).addr()
}

/// Whether the calling thread was started for `pool`, which does not mean that it has not left it.
pub(crate) fn belongs_to(pool: &Pool) -> bool {
    BELONGS_TO.try_with(Cell::get).is_ok_and(|belongs| belongs == address(pool))
}

/// Whether the calling thread works for `pool`, so that it can never see it terminated with all its threads: a worker,
/// whether it runs a task or a hook or is on its way out, or a thread that runs a task of the pool by hand.
pub(crate) fn serves(pool: &Pool) -> bool {
    if belongs_to(pool) {
        return true;
    }
    let works = SERVES.try_with(|serves| serves.borrow().contains(&address(pool))).unwrap_or(false);
    works || current().is_some_and(|current| current.is_of(pool))
}

/// Whether the calling thread is running this very task.
pub(crate) fn is_running(task: &dyn Task) -> bool {
    current().is_some_and(|current| std::ptr::addr_eq(&*current.task, task))
}

/// One blocking wait: a parker, and a watch on the interrupt flag of the current task, if there is one.
pub(crate) struct Wait {
    pub(crate) parker: Arc<Parker>,
    waker: Waker,
    task: Option<TaskRef>,
}

impl Wait {
    pub(crate) fn begin() -> Self {
        let parker = Parker::current();
        let waker = Waker::from(Arc::clone(&parker));
        let task = current().map(|current| current.task);
        if let Some(task) = &task {
            task.watch_interrupt(&waker);
        }
        Self { parker, waker, task }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.task.as_ref().is_some_and(|task| task.header().is_interrupted())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.unwatch_interrupt(&self.waker);
        }
    }
}

/// The running task, as its own body sees it.
///
/// ```
/// use punctual::{Executor, Interrupted, TaskContext};
/// use std::time::Duration;
///
/// let pool = Executor::new(1);
/// let (begun, begin) = std::sync::mpsc::channel();
/// let (ended, end) = std::sync::mpsc::channel();
/// let nap = pool.submit(move || {
///     begun.send(()).unwrap();
///     ended.send(TaskContext::current().sleep(Duration::from_secs(3600))).unwrap();
/// })?;
/// begin.recv()?;
/// nap.interrupt();
/// assert_eq!(end.recv()?, Err(Interrupted));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// `Thread.currentThread().isInterrupted()`. The flag is the task's own: it stays set until the task is over
/// or [takes](Self::take_interrupt) it, and the next task on the thread never sees it.
#[derive(Clone)]
pub struct TaskContext {
    current: Option<Current>,
}

impl TaskContext {
    /// The context of the task that the calling thread runs. Outside a task it is an empty one, which is never
    /// interrupted.
    #[must_use]
    pub fn current() -> Self {
        Self { current: current() }
    }

    /// Whether there is a task at all.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.current.is_some()
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> Option<TaskId> {
        self.current.as_ref().map(|current| current.turn.id)
    }

    /// The name of the task.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.current.as_ref()?.task.header().name().map(|name| &**name)
    }

    /// The instant from which this run was allowed.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        self.current.as_ref().map(|current| current.turn.deadline)
    }

    /// How many runs of this task have begun, this one included.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.task.header().runs())
    }

    /// How many points of the task's schedule were left out between the run before this one and this one; see
    /// [`Missed`](crate::Missed).
    #[must_use]
    pub fn missed(&self) -> u64 {
        let series = self.current.as_ref().and_then(|current| current.task.header().series());
        series.map_or(0, |series| series.missed())
    }

    /// Whether the task has been asked to stop: by [`interrupt`](crate::TaskHandle::interrupt), by
    /// [`shutdown_now`](crate::Scheduler::shutdown_now), because its [timeout](crate::TaskBuilder::timeout) is over,
    /// or because the next run is to [replace](crate::Overlap::Replace) this one. The last two are about this run
    /// alone.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.task.header().is_interrupted())
    }

    /// Clears the request to stop and says whether there was one: for a body that means to go on regardless,
    /// because waits return at once while it stands.
    #[must_use]
    pub fn take_interrupt(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.task.header().take_interrupt())
    }

    /// The request to stop as an error, for use with `?`.
    ///
    /// # Errors
    /// [`Interrupted`] if the task has been asked to stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.is_interrupted() { Err(Interrupted) } else { Ok(()) }
    }

    /// Waits for `time` on the clock of the executor (or of the [`FutureTask`](crate::FutureTask)). Outside a
    /// task it is the machine's.
    ///
    /// # Errors
    /// [`Interrupted`], at once, if the task has been or is asked to stop.
    pub fn sleep(&self, time: Duration) -> Result<(), Interrupted> {
        match self.current.as_ref().map(|current| &current.host) {
            Some(Host::Nobody(clock)) => self.sleep_on(&**clock, time),
            Some(Host::Pool(pool)) => match pool.upgrade() {
                Some(pool) => self.sleep_on(&*pool.clock, time),
                None => self.sleep_on(&SystemClock::new(), time),
            },
            None => self.sleep_on(&SystemClock::new(), time),
        }
    }

    fn sleep_on(&self, clock: &dyn Clock, time: Duration) -> Result<(), Interrupted> {
        let until = clock.now().after(time);
        let wait = Wait::begin();
        while !wait.is_interrupted() {
            if clock.now() >= until {
                return Ok(());
            }
            clock.wait(&wait.parker, Some(until));
        }
        Err(Interrupted)
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("interrupted", &self.is_interrupted())
            .finish()
    }
}
