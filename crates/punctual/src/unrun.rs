//! A task that has left its executor without having been run.

use std::fmt;
use std::sync::Arc;

use crate::context::{Enter, Host};
use crate::error::{Abandoned, TaskError};
use crate::handle::Remaining;
use crate::pool::Pool;
use crate::task::{Ended, Run, TaskId, TaskInfo, TaskRef, Turn};

/// A task that was drained, removed or refused: yours to run, keep or drop.
///
/// While you keep it, its handle waits. Dropping it resolves the handle as
/// [`Abandoned`](crate::TaskError::Abandoned), so nobody waits for ever.
///
/// ```
/// use punctual::{Executor, TaskError};
/// use std::time::Duration;
///
/// let pool = Executor::new(1);
/// let far = pool.schedule(Duration::from_secs(3600), || 7)?;
/// let [task] = pool.shutdown_now().try_into().unwrap();
/// assert_eq!(task.id(), far.id());
/// assert!(!far.is_done());
/// task.run();
/// assert_eq!(far.join()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// The `Runnable`s that `shutdownNow` returns. There a task drained from a scheduled pool refuses to run, and
/// one that is thrown away leaves whoever waits for it waiting for ever.
#[must_use = "dropping the task resolves its handle as abandoned"]
pub struct UnrunTask {
    /// `None` once it has been run.
    task: Option<TaskRef>,
    turn: Turn,
    pool: Arc<Pool>,
    fate: Abandoned,
}

impl UnrunTask {
    pub(crate) fn new(task: TaskRef, turn: Turn, pool: &Arc<Pool>, fate: Abandoned) -> Self {
        Self { task: Some(task), turn, pool: Arc::clone(pool), fate }
    }

    fn info(&self) -> TaskInfo<'_> {
        let task = self.task.as_ref().expect("present until it is consumed");
        TaskInfo::new(task.header(), self.turn, None)
    }

    /// The id of the task, the same as its handle's.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.info().id()
    }

    /// The name of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.info().name()
    }

    /// Whether it would have run more than once.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.info().schedule().is_periodic()
    }

    /// How long until it would have been due.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        let task = self.task.as_ref().expect("present until it is consumed");
        Remaining::between(self.pool.clock.now(), self.pool.planned(task.header(), self.turn))
    }

    /// Runs it here and now, hooks included; false if it has been cancelled. A periodic task runs once.
    ///
    /// A [future](crate::Scheduler::spawn) is polled once. If it is not ready it goes back to its executor, however
    /// full that is; one that runs nothing any more cannot have it, and then it ends as abandoned.
    pub fn run(mut self) -> bool {
        let task = self.task.take().expect("present until it is consumed");
        let pool = &self.pool;
        let enter = Enter::new(task.clone(), self.turn, Host::Pool(Arc::downgrade(pool)));
        let count = || pool.core.lock().counts.completed += 1;
        let again = task.header().schedule().is_periodic();
        let (observer, turn) = (pool.observer.as_deref(), self.turn);
        let (reporter, started) = (Some(&pool.reporter), pool.clock.now());
        let run = Run { observer, reporter, turn, started, again, count: &count, judge: None };
        let ended = task.perform(&run);
        drop(enter);
        if matches!(ended, Ended::Again) {
            count();
            if !pool.readmit(&task, self.turn, started) {
                pool.end(&*task, TaskError::Abandoned(self.fate));
            }
        }
        pool.discard(task);
        !matches!(ended, Ended::Skipped)
    }

    /// Cancels it instead of abandoning it; false if it was cancelled before.
    pub fn cancel(mut self) -> bool {
        let task = self.task.take().expect("present until it is consumed");
        let cancelled = self.pool.end(&*task, TaskError::Cancelled);
        self.pool.discard(task);
        cancelled
    }
}

impl Drop for UnrunTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.pool.end(&*task, TaskError::Abandoned(self.fate));
            self.pool.discard(task);
        }
    }
}

impl fmt::Debug for UnrunTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnrunTask")
            .field("id", &self.id())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for UnrunTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}
