//! What can be known about a task without knowing the type of its value.

use std::fmt;
use std::sync::Arc;

use punctual_engine::{Schedule, TaskKey, Tick};

use crate::sync::atomic::{AtomicU64, Ordering};

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
    /// The number, written once when the task is accepted, below two flags that never touch it.
    word: AtomicU64,
    /// Written under the pool's lock whenever the task is queued.
    key: AtomicU64,
    /// Written under the pool's lock whenever the task is queued.
    deadline: AtomicU64,
}

struct Special {
    name: Option<Arc<str>>,
    schedule: Schedule,
    /// Runs begun. Written by the one thread that runs the task, under the cell's lock.
    runs: AtomicU64,
}

/// In `word`: set by whoever interrupts, read by the body.
const INTERRUPTED: u64 = 1 << 63;
/// In `word`: a task that is not special has been started.
const STARTED: u64 = 1 << 62;
/// In `word`: the number. All ones until there is one.
const NUMBER: u64 = STARTED - 1;

impl Header {
    pub(crate) fn new(name: Option<Arc<str>>, schedule: Schedule) -> Self {
        let plain = name.is_none() && schedule == Schedule::Once;
        Self {
            special: (!plain).then(|| Box::new(Special { name, schedule, runs: AtomicU64::new(0) })),
            word: AtomicU64::new(NUMBER),
            key: AtomicU64::new(TaskKey::NONE.to_bits()),
            deadline: AtomicU64::new(0),
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
        TaskId(self.word.load(Ordering::Relaxed) & NUMBER)
    }

    pub(crate) fn has_number(&self) -> bool {
        self.word.load(Ordering::Relaxed) & NUMBER != NUMBER
    }

    pub(crate) fn set_number(&self, number: u64) {
        // Nobody else knows the task yet, so there is no flag to lose. A thousand million submissions a second would
        // take 146 years to reach the flags.
        self.word.store(number, Ordering::Relaxed);
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
        match &self.special {
            Some(special) => special.runs.load(Ordering::Relaxed),
            None => u64::from(self.word.load(Ordering::Relaxed) & STARTED != 0),
        }
    }

    pub(crate) fn count_run(&self) {
        match &self.special {
            Some(special) => special.runs.store(special.runs.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
            None => drop(self.word.fetch_or(STARTED, Ordering::Relaxed)),
        }
    }

    /// Acquire and Release: what was done before interrupting is seen by the body that notices.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0
    }

    pub(crate) fn take_interrupt(&self) -> bool {
        self.word.fetch_and(!INTERRUPTED, Ordering::AcqRel) & INTERRUPTED != 0
    }

    pub(crate) fn set_interrupted(&self) {
        self.word.fetch_or(INTERRUPTED, Ordering::Release);
    }
}
