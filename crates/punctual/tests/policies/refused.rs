//! Tasks with policies that an executor refuses, or hands out unrun.

use std::time::Duration;

use punctual::{Backoff, Executor, ManualClock, RejectReason, Rejection, TaskContext, TaskError, TaskState};

use crate::bodies::SECOND;
use crate::support::{Counter, Gate, HOUR, block_worker, finish, manual};

fn full(clock: &ManualClock, gate: &Gate) -> Executor {
    let builder = Executor::builder().core_threads(1).capacity(0).rejection(Rejection::CallerRuns);
    let pool = builder.clock(clock.clone()).build().unwrap();
    drop(block_worker(&pool, gate));
    pool
}

/// The caller has one run to give, and these may need more.
#[test]
fn the_caller_has_back_what_may_run_more_than_once() {
    let (clock, gate, runs) = (ManualClock::new(), Gate::new(), Counter::new());
    let pool = full(&clock, &gate);
    let refused = pool.task(runs.body()).every(SECOND).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    let refused = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, refused.into_task()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    let mut body = refused.into_task();
    let attempt = move || -> Result<(), String> {
        body();
        Err("no".to_owned())
    };
    let refused = pool.task(attempt).retry(Backoff::between(SECOND..=SECOND)).start().unwrap_err();
    assert_eq!((refused.reason(), runs.get()), (RejectReason::Saturated, 0));
    assert!(refused.into_task()().is_err());
    gate.open();
    finish(&pool);
}

#[test]
fn a_run_by_the_caller_ends_with_its_timeout() {
    let (clock, gate) = (ManualClock::new(), Gate::new());
    let pool = full(&clock, &gate);
    let (begun, nap) = (Gate::new(), 3600 * SECOND);
    let inner = begun.clone();
    begun.open();
    let body = move || {
        inner.pass();
        TaskContext::current().sleep(nap).is_err()
    };
    let task = std::thread::scope(|scope| {
        let caller = scope.spawn(|| pool.task(body).timeout(SECOND).start());
        begun.await_arrivals(1);
        clock.jump(SECOND);
        caller.join().unwrap().ok().unwrap()
    });
    assert!(matches!(task.failure(), Some(TaskError::TimedOut(timeout)) if timeout == SECOND));
    gate.open();
    finish(&pool);
}

/// By hand there is one attempt, and what it comes to is the value.
#[test]
fn a_task_that_is_run_by_hand_makes_one_attempt() {
    let (pool, _clock) = manual(1);
    let runs = Counter::new();
    let count = runs.clone();
    let body = move || -> Result<(), &str> {
        count.hit();
        Err("no")
    };
    let task = pool.task(body).after(HOUR).retry(Backoff::between(SECOND..=SECOND)).start().unwrap();
    assert!(pool.remove(task.id()).unwrap().run());
    assert_eq!((task.join().unwrap(), runs.get(), task.state()), (Err("no"), 1, TaskState::Succeeded));
    finish(&pool);
}
