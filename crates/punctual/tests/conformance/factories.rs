//! Ready-made pools, and what becomes of a pool that is dropped.

use std::fmt;
use std::io;
use std::sync::{Arc, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual::{
    Abandoned, Clock, Executor, Interrupted, ManualClock, OnDrop, Parker, RejectReason, Scheduler, Spawner,
    TaskContext, TaskError, TaskState, Tick, WorkerThread,
};

use crate::support::{Counter, Gate, HOUR, SHORT, STEP, block_worker, eventually, finish};

/// Counts the threads it starts.
struct Counting(Counter);

impl Spawner for Counting {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.0.hit();
        thread::Builder::new()
            .name(format!("mine, not {}", worker.name()))
            .spawn(move || worker.run())
            .map(Some)
    }
}

/// A clock that lives as long as anything of its pool: watch it to see the pool gone.
struct Lifeline(ManualClock);

impl fmt::Debug for Lifeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Clock for Lifeline {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        self.0.wait(parker, until);
    }

    fn worker_started(&self) {
        self.0.worker_started();
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        self.0.worker_entered(parker);
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        self.0.worker_stopped(parker);
    }
}

/// A pool of one thread that does `on_drop`, its clock, and a way to see whether anything of it is left: pool,
/// threads, tasks.
fn doomed(on_drop: OnDrop) -> (Executor, ManualClock, Weak<Lifeline>) {
    let clock = ManualClock::new();
    let lifeline = Arc::new(Lifeline(clock.clone()));
    let watch = Arc::downgrade(&lifeline);
    let pool = Executor::builder().clock(lifeline).on_drop(on_drop).build().unwrap();
    (pool, clock, watch)
}

fn is_gone(watch: &Weak<Lifeline>) -> bool {
    watch.strong_count() == 0
}

/// EX-003: each ready-made pool runs tasks, on as many threads as it says.
#[test]
fn every_ready_made_pool_runs_tasks() {
    let together = |pool: &Scheduler, threads: usize| {
        let gate = Gate::new();
        let bodies = (0..threads).map(|_| {
            let gate = gate.clone();
            pool.submit(move || gate.pass()).unwrap()
        });
        let handles: Vec<_> = bodies.collect();
        gate.await_arrivals(threads);
        assert_eq!((pool.stats().pool_size, pool.stats().queued), (threads, 0));
        gate.open();
        handles.iter().for_each(|handle| handle.join().unwrap());
    };
    let cached = Executor::cached();
    together(&cached, 5);
    let fixed = Executor::fixed(3).unwrap();
    together(&fixed, 3);
    let single = Executor::single();
    together(&single, 1);
    // A fixed pool and a single thread do not grow.
    let (gate, second) = (Gate::new(), Counter::new());
    let inner = gate.clone();
    let first = single.submit(move || inner.pass()).unwrap();
    drop(single.submit(second.body()).unwrap());
    gate.await_arrivals(1);
    assert_eq!((single.stats().pool_size, single.stats().queued), (1, 1));
    gate.open();
    first.join().unwrap();
    for pool in [cached.scheduler(), fixed.scheduler(), single] {
        pool.close().unwrap();
    }
    assert_eq!(second.get(), 1);
}

/// EX-003: threads come from where the builder says.
#[test]
fn a_given_spawner_makes_the_threads() {
    let spawned = Counter::new();
    let pool = Executor::builder().core_threads(2).spawner(Counting(spawned.clone())).build().unwrap();
    let name = || thread::current().name().unwrap().starts_with("mine, not pool-");
    assert!(pool.submit(name).unwrap().join().unwrap());
    assert!(pool.submit(name).unwrap().join().unwrap());
    assert_eq!(spawned.get(), 2);
    finish(&pool);
}

/// EX-004, EX-008: a fixed pool needs a thread; a scheduled pool without core threads is legal and runs tasks.
#[test]
fn no_threads_are_refused_where_the_number_is_fixed() {
    let error = Executor::fixed(0).unwrap_err();
    assert_eq!(error.to_string(), "max_threads must be at least 1");
    let pool = Executor::new(0);
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    finish(&pool);
}

/// EX-005, EX-006: the form that cannot be changed has no setters (see the failing examples of its documentation)
/// and is otherwise the same pool.
#[test]
fn a_scheduler_is_the_same_pool_without_its_settings() {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(2).clock(clock.clone()).build().unwrap();
    let plain: Scheduler = pool.scheduler();
    let runs = Counter::new();
    let handle = plain.schedule(2 * STEP, || 7).unwrap();
    drop(plain.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap());
    drop(plain.schedule_with_fixed_delay(STEP, STEP, runs.body()).unwrap());
    assert_eq!((pool.stats(), pool.queue().len()), (plain.stats(), 3));
    assert_eq!((pool.to_string(), pool.stats().core_threads), (plain.to_string(), 2));
    clock.advance(2 * STEP);
    assert_eq!((handle.join().unwrap(), runs.get()), (7, 4));
    assert_eq!(plain.invoke_all([|| 1, || 2]).unwrap().len(), 2);
    assert_eq!(plain.invoke_any([|| Ok::<_, ()>(3)]).unwrap(), 3);
    plain.shutdown();
    assert!(pool.is_shutdown());
    assert_eq!(plain.execute(|| ()).unwrap_err().reason(), RejectReason::ShutDown);
    assert!(plain.shutdown_now().is_empty());
    assert!(plain.await_termination(Duration::MAX));
    assert!(pool.is_terminated() && plain.is_terminated());
}

/// EX-007: every form of scheduled pool runs a delayed body: not before its time, and then it is done and not
/// cancelled.
#[test]
fn every_scheduled_form_runs_a_delayed_body() {
    let pool = Executor::new(2);
    for form in [Executor::single(), Executor::new(2).scheduler(), pool.scheduler()] {
        let clock = form.clock();
        let gate = Gate::new();
        let (inner, time) = (gate.clone(), clock);
        let handle = form
            .schedule(SHORT, move || {
                inner.pass();
                time.now()
            })
            .unwrap();
        assert!(!handle.is_done());
        gate.open();
        let ran = handle.join().unwrap();
        assert!(ran >= handle.deadline());
        assert_eq!((handle.is_done(), handle.is_cancelled()), (true, false));
        form.close().unwrap();
    }
}

/// EX-009: a body without a value has the unit value, a body with one has that.
#[test]
fn a_body_has_the_value_it_returns() {
    let pool = Executor::new(1);
    let runs = Counter::new();
    let unit: () = pool.submit(runs.body()).unwrap().join().unwrap();
    let count = runs.clone();
    let with_value = pool.submit(move || {
        count.hit();
        "value"
    });
    assert_eq!((unit, with_value.unwrap().join().unwrap(), runs.get()), ((), "value", 2));
    finish(&pool);
}

/// EX-010: a pool whose last handle is dropped runs what is queued and what runs, and then nothing of it is left:
/// without a worker, with an idle one, and with one that is busy and up to two tasks behind it.
#[test]
fn a_dropped_pool_finishes_its_tasks_and_is_gone() {
    let (pool, _, watch) = doomed(OnDrop::Detach);
    drop(pool);
    assert!(is_gone(&watch));

    let (pool, _, watch) = doomed(OnDrop::Detach);
    pool.submit(|| ()).unwrap().join().unwrap();
    let other = pool.scheduler();
    drop(pool);
    assert!(!other.is_shutdown());
    drop(other);
    eventually("the idle worker is gone", || is_gone(&watch));

    for queued in 0..=2 {
        let (pool, clock, watch) = doomed(OnDrop::Detach);
        let (gate, runs) = (Gate::new(), Counter::new());
        let running = block_worker(&pool, &gate);
        for n in 0..queued {
            drop(pool.schedule(n * STEP, runs.body()).unwrap());
        }
        drop(pool);
        assert!(!running.is_done());
        gate.open();
        running.join().unwrap();
        drop(running);
        clock.advance(queued * STEP);
        eventually("the pool is gone", || is_gone(&watch));
        assert_eq!(runs.get(), queued as usize);
    }
}

/// EX-010: a pool told to join waits, when it is dropped, until its tasks are over and its threads are gone.
#[test]
fn a_pool_that_joins_is_gone_when_it_has_been_dropped() {
    let (pool, _, watch) = doomed(OnDrop::Join);
    let (gate, runs) = (Gate::new(), Counter::new());
    drop(block_worker(&pool, &gate));
    drop(pool.submit(runs.body()).unwrap());
    let ends_at_shutdown = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let count = runs.clone();
    let dropper = thread::spawn(move || {
        drop(pool);
        count.get()
    });
    eventually("the drop has begun", || ends_at_shutdown.is_cancelled());
    drop(ends_at_shutdown);
    assert!(!dropper.is_finished());
    gate.open();
    assert_eq!(dropper.join().unwrap(), 1);
    assert!(is_gone(&watch));
}

/// EX-010: a pool told to join does not wait for itself: its last handle may be dropped by its own task, in the
/// body, with the body, or with the value.
#[test]
fn a_pool_that_joins_does_not_wait_for_itself() {
    let (pool, _, watch) = doomed(OnDrop::Join);
    let (inner, gate) = (pool.clone(), Gate::new());
    let opens = gate.clone();
    let body = move || {
        opens.pass();
        drop(inner);
    };
    drop(pool.submit(body).unwrap());
    drop_elsewhere(pool, &gate);
    eventually("dropped in a body", || is_gone(&watch));

    let (pool, _, watch) = doomed(OnDrop::Join);
    let (inner, gate) = (pool.clone(), Gate::new());
    let opens = gate.clone();
    let body = move || {
        opens.pass();
        assert!(!inner.is_terminated());
    };
    drop(pool.schedule_at_fixed_rate(Duration::ZERO, STEP, body).unwrap());
    gate.await_arrivals(1);
    // The series ends with this, and the body is dropped after its run.
    pool.shutdown();
    drop_elsewhere(pool, &gate);
    eventually("dropped with a body", || is_gone(&watch));

    let (pool, _, watch) = doomed(OnDrop::Join);
    let (inner, gate) = (pool.clone(), Gate::new());
    let opens = gate.clone();
    let value = move || {
        opens.pass();
        inner
    };
    drop(pool.submit(value).unwrap());
    drop_elsewhere(pool, &gate);
    eventually("dropped with a value", || is_gone(&watch));
}

/// Drops this handle, which is not the last, while a body waits at `gate`; then lets the body go on.
fn drop_elsewhere(pool: Executor, gate: &Gate) {
    gate.await_arrivals(1);
    drop(pool);
    gate.open();
}

/// EX-010: a pool told to abort interrupts what runs and drops what waits; its handles say so.
#[test]
fn a_pool_that_aborts_drops_what_waits() {
    let (pool, _, watch) = doomed(OnDrop::Abort);
    let (begun, (sender, receiver)) = (Gate::new(), mpsc::channel());
    begun.open();
    let inner = begun.clone();
    let running = pool
        .submit(move || {
            inner.pass();
            sender.send(TaskContext::current().sleep(HOUR)).unwrap();
        })
        .unwrap();
    begun.await_arrivals(1);
    let waiting = pool.schedule(HOUR, || ()).unwrap();
    drop(pool);
    assert!(matches!(waiting.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));
    running.join().unwrap();
    assert_eq!(running.state(), TaskState::Succeeded);
    drop((running, waiting));
    eventually("the pool is gone", || is_gone(&watch));
}

/// EX-010: handles on tasks do not keep a pool from shutting down, and resolve all the same.
#[test]
fn a_task_handle_does_not_keep_a_pool() {
    let (pool, clock, watch) = doomed(OnDrop::Detach);
    let periodic = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    let delayed = pool.schedule(STEP, || 7).unwrap();
    drop(pool);
    assert!(periodic.is_cancelled());
    clock.advance(STEP);
    assert_eq!(delayed.join().unwrap(), 7);
    drop((periodic, delayed));
    eventually("the pool is gone", || is_gone(&watch));
}

/// EX-011: pools that are made and dropped without having been used leave nothing behind, whatever they do when
/// they are dropped.
#[test]
fn unused_pools_leave_nothing_behind() {
    for on_drop in [OnDrop::Detach, OnDrop::Join, OnDrop::Abort] {
        for _ in 0..1000 {
            let (pool, _, watch) = doomed(on_drop);
            drop(pool);
            assert!(is_gone(&watch));
        }
    }
}
