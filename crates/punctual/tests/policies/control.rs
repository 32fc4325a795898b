//! Tasks that are paused, moved, triggered, listed and found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use punctual::{
    Clock, Executor, ManualClock, OnCancel, OnFailure, Steered, TaskContext, TaskHandle, TaskState, Tick,
};

use crate::bodies::{SECOND, at, seconds};
use crate::support::{Gate, HOUR, Log, Probe, eventually, finish, manual};

/// A grid of ten seconds from 10 on, with or without policies, noting when it runs.
fn grid(pool: &Executor, clock: &ManualClock, series: bool) -> (TaskHandle<()>, Log<u64>) {
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add(seconds(time.now()));
    let task = match series {
        true => pool.task(body).after(10 * SECOND).every(10 * SECOND).start(),
        false => pool.schedule_at_fixed_rate(10 * SECOND, 10 * SECOND, body),
    };
    (task.unwrap_or_else(|_| unreachable!()), log)
}

/// Both kinds, one after the other, each on a pool of its own.
fn each_grid(test: impl Fn(&Executor, &ManualClock, TaskHandle<()>, Log<u64>)) {
    for series in [true, false] {
        let (pool, clock) = manual(1);
        let (task, log) = grid(&pool, &clock, series);
        test(&pool, &clock, task, log);
        finish(&pool);
    }
}

#[test]
fn a_paused_task_does_not_run_and_goes_on_with_its_grid() {
    each_grid(|_, clock, task, log| {
        clock.advance(10 * SECOND);
        assert_eq!((task.pause(), task.pause()), (Steered::Now, Steered::Already));
        assert!(task.info().is_paused() && task.upcoming(3).is_empty());
        clock.advance(35 * SECOND);
        assert_eq!((task.resume(), task.resume()), (Steered::Now, Steered::Already));
        clock.advance(15 * SECOND);
        assert_eq!(log.entries(), [10, 50, 60]);
        assert!(!task.info().is_paused());
    });
}

/// A point that is due at the very instant of the resumption has not been missed.
#[test]
fn a_task_resumed_at_a_point_of_its_grid_runs_then() {
    each_grid(|_, clock, task, log| {
        assert_eq!(task.pause(), Steered::Now);
        clock.advance(30 * SECOND);
        assert_eq!(task.resume(), Steered::Now);
        clock.wait_until_idle();
        assert_eq!(log.entries(), [30]);
        assert_eq!(task.deadline(), at(40));
    });
}

#[test]
fn a_series_that_ended_in_a_pause_does_not_run_again() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| ()).after(10 * SECOND).every(10 * SECOND).until(20 * SECOND).start().unwrap();
    let _ = task.pause();
    clock.advance(25 * SECOND);
    let _ = task.resume();
    clock.wait_until_idle();
    assert_eq!((task.runs(), task.state()), (0, TaskState::Abandoned));
    finish(&pool);
}

#[test]
fn a_single_run_whose_time_passes_in_a_pause_is_run_when_it_is_resumed() {
    let (pool, clock) = manual(1);
    let [late, early] = [10, 100].map(|delay| pool.schedule(delay * SECOND, || ()).unwrap());
    let _ = (late.pause(), early.pause());
    clock.advance(50 * SECOND);
    assert_eq!((late.state(), early.state()), (TaskState::Waiting, TaskState::Waiting));
    assert_eq!((late.resume(), early.resume()), (Steered::Now, Steered::Now));
    clock.wait_until_idle();
    assert_eq!((late.state(), early.state()), (TaskState::Succeeded, TaskState::Waiting));
    clock.advance(50 * SECOND);
    assert!(early.is_done());
    finish(&pool);
}

#[test]
fn a_trigger_runs_a_task_once_more_and_does_not_move_its_schedule() {
    each_grid(|_, clock, task, log| {
        clock.advance(3 * SECOND);
        assert_eq!(task.trigger_now(), Steered::Now);
        clock.wait_until_idle();
        assert_eq!(task.deadline(), at(10));
        clock.advance(17 * SECOND);
        assert_eq!((log.entries(), task.runs()), (vec![3, 10, 20], 3));
    });
}

#[test]
fn a_trigger_does_not_move_a_fixed_delay_either() {
    let (pool, clock) = manual(1);
    let java = pool.schedule_with_fixed_delay(10 * SECOND, 10 * SECOND, || ()).unwrap();
    let series = pool.task(|| ()).after(10 * SECOND).with_fixed_delay(10 * SECOND).start().unwrap();
    clock.advance(3 * SECOND);
    for task in [java, series] {
        assert_eq!(task.trigger_now(), Steered::Now);
        clock.wait_until_idle();
        assert_eq!((task.runs(), task.deadline()), (1, at(10)));
    }
    finish(&pool);
}

/// However often it is triggered while it runs, it runs once more after that.
#[test]
fn a_trigger_during_a_run_is_heeded_after_it_and_only_once() {
    for series in [true, false] {
        let (pool, clock) = manual(1);
        let gate = Gate::new();
        let inner = gate.clone();
        let body = move || inner.pass();
        let task = match series {
            true => pool.task(body).every(HOUR).start().unwrap_or_else(|_| unreachable!()),
            false => {
                pool.schedule_at_fixed_rate(Duration::ZERO, HOUR, body).unwrap_or_else(|_| unreachable!())
            }
        };
        gate.await_arrivals(1);
        assert_eq!([task.trigger_now(), task.trigger_now()], [Steered::AfterRun, Steered::Already]);
        gate.open();
        clock.wait_until_idle();
        assert_eq!((task.runs(), task.deadline()), (2, Tick::ZERO.after(HOUR)));
        clock.advance(HOUR);
        assert_eq!(task.runs(), 3);
        finish(&pool);
    }
}

#[test]
fn a_task_that_runs_once_is_triggered_instead_of_waiting() {
    let (pool, clock) = manual(1);
    let plain = pool.schedule(HOUR, || 7).unwrap();
    let special = pool.task(|| 7).after(HOUR).timeout(HOUR).start().unwrap();
    assert_eq!((plain.trigger_now(), special.trigger_now()), (Steered::Now, Steered::Now));
    clock.wait_until_idle();
    assert_eq!((plain.join().unwrap(), special.join().unwrap()), (7, 7));
    assert_eq!((plain.trigger_now(), special.trigger_now()), (Steered::Over, Steered::Over));
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn a_paused_task_that_is_triggered_runs_and_stays_paused() {
    each_grid(|_, clock, task, log| {
        let _ = task.pause();
        clock.advance(SECOND);
        assert_eq!(task.trigger_now(), Steered::Now);
        clock.advance(40 * SECOND);
        assert_eq!(log.entries(), [1]);
        assert!(task.info().is_paused() && !task.is_done());
    });
}

#[test]
fn a_failure_of_a_triggered_run_follows_the_policy() {
    let (pool, clock) = manual(1);
    let stops = pool.task(|| Err::<(), _>("no")).after(HOUR).every(HOUR).start().unwrap();
    let backs_off = OnFailure::backoff(SECOND..=SECOND);
    let goes_on =
        pool.task(|| Err::<(), _>("no")).after(HOUR).every(HOUR).on_failure(backs_off).start().unwrap();
    let _ = (stops.trigger_now(), goes_on.trigger_now());
    clock.wait_until_idle();
    assert_eq!(stops.state(), TaskState::Failed);
    // It was for no point of the schedule, which comes next all the same.
    assert_eq!((goes_on.runs(), goes_on.deadline()), (1, Tick::ZERO.after(HOUR)));
    finish(&pool);
}

#[test]
fn a_task_is_rescheduled_to_an_earlier_and_to_a_later_time() {
    each_grid(|_, clock, task, log| {
        assert_eq!(task.reschedule(3 * SECOND), Steered::Now);
        clock.advance(13 * SECOND);
        assert_eq!(task.reschedule(at(40)), Steered::Now);
        clock.advance(37 * SECOND);
        // The grid moves with the run.
        assert_eq!((log.entries(), task.deadline()), (vec![3, 13, 40, 50], at(60)));
    });
}

/// Nobody else is told: the worker that waits for the old deadline must be.
#[test]
fn a_worker_that_waits_is_told_of_an_earlier_time() {
    let pool = Executor::new(2);
    let far = pool.schedule(HOUR, || 7).unwrap();
    eventually("a worker waits", || pool.stats().active == 0);
    assert_eq!(far.reschedule(Duration::ZERO), Steered::Now);
    assert_eq!(far.join().unwrap(), 7);
    pool.close().unwrap();
}

#[test]
fn a_body_may_reschedule_and_pause_its_own_task() {
    let (pool, clock) = manual(1);
    let inner = pool.scheduler();
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || {
        seen.add(seconds(time.now()));
        let own = inner.find("own").unwrap();
        match TaskContext::current().runs() {
            1 => assert_eq!(own.reschedule(7 * SECOND), Steered::AfterRun),
            2 => assert_eq!(own.reschedule(Duration::ZERO), Steered::AfterRun),
            4 => assert_eq!(own.pause(), Steered::AfterRun),
            _ => {}
        }
    };
    let task = pool.task(body).name("own").every(10 * SECOND).start().unwrap();
    clock.advance(60 * SECOND);
    assert_eq!(log.entries(), [0, 7, 7, 17]);
    assert_eq!(task.resume(), Steered::Now);
    clock.advance(10 * SECOND);
    assert_eq!(log.entries(), [0, 7, 7, 17, 67]);
    drop(task);
    finish(&pool);
}

/// The deadline in the header is that of the next run by then.
#[test]
fn a_body_that_has_rescheduled_its_task_sees_its_own_deadline() {
    for series in [true, false] {
        let (pool, clock) = manual(1);
        let (remotes, remote) = std::sync::mpsc::channel::<punctual::TaskRemote>();
        let log = Log::new();
        let seen = log.clone();
        let body = move || {
            let own = remote.recv().unwrap();
            assert_eq!(own.reschedule(100 * SECOND), Steered::AfterRun);
            seen.add(TaskContext::current().deadline().map(seconds));
        };
        let task = match series {
            true => pool.task(body).after(10 * SECOND).every(10 * SECOND).start().unwrap(),
            false => pool.schedule_at_fixed_rate(10 * SECOND, 10 * SECOND, body).unwrap(),
        };
        remotes.send(task.remote()).unwrap();
        clock.advance(10 * SECOND);
        assert_eq!((log.entries(), task.deadline()), (vec![Some(10)], at(110)));
        finish(&pool);
    }
}

#[test]
fn a_paused_task_can_be_rescheduled_and_stays_paused() {
    each_grid(|_, clock, task, log| {
        let _ = task.pause();
        assert_eq!(task.reschedule(25 * SECOND), Steered::Now);
        clock.advance(20 * SECOND);
        assert_eq!(task.resume(), Steered::Now);
        clock.advance(15 * SECOND);
        assert_eq!(log.entries(), [25, 35]);
    });
}

/// Every call has a defined result for a task that is too far gone.
#[test]
fn what_is_over_cannot_be_steered() {
    let (pool, clock) = manual(1);
    let over = |task: &TaskHandle<()>| {
        let steered = [task.pause(), task.resume(), task.reschedule(SECOND), task.trigger_now()];
        assert_eq!(steered, [Steered::Over; 4]);
        assert!(!steered[0].is_done());
    };
    let done = pool.submit(|| ()).unwrap();
    clock.wait_until_idle();
    over(&done);
    let cancelled = pool.schedule(HOUR, || ()).unwrap();
    cancelled.cancel();
    over(&cancelled);
    let paused = pool.schedule(HOUR, || ()).unwrap();
    let _ = paused.pause();
    paused.cancel();
    over(&paused);
    let removed = pool.schedule(HOUR, || ()).unwrap();
    let unrun = removed.remove().unwrap();
    assert_eq!([removed.pause(), removed.reschedule(SECOND), removed.trigger_now()], [Steered::Over; 3]);
    drop(unrun);
    over(&removed);
    let gate = Gate::new();
    let running = crate::support::block_worker(&pool, &gate);
    let steered = [running.pause(), running.reschedule(SECOND), running.trigger_now()];
    assert_eq!(steered, [Steered::TooLate; 3]);
    gate.open();
    finish(&pool);
    over(&running);
}

/// Nobody could wait for a task that nobody can resume.
#[test]
fn a_shutdown_cancels_what_is_paused() {
    for running in [false, true] {
        let (pool, clock) = manual(1);
        let (gate, (probe, captured)) = (Gate::new(), Probe::new());
        let inner = gate.clone();
        let body = move || {
            let _held = &captured;
            inner.pass();
        };
        let task =
            pool.task(body).after(if running { Duration::ZERO } else { HOUR }).every(HOUR).start().unwrap();
        let other = pool.schedule(HOUR, || ()).unwrap();
        pool.set_after_shutdown(punctual::Leftover::Periodic, punctual::Keep::Run);
        if running {
            gate.await_arrivals(1);
        }
        assert_eq!(task.pause(), if running { Steered::AfterRun } else { Steered::Now });
        pool.shutdown();
        assert_eq!(other.pause(), Steered::Over, "not after a shutdown");
        gate.open();
        clock.wait_until_idle();
        assert!(task.is_cancelled() && probe.is_dropped());
        clock.advance(HOUR);
        assert!(other.is_done() && pool.is_terminated());
    }
}

#[test]
fn a_paused_task_is_drained_cancelled_and_counted_like_any_other() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let tasks = [1, 2].map(|_| {
        let captured = Arc::clone(&captured);
        pool.schedule(HOUR, move || drop(captured)).unwrap()
    });
    drop(captured);
    tasks.iter().for_each(|task| assert_eq!(task.pause(), Steered::Now));
    assert_eq!((pool.stats().queued, pool.stats().delayed), (2, 2));
    assert!(clock.advance_to_next().is_none(), "nothing comes of waiting");
    assert!(tasks[0].cancel());
    assert_eq!(pool.stats().queued, 1);
    let drained = pool.shutdown_now();
    assert_eq!(drained.len(), 1);
    drop(drained);
    assert!(probe.is_dropped());
    finish(&pool);
}

/// What is never due would be kept for ever, and take the room of others.
#[test]
fn a_paused_task_that_is_cancelled_leaves_the_queue_though_others_are_kept_until_they_are_due() {
    let clock = ManualClock::new();
    let builder = Executor::builder().core_threads(1).on_cancel(OnCancel::KeepUntilDue);
    let pool = builder.clock(clock.clone()).build().unwrap();
    let [paused, kept] = [1, 2].map(|_| pool.schedule(HOUR, || ()).unwrap());
    assert_eq!(paused.pause(), Steered::Now);
    let waker = Arc::new(std::sync::Mutex::new(None));
    let inner = Arc::clone(&waker);
    let idle = pool.spawn(std::future::poll_fn(move |context| {
        *inner.lock().unwrap() = Some(context.waker().clone());
        std::task::Poll::<()>::Pending
    }));
    let idle = idle.unwrap();
    clock.wait_until_idle();
    assert!(paused.cancel() && idle.cancel() && kept.cancel());
    let queued: Vec<_> = pool.queue().iter().map(|task| task.id()).collect();
    assert_eq!(queued, [kept.id()]);
    drop(waker);
    finish(&pool);
}

#[test]
fn a_paused_task_that_is_taken_out_says_when_it_was_to_run() {
    for way in 0..3 {
        let (pool, _clock) = manual(1);
        let task = pool.schedule(HOUR, || ()).unwrap();
        assert_eq!(task.pause(), Steered::Now);
        let unrun = match way {
            0 => task.remove(),
            1 => pool.remove(task.id()),
            _ => pool.shutdown_now().pop(),
        };
        let unrun = unrun.unwrap();
        assert_eq!((unrun.id(), unrun.remaining().duration()), (task.id(), HOUR));
        drop(unrun);
        finish(&pool);
    }
}

#[test]
fn tasks_are_listed_with_what_they_are_doing() {
    let (pool, clock) = manual(2);
    let gate = Gate::new();
    let inner = gate.clone();
    let running = pool.task(move || inner.pass()).name("running").start().unwrap();
    gate.await_arrivals(1);
    let mut run = 0;
    let flaky = move || {
        run += 1;
        if run % 2 == 0 { Err("no") } else { Ok(()) }
    };
    let builder = pool.task(flaky).name("flaky").tag("a").tag("b").every(10 * SECOND);
    let _flaky = builder.on_failure(OnFailure::Continue).start().unwrap();
    let paused = pool.task(|| ()).name("paused").after(HOUR).start().unwrap();
    let _ = paused.pause();
    eventually("the first run", || pool.find("flaky").unwrap().info().last_run().is_some());
    clock.jump(12 * SECOND);
    eventually("the second run", || {
        let flaky = pool.find("flaky").unwrap().info();
        flaky.failures() == 1 && flaky.state() == TaskState::Waiting
    });
    let lines: Vec<String> = pool.tasks().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "#0 \"running\" running, 1 runs, 0 failed",
            "#1 \"flaky\" in 8s, 2 runs, 1 failed",
            "#2 \"paused\" paused, 0 runs, 0 failed",
        ]
    );
    let flaky = &pool.tasks()[1];
    assert_eq!((flaky.lateness(), flaky.worst_lateness()), (Some(2 * SECOND), 2 * SECOND));
    assert_eq!(flaky.last_run(), Some((at(12), at(12))));
    assert_eq!(flaky.last_failure().unwrap().to_string(), "the task failed: no");
    assert_eq!((flaky.tags().collect::<Vec<_>>(), flaky.failures_in_a_row()), (vec!["a", "b"], 1));
    assert_eq!(flaky.state(), TaskState::Waiting);
    gate.open();
    running.join().unwrap();
    finish(&pool);
}

/// It can be found before it is queued.
#[test]
fn a_task_cancelled_by_name_on_its_way_in_is_not_left_in_the_queue() {
    struct Cancels(punctual::Scheduler);
    impl Drop for Cancels {
        fn drop(&mut self) {
            assert!(self.0.find("new").unwrap().cancel());
        }
    }
    let builder = Executor::builder().core_threads(1).capacity(1).clock(ManualClock::new());
    let pool = builder.rejection(punctual::Rejection::DiscardOldest).build().unwrap();
    let cancels = Cancels(pool.scheduler());
    let old = pool.schedule(HOUR, move || drop(cancels)).unwrap();
    let new = pool.task(|| ()).name("new").after(HOUR).start().unwrap();
    assert!(old.is_done() && new.is_cancelled());
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn the_oldest_task_of_a_name_is_found_until_it_is_over() {
    let (pool, _clock) = manual(1);
    let tasks = [1, 2].map(|_| pool.task(|| ()).name("twin").tag("t").after(HOUR).start().unwrap());
    assert!(pool.find("t").is_none() && pool.tagged("twin").is_empty());
    for task in &tasks {
        let found = pool.find("twin").unwrap();
        assert_eq!((found.id(), found.name()), (task.id(), Some("twin")));
        assert_eq!(pool.tagged("t")[0].id(), task.id());
        assert!(found.cancel() && task.is_cancelled());
    }
    assert!(pool.find("twin").is_none() && pool.tagged("t").is_empty());
    finish(&pool);
}

#[test]
fn a_group_is_steered_by_its_tag() {
    let (pool, clock) = manual(2);
    let [a, b, c] = [Some("x"), Some("x"), None].map(|tag| {
        let builder = pool.task(|| ()).every(SECOND);
        let builder = if let Some(tag) = tag { builder.tag(tag) } else { builder };
        builder.start().unwrap()
    });
    clock.wait_until_idle();
    assert!(pool.tagged("x").iter().all(|task| task.pause().is_done()));
    clock.advance(5 * SECOND);
    assert_eq!((a.runs(), b.runs(), c.runs()), (1, 1, 6));
    finish(&pool);
}

/// A remote holds nothing that its task captured, and keeps nothing from ending.
#[test]
fn a_remote_does_not_keep_what_its_task_captured() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let task = pool.schedule(SECOND, move || drop(captured)).unwrap();
    let remote = task.remote();
    drop(task);
    clock.advance(SECOND);
    assert!(probe.is_dropped());
    assert_eq!((remote.state(), remote.clone().interrupt()), (TaskState::Succeeded, false));
    finish(&pool);
}

/// Steering from all sides while the task runs: it never runs twice at once, never runs while nobody lets it, and
/// answers to the last word.
#[test]
fn a_task_that_is_steered_from_all_sides_stays_sane() {
    for series in [true, false] {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(3).clock(clock.clone()).build().unwrap();
        let (inside, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let body = {
            let inside = Arc::clone(&inside);
            move || {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two runs at once");
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let task = match series {
            true => pool.task(body).every(SECOND).start().unwrap(),
            false => pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, body).unwrap(),
        };
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (task, over) = (task.remote(), Arc::clone(&over));
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    while !over.load(Ordering::SeqCst) {
                        let steered = match random.u8(0..6) {
                            0 => task.pause(),
                            1 | 2 => task.resume(),
                            3 => task.reschedule(SECOND * random.u32(0..3)),
                            _ => task.trigger_now(),
                        };
                        assert!(steered.is_done(), "{steered:?}");
                    }
                });
            }
            for _ in 0..300 {
                clock.jump(SECOND);
                std::thread::yield_now();
            }
            over.store(true, Ordering::SeqCst);
        });
        // At rest, it does as it was told last.
        let _ = (task.resume(), task.reschedule(SECOND));
        clock.wait_until_idle();
        let runs = task.runs();
        clock.advance(SECOND);
        assert_eq!((task.runs(), task.failure().is_none()), (runs + 1, true));
        let _ = task.pause();
        clock.advance(10 * SECOND);
        assert_eq!(task.runs(), runs + 1);
        assert!(task.cancel());
        assert_eq!(pool.stats().queued, 0);
        finish(&pool);
    }
}
