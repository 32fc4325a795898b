//! How long idle threads stay.

use std::time::Duration;

use punctual::{Builder, Executor, ManualClock};

use crate::spawner::Flaky;
use crate::support::{Gate, HOUR, STEP, block_worker, finish};

const NANO: Duration = Duration::from_nanos(1);

fn counted(builder: Builder) -> (Executor, ManualClock, Flaky) {
    let (clock, spawner) = (ManualClock::new(), Flaky::new());
    let pool = builder.clock(clock.clone()).spawner(spawner.clone()).build().unwrap();
    (pool, clock, spawner)
}

fn size(pool: &Executor) -> usize {
    pool.stats().pool_size
}

/// Lets `pool` grow to `threads`, all idle since now.
fn fill(pool: &Executor, clock: &ManualClock, threads: usize) {
    let gate = Gate::new();
    let handles: Vec<_> = (0..threads).map(|_| block_worker(pool, &gate)).collect();
    gate.open();
    handles.iter().for_each(|handle| handle.join().unwrap());
    clock.wait_until_idle();
    assert_eq!(size(pool), threads);
}

/// TP-073, TP-079: core threads stay by default; the setting can be read and changed, and shutting down changes
/// nothing about it.
#[test]
fn whether_core_threads_time_out_can_be_read_at_any_time() {
    let pool = Executor::new(1);
    assert!(!pool.core_threads_time_out());
    pool.set_core_threads_time_out(true).unwrap();
    assert!(pool.core_threads_time_out());
    finish(&pool);
    assert!(pool.core_threads_time_out());

    let pool = Executor::builder().core_threads_time_out().build().unwrap();
    assert!(pool.core_threads_time_out());
    pool.set_core_threads_time_out(false).unwrap();
    pool.shutdown();
    assert!(!pool.core_threads_time_out());
    assert!(pool.await_termination(Duration::MAX));
}

/// TP-074, TP-076: core threads that may time out come one by one with the first tasks, and are all gone when
/// the keep-alive is over, not before.
#[test]
fn core_threads_that_may_time_out_go_after_exactly_the_keep_alive() {
    const N: usize = 4;
    let builder = Executor::builder().core_threads(N).core_threads_time_out().keep_alive(STEP);
    let (pool, clock, spawner) = counted(builder);
    for n in 1..=N {
        pool.submit(|| ()).unwrap().join().unwrap();
        clock.wait_until_idle();
        assert_eq!(size(&pool), n);
    }
    clock.advance(STEP - NANO);
    assert_eq!(size(&pool), N, "not before");
    clock.advance(NANO);
    assert_eq!((size(&pool), spawner.asked.get()), (0, N));
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7, "and come again");
    finish(&pool);
}

/// TP-074: the keep-alive of a thread is counted from the end of its last task.
#[test]
fn each_task_starts_the_keep_alive_anew() {
    let builder = Executor::builder().core_threads_time_out().keep_alive(2 * STEP);
    let (pool, clock, spawner) = counted(builder);
    for _ in 0..5 {
        pool.submit(|| ()).unwrap().join().unwrap();
        clock.advance(2 * STEP - NANO);
        assert_eq!(size(&pool), 1);
    }
    clock.advance(NANO);
    assert_eq!((size(&pool), spawner.asked.get()), (0, 1));
    finish(&pool);
}

/// TP-075: core threads that may not time out are there long after the keep-alive.
#[test]
fn core_threads_stay_by_default() {
    let (pool, clock, spawner) = counted(Executor::builder().core_threads(2).keep_alive(STEP));
    fill(&pool, &clock, 2);
    clock.advance(2 * STEP);
    assert_eq!(size(&pool), 2);
    clock.advance(HOUR);
    assert_eq!((size(&pool), spawner.asked.get()), (2, 2));
    finish(&pool);
}

/// TP-077: a shorter keep-alive holds for threads that are idle already, counted from when they became so:
/// surplus ones go when it is over, not before, and at once if it is over already.
#[test]
fn a_shorter_keep_alive_holds_for_threads_that_wait() {
    let short = Duration::from_millis(7);
    let builder = Executor::builder().core_threads(2).max_threads(5).keep_alive(Duration::from_secs(180));
    let (pool, clock, _) = counted(builder);
    fill(&pool, &clock, 5);
    pool.set_keep_alive(short).unwrap();
    assert_eq!(pool.keep_alive(), short);
    clock.advance(short - NANO);
    assert_eq!(size(&pool), 5, "not before");
    clock.advance(NANO);
    assert_eq!(size(&pool), 2, "the core stays");

    pool.set_keep_alive(HOUR).unwrap();
    fill(&pool, &clock, 5);
    clock.advance(STEP);
    pool.set_keep_alive(short).unwrap();
    clock.wait_until_idle();
    assert_eq!(size(&pool), 2, "they have been idle for longer than that");
    finish(&pool);
}

/// TP-078: letting core threads time out holds for threads that are idle already.
#[test]
fn letting_core_threads_go_holds_for_threads_that_wait() {
    let (pool, clock, _) = counted(Executor::builder().core_threads(3).keep_alive(STEP));
    fill(&pool, &clock, 3);
    pool.set_core_threads_time_out(true).unwrap();
    clock.advance(STEP - NANO);
    assert_eq!(size(&pool), 3, "not before");
    clock.advance(NANO);
    assert_eq!(size(&pool), 0);
    finish(&pool);
}

/// TP-080: while anything is queued the last thread stays, whatever its keep-alive, and no other comes for it.
#[test]
fn the_last_thread_stays_while_anything_is_queued() {
    let builder = Executor::builder().core_threads(3).core_threads_time_out().keep_alive(STEP);
    let (pool, clock, spawner) = counted(builder);
    let far = pool.schedule(HOUR, || 7).unwrap();
    fill(&pool, &clock, 3);
    clock.advance(STEP);
    assert_eq!(size(&pool), 1, "one of three");
    assert_eq!(clock.advance_to_next(), Some(HOUR - STEP), "it waits for nothing but the task");
    assert_eq!(far.join().unwrap(), 7);
    clock.advance(STEP - NANO);
    assert_eq!(size(&pool), 1, "idle for less than its keep-alive");
    clock.advance(NANO);
    assert_eq!((size(&pool), spawner.asked.get()), (0, 3));
    finish(&pool);
}

/// ST-101: without a core the thread goes when nothing is queued and its keep-alive is over, and stays while
/// anything is queued.
#[test]
fn without_a_core_the_thread_goes_when_the_queue_is_empty() {
    let (pool, clock, spawner) = counted(Executor::builder().core_threads(0).keep_alive(STEP));
    let far = pool.schedule(HOUR, || 7).unwrap();
    clock.advance(HOUR - NANO);
    assert_eq!(size(&pool), 1);
    clock.advance(NANO);
    assert_eq!((size(&pool), far.join().unwrap()), (1, 7));
    clock.advance(STEP - NANO);
    assert_eq!(size(&pool), 1, "not before");
    clock.advance(NANO);
    assert_eq!((size(&pool), spawner.asked.get()), (0, 1));
    finish(&pool);
}

/// ST-101: the queue may also become empty because its last task is cancelled or removed. A thread that had
/// stayed for that task alone goes as well, when its keep-alive is over after that, not at the task's deadline.
#[test]
fn a_thread_that_stayed_for_a_task_goes_when_the_task_has_gone() {
    for time_out in [false, true] {
        let mut builder = Executor::builder().core_threads(usize::from(time_out)).keep_alive(STEP);
        if time_out {
            builder = builder.core_threads_time_out();
        }
        let (pool, clock, spawner) = counted(builder);
        for _ in 0..2 {
            let far = pool.schedule(Duration::MAX, || ()).unwrap();
            clock.advance(HOUR);
            assert_eq!(size(&pool), 1);
            assert!(far.cancel());
            clock.advance(STEP - NANO);
            assert_eq!(size(&pool), 1, "not before");
        }
        clock.advance(NANO);
        assert_eq!((size(&pool), spawner.asked.get()), (0, 1), "{time_out}");

        let far = pool.schedule(Duration::MAX, || ()).unwrap();
        clock.advance(HOUR);
        drop(pool.remove(far.id()).unwrap());
        clock.advance(STEP);
        assert_eq!((size(&pool), spawner.asked.get()), (0, 2), "{time_out}");
        finish(&pool);
    }
}

/// ST-101: of several threads that were idle when the last task went, the one that had stayed for it goes, too.
#[test]
fn no_thread_is_left_behind_when_the_queue_becomes_empty() {
    let builder = Executor::builder().core_threads(0).max_threads(4).keep_alive(STEP);
    let (pool, clock, _) = counted(builder);
    let far = pool.schedule(Duration::MAX, || ()).unwrap();
    clock.advance(HOUR);
    fill(&pool, &clock, 4);
    assert!(far.cancel());
    clock.advance(2 * STEP);
    assert_eq!(size(&pool), 0);
    finish(&pool);
}
