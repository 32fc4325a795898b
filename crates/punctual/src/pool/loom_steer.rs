//! Models of tasks that are steered while a worker looks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::thread;

use crate::loom_support::{STEP, explore, pool};
use crate::{DelayQueue, Executor, ManualClock, Steered};

fn start() -> Executor {
    pool(&ManualClock::new(), 0).build().unwrap()
}

fn end(executor: &Executor) {
    executor.shutdown();
    assert!(executor.await_termination(Duration::MAX));
    assert_eq!((executor.stats().queued, executor.stats().active), (0, 0));
}

/// Time stands still: unless the worker is told, it sleeps for ever, and loom reports it.
#[test]
fn a_task_moved_to_now_is_run_by_a_worker_that_goes_to_sleep() {
    explore(3, || {
        let executor = start();
        let handle = executor.schedule(STEP, || 7).unwrap();
        assert_eq!(handle.reschedule(Duration::ZERO), Steered::Now);
        assert_eq!(handle.join().unwrap(), 7);
        end(&executor);
    });
}

#[test]
fn a_task_that_is_paused_beside_its_run_has_run_or_runs_when_it_is_resumed() {
    explore(3, || {
        let executor = start();
        let handle = executor.submit(|| 7).unwrap();
        match handle.pause() {
            Steered::Now => {
                assert_eq!(handle.runs(), 0);
                assert_eq!(handle.resume(), Steered::Now);
            }
            other => assert!(matches!(other, Steered::TooLate | Steered::Over), "{other:?}"),
        }
        assert_eq!(handle.join().unwrap(), 7);
        end(&executor);
    });
}

/// Two triggers are one run or two, and the planned run stays where it is.
#[test]
fn a_trigger_beside_a_trigger_runs_a_periodic_task_and_does_not_move_it() {
    explore(2, || {
        let executor = start();
        let (ran, count) =
            (Arc::new(DelayQueue::with_clock(ManualClock::new())), Arc::new(AtomicUsize::new(0)));
        let (sender, counter) = (Arc::clone(&ran), Arc::clone(&count));
        let body = move || {
            counter.fetch_add(1, Ordering::SeqCst);
            sender.push(Duration::ZERO, ());
        };
        let handle = executor.schedule_at_fixed_rate(STEP, STEP, body).unwrap();
        let remote = handle.remote();
        let other = thread::spawn(move || remote.trigger_now());
        assert!(handle.trigger_now().is_done());
        assert!(other.join().unwrap().is_done());
        ran.take().unwrap();
        let planned = handle.deadline();
        assert!(handle.cancel());
        end(&executor);
        assert!((1..=2).contains(&count.load(Ordering::SeqCst)));
        assert_eq!(planned, crate::Tick::ZERO.after(STEP));
    });
}
