//! From running to terminated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use punctual::{
    Abandoned, Executor, Interrupted, Observer, OnDrop, RunState, Spawner, TaskContext, TaskError,
    TaskHandle, TaskState, WaitError, WorkerThread,
};

use crate::support::{Gate, HOUR, PATIENCE, SHORT, STEP, block_worker, elapsed, eventually, finish, manual};

/// Shut down, terminating, terminated.
fn states(pool: &Executor) -> [bool; 3] {
    [pool.is_shutdown(), pool.is_terminating(), pool.is_terminated()]
}

const RUNNING: [bool; 3] = [false; 3];
const TERMINATING: [bool; 3] = [true, true, false];
const TERMINATED: [bool; 3] = [true, false, true];

/// ST-089, ST-090, ST-091: a pool is running, then terminating from the moment a shutdown or a stop returns,
/// then terminated, and never two of them; outside and inside its own tasks.
#[test]
fn a_pool_is_running_then_terminating_then_terminated() {
    for stop in [false, true] {
        let (pool, _clock) = manual(1);
        assert_eq!(states(&pool), RUNNING);
        let inside = pool.clone();
        assert_eq!(pool.submit(move || states(&inside)).unwrap().join().unwrap(), RUNNING);
        let (held, inside) = (Gate::new(), pool.clone());
        let hold = held.clone();
        let handle = pool.submit(move || {
            let before = states(&inside);
            hold.pass();
            (before, states(&inside))
        });
        let handle = handle.unwrap();
        held.await_arrivals(1);
        if stop {
            assert!(pool.shutdown_now().is_empty());
        } else {
            pool.shutdown();
        }
        assert_eq!(states(&pool), TERMINATING);
        held.open();
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(states(&pool), TERMINATED);
        assert_eq!(handle.join().unwrap(), (RUNNING, TERMINATING));
    }
}

/// TP-024: waiting for the end of a pool that is not shut down is false, at once for no time at all, and
/// otherwise never early.
#[test]
fn waiting_for_the_end_of_a_running_pool_takes_the_whole_timeout() {
    let pool = Executor::new(1);
    assert!(!pool.await_termination(Duration::ZERO));
    for timeout in [Duration::from_nanos(1), Duration::from_nanos(999_999), SHORT] {
        let (took, terminated) = elapsed(|| pool.await_termination(timeout));
        assert!(!terminated);
        assert!(took >= timeout, "{took:?} is less than {timeout:?}");
    }
    assert_eq!(states(&pool), RUNNING);
    finish(&pool);
}

/// TP-025, TP-026: once terminated a pool says so without any waiting, and nothing of it is left.
#[test]
fn nothing_is_left_of_a_terminated_pool() {
    let (pool, clock) = manual(3);
    for _ in 0..4 {
        pool.submit(|| ()).unwrap().join().unwrap();
    }
    let kept = pool.schedule(STEP, || ()).unwrap();
    let series = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    pool.shutdown();
    clock.advance(STEP);
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.await_termination(Duration::ZERO) && pool.await_termination(Duration::MAX));
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.delayed, stats.active, stats.pool_size), (0, 0, 0, 0));
    assert_eq!((stats.completed, stats.task_count(), stats.cancelled), (5, 5, 1));
    assert_eq!(stats.state, RunState::Terminated);
    assert!(!pool.is_terminating());
    assert!(kept.is_done() && series.is_done());
    finish(&pool);
}

/// TP-027, TP-028: idle workers, however they wait, and those that become idle after the shutdown, are all
/// released by it; also a pool that never had one ends.
#[test]
fn every_worker_is_released_wherever_the_shutdown_finds_it() {
    let (unused, _clock) = manual(1);
    unused.shutdown();
    assert_eq!(states(&unused), TERMINATED);

    let (idle, clock) = manual(4);
    assert_eq!(idle.prestart_all_core_threads(), 4);
    clock.wait_until_idle();
    idle.shutdown();
    assert!(idle.await_termination(Duration::MAX));

    // One leader, two followers, one busy.
    let (mixed, clock) = manual(4);
    let gate = Gate::new();
    let blocker = block_worker(&mixed, &gate);
    mixed.prestart_all_core_threads();
    let kept = mixed.schedule(STEP, || 7).unwrap();
    mixed.shutdown();
    clock.jump(STEP);
    assert_eq!(kept.join().unwrap(), 7);
    gate.open();
    blocker.join().unwrap();
    assert!(mixed.await_termination(Duration::MAX));
    assert_eq!(mixed.stats().pool_size, 0);
}

/// TP-029: a shutdown leaves a running body alone: it is not interrupted, and its waits go on.
#[test]
fn a_shutdown_does_not_disturb_a_running_body() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let inner = gate.clone();
    let handle = pool.submit(move || {
        inner.pass();
        let slept = TaskContext::current().sleep(STEP);
        (slept, TaskContext::current().is_interrupted())
    });
    let handle = handle.unwrap();
    gate.open();
    clock.wait_until_idle();
    pool.shutdown();
    clock.advance(STEP - Duration::from_nanos(1));
    assert_eq!(handle.state(), TaskState::Running);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(handle.join().unwrap(), (Ok(()), false));
    assert!(pool.await_termination(Duration::MAX));
}

/// TP-030: a task that waits for the end of another pool stops waiting when it is interrupted.
#[test]
fn waiting_for_termination_heeds_an_interrupt() {
    let (pool, _clock) = manual(1);
    let (other, _other_clock) = manual(1);
    let (send, receive) = mpsc::channel();
    let inside = other.clone();
    let waiter = pool.submit(move || {
        send.send(None).unwrap();
        send.send(Some(inside.await_termination(Duration::MAX))).unwrap();
    });
    assert_eq!(receive.recv().unwrap(), None);
    assert!(waiter.unwrap().interrupt());
    assert_eq!(receive.recv().unwrap(), Some(false));
    assert_eq!(states(&other), RUNNING);
    finish(&other);
    finish(&pool);
}

/// TP-031: a task that waits for the end of its own pool is told no: when its time is over, or at once if it
/// meant to wait for ever.
#[test]
fn a_task_never_sees_the_end_of_its_own_pool() {
    let (pool, clock) = manual(1);
    let inside = pool.clone();
    let handle = pool.submit(move || {
        let before = inside.clock().now();
        inside.shutdown();
        let bounded = inside.await_termination(STEP);
        (bounded, inside.clock().now().since(before), inside.await_termination(Duration::MAX))
    });
    clock.advance(STEP);
    assert_eq!(handle.unwrap().join().unwrap(), (false, STEP, false));
    assert!(pool.await_termination(Duration::MAX));
}

/// Threads that take a while to end after their work is done.
struct Lingering {
    ended: Arc<AtomicBool>,
}

impl Spawner for Lingering {
    fn spawn(&self, worker: WorkerThread) -> std::io::Result<Option<thread::JoinHandle<()>>> {
        let ended = Arc::clone(&self.ended);
        let body = move || {
            worker.run();
            thread::park_timeout(SHORT);
            ended.store(true, Ordering::SeqCst);
        };
        Ok(Some(thread::spawn(body)))
    }
}

/// TP-032: whoever is told that a pool has terminated finds its threads gone, also the second who asks.
#[test]
fn threads_have_ended_when_waiting_for_termination_returns() {
    let ended = Arc::new(AtomicBool::new(false));
    let spawner = Lingering { ended: Arc::clone(&ended) };
    let pool = Executor::builder().spawner(spawner).build().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    pool.shutdown();
    let wait = || pool.await_termination(Duration::MAX) && ended.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let waiters = [scope.spawn(wait), scope.spawn(wait)];
        for waiter in waiters {
            assert!(waiter.join().unwrap());
        }
    });
}

// ---- close

/// NX-003: closing a pool that has nothing to do ends it.
#[test]
fn closing_an_idle_pool_ends_it() {
    for used in [false, true] {
        let pool = Executor::new(2);
        if used {
            pool.submit(|| ()).unwrap().join().unwrap();
        }
        pool.close().unwrap();
        assert_eq!(states(&pool), TERMINATED);
    }
}

/// NX-004, NX-005: closing waits for what runs and what is left, also after a shutdown, and their values are
/// there when it returns; closing what is over returns at once.
#[test]
fn closing_waits_for_what_is_left() {
    for shut_down_before in [false, true] {
        let (pool, _clock) = manual(1);
        let gate = Gate::new();
        let running = block_worker(&pool, &gate);
        let queued = pool.submit(|| 7).unwrap();
        if shut_down_before {
            pool.shutdown();
        }
        thread::scope(|scope| {
            let closer = scope.spawn(|| {
                pool.close().unwrap();
                (running.try_join().unwrap().is_ok(), queued.try_join().unwrap().unwrap(), states(&pool))
            });
            eventually("the pool is shut down", || pool.is_shutdown());
            assert_eq!(states(&pool), TERMINATING);
            gate.open();
            assert_eq!(closer.join().unwrap(), (true, 7, TERMINATED));
        });
        pool.close().unwrap();
    }
}

/// NX-006: closing from a task that has been interrupted before, or is while it waits, stops the pool, still
/// waits for its end, says so, and leaves the interrupt standing.
#[test]
fn an_interrupted_close_stops_the_pool_and_still_waits() {
    for interrupted_before in [true, false] {
        let (outer, _outer_clock) = manual(1);
        let (pool, _clock) = manual(1);
        let begun = Gate::new();
        let (enter, sleeper) = (begun.clone(), begun.clone());
        begun.open();
        let running = pool.submit(move || {
            sleeper.pass();
            TaskContext::current().sleep(HOUR)
        });
        let running: TaskHandle<Result<(), Interrupted>> = running.unwrap();
        let queued = pool.submit(|| ()).unwrap();
        begun.await_arrivals(1);
        let (send, receive) = mpsc::channel();
        let inside = pool.clone();
        let closer = outer.submit(move || {
            enter.pass();
            if interrupted_before {
                assert_eq!(TaskContext::current().sleep(HOUR), Err(Interrupted));
            }
            let closed = inside.close();
            let _ = send.send((closed, states(&inside), TaskContext::current().is_interrupted()));
        });
        begun.await_arrivals(2);
        if !interrupted_before {
            eventually("the pool is being closed", || pool.is_shutdown());
        }
        assert!(closer.unwrap().interrupt());
        let (closed, states, is_interrupted) = receive.recv().unwrap();
        assert!(matches!(closed, Err(WaitError::Interrupted)), "{closed:?}");
        assert_eq!((states, is_interrupted), (TERMINATED, true));
        assert_eq!(running.join().unwrap(), Err(Interrupted));
        assert!(matches!(queued.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
        finish(&outer);
    }
}

/// NX-006: a task that closes its own pool is told that it cannot wait; the pool is shut down all the same.
#[test]
fn a_task_that_closes_its_own_pool_is_not_left_waiting() {
    let (pool, _clock) = manual(1);
    let inside = pool.clone();
    let outcome = pool.submit(move || inside.close()).unwrap().join().unwrap();
    assert!(matches!(outcome, Err(WaitError::WouldDeadlock)));
    assert!(pool.await_termination(Duration::MAX));
}

// ---- drop

/// Tells when the pool has terminated.
struct Ending(mpsc::Sender<()>);

impl Observer for Ending {
    fn terminated(&self) {
        let _ = self.0.send(());
    }
}

fn dropping(on_drop: OnDrop) -> (Executor, mpsc::Receiver<()>) {
    let (send, receive) = mpsc::channel();
    let pool = Executor::builder().on_drop(on_drop).observer(Ending(send)).build().unwrap();
    (pool, receive)
}

/// NX-006: what the last drop of a pool does is chosen: leave it to finish by itself, wait for that, or stop it.
#[test]
fn the_last_drop_detaches_joins_or_aborts() {
    let gate = Gate::new();
    let (pool, ended) = dropping(OnDrop::Detach);
    let (running, queued) = (block_worker(&pool, &gate), pool.submit(|| 7).unwrap());
    let clone = pool.clone();
    drop(pool);
    assert!(!clone.is_shutdown(), "only the last drop counts");
    drop(clone);
    assert!(!running.is_done() && ended.try_recv().is_err());
    gate.open();
    assert_eq!(queued.join().unwrap(), 7);
    ended.recv_timeout(PATIENCE).unwrap();

    let (pool, ended) = dropping(OnDrop::Join);
    let handles: Vec<TaskHandle<()>> = (0..20).map(|_| pool.submit(thread::yield_now).unwrap()).collect();
    drop(pool);
    ended.try_recv().unwrap();
    assert!(handles.iter().all(|handle| handle.state() == TaskState::Succeeded));

    let (pool, ended) = dropping(OnDrop::Abort);
    let running = pool.submit(|| TaskContext::current().sleep(HOUR)).unwrap();
    eventually("the body runs", || running.state() == TaskState::Running);
    let queued = pool.submit(|| ()).unwrap();
    drop(pool);
    assert_eq!(running.join().unwrap(), Err(Interrupted));
    assert_eq!(queued.state(), TaskState::Abandoned);
    ended.recv_timeout(PATIENCE).unwrap();
}

/// NX-006: a pool whose last owner is dropped by one of its own workers, in a body or after it, does not wait
/// for itself.
#[test]
fn the_last_drop_may_happen_on_a_worker_of_the_pool() {
    for after_the_body in [false, true] {
        let (pool, ended) = dropping(OnDrop::Join);
        let gate = Gate::new();
        let (inside, held) = (pool.clone(), gate.clone());
        drop(pool.submit(move || {
            held.pass();
            after_the_body.then_some(inside)
        }));
        drop(pool);
        gate.open();
        ended.recv_timeout(PATIENCE).unwrap();
    }
}
