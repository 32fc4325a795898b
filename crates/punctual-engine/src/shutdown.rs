//! Every rule of shutdown, as data and two pure functions.
//!
//! ```text
//! Running ── shutdown ──▶ Shutdown ── nothing left ──▶ Tidying ── hook returned ──▶ Terminated
//!    └────── stop ──────────▶ Stop ── workers gone ────────┘
//! ```
//!
//! States only ever move to the right.

/// The life of an executor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum RunState {
    /// Accepts tasks and runs them.
    Running,
    /// Accepts nothing new; what is queued follows the [`ShutdownPolicy`].
    Shutdown,
    /// Accepts nothing, runs nothing more; running bodies have been interrupted.
    Stop,
    /// No task and no worker is left; the terminated hook is running.
    Tidying,
    /// Over.
    Terminated,
}

/// The kinds of task that a shutdown may leave in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Leftover {
    /// One-shot tasks that are not due yet.
    Delayed,
    /// Periodic tasks.
    Periodic,
}

/// What happens to a kind of [`Leftover`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Keep {
    /// It stays and runs when it is due, and the executor terminates after it.
    Run,
    /// It is removed and cancelled.
    Cancel,
}

/// What happens to each kind of [`Leftover`]. The default is Java's: delayed tasks run, periodic ones end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShutdownPolicy {
    delayed: Keep,
    periodic: Keep,
}

impl Default for ShutdownPolicy {
    fn default() -> Self {
        Self { delayed: Keep::Run, periodic: Keep::Cancel }
    }
}

impl ShutdownPolicy {
    /// The fate of tasks of this kind.
    #[must_use]
    pub const fn get(self, kind: Leftover) -> Keep {
        match kind {
            Leftover::Delayed => self.delayed,
            Leftover::Periodic => self.periodic,
        }
    }

    /// The same policy with another fate for this kind.
    #[must_use]
    pub const fn with(mut self, kind: Leftover, keep: Keep) -> Self {
        match kind {
            Leftover::Delayed => self.delayed = keep,
            Leftover::Periodic => self.periodic = keep,
        }
        self
    }
}

/// Whether a task that was accepted may still run (or run again). `is_due` matters for one-shots only.
#[must_use]
pub fn may_run(state: RunState, policy: ShutdownPolicy, is_periodic: bool, is_due: bool) -> bool {
    match state {
        RunState::Running => true,
        RunState::Shutdown if is_periodic => policy.periodic == Keep::Run,
        RunState::Shutdown => is_due || policy.delayed == Keep::Run,
        RunState::Stop | RunState::Tidying | RunState::Terminated => false,
    }
}

/// Whether an executor in this state has nothing left to wait for.
#[must_use]
pub fn is_finished(state: RunState, queue_is_empty: bool, workers: usize) -> bool {
    match state {
        RunState::Running | RunState::Tidying | RunState::Terminated => false,
        RunState::Shutdown => queue_is_empty && workers == 0,
        RunState::Stop => workers == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Keep, Leftover, RunState, ShutdownPolicy, is_finished, may_run};

    const KEEPS: [Keep; 2] = [Keep::Run, Keep::Cancel];

    /// ST-065, ST-067, ST-068: the whole table, row by row.
    #[test]
    fn shutdown_follows_the_table() {
        for delayed in KEEPS {
            for periodic in KEEPS {
                let policy = ShutdownPolicy::default()
                    .with(Leftover::Delayed, delayed)
                    .with(Leftover::Periodic, periodic);
                let after = |is_periodic, is_due| may_run(RunState::Shutdown, policy, is_periodic, is_due);
                assert_eq!(after(true, false), periodic == Keep::Run);
                assert_eq!(after(true, true), periodic == Keep::Run);
                assert_eq!(after(false, false), delayed == Keep::Run);
                assert!(after(false, true));
                for is_periodic in [false, true] {
                    for is_due in [false, true] {
                        assert!(may_run(RunState::Running, policy, is_periodic, is_due));
                        assert!(!may_run(RunState::Stop, policy, is_periodic, is_due));
                        assert!(!may_run(RunState::Terminated, policy, is_periodic, is_due));
                    }
                }
            }
        }
    }

    /// ST-005: delayed tasks outlive a shutdown, periodic ones do not, unless told otherwise.
    #[test]
    fn the_default_is_that_of_java() {
        let policy = ShutdownPolicy::default();
        assert_eq!(policy.get(Leftover::Delayed), Keep::Run);
        assert_eq!(policy.get(Leftover::Periodic), Keep::Cancel);
    }

    #[test]
    fn a_stopping_executor_waits_for_workers_only() {
        assert!(!is_finished(RunState::Running, true, 0));
        assert!(!is_finished(RunState::Shutdown, false, 0));
        assert!(!is_finished(RunState::Shutdown, true, 1));
        assert!(is_finished(RunState::Shutdown, true, 0));
        assert!(is_finished(RunState::Stop, false, 0));
        assert!(!is_finished(RunState::Stop, true, 2));
        assert!(!is_finished(RunState::Terminated, true, 0));
    }
}
