//! What can be seen of one task at one instant.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual_engine::{Schedule, Tick};

use super::{Task, TaskId, TaskState, Turn};
use crate::error::TaskError;
use crate::handle::Remaining;
use crate::series::{History, Now};

/// A task as it was when somebody looked; see [`Scheduler::tasks`](crate::Scheduler::tasks) and
/// [`TaskHandle::info`](crate::TaskHandle::info).
///
/// Failures, missed runs, the last run and lateness are kept for tasks of the [builder](crate::Scheduler::task) that run
/// more than once or have a policy; the four Java forms do without.
#[derive(Clone, Debug)]
pub struct TaskView {
    id: TaskId,
    name: Option<Arc<str>>,
    tags: Vec<Arc<str>>,
    schedule: Schedule,
    state: TaskState,
    is_paused: bool,
    deadline: Tick,
    wall: Option<SystemTime>,
    remaining: Remaining,
    runs: u64,
    is_overrunning: bool,
    history: History,
}

impl TaskView {
    pub(crate) fn of(task: &dyn Task, turn: Turn, now: Now) -> Self {
        let header = task.header();
        let series = header.series();
        let deadline = series.map_or(turn.deadline, |series| series.planned(turn.deadline, now));
        Self {
            id: turn.id,
            name: header.name().cloned(),
            tags: header.tags().to_vec(),
            schedule: header.schedule(),
            state: task.state(),
            is_paused: header.is_paused(),
            deadline,
            wall: series.and_then(|series| series.wall()),
            remaining: Remaining::between(now.tick, deadline),
            runs: header.runs(),
            is_overrunning: series.is_some_and(|series| series.is_overrunning()),
            history: series.map(|series| series.history()).unwrap_or_default(),
        }
    }

    /// The id of the task, the same as its handle's.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The name of the task, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(|tag| &**tag)
    }

    /// How often it runs.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Whether it is [paused](crate::TaskHandle::pause).
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The instant from which the next run is allowed, or the one going on was.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// That instant on the wall clock, for a task that goes by it, before any jitter or spread.
    #[must_use]
    pub fn wall_deadline(&self) -> Option<SystemTime> {
        self.wall
    }

    /// How long until the deadline, or since.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// How many runs have begun.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether the run going on has taken twice its [timeout](crate::TaskBuilder::timeout), and goes on.
    #[must_use]
    pub fn is_overrunning(&self) -> bool {
        self.is_overrunning
    }

    /// How many runs have failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.history.failures
    }

    /// How many of the last runs have failed in a row.
    #[must_use]
    pub fn failures_in_a_row(&self) -> u32 {
        self.history.in_a_row
    }

    /// How many points of its schedule were left out; see [`Missed`](crate::Missed).
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.history.missed
    }

    /// Why the last run failed, if it did.
    #[must_use]
    pub fn last_failure(&self) -> Option<&TaskError> {
        self.history.last.as_ref()?.failure.as_ref()
    }

    /// When the last run began and ended, if there was one.
    #[must_use]
    pub fn last_run(&self) -> Option<(Tick, Tick)> {
        self.history.last.as_ref().map(|last| (last.times.started, last.times.ended))
    }

    /// How late the last run began, if there was one.
    #[must_use]
    pub fn lateness(&self) -> Option<Duration> {
        self.history.last.as_ref().map(|last| last.times.started.since(last.times.deadline))
    }

    /// How late the latest of its runs began.
    #[must_use]
    pub fn worst_lateness(&self) -> Duration {
        self.history.worst
    }
}

impl fmt::Display for TaskView {
    /// `#7 "heartbeat" in 2s, 3 runs, 1 failed`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match self.state {
            TaskState::Waiting if self.is_paused => f.write_str(" paused")?,
            TaskState::Waiting => write!(f, " {}", self.remaining)?,
            TaskState::Running => f.write_str(" running")?,
            over => write!(f, " {}", format!("{over:?}").to_lowercase())?,
        }
        write!(f, ", {} runs, {} failed", self.runs, self.failures())
    }
}
