//! Everything that the builder says of a task holds for bodies that are futures.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use punctual::{
    Abandoned, Backoff, BoxedFuture, Clock, Executor, ManualClock, Missed, Observer, OnFailure, Overlap,
    Priority, RejectReason, RunOutcome, TaskContext, TaskError, TaskInfo, TaskState, Tick, run_on,
};

use crate::support::{Counter, Gate, Log, Probe, finish, manual};
use crate::{Event, Yield};

const SECOND: Duration = Duration::from_secs(1);

/// What one run does: it takes so many seconds, and then does this.
#[derive(Clone, Copy)]
enum End {
    Return,
    Fail,
    Panic,
    /// Forgets its waker.
    Lost,
}
use End::{Fail, Lost, Panic, Return};

type Scripted = Pin<Box<dyn Future<Output = Result<u64, &'static str>> + Send>>;

/// Makes runs by a script, and notes when they begin.
fn scripted(
    pool: &Executor,
    clock: &ManualClock,
    log: &Log<u64>,
    script: &[(u32, End)],
) -> impl FnMut() -> Scripted + Send + 'static {
    let (timers, clock, log) = (pool.scheduler(), clock.clone(), log.clone());
    let mut script = VecDeque::from(script.to_vec());
    move || {
        let began = clock.now().since(Tick::ZERO).as_secs();
        log.add(began);
        let (length, end) = script.pop_front().unwrap_or((0, Return));
        let nap = timers.sleep(SECOND * length);
        Box::pin(async move {
            nap.await.unwrap();
            match end {
                Return => Ok(began),
                Fail => Err("as told"),
                Panic => panic!("as told"),
                Lost => std::future::pending().await,
            }
        })
    }
}

fn is_timeout(error: Option<TaskError>, seconds: u64) -> bool {
    matches!(error, Some(TaskError::TimedOut(limit)) if limit == Duration::from_secs(seconds))
}

#[test]
fn it_has_a_name_and_tags_and_is_found_by_them() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let task = pool.task_async(move || awaited).name("one").tag("both").start().unwrap();
    let other = pool.task_async(|| async {}).every(SECOND).name("two").tag("both").start().unwrap();
    clock.wait_until_idle();
    assert_eq!(pool.find("one").map(|found| found.id()), Some(task.id()));
    assert_eq!(pool.tagged("both").len(), 2);
    assert!(pool.find("two").unwrap().cancel() && other.is_cancelled());
    event.happen();
    clock.wait_until_idle();
    assert!(task.join().is_ok() && pool.tagged("both").is_empty());
    finish(&pool);
}

#[cfg(feature = "cron")]
#[test]
fn it_follows_a_cron_expression_and_runs_once_for_what_it_missed() {
    let (pool, clock) = manual(1);
    clock.set_wall(SystemTime::UNIX_EPOCH + 86_400 * SECOND);
    let log = Log::new();
    let make = scripted(&pool, &clock, &log, &[(10, Return), (150, Return)]);
    let task = pool.task_async(make).cron("* * * * *", "UTC").unwrap().start().unwrap();
    clock.advance(400 * SECOND);
    assert_eq!(log.entries(), [60, 120, 270, 300, 360]);
    assert_eq!(task.info().missed(), 1);
    finish(&pool);
}

#[test]
fn the_first_poll_waits_for_its_time_on_the_wall() {
    let (pool, clock) = manual(1);
    let noon = SystemTime::UNIX_EPOCH + 43_200 * SECOND;
    clock.set_wall(noon - 600 * SECOND);
    let spawned = pool.spawn_after(noon, async { 7 }).unwrap();
    let made = pool.task_async(|| async { 8 }).first(noon).start().unwrap();
    clock.advance(300 * SECOND);
    clock.set_wall(noon - 100 * SECOND);
    clock.advance(99 * SECOND);
    assert!(!spawned.is_done() && !made.is_done());
    clock.advance(SECOND);
    assert_eq!((spawned.join().unwrap(), made.join().unwrap()), (7, 8));
    finish(&pool);
}

#[test]
fn a_function_says_when_the_next_run_is_due_and_is_told_of_the_whole_run() {
    let (pool, clock) = manual(1);
    let (log, told) = (Log::new(), Log::new());
    let make = scripted(&pool, &clock, &log, &[(2, Return), (5, Return)]);
    let seen = told.clone();
    let next = move |run: punctual::RunTimes| {
        seen.add([run.deadline, run.started, run.ended].map(|tick| tick.since(Tick::ZERO).as_secs()));
        Some(run.ended.after(10 * SECOND))
    };
    let _task = pool.task_async(make).after(SECOND).next_by(next).at_most(3).start().unwrap();
    clock.advance(60 * SECOND);
    assert_eq!(log.entries(), [1, 13, 28]);
    assert_eq!(told.entries(), [[1, 1, 3], [13, 13, 18]]);
    finish(&pool);
}

#[test]
fn runs_that_came_due_during_another_follow_the_missed_policy() {
    for (missed, expected) in [
        (Missed::burst(), vec![0, 35, 35, 35, 40]),
        (Missed::skip(), vec![0, 40]),
        (Missed::once(), vec![0, 35, 40]),
    ] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let make = scripted(&pool, &clock, &log, &[(35, Return)]);
        let _task = pool.task_async(make).every(10 * SECOND).missed(missed).start().unwrap();
        clock.advance(40 * SECOND);
        assert_eq!(log.entries(), expected, "{missed:?}");
        finish(&pool);
    }
}

#[test]
fn a_single_run_that_could_only_begin_too_late_is_left_out() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    crate::support::block_worker(&pool, &gate);
    let task = pool.task_async(|| async {}).max_lateness(SECOND).start().unwrap();
    clock.jump(2 * SECOND);
    gate.open();
    assert!(matches!(task.join().unwrap_err().task(), Some(TaskError::Abandoned(Abandoned::Missed))));
    finish(&pool);
}

/// However a run fails: the next has a future of its own, which nothing of the old one disturbs.
#[test]
fn after_every_kind_of_failure_the_series_goes_on_as_told() {
    for (end, length) in [(Fail, 0), (Fail, 3), (Panic, 0), (Panic, 3), (Lost, 0), (Lost, 3)] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let make = scripted(&pool, &clock, &log, &[(length, end), (2, Return), (length, end)]);
        let builder = pool.task_async(make).every(10 * SECOND).on_failure(OnFailure::Continue);
        let task = builder.start().unwrap();
        clock.advance(35 * SECOND);
        assert_eq!((log.entries(), task.runs()), (vec![0, 10, 20, 30], 4));
        let failed: Vec<_> = task.recent_failures().iter().map(|failed| failed.run()).collect();
        assert_eq!(failed, [1, 3]);
        let error = task.recent_failures()[0].error().clone();
        match end {
            Fail => assert_eq!(error.to_string(), "the task failed: as told"),
            Panic => assert_eq!(error.panic().unwrap().message(), "as told"),
            _ => assert!(matches!(error, TaskError::Abandoned(Abandoned::Dropped))),
        }
        finish(&pool);
    }
}

#[test]
fn a_failure_ends_the_series_where_the_policy_says_so() {
    for (end, state) in [(Fail, TaskState::Failed), (Panic, TaskState::Failed), (Lost, TaskState::Abandoned)]
    {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let make = scripted(&pool, &clock, &log, &[(1, end), (1, end), (1, end)]);
        let task =
            pool.task_async(make).every(5 * SECOND).on_failure(OnFailure::StopAfter(2)).start().unwrap();
        clock.advance(60 * SECOND);
        assert_eq!((log.entries(), task.state()), (vec![0, 5], state));
        finish(&pool);
    }
}

#[test]
fn a_pause_after_a_failure_counts_from_the_end_of_the_run() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let make = scripted(&pool, &clock, &log, &[(3, Fail), (3, Fail), (1, Return)]);
    let policy = OnFailure::backoff(SECOND..=60 * SECOND);
    let _task = pool.task_async(make).every(10 * SECOND).on_failure(policy).start().unwrap();
    clock.advance(25 * SECOND);
    assert_eq!(log.entries(), [0, 4, 9, 20]);
    finish(&pool);
}

/// What a future captured is dropped when its run is over, not when the next begins.
#[test]
fn the_future_of_a_run_that_panicked_is_dropped_with_the_run() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let mut captured = Some(captured);
    let make = move || {
        let captured = captured.take();
        async move {
            Yield::default().await;
            let _captured = std::mem::ManuallyDrop::new(captured.as_ref());
            assert!(captured.is_none(), "the first run");
            drop(captured);
        }
    };
    let task = pool.task_async(make).every(10 * SECOND).on_failure(OnFailure::Continue).start().unwrap();
    clock.wait_until_idle();
    assert!(probe.is_dropped() && task.runs() == 1);
    clock.advance(10 * SECOND);
    assert_eq!((task.runs(), task.info().failures()), (2, 1));
    finish(&pool);
}

#[test]
fn each_attempt_has_a_future_of_its_own() {
    for end in [Fail, Panic, Lost] {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let make = scripted(&pool, &clock, &log, &[(2, end), (2, end), (2, Return)]);
        let task = pool.task_async(make).retry(Backoff::constant(10 * SECOND)).start().unwrap();
        clock.advance(60 * SECOND);
        assert_eq!((log.entries(), task.runs()), (vec![0, 12, 24], 3));
        assert_eq!(task.join().unwrap(), Ok(24));
        finish(&pool);
    }
}

#[test]
fn the_last_attempt_is_the_outcome() {
    let (pool, clock) = manual(1);
    let backoff = Backoff::constant(SECOND).give_up_after(2);
    let retry = |script: &[(u32, End)]| {
        let make = scripted(&pool, &clock, &Log::new(), script);
        pool.task_async(make).timeout(5 * SECOND).retry(backoff).start().unwrap()
    };
    let (failed, late) = (retry(&[(1, Panic), (1, Fail)]), retry(&[(1, Fail), (9, Return)]));
    clock.advance(60 * SECOND);
    assert_eq!(failed.join().unwrap(), Err("as told"));
    assert!(is_timeout(late.failure(), 5));
    finish(&pool);
}

#[test]
fn a_future_is_dropped_when_its_time_is_over_and_has_timed_out() {
    let (pool, clock) = manual(1);
    let (event, (probe, captured)) = (Event::new(), Probe::new());
    let awaited = event.clone();
    let make = move || async move {
        let _captured = captured;
        awaited.await;
    };
    let task = pool.task_async(make).after(10 * SECOND).timeout(5 * SECOND).start().unwrap();
    clock.advance(14 * SECOND);
    assert!(!task.is_done() && !probe.is_dropped());
    clock.advance(SECOND);
    assert!(is_timeout(task.failure(), 5) && probe.is_dropped());
    assert_eq!((event.polls(), pool.stats().timeouts, pool.stats().queued), (1, 0, 0));
    event.happen();
    finish(&pool);
}

/// Time spent waiting for the first poll does not count, time between polls does.
#[test]
fn a_timeout_counts_from_the_first_poll() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    crate::support::block_worker(&pool, &gate);
    let timers = pool.scheduler();
    let make = move || async move {
        for _ in 0..2 {
            timers.sleep(2 * SECOND).await.unwrap();
        }
    };
    let task = pool.task_async(make).timeout(5 * SECOND).start().unwrap();
    clock.jump(60 * SECOND);
    gate.open();
    clock.advance(5 * SECOND);
    assert!(task.join().is_ok());
    assert_eq!(pool.stats().timeouts, 0, "no watch is left behind");
    finish(&pool);
}

#[test]
fn each_run_that_is_a_future_has_a_timeout_of_its_own() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let script = [(4, Return), (60, Return), (4, Return), (60, Return)];
    let make = scripted(&pool, &clock, &log, &script);
    let builder = pool.task_async(make).with_fixed_delay(SECOND).timeout(5 * SECOND);
    let task = builder.on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(22 * SECOND);
    assert_eq!(log.entries(), [0, 5, 11, 16, 22]);
    assert!(task.recent_failures().iter().all(|failed| is_timeout(Some(failed.error().clone()), 5)));
    assert_eq!(task.info().failures(), 2);
    finish(&pool);
}

/// A timeout that is over before the first poll, and one that is over during a poll: neither is lost.
#[test]
fn a_timeout_that_comes_during_a_poll_drops_the_future_after_it() {
    for ready in [false, true] {
        let (pool, clock) = manual(1);
        let (gate, (probe, captured)) = (Gate::new(), Probe::new());
        let inner = gate.clone();
        let make = move || async move {
            let _captured = captured;
            inner.pass();
            while !TaskContext::current().is_interrupted() {
                std::thread::yield_now();
            }
            if !ready {
                std::future::pending::<()>().await;
            }
        };
        let task = pool.task_async(make).timeout(5 * SECOND).start().unwrap();
        gate.open();
        gate.await_arrivals(1);
        clock.jump(5 * SECOND);
        assert!(task.wait().is_ok() && is_timeout(task.failure(), 5) && probe.is_dropped());
        finish(&pool);
    }
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let task = pool.task_async(move || awaited).timeout(Duration::ZERO).start().unwrap();
    clock.wait_until_idle();
    assert!(is_timeout(task.failure(), 0));
    finish(&pool);
}

#[test]
fn a_run_that_is_cancelled_takes_its_timeout_along() {
    let (pool, clock) = manual(1);
    let events = [Event::new(), Event::new()];
    let [awaited, beaten] = events.clone();
    let once = pool.task_async(move || awaited).timeout(60 * SECOND).start().unwrap();
    let beat = pool.task_async(move || beaten.clone()).every(SECOND).overlap(Overlap::Replace);
    let beat = beat.timeout(60 * SECOND).start().unwrap();
    clock.wait_until_idle();
    assert_eq!(pool.stats().timeouts, 3);
    assert!(once.cancel() && beat.cancel());
    assert_eq!((pool.stats().timeouts, pool.stats().queued), (0, 0));
    finish(&pool);
}

#[test]
fn the_next_run_replaces_one_that_is_under_way_by_dropping_its_future() {
    let (pool, clock) = manual(1);
    let (log, dropped) = (Log::new(), Counter::new());
    struct OnDrop(Counter);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.hit();
        }
    }
    let mut make = scripted(&pool, &clock, &log, &[(60, Return), (1, Return), (60, Return)]);
    let count = dropped.clone();
    let make = move || {
        let (run, on_drop) = (make(), OnDrop(count.clone()));
        async move {
            let _on_drop = on_drop;
            run.await
        }
    };
    let task = pool.task_async(make).every(10 * SECOND).overlap(Overlap::Replace).at_most(4).start().unwrap();
    clock.advance(9 * SECOND);
    assert_eq!(dropped.get(), 0);
    clock.advance(SECOND);
    assert_eq!((log.entries(), dropped.get()), (vec![0, 10], 1));
    clock.advance(50 * SECOND);
    assert_eq!((log.entries(), dropped.get(), task.info().failures()), (vec![0, 10, 20, 30], 4, 0));
    assert!(task.join().is_ok());
    finish(&pool);
}

#[test]
fn a_last_run_that_is_replaced_leaves_a_series_without_failure() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let builder = pool.task_async(move || awaited.clone()).every(SECOND).overlap(Overlap::Replace);
    let task = builder.at_most(2).start().unwrap();
    clock.advance(5 * SECOND);
    assert!(task.join().is_ok());
    finish(&pool);
}

#[test]
fn as_many_runs_overlap_on_one_worker_as_may() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (timers, seen, time) = (pool.scheduler(), log.clone(), clock.clone());
    let make = move || {
        seen.add(time.now().since(Tick::ZERO).as_secs());
        timers.sleep(25 * SECOND)
    };
    let refused = pool.task_async(make.clone()).every(SECOND).overlap(Overlap::Allow(2)).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::NotShared);
    let task = pool.task_async(make).every(10 * SECOND).overlap(Overlap::Allow(2)).start_shared().unwrap();
    clock.advance(39 * SECOND);
    // 20 had no place.
    assert_eq!((log.entries(), task.info().missed()), (vec![0, 10, 30], 1));
    assert!(task.cancel());
    clock.advance(60 * SECOND);
    assert_eq!(log.entries().len(), 3);
    finish(&pool);
}

#[test]
fn overlapping_futures_fail_and_time_out_each_on_its_own() {
    let (pool, clock) = manual(1);
    let timers = pool.scheduler();
    let count = Counter::new();
    let make = move || {
        count.hit();
        let (nap, fails) = (timers.sleep(SECOND * if count.get() == 2 { 60 } else { 3 }), count.get() == 3);
        async move {
            nap.await.unwrap();
            if fails { Err("as told") } else { Ok(()) }
        }
    };
    let builder = pool.task_async(make).every(2 * SECOND).timeout(4 * SECOND).on_failure(OnFailure::Continue);
    let task = builder.overlap(Overlap::Allow(9)).start_shared().unwrap();
    clock.advance(10 * SECOND);
    let errors: Vec<String> =
        task.recent_failures().iter().map(|failed| failed.error().to_string()).collect();
    assert_eq!(errors, ["the task took longer than its timeout of 4s", "the task failed: as told"]);
    assert!(task.cancel());
    finish(&pool);
    assert_eq!(pool.stats().timeouts, 0);
}

#[test]
fn a_head_start_counts_for_every_poll() {
    let (pool, clock) = manual(1);
    let (log, event) = (Log::new(), Event::new());
    let (seen, awaited) = (log.clone(), event.clone());
    let make = move || async move {
        awaited.await;
        seen.add("urgent");
    };
    let task = pool.task_async(make).priority(Priority::ahead(60 * SECOND)).start().unwrap();
    clock.wait_until_idle();
    let gate = Gate::new();
    crate::support::block_worker(&pool, &gate);
    let plain = pool.submit({
        let log = log.clone();
        move || log.add("plain")
    });
    event.happen();
    gate.open();
    assert!(task.join().is_ok() && plain.unwrap().join().is_ok());
    assert_eq!(log.entries(), ["urgent", "plain"]);
    finish(&pool);
}

#[test]
fn the_runs_to_come_are_known_while_one_is_under_way() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let task = pool.task_async(move || awaited.clone()).every(10 * SECOND).start().unwrap();
    clock.wait_until_idle();
    let seconds =
        |ticks: Vec<Tick>| ticks.iter().map(|tick| tick.since(Tick::ZERO).as_secs()).collect::<Vec<_>>();
    assert_eq!(seconds(task.upcoming(3)), [10, 20, 30]);
    assert_eq!(task.deadline(), Tick::ZERO);
    finish(&pool);
}

/// A run goes on whatever the wall clock does; the one after it is by what the clock shows then.
#[test]
fn a_step_of_the_wall_clock_does_not_disturb_a_run_under_way() {
    let (pool, clock) = manual(1);
    let start = SystemTime::UNIX_EPOCH + 86_400 * SECOND;
    clock.set_wall(start);
    let event = Event::new();
    let awaited = event.clone();
    let daily = |after: SystemTime| after.checked_add(100 * SECOND);
    let task = pool.task_async(move || awaited.clone()).calendar(daily).start().unwrap();
    clock.advance(100 * SECOND);
    assert_eq!((task.runs(), event.polls()), (1, 1));
    clock.set_wall(start + 150 * SECOND);
    crate::support::look_round(&pool, &clock);
    assert_eq!(event.polls(), 1);
    event.happen();
    clock.wait_until_idle();
    assert_eq!((task.runs(), event.polls()), (1, 2));
    clock.advance(40 * SECOND);
    assert_eq!(task.runs(), 1);
    // The next step is noticed by whoever wakes, as if there had been no run under way during the last.
    clock.set_wall(start + 200 * SECOND);
    crate::support::look_round(&pool, &clock);
    assert_eq!(task.runs(), 2);
    finish(&pool);
}

#[test]
fn a_run_that_another_runtime_polls_is_dropped_there_when_its_time_is_over() {
    let (pool, clock) = manual(1);
    let other =
        Executor::builder().core_threads(1).clock(clock.clone()).thread_name("other").build().unwrap();
    let (event, dropped) = (Event::new(), Log::new());
    struct Told(Log<String>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.add(std::thread::current().name().unwrap_or_default().to_owned());
        }
    }
    let (there, awaited, log) = (other.clone(), event.clone(), dropped.clone());
    let make = move || {
        let (there, awaited, told) = (there.clone(), awaited.clone(), Told(log.clone()));
        run_on(move |future: BoxedFuture| drop(there.spawn(future)), async move {
            let _told = told;
            awaited.await;
        })
    };
    let builder =
        pool.task_async(make).every(10 * SECOND).timeout(5 * SECOND).on_failure(OnFailure::Continue);
    let task = builder.start().unwrap();
    clock.advance(12 * SECOND);
    assert_eq!((task.runs(), task.info().failures()), (2, 1));
    assert!(matches!(&dropped.entries()[..], [thread] if thread.starts_with("other")));
    finish(&pool);
    finish(&other);
}

/// Between two polls of a run the hook of an observer may panic, too: then that run has failed, and no other.
#[test]
fn a_hook_that_panics_fails_the_run_under_way_and_no_other() {
    #[derive(Clone)]
    struct Second(Counter, Log<&'static str>);
    impl Observer for Second {
        fn before_run(&self, task: TaskInfo<'_>) {
            if task.name().is_some() {
                self.0.hit();
                assert_ne!(self.0.get(), 2, "the second poll");
            }
        }
        fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
            if task.name().is_some() {
                self.1.add(match outcome {
                    RunOutcome::Pending => "pending",
                    RunOutcome::Returned => "returned",
                    _ => "other",
                });
            }
        }
    }
    let (clock, observer) = (ManualClock::new(), Second(Counter::new(), Log::new()));
    let builder = Executor::builder().core_threads(1).clock(clock.clone());
    let pool = builder.observer(observer.clone()).build().unwrap();
    let log = Log::new();
    let make = scripted(&pool, &clock, &log, &[(2, Return), (2, Return)]);
    let builder = pool.task_async(make).name("watched").every(10 * SECOND);
    let task = builder.on_failure(OnFailure::Continue).start().unwrap();
    clock.advance(15 * SECOND);
    assert_eq!((log.entries(), task.info().failures()), (vec![0, 10], 1));
    assert!(matches!(task.recent_failures()[0].error(), TaskError::HookPanicked(_)));
    assert_eq!(observer.1.entries(), ["pending", "pending", "returned"]);
    finish(&pool);
}

/// Nobody ends a task that was never queued: it must not hold on to itself.
#[test]
fn a_calendar_that_panics_when_it_is_first_asked_leaves_nothing_behind() {
    let (pool, _clock) = manual(1);
    let (probe, captured) = Probe::new();
    let make = move || {
        let _captured = &captured;
        async {}
    };
    let builder = pool.task_async(make).calendar(|_| -> Option<SystemTime> { panic!("no such year") });
    assert!(catch_unwind(AssertUnwindSafe(|| builder.start())).is_err());
    assert!(probe.is_dropped());
    finish(&pool);
}

/// It is polled by hand, goes back to its executor, and is a run of its series there.
#[test]
fn a_run_that_was_removed_and_polled_by_hand_goes_on_with_its_series() {
    let (pool, clock) = manual(1);
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let made = Arc::clone(&events);
    let make = move || {
        let event = Event::new();
        made.lock().unwrap().push(event.clone());
        event
    };
    let builder = pool.task_async(make).after(3 * SECOND).with_fixed_start(10 * SECOND);
    let task = builder.timeout(60 * SECOND).start().unwrap();
    let event = |n: usize| events.lock().unwrap()[n].clone();
    let due = || task.deadline().since(Tick::ZERO).as_secs();
    // Begun by hand at 5, and again at 20, after a run of the pool's own at 15.
    for (n, (wait, next)) in [(5, 15), (10, 25), (5, 30)].into_iter().enumerate() {
        if n == 1 {
            clock.advance(SECOND * wait);
        } else {
            let removed = task.remove().unwrap();
            clock.advance(SECOND * wait);
            assert!(removed.run());
        }
        assert_eq!((task.runs(), pool.stats().queued), (n as u64 + 1, 1));
        event(n).happen();
        clock.wait_until_idle();
        assert_eq!((task.runs(), due()), (n as u64 + 1, next));
    }
    // And the runs of its own have their timeouts, which go with them.
    clock.advance(10 * SECOND);
    assert_eq!((task.info().failures(), pool.stats().timeouts), (0, 1));
    assert!(task.cancel());
    assert_eq!(pool.stats().timeouts, 0);
    finish(&pool);
}

/// The poll in which the time was over has not failed; the turn in which the future is dropped has.
#[test]
fn an_observer_sees_a_poll_that_was_not_ready_and_then_a_run_that_timed_out() {
    #[derive(Clone)]
    struct Outcomes(Log<String>);
    impl Observer for Outcomes {
        fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
            self.0.add(match outcome {
                RunOutcome::Pending => "pending".to_owned(),
                RunOutcome::Failed(error) => error.to_string(),
                other => format!("{other:?}"),
            });
        }
    }
    let (clock, log, event) = (ManualClock::new(), Log::new(), Event::new());
    let builder = Executor::builder().core_threads(1).clock(clock.clone());
    let pool = builder.observer(Outcomes(log.clone())).build().unwrap();
    let (gate, awaited) = (Gate::new(), event.clone());
    let inner = gate.clone();
    let make = move || async move {
        inner.pass();
        while !TaskContext::current().is_interrupted() {
            std::thread::yield_now();
        }
        awaited.await;
    };
    gate.open();
    let task = pool.task_async(make).timeout(5 * SECOND).start().unwrap();
    gate.await_arrivals(1);
    clock.jump(5 * SECOND);
    assert!(task.wait().is_ok());
    assert_eq!(log.entries(), ["pending", "the task took longer than its timeout of 5s"]);
    finish(&pool);
}
