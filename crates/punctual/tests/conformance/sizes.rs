//! How many threads.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use punctual::{Builder, Executor, ManualClock, RejectReason, TaskContext, TaskHandle};

use crate::spawner::Flaky;
use crate::support::{Counter, Gate, HOUR, STEP, block_worker, finish};

/// A pool on a manual clock whose threads are counted.
fn counted(builder: Builder) -> (Executor, ManualClock, Flaky) {
    let (clock, spawner) = (ManualClock::new(), Flaky::new());
    let pool = builder.clock(clock.clone()).spawner(spawner.clone()).build().unwrap();
    (pool, clock, spawner)
}

fn core(threads: usize) -> (Executor, ManualClock, Flaky) {
    counted(Executor::builder().core_threads(threads))
}

fn size(pool: &Executor) -> usize {
    pool.stats().pool_size
}

/// TP-064: below the core size every task brings a thread, even if others are idle, and then none does.
#[test]
fn below_the_core_size_every_task_brings_a_thread() {
    let (pool, clock, spawner) = core(3);
    let mut sizes = Vec::new();
    for _ in 0..5 {
        pool.submit(|| ()).unwrap().join().unwrap();
        clock.wait_until_idle();
        sizes.push(size(&pool));
    }
    assert_eq!(sizes, [1, 2, 3, 3, 3]);
    assert_eq!(spawner.asked.get(), 3);
    finish(&pool);
}

/// TP-064: at the core size tasks are queued; when the queue is full threads are added up to the most there may
/// be; then tasks are refused.
#[test]
fn a_full_queue_adds_threads_and_then_refuses() {
    let builder = Executor::builder().core_threads(1).max_threads(3).capacity(1);
    let (pool, _, spawner) = counted(builder);
    let gate = Gate::new();
    let enter = || {
        let gate = gate.clone();
        pool.submit(move || gate.pass())
    };
    let mut accepted: Vec<TaskHandle<()>> = Vec::new();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        accepted.push(enter().unwrap());
        gate.await_arrivals(size(&pool));
        sizes.push((size(&pool), pool.stats().queued));
    }
    assert_eq!(sizes, [(1, 0), (1, 1), (2, 1), (3, 1)]);
    let refused = enter().map(drop).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    assert_eq!((pool.stats().active, spawner.asked.get()), (3, 3));
    gate.open();
    accepted.iter().for_each(|handle| handle.join().unwrap());
    finish(&pool);
}

/// TP-065, TP-066: threads can be started ahead of time, one by one or all, never above the core size, and each
/// call says what it did.
#[test]
fn threads_are_started_ahead_of_time_up_to_the_core_size() {
    let (pool, _, spawner) = core(2);
    let one_by_one = || [(); 3].map(|()| pool.prestart_core_thread());
    assert_eq!(one_by_one(), [true, true, false]);
    assert_eq!(size(&pool), 2);
    pool.set_core_threads(4).unwrap();
    assert_eq!(one_by_one(), [true, true, false]);
    assert_eq!((size(&pool), spawner.asked.get()), (4, 4));
    finish(&pool);

    let (pool, _, spawner) = core(2);
    assert_eq!((pool.prestart_all_core_threads(), size(&pool)), (2, 2));
    assert_eq!((pool.prestart_all_core_threads(), size(&pool)), (0, 2));
    pool.set_core_threads(4).unwrap();
    assert_eq!((pool.prestart_all_core_threads(), size(&pool)), (2, 4));
    assert_eq!((pool.prestart_all_core_threads(), spawner.asked.get()), (0, 4));
    finish(&pool);
}

/// TP-067: no thread is started ahead of time for a pool that is shut down.
#[test]
fn nothing_is_started_after_a_shutdown() {
    let (pool, _, spawner) = core(2);
    pool.shutdown();
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.prestart_all_core_threads(), spawner.asked.get()), (0, 0));
    assert!(pool.is_terminated());
}

/// TP-068: raising the most threads there may be lets later tasks add some; lowering it lets surplus ones go as
/// they finish, and not before; the largest size stays on record.
#[test]
fn the_most_threads_may_change_at_any_time() {
    const N: usize = 3;
    let builder = Executor::builder().core_threads(N).max_threads(3 * N).keep_alive(HOUR);
    let (pool, clock, spawner) = counted(builder);
    let gate = Gate::new();
    let blocked = |n: usize| (0..n).map(|_| block_worker(&pool, &gate)).collect::<Vec<_>>();
    let mut handles = blocked(3 * N);
    let waiting = pool.submit(|| ()).unwrap();
    assert_eq!((size(&pool), pool.stats().queued), (3 * N, 1), "no more than that");
    assert!(waiting.cancel());
    pool.set_max_threads(4 * N).unwrap();
    handles.extend(blocked(N));
    assert_eq!((size(&pool), pool.stats().active), (4 * N, 4 * N));
    pool.set_max_threads(2 * N).unwrap();
    assert_eq!(size(&pool), 4 * N, "all have a task in hand");
    gate.open();
    handles.iter().for_each(|handle| handle.join().unwrap());
    clock.wait_until_idle();
    assert_eq!((size(&pool), pool.stats().largest_pool_size), (2 * N, 4 * N));
    finish(&pool);
    assert_eq!((pool.stats().largest_pool_size, spawner.asked.get()), (4 * N, 4 * N));
}

/// TP-069: idle threads go down to the core size and no further.
#[test]
fn idling_never_takes_the_pool_below_its_core() {
    const N: usize = 3;
    let builder = Executor::builder().core_threads(N).max_threads(2 * N).keep_alive(STEP);
    let (pool, clock, spawner) = counted(builder);
    let gate = Gate::new();
    let handles: Vec<_> = (0..2 * N).map(|_| block_worker(&pool, &gate)).collect();
    assert_eq!(size(&pool), 2 * N);
    gate.open();
    handles.iter().for_each(|handle| handle.join().unwrap());
    for _ in 0..10 {
        clock.advance(STEP);
        assert_eq!(size(&pool), N);
    }
    assert_eq!(spawner.asked.get(), 2 * N);
    finish(&pool);
}

/// TP-070: bodies that change the core size again and again, down to nothing, neither interrupt one another nor
/// lose their threads.
#[test]
fn changing_the_core_size_touches_no_running_body() {
    const N: usize = 40;
    let (pool, _, spawner) = core(N);
    let meet = Arc::new(Barrier::new(N));
    let handles: Vec<_> = (0..N)
        .map(|n| {
            let (inner, meet) = (pool.clone(), Arc::clone(&meet));
            let body = move || {
                meet.wait();
                for round in 0..20 {
                    inner.set_core_threads((n * 7 + round) % N).unwrap();
                }
                meet.wait();
                let seen = (inner.stats().pool_size, TaskContext::current().is_interrupted());
                meet.wait();
                seen
            };
            pool.submit(body).unwrap()
        })
        .collect();
    for handle in &handles {
        assert_eq!(handle.join().unwrap(), (N, false));
    }
    assert_eq!(spawner.asked.get(), N);
    finish(&pool);
}

/// ST-097, ST-098: a thread comes with each task until the core size is reached, however far the tasks are in
/// the future, and no more after that, however many there are.
#[test]
fn there_are_no_more_threads_than_the_core_however_many_tasks_wait() {
    let (pool, clock, spawner) = core(3);
    let mut sizes = Vec::new();
    for _ in 0..10 {
        drop(pool.schedule(HOUR, || ()).unwrap());
        clock.wait_until_idle();
        sizes.push(size(&pool));
    }
    assert_eq!(sizes, [1, 2, 3, 3, 3, 3, 3, 3, 3, 3]);
    clock.advance(HOUR);
    assert_eq!((pool.stats().completed, pool.stats().largest_pool_size, spawner.asked.get()), (10, 3, 3));
    finish(&pool);
}

/// ST-099: with periodic tasks queued, a smaller core makes the pool smaller, and a larger one makes it larger
/// at once, by as much as the core has grown or as many tasks as are queued, whichever is less.
#[test]
fn the_pool_follows_its_core_size_while_tasks_repeat() {
    let (pool, clock, spawner) = core(10);
    let runs = Counter::new();
    for _ in 0..10 {
        drop(pool.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap());
    }
    clock.advance(STEP);
    assert_eq!(size(&pool), 10);
    pool.set_core_threads(7).unwrap();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 7);
    pool.set_core_threads(13).unwrap();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 13, "six more");
    pool.set_core_threads(40).unwrap();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 23, "one for each of the ten tasks");
    clock.advance(STEP);
    assert_eq!((runs.get(), size(&pool), spawner.asked.get()), (20, 23, 26));
    finish(&pool);
}

/// ST-100: without a core one thread looks after a task that is far away. It waits for nothing else meanwhile.
#[test]
fn without_a_core_one_thread_waits_for_the_task() {
    let (pool, clock, spawner) = core(0);
    let far = pool.schedule(HOUR, || 7).unwrap();
    clock.wait_until_idle();
    let stats = pool.stats();
    assert_eq!((stats.pool_size, stats.largest_pool_size), (1, 1));
    assert_eq!((stats.task_count(), stats.completed), (1, 0));
    assert_eq!(clock.advance_to_next(), Some(HOUR), "nothing comes before the task itself");
    assert_eq!(far.join().unwrap(), 7);
    assert_eq!((pool.stats().completed, spawner.asked.get()), (1, 1));
    finish(&pool);
}

/// ST-102: without a core a shutdown directly after a submission still lets the task run.
#[test]
fn without_a_core_a_shutdown_leaves_nothing_undone() {
    let (pool, clock, spawner) = core(0);
    let soon = pool.schedule(STEP, || 7).unwrap();
    pool.shutdown();
    clock.advance(STEP);
    assert_eq!(soon.join().unwrap(), 7);
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!((pool.core_threads(), spawner.asked.get()), (0, 1));
}

/// ST-103: one task brings one thread, which stays for as long as the task waits: nobody else comes, and nobody
/// goes to be replaced, even if core threads may time out long before.
#[test]
fn one_far_task_costs_one_thread_once() {
    for time_out in [false, true] {
        let mut builder = Executor::builder().core_threads(10).keep_alive(Duration::from_millis(1));
        if time_out {
            builder = builder.core_threads_time_out();
        }
        let (pool, clock, spawner) = counted(builder);
        let far = pool.schedule(HOUR, || 7).unwrap();
        for _ in 0..20 {
            clock.advance(STEP);
            assert_eq!(size(&pool), 1);
        }
        clock.advance(HOUR);
        assert_eq!(far.join().unwrap(), 7);
        assert_eq!(spawner.asked.get(), 1, "{time_out}");
        assert_eq!(size(&pool), usize::from(!time_out));
        finish(&pool);
    }
}

/// ST-104: a core lowered to nothing while tasks are queued leaves exactly one thread, and that runs them all.
#[test]
fn a_core_lowered_to_nothing_leaves_one_thread_for_what_is_queued() {
    let (pool, clock, spawner) = core(5);
    let handles: Vec<_> = (0..10).map(|n| pool.schedule(HOUR, move || n).unwrap()).collect();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 5);
    pool.set_core_threads(0).unwrap();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 1);
    clock.advance(HOUR);
    assert!(handles.iter().enumerate().all(|(n, handle)| handle.join().unwrap() == n));
    assert_eq!(spawner.asked.get(), 5);
    finish(&pool);
}

/// TP-072: without a core and without a bound all tasks run on one thread, one after the other.
#[test]
fn without_a_core_all_tasks_run_on_one_thread() {
    let (pool, _, spawner) = core(0);
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    let handles: Vec<_> = (0..20).map(|_| pool.submit(|| std::thread::current().id()).unwrap()).collect();
    assert_eq!((size(&pool), pool.stats().queued), (1, 20));
    gate.open();
    blocked.join().unwrap();
    let first = handles[0].join().unwrap();
    assert!(handles[1..].iter().all(|handle| handle.join().unwrap() == first));
    assert_eq!(spawner.asked.get(), 1);
    finish(&pool);
}

/// A worker that wakes for a task that is cancelled starts nobody for those that come after it.
#[test]
fn what_was_cancelled_starts_no_thread() {
    let (pool, clock, spawner) = counted(Executor::builder().core_threads(1).max_threads(4));
    let later = pool.schedule(HOUR, || ()).unwrap();
    for _ in 0..5 {
        let sooner = pool.schedule(STEP, || ()).unwrap();
        clock.wait_until_idle();
        assert!(sooner.cancel());
        clock.advance(2 * STEP);
        clock.wait_until_idle();
    }
    assert_eq!((size(&pool), spawner.asked.get()), (1, 1));
    assert!(later.cancel());
    finish(&pool);
}
