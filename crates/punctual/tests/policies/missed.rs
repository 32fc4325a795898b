//! Runs whose time has passed.

use punctual::{Abandoned, Missed, TaskError};

use crate::bodies::{SECOND, busy};
use crate::support::{Gate, Log, block_worker, finish, manual};

/// The timelines of the policy's documentation: a period of 10, and a first run of 25.
fn timeline(missed: Missed, until: u32) -> Vec<(u64, u64, u64)> {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let task = pool.task(busy(&clock, &log, &[25])).every(10 * SECOND).missed(missed).start().unwrap();
    clock.wait_until_idle();
    clock.advance(until * SECOND - 25 * SECOND);
    assert_eq!(task.runs(), log.entries().len() as u64);
    finish(&pool);
    log.entries()
}

#[test]
fn a_burst_runs_every_point_back_to_back() {
    let expected = [(0, 0, 0), (25, 10, 0), (25, 20, 0), (30, 30, 0), (40, 40, 0)];
    assert_eq!(timeline(Missed::burst(), 40), expected);
}

#[test]
fn skip_goes_on_with_the_next_point() {
    assert_eq!(timeline(Missed::skip(), 40), [(0, 0, 0), (30, 30, 2), (40, 40, 0)]);
}

#[test]
fn once_makes_one_run_of_all_that_were_missed() {
    assert_eq!(timeline(Missed::once(), 40), [(0, 0, 0), (25, 20, 1), (30, 30, 0), (40, 40, 0)]);
}

#[test]
fn shift_moves_the_grid_to_the_late_run() {
    assert_eq!(timeline(Missed::shift(), 45), [(0, 0, 0), (25, 25, 0), (35, 35, 0), (45, 45, 0)]);
}

#[test]
fn a_burst_with_a_bound_catches_up_so_often_and_leaves_out_the_rest() {
    let expected = [(0, 0, 0), (25, 10, 0), (30, 30, 1), (40, 40, 0)];
    assert_eq!(timeline(Missed::burst().at_most(1), 40), expected);
    assert_eq!(timeline(Missed::burst().at_most(0), 40), [(0, 0, 0), (30, 30, 2), (40, 40, 0)]);
}

/// The bound itself is not too late: 20 may be run at 25 if 5 seconds are allowed.
#[test]
fn what_is_later_than_allowed_is_left_out() {
    assert_eq!(timeline(Missed::burst().within(5 * SECOND), 30), [(0, 0, 0), (25, 20, 1), (30, 30, 0)]);
    assert_eq!(timeline(Missed::burst().within(4 * SECOND), 30), [(0, 0, 0), (30, 30, 2)]);
    assert_eq!(timeline(Missed::once().within(4 * SECOND), 30), [(0, 0, 0), (30, 30, 2)]);
}

/// A bound on catching up is for one pause: the next one has a bound of its own.
#[test]
fn the_bound_of_a_burst_starts_anew_when_the_grid_is_met() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = busy(&clock, &log, &[25, 0, 25]);
    let task = pool.task(body).every(10 * SECOND).missed(Missed::burst().at_most(1)).start().unwrap();
    clock.wait_until_idle();
    clock.advance(5 * SECOND); // the run of 30 begins, and takes until 55
    clock.advance(5 * SECOND);
    let expected = [(0, 0, 0), (25, 10, 0), (30, 30, 1), (55, 40, 0), (60, 60, 1)];
    assert_eq!(log.entries(), expected);
    assert_eq!(task.info().missed(), 2);
    finish(&pool);
}

/// No worker was free from 0 to 35: what is taken from the queue then stands for all that were due.
fn busy_pool(missed: Missed, until: u32) -> Vec<(u64, u64, u64)> {
    let (pool, clock) = manual(1);
    let (log, gate) = (Log::new(), Gate::new());
    let first = pool.task(busy(&clock, &log, &[])).first(10 * SECOND).every(10 * SECOND).missed(missed);
    let _task = first.start().unwrap();
    block_worker(&pool, &gate);
    clock.jump(35 * SECOND);
    gate.open();
    clock.wait_until_idle();
    clock.advance(until * SECOND - 35 * SECOND);
    finish(&pool);
    log.entries()
}

#[test]
fn a_task_that_no_worker_had_time_for_is_run_by_its_policy() {
    assert_eq!(busy_pool(Missed::burst(), 40), [(35, 10, 0), (35, 20, 0), (35, 30, 0), (40, 40, 0)]);
    assert_eq!(busy_pool(Missed::skip(), 40), [(35, 30, 2), (40, 40, 0)]);
    assert_eq!(busy_pool(Missed::once(), 40), [(35, 30, 2), (40, 40, 0)]);
    assert_eq!(busy_pool(Missed::shift(), 45), [(35, 35, 0), (45, 45, 0)]);
    assert_eq!(busy_pool(Missed::once().within(4 * SECOND), 40), [(40, 40, 3)]);
    assert_eq!(busy_pool(Missed::burst().within(15 * SECOND), 40), [(35, 20, 1), (35, 30, 0), (40, 40, 0)]);
}

#[test]
fn a_single_run_that_is_too_late_is_abandoned() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let task = |lateness| pool.task(|| ()).after(10 * SECOND).max_lateness(lateness).start().unwrap();
    let (strict, lenient) = (task(4 * SECOND), task(5 * SECOND));
    block_worker(&pool, &gate);
    clock.jump(15 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert!(matches!(strict.failure(), Some(TaskError::Abandoned(Abandoned::Missed))));
    assert_eq!(strict.runs(), 0);
    lenient.join().unwrap();
    finish(&pool);
}

/// The end of a series may fall into what is left out.
#[test]
fn a_series_whose_last_point_is_left_out_ends_as_missed() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let builder = pool.task(|| ()).first(10 * SECOND).every(10 * SECOND).until(20 * SECOND);
    let task = builder.missed(Missed::once().within(SECOND)).start().unwrap();
    block_worker(&pool, &gate);
    clock.jump(35 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert!(matches!(task.failure(), Some(TaskError::Abandoned(Abandoned::Missed))));
    finish(&pool);
}

/// A fixed delay has no grid: nothing is missed, whatever the policy.
#[test]
fn what_counts_from_the_last_run_cannot_be_missed() {
    for missed in [Missed::burst(), Missed::skip(), Missed::once(), Missed::shift()] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let body = busy(&clock, &log, &[25]);
        let task = pool.task(body).with_fixed_delay(10 * SECOND).missed(missed).start().unwrap();
        clock.wait_until_idle();
        clock.advance(20 * SECOND);
        assert_eq!(log.entries(), [(0, 0, 0), (35, 35, 0), (45, 45, 0)]);
        assert_eq!(task.info().missed(), 0);
        finish(&pool);
    }
}

/// Each counts from the run that was left out, as if it had taken no time.
#[test]
fn a_series_without_a_grid_goes_on_after_a_run_that_was_too_late() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = busy(&clock, &log, &[2]);
    let task = pool.task(body).max_lateness(SECOND / 2).with_fixed_start(SECOND).start().unwrap();
    clock.wait_until_idle();
    clock.advance(2 * SECOND);
    assert_eq!(log.entries(), [(0, 0, 0), (3, 3, 1), (4, 4, 0)]);
    assert_eq!(task.info().missed(), 1);
    finish(&pool);
}

#[test]
fn a_fixed_delay_or_a_function_goes_on_after_a_run_that_no_worker_had_time_for() {
    for by_function in [false, true] {
        let (pool, clock) = manual(1);
        let (log, gate) = (Log::new(), Gate::new());
        let builder = pool.task(busy(&clock, &log, &[])).first(10 * SECOND).max_lateness(4 * SECOND);
        let task = match by_function {
            false => builder.with_fixed_delay(10 * SECOND).start().unwrap(),
            true => builder.next_by(|times| Some(times.ended.after(10 * SECOND))).start().unwrap(),
        };
        block_worker(&pool, &gate);
        clock.jump(15 * SECOND);
        gate.open();
        clock.wait_until_idle();
        assert_eq!((task.runs(), task.deadline()), (0, crate::bodies::at(25)));
        clock.advance(10 * SECOND);
        assert_eq!(log.entries(), [(25, 25, 1)]);
        finish(&pool);
    }
}

/// A function that has nothing more to say when its last run is too late.
#[test]
fn a_series_whose_function_ends_with_a_run_that_was_too_late_ends_as_missed() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let builder = pool.task(|| ()).first(10 * SECOND).max_lateness(4 * SECOND);
    let task = builder.next_by(|_| None).start().unwrap();
    block_worker(&pool, &gate);
    clock.jump(15 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert!(matches!(task.failure(), Some(TaskError::Abandoned(Abandoned::Missed))));
    finish(&pool);
}
