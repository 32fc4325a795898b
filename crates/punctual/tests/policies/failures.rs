//! What follows a run that failed.

use std::sync::{Arc, Mutex};

use punctual::{
    Backoff, Executor, ManualClock, Observer, OnFailure, RunOutcome, TaskError, TaskInfo, TaskState,
};

use crate::bodies::{SECOND, failing};
use crate::support::{Log, finish, manual};

const F: bool = true;
const OK: bool = false;

fn timeline(policy: OnFailure, script: &[bool], until: u32) -> (Vec<u64>, Option<TaskError>) {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = failing(&clock, &log, script);
    let task = pool.task(body).every(10 * SECOND).on_failure(policy).start().unwrap();
    clock.advance(until * SECOND);
    let failed = script.iter().take(log.entries().len()).filter(|failed| **failed).count();
    assert_eq!(task.info().failures(), failed as u64);
    let failure = task.failure();
    finish(&pool);
    (log.entries(), failure)
}

#[test]
fn an_error_stops_a_series_by_default_as_a_panic_does() {
    let (runs, failure) = timeline(OnFailure::default(), &[OK, F, OK], 50);
    assert_eq!(runs, [0, 10]);
    assert_eq!(failure.unwrap().to_string(), "the task failed: as told");
    let (pool, clock) = manual(1);
    let task = pool.task(|| panic!("boom")).every(SECOND).start().unwrap();
    clock.advance(SECOND);
    assert_eq!((task.runs(), task.state()), (1, TaskState::Failed));
    assert_eq!(task.failure().unwrap().panic().unwrap().message(), "boom");
    finish(&pool);
}

#[test]
fn a_series_that_continues_keeps_its_grid() {
    let (runs, failure) = timeline(OnFailure::Continue, &[F, F, OK, F], 40);
    assert_eq!(runs, [0, 10, 20, 30, 40]);
    assert!(failure.is_none());
}

#[test]
fn only_failures_in_a_row_stop_a_series() {
    let (runs, failure) = timeline(OnFailure::StopAfter(2), &[F, OK, F, F], 90);
    assert_eq!(runs, [0, 10, 20, 30]);
    assert!(failure.is_some());
}

/// Sooner than the grid at first, later after some failures; then the grid as it was.
#[test]
fn a_back_off_leaves_the_grid_and_returns_to_it() {
    let policy = OnFailure::backoff(3 * SECOND..=60 * SECOND);
    let (runs, failure) = timeline(policy, &[F, F, F, OK], 50);
    assert_eq!(runs, [0, 3, 9, 21, 30, 40, 50]);
    assert!(failure.is_none());
}

#[test]
fn a_back_off_starts_anew_after_a_success() {
    let policy = OnFailure::backoff(SECOND..=60 * SECOND);
    let (runs, _) = timeline(policy, &[F, F, OK, F, OK], 20);
    assert_eq!(runs, [0, 1, 3, 10, 11, 20]);
}

#[test]
fn a_back_off_gives_up_when_told() {
    let policy = OnFailure::Backoff(Backoff::constant(SECOND).give_up_after(3));
    let (runs, failure) = timeline(policy, &[F; 9], 50);
    assert_eq!(runs, [0, 1, 2]);
    assert!(matches!(failure, Some(TaskError::Failed(_))));
}

/// Panics of the body, of a hook and of a body that returns an error are all the same to the policy.
#[test]
fn a_panic_is_a_failure_like_any_other() {
    struct Fragile;
    impl Observer for Fragile {
        fn before_run(&self, task: TaskInfo<'_>) {
            assert!(task.runs() != 2, "a hook fails");
        }
    }
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(1).clock(clock.clone()).observer(Fragile).build().unwrap();
    let log = Log::new();
    let runs = log.clone();
    let body = move || {
        runs.add(());
        assert!(runs.entries().len() != 2, "the body fails");
    };
    let task = pool.task(body).every(SECOND).on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(3 * SECOND);
    assert_eq!((task.runs(), log.entries().len()), (4, 3));
    let failures: Vec<String> = task.recent_failures().iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        [
            "run 2 after 0ns: the task was not run because a hook panicked: a hook fails",
            "run 3 after 0ns: the task panicked: the body fails",
        ]
    );
    finish(&pool);
}

/// A body that panics half-way is the same body in the next run.
#[test]
fn what_a_body_did_before_it_failed_is_seen_by_its_next_run() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, mut count) = (log.clone(), 0);
    let body = move || {
        count += 1;
        seen.add(count);
        assert!(count % 2 == 0, "odd");
    };
    let _task = pool.task(body).every(SECOND).on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(3 * SECOND);
    assert_eq!(log.entries(), [1, 2, 3, 4]);
    finish(&pool);
}

#[test]
fn an_observer_is_told_of_errors_as_of_panics() {
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);
    impl Observer for Seen {
        fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
            self.0.lock().unwrap().push(match outcome {
                RunOutcome::Returned => "returned".to_owned(),
                RunOutcome::Panicked(panic) => format!("panicked: {panic}"),
                RunOutcome::Failed(error) => error.to_string(),
                _ => unreachable!(),
            });
        }
    }
    let (seen, clock) = (Seen::default(), ManualClock::new());
    let pool =
        Executor::builder().core_threads(1).clock(clock.clone()).observer(seen.clone()).build().unwrap();
    let mut run = 0;
    let body = move || {
        run += 1;
        match run {
            1 => Ok(()),
            2 => Err("two"),
            _ => panic!("three"),
        }
    };
    let task = pool.task(body).every(SECOND).on_failure(OnFailure::StopAfter(2)).start().unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(*seen.0.lock().unwrap(), ["returned", "the task failed: two", "panicked: three"]);
    assert_eq!(task.info().failures_in_a_row(), 2);
    finish(&pool);
}

/// The last run of a series that was to have an end.
#[test]
fn a_series_that_ends_with_a_failed_run_has_that_failure() {
    for policy in [OnFailure::Continue, OnFailure::backoff(SECOND..=SECOND)] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let body = failing(&clock, &log, &[F, F]);
        let task = pool.task(body).every(10 * SECOND).on_failure(policy).at_most(2).start().unwrap();
        clock.advance(20 * SECOND);
        assert!(matches!(task.failure(), Some(TaskError::Failed(_))), "{policy:?}");
        assert_eq!(task.runs(), 2);
        finish(&pool);
    }
}

/// Reporting runs in the worker, as the body does: whatever it does is contained.
#[test]
fn an_error_that_panics_when_it_is_shown_is_a_panic_of_the_body() {
    struct Rude;
    impl std::fmt::Display for Rude {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("not telling")
        }
    }
    let (pool, clock) = manual(1);
    let task =
        pool.task(|| Err::<(), Rude>(Rude)).every(SECOND).on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(2 * SECOND);
    assert_eq!((task.runs(), task.info().failures()), (3, 3));
    assert_eq!(task.recent_failures()[2].error().panic().unwrap().message(), "not telling");
    finish(&pool);
}
