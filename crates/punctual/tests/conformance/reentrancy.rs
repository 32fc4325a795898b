//! Tasks that use their own executor.

use std::cell::Cell;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use punctual::{
    Decoration, Executor, Keep, Leftover, ManualClock, Observer, OnCancel, Panic, Place, RejectReason,
    Rejection, RunOutcome, RunState, Scheduler, Spawner, TaskContext, TaskHandle, TaskId, TaskInfo,
    TaskState, UnrunTask, WaitError, WorkerThread,
};

use crate::support::{Counter, Gate, HOUR, Log, STEP, block_worker, finish, manual};

/// ST-121: a task may schedule others on its own pool, and itself again and again.
#[test]
fn a_task_may_schedule_itself_and_others() {
    fn step(pool: &Scheduler, left: u32, log: &Log<(u32, Duration)>) {
        let (inside, told) = (pool.clone(), log.clone());
        let start = pool.clock().now();
        let body = move || {
            told.add((left, inside.clock().now().since(start)));
            if left > 0 {
                step(&inside, left - 1, &told);
            }
        };
        drop(pool.schedule(STEP, body).unwrap());
    }
    let (pool, clock) = manual(1);
    let log = Log::new();
    step(&pool, 3, &log);
    clock.advance(10 * STEP);
    assert_eq!(log.entries(), [(3, STEP), (2, STEP), (1, STEP), (0, STEP)]);

    let (inside, ran) = (pool.clone(), Counter::new());
    let body = ran.body();
    let spawned = pool.submit(move || {
        let once = inside.submit(body.clone()).unwrap();
        let many = inside.schedule_with_fixed_delay(STEP, STEP, body).unwrap();
        (once, many)
    });
    let (once, many) = spawned.unwrap().join().unwrap();
    once.join().unwrap();
    clock.advance(2 * STEP);
    assert_eq!((ran.get(), many.runs()), (3, 2));
    assert!(many.cancel());
    finish(&pool);
}

/// ST-122: a task may cancel or interrupt itself and others, holding locks of its own, wherever cancelled tasks
/// go; a series that cancels itself has had its last run, and goes on to the end of it.
#[test]
fn a_task_may_cancel_itself_and_others() {
    for on_cancel in [OnCancel::Remove, OnCancel::KeepUntilDue] {
        for interrupt in [false, true] {
            let (pool, clock) = manual(1);
            pool.set_on_cancel(on_cancel);
            let end =
                move |handle: &TaskHandle<()>| if interrupt { handle.interrupt() } else { handle.cancel() };
            let state = Arc::new(Mutex::new(Vec::new()));
            let shared = Arc::clone(&state);
            let other = pool.schedule(HOUR, move || shared.lock().unwrap().push("other")).unwrap();
            let (own, shared) = (Arc::new(OnceLock::<TaskHandle<()>>::new()), Arc::clone(&state));
            let me = Arc::clone(&own);
            let series = pool.schedule_at_fixed_rate(STEP, STEP, move || {
                let mut state = shared.lock().unwrap();
                assert!(end(&other) && !end(&other));
                let me = me.get().unwrap();
                assert!(end(me) && !end(me));
                assert_eq!(TaskContext::current().is_interrupted(), interrupt);
                state.push("ended");
            });
            assert!(own.set(series.unwrap()).is_ok());
            clock.advance(HOUR);
            assert_eq!(*state.lock().unwrap(), ["ended"]);
            let series = own.get().unwrap();
            assert_eq!((series.state(), series.runs()), (TaskState::Cancelled, 1));
            assert_eq!((pool.stats().queued, pool.stats().completed), (0, 1));
            finish(&pool);
        }
    }
}

/// ST-123: a task may shut its pool down: what it submits then is refused, it finishes, and the pool ends.
#[test]
fn a_task_may_shut_its_pool_down() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let (inside, held) = (pool.clone(), gate.clone());
    let handle = pool.submit(move || {
        held.pass();
        inside.shutdown();
        let refused = inside.submit(|| ()).map(drop).unwrap_err();
        (refused.reason(), inside.is_terminating(), TaskContext::current().is_interrupted())
    });
    let queued = pool.submit(|| 7).unwrap();
    gate.open();
    assert_eq!(handle.unwrap().join().unwrap(), (RejectReason::ShutDown, true, false));
    assert_eq!(queued.join().unwrap(), 7);
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-124: a task may stop its pool: it gets what was queued, itself not among it, is interrupted itself, and
/// the pool is not over before it ends.
#[test]
fn a_task_may_stop_its_pool() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let (inside, held) = (pool.clone(), gate.clone());
    let handle = pool.submit(move || {
        held.pass();
        let before = TaskContext::current().is_interrupted();
        let drained: Vec<TaskId> = inside.shutdown_now().iter().map(UnrunTask::id).collect();
        (before, TaskContext::current().is_interrupted(), drained, inside.is_terminated())
    });
    let queued = [pool.submit(|| ()).unwrap(), pool.schedule(HOUR, || ()).unwrap()];
    gate.open();
    let ids = queued.iter().map(TaskHandle::id).collect();
    assert_eq!(handle.unwrap().join().unwrap(), (false, true, ids, false));
    assert!(queued.iter().all(|handle| handle.state() == TaskState::Abandoned));
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-125: a task may read everything about its own pool, and finds itself counted as running.
#[test]
fn a_task_may_look_at_its_own_pool() {
    let (pool, _clock) = manual(1);
    pool.submit(|| ()).unwrap().join().unwrap();
    let (gate, inside) = (Gate::new(), pool.clone());
    let held = gate.clone();
    let handle = pool.submit(move || {
        held.pass();
        let queue: Vec<TaskId> = inside.queue().iter().map(punctual::QueuedTask::id).collect();
        let text = (inside.to_string(), format!("{inside:?}").is_empty());
        (inside.stats(), queue, text, [inside.is_shutdown(), inside.is_terminating(), inside.is_terminated()])
    });
    let queued = pool.schedule(HOUR, || ()).unwrap();
    gate.open();
    let (stats, queue, text, states) = handle.unwrap().join().unwrap();
    assert_eq!((stats.active, stats.queued, stats.delayed, stats.completed), (1, 1, 1, 1));
    assert_eq!((stats.pool_size, stats.task_count(), stats.state), (1, 3, RunState::Running));
    assert_eq!(queue, [queued.id()]);
    assert_eq!(text.0, "running, pool size = 1, active = 1, queued = 1, completed = 1");
    assert!(!text.1);
    assert_eq!(states, [false; 3]);
    finish(&pool);
}

/// ST-126: a task may change every setting of its own pool, which takes effect and does not disturb it.
#[test]
fn a_task_may_change_its_own_pool() {
    struct Plain;
    impl Spawner for Plain {
        fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
            Ok(Some(thread::spawn(move || worker.run())))
        }
    }
    let (pool, _clock) = manual(1);
    let inside = pool.clone();
    let changed = pool.submit(move || {
        inside.set_spawner(Plain);
        inside.set_core_threads(3).unwrap();
        inside.set_keep_alive(STEP).unwrap();
        inside.set_core_threads_time_out(true).unwrap();
        inside.set_rejection(Rejection::Discard);
        inside.set_on_cancel(OnCancel::KeepUntilDue);
        inside.set_after_shutdown(Leftover::Periodic, Keep::Run);
        let started = inside.prestart_all_core_threads();
        let purged = inside.purge();
        // Down to a single thread while three live: this body is not disturbed.
        inside.resize(1).unwrap();
        (started, purged, TaskContext::current().is_interrupted())
    });
    assert_eq!(changed.unwrap().join().unwrap(), (2, 0, false));
    assert_eq!((pool.core_threads(), pool.max_threads(), pool.keep_alive()), (1, 1, STEP));
    assert!(pool.core_threads_time_out() && pool.on_cancel() == OnCancel::KeepUntilDue);
    assert_eq!(pool.after_shutdown(Leftover::Periodic), Keep::Run);
    assert!(matches!(pool.rejection(), Rejection::Discard));
    finish(&pool);
}

// ---- no lock is held while the user's code runs

/// The pool, for those who are made before it; emptied at the end, so that nothing keeps itself alive.
#[derive(Clone, Default)]
struct Within {
    pool: Arc<Mutex<Option<Executor>>>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Within {
    /// Uses everything that takes a lock, which hangs if the caller holds it, and notes the place. What is
    /// called from here in turn is only noted.
    fn touch(&self, place: &'static str) {
        thread_local!(static TOUCHING: Cell<bool> = const { Cell::new(false) });
        let pool = self.pool.lock().unwrap().clone();
        if let Some(pool) = pool.filter(|_| !TOUCHING.replace(true)) {
            let _ = (pool.stats(), pool.queue(), pool.to_string(), pool.rejection(), pool.purge());
            pool.set_on_cancel(OnCancel::Remove);
            pool.set_after_shutdown(Leftover::Delayed, Keep::Run);
            pool.set_keep_alive(HOUR).unwrap();
            let (reject, spawner) = (pool.rejection(), Touching(self.clone()));
            pool.set_rejection(reject);
            pool.set_spawner(spawner);
            if let Ok(handle) = pool.schedule(HOUR, || ()) {
                let _ = handle.cancel();
            }
            TOUCHING.set(false);
        }
        self.log.lock().unwrap().push(place);
    }

    fn dropped(&self, place: &'static str) -> Dropped {
        Dropped(self.clone(), place)
    }
}

struct Touching(Within);

impl Observer for Touching {
    fn before_run(&self, _: TaskInfo<'_>) {
        self.0.touch("before_run");
    }

    fn after_run(&self, _: TaskInfo<'_>, _: RunOutcome<'_>) {
        self.0.touch("after_run");
    }

    fn terminated(&self) {
        self.0.touch("terminated");
    }

    fn worker_started(&self) {
        self.0.touch("worker_started");
    }

    fn worker_stopped(&self) {
        self.0.touch("worker_stopped");
    }

    fn spawn_failed(&self, _: &io::Error) {
        self.0.touch("spawn_failed");
    }

    fn contained(&self, _: Place, _: &Panic) {
        self.0.touch("contained");
    }
}

impl Spawner for Touching {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.0.touch("spawn");
        if worker.name().ends_with("thread-2") {
            return Err(io::Error::other("not this one"));
        }
        thread::Builder::new().spawn(move || worker.run()).map(Some)
    }
}

impl Decoration for Touching {
    fn run(&mut self, body: &mut dyn FnMut()) {
        self.0.touch("decoration");
        body();
    }

    fn cancelled(&mut self) {
        self.0.touch("decoration cancelled");
    }
}

impl Wake for Touching {
    fn wake(self: Arc<Self>) {
        self.0.touch("wake");
    }
}

/// Says where it is dropped.
struct Dropped(Within, &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.touch(self.1);
    }
}

/// ST-127: bodies, hooks, spawners, decorators, rejection handlers, wakers and destructors of all that a user
/// hands in may use the pool: none of them is called under a lock.
#[test]
fn user_code_never_runs_under_a_lock() {
    let within = Within::default();
    let (decorating, handling) = (within.clone(), within.clone());
    let decorator = move |_: TaskInfo<'_>| {
        decorating.touch("decorate");
        Some(Box::new(Touching(decorating.clone())) as Box<dyn Decoration>)
    };
    let handler = move |task: UnrunTask, _, _: &Scheduler| {
        handling.touch("rejected");
        drop(task);
    };
    let clock = ManualClock::new();
    let builder = Executor::builder().core_threads(2).clock(clock.clone()).decorator(decorator);
    let builder = builder.observer(Touching(within.clone())).spawner(Touching(within.clone()));
    let pool = builder.rejection(Rejection::custom(handler)).build().unwrap();
    *within.pool.lock().unwrap() = Some(pool.clone());
    let holding = |place| {
        let (held, here) = (within.dropped(place), within.clone());
        move || {
            here.touch("body");
            let _held = &held;
        }
    };

    pool.submit(holding("body's capture")).unwrap().join().unwrap();
    let waker = Waker::from(Arc::new(Touching(within.clone())));
    let awaited = pool.schedule(HOUR, holding("cancelled task's capture")).unwrap();
    let mut awaited = pin!(awaited);
    assert!(awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(awaited.cancel());
    // A value that nobody wants any more when the body returns it, and one whose destructor fails.
    let (gate, value) = (Gate::new(), within.dropped("unwanted value"));
    let (held, also_held) = (gate.clone(), gate.clone());
    drop(pool.submit(move || {
        held.pass();
        value
    }));
    drop(pool.submit(move || {
        also_held.pass();
        FailsToDrop
    }));
    gate.open();
    clock.wait_until_idle();
    drop(pool.schedule(HOUR, holding("removed task's capture")).unwrap().remove());
    let shut = pool.schedule_at_fixed_rate(HOUR, HOUR, holding("shut down task's capture")).unwrap();
    let drained = pool.schedule(HOUR, holding("drained task's capture")).unwrap();
    pool.shutdown();
    assert!(shut.is_cancelled());
    let refused = pool.submit(holding("refused task's capture")).unwrap();
    assert!(refused.is_done());
    drop(pool.shutdown_now());
    assert!(drained.is_done() && pool.await_termination(Duration::MAX));

    *within.pool.lock().unwrap() = None;
    let mut places = std::mem::take(&mut *within.log.lock().unwrap());
    places.sort_unstable();
    places.dedup();
    let expected = [
        "after_run",
        "before_run",
        "body",
        "body's capture",
        "cancelled task's capture",
        "contained",
        "decorate",
        "decoration",
        "decoration cancelled",
        "drained task's capture",
        "refused task's capture",
        "rejected",
        "removed task's capture",
        "shut down task's capture",
        "spawn",
        "spawn_failed",
        "terminated",
        "unwanted value",
        "wake",
        "worker_started",
        "worker_stopped",
    ];
    assert_eq!(places, expected);
}

struct FailsToDrop;

impl Drop for FailsToDrop {
    fn drop(&mut self) {
        resume_unwind(Box::new("no"));
    }
}

/// TP-088: the hook at termination may look at its pool, which is terminating and not yet terminated, and is not
/// left waiting for it; whoever waits for the end is released after it.
#[test]
fn the_terminated_hook_may_use_its_pool() {
    type Seen = ([bool; 3], [bool; 2], bool, usize);

    struct AtTheEnd(Within, Log<Seen>);
    impl Observer for AtTheEnd {
        fn terminated(&self) {
            let pool = self.0.pool.lock().unwrap().clone().unwrap();
            let states = [pool.is_shutdown(), pool.is_terminating(), pool.is_terminated()];
            let waits = [Duration::ZERO, Duration::MAX].map(|timeout| pool.await_termination(timeout));
            let closed = matches!(pool.close(), Err(WaitError::WouldDeadlock));
            self.1.add((states, waits, closed, pool.shutdown_now().len()));
        }
    }

    for used in [false, true] {
        let (within, log) = (Within::default(), Log::new());
        let observer = AtTheEnd(within.clone(), log.clone());
        let pool = Executor::builder().clock(ManualClock::new()).observer(observer).build().unwrap();
        *within.pool.lock().unwrap() = Some(pool.clone());
        if used {
            pool.submit(|| ()).unwrap().join().unwrap();
        }
        pool.shutdown();
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(log.entries(), [([true, true, false], [false, false], true, 0)]);
        *within.pool.lock().unwrap() = None;
    }
}

/// TP-087: a rejection handler may submit to the pool that refused, and to any other.
#[test]
fn a_rejection_handler_may_submit_again() {
    let (other, _other_clock) = manual(1);
    let (ran, elsewhere) = (Counter::new(), other.clone());
    let body = ran.body();
    let handler = move |task: UnrunTask, reason, pool: &Scheduler| {
        assert_eq!(reason, RejectReason::Saturated);
        // Makes room and tries again, which fits now.
        let oldest = pool.queue()[0].id();
        drop(pool.remove(oldest));
        pool.execute(body.clone()).unwrap();
        elsewhere.execute(move || assert!(task.run())).unwrap();
    };
    let builder = Executor::builder().max_threads(1).capacity(1).clock(ManualClock::new());
    let pool = builder.rejection(Rejection::custom(handler)).build().unwrap();
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let queued = pool.submit(|| ()).unwrap();
    let refused = pool.submit(|| thread::current().id()).unwrap();
    assert_ne!(refused.join().unwrap(), thread::current().id());
    assert_eq!(queued.state(), TaskState::Abandoned);
    gate.open();
    blocker.join().unwrap();
    pool.close().unwrap();
    assert_eq!((ran.get(), pool.stats().rejected), (1, 1));
    finish(&other);
}
