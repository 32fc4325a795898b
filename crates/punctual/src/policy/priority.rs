//! Who goes first when several tasks are due.

use std::time::Duration;

use punctual_engine::Tick;

/// A head start over other tasks that are due.
///
/// Tasks start in the order of their deadlines, and so does a task with a priority, but as if it had been due so much
/// earlier. That matters only while tasks wait for a thread: nothing runs before its deadline. And it ages by itself: a
/// task without priority that has waited longer than the head start goes before one that has just come due, so nothing
/// waits for ever.
///
/// ```text
/// deadline         a b c d e f        p: due with f, ahead by three steps
/// one thread  [===== busy =====][a][b][c][p][d][e][f]
/// ```
///
/// By default tasks have none, and the order is exactly that of (deadline, submission).
///
/// ```
/// use punctual::{Executor, ManualClock, Priority};
/// use std::{sync::mpsc, time::Duration};
///
/// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
/// let pool = Executor::builder().core_threads(1).clock(clock.clone()).build()?;
/// let (sender, order) = mpsc::channel();
/// let say = |word: &'static str| {
///     let sender = sender.clone();
///     move || sender.send(word).unwrap()
/// };
/// pool.task(say("old")).after(10 * second).start()?;
/// pool.task(say("bulk")).after(50 * second).start()?;
/// pool.task(say("alarm")).after(55 * second).priority(Priority::ahead(30 * second)).start()?;
/// clock.jump(60 * second); // all of them are late
/// clock.wait_until_idle();
/// assert_eq!(order.try_iter().collect::<Vec<_>>(), ["old", "alarm", "bulk"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority {
    ahead: Duration,
}

impl Priority {
    /// A head start of this much. The more, the more urgent.
    #[must_use]
    pub const fn ahead(time: Duration) -> Self {
        Self { ahead: time }
    }

    /// The head start.
    #[must_use]
    pub const fn head_start(self) -> Duration {
        self.ahead
    }

    /// The place of a due task among those that are due.
    pub(crate) fn rank(self, deadline: Tick) -> i128 {
        let ahead = i128::try_from(self.ahead.as_nanos()).unwrap_or(i128::MAX);
        i128::from(deadline.as_nanos()) - ahead
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::Priority;
    use punctual_engine::Tick;
    use std::time::Duration;

    #[test]
    fn a_head_start_is_worth_its_time_and_no_more() {
        let (none, second) = (Priority::ahead(Duration::ZERO), Priority::ahead(Duration::from_secs(1)));
        let at = |nanos| Tick::from_nanos(nanos);
        assert!(second.rank(at(1_000_000_000)) == none.rank(at(0)));
        assert!(second.rank(at(999_999_999)) < none.rank(at(0)));
        assert!(second.rank(at(1_000_000_001)) > none.rank(at(0)));
        // Not even the ends of both scales meet.
        assert!(Priority::ahead(Duration::MAX).rank(at(1)) > Priority::ahead(Duration::MAX).rank(at(0)));
        assert!(Priority::ahead(Duration::MAX).rank(Tick::MAX) < none.rank(at(0)));
    }
}
