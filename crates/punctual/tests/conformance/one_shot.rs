//! Tasks that run once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use punctual::{
    Decoration, Executor, FutureTask, Interrupted, Observer, Panic, Place, RejectReason, Rejection,
    Remaining, RunOutcome, Schedule, TaskContext, TaskHandle, TaskInfo, TaskState, WaitError,
};

use crate::support::{
    Counter, Gate, HOUR, Log, PATIENCE, SHORT, STEP, block_worker, elapsed, finish, look_round, manual,
};

const NANO: Duration = Duration::from_nanos(1);

/// ST-011: a task given to `execute` runs, and it does so on a thread of the pool.
#[test]
fn an_executed_task_runs_on_a_thread_of_the_pool() {
    let pool = Executor::builder().core_threads(1).thread_name("mine").build().unwrap();
    let (sender, receiver) = mpsc::channel();
    pool.execute(move || sender.send(std::thread::current().name().map(str::to_owned)).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap(), "mine-thread-1");
    finish(&pool);
}

/// ST-012: the value comes out, and neither the body nor the return of a wait happens before the delay.
#[test]
fn a_delayed_value_is_neither_early_nor_lost() {
    let (pool, clock) = manual(1);
    let handle = pool.schedule(STEP, || 7).unwrap();
    clock.advance(STEP - NANO);
    look_round(&pool, &clock);
    assert!(!handle.is_done());
    assert!(handle.try_join().is_none());
    clock.advance(NANO);
    assert_eq!(handle.join().unwrap(), 7);
    drop(pool.schedule(HOUR, || ()).unwrap());
    finish(&pool);
}

/// ST-012, ST-013: in real time, too, an untimed wait for a value or for unit returns no earlier than the delay
/// after just before the task was scheduled.
#[test]
fn a_wait_in_real_time_is_as_long_as_the_delay() {
    let pool = Executor::new(1);
    let (waited, value) = elapsed(|| pool.schedule(SHORT, || 7).unwrap().join());
    assert_eq!(value.unwrap(), 7);
    assert!(waited >= SHORT, "{waited:?}");
    let ran = Counter::new();
    let (waited, unit) = elapsed(|| pool.schedule(SHORT, ran.body()).unwrap().join());
    assert_eq!((unit.unwrap(), ran.get()), ((), 1));
    assert!(waited >= SHORT, "{waited:?}");
    finish(&pool);
}

/// ST-013: a task without a value runs when its delay is over, once, and a wait for it gives unit.
#[test]
fn a_delayed_task_without_a_value_runs_at_its_time() {
    let (pool, clock) = manual(2);
    let ran = Counter::new();
    let handle = pool.schedule(STEP, ran.body()).unwrap();
    clock.advance(STEP - NANO);
    look_round(&pool, &clock);
    assert_eq!(ran.get(), 0);
    clock.advance(NANO);
    assert_eq!(ran.get(), 1);
    assert_eq!(handle.join().unwrap(), ());
    clock.advance(HOUR);
    assert_eq!(ran.get(), 1);
    finish(&pool);
}

/// ST-014, TP-015, AE-002: a submitted body's own value comes out: a value, unit, or the very object it was
/// given to return; `execute` just runs.
#[test]
fn a_submitted_body_yields_what_it_returns() {
    let pool = Executor::new(2);
    assert_eq!(pool.submit(|| "value").unwrap().join().unwrap(), "value");

    let ran = Counter::new();
    let unit = pool.submit(ran.body()).unwrap();
    assert_eq!(unit.join().unwrap(), ());
    assert!(unit.is_done() && !unit.is_cancelled());
    assert_eq!((ran.get(), unit.state()), (1, TaskState::Succeeded));

    let object = Arc::new(());
    let (mut run, result) = (ran.body(), Arc::clone(&object));
    let same = pool.submit(move || {
        run();
        result
    });
    assert!(Arc::ptr_eq(&same.unwrap().join().unwrap(), &object));
    assert_eq!(ran.get(), 2);

    let (sender, receiver) = mpsc::channel();
    pool.execute(move || sender.send("executed").unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), "executed");
    finish(&pool);
}

/// A future as a user might write it: its own lock, its own condition, its own idea of cancelling.
#[derive(Default)]
struct Promise {
    outcome: Mutex<Option<Result<u32, &'static str>>>,
    settled: Condvar,
}

impl Promise {
    /// False if it was settled before.
    fn settle(&self, outcome: Result<u32, &'static str>) -> bool {
        let mut slot = self.outcome.lock().unwrap();
        let first = slot.is_none();
        slot.get_or_insert(outcome);
        self.settled.notify_all();
        first
    }

    fn get(&self) -> Result<u32, &'static str> {
        let slot = self.settled.wait_while(self.outcome.lock().unwrap(), |slot| slot.is_none()).unwrap();
        slot.expect("waited for")
    }
}

/// TP-015: futures that are not the pool's own, one from this crate and one with its own lock, condition and
/// cancelling, are served by it just the same.
#[test]
fn a_pool_runs_futures_of_another_make() {
    let pool = Executor::new(1);
    let future = Arc::new(FutureTask::new(|| 7));
    let runner = Arc::clone(&future);
    pool.execute(move || assert!(runner.run())).unwrap();
    assert_eq!(future.join().unwrap(), 7);

    let promise = Arc::new(Promise::default());
    let kept = Arc::clone(&promise);
    let settled = pool.submit(move || kept.settle(Ok(8))).unwrap();
    assert_eq!(promise.get(), Ok(8));
    assert!(settled.join().unwrap());

    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let promise = Arc::new(Promise::default());
    let late = Arc::clone(&promise);
    let settled = pool.submit(move || late.settle(Ok(9))).unwrap();
    assert!(promise.settle(Err("cancelled")));
    gate.open();
    blocker.join().unwrap();
    assert!(!settled.join().unwrap());
    assert_eq!(promise.get(), Err("cancelled"));
    finish(&pool);
}

/// ST-015: `execute` and `submit` are schedules without delay: queue and drained list have them as one-shot tasks
/// that are due, under the ids of their handles.
#[test]
fn an_immediate_task_waits_as_a_task_that_is_due() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    pool.execute(|| ()).unwrap();
    let submitted = pool.submit(|| 7).unwrap();
    let scheduled = pool.schedule(Duration::ZERO, || 8).unwrap();

    let queued = pool.queue();
    assert_eq!(queued.len(), 3);
    for task in &queued {
        assert_eq!((task.schedule(), task.remaining()), (Schedule::Once, Remaining::Overdue(Duration::ZERO)));
    }
    assert_eq!((queued[1].id(), queued[2].id()), (submitted.id(), scheduled.id()));
    clock.jump(STEP);
    assert!(pool.queue().iter().all(|task| task.remaining() == Remaining::Overdue(STEP)));

    let drained = pool.shutdown_now();
    assert_eq!(drained.len(), 3);
    for (task, seen) in drained.iter().zip(&queued) {
        assert_eq!((task.id(), task.remaining()), (seen.id(), Remaining::Overdue(STEP)));
        assert!(!task.is_periodic());
    }
    drop(drained);
    gate.open();
    blocker.join().unwrap();
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-016: before it has run a task is neither done nor cancelled, whether it waits for its time or for a worker.
#[test]
fn a_task_that_waits_is_neither_done_nor_cancelled() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    let (due, delayed) = (pool.submit(|| ()).unwrap(), pool.schedule(STEP, || ()).unwrap());
    let rate = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    for handle in [&due, &delayed, &rate] {
        assert!(!handle.is_done() && !handle.is_cancelled());
        assert_eq!(handle.state(), TaskState::Waiting);
        assert!(handle.failure().is_none() && handle.try_join().is_none());
    }
    assert!(!running.is_done() && !running.is_cancelled());
    assert_eq!(running.state(), TaskState::Running);
    gate.open();
    due.join().unwrap();
    finish(&pool);
}

/// ST-017: the remaining delay shrinks with time, is over when the task is due, and grows on the other side, also
/// after the task has ended.
#[test]
fn the_remaining_delay_goes_on_past_the_deadline() {
    let (pool, clock) = manual(1);
    let handle = pool.schedule(2 * STEP, || ()).unwrap();
    assert_eq!(handle.remaining(), Remaining::In(2 * STEP));
    clock.advance(STEP);
    assert_eq!(handle.remaining(), Remaining::In(STEP));
    clock.advance(STEP - NANO);
    assert_eq!(handle.remaining(), Remaining::In(NANO));
    assert!(!handle.remaining().is_due());
    clock.advance(NANO);
    assert!(handle.is_done());
    assert_eq!(handle.remaining(), Remaining::Overdue(Duration::ZERO));
    assert!(handle.remaining().is_due());
    clock.advance(3 * STEP);
    assert_eq!(handle.remaining(), Remaining::Overdue(3 * STEP));
    assert_eq!(handle.remaining().duration(), Duration::ZERO);

    let gate = Gate::new();
    drop(block_worker(&pool, &gate));
    let kept_waiting = pool.submit(|| ()).unwrap();
    clock.jump(STEP);
    assert_eq!(kept_waiting.remaining(), Remaining::Overdue(STEP));
    gate.open();
    finish(&pool);
}

/// Sees panics and threads.
#[derive(Clone)]
struct Witness {
    panics: Log<String>,
    contained: Counter,
    started: Counter,
    stopped: Counter,
}

impl Observer for Witness {
    fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        if let RunOutcome::Panicked(panic) = outcome {
            self.panics.add(panic.message().to_owned());
        }
    }

    fn worker_started(&self) {
        self.started.hit();
    }

    fn worker_stopped(&self) {
        self.stopped.hit();
    }

    fn contained(&self, _: Place, _: &Panic) {
        self.contained.hit();
    }
}

/// ST-018: a panic in an executed task is its outcome and nothing more: the worker survives it, no thread
/// is replaced. The observer is told.
#[test]
fn a_panic_in_an_executed_task_costs_no_thread() {
    let witness = Witness {
        panics: Log::new(),
        contained: Counter::new(),
        started: Counter::new(),
        stopped: Counter::new(),
    };
    let pool = Executor::builder().core_threads(1).observer(witness.clone()).build().unwrap();
    let thread = || pool.submit(|| std::thread::current().id()).unwrap().join().unwrap();
    let before = thread();
    pool.execute(|| panic!("at work")).unwrap();
    assert_eq!(thread(), before);
    assert_eq!(witness.panics.entries(), ["at work"]);
    assert_eq!((witness.started.get(), witness.stopped.get(), witness.contained.get()), (1, 0, 0));
    assert_eq!(pool.stats().largest_pool_size, 1);
    assert_eq!(pool.stats().completed, 3);
    finish(&pool);
}

/// Records that it was run, and is held at a gate before the body.
struct Recorded(Log<&'static str>, Gate);

impl Decoration for Recorded {
    fn run(&mut self, body: &mut dyn FnMut()) {
        self.0.add("entered");
        self.1.pass();
        body();
        self.0.add("left");
    }
}

/// ST-019: with every task wrapped the values are the same, and no wait returns before the wrapper has run.
#[test]
fn a_wrapped_task_is_done_only_when_its_wrapper_has_run() {
    let (log, gate) = (Log::new(), Gate::new());
    let (inner, held) = (log.clone(), gate.clone());
    let pool = Executor::builder()
        .core_threads(1)
        .decorator(move |_: TaskInfo<'_>| {
            Some(Box::new(Recorded(inner.clone(), held.clone())) as Box<dyn Decoration>)
        })
        .build()
        .unwrap();
    let mut body = log.body("body");
    let first = pool.submit(move || {
        body();
        7
    });
    let first = first.unwrap();
    gate.await_arrivals(1);
    assert!(!first.is_done());
    assert!(first.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
    gate.open();
    assert_eq!(first.join().unwrap(), 7);
    let mut expected = vec!["entered", "body", "left"];
    assert_eq!(log.entries(), expected);

    assert_eq!(pool.schedule(NANO, log.body("delayed")).unwrap().join().unwrap(), ());
    expected.extend(["entered", "delayed", "left"]);
    assert_eq!(log.entries(), expected);

    pool.execute(log.body("executed")).unwrap();
    assert_eq!(pool.submit(|| 8).unwrap().join().unwrap(), 8);
    expected.extend(["entered", "executed", "left", "entered", "left"]);
    assert_eq!(log.entries(), expected);
    finish(&pool);
}

/// TP-016: one and the same closure may be submitted any number of times, also after it was refused: a thousand
/// submissions, tried again until they are accepted, are a thousand runs.
#[test]
fn a_refused_closure_may_be_submitted_again() {
    let pool = Executor::builder().core_threads(1).max_threads(2).capacity(3).build().unwrap();
    let ran = Counter::new();
    let counted = ran.clone();
    let shared: Arc<dyn Fn() + Send + Sync> = Arc::new(move || counted.hit());
    let gate = Gate::new();
    drop(block_worker(&pool, &gate));
    let mut refusals = 0;
    for _ in 0..1000 {
        let again = Arc::clone(&shared);
        let mut task = move || again();
        while let Err(refused) = pool.execute(task) {
            assert_eq!(refused.reason(), RejectReason::Saturated);
            task = refused.into_task();
            refusals += 1;
            gate.open();
            std::thread::yield_now();
        }
    }
    gate.open();
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!((ran.get(), pool.stats().rejected), (1000, refusals));
}

/// AE-001: where the caller itself runs the task, a submission returns with the task done: waits with and without
/// time return at once, and nothing is cancelled. Here the caller runs what a saturated pool refuses.
#[test]
fn a_task_run_by_its_submitter_is_done_when_the_submission_returns() {
    let pool =
        Executor::builder().core_threads(1).capacity(0).rejection(Rejection::CallerRuns).build().unwrap();
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let ran = Arc::new(AtomicBool::new(false));
    let inner = Arc::clone(&ran);
    let unit = pool.submit(move || inner.store(true, Ordering::Relaxed)).unwrap();
    assert!(ran.load(Ordering::Relaxed));
    assert!(unit.is_done() && !unit.is_cancelled());
    unit.wait_timeout(Duration::ZERO).unwrap();
    assert_eq!(unit.join().unwrap(), ());
    let timed = pool.submit(|| std::thread::current().id()).unwrap();
    assert_eq!(timed.join_timeout(Duration::ZERO).unwrap(), std::thread::current().id());

    let task = FutureTask::new(|| ());
    assert!(task.run());
    assert!(task.is_done() && !task.is_cancelled());
    assert_eq!(task.join_timeout(Duration::ZERO).unwrap(), ());
    gate.open();
    blocker.join().unwrap();
    finish(&pool);
}

/// AE-003: a failure comes out of a wait with the very object the body failed with.
#[test]
fn a_failure_carries_the_original_payload() {
    let pool = Executor::new(1);
    let cause = Arc::new(());
    let thrown = Arc::clone(&cause);
    let failing: TaskHandle<()> = pool.submit(move || std::panic::panic_any(thrown)).unwrap();
    let error = failing.join().unwrap_err();
    let panic = error.panic().unwrap();
    assert_eq!(panic.with_payload(|payload: &Arc<()>| Arc::ptr_eq(payload, &cause)), Some(true));
    assert!(failing.is_done() && !failing.is_cancelled());

    let own = pool.submit(|| Err::<(), _>(Arc::new("own"))).unwrap();
    assert_eq!(*own.join().unwrap().unwrap_err(), "own");
    finish(&pool);
}

/// AE-004: whoever is interrupted while waiting for a task is released; the task waited for goes on to its end.
#[test]
fn an_interrupted_waiter_leaves_and_the_task_goes_on() {
    let (pool, clock) = manual(2);
    let endless = Arc::new(pool.submit(|| TaskContext::current().sleep(HOUR)).unwrap());
    let (sender, receiver) = mpsc::channel();
    let waited_for = Arc::clone(&endless);
    let waiter = pool.submit(move || sender.send(waited_for.wait()).unwrap()).unwrap();
    // At rest both workers are blocked: one in its sleep, one in its wait.
    clock.wait_until_idle();
    assert_eq!((waiter.state(), endless.state()), (TaskState::Running, TaskState::Running));
    assert!(waiter.interrupt());
    assert!(matches!(receiver.recv_timeout(PATIENCE).unwrap(), Err(WaitError::Interrupted)));
    clock.wait_until_idle();
    assert_eq!(endless.state(), TaskState::Running);
    clock.advance(HOUR);
    assert_eq!(endless.join().unwrap(), Ok(()));
    finish(&pool);
}

/// NX-001: after a shutdown each way to submit is refused, and nothing of it runs.
#[test]
fn after_a_shutdown_every_submission_is_refused() {
    let stopped: [fn(&Executor); 2] = [|pool| pool.shutdown(), |pool| drop(pool.shutdown_now())];
    for stop in stopped {
        let pool = Executor::new(1);
        pool.submit(|| ()).unwrap().join().unwrap();
        stop(&pool);
        let ran = Counter::new();
        let reasons = [
            pool.execute(ran.body()).unwrap_err().reason(),
            pool.submit(ran.body()).unwrap_err().reason(),
            pool.submit(|| 7).unwrap_err().reason(),
            pool.schedule(STEP, ran.body()).unwrap_err().reason(),
            pool.schedule_at_fixed_rate(STEP, STEP, ran.body()).unwrap_err().reason(),
            pool.schedule_with_fixed_delay(STEP, STEP, ran.body()).unwrap_err().reason(),
        ];
        assert_eq!(reasons, [RejectReason::ShutDown; 6]);
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!((ran.get(), pool.stats().rejected), (0, 6));
    }
}

/// NX-002: a stop interrupts what runs, however it was submitted.
#[test]
fn a_stop_interrupts_a_running_task_however_it_was_submitted() {
    type Nap = Box<dyn FnMut() + Send>;
    let ways: [fn(&Executor, Nap); 7] = [
        |pool, nap| pool.execute(nap).unwrap(),
        |pool, nap| drop(pool.submit(nap).unwrap()),
        |pool, mut nap| drop(pool.submit(move || (nap(), 7)).unwrap()),
        |pool, nap| drop(pool.schedule(STEP, nap).unwrap()),
        |pool, nap| drop(pool.schedule_at_fixed_rate(Duration::ZERO, STEP, nap).unwrap()),
        |pool, nap| drop(pool.schedule_with_fixed_delay(Duration::ZERO, STEP, nap).unwrap()),
        |pool, nap| drop(pool.submit_with_timeout(2 * HOUR, nap).unwrap()),
    ];
    for submit in ways {
        let (pool, clock) = manual(1);
        let (sender, receiver) = mpsc::channel();
        let nap = move || sender.send(TaskContext::current().sleep(HOUR)).unwrap();
        submit(&pool, Box::new(nap));
        clock.advance(STEP);
        assert_eq!(pool.stats().active, 1);
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(pool.shutdown_now());
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), Err(Interrupted));
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(receiver.iter().count(), 0);
    }
}
