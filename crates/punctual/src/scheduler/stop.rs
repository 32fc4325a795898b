//! How an executor ends: shut down, stopped, closed, or dropped.

use std::sync::Arc;
use std::time::Duration;

use punctual_engine::RunState;

use super::{Owner, Scheduler};
use crate::error::{Abandoned, WaitError};
use crate::policy::OnDrop;
use crate::pool::Pool;
use crate::unrun::UnrunTask;

impl Drop for Owner {
    fn drop(&mut self) {
        let pool = &self.pool;
        match self.on_drop {
            OnDrop::Detach => pool.shutdown(),
            OnDrop::Join => {
                pool.shutdown();
                if !pool.is_served_here() {
                    let _ = pool.await_termination(None, false);
                }
            }
            OnDrop::Abort => drop(stop(pool)),
        }
    }
}

/// Stops `pool`, interrupts what runs, and wraps what was queued.
fn stop(pool: &Arc<Pool>) -> Vec<UnrunTask> {
    let (queued, running) = pool.stop();
    for task in &running {
        task.interrupt();
    }
    pool.discard_all(running);
    let (over, unrun): (Vec<_>, Vec<_>) = queued.into_iter().partition(|(task, _)| task.state().is_done());
    pool.discard_all(over);
    unrun.into_iter().map(|(task, turn)| UnrunTask::new(task, turn, pool, Abandoned::Stopped)).collect()
}

impl Scheduler {
    /// Accepts nothing new; what is queued follows the shutdown policy
    /// ([`set_after_shutdown`](crate::Executor::set_after_shutdown)). Returns at once; may be called again.
    pub fn shutdown(&self) {
        self.pool().shutdown();
    }

    /// Stops: running bodies are [asked to stop](crate::TaskContext::is_interrupted), and what was queued comes
    /// back, in order, unrun. Returns at once; may be called again.
    pub fn shutdown_now(&self) -> Vec<UnrunTask> {
        stop(self.pool())
    }

    /// Waits until the executor has been shut down, every task has ended and every thread is gone; false if
    /// `timeout` is over first, or the calling task is interrupted. `Duration::MAX` is for ever.
    ///
    /// In a task or hook of this very executor it cannot come true: there it is false after `timeout`, and at
    /// once where that would be never.
    #[must_use]
    pub fn await_termination(&self, timeout: Duration) -> bool {
        self.pool().await_termination(Some(timeout), true).unwrap_or(false)
    }

    /// Shuts down and waits for the end.
    ///
    /// If the calling task is interrupted meanwhile, the executor is stopped as by
    /// [`shutdown_now`](Self::shutdown_now), dropping what was queued; the wait goes on to the end.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] in a task of this very executor, which is shut down all the same;
    /// [`WaitError::Interrupted`] after the end, if it came to that.
    pub fn close(&self) -> Result<(), WaitError> {
        let pool = self.pool();
        pool.shutdown();
        if pool.is_served_here() {
            return Err(WaitError::WouldDeadlock);
        }
        match pool.await_termination(None, true) {
            Ok(_) => Ok(()),
            Err(interrupted) => {
                drop(stop(pool));
                let _ = pool.await_termination(None, false);
                Err(interrupted.into())
            }
        }
    }

    /// Whether the executor accepts no more tasks.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.run_state() > RunState::Running
    }

    /// Whether the executor has been shut down and has not terminated.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.is_shutdown() && !self.is_terminated()
    }

    /// Whether no task and no worker is left, for ever. The fallback of a task that has ended may still run:
    /// [`await_termination`](Self::await_termination) waits for it.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.run_state() == RunState::Terminated
    }

    fn run_state(&self) -> RunState {
        self.pool().core.lock().state
    }
}
