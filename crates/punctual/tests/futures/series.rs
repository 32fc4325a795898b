//! Periodic tasks with async bodies: a new future for each run, periods counted from run to run.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, Keep, Leftover, RejectReason, TaskState, Tick};

use crate::support::{Counter, HOUR, Log, Probe, STEP, finish, manual};
use crate::{Event, Yield, block_on};

/// The instants at which runs of `length` begin, under the schedule that `start` chooses.
fn starts(length: Duration, schedule: &str) -> Vec<Tick> {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (inner, entry, time) = (pool.clone(), log.clone(), clock.clone());
    let make = move || {
        entry.add(time.now());
        let nap = inner.sleep(length);
        async move { nap.await.unwrap() }
    };
    let task = pool.task_async(make).after(STEP);
    let handle = match schedule {
        "rate" => task.every(2 * STEP).start(),
        "delay" => task.with_fixed_delay(2 * STEP).start(),
        _ => task.with_fixed_start(2 * STEP).start(),
    };
    let handle = handle.unwrap();
    assert!(handle.is_periodic());
    clock.advance(9 * STEP);
    assert_eq!(handle.runs(), log.entries().len() as u64);
    handle.cancel();
    finish(&pool);
    log.entries()
}

fn at(steps: &[u32]) -> Vec<Tick> {
    steps.iter().map(|steps| Tick::ZERO.after(*steps * STEP)).collect()
}

/// As for sync bodies: the run lasts until the future is ready, however often that was polled.
#[test]
fn periods_count_from_runs_not_from_polls() {
    assert_eq!(starts(STEP, "rate"), at(&[1, 3, 5, 7, 9]));
    assert_eq!(starts(3 * STEP, "rate"), at(&[1, 4, 7]), "late runs follow each other");
    assert_eq!(starts(STEP, "delay"), at(&[1, 4, 7]));
    assert_eq!(starts(STEP, "start"), at(&[1, 3, 5, 7, 9]));
    assert_eq!(starts(3 * STEP, "start"), at(&[1, 4, 7]));
}

/// The grid of a fixed rate stays where it was after a run that took long.
#[test]
fn a_late_series_catches_up_and_stays_on_its_grid() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (inner, entry, time) = (pool.clone(), log.clone(), clock.clone());
    let mut first = true;
    let make = move || {
        entry.add(time.now());
        let nap = inner.sleep(if std::mem::take(&mut first) { 5 * STEP } else { Duration::ZERO });
        async move { nap.await.unwrap() }
    };
    let handle = pool.task_async(make).after(STEP).every(2 * STEP).start().unwrap();
    clock.advance(9 * STEP);
    assert_eq!(log.entries(), at(&[1, 6, 6, 7, 9]));
    handle.cancel();
    finish(&pool);
}

#[test]
fn runs_of_different_tasks_overlap_on_a_single_worker() {
    let (pool, clock) = manual(1);
    let (under_way, most) = (Counter::new(), Log::new());
    let handles: Vec<_> = (0..5)
        .map(|_| {
            let (inner, count, most) = (pool.clone(), under_way.clone(), most.clone());
            let make = move || {
                count.hit();
                let (nap, count, most) = (inner.sleep(STEP), count.clone(), most.clone());
                async move {
                    nap.await.unwrap();
                    most.add(count.get());
                }
            };
            pool.task_async(make).every(HOUR).start().unwrap()
        })
        .collect();
    clock.wait_until_idle();
    // All of them wait, and the worker is free.
    let sync = pool.submit(|| 7).unwrap();
    assert_eq!(sync.join().unwrap(), 7);
    clock.advance(STEP);
    assert_eq!(most.entries(), [5; 5], "all had begun before the first ended");
    assert!(handles.iter().all(|handle| handle.cancel()));
    finish(&pool);
}

/// A waker of an earlier run, or a stale one, must not start a run before its time.
#[test]
fn a_waker_left_over_from_an_earlier_run_starts_nothing_early() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let runs = Counter::new();
    let count = runs.clone();
    let make = move || {
        count.hit();
        awaited.clone()
    };
    let handle = pool.task_async(make).every(HOUR).start().unwrap();
    clock.wait_until_idle();
    let stale = event.waker();
    event.happen();
    clock.wait_until_idle();
    assert_eq!((runs.get(), event.polls()), (1, 2));
    for _ in 0..3 {
        stale.wake_by_ref();
        clock.advance(STEP);
    }
    event.forget();
    drop(stale);
    clock.advance(STEP);
    assert_eq!((runs.get(), handle.state()), (1, TaskState::Waiting));
    clock.advance(HOUR - 4 * STEP);
    assert_eq!((runs.get(), event.polls()), (2, 3));
    handle.cancel();
    finish(&pool);
}

#[test]
fn a_cancelled_series_drops_closure_and_future_at_once() {
    let (pool, clock) = manual(1);
    let (event, (probe, captured)) = (Event::new(), Probe::new());
    let awaited = event.clone();
    let make = move || {
        let (captured, event) = (Arc::clone(&captured), awaited.clone());
        async move {
            let _captured = captured;
            event.await;
        }
    };
    let handle = pool.task_async(make).every(HOUR).start().unwrap();
    clock.wait_until_idle();
    assert!(handle.cancel() && probe.is_dropped());
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn a_panic_of_a_run_ends_the_series() {
    let (pool, clock) = manual(1);
    let mut left = 3;
    let make = move || {
        left -= 1;
        let last = left == 0;
        async move {
            Yield::default().await;
            assert!(!last, "the third run");
        }
    };
    let handle = pool.task_async(make).every(STEP).start().unwrap();
    clock.advance(HOUR);
    assert_eq!((handle.runs(), handle.state()), (3, TaskState::Failed));
    assert_eq!(handle.join().unwrap_err().panic().unwrap().message(), "the third run");
    finish(&pool);
}

/// A run under way is like a body that runs, or a future that was spawned: a shutdown leaves it by default.
#[test]
fn a_shutdown_lets_the_run_under_way_end_and_begins_no_other() {
    for (keep, polls) in [(Keep::Run, 2), (Keep::Cancel, 1)] {
        let (pool, clock) = manual(1);
        pool.set_after_shutdown(Leftover::Delayed, keep);
        let event = Event::new();
        let awaited = event.clone();
        let make = move || awaited.clone();
        let under_way = pool.task_async(make).every(STEP).start().unwrap();
        let between = pool.task_async(|| async {}).every(STEP).start().unwrap();
        clock.wait_until_idle();
        pool.shutdown();
        assert!(between.is_cancelled());
        assert_eq!(under_way.is_done(), keep == Keep::Cancel);
        event.happen();
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!((under_way.runs(), event.polls()), (1, polls));
        assert!(under_way.is_cancelled());
    }
}

#[test]
fn a_series_can_be_told_to_outlive_a_shutdown() {
    let (pool, clock) = manual(1);
    pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
    let make = || async { Yield::default().await };
    let handle = pool.task_async(make).every(STEP).start().unwrap();
    pool.shutdown();
    clock.advance(3 * STEP);
    assert_eq!(handle.runs(), 4);
    finish(&pool);
    assert!(handle.is_done());
}

#[test]
fn a_series_with_a_period_of_zero_is_refused_with_its_closure() {
    let (pool, _clock) = manual(1);
    let refused = pool.task_async(|| async {}).every(Duration::ZERO).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ZeroPeriod);
    block_on(refused.into_task()());
    finish(&pool);
}

/// Nor is a later run polled for nothing.
#[test]
fn a_waker_left_over_from_an_earlier_run_does_not_disturb_a_later_one() {
    let (pool, clock) = manual(1);
    let events = [Event::new(), Event::new()];
    let mut next = events.clone().into_iter();
    let make = move || next.next().unwrap();
    let handle = pool.task_async(make).every(STEP).start().unwrap();
    clock.wait_until_idle();
    let stale = events[0].waker();
    events[0].happen();
    clock.advance(STEP);
    assert_eq!((handle.runs(), events[1].polls()), (2, 1));
    stale.wake_by_ref();
    clock.wait_until_idle();
    assert_eq!(events[1].polls(), 1);
    events[0].forget();
    drop(stale);
    clock.wait_until_idle();
    assert_eq!((events[1].polls(), handle.state()), (1, TaskState::Waiting));
    handle.cancel();
    finish(&pool);
}
