//! What newer Java versions added: looking at a task without waiting, pools that schedule, limits on time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual::{
    Abandoned, Clock, Executor, Interrupted, Keep, Leftover, ManualClock, RejectReason, Rejected, Rejection,
    Spawner, TaskContext, TaskError, TaskHandle, TaskInfo, TaskState, Tick, WaitError, WorkerThread,
};

use crate::support::{
    Counter, Gate, HOUR, Log, PATIENCE, Probe, STEP, block_worker, elapsed, eventually, finish, manual,
};

const NANO: Duration = Duration::from_nanos(1);

fn tick(time: Duration) -> Tick {
    Tick::ZERO.after(time)
}

/// A pool that grows with its tasks, as a fork-join pool or a cached one does.
fn growing() -> (Executor, ManualClock) {
    let clock = ManualClock::new();
    let builder = Executor::builder().core_threads(0).max_threads(usize::MAX).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

/// A body that says it has begun, sleeps until it is interrupted, and tells how that ended.
fn sleeper<T: Send + 'static>(
    begun: &Gate,
    ended: &mpsc::Sender<Result<(), Interrupted>>,
    value: T,
) -> impl FnOnce() -> T + Send + 'static {
    let (begun, ended) = (begun.clone(), ended.clone());
    begun.open();
    move || {
        begun.pass();
        ended.send(TaskContext::current().sleep(HOUR)).unwrap();
        value
    }
}

// ---- looking without waiting

/// NX-010, NX-011, NX-012: a task waits, runs, and then has succeeded, failed or been cancelled. Value and failure
/// can be had only when there is one, and never by waiting.
#[test]
fn an_outcome_can_be_had_without_waiting() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    let waiting = pool.schedule(STEP, || 7).unwrap();
    assert_eq!((running.state(), waiting.state()), (TaskState::Running, TaskState::Waiting));
    assert!(running.try_join().is_none() && running.failure().is_none());
    assert!(waiting.try_join().is_none() && waiting.failure().is_none());
    gate.open();
    clock.advance(STEP);
    let failed = pool.submit(|| -> u32 { panic!("broken") }).unwrap();
    let cancelled = pool.schedule(HOUR, || 7).unwrap();
    cancelled.cancel();
    clock.wait_until_idle();

    assert_eq!((running.state(), running.failure().is_none()), (TaskState::Succeeded, true));
    assert!(matches!(running.try_join(), Some(Ok(()))));
    assert!(matches!(waiting.try_join(), Some(Ok(7))));
    // A value is given once; its state does not change for that.
    assert!(matches!(waiting.try_join(), Some(Err(TaskError::Taken))));
    assert_eq!((waiting.state(), waiting.failure().is_none()), (TaskState::Succeeded, true));

    assert_eq!(failed.state(), TaskState::Failed);
    for _ in 0..2 {
        assert_eq!(failed.failure().unwrap().panic().unwrap().message(), "broken");
        assert!(matches!(failed.try_join(), Some(Err(TaskError::Panicked(_)))));
    }
    assert_eq!(cancelled.state(), TaskState::Cancelled);
    assert!(matches!(cancelled.failure(), Some(TaskError::Cancelled)));
    assert!(matches!(cancelled.try_join(), Some(Err(TaskError::Cancelled))));
    finish(&pool);
}

/// NX-013: inside a task that has been interrupted they answer as anywhere else.
#[test]
fn looking_is_not_disturbed_by_an_interrupt() {
    let (pool, _) = manual(2);
    let over = pool.submit(|| 7).unwrap();
    over.wait().unwrap();
    let (gate, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let waiting = pool.schedule(HOUR, || 7).unwrap();
    let entry = gate.clone();
    let looks = pool
        .submit(move || {
            entry.pass();
            let interrupted = TaskContext::current().is_interrupted();
            let nothing = waiting.try_join().is_none() && waiting.failure().is_none();
            sender.send((interrupted, nothing, over.state(), over.try_join().unwrap().unwrap())).unwrap();
        })
        .unwrap();
    gate.await_arrivals(1);
    looks.interrupt();
    gate.open();
    assert_eq!(receiver.recv().unwrap(), (true, true, TaskState::Succeeded, 7));
    finish(&pool);
}

// ---- a pool for everything schedules as well

/// NX-014: a pool that grows with its tasks schedules like any other: nothing early, fixed rates on their grid,
/// fixed delays from end to start.
#[test]
fn a_growing_pool_schedules() {
    let (pool, clock) = growing();
    let log = Log::new();
    let start = |name: &'static str| {
        let (log, clock) = (log.clone(), clock.clone());
        move || log.add((name, clock.now()))
    };
    let delayed = pool.schedule(3 * STEP, || 7).unwrap();
    drop(pool.schedule_at_fixed_rate(STEP, 2 * STEP, start("rate")).unwrap());
    let body = start("delay");
    let slow = move || {
        body();
        let _ = TaskContext::current().sleep(STEP);
    };
    drop(pool.schedule_with_fixed_delay(STEP, 2 * STEP, slow).unwrap());
    clock.advance(3 * STEP - NANO);
    assert!(!delayed.is_done());
    clock.advance(NANO);
    assert_eq!(delayed.join().unwrap(), 7);
    clock.advance(4 * STEP);
    let times = |name| {
        let entries = log.entries().into_iter().filter(|entry| entry.0 == name);
        entries.map(|entry| entry.1).collect::<Vec<_>>()
    };
    assert_eq!(times("rate"), [1, 3, 5, 7].map(|n| tick(n * STEP)));
    assert_eq!(times("delay"), [1, 4, 7].map(|n| tick(n * STEP)));
    finish(&pool);
}

/// NX-015, NX-016: after a shutdown a delayed task still runs, a periodic one does not run again, and every form is
/// refused, though it were the first ever.
#[test]
fn a_growing_pool_shuts_down_in_order() {
    let (pool, clock) = growing();
    let runs = Counter::new();
    let delayed = pool.schedule(3 * STEP, || 7).unwrap();
    let periodic = pool.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    clock.advance(STEP);
    pool.shutdown();
    assert!(periodic.is_cancelled() && !delayed.is_done());
    clock.advance(2 * STEP);
    assert_eq!((delayed.join().unwrap(), runs.get()), (7, 1));
    assert!(pool.await_termination(Duration::MAX));

    let (pool, _) = growing();
    pool.shutdown();
    fn reason<T, F>(result: Result<T, Rejected<F>>) -> Option<RejectReason> {
        result.err().map(|rejected| rejected.reason())
    }
    let reasons = [
        reason(pool.schedule(STEP, || ())),
        reason(pool.submit(|| ())),
        reason(pool.schedule_at_fixed_rate(STEP, STEP, || ())),
        reason(pool.schedule_with_fixed_delay(STEP, STEP, || ())),
        reason(pool.submit_with_timeout(STEP, || ())),
        reason(pool.submit_with_fallback(STEP, || (), || ())),
    ];
    assert_eq!(reasons, [Some(RejectReason::ShutDown); 6]);
    assert!(pool.await_termination(Duration::MAX));
}

/// NX-017: a stop leaves no handle undecided, once the drained tasks are dropped.
#[test]
fn a_stop_decides_every_handle() {
    let (pool, _) = growing();
    let delayed = pool.schedule(HOUR, || ()).unwrap();
    let periodic = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let drained = pool.shutdown_now();
    assert_eq!((drained.len(), delayed.is_done()), (2, false));
    drop(drained);
    assert!(pool.await_termination(Duration::MAX));
    for handle in [delayed, periodic] {
        assert!(matches!(handle.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
    }
}

/// NX-018: that delayed tasks are cancelled by a shutdown can be said before or after it, and the pool terminates.
#[test]
fn delayed_tasks_can_be_cancelled_by_a_shutdown() {
    for before in [true, false] {
        let (pool, _) = growing();
        let (gate, runs) = (Gate::new(), Counter::new());
        let running = block_worker(&pool, &gate);
        let delayed = pool.schedule(STEP, runs.body()).unwrap();
        let say = || pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
        if before {
            say();
            assert!(!delayed.is_done());
        }
        pool.shutdown();
        assert_eq!(delayed.is_cancelled(), before);
        if !before {
            say();
        }
        assert!(delayed.is_cancelled());
        gate.open();
        running.join().unwrap();
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(runs.get(), 0);
    }
}

/// NX-019: a task that waits for the end of time keeps nobody from running.
#[test]
fn the_longest_delay_blocks_nobody() {
    let (pool, clock) = manual(1);
    let runs = Counter::new();
    drop(pool.schedule_with_fixed_delay(Duration::ZERO, Duration::MAX, runs.body()).unwrap());
    clock.wait_until_idle();
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!((runs.get(), pool.stats().delayed), (1, 1));
    finish(&pool);
}

/// NX-024: of the tasks in the queue, those that are not due are counted apart.
#[test]
fn delayed_tasks_are_counted_apart() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    drop(block_worker(&pool, &gate));
    for n in [0, 0, 1, 2, 3] {
        drop(pool.schedule(n * STEP, || ()).unwrap());
    }
    assert_eq!((pool.stats().queued, pool.stats().delayed), (5, 3));
    clock.jump(2 * STEP);
    assert_eq!((pool.stats().queued, pool.stats().delayed), (5, 1));
    gate.open();
    clock.wait_until_idle();
    assert_eq!((pool.stats().queued, pool.stats().delayed), (1, 1));
    finish(&pool);
}

/// NX-025, NX-026: after any task is cancelled the others run in order; cancelling it again says false.
#[test]
fn the_others_stay_in_order_after_a_cancel() {
    const TASKS: u32 = 60;
    for cancelled in 0..TASKS {
        let (pool, clock) = manual(1);
        let log = Log::new();
        // 37 and 60 have no common divisor: a scrambled order that visits all.
        let mut handles: Vec<(u32, TaskHandle<()>)> = (0..TASKS)
            .map(|n| n * 37 % TASKS)
            .map(|n| (n, pool.schedule((n + 1) * STEP, log.body(n)).unwrap()))
            .collect();
        handles.sort_by_key(|handle| handle.0);
        let handle = &handles[cancelled as usize].1;
        assert_eq!([handle.cancel(), handle.cancel()], [true, false]);
        clock.jump(TASKS * STEP);
        clock.wait_until_idle();
        assert_eq!(log.entries(), (0..TASKS).filter(|n| *n != cancelled).collect::<Vec<_>>());
        finish(&pool);
    }
}

// ---- limits on time

/// NX-020: when its time is over, and not before, a task is cancelled and its body interrupted, though it has the
/// only thread there is.
#[test]
fn a_task_that_takes_too_long_is_interrupted() {
    let (pool, clock) = manual(1);
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let handle = pool.submit_with_timeout(STEP, sleeper(&begun, &sender, 7)).unwrap();
    begun.await_arrivals(1);
    clock.advance(STEP - NANO);
    assert!(!handle.is_done());
    clock.advance(NANO);
    assert!(handle.join().unwrap_err().is_cancelled());
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
    assert_eq!(pool.submit(|| 8).unwrap().join().unwrap(), 8);
    clock.wait_until_idle();
    assert_eq!((pool.stats().timeouts, pool.stats().active), (0, 0));
    finish(&pool);
}

/// NX-021: a fallback decides what a task that takes too long ends with: a value, an error, or its own panic. The
/// body is interrupted all the same, and what it returns is dropped.
#[test]
fn a_fallback_decides_what_a_late_task_ends_with() {
    type Answer = Result<&'static str, &'static str>;
    let fallbacks: [fn() -> Answer; 3] =
        [|| Ok("substitute"), || Err("too late"), || panic!("no substitute")];
    for (n, fallback) in fallbacks.into_iter().enumerate() {
        let (pool, clock) = manual(1);
        let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
        let body = sleeper::<Answer>(&begun, &sender, Ok("never seen"));
        let handle = pool.submit_with_fallback(STEP, body, fallback).unwrap();
        begun.await_arrivals(1);
        clock.advance(STEP);
        match (n, handle.join()) {
            (0, Ok(Ok("substitute"))) | (1, Ok(Err("too late"))) => {}
            (2, Err(error)) => assert_eq!(error.panic().unwrap().message(), "no substitute"),
            (_, other) => panic!("{other:?}"),
        }
        assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
        finish(&pool);
    }
}

/// NX-022: a task that ends in time keeps its value, is not disturbed, and takes its limit along, with all that the
/// fallback had captured.
#[test]
fn a_task_in_time_takes_its_limit_along() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let plain = pool.submit_with_timeout(HOUR, || TaskContext::current().is_interrupted()).unwrap();
    let fallback = move || drop(captured);
    let with_fallback = pool.submit_with_fallback(HOUR, || (), fallback).unwrap();
    clock.wait_until_idle();
    assert_eq!((pool.stats().timeouts, probe.is_dropped()), (0, true));
    clock.advance(2 * HOUR);
    assert_eq!((plain.state(), with_fallback.state()), (TaskState::Succeeded, TaskState::Succeeded));
    assert!(!plain.join().unwrap());
    finish(&pool);
}

/// NX-023: the clock starts with the submission: a task that never got a thread is out of time as well. It leaves
/// the queue, what it had captured is dropped, and its fallback is called.
#[test]
fn a_task_without_a_thread_runs_out_of_time() {
    let (pool, clock) = manual(1);
    let (gate, runs, (probe, captured)) = (Gate::new(), Counter::new(), Probe::new());
    let blocker = block_worker(&pool, &gate);
    let (first, second) = (runs.clone(), runs.clone());
    let body = move || {
        first.hit();
        drop(captured);
    };
    let cancelled = pool.submit_with_timeout(STEP, body).unwrap();
    let replaced = pool
        .submit_with_fallback(
            2 * STEP,
            move || {
                second.hit();
                1
            },
            || 2,
        )
        .unwrap();
    assert_eq!((pool.stats().queued, pool.stats().timeouts), (2, 2));
    clock.jump(STEP);
    assert!(cancelled.join().unwrap_err().is_cancelled());
    assert!(probe.is_dropped() && !replaced.is_done());
    clock.jump(STEP);
    assert_eq!(replaced.join().unwrap(), 2);
    gate.open();
    blocker.join().unwrap();
    clock.wait_until_idle();
    let stats = pool.stats();
    assert_eq!((runs.get(), stats.queued, stats.timeouts), (0, 0, 0));
    assert_eq!((stats.completed, stats.cancelled), (1, 2));
    finish(&pool);
}

/// NX-027: however a task ends, its limit is withdrawn: their number returns to zero, though they are hours away.
#[test]
fn however_a_task_ends_its_limit_is_withdrawn() {
    let (pool, clock) = manual(2);
    for n in 0..1000_u32 {
        let body = move || if n % 100 == 0 { panic!("broken") } else { n };
        match n % 2 {
            0 => drop(pool.submit_with_timeout(12 * HOUR, body).unwrap()),
            _ => drop(pool.submit_with_fallback(12 * HOUR, body, || 0).unwrap()),
        }
    }
    clock.wait_until_idle();
    assert_eq!((pool.stats().timeouts, pool.stats().completed), (0, 1000));

    let gate = Gate::new();
    let blockers = [(); 2].map(|()| block_worker(&pool, &gate));
    let [cancelled, removed, drained] = [(); 3].map(|()| pool.submit_with_timeout(HOUR, || ()).unwrap());
    assert_eq!(pool.stats().timeouts, 3);
    cancelled.cancel();
    assert_eq!(pool.stats().timeouts, 2);
    drop(removed.remove());
    assert_eq!(pool.stats().timeouts, 1);
    drop(pool.shutdown_now());
    assert!(matches!(drained.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
    assert_eq!(pool.stats().timeouts, 0);
    assert!(pool.submit_with_timeout(HOUR, || ()).is_err());
    assert_eq!(pool.stats().timeouts, 0);
    gate.open();
    blockers.iter().for_each(|blocker| blocker.join().unwrap());
    assert!(pool.await_termination(Duration::MAX));
}

/// NX-022, NX-024: a limit is not a task: it is not listed, counted, decorated or drained, and takes no room.
#[test]
fn a_limit_is_not_a_task() {
    let (clock, decorated, gate) = (ManualClock::new(), Counter::new(), Gate::new());
    let count = decorated.clone();
    let decorator = move |_: TaskInfo<'_>| {
        count.hit();
        None
    };
    let builder = Executor::builder().capacity(1).decorator(decorator).clock(clock.clone());
    let pool = builder.build().unwrap();
    drop(block_worker(&pool, &gate));
    let handle = pool.submit_with_timeout(HOUR, || 7).unwrap();
    let refused = pool.submit_with_timeout(HOUR, || 8).unwrap_err();
    assert_eq!((refused.reason(), refused.into_task()()), (RejectReason::Saturated, 8));
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.delayed, stats.pool_size, stats.timeouts), (1, 0, 1, 1));
    assert_eq!((decorated.get(), pool.queue().len(), pool.queue()[0].id()), (3, 1, handle.id()));
    let drained = pool.shutdown_now();
    assert_eq!(drained.iter().map(|task| task.id()).collect::<Vec<_>>(), [handle.id()]);
    gate.open();
    // The limit of a drained task keeps nobody waiting, and ends with the pool.
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(pool.stats().timeouts, 0);
    clock.jump(2 * HOUR);
    assert!(drained.into_iter().all(|task| task.run()));
    assert_eq!(handle.join().unwrap(), 7);
}

/// NX-020: after a shutdown, even one that cancels delayed tasks, what runs is still limited.
#[test]
fn a_shutdown_leaves_limits_in_force() {
    let (pool, clock) = manual(1);
    pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let handle = pool.submit_with_timeout(STEP, sleeper(&begun, &sender, ())).unwrap();
    begun.await_arrivals(1);
    pool.shutdown();
    assert_eq!((handle.state(), pool.stats().timeouts), (TaskState::Running, 1));
    clock.advance(STEP);
    assert!(handle.is_cancelled());
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
    assert!(pool.await_termination(Duration::MAX));
}

/// NX-020: a task that a full pool lets the submitting thread run is limited as well.
#[test]
fn the_submitting_thread_is_limited_too() {
    let (clock, gate) = (ManualClock::new(), Gate::new());
    let builder = Executor::builder().capacity(0).rejection(Rejection::CallerRuns).clock(clock.clone());
    let pool = builder.build().unwrap();
    drop(block_worker(&pool, &gate));
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    let body = sleeper(&begun, &sender, ());
    let handle = thread::scope(|scope| {
        let caller = scope.spawn(|| pool.submit_with_timeout(STEP, body).unwrap());
        begun.await_arrivals(1);
        clock.jump(STEP);
        caller.join().unwrap()
    });
    assert!(handle.is_cancelled());
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
    gate.open();
    finish(&pool);
}

/// NX-020, NX-022: a task and its limit that come to their ends together: one of them wins, the handle tells which,
/// and neither is left behind. With no time at all the limit may come before the submission is through.
#[test]
fn a_task_and_its_limit_may_end_together() {
    let pool = Executor::builder().core_threads(2).capacity(1).build().unwrap();
    let mut kept = Vec::new();
    for n in 0..600_u64 {
        let timeout = Duration::from_micros(n % 3 * 20);
        let nap = move || TaskContext::current().sleep(timeout).is_ok();
        let handle = match n % 2 {
            0 => pool.submit_with_timeout(timeout, nap),
            _ => pool.submit_with_fallback(timeout, nap, || false),
        };
        match handle {
            Ok(handle) => kept.push((n, handle)),
            Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Saturated),
        }
    }
    for (n, handle) in &kept {
        match handle.join() {
            Ok(in_time) => assert!(in_time || n % 2 == 1),
            Err(error) => assert!(error.is_cancelled() && n % 2 == 0, "{error:?}"),
        }
    }
    pool.close().unwrap();
    assert_eq!((pool.stats().timeouts, pool.stats().queued), (0, 0));
}

/// NX-021: a fallback is part of the pool: it cannot wait for the end of it, and the end does not wait for a limit
/// that has not come.
#[test]
fn a_fallback_does_not_wait_for_its_own_pool() {
    let (pool, clock) = manual(1);
    let (begun, (sender, _receiver)) = (Gate::new(), mpsc::channel());
    let (inner, (told, verdict)) = (pool.clone(), mpsc::channel());
    let fallback = move || told.send(inner.close()).unwrap();
    let late = pool.submit_with_fallback(STEP, sleeper(&begun, &sender, ()), fallback).unwrap();
    begun.await_arrivals(1);
    clock.jump(STEP);
    assert!(matches!(verdict.recv().unwrap(), Err(WaitError::WouldDeadlock)));
    late.join().unwrap();
    assert!(pool.await_termination(Duration::MAX));
}

/// NX-021: the pool may be over while a fallback still runs. Whoever waits for its threads then waits no longer than it
/// means to, stops when it is interrupted, and is told when the fallback has ended; the fallback itself never sees it.
#[test]
fn waiting_for_a_fallback_that_outlives_its_pool_is_bounded() {
    let (pool, clock) = manual(1);
    let (other, _other_clock) = manual(1);
    let (body, fallback, ended) = (Gate::new(), Gate::new(), Counter::new());
    let (inner, held, count, (told, verdict)) =
        (pool.clone(), fallback.clone(), ended.clone(), mpsc::channel());
    let substitute = move || {
        held.pass();
        told.send(inner.await_termination(Duration::ZERO)).unwrap();
        count.hit();
    };
    let inside = body.clone();
    let work = pool.submit_with_fallback(STEP, move || inside.pass(), substitute).unwrap();
    body.await_arrivals(1);
    clock.jump(STEP);
    fallback.await_arrivals(1);
    body.open();
    work.join().unwrap();
    pool.shutdown();
    eventually("the pool is over", || pool.is_terminated());

    // In threads of their own: whoever waits for ever fails the test, and does not hang it.
    let wait = |timeout| {
        let (pool, (sender, receiver)) = (pool.clone(), mpsc::channel());
        thread::spawn(move || sender.send(pool.await_termination(timeout)).unwrap());
        receiver
    };
    assert_eq!(wait(Duration::ZERO).recv_timeout(PATIENCE), Ok(false));
    let timed = wait(STEP);
    let mut result = Err(mpsc::TryRecvError::Empty);
    eventually("the time is over", || {
        clock.jump(STEP);
        result = timed.try_recv();
        result.is_ok()
    });
    assert_eq!(result, Ok(false));

    let (begun, (sender, receiver), outer) = (Gate::new(), mpsc::channel(), pool.clone());
    begun.open();
    let arrives = begun.clone();
    let waiter = other.submit(move || {
        arrives.pass();
        sender.send(outer.await_termination(Duration::MAX)).unwrap();
    });
    begun.await_arrivals(1);
    assert!(waiter.unwrap().interrupt());
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(false));

    let to_the_end = wait(Duration::MAX);
    assert_eq!((to_the_end.try_recv(), ended.get()), (Err(mpsc::TryRecvError::Empty), 0));
    fallback.open();
    assert_eq!((to_the_end.recv_timeout(PATIENCE), ended.get()), (Ok(true), 1));
    assert_eq!(verdict.recv(), Ok(false), "it is one of the pool's own");
    assert!(pool.await_termination(Duration::ZERO));
    finish(&other);
}

/// Has threads for everything but limits, until it is told otherwise.
struct NoneForLimits(Arc<AtomicBool>);

impl Spawner for NoneForLimits {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        if worker.name().ends_with("-limits") && !self.0.load(Ordering::SeqCst) {
            return Err(io::Error::other("no thread for limits"));
        }
        thread::Builder::new().spawn(move || worker.run()).map(Some)
    }
}

/// NX-020: without a thread for its limit a task is refused rather than run without one; the next one may have it.
#[test]
fn without_a_thread_for_limits_the_task_is_refused() {
    let allowed = Arc::new(AtomicBool::new(false));
    let pool = Executor::builder().spawner(NoneForLimits(Arc::clone(&allowed))).build().unwrap();
    let refused = pool.submit_with_timeout(HOUR, || 7).unwrap_err();
    assert_eq!((refused.reason(), refused.into_task()()), (RejectReason::NoWorker, 7));
    assert_eq!((pool.stats().timeouts, pool.stats().completed), (0, 0));
    allowed.store(true, Ordering::SeqCst);
    assert_eq!(pool.submit_with_timeout(HOUR, || 8).unwrap().join().unwrap(), 8);
    finish(&pool);
}

/// NX-020: on the machine's clock a limit is not early.
#[test]
fn a_limit_is_not_early() {
    let pool = Executor::new(1);
    let nap = || TaskContext::current().sleep(HOUR);
    let (waited, outcome) = elapsed(|| pool.submit_with_timeout(STEP, nap).unwrap().join());
    assert!(outcome.unwrap_err().is_cancelled());
    assert!(waited >= STEP, "{waited:?}");
    finish(&pool);
}
