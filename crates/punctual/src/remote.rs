//! Control over a task that was found, not submitted: the same as with a handle, without its value.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use punctual_engine::Tick;

use crate::failure::FailedRun;
use crate::pool::{Pool, Steered};
use crate::scheduler::Scheduler;
use crate::task::{TaskId, TaskRef, TaskState, TaskView};
use crate::when::When;

/// A grip on a task without its value; see [`Scheduler::find`], [`Scheduler::tagged`] and
/// [`TaskHandle::remote`](crate::TaskHandle::remote).
///
/// It does not keep the task from ending, nor from being dropped unrun; whatever is asked of a task that is over says
/// so. Clones are grips on the same task.
///
/// ```
/// use punctual::{Executor, ManualClock, Steered};
/// use std::time::Duration;
///
/// let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// pool.task(|| println!("done")).name("nightly-report").after(24 * hour).every(24 * hour).start()?;
///
/// let report = pool.find("nightly-report").ok_or("no such task")?;
/// assert_eq!(report.trigger_now(), Steered::Now);
/// clock.wait_until_idle();
/// assert_eq!(report.info().runs(), 1);
/// assert_eq!(report.info().remaining().duration(), 24 * hour);
///
/// assert_eq!(report.pause(), Steered::Now);
/// clock.advance(50 * hour);
/// assert_eq!(report.info().runs(), 1);
/// assert_eq!(report.resume(), Steered::Now);
/// clock.advance(22 * hour);
/// assert_eq!(report.info().runs(), 2);
/// assert!(report.cancel());
/// assert_eq!(report.pause(), Steered::Over);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TaskRemote {
    task: TaskRef,
    pool: Arc<Pool>,
}

impl TaskRemote {
    pub(crate) fn new(task: TaskRef, pool: &Arc<Pool>) -> Self {
        Self { task, pool: Arc::clone(pool) }
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.header().id()
    }

    /// The name of the task, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.task.header().name().map(|name| &**name)
    }

    /// Where the task is in its life.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.task.state()
    }

    /// All that can be seen of the task, at this instant.
    #[must_use]
    pub fn info(&self) -> TaskView {
        self.pool.view(&*self.task, self.task.header().turn())
    }

    /// As [`TaskHandle::recent_failures`](crate::TaskHandle::recent_failures).
    #[must_use]
    pub fn recent_failures(&self) -> Vec<FailedRun> {
        self.pool.recent_failures(&*self.task)
    }

    /// As [`TaskHandle::upcoming`](crate::TaskHandle::upcoming).
    #[must_use]
    pub fn upcoming(&self, n: usize) -> Vec<Tick> {
        self.pool.upcoming(&*self.task, n)
    }

    /// As [`TaskHandle::upcoming_wall`](crate::TaskHandle::upcoming_wall).
    #[must_use]
    pub fn upcoming_wall(&self, n: usize) -> Vec<SystemTime> {
        self.pool.upcoming_wall(&*self.task, n)
    }

    /// As [`TaskHandle::pause`](crate::TaskHandle::pause).
    pub fn pause(&self) -> Steered {
        self.pool.pause(&*self.task)
    }

    /// As [`TaskHandle::resume`](crate::TaskHandle::resume).
    pub fn resume(&self) -> Steered {
        self.pool.resume(&*self.task)
    }

    /// As [`TaskHandle::reschedule`](crate::TaskHandle::reschedule).
    pub fn reschedule(&self, when: impl Into<When>) -> Steered {
        self.pool.reschedule(&*self.task, when.into())
    }

    /// As [`TaskHandle::trigger_now`](crate::TaskHandle::trigger_now).
    pub fn trigger_now(&self) -> Steered {
        self.pool.trigger(&*self.task)
    }

    /// As [`TaskHandle::cancel`](crate::TaskHandle::cancel).
    pub fn cancel(&self) -> bool {
        self.pool.cancel(&*self.task)
    }

    /// As [`TaskHandle::interrupt`](crate::TaskHandle::interrupt).
    pub fn interrupt(&self) -> bool {
        self.pool.cancel_and_interrupt(&*self.task)
    }
}

impl fmt::Debug for TaskRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRemote")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// The task of this name that is not over; the oldest, if there are several.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TaskRemote> {
        let task = self.pool().registry.named(name).into_iter().next()?;
        Some(TaskRemote::new(task, self.pool()))
    }

    /// The tasks with this tag that are not over, the oldest first.
    #[must_use]
    pub fn tagged(&self, tag: &str) -> Vec<TaskRemote> {
        let tasks = self.pool().registry.tagged(tag);
        tasks.into_iter().map(|task| TaskRemote::new(task, self.pool())).collect()
    }

    /// All tasks that wait or run, in the order in which they are due. A picture: it does not change, and the executor
    /// does not wait.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// pool.task(|| ()).name("sweep").every(minute).start()?;
    /// pool.schedule(minute / 2, || ())?;
    /// clock.advance(minute / 4);
    /// let lines: Vec<String> = pool.tasks().iter().map(|task| task.to_string()).collect();
    /// assert_eq!(lines, ["#1 in 15s, 0 runs, 0 failed", "#0 \"sweep\" in 45s, 1 runs, 0 failed"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskView> {
        self.pool().views()
    }
}
