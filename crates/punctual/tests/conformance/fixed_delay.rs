//! Fixed delay: from end to start.

use std::sync::mpsc;
use std::time::Duration;

use punctual::{Clock, Executor, TaskContext, Tick};

use crate::fixed_rate::{self as shared, Kind, logging, millis};
use crate::support::{Gate, Log, SHORT, STEP, finish, manual};

/// ST-032: the first run waits for the initial delay, to the nanosecond.
#[test]
fn the_first_run_is_not_before_the_initial_delay() {
    shared::first_run_waits_for_the_initial_delay(Kind::Delay);
}

/// ST-033, ST-034: without help from outside the task runs again and again, and eight runs take seven delays at
/// least.
#[test]
fn eight_runs_take_at_least_seven_delays() {
    shared::eight_runs_take_seven_periods_of_real_time(Kind::Delay);
}

/// ST-033: in real time, too, each run starts no earlier than the delay after the end of the one before.
#[test]
fn the_delay_lies_between_end_and_start() {
    let delay = SHORT / 4;
    let pool = Executor::new(2);
    let (clock, (sender, receiver)) = (pool.clock(), mpsc::channel::<(Tick, Tick)>());
    let body = move || {
        let start = clock.now();
        TaskContext::current().sleep(delay / 3).unwrap();
        sender.send((start, clock.now())).unwrap();
    };
    drop(pool.schedule_with_fixed_delay(Duration::ZERO, delay, body).unwrap());
    let runs: Vec<(Tick, Tick)> = receiver.iter().take(4).collect();
    for pair in runs.windows(2) {
        assert!(pair[1].0.since(pair[0].1) >= delay, "{pair:?}");
    }
    assert_eq!(runs.len(), 4);
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-033, ST-034: on a machine that keeps up each run starts exactly one delay after the end of the one before.
#[test]
fn a_run_that_is_on_time_starts_one_delay_after_the_last_ended() {
    let (pool, clock) = manual(2);
    let log = Log::new();
    let mut body = logging(&log, &clock);
    let body = move || {
        body();
        let _ = TaskContext::current().sleep(STEP / 2);
    };
    drop(pool.schedule_with_fixed_delay(Duration::ZERO, STEP, body).unwrap());
    clock.advance(5 * STEP);
    assert_eq!(log.entries(), [(0, 0), (15, 15), (30, 30), (45, 45)]);
    finish(&pool);
}

/// ST-035: the next deadline counts from the return of the body, so neither a long run nor a late one is followed
/// by a burst.
#[test]
fn there_is_never_a_burst() {
    let (pool, clock) = manual(2);
    let (log, gate) = (Log::new(), Gate::new());
    let (mut body, inner) = (logging(&log, &clock), gate.clone());
    let body = move || {
        body();
        inner.pass();
    };
    let handle = pool.schedule_with_fixed_delay(Duration::ZERO, STEP, body).unwrap();
    gate.await_arrivals(1);
    clock.jump(100 * STEP);
    gate.open();
    clock.wait_until_idle();
    assert_eq!((handle.runs(), millis(handle.deadline())), (1, 1010));
    // The second run is late by 49 steps: the third comes one step after it.
    clock.jump(50 * STEP);
    clock.wait_until_idle();
    assert_eq!((handle.runs(), millis(handle.deadline())), (2, 1510));
    clock.advance(2 * STEP);
    assert_eq!(log.entries(), [(0, 0), (1010, 1500), (1510, 1510), (1520, 1520)]);
    finish(&pool);
}

/// ST-036: one run at a time, as with a fixed rate.
#[test]
fn runs_of_one_task_never_overlap() {
    shared::runs_never_overlap(Kind::Delay);
}

/// ST-036: a run sees what the run before it did, on another thread.
#[test]
fn a_run_sees_its_predecessor_on_another_thread() {
    shared::a_run_sees_what_the_run_before_it_did(Kind::Delay);
}

/// ST-036: no wait ends well while the series lives.
#[test]
fn a_wait_never_ends_well_while_the_series_lives() {
    shared::no_wait_for_a_live_series_ends_well(Kind::Delay);
}

/// ST-036: a panic ends the series, and nothing but the series.
#[test]
fn a_panic_ends_the_series() {
    shared::a_panic_ends_the_series_and_nothing_else(Kind::Delay);
}

/// ST-036: a delay of a nanosecond is fine, and a panic in the hundredth run makes it a hundred runs.
#[test]
fn a_delay_of_a_nanosecond_gives_exactly_a_hundred_runs() {
    shared::the_shortest_period_gives_exactly_as_many_runs(Kind::Delay);
}

/// ST-036: each run counts as a completed task.
#[test]
fn each_run_is_counted() {
    shared::every_run_counts_as_completed(Kind::Delay);
}

/// ST-036: a cancel prevents all later runs and disturbs none that has begun.
#[test]
fn a_cancelled_series_has_no_further_run() {
    shared::a_cancel_prevents_all_later_runs(Kind::Delay);
}
