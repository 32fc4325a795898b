//! Many tasks at once: all of them, or the first that succeeds.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use punctual::{
    Abandoned, Clock, Executor, Interrupted, InvokeAllError, InvokeAnyError, ManualClock, RejectReason,
    Rejection, TaskContext, TaskError, TaskInfo, TaskState, Tick,
};

use crate::support::{Counter, Gate, HOUR, STEP, block_worker, eventually, finish, manual};

type Task<T> = Box<dyn FnOnce() -> T + Send>;
type Attempt = Task<Result<u32, &'static str>>;

/// A body that says it has begun, sleeps for longer than the test moves the clock, and tells how that ended.
fn sleeper<T>(begun: &Gate, ended: &mpsc::Sender<Result<(), Interrupted>>, value: T) -> Task<T>
where
    T: Send + 'static,
{
    let (begun, ended) = (begun.clone(), ended.clone());
    begun.open();
    Box::new(move || {
        begun.pass();
        ended.send(TaskContext::current().sleep(HOUR)).unwrap();
        value
    })
}

/// A pool in which the submitting thread runs what it submits: its only worker waits at `gate`.
fn inline(gate: &Gate) -> (Executor, ManualClock) {
    let clock = ManualClock::new();
    let builder = Executor::builder().capacity(0).rejection(Rejection::CallerRuns);
    let pool = builder.clock(clock.clone()).build().unwrap();
    drop(block_worker(&pool, gate));
    (pool, clock)
}

/// Calls `work` in a task, interrupts the task before (the flag is set on entry) or when `ready` returns, and
/// gives back what `work` returned and whether the flag was still set.
fn interrupted<R: Send + 'static>(
    before: bool,
    ready: impl FnOnce(),
    work: impl FnOnce() -> R + Send + 'static,
) -> (R, bool) {
    let (caller, _) = manual(1);
    let (entry, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let inner = entry.clone();
    let handle = caller
        .submit(move || {
            inner.pass();
            let result = work();
            sender.send((result, TaskContext::current().is_interrupted())).unwrap();
        })
        .unwrap();
    entry.await_arrivals(1);
    if before {
        assert!(handle.interrupt());
        entry.open();
    } else {
        entry.open();
        ready();
        assert!(handle.interrupt());
    }
    let result = receiver.recv().unwrap();
    finish(&caller);
    result
}

// ---- all

/// AE-006: no tasks, no handles, whatever the timeout.
#[test]
fn no_tasks_give_no_handles_at_once() {
    let (pool, _) = manual(1);
    let none: [fn(); 0] = [];
    assert!(pool.invoke_all(none).unwrap().is_empty());
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        assert!(pool.invoke_all_timeout(none, timeout).unwrap().is_empty());
    }
    finish(&pool);
}

/// AE-008, AE-009: one handle a task, in the order of the tasks however they end, all done; a panic is told by its
/// own handle only.
#[test]
fn all_are_done_and_in_the_order_of_the_tasks() {
    let (pool, _) = manual(2);
    let gate = Gate::new();
    let (first, last) = (gate.clone(), gate);
    let tasks: [Task<u32>; 3] = [
        Box::new(move || {
            first.pass();
            1
        }),
        Box::new(|| panic!("no value")),
        Box::new(move || {
            last.open();
            3
        }),
    ];
    let handles = pool.invoke_all(tasks).unwrap();
    assert!(handles.iter().all(|handle| handle.is_done()));
    let outcomes: Vec<_> = handles.iter().map(|handle| handle.try_join().unwrap()).collect();
    assert!(
        matches!(&outcomes[..], [Ok(1), Err(TaskError::Panicked(panic)), Ok(3)] if panic.message() == "no value")
    );
    finish(&pool);
}

/// AE-010: a timeout that is not needed changes nothing and is not waited for: the clock stands still.
#[test]
fn a_timeout_that_is_not_needed_is_not_waited_for() {
    let (pool, clock) = manual(2);
    let handles = pool.invoke_all_timeout((1..=3).map(|n| move || n * n), STEP).unwrap();
    let values: Vec<i32> = handles.iter().map(|handle| handle.try_join().unwrap().unwrap()).collect();
    assert_eq!((values, clock.now()), (vec![1, 4, 9], Tick::ZERO));
    finish(&pool);
}

/// AE-011: when the time is over, and not before, what has ended keeps its value, what runs is interrupted, what
/// waits never runs, and every handle is done.
#[test]
fn what_is_unfinished_when_the_time_is_over_is_interrupted() {
    let (pool, clock) = manual(2);
    let (begun, (sender, receiver), never) = (Gate::new(), mpsc::channel(), Counter::new());
    let count = never.clone();
    let late: Task<u32> = Box::new(move || {
        count.hit();
        4
    });
    let tasks = [Box::new(|| 1), sleeper(&begun, &sender, 2), sleeper(&begun, &sender, 3), late];
    let (handles, returned) = thread::scope(|scope| {
        let caller = scope.spawn(|| (pool.invoke_all_timeout(tasks, 2 * STEP).unwrap(), clock.now()));
        // Both threads are taken by the sleepers, so the first task has ended.
        begun.await_arrivals(2);
        clock.jump(STEP);
        assert!(!caller.is_finished());
        clock.jump(STEP);
        caller.join().unwrap()
    });
    assert!(returned >= Tick::ZERO.after(2 * STEP));
    assert_eq!(handles.len(), 4);
    assert_eq!(handles[0].try_join().unwrap().unwrap(), 1);
    assert!(handles[1..].iter().all(|handle| handle.is_cancelled()));
    assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], [Err(Interrupted); 2]);
    clock.wait_until_idle();
    assert_eq!((never.get(), pool.stats().queued), (0, 0));
    finish(&pool);
}

/// AE-012: where the caller runs the tasks itself, one that eats all the time leaves none for those after it.
#[test]
fn tasks_whose_turn_comes_too_late_are_not_started() {
    let gate = Gate::new();
    let (pool, clock) = inline(&gate);
    let (slow, runs) = (clock.clone(), Counter::new());
    let count = runs.clone();
    let tasks: [Task<()>; 3] = [
        Box::new(move || slow.jump(STEP)),
        Box::new({
            let count = count.clone();
            move || count.hit()
        }),
        Box::new(move || count.hit()),
    ];
    let handles = pool.invoke_all_timeout(tasks, STEP).unwrap();
    let states: Vec<TaskState> = handles.iter().map(|handle| handle.state()).collect();
    assert_eq!(states, [TaskState::Succeeded, TaskState::Cancelled, TaskState::Cancelled]);
    assert_eq!(runs.get(), 0);
    gate.open();
    finish(&pool);
}

/// AE-013: without time nothing is started, on an idle pool as well.
#[test]
fn no_time_starts_nothing() {
    let (pool, _) = manual(2);
    let runs = Counter::new();
    let handles = pool.invoke_all_timeout((0..3).map(|_| runs.body()), Duration::ZERO).unwrap();
    assert_eq!(handles.len(), 3);
    assert!(handles.iter().all(|handle| handle.is_cancelled() && handle.runs() == 0));
    assert_eq!((runs.get(), pool.stats().task_count(), pool.stats().pool_size), (0, 0, 0));
    finish(&pool);
}

/// AE-014: a caller that is interrupted, before or while it waits, leaves none of its tasks behind; they are
/// interrupted or never run. The caller's flag stays set.
#[test]
fn an_interrupted_caller_of_all_leaves_nothing_behind() {
    for before in [true, false] {
        let (pool, clock) = manual(2);
        let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
        let tasks: Vec<Task<()>> = (0..3).map(|_| sleeper(&begun, &sender, ())).collect();
        drop(sender);
        let scheduler = pool.scheduler();
        let (result, flag) =
            interrupted(before, || begun.await_arrivals(2), move || scheduler.invoke_all(tasks).err());
        assert!(matches!(result, Some(InvokeAllError::Interrupted)), "{result:?}");
        assert!(flag);
        clock.wait_until_idle();
        assert_eq!((pool.stats().active, pool.stats().queued), (0, 0));
        let ended: Vec<_> = receiver.iter().collect();
        assert!(ended.iter().all(|ended| *ended == Err(Interrupted)));
        assert!(before || ended.len() == 2, "{ended:?}");
        finish(&pool);
    }
}

/// AE-015: a refusal half-way, by a full queue or by a shutdown, reaches the caller, and what was submitted before
/// is cancelled.
#[test]
fn a_refusal_half_way_cancels_what_came_before() {
    let (gate, runs) = (Gate::new(), Counter::new());
    let pool = Executor::builder().capacity(2).build().unwrap();
    drop(block_worker(&pool, &gate));
    let error = pool.invoke_all((0..4).map(|_| runs.body())).unwrap_err();
    assert!(matches!(error, InvokeAllError::Rejected(RejectReason::Saturated)), "{error:?}");
    assert_eq!((pool.stats().queued, pool.stats().cancelled), (0, 2));

    let stopping = |n| {
        if n == 1 {
            pool.shutdown();
        }
        runs.body()
    };
    let error = pool.invoke_all((0..3).map(stopping)).unwrap_err();
    assert!(matches!(error, InvokeAllError::Rejected(RejectReason::ShutDown)), "{error:?}");
    assert_eq!((pool.stats().queued, pool.stats().cancelled), (0, 3));
    gate.open();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(runs.get(), 0);
}

/// AE-015: the same if the caller's own iterator panics half-way.
#[test]
fn a_panic_half_way_cancels_what_came_before() {
    let (gate, runs) = (Gate::new(), Counter::new());
    let (pool, _) = manual(1);
    drop(block_worker(&pool, &gate));
    let tasks = (0..4).map(|n| if n < 2 { runs.body() } else { panic!("no more tasks") });
    let call = std::panic::AssertUnwindSafe(|| pool.invoke_all(tasks).map(drop));
    assert!(std::panic::catch_unwind(call).is_err());
    assert_eq!((pool.stats().queued, pool.stats().cancelled), (0, 2));
    gate.open();
    finish(&pool);
    assert_eq!(runs.get(), 0);
}

/// AE-016: a stop releases whoever waits for all.
#[test]
fn a_stop_releases_a_caller_of_all() {
    let (pool, _) = manual(1);
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let tasks: Vec<Task<u32>> = (0..3).map(|n| sleeper(&begun, &sender, n)).collect();
    let handles = thread::scope(|scope| {
        let caller = scope.spawn(|| pool.invoke_all(tasks).unwrap());
        begun.await_arrivals(1);
        eventually("all are submitted", || pool.stats().queued == 2);
        drop(pool.shutdown_now());
        caller.join().unwrap()
    });
    assert_eq!(receiver.try_recv(), Ok(Err(Interrupted)));
    assert_eq!(handles[0].try_join().unwrap().unwrap(), 0);
    for handle in &handles[1..] {
        assert!(matches!(handle.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
    }
    assert!(pool.await_termination(Duration::MAX));
}

/// AE-028: a task of many is one task: one entry in the queue, one decoration, and what is taken out by its id is
/// what the handle names.
#[test]
fn a_task_of_many_is_one_task() {
    let (decorated, gate) = (Counter::new(), Gate::new());
    let count = decorated.clone();
    let decorator = move |_: TaskInfo<'_>| {
        count.hit();
        None
    };
    let pool = Executor::builder().decorator(decorator).build().unwrap();
    drop(block_worker(&pool, &gate));
    let handles = thread::scope(|scope| {
        let caller = scope.spawn(|| pool.invoke_all((0..3).map(|n| move || n)).unwrap());
        eventually("all are queued", || pool.stats().queued == 3);
        assert_eq!(decorated.get(), 1 + 3);
        drop(pool.remove(pool.queue()[1].id()).unwrap());
        assert_eq!(pool.stats().queued, 2);
        gate.open();
        caller.join().unwrap()
    });
    assert_eq!(handles[0].try_join().unwrap().unwrap(), 0);
    assert!(matches!(handles[1].failure(), Some(TaskError::Abandoned(Abandoned::Removed))));
    assert_eq!(handles[2].try_join().unwrap().unwrap(), 2);
    assert_eq!(pool.invoke_any([|| Ok::<_, ()>(5)]).unwrap(), 5);
    assert_eq!((decorated.get(), pool.stats().completed), (1 + 3 + 1, 1 + 2 + 1));
    finish(&pool);
}

// ---- any

/// AE-017: the first of none is an error, whatever the timeout.
#[test]
fn the_first_of_none_is_refused() {
    let (pool, _) = manual(1);
    let none: [fn() -> Result<(), ()>; 0] = [];
    assert!(matches!(pool.invoke_any(none), Err(InvokeAnyError::Empty)));
    for timeout in [Duration::ZERO, Duration::MAX] {
        assert!(matches!(pool.invoke_any_timeout(none, timeout), Err(InvokeAnyError::Empty)));
    }
    finish(&pool);
}

/// AE-019, AE-024: failures before it do not keep a success from being returned, and it is returned without any
/// time passing.
#[test]
fn a_late_success_outweighs_earlier_failures() {
    let (pool, clock) = manual(1);
    let tasks = || -> [Attempt; 3] {
        [Box::new(|| Err("refused")), Box::new(|| panic!("broken")), Box::new(|| Ok(7))]
    };
    assert_eq!(pool.invoke_any(tasks()).unwrap(), 7);
    assert_eq!(pool.invoke_any_timeout(tasks(), STEP).unwrap(), 7);
    assert_eq!(clock.now(), Tick::ZERO);
    finish(&pool);
}

/// AE-020, AE-024: when all fail, and only then, the last failure is returned, without any time passing.
#[test]
fn when_all_fail_the_last_failure_is_told() {
    let (pool, clock) = manual(1);
    let runs = Counter::new();
    let failing = |how: fn() -> &'static str| -> Attempt {
        let runs = runs.clone();
        Box::new(move || {
            runs.hit();
            Err(how())
        })
    };
    let tasks = [failing(|| panic!("broken")), failing(|| "first"), failing(|| "last")];
    assert!(matches!(pool.invoke_any(tasks), Err(InvokeAnyError::Failed("last"))));
    assert_eq!(runs.get(), 3);
    let tasks = [failing(|| "first"), failing(|| panic!("broken"))];
    let error = pool.invoke_any_timeout(tasks, STEP).unwrap_err();
    assert!(
        matches!(&error, InvokeAnyError::Died(TaskError::Panicked(panic)) if panic.message() == "broken")
    );
    assert_eq!((runs.get(), clock.now()), (5, Tick::ZERO));
    finish(&pool);
}

/// AE-021, AE-027: the first success ends the race at once: what runs is interrupted and not waited for, what has
/// not begun never does, and the pool terminates when the losers have reacted.
#[test]
fn the_first_success_ends_the_race_without_waiting_for_the_losers() {
    let clock = ManualClock::new();
    let builder = Executor::builder().capacity(1).rejection(Rejection::CallerRuns);
    let pool = builder.clock(clock).build().unwrap();
    let (begun, reaction, never) = (Gate::new(), Gate::new(), Counter::new());
    let ((sender, receiver), count) = (mpsc::channel(), never.clone());
    begun.open();
    let (loser, winner, reacts) = (begun.clone(), begun, reaction.clone());
    let tasks: [Attempt; 3] = [
        // Takes the only worker.
        Box::new(move || {
            loser.pass();
            sender.send(TaskContext::current().sleep(HOUR)).unwrap();
            reacts.pass();
            Ok(1)
        }),
        // Fills the queue.
        Box::new(move || {
            count.hit();
            Ok(2)
        }),
        // Is run by the caller.
        Box::new(move || {
            winner.await_arrivals(1);
            Ok(3)
        }),
    ];
    assert_eq!(pool.invoke_any(tasks).unwrap(), 3);
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
    assert_eq!(pool.stats().queued, 0);
    pool.shutdown();
    assert!(pool.is_terminating());
    reaction.open();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(never.get(), 0);
}

/// AE-022: tasks are started one by one as long as none has succeeded; after that the rest are not even asked for.
#[test]
fn no_task_is_started_after_a_success() {
    let gate = Gate::new();
    let (pool, _) = inline(&gate);
    let (asked, runs) = (Counter::new(), Counter::new());
    let tasks = (0..5).map(|n| {
        asked.hit();
        let runs = runs.clone();
        move || {
            runs.hit();
            if n == 1 { Ok(n) } else { Err(n) }
        }
    });
    assert_eq!(pool.invoke_any(tasks).unwrap(), 1);
    assert_eq!((asked.get(), runs.get()), (2, 2));
    gate.open();
    finish(&pool);
}

/// AE-023: when the time is over, and not before, it is told, even if some have failed; what runs is interrupted.
#[test]
fn when_none_succeeds_in_time_the_race_is_called_off() {
    let (pool, clock) = manual(2);
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let failing: Attempt = Box::new(|| Err("refused"));
    let tasks = [failing, sleeper(&begun, &sender, Ok(1)), sleeper(&begun, &sender, Ok(2))];
    let (result, returned) = thread::scope(|scope| {
        let caller = scope.spawn(|| (pool.invoke_any_timeout(tasks, STEP), clock.now()));
        begun.await_arrivals(2);
        clock.jump(STEP);
        caller.join().unwrap()
    });
    assert!(matches!(result, Err(InvokeAnyError::Timeout)));
    assert!(returned >= Tick::ZERO.after(STEP));
    assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], [Err(Interrupted); 2]);
    clock.wait_until_idle();
    assert_eq!(pool.stats().active, 0);
    finish(&pool);
}

/// AE-025: a caller that is interrupted, before or while it waits, leaves none of its tasks behind. Its flag stays
/// set.
#[test]
fn an_interrupted_caller_of_any_leaves_nothing_behind() {
    for before in [true, false] {
        let (pool, clock) = manual(2);
        let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
        let tasks: Vec<Attempt> = (0..3).map(|n| sleeper(&begun, &sender, Ok(n))).collect();
        drop(sender);
        let scheduler = pool.scheduler();
        let (result, flag) =
            interrupted(before, || begun.await_arrivals(2), move || scheduler.invoke_any(tasks));
        assert!(matches!(result, Err(InvokeAnyError::Interrupted)), "{result:?}");
        assert!(flag);
        clock.wait_until_idle();
        assert_eq!((pool.stats().active, pool.stats().queued), (0, 0));
        let ended: Vec<_> = receiver.iter().collect();
        assert!(ended.iter().all(|ended| *ended == Err(Interrupted)));
        assert!(before || ended.len() == 2, "{ended:?}");
        finish(&pool);
    }
}

/// AE-026: an executor that is shut down refuses the race.
#[test]
fn a_race_on_a_shut_down_pool_is_refused() {
    let (pool, _) = manual(1);
    pool.shutdown();
    let ran = Arc::new(Counter::new());
    let count = Arc::clone(&ran);
    let result = pool.invoke_any([move || {
        count.hit();
        Ok::<_, ()>(())
    }]);
    assert!(matches!(result, Err(InvokeAnyError::Rejected(RejectReason::ShutDown))));
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(ran.get(), 0);
}
