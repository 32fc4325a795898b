//! A task with a limit on its time, from submission to end.
//!
//! The limit is a task of its own, due when the time is over, and has a reference to the work; the work, in a waker
//! among those that wait for its end, owns the limit. Whichever comes first ends the other, and so the circle: the
//! limit ends the work, and the end of the work drops the waker, which takes the limit out of its queue. So does
//! taking back work that was refused.
//!
//! # Where limits run
//! Not in the pool of the work: there they would take room in the queue, be listed, counted and drained with the
//! tasks of the user, and come too late whenever every thread is busy, perhaps with the very work that takes too
//! long. From its first limit on a pool has a second one, [`Limits`], whose single thread does nothing else. It
//! shares clock and spawner with the first, goes when it has been idle for a while, and is stopped when the first
//! has run dry: what was drained from a pool has no limit any more. A fallback that runs then goes on, after the first
//! pool has terminated; whoever waits for the end of that waits for the second one, too, but no longer than it means to.

use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use punctual_engine::{ShutdownPolicy, Tick};

use crate::context;
use crate::error::{Interrupted, Panic, RejectReason, Rejected, TaskError};
use crate::handle::{CancelOnDrop, TaskHandle};
use crate::observe::{Observer, Place};
use crate::policy::{OnCancel, OnDrop, Rejection};
use crate::pool::{Parts, Pool, Sizes};
use crate::scheduler::Scheduler;
use crate::sync::Mutex;
use crate::task::{Body, LargeOnce, Once, Task, TypedRef, allocate_plain, is_large};
use crate::unobserved::UnobservedFailure;
use crate::when::When;

/// Idle time after which the thread for limits goes.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The pool for the limits of another.
pub(crate) struct Limits {
    state: Mutex<State>,
}

struct State {
    /// Made for the first limit.
    pool: Option<Scheduler>,
    /// The pool whose limits these are has terminated: there will be no more.
    closed: bool,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { pool: None, closed: false }) }
    }

    /// Where the next limit goes; `None` when the pool has terminated.
    fn open(&self, pool: &Pool) -> Option<Scheduler> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        Some(state.pool.get_or_insert_with(|| build(pool)).clone())
    }

    /// Calls `expire` at that instant, unless the guard is dropped before. `None` if there will be no such thing.
    pub(crate) fn arm(
        &self,
        pool: &Pool,
        at: Tick,
        expire: impl FnOnce() + Send + 'static,
    ) -> Option<CancelOnDrop<()>> {
        let limit = self.open(pool)?.once(None, When::At(at), expire);
        limit.ok().map(TaskHandle::cancel_on_drop)
    }

    fn pool(&self) -> Option<Scheduler> {
        self.state.lock().pool.clone()
    }

    /// How many limits wait.
    pub(crate) fn len(&self) -> usize {
        self.pool().map_or(0, |limits| limits.pool().core.lock().queue.len())
    }

    /// Drops every limit, for good. A fallback that runs goes on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        let Some(limits) = self.pool() else { return };
        let pool = limits.pool();
        let (queued, running) = pool.stop();
        for (limit, _) in queued {
            pool.end(&*limit, TaskError::Cancelled);
            pool.discard(limit);
        }
        pool.discard_all(running);
    }

    /// Waits until the thread of [closed](Self::close) limits is gone, as [`Pool::await_end`] does: a fallback takes as
    /// long as it likes.
    pub(crate) fn join(&self, deadline: Option<Tick>, heed: bool) -> Result<bool, Interrupted> {
        self.pool().map_or(Ok(true), |limits| limits.pool().await_end(deadline, heed))
    }

    /// Whether the calling thread is the one for these limits.
    pub(crate) fn is_here(&self) -> bool {
        self.pool().is_some_and(|limits| context::serves(limits.pool()))
    }
}

/// A pool that lives as `pool` does, with at most one thread, for limits.
fn build(pool: &Pool) -> Scheduler {
    let sizes = Sizes { core: 0, max: None, capacity: None, keep_alive: KEEP_ALIVE, core_times_out: false };
    let limits = Pool::new(Parts {
        clock: Arc::clone(&pool.clock),
        observer: pool.observer.clone().map(|observer| Arc::new(Backstage(observer)) as _),
        unobserved: pool.reporter.sink.clone(),
        decorator: None,
        record_lateness: false,
        timer_slack: pool.timer_slack,
        thread_name: format!("{}-limits", pool.thread_name),
        threads_numbered: false,
        spawner: Arc::clone(&*pool.spawner.lock()),
        rejection: Rejection::Abort,
        sizes,
        policy: ShutdownPolicy::default(),
        on_cancel: OnCancel::Remove,
    });
    Scheduler::new(limits, OnDrop::Detach)
}

/// Passes on what concerns threads, and what went wrong. Runs of limits are nobody's business.
struct Backstage(Arc<dyn Observer>);

impl Observer for Backstage {
    fn worker_started(&self) {
        self.0.worker_started();
    }

    fn worker_stopped(&self) {
        self.0.worker_stopped();
    }

    fn spawn_failed(&self, error: &io::Error) {
        self.0.spawn_failed(error);
    }

    fn contained(&self, place: Place, panic: &Panic) {
        self.0.contained(place, panic);
    }

    fn unobserved(&self, failure: &UnobservedFailure) {
        self.0.unobserved(failure);
    }
}

/// A waker that withdraws the limit when it is woken or dropped.
struct Withdraw {
    _limit: CancelOnDrop<()>,
}

impl Wake for Withdraw {
    fn wake(self: Arc<Self>) {}
}

/// Submits `work` with a limit; at the end of its time `expire` is called to end it, if it has not ended.
pub(crate) fn submit<F, T>(
    scheduler: &Scheduler,
    timeout: Duration,
    work: F,
    expire: impl FnOnce(&Overdue<T>) + Send + 'static,
) -> Result<TaskHandle<T>, Rejected<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if is_large::<F>() {
        let boxed = submit_body(scheduler, timeout, LargeOnce(Box::new(work)), expire);
        return boxed.map_err(|rejected| rejected.map(|LargeOnce(work)| *work));
    }
    submit_body(scheduler, timeout, Once(work), expire).map_err(|rejected| rejected.map(|Once(work)| work))
}

fn submit_body<T, B>(
    scheduler: &Scheduler,
    timeout: Duration,
    body: B,
    expire: impl FnOnce(&Overdue<T>) + Send + 'static,
) -> Result<TaskHandle<T>, Rejected<B>>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    let pool = scheduler.pool();
    let (cell, task) = allocate_plain(body);
    // Without limits there is no pool either, and the work is refused in whatever way it refuses.
    if let Some(limits) = pool.limits.open(pool) {
        let (owner, work) = (Arc::downgrade(pool), cell.typed());
        let limit = limits.schedule(timeout, move || {
            if let Some(pool) = owner.upgrade() {
                expire(&Overdue { work, pool });
            }
        });
        match limit {
            // Before the work is submitted, so that it cannot end without taking its limit along.
            Ok(limit) => {
                cell.listen(&Waker::from(Arc::new(Withdraw { _limit: limit.cancel_on_drop() })));
            }
            // Closed meanwhile.
            Err(rejected) if rejected.reason() == RejectReason::ShutDown => {}
            Err(rejected) => {
                let (body, _) = cell.take_back().expect("work without a limit has not begun");
                return Err(Rejected::new(body, rejected.reason()));
            }
        }
    }
    let handle = scheduler.place(cell, task, When::After(Duration::ZERO))?;
    // Should its fallback panic, it is told by its name.
    handle.tell_turn();
    Ok(handle)
}

/// Work whose time is over.
pub(crate) struct Overdue<T> {
    work: TypedRef<T>,
    pool: Arc<Pool>,
}

impl<T> Overdue<T> {
    /// Ends it, if it has not ended, and asks its body to stop.
    pub(crate) fn interrupt(&self) {
        self.pool.cancel_and_interrupt(self.work.as_task());
    }

    /// Ends it with what `fallback` returns, or with its panic: it does not go on without a limit.
    pub(crate) fn replace(&self, fallback: impl FnOnce() -> T) {
        if self.work.header().state().is_done() {
            return;
        }
        let outcome = crate::unwind::catch(fallback).map_err(TaskError::Panicked);
        if self.pool.complete(&*self.work, outcome) {
            self.work.interrupt();
        }
    }
}
