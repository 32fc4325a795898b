//! A task with a limit on its time, from submission to end.
//!
//! Two tasks that know each other: the work, and a *limit* queued for the end of its time. The limit ends the
//! work; the end of the work withdraws the limit. The limit is submitted first, so that there is no work
//! without one; the work is announced to it through their [`Pact`].

use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::error::{Rejected, TaskError};
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::sync::Mutex;
use crate::task::Typed;
use crate::unwind;

/// What the two tasks share.
struct Pact<T, V> {
    target: Target<T>,
    /// Says what the work ends with. Taken by whoever ends it: the limit, or the submitter if the time was over
    /// before the work was known.
    verdict: Option<V>,
}

enum Target<T> {
    /// The work has not been submitted yet.
    Unknown,
    Known(Weak<dyn Typed<T>>),
    Expired,
}

/// A waker that withdraws the limit when the work is done.
struct Withdraw(TaskHandle<()>);

impl Wake for Withdraw {
    fn wake(self: Arc<Self>) {
        self.0.cancel();
    }
}

/// Submits `work` with a limit; at the end of its time the work ends with what `verdict` says.
pub(crate) fn submit<F, T, V>(
    scheduler: &Scheduler,
    timeout: Duration,
    work: F,
    verdict: V,
) -> Result<TaskHandle<T>, Rejected<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    V: FnOnce() -> Result<T, TaskError> + Send + 'static,
{
    let pact = Arc::new(Mutex::new(Pact { target: Target::Unknown, verdict: Some(verdict) }));
    let limit = {
        let (pact, pool) = (Arc::clone(&pact), Arc::downgrade(scheduler.pool()));
        scheduler.schedule(timeout, move || {
            let mut pact = pact.lock();
            let Target::Known(work) = mem::replace(&mut pact.target, Target::Expired) else { return };
            let verdict = pact.verdict.take();
            drop(pact);
            if let (Some(work), Some(pool), Some(verdict)) = (work.upgrade(), pool.upgrade(), verdict) {
                expire(&TaskHandle::new(work, &pool), verdict);
            }
        })
    };
    let limit = match limit {
        Ok(limit) => limit,
        Err(rejected) => return Err(Rejected::new(work, rejected.reason())),
    };
    let handle = match scheduler.submit(work) {
        Ok(handle) => handle,
        Err(rejected) => {
            limit.cancel();
            return Err(rejected);
        }
    };
    let mut shared = pact.lock();
    if let Target::Expired = shared.target {
        let verdict = shared.verdict.take();
        drop(shared);
        if let Some(verdict) = verdict {
            expire(&handle, verdict);
        }
        return Ok(handle);
    }
    shared.target = Target::Known(Arc::downgrade(handle.typed()));
    drop(shared);
    let withdraw = Waker::from(Arc::new(Withdraw(limit)));
    if !handle.task().listen(&withdraw) {
        withdraw.wake();
    }
    Ok(handle)
}

fn expire<T: Send + 'static>(work: &TaskHandle<T>, verdict: impl FnOnce() -> Result<T, TaskError>) {
    if work.is_done() {
        return;
    }
    // A fallback that panics has spoken too: the work does not go on without a limit.
    match unwind::catch(verdict).unwrap_or_else(|panic| Err(TaskError::Panicked(panic))) {
        Err(TaskError::Cancelled) => drop(work.interrupt()),
        outcome => work.end_with(outcome),
    }
}
