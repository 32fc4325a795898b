//! Values, failures and timeouts, as those who wait see them.

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use punctual::{
    Clock, Executor, FutureTask, Panic, TaskContext, TaskError, TaskHandle, TaskState, WaitError,
};

use crate::support::{
    Counter, Gate, HOUR, Log, SHORT, STEP, WatchedClock, block_worker, elapsed, finish, manual,
};

const TIMEOUTS: [Duration; 3] = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];

type Join<G> = fn(&G) -> Result<u32, WaitError>;

fn watched(threads: usize) -> (Executor, WatchedClock) {
    let clock = WatchedClock::new();
    let pool = Executor::builder().core_threads(threads).clock(clock.clone()).build().unwrap();
    (pool, clock)
}

/// FT-021: a task that is done is never reported as unfinished, whatever the timeout, and not as interrupted
/// either, though the caller is.
#[test]
fn done_means_done_for_a_caller_who_is_interrupted() {
    let (pool, clock) = manual(1);
    let handle = pool.submit(|| 7).unwrap();
    let failed = pool.submit(|| -> u32 { panic!("boom") }).unwrap();
    let task = FutureTask::new(|| 8);
    assert!(task.run());
    clock.wait_until_idle();
    let (begun, begin) = mpsc::channel();
    let seen = Log::new();
    let log = seen.clone();
    let caller = pool.submit(move || {
        begun.send(()).unwrap();
        assert!(TaskContext::current().sleep(HOUR).is_err());
        for timeout in TIMEOUTS {
            handle.wait_timeout(timeout).unwrap();
            task.wait_timeout(timeout).unwrap();
            assert!(failed.join_timeout(timeout).unwrap_err().panic().is_some());
        }
        handle.wait().unwrap();
        assert!(failed.join().unwrap_err().panic().is_some());
        assert!(TaskContext::current().is_interrupted());
        log.add((handle.join().unwrap(), task.join_timeout(Duration::ZERO).unwrap()));
    });
    begin.recv().unwrap();
    assert!(caller.unwrap().interrupt());
    clock.wait_until_idle();
    assert_eq!(seen.entries(), [(7, 8)]);
    finish(&pool);
}

/// FT-021: whoever sees a task done gets its outcome without waiting, however little time has passed since.
#[test]
fn whoever_sees_a_task_done_has_its_outcome() {
    let (pool, _clock) = manual(1);
    for round in 0..200 {
        let task = FutureTask::new(move || round);
        let handle = pool.submit(move || round).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !task.is_done() {
                    thread::yield_now();
                }
                assert_eq!(task.join_timeout(Duration::ZERO).unwrap(), round);
            });
            assert!(task.run());
        });
        while !handle.is_done() {
            thread::yield_now();
        }
        assert_eq!(handle.join_timeout(Duration::ZERO).unwrap(), round);
    }
    finish(&pool);
}

#[derive(Debug, PartialEq)]
struct Custom(u32);

/// FT-025, FT-037: a body that fails, with whatever payload, has run once and has no value; every kind of wait,
/// by any number of threads, reports the same panic, and its payload can be looked at by all.
#[test]
fn a_failing_body_reports_one_panic_to_everybody() {
    let bodies: [fn() -> u32; 3] = [
        || panic!("text"),
        || std::panic::panic_any(String::from("text 2")),
        || std::panic::panic_any(Custom(3)),
    ];
    let looks: [fn(&Panic) -> bool; 3] = [
        |panic| panic.with_payload(|text: &&str| *text == "text") == Some(true) && panic.message() == "text",
        |panic| panic.with_payload(|text: &String| text == "text 2") == Some(true),
        |panic| panic.with_payload(|custom: &Custom| *custom == Custom(3)) == Some(true),
    ];
    let (pool, _clock) = manual(1);
    for (body, look) in bodies.into_iter().zip(looks) {
        let calls = Counter::new();
        let [one, two] = [calls.clone(), calls.clone()];
        let call = move |calls: Counter| {
            calls.hit();
            body()
        };
        let handle = pool.submit(move || call(one)).unwrap();
        let task = FutureTask::new(move || call(two));
        assert!(task.run());
        let of_handle = || [handle.join().unwrap_err(), handle.join_timeout(Duration::ZERO).unwrap_err()];
        let of_task = || [task.join().unwrap_err(), task.join_timeout(Duration::ZERO).unwrap_err()];
        thread::scope(|scope| {
            for errors in [scope.spawn(of_handle), scope.spawn(of_handle)] {
                let expected = handle.wait().map(|()| handle.failure().unwrap()).unwrap();
                for error in errors.join().unwrap() {
                    assert!(error.panic().unwrap().is_same(expected.panic().unwrap()));
                    assert!(look(error.panic().unwrap()));
                }
            }
            for errors in [scope.spawn(of_task), scope.spawn(of_task)] {
                for error in errors.join().unwrap() {
                    assert!(error.panic().unwrap().is_same(task.failure().unwrap().panic().unwrap()));
                    assert!(look(error.panic().unwrap()));
                }
            }
        });
        assert_eq!(calls.get(), 2);
        assert_eq!((handle.state(), task.state()), (TaskState::Failed, TaskState::Failed));
        assert!(!handle.is_cancelled() && !task.is_cancelled());
    }
    finish(&pool);
}

/// FT-026: threads that are blocked waiting, with a timeout or without, are released with the value when the
/// task is run or completed elsewhere. One of them gets it; the others know that it is there.
#[test]
fn those_who_wait_get_the_value() {
    let ways: [fn(&FutureTask<u32>); 2] = [|task| assert!(task.run()), |task| task.set(7).unwrap()];
    let joins: [Join<FutureTask<u32>>; 2] = [FutureTask::join, |task| task.join_timeout(HOUR)];
    for (complete, join) in ways.into_iter().flat_map(|way| joins.map(|join| (way, join))) {
        let clock = WatchedClock::new();
        let task = FutureTask::new(|| 7).with_clock(clock.clone());
        thread::scope(|scope| {
            let taker = scope.spawn(|| join(&task));
            let watchers = [scope.spawn(|| task.wait()), scope.spawn(|| task.wait_timeout(HOUR))];
            clock.await_blocked(3);
            complete(&task);
            assert_eq!(taker.join().unwrap().unwrap(), 7);
            watchers.into_iter().for_each(|watcher| watcher.join().unwrap().unwrap());
        });
    }
    let joins: [Join<TaskHandle<u32>>; 2] = [TaskHandle::join, |handle| handle.join_timeout(10 * HOUR)];
    for join in joins {
        let (pool, clock) = watched(1);
        let handle = pool.schedule(HOUR, || 7).unwrap();
        thread::scope(|scope| {
            let taker = scope.spawn(|| join(&handle));
            let watchers = [scope.spawn(|| handle.wait()), scope.spawn(|| handle.wait_timeout(10 * HOUR))];
            clock.await_blocked(3);
            clock.clock.advance(HOUR);
            assert_eq!(taker.join().unwrap().unwrap(), 7);
            watchers.into_iter().for_each(|watcher| watcher.join().unwrap().unwrap());
        });
        finish(&pool);
    }
}

/// FT-026: of two who would take the value one has it, and the other is told so.
#[test]
fn of_two_takers_one_has_the_value() {
    let clock = WatchedClock::new();
    let task = FutureTask::new(|| 7).with_clock(clock.clone());
    thread::scope(|scope| {
        let takers = [scope.spawn(|| task.join()), scope.spawn(|| task.join_timeout(HOUR))];
        clock.await_blocked(2);
        assert!(task.run());
        let taken = takers.map(|taker| taker.join().unwrap());
        let values = taken.iter().filter(|taken| matches!(taken, Ok(7))).count();
        let late = |taken: &&Result<u32, WaitError>| matches!(taken, Err(WaitError::Task(TaskError::Taken)));
        assert_eq!((values, taken.iter().filter(late).count()), (1, 1));
    });
}

/// FT-027: a value that is set at the moment somebody begins to wait is never missed.
#[test]
fn a_value_set_while_a_wait_begins_is_not_missed() {
    const ROUNDS: u32 = 2_000;
    let (tasks, task) = mpsc::sync_channel::<Arc<FutureTask<u32>>>(0);
    let waiter = thread::spawn(move || task.iter().map(|task| u64::from(task.join().unwrap())).sum::<u64>());
    for n in 0..ROUNDS {
        let task = Arc::new(FutureTask::new(|| 0));
        tasks.send(Arc::clone(&task)).unwrap();
        task.set(n).unwrap();
    }
    drop(tasks);
    assert_eq!(waiter.join().unwrap(), u64::from(ROUNDS) * u64::from(ROUNDS - 1) / 2);
}

/// FT-028, FT-030: a timed wait gives up exactly when its time is over, not before, and leaves the task as it
/// was.
#[test]
fn a_timed_wait_gives_up_at_its_time_and_not_before() {
    const NANO: Duration = Duration::from_nanos(1);
    let (pool, clock) = watched(1);
    let handle = pool.schedule(HOUR, || 7).unwrap();
    let task = FutureTask::new(|| 8).with_clock(clock.clone());
    let now = || Duration::from_nanos(clock.now().as_nanos());
    thread::scope(|scope| {
        let waiters = [
            scope.spawn(|| (handle.join_timeout(3 * STEP).unwrap_err(), now())),
            scope.spawn(|| (handle.wait_timeout(3 * STEP).unwrap_err(), now())),
            scope.spawn(|| (task.join_timeout(3 * STEP).unwrap_err(), now())),
            scope.spawn(|| (task.wait_timeout(3 * STEP).unwrap_err(), now())),
        ];
        clock.await_blocked(4);
        clock.clock.jump(3 * STEP - NANO);
        clock.await_blocked(4);
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        clock.clock.jump(NANO);
        for (error, at) in waiters.map(|waiter| waiter.join().unwrap()) {
            assert!(error.is_timeout());
            assert_eq!(at, 3 * STEP);
        }
    });
    assert_eq!((handle.state(), task.state()), (TaskState::Waiting, TaskState::Waiting));
    assert!(handle.is_queued() && handle.try_join().is_none() && task.try_join().is_none());
    clock.clock.advance(HOUR);
    assert!(task.run());
    assert_eq!((handle.join().unwrap(), task.join().unwrap()), (7, 8));
    finish(&pool);
}

/// FT-029, FT-030: without any time to wait, a task that is not done is a timeout at once, for ten threads
/// together; nothing is changed by it.
#[test]
fn no_time_to_wait_is_a_timeout_at_once() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let (running, queued) = (block_worker(&pool, &gate), pool.submit(|| ()).unwrap());
    let task = FutureTask::new(|| ());
    let start = Barrier::new(10);
    let wait = || {
        start.wait();
        // The clock stands still, so a wait of any length would never end.
        [
            running.join_timeout(Duration::ZERO),
            queued.join_timeout(Duration::ZERO),
            task.join_timeout(Duration::ZERO),
            running.wait_timeout(Duration::ZERO),
            task.wait_timeout(Duration::ZERO),
        ]
    };
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..10).map(|_| scope.spawn(wait)).collect();
        for waiter in waiters {
            assert!(waiter.join().unwrap().iter().all(|result| matches!(result, Err(WaitError::Timeout))));
        }
    });
    assert_eq!((running.state(), queued.state()), (TaskState::Running, TaskState::Waiting));
    assert_eq!(task.state(), TaskState::Waiting);
    gate.open();
    clock.wait_until_idle();
    assert!(task.run());
    for result in [running.join(), queued.join(), task.join()] {
        result.unwrap();
    }
    finish(&pool);
}

/// FT-031: a wait inside a task ends when that task is interrupted, whether it is blocked or the flag is set
/// beforehand; the task it waited for is unaffected. The flag stays until it is taken, so further waits end at
/// once.
#[test]
fn a_wait_inside_a_task_ends_when_the_task_is_interrupted() {
    type Fail = fn(&TaskHandle<u32>, &FutureTask<u32>) -> WaitError;
    let joins: [Fail; 4] = [
        |handle, _| handle.join().unwrap_err(),
        |handle, _| handle.join_timeout(HOUR).unwrap_err(),
        |_, task| task.join().unwrap_err(),
        |_, task| task.join_timeout(HOUR).unwrap_err(),
    ];
    for blocked in joins {
        let (pool, clock) = manual(2);
        let handle = Arc::new(pool.schedule(HOUR, || 7).unwrap());
        let task = Arc::new(FutureTask::new(|| 8).with_clock(clock.clone()));
        let seen = Log::new();
        let (log, own_handle, own_task) = (seen.clone(), Arc::clone(&handle), Arc::clone(&task));
        let caller = pool.submit(move || {
            let (handle, task) = (own_handle, own_task);
            let interrupted = |error| matches!(error, WaitError::Interrupted);
            log.add(interrupted(blocked(&handle, &task)));
            joins.iter().for_each(|join| log.add(interrupted(join(&handle, &task))));
            assert!(TaskContext::current().take_interrupt());
            log.add(handle.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
            log.add(task.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
        });
        clock.wait_until_idle();
        assert!(seen.entries().is_empty());
        assert!(caller.unwrap().interrupt());
        clock.wait_until_idle();
        assert_eq!(seen.entries(), [true; 7]);
        assert_eq!((handle.state(), task.state()), (TaskState::Waiting, TaskState::Waiting));
        clock.advance(HOUR);
        assert!(task.run());
        assert_eq!((handle.join().unwrap(), task.join().unwrap()), (7, 8));
        finish(&pool);
    }
}

/// FT-028, FT-036: on every kind of pool, by the machine's clock, a timed wait for a task that takes too long
/// times out, and not early. The task goes on.
#[test]
fn a_timed_wait_for_a_long_task_times_out_on_every_kind_of_pool() {
    let pools = [
        Executor::single(),
        Executor::cached().scheduler(),
        Executor::fixed(2).unwrap().scheduler(),
        Executor::new(2).scheduler(),
    ];
    for pool in pools {
        let gate = Gate::new();
        let held = gate.clone();
        let handle = pool.submit(move || {
            held.pass();
            7
        });
        let handle = handle.unwrap();
        let (time, result) = elapsed(|| handle.join_timeout(SHORT));
        assert!(result.unwrap_err().is_timeout());
        assert!(time >= SHORT);
        assert!(!handle.is_done());
        gate.open();
        assert_eq!(handle.join().unwrap(), 7);
        pool.close().unwrap();
    }
    let task = FutureTask::new(|| 7);
    let (time, result) = elapsed(|| task.join_timeout(SHORT));
    assert!(result.unwrap_err().is_timeout() && time >= SHORT);
}
