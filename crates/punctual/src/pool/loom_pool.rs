//! Models of a whole pool with one worker: what is accepted ends, and the pool terminates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::thread;

use crate::loom_support::{Drops, STEP, explore, pool};
use crate::{
    Abandoned, CompletionQueue, DelayQueue, Executor, FutureTask, ManualClock, RejectReason, TaskError,
    TaskHandle, WaitError,
};

fn start(clock: &ManualClock, failures: usize) -> Executor {
    pool(clock, failures).build().unwrap()
}

fn end(executor: &Executor) {
    assert!(executor.await_termination(Duration::MAX));
    assert!(executor.is_terminated());
    assert_eq!((executor.stats().queued, executor.stats().active), (0, 0));
}

#[test]
fn a_submission_beside_a_shutdown_is_run_or_refused() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let submitter = {
            let executor = executor.clone();
            thread::spawn(move || match executor.submit(|| 7) {
                Ok(handle) => assert_eq!(handle.join().unwrap(), 7),
                Err(refused) => assert_eq!(refused.reason(), RejectReason::ShutDown),
            })
        };
        executor.shutdown();
        end(&executor);
        submitter.join().unwrap();
    });
}

#[test]
fn a_submission_beside_a_stop_is_run_or_drained_or_refused() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let submitter = {
            let executor = executor.clone();
            thread::spawn(move || match executor.submit(|| 7) {
                Ok(handle) => match handle.join() {
                    Ok(value) => assert_eq!(value, 7),
                    Err(WaitError::Task(TaskError::Abandoned(Abandoned::Stopped))) => {}
                    Err(other) => panic!("{other}"),
                },
                Err(refused) => assert_eq!(refused.reason(), RejectReason::ShutDown),
            })
        };
        drop(executor.shutdown_now());
        end(&executor);
        submitter.join().unwrap();
    });
}

#[test]
fn a_stop_interrupts_a_task_that_was_just_taken() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let queue = DelayQueue::<()>::with_clock(ManualClock::new());
        // Waits for ever unless it is interrupted, and loom would tell.
        let handle = executor.submit(move || queue.take().is_ok()).unwrap();
        drop(executor.shutdown_now());
        end(&executor);
        assert!(handle.is_done());
    });
}

#[test]
fn of_two_submissions_whose_first_thread_fails_neither_is_left_behind() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 1);
        let submit = |executor: &Executor| match executor.submit(|| 7) {
            Ok(handle) => match handle.join() {
                Ok(value) => assert_eq!(value, 7),
                Err(other) => assert!(matches!(other, WaitError::Task(TaskError::Abandoned(_))), "{other}"),
            },
            Err(refused) => assert_eq!(refused.reason(), RejectReason::NoWorker),
        };
        let other = {
            let executor = executor.clone();
            thread::spawn(move || submit(&executor))
        };
        submit(&executor);
        other.join().unwrap();
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn a_submission_whose_thread_fails_beside_a_shutdown_lets_the_pool_end() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 2);
        let submitter = {
            let executor = executor.clone();
            thread::spawn(move || match executor.submit(|| 7) {
                Ok(handle) => drop(handle.join()),
                Err(refused) => assert_ne!(refused.reason(), RejectReason::Saturated),
            })
        };
        executor.shutdown();
        end(&executor);
        submitter.join().unwrap();
    });
}

#[test]
fn a_worker_started_beside_a_shutdown_lets_the_pool_end() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let starter = {
            let executor = executor.clone();
            thread::spawn(move || executor.prestart_core_thread())
        };
        executor.shutdown();
        end(&executor);
        starter.join().unwrap();
    });
}

#[test]
fn a_periodic_task_is_not_queued_once_its_cancel_has_returned() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let (drops, runs) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let (captured, count) = (drops.counted(), Arc::clone(&runs));
        let handle = executor
            .schedule_at_fixed_rate(Duration::ZERO, STEP, move || {
                let _ = &captured;
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        assert!(handle.cancel());
        let (dropped, begun, deadline) = (drops.get(), handle.runs(), handle.deadline());
        assert!(!handle.is_queued());
        assert_eq!(executor.stats().queued, 0);
        executor.shutdown();
        end(&executor);
        assert!(!handle.is_queued() && handle.is_cancelled());
        assert_eq!(handle.deadline(), deadline, "it was queued again after the cancel");
        assert_eq!(drops.get(), 1);
        // What the cancel did not drop was running.
        assert!(dropped == 1 || runs.load(Ordering::SeqCst) == 1);
        assert_eq!(runs.load(Ordering::SeqCst) as u64, begun);
    });
}

#[test]
fn a_periodic_task_runs_again_or_is_cancelled() {
    explore(3, || {
        let clock = ManualClock::new();
        let executor = start(&clock, 0);
        let drops = Drops::default();
        let captured = drops.counted();
        let handle = executor.schedule_at_fixed_rate(Duration::ZERO, STEP, move || _ = &captured).unwrap();
        clock.jump(STEP);
        executor.shutdown();
        end(&executor);
        assert!(handle.is_cancelled() && handle.runs() <= 2);
        assert_eq!(drops.get(), 1);
    });
}

#[test]
fn a_task_that_is_queued_again_is_watched_although_a_leader_waits_for_a_later_one() {
    // Two workers and three orders of magnitude more to explore: one pre-emption fewer, which finds it still.
    explore(2, || {
        let clock = ManualClock::new();
        let executor = pool(&clock, 0).core_threads(2).build().unwrap();
        let runs = [(); 2].map(|()| Arc::new(FutureTask::new(|| ())));
        let mut left = runs.clone().into_iter();
        let body = move || _ = left.next().map(|run| run.run());
        let periodic = executor.schedule_at_fixed_rate(Duration::ZERO, STEP, body).unwrap();
        let later = executor.schedule(2 * STEP, || ()).unwrap();
        runs[0].join().unwrap();
        clock.jump(STEP);
        runs[1].join().unwrap();
        assert!(periodic.runs() == 2 && !later.is_done());
        drop(executor.shutdown_now());
        end(&executor);
    });
}

#[test]
fn a_handle_comes_out_of_a_completion_queue_when_its_task_is_done() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let queue = CompletionQueue::with_clock(ManualClock::new());
        queue.push(executor.submit(|| 7).unwrap());
        let handle = queue.take().unwrap().expect("one is outstanding");
        assert_eq!(handle.try_join().expect("it is done").unwrap(), 7);
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn a_task_submitted_while_the_worker_goes_to_sleep_is_run() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let first = executor.submit(|| 1).unwrap();
        // The worker may be anywhere between its first task and its sleep.
        let second = executor.submit(|| 2).unwrap();
        assert_eq!((second.join().unwrap(), first.join().unwrap()), (2, 1));
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn an_earlier_task_calls_the_worker_that_waits_for_a_later_one() {
    explore(3, || {
        let clock = ManualClock::new();
        let executor = start(&clock, 0);
        let later = executor.schedule(2 * STEP, || 2).unwrap();
        let sooner = executor.schedule(STEP, || 1).unwrap();
        clock.jump(STEP);
        assert_eq!(sooner.join().unwrap(), 1);
        assert!(!later.is_done());
        clock.jump(STEP);
        assert_eq!(later.join().unwrap(), 2);
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn a_task_submitted_while_the_worker_kept_for_another_is_released_is_run() {
    // The worker, whoever cancels and whoever submits: a third pre-emption takes many minutes.
    explore(2, || {
        let builder = pool(&ManualClock::new(), 0).core_threads_time_out().keep_alive(STEP);
        let executor = builder.build().unwrap();
        let far = executor.schedule(2 * STEP, || ()).unwrap();
        let canceller = thread::spawn(move || assert!(far.cancel()));
        assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
        canceller.join().unwrap();
        executor.shutdown();
        end(&executor);
    });
}

// ---- the inbox

/// So many tasks are submitted to a worker that may be anywhere: idle, called, running the first, or looking round after it.
fn run_in_order<const N: usize>() {
    let executor = start(&ManualClock::new(), 0);
    let order = Arc::new(AtomicUsize::new(0));
    executor.prestart_core_thread();
    let run = |place: usize| {
        let order = Arc::clone(&order);
        move || assert_eq!(order.fetch_add(1, Ordering::SeqCst), place)
    };
    let handles: [_; N] = std::array::from_fn(|place| executor.submit(run(place)).unwrap());
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    executor.shutdown();
    end(&executor);
}

#[test]
fn what_is_left_while_the_worker_is_on_its_way_is_run_in_order() {
    // A third pre-emption takes many minutes.
    explore(2, run_in_order::<3>);
}

#[test]
fn what_a_full_lane_is_relieved_of_is_run_in_order() {
    // Here there is room for two: the fourth may find them there. With two pre-emptions it takes two minutes.
    explore(1, run_in_order::<4>);
}

#[test]
fn what_two_threads_leave_at_once_is_run() {
    // Where they meet, one of them keeps to another lane from then on: its second task may be left there. With two
    // pre-emptions it takes four minutes.
    explore(1, || {
        let executor = start(&ManualClock::new(), 0);
        executor.prestart_core_thread();
        let other = {
            let executor = executor.clone();
            thread::spawn(move || [1, 2].map(|value| executor.submit(move || value).unwrap()))
        };
        let mine = executor.submit(|| 3).unwrap();
        let [first, second] = other.join().unwrap();
        assert!(first.id() < second.id() && mine.id() != first.id() && mine.id() != second.id());
        assert_eq!([first, second, mine].map(|task| task.join().unwrap()), [1, 2, 3]);
        executor.shutdown();
        end(&executor);
    });
}

// ---- what is laid out

#[test]
fn of_what_may_be_laid_out_each_is_run_or_cancelled_and_dropped_once() {
    // The worker and whoever cancels, with three tasks: a third pre-emption takes many minutes.
    explore(2, || {
        let executor = start(&ManualClock::new(), 0);
        let (drops, runs) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        executor.prestart_core_thread();
        let handles = [(); 3].map(|()| {
            let (captured, runs) = (drops.counted(), Arc::clone(&runs));
            let body = move || {
                let _ = &captured;
                runs.fetch_add(1, Ordering::SeqCst);
            };
            executor.submit(body).unwrap()
        });
        // The worker may have taken the first, and laid out the second, or this one, or nothing.
        let cancelled = handles[1].cancel() && handles[1].runs() == 0;
        assert!(!cancelled || !handles[1].is_queued());
        executor.shutdown();
        end(&executor);
        assert_eq!((drops.get(), runs.load(Ordering::SeqCst)), (3, 3 - usize::from(cancelled)));
    });
}

#[test]
fn what_is_cancelled_while_others_take_back_what_is_laid_out_is_gone() {
    // The worker, whoever looks, and whoever cancels.
    explore(2, || {
        let executor = start(&ManualClock::new(), 0);
        executor.prestart_core_thread();
        let handles = [(); 3].map(|()| executor.submit(|| ()).unwrap());
        let looker = {
            let executor = executor.clone();
            thread::spawn(move || assert!(executor.stats().queued <= 3))
        };
        let cancelled = handles[1].cancel() && handles[1].runs() == 0;
        looker.join().unwrap();
        assert!(!cancelled || !handles[1].is_queued());
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn a_stop_finds_what_may_be_laid_out() {
    explore(2, || {
        let executor = start(&ManualClock::new(), 0);
        let runs = Arc::new(AtomicUsize::new(0));
        executor.prestart_core_thread();
        let handles = [(); 3].map(|()| {
            let runs = Arc::clone(&runs);
            executor.submit(move || runs.fetch_add(1, Ordering::SeqCst)).unwrap()
        });
        let unrun = executor.shutdown_now();
        let left = unrun.len();
        drop(unrun);
        end(&executor);
        assert_eq!(runs.load(Ordering::SeqCst), 3 - left);
        assert!(handles.iter().all(|handle| handle.is_done()));
    });
}

#[test]
fn what_was_left_in_the_inbox_and_is_cancelled_is_dropped_at_once_or_runs() {
    explore(3, || {
        let executor = start(&ManualClock::new(), 0);
        let (drops, runs) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        let first = executor.submit(|| ()).unwrap();
        let (captured, count) = (drops.counted(), Arc::clone(&runs));
        let body = move || {
            let _ = &captured;
            count.fetch_add(1, Ordering::SeqCst);
        };
        let second = executor.submit(body).unwrap();
        let cancelled = second.cancel();
        let waited = cancelled && second.runs() == 0;
        assert!(!waited || drops.get() == 1, "it was cancelled before it ran, and still there");
        assert!(!second.is_queued());
        first.join().unwrap();
        executor.shutdown();
        end(&executor);
        assert_eq!((drops.get(), runs.load(Ordering::SeqCst) as u64), (1, second.runs()));
    });
}

#[test]
fn of_two_tasks_cancelled_beside_their_deadline_each_runs_or_is_gone() {
    explore(2, || {
        let (clock, bodies) = (ManualClock::new(), Drops::default());
        let executor = start(&clock, 0);
        let ran = Arc::new(AtomicUsize::new(0));
        // One more than the inbox takes keys of: the second is taken out together with the first.
        let tasks = [1, 2].map(|_| {
            let (ran, held) = (Arc::clone(&ran), bodies.counted());
            let body = move || {
                drop(held);
                ran.fetch_add(1, Ordering::SeqCst);
            };
            executor.schedule(STEP, body).unwrap()
        });
        let canceller = thread::spawn(move || tasks.iter().filter(|task| task.cancel()).count());
        clock.jump(STEP);
        let cancelled = canceller.join().unwrap();
        assert!(executor.stats().queued + cancelled <= 2, "a task that is cancelled is not queued");
        executor.shutdown();
        end(&executor);
        let (stats, ran) = (executor.stats(), ran.load(Ordering::SeqCst));
        // A task that was running when it was cancelled counts as completed.
        assert_eq!((stats.completed, stats.completed + stats.cancelled), (ran as u64, 2));
        assert!(ran + cancelled >= 2, "what is not cancelled runs");
        assert_eq!(bodies.get(), 2);
    });
}

/// Tasks with nothing to be dropped that are not due for a second: they go by their marks.
fn far_and_weightless<const N: usize>(
    executor: &Executor,
    runs: &'static AtomicUsize,
) -> [TaskHandle<()>; N] {
    std::array::from_fn(|_| executor.schedule(STEP, || _ = runs.fetch_add(1, Ordering::SeqCst)).unwrap())
}

#[test]
fn what_is_cancelled_by_its_mark_beside_its_deadline_runs_or_is_gone() {
    // The worker, whoever cancels and whoever moves the clock: a third pre-emption takes many minutes.
    explore(2, || {
        let runs: &'static AtomicUsize = Box::leak(Box::default());
        let clock = ManualClock::new();
        let executor = start(&clock, 0);
        executor.prestart_core_thread();
        let handles = far_and_weightless::<2>(&executor, runs);
        let canceller = thread::spawn(move || handles.map(|handle| handle.cancel()));
        clock.jump(STEP);
        let cancelled = canceller.join().unwrap().into_iter().filter(|cancelled| *cancelled).count();
        executor.shutdown();
        end(&executor);
        let (stats, ran) = (executor.stats(), runs.load(Ordering::SeqCst));
        // As above.
        assert_eq!((stats.completed, stats.completed + stats.cancelled), (ran as u64, 2));
        assert!(ran + cancelled >= 2, "what is not cancelled runs");
    });
}

#[test]
fn what_is_cancelled_by_its_mark_beside_a_shutdown_is_counted_once() {
    explore(2, || {
        let runs: &'static AtomicUsize = Box::leak(Box::default());
        let executor = start(&ManualClock::new(), 0);
        executor.prestart_core_thread();
        // More than keys are left of.
        let handles = far_and_weightless::<3>(&executor, runs);
        let canceller = thread::spawn(move || handles.map(|handle| handle.cancel() || handle.is_done()));
        let left = executor.shutdown_now();
        assert_eq!(canceller.join().unwrap(), [true; 3]);
        drop(left);
        end(&executor);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn what_two_producers_leave_beside_a_shutdown_is_run_or_refused() {
    explore(2, || {
        let executor = start(&ManualClock::new(), 0);
        executor.prestart_core_thread();
        let submit = |executor: &Executor| match executor.submit(|| 7) {
            Ok(handle) => assert_eq!(handle.join().unwrap(), 7),
            Err(refused) => assert_eq!(refused.reason(), RejectReason::ShutDown),
        };
        let other = {
            let executor = executor.clone();
            thread::spawn(move || submit(&executor))
        };
        submit(&executor);
        executor.shutdown();
        end(&executor);
        other.join().unwrap();
    });
}

#[test]
fn what_is_left_for_later_is_found_by_the_worker_that_waits_for_an_earlier_one() {
    explore(3, || {
        let clock = ManualClock::new();
        let executor = start(&clock, 0);
        let sooner = executor.schedule(STEP, || 1).unwrap();
        let later = executor.schedule(2 * STEP, || 2).unwrap();
        clock.jump(2 * STEP);
        assert_eq!((later.join().unwrap(), sooner.join().unwrap()), (2, 1));
        executor.shutdown();
        end(&executor);
    });
}

#[test]
fn an_idle_worker_takes_what_was_left_while_another_was_on_its_way() {
    // Two workers: two pre-emptions are all that can be explored in reasonable time.
    explore(2, || {
        let executor = pool(&ManualClock::new(), 0).core_threads(2).build().unwrap();
        executor.prestart_core_thread();
        executor.prestart_core_thread();
        let second = Arc::new(FutureTask::new(|| ()));
        let awaited = Arc::clone(&second);
        // Blocks its worker until the other one has run what comes after.
        let first = executor.submit(move || awaited.join().unwrap()).unwrap();
        let run = Arc::clone(&second);
        executor.execute(move || _ = run.run()).unwrap();
        first.join().unwrap();
        executor.shutdown();
        end(&executor);
    });
}

/// Invariant 8 of the inbox: what handles have left, and others take, keeps the pool no longer than it runs.
#[test]
fn counts_that_are_left_and_taken_beside_a_stop_do_not_keep_the_pool() {
    explore(2, || {
        let runs: &'static AtomicUsize = Box::leak(Box::default());
        let executor = start(&ManualClock::new(), 0);
        executor.prestart_core_thread();
        let weak = Arc::downgrade(executor.pool());
        far_and_weightless::<2>(&executor, runs).into_iter().for_each(|handle| assert!(handle.cancel()));
        let [handle] = far_and_weightless(&executor, runs);
        let scheduler = executor.scheduler();
        let other = thread::spawn(move || {
            assert!(handle.cancel() || handle.is_done());
            drop(handle);
            drop(scheduler.schedule(STEP, || ()).map(|next| next.cancel()));
        });
        drop(executor.shutdown_now());
        other.join().unwrap();
        end(&executor);
        drop(executor);
        // The thread of the worker may have a step to go.
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    });
}
