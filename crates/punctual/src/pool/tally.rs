//! What one worker has done, readable by anybody at any time.
//!
//! One word holds both "is running a task" and "how many it has completed", so that a task passes from running
//! to completed in one store: a snapshot never counts it twice or not at all. The word is set to busy in the
//! step in which the task is taken, under the pool's lock or that of what is [`ready`](super::ready); it is set to completed by the worker alone, before
//! the outcome is published, so whoever has the outcome sees the task counted.

use crate::sync::atomic::{AtomicU64, Ordering};

/// On lines of its own: its worker writes to it for every task.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tally(AtomicU64);

const BUSY: u64 = 1;
const COMPLETED: u64 = 2;

impl Tally {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    // Only the worker itself writes. Release in `finish`: the count is there for whoever sees the outcome, which
    // is published after it.

    pub(crate) fn begin(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) | BUSY, Ordering::Release);
    }

    /// The run is over and counts as completed.
    pub(crate) fn finish(&self) {
        self.0.store((self.0.load(Ordering::Relaxed) & !BUSY) + COMPLETED, Ordering::Release);
    }

    /// The task had been ended before it was started.
    pub(crate) fn skip(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !BUSY, Ordering::Release);
    }

    pub(crate) fn completed(&self) -> u64 {
        self.0.load(Ordering::Acquire) / COMPLETED
    }

    /// Both at one instant.
    pub(crate) fn read(&self) -> (bool, u64) {
        let word = self.0.load(Ordering::Acquire);
        (word & BUSY != 0, word / COMPLETED)
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::Tally;

    #[test]
    fn a_task_is_either_running_or_completed() {
        let tally = Tally::new();
        assert_eq!(tally.read(), (false, 0));
        tally.begin();
        assert_eq!(tally.read(), (true, 0));
        tally.finish();
        assert_eq!(tally.read(), (false, 1));
        tally.begin();
        tally.skip();
        assert_eq!(tally.read(), (false, 1));
    }
}
