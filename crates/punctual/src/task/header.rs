//! What can be known about a task without knowing the type of its value.

use std::fmt;
use std::sync::Arc;

use punctual_engine::{Schedule, TaskKey, Tick};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names a task for the life of its executor: the number of its submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
    /// The submission number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The part of a task that every thread may read at any time.
pub(crate) struct Header {
    /// What sets it apart from a task that runs once and has no name. Immutable after construction.
    special: Option<Box<Special>>,
    /// Written once, under the pool's lock, when the task is accepted.
    number: AtomicU64,
    /// Written under the pool's lock whenever the task is queued.
    key: AtomicU64,
    /// Written under the pool's lock whenever the task is queued.
    deadline: AtomicU64,
    /// Runs begun. Written by the one thread that runs the task, under the cell's lock.
    runs: AtomicU64,
    /// Set by whoever interrupts; read by the body.
    interrupted: AtomicBool,
}

struct Special {
    name: Option<Arc<str>>,
    schedule: Schedule,
}

impl Header {
    pub(crate) fn new(name: Option<Arc<str>>, schedule: Schedule) -> Self {
        let plain = name.is_none() && schedule == Schedule::Once;
        Self {
            special: (!plain).then(|| Box::new(Special { name, schedule })),
            number: AtomicU64::new(u64::MAX),
            key: AtomicU64::new(TaskKey::NONE.to_bits()),
            deadline: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.special.as_ref()?.name.as_ref()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        self.special.as_ref().map_or(Schedule::Once, |special| special.schedule)
    }

    // The words below are published by the pool's lock or the cell's; each is read alone, so Relaxed is enough.

    pub(crate) fn id(&self) -> TaskId {
        TaskId(self.number.load(Ordering::Relaxed))
    }

    pub(crate) fn has_number(&self) -> bool {
        self.number.load(Ordering::Relaxed) != u64::MAX
    }

    pub(crate) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(crate) fn key(&self) -> TaskKey {
        TaskKey::from_bits(self.key.load(Ordering::Relaxed))
    }

    pub(crate) fn set_queued(&self, key: TaskKey, deadline: Tick) {
        self.key.store(key.to_bits(), Ordering::Relaxed);
        self.deadline.store(deadline.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn deadline(&self) -> Tick {
        Tick::from_nanos(self.deadline.load(Ordering::Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Tick) {
        self.deadline.store(deadline.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(crate) fn count_run(&self) {
        self.runs.store(self.runs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Acquire and Release: what was done before interrupting is seen by the body that notices.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    pub(crate) fn take_interrupt(&self) -> bool {
        self.interrupted.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn set_interrupted(&self) {
        self.interrupted.store(true, Ordering::Release);
    }
}
