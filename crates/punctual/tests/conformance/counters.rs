//! Numbers that add up.

use std::time::Duration;

use punctual::{Builder, Executor, OnCancel, Stats, TaskHandle};

use crate::support::{Counter, Gate, HOUR, STEP, block_worker, finish, manual};

/// The scheduled pool and the bounded one: what Java has two classes for.
fn pools(threads: usize) -> [Executor; 2] {
    let build = |builder: Builder| builder.build().unwrap();
    let builder = || Executor::builder().core_threads(threads);
    [build(builder()), build(builder().max_threads(threads).capacity(100))]
}

/// ST-115, TP-083: as many workers are active as run a body, also as the body sees it.
#[test]
fn active_counts_running_bodies() {
    for pool in pools(3) {
        assert_eq!(pool.stats().active, 0);
        let inner = pool.clone();
        let inside = pool.submit(move || inner.stats().active).unwrap();
        assert_eq!(inside.join().unwrap(), 1);
        assert_eq!(pool.stats().active, 0, "whoever has the outcome sees the run ended");
        let gate = Gate::new();
        let handles: Vec<_> = (1..=3)
            .map(|n| {
                let handle = block_worker(&pool, &gate);
                assert_eq!(pool.stats().active, n);
                handle
            })
            .collect();
        assert_eq!(pool.stats().active, pool.stats().pool_size);
        gate.open();
        handles.iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(pool.stats().active, 0);
        finish(&pool);
    }
}

/// ST-116, TP-083: a run is not counted as completed before it has ended, and is when its outcome can be seen:
/// there is no moment in which a waiter has the result and the count is old.
#[test]
fn whoever_has_the_outcome_sees_the_run_counted() {
    for pool in pools(1) {
        for run in 0..100 {
            let inner = pool.clone();
            let inside = pool.submit(move || inner.stats().completed).unwrap();
            assert_eq!(inside.join().unwrap(), run);
            assert_eq!(pool.stats().completed, run + 1);
        }
        finish(&pool);
        assert_eq!(pool.stats().completed, 100);
    }
}

/// ST-116: the runs of a periodic task are counted one by one, and none before it has ended.
#[test]
fn each_run_of_a_periodic_task_is_counted() {
    let (pool, clock) = manual(1);
    let (inner, late) = (pool.clone(), Counter::new());
    let (count, mut runs) = (late.clone(), 0);
    let body = move || {
        if inner.stats().completed != runs {
            count.hit();
        }
        runs += 1;
    };
    drop(pool.schedule_with_fixed_delay(STEP, STEP, body).unwrap());
    for run in 1..=10 {
        clock.advance(STEP);
        assert_eq!((pool.stats().completed, pool.stats().task_count()), (run, run + 1));
    }
    assert_eq!(late.get(), 0, "no body saw another number of runs before it");
    finish(&pool);
}

/// ST-117, TP-083: the task count is what has completed, runs and waits. Tasks that begin or end do not change
/// it, and in the end it is what has completed.
#[test]
fn the_task_count_is_unchanged_by_execution() {
    for pool in pools(1) {
        let gate = Gate::new();
        assert_eq!(pool.stats().task_count(), 0);
        let mut handles = vec![block_worker(&pool, &gate)];
        assert_eq!(pool.stats().task_count(), 1);
        let inner = pool.clone();
        handles.push(pool.submit(move || assert_eq!(inner.stats().task_count(), 6)).unwrap());
        for i in 2..6 {
            handles.push(pool.submit(|| ()).unwrap());
            let stats = pool.stats();
            assert_eq!((stats.task_count(), stats.active, stats.queued), (1 + i, 1, i as usize));
        }
        gate.open();
        handles.iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(pool.stats().task_count(), 6);
        finish(&pool);
        assert_eq!((pool.stats().task_count(), pool.stats().completed), (6, 6));
    }
}

/// ST-118, ST-119, TP-083: the pool has no thread before its first task, one with it and after it; the largest
/// size is kept to the end.
#[test]
fn sizes_are_on_record() {
    for pool in pools(3) {
        assert_eq!((pool.stats().pool_size, pool.stats().largest_pool_size), (0, 0));
        let inner = pool.clone();
        assert_eq!(pool.submit(move || inner.stats().pool_size).unwrap().join().unwrap(), 1);
        assert_eq!((pool.stats().pool_size, pool.stats().largest_pool_size), (1, 1));
        let gate = Gate::new();
        let handles: Vec<_> = (0..3).map(|_| block_worker(&pool, &gate)).collect();
        assert_eq!((pool.stats().pool_size, pool.stats().largest_pool_size), (3, 3));
        gate.open();
        handles.iter().for_each(|handle| handle.join().unwrap());
        finish(&pool);
        assert_eq!((pool.stats().pool_size, pool.stats().largest_pool_size), (0, 3));
    }
}

/// ST-120: a thread that has just been made does not count as active, and no task is counted twice or left out,
/// however often one looks while tasks come and go.
#[test]
fn no_snapshot_counts_a_task_twice_or_not_at_all() {
    const TASKS: u64 = 300;
    for _ in 0..20 {
        let pool = Executor::new(1);
        let far = pool.schedule(HOUR, || ()).unwrap();
        let stats = pool.stats();
        assert_eq!((stats.active, stats.queued, stats.task_count()), (0, 1, 1), "its thread is being born");
        assert!(far.cancel());
        finish(&pool);
    }
    let pool = Executor::new(2);
    let mut handles: Vec<TaskHandle<()>> = Vec::new();
    for submitted in 1..=TASKS {
        handles.push(pool.submit(|| ()).unwrap());
        assert_eq!(pool.stats().task_count(), submitted);
    }
    while !handles.iter().all(TaskHandle::is_done) {
        let stats: Stats = pool.stats();
        assert_eq!(stats.task_count(), TASKS, "{stats:?}");
        assert!(stats.active <= stats.pool_size);
    }
    assert_eq!(pool.stats().completed, TASKS);
    finish(&pool);
}

/// ST-120: whatever becomes of a task, it is counted in one place: as queued, active, completed or cancelled.
#[test]
fn each_task_is_counted_once_whatever_becomes_of_it() {
    fn count(pool: &Executor) -> (usize, usize, u64, u64) {
        let stats = pool.stats();
        (stats.queued, stats.active, stats.completed, stats.cancelled)
    }
    let (pool, clock) = manual(1);
    let (cancelled, removed) = (pool.schedule(HOUR, || ()).unwrap(), pool.schedule(HOUR, || ()).unwrap());
    assert_eq!(count(&pool), (2, 0, 0, 0));
    assert!(cancelled.cancel());
    assert!(!cancelled.cancel());
    assert_eq!(count(&pool), (1, 0, 0, 1));
    drop(removed.remove().unwrap());
    assert_eq!(count(&pool), (0, 0, 0, 2));
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    assert!(running.cancel());
    assert_eq!(count(&pool), (0, 1, 0, 2), "cancelled, but it runs");
    gate.open();
    clock.wait_until_idle();
    assert_eq!(count(&pool), (0, 0, 1, 2), "and it did run");
    pool.set_on_cancel(OnCancel::KeepUntilDue);
    let kept = pool.schedule(STEP, || ()).unwrap();
    assert!(kept.cancel());
    clock.advance(STEP);
    assert_eq!(count(&pool), (0, 0, 1, 3), "its empty entry is no run");
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    clock.advance(2 * STEP);
    assert_eq!(count(&pool), (1, 0, 3, 3));
    let [unrun] = pool.shutdown_now().try_into().unwrap();
    assert_eq!(unrun.id(), beat.id());
    assert!(unrun.run());
    assert_eq!(count(&pool), (0, 0, 4, 3), "run by hand");
    finish(&pool);
}

/// TP-084: after an orderly shutdown everything accepted has completed; after a stop, everything that had begun.
#[test]
fn completed_is_what_was_accepted_or_had_begun() {
    for pool in pools(2) {
        let gate = Gate::new();
        let blocked = [block_worker(&pool, &gate), block_worker(&pool, &gate)];
        for _ in 0..8 {
            drop(pool.submit(|| ()).unwrap());
        }
        pool.shutdown();
        gate.open();
        blocked.iter().for_each(|handle| handle.join().unwrap());
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(pool.stats().completed, 10);
    }
    for pool in pools(2) {
        let gate = Gate::new();
        let blocked = [block_worker(&pool, &gate), block_worker(&pool, &gate)];
        for _ in 0..8 {
            drop(pool.submit(|| ()).unwrap());
        }
        assert_eq!(pool.shutdown_now().len(), 8);
        gate.open();
        blocked.iter().for_each(|handle| handle.wait().unwrap());
        assert!(pool.await_termination(Duration::MAX));
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.cancelled, stats.task_count()), (2, 8, 2));
    }
}

/// ST-118, TP-085: what a worker has done stays counted when it goes, and panics count as well; so does the
/// largest size.
#[test]
fn counts_outlive_their_workers() {
    let clock = punctual::ManualClock::new();
    let builder = Executor::builder().core_threads(2).core_threads_time_out().keep_alive(STEP);
    let pool = builder.clock(clock.clone()).build().unwrap();
    for round in 1..=4 {
        drop(pool.submit(|| ()).unwrap());
        drop(
            pool.submit(|| {
                if true {
                    panic!("counted, too")
                }
            })
            .unwrap(),
        );
        clock.advance(STEP);
        let stats = pool.stats();
        assert_eq!((stats.pool_size, stats.completed, stats.task_count()), (0, 2 * round, 2 * round));
    }
    pool.submit(|| ()).unwrap().join().unwrap();
    assert_eq!((pool.stats().pool_size, pool.stats().largest_pool_size), (1, 2), "of all times");
    finish(&pool);
    assert_eq!((pool.stats().completed, pool.stats().largest_pool_size), (9, 2));
}
