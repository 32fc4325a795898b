//! Series that end by themselves.

use std::time::Duration;

use punctual::{Missed, RejectReason, TaskState};

use crate::bodies::{SECOND, at, busy};
use crate::support::{Gate, Log, Probe, block_worker, finish, manual};

#[test]
fn a_series_of_so_many_runs_succeeds_with_the_last() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let task = pool.task(move || drop(captured.clone())).every(SECOND).at_most(3).start().unwrap();
    clock.advance(SECOND);
    assert_eq!(task.state(), TaskState::Waiting);
    clock.advance(9 * SECOND);
    task.join().unwrap();
    assert_eq!((task.runs(), task.state()), (3, TaskState::Succeeded));
    assert!(probe.is_dropped());
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

/// The instant itself belongs to the series.
#[test]
fn a_series_until_an_instant_ends_with_its_last_point_not_after_it() {
    for (until, runs) in [(Duration::from_secs(20), 3), (Duration::from_millis(19_999), 2)] {
        let (pool, clock) = manual(1);
        let task = pool.task(|| ()).every(10 * SECOND).until(until).start().unwrap();
        clock.advance(60 * SECOND);
        task.join().unwrap();
        assert_eq!(task.runs(), runs);
        finish(&pool);
    }
}

#[test]
fn the_end_of_a_fixed_delay_is_known_only_when_a_run_has_ended() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = busy(&clock, &log, &[7, 7]);
    let task = pool.task(body).with_fixed_delay(10 * SECOND).until(at(30)).start().unwrap();
    clock.wait_until_idle();
    clock.advance(60 * SECOND);
    task.join().unwrap();
    assert_eq!(log.entries(), [(0, 0, 0), (17, 17, 0)]);
    finish(&pool);
}

#[test]
fn a_schedule_that_is_over_before_it_begins_is_refused_with_its_closure() {
    let (pool, _clock) = manual(1);
    let refused = pool.task(|| ()).after(10 * SECOND).every(SECOND).until(9 * SECOND).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::NeverDue);
    let refused = pool.task(refused.into_task()).calendar(|_| None).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::NeverDue);
    let refused = pool.task(refused.into_task()).every(Duration::ZERO).at_most(1).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ZeroPeriod);
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn no_runs_at_all_means_one() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| ()).every(SECOND).at_most(0).start().unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(task.runs(), 1);
    task.join().unwrap();
    finish(&pool);
}

/// What came due before the end is run by its policy after it, and for no point beyond it.
#[test]
fn points_that_were_missed_before_the_end_are_made_up_for_after_it() {
    for (missed, expected) in [
        (Missed::once(), vec![(0, 0, 0), (5, 3, 2)]),
        (Missed::shift(), vec![(0, 0, 0), (5, 3, 0)]),
        (Missed::burst(), vec![(0, 0, 0), (5, 1, 0), (5, 2, 0), (5, 3, 0)]),
        (Missed::burst().within(3 * SECOND), vec![(0, 0, 0), (5, 2, 1), (5, 3, 0)]),
        (Missed::once().within(SECOND), vec![(0, 0, 0)]),
        (Missed::skip(), vec![(0, 0, 0)]),
    ] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let body = busy(&clock, &log, &[5]);
        let task = pool.task(body).every(SECOND).missed(missed).until(at(3)).start().unwrap();
        clock.wait_until_idle();
        clock.advance(5 * SECOND);
        task.join().unwrap();
        assert_eq!(log.entries(), expected, "{missed:?}");
        finish(&pool);
    }
}

/// The same when no worker had time for any of them.
#[test]
fn no_run_is_for_a_point_beyond_the_end() {
    for (missed, expected) in
        [(Missed::once(), (5, 3, 2)), (Missed::skip(), (5, 3, 2)), (Missed::shift(), (5, 3, 0))]
    {
        let (pool, clock) = manual(1);
        let (log, gate) = (Log::new(), Gate::new());
        let builder = pool.task(busy(&clock, &log, &[])).first(SECOND).every(SECOND);
        let task = builder.missed(missed).until(at(3)).start().unwrap();
        block_worker(&pool, &gate);
        clock.jump(5 * SECOND);
        gate.open();
        clock.wait_until_idle();
        clock.advance(5 * SECOND);
        task.join().unwrap();
        assert_eq!(log.entries(), [expected], "{missed:?}");
        finish(&pool);
    }
}
