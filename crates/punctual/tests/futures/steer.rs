//! Tasks with async bodies that are triggered, moved and paused, above all while a run is under way.

use std::time::Duration;

use punctual::{Clock, Executor, Keep, Leftover, ManualClock, Steered, TaskHandle, Tick};

use crate::Event;
use crate::support::{Counter, Log, finish, manual};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Tick {
    Tick::ZERO.after(Duration::from_secs(seconds))
}

/// Every ten seconds; a run takes four, with a poll in the middle. Notes when runs begin.
fn naps(pool: &Executor, clock: &ManualClock) -> (TaskHandle<()>, Log<u64>) {
    let log = Log::new();
    let (seen, time, inner) = (log.clone(), clock.clone(), pool.scheduler());
    let run = move || {
        seen.add(time.now().since(Tick::ZERO).as_secs());
        let inner = inner.clone();
        async move {
            inner.sleep(2 * SECOND).await.unwrap();
            inner.sleep(2 * SECOND).await.unwrap();
        }
    };
    (pool.task_async(run).every(10 * SECOND).start().unwrap_or_else(|_| unreachable!()), log)
}

/// A run has several polls, and none but the first is for the trigger.
#[test]
fn a_trigger_while_a_run_is_under_way_is_heeded_after_it() {
    for triggered in [1, 3] {
        let (pool, clock) = manual(1);
        let (task, log) = naps(&pool, &clock);
        clock.advance(SECOND * triggered);
        assert_eq!((task.trigger_now(), task.trigger_now()), (Steered::AfterRun, Steered::Already));
        clock.advance(SECOND * (25 - triggered));
        assert_eq!((log.entries(), task.runs()), (vec![0, 4, 10, 20], 4));
        finish(&pool);
    }
}

/// The extra run is extra to its end, and polled when it is woken, not before.
#[test]
fn a_trigger_between_runs_does_not_move_the_schedule() {
    let (pool, clock) = manual(1);
    let (task, log) = naps(&pool, &clock);
    clock.advance(5 * SECOND);
    assert_eq!(task.trigger_now(), Steered::Now);
    clock.wait_until_idle();
    assert_eq!(task.deadline(), at(10));
    clock.advance(20 * SECOND);
    assert_eq!((log.entries(), task.runs()), (vec![0, 5, 10, 20], 4));
    assert_eq!(task.deadline(), at(30));
    finish(&pool);
}

/// Between the call and its effect there are polls, each with a deadline of its own.
#[test]
fn a_task_rescheduled_while_a_run_is_under_way_runs_at_that_time() {
    for before_the_first_nap in [true, false] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let (seen, time, inner) = (log.clone(), clock.clone(), pool.scheduler());
        let run = move || {
            seen.add(time.now().since(Tick::ZERO).as_secs());
            let inner = inner.clone();
            async move {
                let own = inner.find("own").unwrap();
                for before in [true, false] {
                    if before == before_the_first_nap && own.info().runs() == 1 {
                        assert_eq!(own.reschedule(at(17)), Steered::AfterRun);
                    }
                    inner.sleep(2 * SECOND).await.unwrap();
                }
            }
        };
        let task = pool.task_async(run).name("own").every(10 * SECOND).start().unwrap();
        clock.advance(30 * SECOND);
        // The grid moves with the run.
        assert_eq!((log.entries(), task.runs()), (vec![0, 17, 27], 3));
        // And one that waits for its period is moved at once.
        clock.advance(3 * SECOND);
        assert_eq!((task.reschedule(SECOND), task.deadline()), (Steered::Now, at(34)));
        clock.advance(SECOND);
        assert_eq!(log.entries(), [0, 17, 27, 34]);
        finish(&pool);
    }
}

/// There is no run after it.
#[test]
fn a_single_future_under_way_cannot_be_steered() {
    let (pool, clock) = manual(1);
    let nap = pool.sleep(10 * SECOND);
    let task = pool.spawn(async move { nap.await.unwrap() }).unwrap();
    clock.wait_until_idle();
    assert_eq!([task.pause(), task.reschedule(SECOND), task.trigger_now()], [Steered::TooLate; 3]);
    clock.advance(10 * SECOND);
    assert!(task.join().is_ok());
    finish(&pool);
}

/// As for every other body: a pause is about the runs to come.
#[test]
fn a_run_under_way_ends_undisturbed_though_its_task_is_paused_and_the_pool_shut_down() {
    for woken_meanwhile in [true, false] {
        let (pool, clock) = manual(1);
        pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
        let (event, ended) = (Event::new(), Counter::new());
        let (inner, count) = (event.clone(), ended.clone());
        let run = move || {
            let (event, count) = (inner.clone(), count.clone());
            async move {
                event.await;
                count.hit();
            }
        };
        let task = pool.task_async(run).every(10 * SECOND).start().unwrap();
        clock.wait_until_idle();
        assert_eq!(task.pause(), Steered::AfterRun);
        pool.shutdown();
        if woken_meanwhile {
            event.wake();
            clock.wait_until_idle();
        }
        assert!(!task.is_done());
        event.happen();
        clock.wait_until_idle();
        assert_eq!((ended.get(), task.runs()), (1, 1));
        assert!(task.is_cancelled() && pool.is_terminated());
    }
}
