//! Hooks round runs and threads.

use std::panic::panic_any;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use punctual::{
    Builder, Executor, ManualClock, Observer, Panic, Place, RunOutcome, TaskError, TaskId, TaskInfo,
    TaskState,
};

use crate::spawner::Flaky;
use crate::support::{Counter, Gate, Log, Probe, STEP, block_worker, finish};

/// What an observer was told, by which thread.
type Entry = (&'static str, Option<TaskId>, String, ThreadId);

/// Keeps all it is told, and panics where it is told to.
#[derive(Clone)]
struct Recorder {
    log: Log<Entry>,
    panics_in: &'static [&'static str],
    /// The pool, for hooks that look at it.
    pool: Arc<Mutex<Option<Executor>>>,
    seen: Log<String>,
}

impl Recorder {
    fn new(panics_in: &'static [&'static str]) -> Self {
        Self { log: Log::new(), panics_in, pool: Arc::default(), seen: Log::new() }
    }

    fn add(&self, hook: &'static str, id: Option<TaskId>, text: String) {
        self.log.add((hook, id, text, thread::current().id()));
        let pool = self.pool.lock().unwrap().clone();
        if let Some(pool) = pool {
            let (shutdown, ending, over) = (pool.is_shutdown(), pool.is_terminating(), pool.is_terminated());
            let waited = pool.await_termination(Duration::ZERO);
            self.seen.add(format!("{hook} {shutdown} {ending} {over} {waited} {}", pool.stats().pool_size));
        }
        if self.panics_in.contains(&hook) {
            panic!("{hook} is broken");
        }
    }

    fn count(&self, hook: &str) -> usize {
        self.log.entries().iter().filter(|entry| entry.0 == hook).count()
    }

    /// Every (hook, text) in order.
    fn events(&self) -> Vec<(&'static str, String)> {
        self.log.entries().into_iter().map(|(hook, _, text, _)| (hook, text)).collect()
    }
}

impl Observer for Recorder {
    fn before_run(&self, task: TaskInfo<'_>) {
        self.add("before", Some(task.id()), String::new());
    }

    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        let text = match outcome {
            RunOutcome::Panicked(panic) => panic.message().to_owned(),
            _ => "returned".to_owned(),
        };
        self.add("after", Some(task.id()), text);
    }

    fn terminated(&self) {
        self.add("terminated", None, String::new());
    }

    fn worker_started(&self) {
        self.add("started", None, String::new());
    }

    fn worker_stopped(&self) {
        self.add("stopped", None, String::new());
    }

    fn contained(&self, place: Place, panic: &Panic) {
        self.add("contained", None, format!("{place:?}: {panic}"));
    }
}

fn observed(builder: Builder, panics_in: &'static [&'static str]) -> (Executor, Recorder) {
    let recorder = Recorder::new(panics_in);
    (builder.observer(recorder.clone()).build().unwrap(), recorder)
}

/// TP-054: each run has a hook before it and one after it, on the thread of the body, and the second comes
/// before anybody has the outcome. Workers begin and end with hooks of their own.
#[test]
fn hooks_come_round_each_run_on_the_thread_of_the_body() {
    let clock = ManualClock::new();
    let (pool, recorder) = observed(Executor::builder().clock(clock.clone()), &[]);
    let log = recorder.log.clone();
    let body = move || log.add(("body", None, String::new(), thread::current().id()));
    let once = pool.submit(body.clone()).unwrap();
    once.join().unwrap();
    let expected = ["started", "before", "body", "after"];
    let hooks = || recorder.log.entries().iter().map(|entry| entry.0).collect::<Vec<_>>();
    assert_eq!(hooks(), expected, "complete when the outcome is there");
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, body).unwrap();
    clock.advance(2 * STEP);
    finish(&pool);
    let again = ["before", "body", "after", "before", "body", "after", "stopped", "terminated"];
    assert_eq!(hooks(), [&expected[..], &again[..]].concat());
    let entries = recorder.log.entries();
    assert!(entries.iter().all(|entry| entry.3 == entries[0].3 && entry.3 != thread::current().id()));
    let ids: Vec<TaskId> = entries.iter().filter_map(|entry| entry.1).collect();
    let (once, beat) = (once.id(), beat.id());
    assert_eq!(ids, [once, once, beat, beat, beat, beat]);
}

/// TP-055, TP-056: the terminated hook is called once, before the pool counts as terminated and after its last
/// thread has gone; on a pool that never had a thread, by the call that shut it down.
#[test]
fn the_terminated_hook_is_called_once_and_just_before_the_end() {
    for threads in [0, 2] {
        let (pool, recorder) = observed(Executor::builder().core_threads(threads), &[]);
        assert_eq!(pool.prestart_all_core_threads(), threads);
        *recorder.pool.lock().unwrap() = Some(pool.clone());
        pool.shutdown();
        if threads == 0 {
            assert_eq!(recorder.events(), [("terminated", String::new())], "when shutdown returns");
        }
        drop(pool.shutdown_now());
        assert!(pool.await_termination(Duration::MAX));
        pool.shutdown();
        drop(pool.shutdown_now());
        assert!(pool.is_terminated());
        recorder.pool.lock().unwrap().take();
        assert_eq!(recorder.count("terminated"), 1);
        assert_eq!(recorder.events().last().unwrap().0, "terminated");
        assert_eq!(recorder.seen.entries().last().unwrap(), "terminated true true false false 0");
    }
}

/// TP-062: while any hook runs the pool is not terminated, though it has been shut down.
#[test]
fn nothing_is_terminated_while_a_hook_runs() {
    let (pool, recorder) = observed(Executor::builder(), &[]);
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    let queued = pool.submit(|| ()).unwrap();
    pool.shutdown();
    *recorder.pool.lock().unwrap() = Some(pool.clone());
    gate.open();
    blocked.join().unwrap();
    queued.join().unwrap();
    assert!(pool.await_termination(Duration::MAX));
    recorder.pool.lock().unwrap().take();
    let seen = recorder.seen.entries();
    assert!(seen.iter().all(|state| state.contains(" true true false false ")), "{seen:?}");
    let hooks: Vec<&str> = seen.iter().map(|state| state.split_once(' ').unwrap().0).collect();
    assert_eq!(hooks, ["after", "before", "after", "stopped", "terminated"]);
}

/// The ways in which a hook or a body may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Nothing,
    Text,
    Formatted,
    Number,
    Fault,
}

const KINDS: [Kind; 5] = [Kind::Nothing, Kind::Text, Kind::Formatted, Kind::Number, Kind::Fault];

fn raise(kind: Kind) {
    match kind {
        Kind::Nothing => {}
        Kind::Text => panic!("text"),
        Kind::Formatted => panic_any(format!("text {}", 2)),
        Kind::Number => panic_any(3_u64),
        Kind::Fault => drop([4][std::hint::black_box(1_usize).min(1) + 1..].to_vec()),
    }
}

fn is_of(kind: Kind, panic: &Panic) -> bool {
    match kind {
        Kind::Nothing => false,
        Kind::Text => panic.message() == "text",
        Kind::Formatted => panic.message() == "text 2",
        Kind::Number => panic.with_payload::<u64, _>(|number| *number == 3) == Some(true),
        Kind::Fault => panic.message().contains("out of range"),
    }
}

/// Raises before a run what the task's name says.
#[derive(Clone)]
struct Raising {
    before: Counter,
    after: Log<(TaskId, Option<Panic>)>,
    contained: Log<Place>,
}

impl Observer for Raising {
    fn before_run(&self, task: TaskInfo<'_>) {
        self.before.hit();
        let kind = KINDS.into_iter().find(|kind| task.name() == Some(&format!("{kind:?}")));
        raise(kind.unwrap());
    }

    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        let panic = match outcome {
            RunOutcome::Panicked(panic) => Some(panic.clone()),
            _ => None,
        };
        self.after.add((task.id(), panic));
    }

    fn contained(&self, place: Place, _: &Panic) {
        self.contained.add(place);
    }
}

/// TP-057, TP-085: every combination of what a hook and a body may raise, on ten workers. Bodies and after-hooks
/// run where the before-hook passed; each handle and each hook has exactly what was raised; no worker dies for
/// it, so none is replaced, and all runs are counted.
#[test]
fn whatever_is_raised_arrives_where_it_belongs() {
    let raising = Raising { before: Counter::new(), after: Log::new(), contained: Log::new() };
    let spawner = Flaky::new();
    let builder = Executor::builder().core_threads(10).spawner(spawner.clone());
    let pool = builder.observer(raising.clone()).build().unwrap();
    assert_eq!(pool.prestart_all_core_threads(), 10);
    let bodies = Counter::new();
    let pairs: Vec<(Kind, Kind)> =
        KINDS.into_iter().flat_map(|hook| KINDS.map(|body| (hook, body))).collect();
    let handles: Vec<_> = pairs
        .iter()
        .map(|&(hook, body)| {
            let bodies = bodies.clone();
            let run = move || {
                bodies.hit();
                raise(body);
            };
            pool.task(run).name(format!("{hook:?}")).start().unwrap()
        })
        .collect();
    for (&(hook, body), handle) in pairs.iter().zip(&handles) {
        handle.wait().unwrap();
        let ok = match (handle.failure(), hook, body) {
            (Some(TaskError::HookPanicked(panic)), hook, _) => is_of(hook, &panic),
            (Some(TaskError::Panicked(panic)), Kind::Nothing, body) => is_of(body, &panic),
            (None, Kind::Nothing, Kind::Nothing) => true,
            _ => false,
        };
        assert!(ok, "{hook:?}, {body:?}: {handle:?}");
    }
    assert_eq!((raising.before.get(), bodies.get()), (25, 5));
    let after = raising.after.entries();
    assert_eq!(after.len(), 5);
    for (id, panic) in after {
        let index = handles.iter().position(|handle| handle.id() == id).unwrap();
        let (hook, body) = pairs[index];
        assert_eq!(hook, Kind::Nothing);
        assert!(panic.map_or(body == Kind::Nothing, |panic| is_of(body, &panic)));
    }
    assert_eq!(raising.contained.entries(), [Place::BeforeRun; 20]);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.pool_size, stats.largest_pool_size), (25, 10, 10));
    assert_eq!(spawner.asked.get(), 10);
    finish(&pool);
}

/// TP-058: a task whose before-hook panics is not run and counts as completed; its handle has the hook's panic,
/// its closure is dropped, a series ends with it, and the worker lives on.
#[test]
fn a_task_whose_hook_panics_resolves_with_that_panic() {
    let clock = ManualClock::new();
    let (pool, recorder) = observed(Executor::builder().clock(clock.clone()), &["before"]);
    let ((probe, captured), runs) = (Probe::new(), Counter::new());
    let once = pool.submit(move || drop(captured)).unwrap();
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    clock.advance(5 * STEP);
    for handle in [&once, &beat] {
        let failure = handle.failure().unwrap();
        assert!(matches!(&failure, TaskError::HookPanicked(panic) if panic.message() == "before is broken"));
        assert_eq!(handle.state(), TaskState::Failed);
    }
    assert!(probe.is_dropped());
    assert_eq!((runs.get(), recorder.count("after"), recorder.count("before")), (0, 0, 2));
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.pool_size, stats.queued), (2, 1, 0));
    assert_eq!(recorder.count("started"), 1);
    finish(&pool);
}

/// TP-059: an after-hook that panics changes nothing: outcomes stand, a series goes on, the worker lives.
#[test]
fn an_after_hook_that_panics_changes_nothing() {
    let clock = ManualClock::new();
    let (pool, recorder) = observed(Executor::builder().clock(clock.clone()), &["after"]);
    let runs = Counter::new();
    let once = pool.submit(|| 7).unwrap();
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    clock.advance(3 * STEP);
    assert_eq!(once.join().unwrap(), 7);
    assert_eq!((runs.get(), beat.is_done()), (3, false));
    let told = ("contained", "AfterRun: after is broken".to_owned());
    assert_eq!(recorder.events().iter().filter(|event| **event == told).count(), 4);
    assert_eq!((pool.stats().completed, recorder.count("started")), (4, 1));
    finish(&pool);
}

/// TP-060: the after-hook is told how the body ended, however the task came in.
#[test]
fn the_after_hook_has_the_outcome_of_every_kind_of_task() {
    let clock = ManualClock::new();
    let (pool, recorder) = observed(Executor::builder().clock(clock.clone()), &[]);
    pool.execute(|| panic!("execute")).unwrap();
    drop(
        pool.submit(|| {
            if true {
                panic!("submit")
            }
        })
        .unwrap(),
    );
    drop(pool.schedule(STEP, || panic!("schedule")).unwrap());
    let (mut rate, mut delay) = (0, 0);
    let tell = |runs: &mut u32, text: &str| {
        *runs += 1;
        assert!(*runs < 2, "{text}");
    };
    drop(pool.schedule_at_fixed_rate(2 * STEP, 4 * STEP, move || tell(&mut rate, "rate")).unwrap());
    drop(pool.schedule_with_fixed_delay(3 * STEP, 4 * STEP, move || tell(&mut delay, "delay")).unwrap());
    clock.advance(20 * STEP);
    let outcomes: Vec<String> =
        recorder.events().into_iter().filter(|event| event.0 == "after").map(|event| event.1).collect();
    assert_eq!(outcomes, ["execute", "submit", "schedule", "returned", "returned", "rate", "delay"]);
    finish(&pool);
}

/// TP-061: a terminated hook that panics is told of like any other, and the pool is terminated all the same; the
/// panic does not reach whoever shut it down. Nor do panics of the worker hooks, even where the hook that is
/// told of panics is itself broken.
#[test]
fn hooks_of_threads_and_of_the_end_may_panic() {
    let (pool, recorder) = observed(Executor::builder(), &["terminated"]);
    pool.shutdown();
    assert!(pool.is_terminated());
    let told = ("contained", "Terminated: terminated is broken".to_owned());
    assert_eq!(recorder.events(), [("terminated", String::new()), told]);

    let (pool, recorder) = observed(Executor::builder(), &["started", "stopped", "terminated", "contained"]);
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    finish(&pool);
    let told: Vec<String> =
        recorder.events().into_iter().filter(|event| event.0 == "contained").map(|event| event.1).collect();
    let expected =
        ["Worker: started is broken", "Worker: stopped is broken", "Terminated: terminated is broken"];
    assert_eq!(told, expected);
    assert_eq!(recorder.count("terminated"), 1);
}

/// TP-071: a body that panics costs no worker: its payload is told to the after-hook, and the next task runs on
/// the same thread.
#[test]
fn a_panic_in_a_body_costs_no_worker() {
    let spawner = Flaky::new();
    let (pool, recorder) = observed(Executor::builder().spawner(spawner.clone()), &[]);
    let first = pool.submit(|| thread::current().id()).unwrap().join().unwrap();
    pool.execute(|| panic!("raw")).unwrap();
    assert_eq!(pool.submit(|| thread::current().id()).unwrap().join().unwrap(), first);
    let after: Vec<String> =
        recorder.events().into_iter().filter(|event| event.0 == "after").map(|event| event.1).collect();
    assert_eq!(after, ["returned", "raw", "returned"]);
    assert_eq!((spawner.asked.get(), pool.stats().completed), (1, 3));
    finish(&pool);
}

/// TP-063: since no worker dies of a panic none is replaced, neither above the core size nor while the pool stops.
#[test]
fn no_worker_is_replaced() {
    let spawner = Flaky::new();
    let builder = Executor::builder().core_threads(1).max_threads(3).spawner(spawner.clone());
    let (pool, recorder) = observed(builder, &[]);
    let gate = Gate::new();
    let doomed = |gate: &Gate| {
        let gate = gate.clone();
        pool.submit(move || {
            gate.pass();
            panic!("doomed");
        })
    };
    let handles: Vec<_> = (0..3).map(|_| doomed(&gate).unwrap()).collect();
    gate.await_arrivals(3);
    gate.open();
    assert!(handles.iter().all(|handle| handle.join().is_err()));
    assert_eq!((pool.stats().pool_size, spawner.asked.get()), (3, 3));
    let last = Gate::new();
    let handle = doomed(&last).unwrap();
    last.await_arrivals(1);
    drop(pool.shutdown_now());
    last.open();
    assert!(handle.join().is_err());
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!((spawner.asked.get(), recorder.count("started"), recorder.count("stopped")), (3, 3, 3));
}
