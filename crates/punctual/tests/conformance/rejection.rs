//! What becomes of refused tasks.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use punctual::{
    Abandoned, Executor, ManualClock, RejectReason, Rejected, Rejection, RejectionHandler, Scheduler, Stats,
    TaskError, TaskHandle, TaskId, TaskState, UnrunTask,
};

use crate::support::{Counter, Gate, HOUR, Log, STEP, block_worker, finish, manual};

/// A pool with one thread, which is busy, and room for one waiting task, which is taken.
struct Saturated {
    pool: Executor,
    clock: ManualClock,
    gate: Gate,
    running: TaskHandle<()>,
    queued: TaskHandle<()>,
    /// Runs of the queued task.
    ran: Counter,
}

impl Saturated {
    fn new(rejection: Rejection) -> Self {
        let (clock, gate, ran) = (ManualClock::new(), Gate::new(), Counter::new());
        let builder = Executor::builder().max_threads(1).capacity(1).clock(clock.clone());
        let pool = builder.rejection(rejection).build().unwrap();
        let running = block_worker(&pool, &gate);
        let queued = pool.submit(ran.body()).unwrap();
        Self { pool, clock, gate, running, queued, ran }
    }

    /// Lets everything accepted run and ends the pool.
    fn release(&self) {
        self.gate.open();
        self.running.join().unwrap();
        self.clock.wait_until_idle();
        self.pool.close().unwrap();
    }
}

type Outcome = Result<Option<TaskState>, RejectReason>;

/// Submits `body` in every form there is; the state of the handle, if there is one, or why it was refused.
fn submit_in_every_form<F>(pool: &Scheduler, body: &F) -> Vec<(&'static str, Outcome)>
where
    F: FnMut() + Send + Clone + 'static,
{
    fn seen<F>(result: Result<TaskHandle<()>, Rejected<F>>) -> Outcome {
        result.map(|handle| Some(handle.state())).map_err(|rejected| rejected.reason())
    }
    let b = || body.clone();
    vec![
        ("execute", pool.execute(b()).map(|()| None).map_err(|rejected| rejected.reason())),
        ("submit", seen(pool.submit(b()))),
        ("schedule now", seen(pool.schedule(Duration::ZERO, b()))),
        ("schedule", seen(pool.schedule(STEP, b()))),
        ("fixed rate", seen(pool.schedule_at_fixed_rate(STEP, STEP, b()))),
        ("fixed delay", seen(pool.schedule_with_fixed_delay(STEP, STEP, b()))),
        ("builder", seen(pool.task(b()).name("built").start())),
        ("periodic builder", seen(pool.task(b()).after(STEP).with_fixed_start(STEP).start())),
    ]
}

const FORMS: usize = 8;

/// The numbers that a refusal must leave alone.
fn untouched(pool: &Executor) -> Stats {
    let mut stats = pool.stats();
    (stats.rejected, stats.cancelled) = (0, 0);
    stats
}

/// TP-033, TP-034: a saturated pool and one that is shut down give what they refuse to the handler, in every
/// form, each once, in the submitting thread, with the reason and the pool.
#[test]
fn the_handler_gets_every_refused_task_once_in_the_submitting_thread() {
    let log: Log<(ThreadId, TaskId, RejectReason, u64)> = Log::new();
    let told = log.clone();
    let handler = move |task: UnrunTask, reason, pool: &Scheduler| {
        told.add((thread::current().id(), task.id(), reason, pool.stats().rejected));
    };
    let ran = Counter::new();
    let saturated = Saturated::new(Rejection::custom(handler));
    let pool = &saturated.pool;
    for (reason, round) in [(RejectReason::Saturated, 0), (RejectReason::ShutDown, 1)] {
        if reason == RejectReason::ShutDown {
            pool.shutdown();
        }
        let outcomes = submit_in_every_form(pool, &ran.body());
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()), "{outcomes:?}");
        let entries = log.entries().split_off(round * FORMS);
        assert_eq!(entries.len(), FORMS);
        for (n, (thread, _, why, rejected)) in entries.into_iter().enumerate() {
            assert_eq!((thread, why), (thread::current().id(), reason));
            assert_eq!(rejected as usize, round * FORMS + n + 1, "the pool that refused it");
        }
    }
    let mut ids: Vec<TaskId> = log.entries().into_iter().map(|entry| entry.1).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2 * FORMS, "no task twice");
    saturated.release();
    assert_eq!((ran.get(), saturated.ran.get()), (0, 1));
}

/// TP-035: the handler owns the task: its handle waits as long as it is kept, and resolves as rejected when it is
/// dropped, or with the value when it is run after all.
#[test]
fn a_refused_handle_waits_for_what_the_handler_does() {
    let kept: Arc<Mutex<Vec<UnrunTask>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let handler = move |task, _, _: &Scheduler| keep.lock().unwrap().push(task);
    let saturated = Saturated::new(Rejection::custom(handler));
    let dropped = saturated.pool.submit(|| 7).unwrap();
    let run = saturated.pool.submit(|| 8).unwrap();
    assert_eq!((dropped.state(), run.state()), (TaskState::Waiting, TaskState::Waiting));
    let mut tasks = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!([tasks[0].id(), tasks[1].id()], [dropped.id(), run.id()]);
    assert!(tasks.pop().unwrap().run());
    assert_eq!(run.join().unwrap(), 8);
    drop(tasks);
    assert!(matches!(dropped.failure(), Some(TaskError::Abandoned(Abandoned::Rejected))));
    saturated.release();
}

/// TP-036: whatever the policy, and it may be exchanged in any state, a refusal changes no number but that of the
/// refused. A task that the caller runs counts as completed.
#[test]
fn refusals_leave_the_numbers_alone() {
    let policies = || {
        [
            Rejection::Abort,
            Rejection::Discard,
            Rejection::CallerRuns,
            Rejection::DiscardOldest,
            Rejection::custom(|task, _, _| drop(task)),
        ]
    };
    let ran = Counter::new();
    let saturated = Saturated::new(Rejection::Abort);
    let pool = &saturated.pool;
    let mut refused = 0;
    let mut check = |state: &str, caller_runs: u64| {
        for policy in policies() {
            pool.set_rejection(policy.clone());
            assert_eq!(format!("{:?}", pool.rejection()), format!("{policy:?}"));
            let (before, runs) = (untouched(pool), ran.get());
            drop(pool.submit(ran.body()));
            refused += 1;
            assert_eq!(pool.stats().rejected, refused, "{state}, {policy:?}");
            let by_caller = if matches!(policy, Rejection::CallerRuns) { caller_runs } else { 0 };
            assert_eq!((ran.get() - runs) as u64, by_caller);
            let mut after = untouched(pool);
            after.completed -= by_caller;
            assert_eq!(before, after, "{state}, {policy:?}");
        }
    };
    check("saturated", 1);
    pool.shutdown();
    check("shut down", 0);
    saturated.release();
    check("terminated", 0);
    assert_eq!(saturated.queued.state(), TaskState::Abandoned, "displaced by the newest");
}

/// TP-037: by default a refusal is an error that returns the closure, unrun and usable.
#[test]
fn a_refused_closure_comes_back_unrun() {
    let saturated = Saturated::new(Rejection::Abort);
    let mut value = vec![1, 2];
    let body = move || {
        value.push(3);
        value
    };
    let refused = saturated.pool.submit(body).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    saturated.release();
    let refused = saturated.pool.submit(refused.into_task()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ShutDown);
    assert_eq!(refused.into_task()(), [1, 2, 3]);
    assert_eq!(saturated.pool.stats().completed, 2);
}

/// TP-038: a discarded task vanishes without an error; its handle says so.
#[test]
fn discarding_is_silent_but_resolves_the_handle() {
    let saturated = Saturated::new(Rejection::Discard);
    let ran = Counter::new();
    for (form, outcome) in submit_in_every_form(&saturated.pool, &ran.body()) {
        assert!(matches!(outcome, Ok(None | Some(TaskState::Abandoned))), "{form}: {outcome:?}");
    }
    let handle = saturated.pool.submit(|| ()).unwrap();
    assert!(matches!(handle.failure(), Some(TaskError::Abandoned(Abandoned::Rejected))));
    saturated.release();
    assert_eq!(ran.get(), 0);
}

/// TP-039: the caller runs what is refused, in its own thread; never early, though, and not for a pool that is
/// shut down: then it gets the closure back.
#[test]
fn the_caller_runs_what_is_due_and_refused() {
    let saturated = Saturated::new(Rejection::CallerRuns);
    let pool = &saturated.pool;
    let handle = pool.submit(|| thread::current().id()).unwrap();
    assert_eq!(handle.try_join().unwrap().unwrap(), thread::current().id());
    let ran = Counter::new();
    for (form, outcome) in submit_in_every_form(pool, &ran.body()) {
        match form {
            "execute" => assert_eq!(outcome, Ok(None)),
            "submit" | "schedule now" | "builder" => assert_eq!(outcome, Ok(Some(TaskState::Succeeded))),
            _ => assert_eq!(outcome, Err(RejectReason::Saturated), "{form}"),
        }
    }
    assert_eq!(ran.get(), 4);
    pool.shutdown();
    for (form, outcome) in submit_in_every_form(pool, &ran.body()) {
        assert_eq!(outcome, Err(RejectReason::ShutDown), "{form}");
    }
    assert_eq!(ran.get(), 4);
    saturated.release();
}

/// TP-040: the oldest waiting task makes way for the new one and never runs; the others do.
#[test]
fn the_oldest_makes_way_for_the_newest() {
    let saturated = Saturated::new(Rejection::DiscardOldest);
    let newest = saturated.pool.submit(|| 7).unwrap();
    assert!(matches!(saturated.queued.failure(), Some(TaskError::Abandoned(Abandoned::Displaced))));
    let queue: Vec<TaskId> = saturated.pool.queue().iter().map(punctual::QueuedTask::id).collect();
    assert_eq!(queue, [newest.id()]);
    assert!(!saturated.running.is_done());
    saturated.release();
    assert_eq!(newest.join().unwrap(), 7);
    assert_eq!(saturated.ran.get(), 0);
}

/// TP-041: on a pool that is shut down it is the new task that is dropped; what waits is left alone.
#[test]
fn nothing_makes_way_after_a_shutdown() {
    let saturated = Saturated::new(Rejection::DiscardOldest);
    saturated.pool.shutdown();
    let newest = saturated.pool.submit(|| ()).unwrap();
    assert!(matches!(newest.failure(), Some(TaskError::Abandoned(Abandoned::Rejected))));
    assert!(saturated.queued.is_queued());
    saturated.release();
    assert_eq!(saturated.ran.get(), 1);
}

/// TP-042: a handler is an ordinary function: called by hand, with a task of any pool, it does what it does, and
/// the pool it is given goes on undisturbed.
#[test]
fn a_handler_can_be_called_by_hand() {
    let (pool, _clock) = manual(1);
    let (other, _other_clock) = manual(1);
    let handle = pool.schedule(HOUR, || thread::current().id()).unwrap();
    let handler = |task: UnrunTask, reason, pool: &Scheduler| {
        assert!(reason == RejectReason::Saturated && !pool.is_shutdown());
        assert!(task.run());
    };
    let handler: &dyn RejectionHandler = &handler;
    let before = other.stats();
    handler.rejected(handle.remove().unwrap(), RejectReason::Saturated, &other);
    assert_eq!(handle.join().unwrap(), thread::current().id());
    assert_eq!(other.stats(), before);
    assert_eq!((pool.stats().rejected, pool.submit(|| 7).unwrap().join().unwrap()), (0, 7));
    finish(&pool);
    finish(&other);
}

/// TP-043: a bounded pool accepts as many tasks as it has threads and places, all of which complete after a
/// shutdown; after a stop those that waited do not.
#[test]
fn a_bounded_pool_accepts_threads_plus_capacity() {
    for stop in [false, true] {
        for (core, max, capacity) in [(1, 1, 1), (1, 3, 2), (2, 2, 0), (0, 2, 4)] {
            let builder = Executor::builder().core_threads(core).max_threads(max).capacity(capacity);
            let pool = builder.clock(ManualClock::new()).build().unwrap();
            let gate = Gate::new();
            let submit = || {
                let gate = gate.clone();
                pool.submit(move || gate.pass())
            };
            let accepted: Vec<TaskHandle<()>> = std::iter::from_fn(|| submit().ok()).take(100).collect();
            assert_eq!(accepted.len(), max + capacity, "{core} to {max} threads, {capacity} places");
            gate.await_arrivals(max);
            assert_eq!(submit().unwrap_err().reason(), RejectReason::Saturated);
            if stop {
                assert_eq!(pool.shutdown_now().len(), capacity);
            } else {
                pool.shutdown();
            }
            gate.open();
            assert!(pool.await_termination(Duration::MAX));
            let succeeded = |handle: &&TaskHandle<()>| handle.state() == TaskState::Succeeded;
            let completed = if stop { max } else { max + capacity };
            assert_eq!(accepted.iter().filter(succeeded).count(), completed);
            assert_eq!(pool.stats().completed as usize, completed);
            assert!(accepted.iter().all(TaskHandle::is_done));
        }
    }
}

/// ST-092: a pool without a capacity is never saturated, however much waits and in whatever form.
#[test]
fn an_unbounded_pool_refuses_nothing() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let ran = Counter::new();
    for _ in 0..500 {
        for (form, outcome) in submit_in_every_form(&pool, &ran.body()) {
            assert!(outcome.is_ok(), "{form}: {outcome:?}");
        }
    }
    assert_eq!((pool.stats().queued, pool.stats().rejected), (500 * FORMS, 0));
    assert_eq!(pool.shutdown_now().len(), 500 * FORMS);
    gate.open();
    blocker.join().unwrap();
    finish(&pool);
}

/// ST-093, ST-094: after a shutdown every form is refused, while a body still runs and after the end, and counts
/// for nothing.
#[test]
fn a_pool_that_is_shut_down_refuses_every_form() {
    for stop in [false, true] {
        let (pool, _clock) = manual(1);
        let (gate, ran) = (Gate::new(), Counter::new());
        let blocker = block_worker(&pool, &gate);
        if stop {
            drop(pool.shutdown_now());
        } else {
            pool.shutdown();
        }
        let refuse = || {
            for (form, outcome) in submit_in_every_form(&pool, &ran.body()) {
                assert_eq!(outcome, Err(RejectReason::ShutDown), "{form}");
            }
        };
        assert!(pool.is_terminating());
        refuse();
        assert_eq!((pool.stats().completed, pool.stats().queued), (0, 0));
        gate.open();
        assert!(pool.await_termination(Duration::MAX));
        refuse();
        assert_eq!((pool.stats().completed, pool.stats().rejected), (1, 2 * FORMS as u64));
        assert!(blocker.is_done());
        assert_eq!(ran.get(), 0);
    }
}
