//! What a series remembers of its runs.

use std::collections::VecDeque;
use std::time::Duration;

use punctual_engine::RunTimes;

use crate::error::TaskError;
use crate::failure::FailedRun;

/// Failures that are remembered one by one.
const REMEMBERED: usize = 16;

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The newest last.
    recent: VecDeque<FailedRun>,
    pub(crate) failures: u64,
    pub(crate) in_a_row: u32,
    pub(crate) missed: u64,
    pub(crate) last: Option<LastRun>,
    pub(crate) worst: Duration,
}

/// The run that ended last.
#[derive(Clone, Debug)]
pub(crate) struct LastRun {
    pub(crate) times: RunTimes,
    pub(crate) failure: Option<TaskError>,
}

impl History {
    /// Notes a run. What is pushed out comes back, to be dropped unlocked: a panic's payload is a user's.
    #[must_use]
    pub(crate) fn note(
        &mut self,
        times: RunTimes,
        run: u64,
        failure: Option<&TaskError>,
    ) -> (Option<FailedRun>, Option<LastRun>) {
        self.worst = self.worst.max(times.started.since(times.deadline));
        let last = self.last.replace(LastRun { times, failure: failure.cloned() });
        let Some(error) = failure else {
            self.in_a_row = 0;
            return (None, last);
        };
        self.failures += 1;
        self.in_a_row = self.in_a_row.saturating_add(1);
        let forgotten = if self.recent.len() == REMEMBERED { self.recent.pop_front() } else { None };
        self.recent.push_back(FailedRun {
            error: error.clone(),
            run,
            in_a_row: self.in_a_row,
            deadline: times.deadline,
            started: times.started,
            ended: times.ended,
        });
        (forgotten, last)
    }

    pub(crate) fn recent(&self) -> Vec<FailedRun> {
        self.recent.iter().cloned().collect()
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{History, REMEMBERED};
    use crate::error::TaskError;
    use punctual_engine::{RunTimes, Tick};
    use std::time::Duration;

    const TIMES: RunTimes =
        RunTimes { deadline: Tick::from_nanos(3), started: Tick::from_nanos(5), ended: Tick::from_nanos(9) };

    #[test]
    fn only_the_newest_failures_are_remembered_and_all_are_counted() {
        let mut history = History::default();
        let total = REMEMBERED as u64 + 5;
        for run in 1..=total {
            let (forgotten, _) = history.note(TIMES, run, Some(&TaskError::Failed("no".into())));
            assert_eq!(
                forgotten.map(|old| old.run()),
                run.checked_sub(REMEMBERED as u64).filter(|run| *run > 0)
            );
        }
        let runs: Vec<u64> = history.recent().iter().map(|failed| failed.run()).collect();
        assert_eq!(runs, (6..=total).collect::<Vec<_>>());
        assert_eq!((history.failures, history.in_a_row), (total, total as u32));
        assert_eq!(history.worst, Duration::from_nanos(2));
    }

    #[test]
    fn a_success_ends_a_row_of_failures_and_forgets_none() {
        let mut history = History::default();
        let error = TaskError::Failed("no".into());
        for failure in [Some(&error), Some(&error), None, Some(&error)] {
            drop(history.note(TIMES, 1, failure));
        }
        let rows: Vec<u32> = history.recent().iter().map(|failed| failed.in_a_row()).collect();
        assert_eq!((rows, history.failures, history.in_a_row), (vec![1, 2, 1], 3, 1));
    }
}
