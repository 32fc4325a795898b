//! Wrapped tasks.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual::{
    Abandoned, CompletionQueue, Decoration, Decorator, Executor, Keep, Leftover, ManualClock, TaskError,
    TaskId, TaskInfo,
};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, block_worker, finish};

/// What was done to whom.
type Event = (&'static str, TaskId);

/// Wraps every task and keeps a record of it.
#[derive(Clone)]
struct Recording(Log<Event>);

impl Recording {
    fn new() -> Self {
        Self(Log::new())
    }

    /// The ids with which `event` happened, in order.
    fn ids(&self, event: &str) -> Vec<TaskId> {
        self.0.entries().into_iter().filter(|entry| entry.0 == event).map(|entry| entry.1).collect()
    }
}

impl Decorator for Recording {
    fn decorate(&self, task: TaskInfo<'_>) -> Option<Box<dyn Decoration>> {
        self.0.add(("decorate", task.id()));
        Some(Box::new(Wrapper { log: self.0.clone(), id: task.id() }))
    }
}

struct Wrapper {
    log: Log<Event>,
    id: TaskId,
}

impl Decoration for Wrapper {
    fn run(&mut self, body: &mut dyn FnMut()) {
        self.log.add(("run", self.id));
        body();
        self.log.add(("ran", self.id));
    }

    fn cancelled(&mut self) {
        self.log.add(("cancelled", self.id));
    }
}

fn decorated(threads: usize) -> (Executor, ManualClock, Recording) {
    let (clock, recording) = (ManualClock::new(), Recording::new());
    let builder = Executor::builder().core_threads(threads).clock(clock.clone());
    (builder.decorator(recording.clone()).build().unwrap(), clock, recording)
}

/// ST-105, TP-081: every task is decorated exactly once, whichever way it enters, and the decorated task is the
/// one in the handle, in the queue and among what a stop returns.
#[test]
fn each_task_is_decorated_once_and_keeps_its_identity() {
    let (pool, clock, recording) = decorated(1);
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    pool.execute(|| ()).unwrap();
    let submitted: Vec<_> = (0..10).map(|n| pool.submit(move || n).unwrap()).collect();
    let once = pool.schedule(HOUR, || 7).unwrap();
    let rate = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let delay = pool.schedule_with_fixed_delay(HOUR, HOUR, || ()).unwrap();
    let named = pool.task(|| ()).name("named").after(HOUR).start().unwrap();
    let far = [once.id(), rate.id(), delay.id(), named.id()];
    let made = recording.ids("decorate");
    assert_eq!(made.len(), 16);
    assert!(made.is_sorted() && made.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(made[0], blocked.id());
    assert!(submitted.iter().map(punctual::TaskHandle::id).eq(made[2..12].iter().copied()));
    assert_eq!(made[12..], far);
    gate.open();
    clock.wait_until_idle();
    assert!(submitted.iter().enumerate().all(|(n, handle)| handle.join().unwrap() == n));
    assert_eq!(recording.ids("run"), made[..12], "each through its decoration, once");

    let queued: Vec<TaskId> = pool.queue().iter().map(punctual::QueuedTask::id).collect();
    assert_eq!(queued, far);
    let mut drained = pool.shutdown_now();
    assert!(drained.iter().map(punctual::UnrunTask::id).eq(far));
    assert!(drained.remove(0).run());
    assert_eq!(once.join().unwrap(), 7);
    assert_eq!(recording.ids("run")[12..], [once.id()], "also when somebody else runs it");
    drop(drained);
    assert_eq!(recording.ids("cancelled"), far[1..], "dropped unrun");
    assert_eq!(recording.ids("decorate").len(), 16);
    finish(&pool);
}

/// ST-106: each run of a periodic task goes through its decoration.
#[test]
fn every_run_of_a_periodic_task_is_decorated() {
    let (pool, clock, recording) = decorated(2);
    let runs = Counter::new();
    let rate = pool.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    let delay = pool.schedule_with_fixed_delay(STEP, STEP, runs.body()).unwrap();
    clock.advance(100 * STEP);
    for handle in [&rate, &delay] {
        assert_eq!(handle.runs(), 100);
        assert_eq!(recording.ids("ran").iter().filter(|id| **id == handle.id()).count(), 100);
    }
    assert_eq!((runs.get(), recording.ids("run").len(), recording.ids("decorate").len()), (200, 200, 2));
    finish(&pool);
}

/// Does a bit of everything and says how it went.
fn walk(pool: &Executor, clock: &ManualClock) -> Vec<String> {
    let (seen, zero) = (Log::new(), clock.clone());
    let at = move |seen: &Log<String>, what: &str| seen.add(format!("{what} at {:?}", now(&zero)));
    let note = |what: &'static str| {
        let (seen, at) = (seen.clone(), at.clone());
        move || at(&seen, what)
    };
    let late = pool.schedule(3 * STEP, note("third")).unwrap();
    let first = pool.schedule(2 * STEP, note("first")).unwrap();
    let second = pool.schedule(2 * STEP, note("second")).unwrap();
    let value = pool.schedule(STEP, || 42).unwrap();
    let panics = pool
        .schedule(STEP, || {
            if true {
                panic!("boom")
            }
        })
        .unwrap();
    let (probe, captured) = Probe::new();
    let cancelled = pool.schedule(STEP, move || drop(captured)).unwrap();
    let rate = pool.schedule_at_fixed_rate(STEP, 2 * STEP, note("rate")).unwrap();
    let delay = pool.schedule_with_fixed_delay(STEP, 3 * STEP, note("delay")).unwrap();
    seen.add(format!(
        "{:?} {} {}",
        first.remaining(),
        first.remaining() < late.remaining(),
        rate.is_periodic()
    ));
    seen.add(format!("{} {} {}", cancelled.cancel(), cancelled.is_queued(), probe.is_dropped()));
    seen.add(format!("{} {:?}", cancelled.cancel(), cancelled.join()));
    clock.advance(STEP);
    seen.add(format!("{:?} {:?} {:?}", value.join(), panics.join(), panics.state()));
    clock.advance(6 * STEP);
    seen.add(format!("{:?} {:?} {} {}", first.state(), second.state(), rate.runs(), delay.runs()));
    let removed = pool.schedule(STEP, || ()).unwrap();
    seen.add(format!("{:?} {:?}", removed.remove().map(|task| task.cancel()), removed.join()));
    pool.set_after_shutdown(Leftover::Periodic, Keep::Cancel);
    let last = pool.schedule(STEP, note("last")).unwrap();
    pool.shutdown();
    seen.add(format!("{:?} {:?} {:?}", rate.join(), delay.state(), last.state()));
    clock.advance(STEP);
    assert!(pool.await_termination(Duration::MAX));
    seen.add(format!("{:?} {}", last.join(), pool.stats()));
    seen.entries()
}

fn now(clock: &ManualClock) -> punctual::Tick {
    punctual::Clock::now(clock)
}

/// ST-107: a decorated pool does everything a plain one does: order, delays, cancellation, values and panics,
/// removal, shutdown.
#[test]
fn a_decorated_pool_behaves_like_a_plain_one() {
    let (plain, plain_clock) = crate::support::manual(1);
    let (wrapped, wrapped_clock, recording) = decorated(1);
    let expected = walk(&plain, &plain_clock);
    assert!(expected.len() > 15, "{expected:?}");
    assert_eq!(walk(&wrapped, &wrapped_clock), expected);
    assert!(recording.ids("run").len() > 8);
}

/// ST-108: a decoration may do work of its own when its task is cancelled, with the pool at hand: it is called
/// once, by the canceller, before anybody sees the task over.
#[test]
fn a_decoration_may_act_when_its_task_is_cancelled() {
    struct Replace {
        pool: Arc<Mutex<Option<Executor>>>,
        log: Log<(usize, thread::ThreadId)>,
    }
    impl Decoration for Replace {
        fn run(&mut self, body: &mut dyn FnMut()) {
            body();
        }

        fn cancelled(&mut self) {
            let pool = self.pool.lock().unwrap().take();
            if let Some(pool) = pool {
                self.log.add((pool.stats().queued, thread::current().id()));
                pool.execute(|| ()).unwrap();
            }
        }
    }
    let (clock, slot, log) = (ManualClock::new(), Arc::new(Mutex::new(None)), Log::new());
    let (inner, record) = (Arc::clone(&slot), log.clone());
    let decorator = move |_: TaskInfo<'_>| -> Option<Box<dyn Decoration>> {
        Some(Box::new(Replace { pool: Arc::clone(&inner), log: record.clone() }))
    };
    let pool = Executor::builder().clock(clock.clone()).decorator(decorator).build().unwrap();
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    clock.advance(STEP);
    *slot.lock().unwrap() = Some(pool.clone());
    assert!(beat.cancel());
    assert_eq!(log.entries(), [(0, thread::current().id())], "it has left the queue by then");
    assert!(!beat.cancel());
    clock.wait_until_idle();
    assert_eq!((log.entries().len(), pool.stats().completed), (1, 2), "the task it added has run");
    finish(&pool);
}

/// ST-108: a decoration is told of every way in which its task ends unrun, and of none in which it ran.
#[test]
fn a_decoration_hears_of_every_task_that_ends_unrun() {
    let (pool, clock, recording) = decorated(1);
    let ran = pool.submit(|| ()).unwrap();
    ran.join().unwrap();
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    assert!(running.cancel());
    let cancelled = pool.schedule(HOUR, || ()).unwrap();
    assert!(cancelled.cancel());
    let removed = pool.schedule(HOUR, || ()).unwrap();
    drop(removed.remove().unwrap());
    let periodic = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    pool.shutdown();
    gate.open();
    clock.wait_until_idle();
    let unrun = [cancelled.id(), removed.id(), periodic.id()];
    assert_eq!(recording.ids("cancelled"), unrun);
    assert_eq!(recording.ids("ran"), [ran.id(), running.id()]);
    assert!(pool.await_termination(Duration::MAX));
}

/// CS-001: what goes through a completion queue is decorated as well: the handle that comes out is that of the
/// decorated task, and its decoration has done its part by then.
#[test]
fn a_completion_queue_gives_back_the_decorated_task() {
    let (pool, _clock, recording) = decorated(1);
    let queue = CompletionQueue::new();
    queue.submit(&pool, || 1).unwrap();
    let pushed = pool.submit(|| 2).unwrap();
    let id = pushed.id();
    queue.push(pushed);
    for value in [1, 2] {
        let handle = queue.take().unwrap().unwrap();
        assert!(handle.is_done());
        assert!(recording.ids("ran").contains(&handle.id()));
        assert_eq!(handle.id() == id, value == 2);
        assert_eq!(handle.join().unwrap(), value);
    }
    assert_eq!(recording.ids("decorate").len(), 2);
    finish(&pool);
}

/// TP-081: the decorator decides task by task; a decoration may leave the body out, call it twice, or panic, and
/// the handle tells what came of it.
#[test]
fn a_decoration_decides_whether_its_body_runs() {
    struct Times(Option<usize>);
    impl Decoration for Times {
        fn run(&mut self, body: &mut dyn FnMut()) {
            (0..self.0.expect("a number")).for_each(|_| body());
        }
    }
    let decorator = |task: TaskInfo<'_>| -> Option<Box<dyn Decoration>> {
        task.name().map(|name| Box::new(Times(name.parse().ok())) as Box<dyn Decoration>)
    };
    let pool = Executor::builder().decorator(decorator).build().unwrap();
    let runs = Counter::new();
    let start = |name: &str| pool.task(runs.body()).name(name).start().unwrap();
    pool.submit(runs.body()).unwrap().join().unwrap();
    assert_eq!(runs.get(), 1, "plain");
    start("1").join().unwrap();
    assert_eq!(runs.get(), 2);
    start("2").join().unwrap();
    assert_eq!(runs.get(), 3, "a second call does nothing");
    let (none, broken) = (start("0"), start("many"));
    none.wait().unwrap();
    assert!(matches!(none.failure(), Some(TaskError::Abandoned(Abandoned::Dropped))));
    broken.wait().unwrap();
    assert!(
        matches!(broken.failure(), Some(TaskError::Panicked(panic)) if panic.message().contains("a number"))
    );
    assert_eq!((runs.get(), pool.stats().pool_size), (3, 1));
    finish(&pool);
}
