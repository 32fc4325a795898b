//! Runs that take too long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Backoff, Executor, ManualClock, Observer, OnFailure, TaskContext, TaskError, TaskInfo};

use crate::bodies::{SECOND, seconds};
use crate::support::{Gate, Log, eventually, finish, manual};

fn is_timeout(error: Option<TaskError>) -> bool {
    matches!(error, Some(TaskError::TimedOut(limit)) if limit == 5 * SECOND)
}

#[test]
fn a_body_that_heeds_its_timeout_stops_then_and_has_failed() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || {
        use punctual::Clock;
        let _ = TaskContext::current().sleep(3600 * SECOND);
        seen.add(seconds(time.now()));
        "a value that comes too late"
    };
    let task = pool.task(body).after(10 * SECOND).timeout(5 * SECOND).start().unwrap();
    clock.advance(20 * SECOND);
    assert_eq!(log.entries(), [15]);
    assert!(is_timeout(task.failure()));
    assert_eq!(task.failure().unwrap().to_string(), "the task took longer than its timeout of 5s");
    assert_eq!(pool.stats().timeouts, 0, "no watch is left behind");
    finish(&pool);
}

#[test]
fn a_body_that_ends_in_time_takes_its_timeout_along() {
    let (pool, clock) = manual(1);
    let body = || TaskContext::current().sleep(4 * SECOND).map(|()| 7);
    let task = pool.task(body).timeout(5 * SECOND).start().unwrap();
    clock.advance(4 * SECOND);
    assert_eq!(task.join().unwrap(), Ok(7));
    assert_eq!(pool.stats().timeouts, 0);
    finish(&pool);
}

/// Waiting for a thread is not the task's fault.
#[test]
fn the_clock_of_a_timeout_starts_with_the_run() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    crate::support::block_worker(&pool, &gate);
    let task = pool.task(|| 7).timeout(5 * SECOND).start().unwrap();
    clock.jump(60 * SECOND);
    gate.open();
    assert_eq!(task.join().unwrap(), 7);
    finish(&pool);
}

/// The flag is for one run: the next begins without it.
#[test]
fn each_run_of_a_series_has_a_timeout_of_its_own() {
    let (pool, clock) = manual(1);
    let body = || {
        let context = TaskContext::current();
        assert!(!context.is_interrupted());
        let long = context.runs() % 2 == 1;
        context.sleep(if long { 3600 * SECOND } else { SECOND })
    };
    let builder =
        pool.task(body).with_fixed_delay(SECOND).timeout(5 * SECOND).on_failure(OnFailure::Continue);
    let task = builder.start().unwrap();
    clock.advance(23 * SECOND);
    assert_eq!((task.runs(), task.info().failures()), (6, 3));
    assert!(task.recent_failures().iter().all(|failed| is_timeout(Some(failed.error().clone()))));
    finish(&pool);
}

#[test]
fn a_run_that_timed_out_is_tried_again() {
    let (pool, clock) = manual(1);
    let body = || match TaskContext::current().runs() {
        1 => TaskContext::current().sleep(3600 * SECOND).map(|()| 0),
        _ => Ok(7),
    };
    let task = pool.task(body).timeout(5 * SECOND).retry(Backoff::constant(SECOND)).start().unwrap();
    clock.advance(6 * SECOND);
    assert_eq!(task.join().unwrap(), Ok(7));
    finish(&pool);
}

#[derive(Clone, Default)]
struct Overruns(Arc<Mutex<Vec<(String, Duration)>>>);

impl Observer for Overruns {
    fn overrunning(&self, task: TaskInfo<'_>, took: Duration) {
        self.0.lock().unwrap().push((task.to_string(), took));
    }
}

#[test]
fn a_body_that_ignores_its_timeout_is_reported_as_overrunning_once() {
    let (overruns, clock) = (Overruns::default(), ManualClock::new());
    let pool =
        Executor::builder().core_threads(1).clock(clock.clone()).observer(overruns.clone()).build().unwrap();
    let gate = Gate::new();
    let stubborn = gate.clone();
    let task = pool.task(move || stubborn.pass()).name("stubborn").timeout(5 * SECOND).start().unwrap();
    gate.await_arrivals(1);
    clock.jump(5 * SECOND);
    eventually("it is asked to stop", || pool.stats().timeouts == 1 && !task.info().is_overrunning());
    clock.jump(5 * SECOND);
    eventually("it is reported", || !overruns.0.lock().unwrap().is_empty());
    assert!(task.info().is_overrunning() && !task.is_done());
    clock.jump(60 * SECOND);
    gate.open();
    assert!(task.wait().is_ok() && is_timeout(task.failure()));
    assert_eq!(*overruns.0.lock().unwrap(), [("#0 \"stubborn\"".to_owned(), 10 * SECOND)]);
    finish(&pool);
}

#[test]
fn a_body_that_stops_late_but_in_time_is_not_overrunning() {
    let (overruns, clock) = (Overruns::default(), ManualClock::new());
    let pool =
        Executor::builder().core_threads(1).clock(clock.clone()).observer(overruns.clone()).build().unwrap();
    let body = || {
        let _ = TaskContext::current().sleep(3600 * SECOND);
    };
    let task = pool.task(body).timeout(5 * SECOND).start().unwrap();
    clock.advance(60 * SECOND);
    assert!(is_timeout(task.failure()));
    assert!(overruns.0.lock().unwrap().is_empty());
    finish(&pool);
}

#[test]
fn overlapping_runs_have_a_timeout_each() {
    let (pool, clock) = manual(3);
    let body = || TaskContext::current().sleep(3600 * SECOND);
    let builder = pool.task(body).every(2 * SECOND).timeout(5 * SECOND).on_failure(OnFailure::Continue);
    let task = builder.overlap(punctual::Overlap::Allow(2)).start_shared().unwrap();
    clock.advance(9 * SECOND);
    // 0 to 5, 2 to 7, (4 has no place), 6 to 11, 8 to 13.
    assert_eq!((task.info().failures(), task.info().missed(), task.runs()), (2, 1, 4));
    assert!(is_timeout(Some(task.recent_failures()[0].error().clone())));
    finish(&pool);
}

/// Whatever asks a run to stop first is the reason.
#[test]
fn a_run_that_timed_out_before_it_was_to_be_replaced_has_failed() {
    let (pool, clock) = manual(1);
    let body = || {
        let context = TaskContext::current();
        // Slow to listen.
        while context.sleep(12 * SECOND).is_err() && context.take_interrupt() {
            if context.runs() > 1 {
                break;
            }
        }
    };
    let builder = pool.task(body).every(10 * SECOND).overlap(punctual::Overlap::Replace).timeout(5 * SECOND);
    let task = builder.on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(30 * SECOND);
    assert!(is_timeout(Some(task.recent_failures()[0].error().clone())));
    finish(&pool);
}
