//! The state machine of a task that has no executor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use punctual::{FutureTask, Panic, TaskError, TaskState};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, WatchedClock, finish, manual};

/// A task that returns 7, or panics, and counts the calls of its body and of its hook.
struct Subject {
    task: FutureTask<u32>,
    calls: Counter,
    hooks: Log<TaskState>,
}

fn subject(fails: bool) -> Subject {
    let (calls, hooks) = (Counter::new(), Log::new());
    let (body, hook) = (calls.clone(), hooks.clone());
    let task = FutureTask::repeatable(move || {
        body.hit();
        assert!(!fails, "boom");
        7
    });
    Subject { task: task.on_done(move |state| hook.add(state)), calls, hooks }
}

/// A way to end a task: whether its body is to fail, the call, and the state it leads to.
type Way = (bool, fn(&FutureTask<u32>), TaskState);

const WAYS: [Way; 8] = [
    (false, |task| assert!(task.run()), TaskState::Succeeded),
    (false, |task| task.set(7).unwrap(), TaskState::Succeeded),
    (true, |task| assert!(task.run()), TaskState::Failed),
    (true, |task| assert!(!task.run_and_reset()), TaskState::Failed),
    (false, |task| assert!(task.fail(Panic::new("boom"))), TaskState::Failed),
    (false, |task| assert!(task.cancel()), TaskState::Cancelled),
    (false, |task| assert!(task.interrupt()), TaskState::Cancelled),
    (true, |task| assert!(task.cancel()), TaskState::Cancelled),
];

/// FT-002: a new task is neither done nor cancelled; one run makes it done, with the value.
#[test]
fn a_new_task_waits_and_one_run_ends_it() {
    let Subject { task, calls, .. } = subject(false);
    assert_eq!(task.state(), TaskState::Waiting);
    assert!(!task.is_done() && !task.is_cancelled());
    assert!(task.try_join().is_none() && task.failure().is_none());
    assert!(task.run());
    assert!(task.is_done() && !task.is_cancelled());
    assert_eq!(calls.get(), 1);
    assert!(!task.run());
    assert_eq!((calls.get(), task.join().unwrap()), (1, 7));

    let (pool, clock) = manual(1);
    let handle = pool.schedule(STEP, || 7).unwrap();
    assert_eq!(handle.state(), TaskState::Waiting);
    assert!(!handle.is_done() && !handle.is_cancelled());
    clock.advance(HOUR);
    assert!(handle.is_done() && !handle.is_cancelled());
    assert_eq!((handle.runs(), handle.join().unwrap()), (1, 7));
    finish(&pool);
}

/// FT-003, FT-004, FT-006, FT-033: whatever ended a task, nothing changes it afterwards, its body is not called
/// again, and its hook has been called once, with the state it is in.
#[test]
fn what_is_done_stays_as_it_is() {
    for (fails, end, expected) in WAYS {
        let Subject { task, calls, hooks } = subject(fails);
        end(&task);
        let (runs, failure) = (calls.get(), task.failure());
        assert_eq!(task.state(), expected);
        assert_eq!(hooks.entries(), [expected]);

        assert!(!task.cancel() && !task.interrupt());
        assert!(!task.run() && !task.run_and_reset());
        assert_eq!(task.set(9), Err(9));
        assert!(!task.fail(Panic::new("late")));

        assert_eq!((task.state(), calls.get()), (expected, runs));
        assert_eq!(hooks.entries(), [expected]);
        match failure {
            None => assert_eq!(task.join().unwrap(), 7),
            Some(TaskError::Cancelled) => assert!(task.join().unwrap_err().is_cancelled()),
            Some(failure) => {
                let error = task.join().unwrap_err();
                assert!(error.panic().unwrap().is_same(failure.panic().unwrap()));
            }
        }
    }
}

/// FT-003, FT-006: the handle of a task that is done refuses to cancel, interrupt or remove it; the outcome
/// stays.
#[test]
fn the_handle_of_a_task_that_is_done_changes_nothing() {
    let (pool, clock) = manual(1);
    let value = pool.submit(|| 7).unwrap();
    let panic = pool.submit(|| -> u32 { panic!("boom") }).unwrap();
    let cancelled = pool.schedule(HOUR, || 7).unwrap();
    assert!(cancelled.cancel());
    clock.wait_until_idle();
    for handle in [&value, &panic, &cancelled] {
        let state = handle.state();
        assert!(state.is_done());
        assert!(!handle.cancel() && !handle.interrupt() && handle.remove().is_none());
        assert_eq!(handle.state(), state);
    }
    assert_eq!(value.join().unwrap(), 7);
    assert_eq!(panic.join().unwrap_err().panic().unwrap().message(), "boom");
    assert!(cancelled.join().unwrap_err().is_cancelled());
    finish(&pool);
}

/// FT-005: a task that was cancelled first, either way, never calls its body, and has neither value nor failure.
#[test]
fn a_task_cancelled_before_its_run_never_runs() {
    for cancel in [FutureTask::cancel, FutureTask::interrupt] {
        let Subject { task, calls, hooks } = subject(false);
        assert!(cancel(&task));
        assert!(task.is_done() && task.is_cancelled());
        assert!(!task.run() && !task.run_and_reset());
        assert_eq!(calls.get(), 0);
        assert_eq!(hooks.entries(), [TaskState::Cancelled]);
        assert!(task.try_join().unwrap().unwrap_err().is_cancelled());
    }
}

/// FT-007: of several cancels at once exactly one is told that it was the one.
#[test]
fn of_racing_cancels_exactly_one_succeeds() {
    let (pool, _clock) = manual(1);
    for round in 0..100 {
        let task = FutureTask::new(|| ());
        let handle = pool.schedule(HOUR, || ()).unwrap();
        let race = || {
            let plain = round % 2 == 0;
            let task = if plain { task.cancel() } else { task.interrupt() };
            let handle = if plain { handle.cancel() } else { handle.interrupt() };
            (u32::from(task), u32::from(handle))
        };
        let won = thread::scope(|scope| {
            let others = [scope.spawn(race), scope.spawn(race)];
            others.map(|other| other.join().unwrap()).into_iter().fold(race(), |a, b| (a.0 + b.0, a.1 + b.1))
        });
        assert_eq!(won, (1, 1));
    }
    finish(&pool);
}

/// FT-008: while a task runs, a second run of either kind does nothing and leaves the state alone.
#[test]
fn a_running_task_cannot_be_run_again() {
    let (gate, calls) = (Gate::new(), Counter::new());
    let (held, count) = (gate.clone(), calls.clone());
    let task = FutureTask::repeatable(move || {
        count.hit();
        held.pass();
        7
    });
    thread::scope(|scope| {
        let runner = scope.spawn(|| task.run());
        gate.await_arrivals(1);
        assert_eq!(task.state(), TaskState::Running);
        assert!(!task.run() && !task.run_and_reset());
        assert_eq!(task.state(), TaskState::Running);
        gate.open();
        assert!(runner.join().unwrap());
    });
    assert_eq!((calls.get(), task.join().unwrap()), (1, 7));
}

struct PanicOnWake;

impl Wake for PanicOnWake {
    fn wake(self: Arc<Self>) {
        panic!("a waker that cannot be woken");
    }
}

/// FT-012: a waker that panics while a cancel wakes the waiters stops neither the cancel nor the other waiters,
/// the interrupt or the hook. The panic is contained.
#[test]
fn a_panic_while_waking_leaves_nothing_half_way() {
    let (clock, gate, hooks) = (WatchedClock::new(), Gate::new(), Log::new());
    let (held, hook, interrupts) = (gate.clone(), hooks.clone(), Log::new());
    let seen = interrupts.clone();
    let task = FutureTask::new(move || {
        held.pass();
        seen.add(punctual::TaskContext::current().is_interrupted());
    });
    let task = task.with_clock(clock.clone()).on_done(move |state| hook.add(state));
    thread::scope(|scope| {
        let runner = scope.spawn(|| task.run());
        gate.await_arrivals(1);
        assert!(task.notify(&Waker::from(Arc::new(PanicOnWake))));
        let waiter = scope.spawn(|| task.join());
        clock.await_blocked(1);
        assert!(task.interrupt());
        assert_eq!(task.state(), TaskState::Cancelled);
        assert_eq!(hooks.entries(), [TaskState::Cancelled]);
        assert!(waiter.join().unwrap().unwrap_err().is_cancelled());
        gate.open();
        assert!(runner.join().unwrap());
    });
    assert_eq!(interrupts.entries(), [true]);
    assert_eq!(hooks.entries().len(), 1);
}

/// FT-012: the same for the handle of a queued task, whose future is polled with such a waker.
#[test]
fn a_panicking_waker_does_not_disturb_the_cancel_of_a_handle() {
    let (pool, _clock) = manual(1);
    let (probe, captured) = Probe::new();
    let mut handle = pool.schedule(HOUR, move || drop(captured)).unwrap();
    let waker = Waker::from(Arc::new(PanicOnWake));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(std::pin::Pin::new(&mut handle), &mut context).is_pending());
    assert!(handle.cancel());
    assert!(handle.is_cancelled() && !handle.is_queued() && probe.is_dropped());
    finish(&pool);
}

/// FT-017: a run that resets leaves no value, no outcome and calls no hook, however often; a plain run after it
/// ends the task.
#[test]
fn run_and_reset_leaves_the_task_as_it_was() {
    let Subject { task, calls, hooks } = subject(false);
    for n in 1..=3 {
        assert!(task.run_and_reset());
        assert_eq!((calls.get(), task.state()), (n, TaskState::Waiting));
        assert!(task.try_join().is_none());
        assert!(task.wait_timeout(Duration::ZERO).unwrap_err().is_timeout());
    }
    assert!(hooks.entries().is_empty());
    assert!(task.run());
    assert_eq!((calls.get(), task.join().unwrap()), (4, 7));
    assert_eq!(hooks.entries(), [TaskState::Succeeded]);
}

/// FT-018, FT-019: a reset run of a cancelled task calls nothing; one whose body fails ends the task with that
/// failure. Neither may be run again.
#[test]
fn run_and_reset_is_false_once_the_task_is_over() {
    let Subject { task, calls, .. } = subject(false);
    assert!(task.cancel());
    assert!(!task.run_and_reset());
    assert_eq!(calls.get(), 0);

    let Subject { task, calls, hooks } = subject(true);
    assert!(!task.run_and_reset());
    assert!(!task.run_and_reset());
    assert_eq!((calls.get(), task.state()), (1, TaskState::Failed));
    assert_eq!(task.join().unwrap_err().panic().unwrap().message(), "boom");
    assert_eq!(hooks.entries(), [TaskState::Failed]);
}

/// FT-020: a reset run during which the task is cancelled is false, so that nobody queues it again.
#[test]
fn run_and_reset_is_false_if_it_was_cancelled_meanwhile() {
    let (gate, (probe, captured)) = (Gate::new(), Probe::new());
    let held = gate.clone();
    let task = FutureTask::repeatable(move || {
        let _keep = &captured;
        held.pass();
    });
    thread::scope(|scope| {
        let runner = scope.spawn(|| task.run_and_reset());
        gate.await_arrivals(1);
        assert!(task.cancel());
        assert!(task.is_cancelled() && !probe.is_dropped());
        gate.open();
        assert!(!runner.join().unwrap());
    });
    assert!(task.is_cancelled() && probe.is_dropped());
    assert!(!task.run());
}

/// FT-033: the hook finds the task done, in the thread that ended it, and may call back into it.
#[test]
fn the_hook_runs_once_in_the_thread_that_ended_the_task() {
    for (fails, end, expected) in WAYS {
        let seen = Log::new();
        let (log, slot) =
            (seen.clone(), Arc::new(std::sync::OnceLock::<std::sync::Weak<FutureTask<u32>>>::new()));
        let own = Arc::clone(&slot);
        let task = FutureTask::repeatable(move || if fails { panic!("boom") } else { 7 });
        let task = Arc::new(task.on_done(move |state| {
            let task = own.get().unwrap().upgrade().unwrap();
            assert!(!task.cancel());
            log.add((state, task.state(), thread::current().id()));
        }));
        slot.set(Arc::downgrade(&task)).unwrap();
        let ender = thread::scope(|scope| {
            let ender = scope.spawn(|| {
                end(&task);
                thread::current().id()
            });
            ender.join().unwrap()
        });
        assert_eq!(seen.entries(), [(expected, expected, ender)]);
    }
}

struct CancelOnWake(Arc<FutureTask<u32>>, Counter);

impl Wake for CancelOnWake {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.cancel());
        self.1.hit();
    }
}

/// FT-034: a panic of the hook reaches whoever ended the task, and nobody else: not even a call that is made
/// between the end and the hook. The outcome stands.
#[test]
fn a_panic_of_the_hook_reaches_whoever_ended_the_task() {
    for (fails, end, expected) in WAYS {
        let task = FutureTask::repeatable(move || if fails { panic!("boom") } else { 7 });
        let task = Arc::new(task.on_done(|_| std::panic::panic_any("hook")));
        let woken = Counter::new();
        let waker = Waker::from(Arc::new(CancelOnWake(Arc::clone(&task), woken.clone())));
        assert!(task.notify(&waker));
        drop(waker);
        let payload = catch_unwind(AssertUnwindSafe(|| end(&task))).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"hook"));
        assert_eq!((task.state(), woken.get()), (expected, 1));
        assert!(!task.cancel());
    }
}

/// FT-035: what the hook and the outcome see of a whole script of calls.
#[test]
fn the_hook_counts_ends_and_nothing_else() {
    let run = |script: fn(&FutureTask<u32>), fails: bool| {
        let Subject { task, hooks, .. } = subject(fails);
        script(&task);
        hooks.entries()
    };
    assert_eq!(run(|task| assert!(task.run_and_reset()), false), []);
    let twice: fn(&FutureTask<u32>) = |task| {
        assert!(task.run_and_reset());
        assert!(task.run());
        assert!(!task.run());
    };
    assert_eq!(run(twice, false), [TaskState::Succeeded]);
    let cancelled: fn(&FutureTask<u32>) = |task| {
        assert!(task.cancel());
        assert!(!task.run());
    };
    assert_eq!(run(cancelled, false), [TaskState::Cancelled]);
    assert_eq!(run(|task| assert!(task.run()), true), [TaskState::Failed]);
    let set_then_fail: fn(&FutureTask<u32>) = |task| {
        task.set(8).unwrap();
        assert!(!task.fail(Panic::new("late")));
        assert_eq!(task.join().unwrap(), 8);
    };
    assert_eq!(run(set_then_fail, true), [TaskState::Succeeded]);
}

/// FT-023: a value set by hand reaches every waiter, and the body is never called: what it captured is dropped
/// at once. The value itself is taken by move, so once.
#[test]
fn a_value_set_by_hand_takes_the_place_of_the_body() {
    let (calls, (probe, captured)) = (Counter::new(), Probe::new());
    let count = calls.clone();
    let task = FutureTask::new(move || {
        count.hit();
        drop(captured);
        7
    });
    task.set(8).unwrap();
    assert!(probe.is_dropped());
    for _ in 0..3 {
        task.wait().unwrap();
        task.wait_timeout(Duration::ZERO).unwrap();
    }
    assert!(!task.run());
    assert_eq!(task.join_timeout(Duration::ZERO).unwrap(), 8);
    assert!(matches!(task.join().unwrap_err().task(), Some(TaskError::Taken)));
    assert_eq!((calls.get(), task.state()), (0, TaskState::Succeeded));
}

/// FT-024, FT-037: a failure set by hand is the very same one each time it is asked for, in every way.
#[test]
fn a_failure_set_by_hand_is_the_same_object_each_time() {
    let task = FutureTask::new(|| 7);
    let failure = Panic::new(String::from("by hand"));
    assert!(task.fail(failure.clone()));
    assert!(task.is_done() && !task.is_cancelled());
    for _ in 0..3 {
        assert!(task.join().unwrap_err().panic().unwrap().is_same(&failure));
        assert!(task.join_timeout(STEP).unwrap_err().panic().unwrap().is_same(&failure));
        assert!(task.try_join().unwrap().unwrap_err().panic().unwrap().is_same(&failure));
        assert!(task.failure().unwrap().panic().unwrap().is_same(&failure));
    }
}
