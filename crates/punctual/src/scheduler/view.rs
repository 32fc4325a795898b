//! What can be seen of an executor: numbers, and the tasks that wait.

use std::fmt;
use std::sync::Arc;

use punctual_engine::{Entry, Schedule, Tick};

use super::Scheduler;
use crate::error::Abandoned;
use crate::handle::Remaining;
use crate::lateness::{Lateness, Recorder};
use crate::stats::Stats;
use crate::task::{TaskId, TaskRef, Turn};
use crate::unrun::UnrunTask;

impl Scheduler {
    /// All numbers at one instant.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let pool = self.pool();
        let (now, timeouts) = (pool.clock.now(), pool.limits.len());
        pool.core.lock().stats(now, timeouts)
    }

    /// How late runs have begun, so far; `None` unless that is [recorded](crate::Builder::record_lateness).
    ///
    /// Runs on workers are counted, those by hand and those of time limits are not. Every poll of a
    /// [future](Self::spawn) is one: its lateness counts from the wake.
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        self.pool().lateness.as_ref().map(Recorder::snapshot)
    }

    /// The waiting tasks, the next to run first. A picture: it does not change, and the queue does not wait.
    #[must_use]
    pub fn queue(&self) -> Vec<QueuedTask> {
        let pool = self.pool();
        let now = pool.clock.now();
        let view = |entry: Entry<'_, TaskRef>| {
            let header = entry.value.header();
            // Paused or triggered, it is queued for when it is to run; otherwise perhaps for a look at the wall.
            let deadline = match header.is_paused() || header.is_triggered() {
                true => entry.deadline,
                false => pool.planned(header, Turn { deadline: entry.deadline, id: TaskId(entry.number) }),
            };
            let task = QueuedTask {
                id: turn_of(&entry).id,
                name: header.name().cloned(),
                schedule: header.schedule(),
                deadline,
                remaining: Remaining::between(now, deadline),
                runs: header.runs(),
            };
            ((deadline, entry.number), task)
        };
        let core = pool.core.lock();
        let mut queued: Vec<_> = core.queue.iter().map(view).collect();
        drop(core);
        queued.sort_by_key(|(order, _)| *order);
        queued.into_iter().map(|(_, task)| task).collect()
    }

    /// Takes a waiting task out of the queue by its id, unrun. Looks through the whole queue: with a handle,
    /// [`TaskHandle::remove`](crate::TaskHandle::remove) is quicker.
    pub fn remove(&self, id: TaskId) -> Option<UnrunTask> {
        let pool = self.pool();
        let core = pool.core.lock();
        let found = core.queue.iter().find(|entry| turn_of(entry).id == id);
        let (task, turn) = found.map(|entry| (entry.value.clone(), turn_of(&entry)))?;
        drop(core);
        let unlinked = pool.remove(&*task);
        pool.discard(task);
        unlinked.map(|task| UnrunTask::new(task, turn, pool, Abandoned::Removed))
    }
}

/// As planned: a future that was woken is queued under a number that is not its id, and a paused task for the end of
/// time.
fn turn_of(entry: &Entry<'_, TaskRef>) -> Turn {
    let queued = Turn { deadline: entry.deadline, id: TaskId(entry.number) };
    entry.value.header().planned().unwrap_or(queued)
}

/// One waiting task, as it was when [`Scheduler::queue`] looked.
#[derive(Clone, Debug)]
pub struct QueuedTask {
    id: TaskId,
    name: Option<Arc<str>>,
    schedule: Schedule,
    deadline: Tick,
    remaining: Remaining,
    runs: u64,
}

impl QueuedTask {
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

    /// How often it runs.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Whether it runs more than once.
    #[must_use]
    pub fn is_periodic(&self) -> bool {
        self.schedule.is_periodic()
    }

    /// The instant from which it may run.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// How long until then, or since.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// How many runs it has had.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }
}

impl fmt::Display for QueuedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name:?} {}", self.id, self.remaining),
            None => write!(f, "{} {}", self.id, self.remaining),
        }
    }
}
