//! A consistent picture of an executor at one instant.

use std::fmt;

use punctual_engine::RunState;

/// What an executor was doing at one instant; see [`Scheduler::stats`](crate::Scheduler::stats).
///
/// All numbers belong together: a task is counted as queued, active, completed or cancelled, never as two of
/// them. (The exception is asked for: a cancelled entry that is [kept](crate::OnCancel::KeepUntilDue) still counts
/// as queued.) A task counts as completed before its handle resolves, so whoever has the result sees it counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Running, shut down, stopped or terminated.
    pub state: RunState,
    /// Worker threads.
    pub pool_size: usize,
    /// The most there have been at once.
    pub largest_pool_size: usize,
    /// See [`Builder::core_threads`](crate::Builder::core_threads).
    pub core_threads: usize,
    /// See [`Builder::max_threads`](crate::Builder::max_threads).
    pub max_threads: usize,
    /// Workers that are running a task.
    pub active: usize,
    /// Tasks in the queue, due or not.
    pub queued: usize,
    /// Tasks in the queue that are not due; a future that waits is one.
    pub delayed: usize,
    /// Runs that ended, each run of a periodic task and each poll of a [future](crate::Scheduler::spawn) counted.
    pub completed: u64,
    /// Tasks that ended without a run: cancelled, removed or dropped.
    pub cancelled: u64,
    /// Tasks that were refused.
    pub rejected: u64,
    /// Tasks with a [timeout](crate::Scheduler::submit_with_timeout) that have not ended. Counted a little before
    /// the other numbers.
    pub timeouts: usize,
}

impl Stats {
    /// Runs that ended, run or wait: `completed + active + queued`.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.completed + self.active as u64 + self.queued as u64
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            RunState::Running => "running",
            RunState::Terminated => "terminated",
            _ => "shutting down",
        };
        write!(
            f,
            "{state}, pool size = {}, active = {}, queued = {}, completed = {}",
            self.pool_size, self.active, self.queued, self.completed
        )
    }
}
