//! A task that has left its executor without having been run.

use std::fmt;
use std::sync::Arc;

use punctual_engine::{RunTimes, Tick};

use crate::context::{Enter, Host};
use crate::error::{Abandoned, TaskError};
use crate::handle::Remaining;
use crate::pool::Pool;
use crate::series::{After, Series};
use crate::task::{Ended, Run, TaskId, TaskInfo, TaskRef, Turn, Verdict};

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

    /// Runs it here and now, hooks included; false if it has been cancelled. A periodic task runs once, and then ends as
    /// abandoned; of a task with [retries](crate::TaskBuilder::retry) there is one attempt, whatever it comes to. The
    /// [timeout](crate::TaskBuilder::timeout) of a task that runs once, or of an attempt, holds here as well.
    ///
    /// A [future](crate::Scheduler::spawn) is polled once. If it is not ready it goes back to its executor, however
    /// full that is; one that runs nothing any more cannot have it, and then it ends as abandoned.
    pub fn run(mut self) -> bool {
        let task = self.task.take().expect("present until it is consumed");
        let (pool, started) = (&self.pool, self.pool.clock.now());
        let ended = self.perform(&task, started);
        if matches!(ended, Ended::Again) {
            pool.core.lock().counts.completed += 1;
            if !pool.readmit(&task, self.turn, started) {
                pool.end(&*task, TaskError::Abandoned(self.fate));
            }
        }
        pool.discard(task);
        !matches!(ended, Ended::Skipped)
    }

    fn perform(&self, task: &TaskRef, started: Tick) -> Ended {
        let (pool, turn, header) = (&self.pool, self.turn, task.header());
        let _enter = Enter::new(task.clone(), turn, Host::Pool(Arc::downgrade(pool)));
        let again = header.schedule().is_periodic();
        // What is over with this run has the limits of its series. A future is watched over by its executor.
        let series = header.series().filter(|_| !again && header.wakes().is_none());
        let _watch = series.map(|series| series.watch(pool, task, series.now(&*pool.clock)));
        let judge = series.map(|series| judged_by(series, task, turn.deadline, started, pool));
        let run = Run {
            observer: pool.observer.as_deref(),
            reporter: Some(&pool.reporter),
            turn,
            started,
            again,
            count: &|| pool.core.lock().counts.completed += 1,
            judge: judge.as_ref().map(|judge| judge as &dyn Fn(Option<&TaskError>) -> Verdict),
        };
        task.perform(&run)
    }

    /// Cancels it instead of abandoning it; false if it was cancelled before.
    pub fn cancel(mut self) -> bool {
        let task = self.task.take().expect("present until it is consumed");
        let cancelled = self.pool.end(&*task, TaskError::Cancelled);
        self.pool.discard(task);
        cancelled
    }
}

/// How a series judges the only run that a task is given by hand.
fn judged_by<'a>(
    series: &'a Arc<Series>,
    task: &'a TaskRef,
    deadline: Tick,
    started: Tick,
    pool: &'a Pool,
) -> impl Fn(Option<&TaskError>) -> Verdict + 'a {
    move |thrown| {
        let now = series.now(&*pool.clock);
        let times = RunTimes { deadline, started, ended: now.tick };
        match series.after(times, task.header().runs(), thrown, false, now) {
            After::Fail(error) => Verdict::Fail(error),
            // An attempt that failed is not followed by another here.
            After::Again(_) | After::Linger | After::Done => Verdict::Over,
        }
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
