//! Where threads come from, and do not.

use std::io;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual::{
    Abandoned, Executor, ManualClock, Observer, Panic, Place, RejectReason, Rejection, Spawner, TaskError,
    TaskHandle, WaitError, WorkerThread,
};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, block_worker, eventually, finish};

/// What becomes of a thread that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Start,
    Fail,
    Panic,
    /// The worker is dropped, and nothing is said about it.
    Lose,
}

/// The ways in which a thread may not come.
const FAILURES: [Fate; 3] = [Fate::Fail, Fate::Panic, Fate::Lose];

/// Starts threads until told otherwise, and counts what it is asked for.
#[derive(Clone)]
pub(crate) struct Flaky {
    /// How often a thread was asked for.
    pub(crate) asked: Counter,
    /// How many were started.
    pub(crate) started: Counter,
    fate: Arc<Mutex<Fate>>,
    prefix: &'static str,
}

impl Flaky {
    pub(crate) fn new() -> Self {
        Self::named("")
    }

    fn named(prefix: &'static str) -> Self {
        let fate = Arc::new(Mutex::new(Fate::Start));
        Self { asked: Counter::new(), started: Counter::new(), fate, prefix }
    }

    pub(crate) fn turn(&self, fate: Fate) {
        *self.fate.lock().unwrap() = fate;
    }
}

impl Spawner for Flaky {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.asked.hit();
        let fate = *self.fate.lock().unwrap();
        match fate {
            Fate::Fail => return Err(io::Error::other("out of threads")),
            Fate::Panic => panic!("the spawner is broken"),
            Fate::Lose => {
                drop(worker);
                return Ok(None);
            }
            Fate::Start => self.started.hit(),
        }
        let name = format!("{}{}", self.prefix, worker.name());
        thread::Builder::new().name(name).spawn(move || worker.run()).map(Some)
    }
}

fn flaky(threads: usize) -> (Executor, Flaky) {
    let spawner = Flaky::new();
    let pool = Executor::builder().core_threads(threads).spawner(spawner.clone()).build().unwrap();
    (pool, spawner)
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

#[track_caller]
fn assert_no_worker<T: std::fmt::Debug>(handle: &TaskHandle<T>) {
    match handle.join() {
        Err(WaitError::Task(TaskError::Abandoned(Abandoned::NoWorker))) => {}
        other => panic!("should have been given up: {other:?}"),
    }
}

/// EX-001: threads of a pool without a name are called `pool-N-thread-M`, counted from 1 in each pool, and no
/// two pools share `N`.
#[test]
fn default_threads_are_named_by_pool_and_number() {
    let names = |threads: usize| {
        let pool = Executor::new(threads);
        let meet = Arc::new(Barrier::new(threads));
        let body = || {
            let meet = Arc::clone(&meet);
            pool.submit(move || {
                meet.wait();
                thread_name()
            })
        };
        let handles: Vec<_> = (0..threads).map(|_| body().unwrap()).collect();
        let mut names: Vec<String> = handles.iter().map(|handle| handle.join().unwrap()).collect();
        finish(&pool);
        names.sort();
        names
    };
    let (first, second) = (names(3), names(1));
    let pool_of = |name: &str| name.strip_prefix("pool-").unwrap().split_once('-').unwrap().0.to_owned();
    for (number, name) in (1..).zip(&first) {
        assert_eq!(*name, format!("pool-{}-thread-{number}", pool_of(&first[0])));
        assert!(pool_of(name).parse::<u64>().unwrap() > 0);
    }
    assert!(second[0].ends_with("-thread-1"), "{second:?}");
    assert_ne!(pool_of(&first[0]), pool_of(&second[0]));
}

/// TP-048: when no thread but the first can be had, that one runs everything; each task asks again.
#[test]
fn one_thread_does_the_work_of_a_hundred() {
    for failure in FAILURES {
        let (pool, spawner) = flaky(100);
        let gate = Gate::new();
        let blocked = block_worker(&pool, &gate);
        spawner.turn(failure);
        let handles: Vec<_> = (1..100).map(|_| pool.submit(|| thread::current().id()).unwrap()).collect();
        let stats = pool.stats();
        assert_eq!((stats.pool_size, stats.largest_pool_size), (1, 1), "{failure:?}");
        assert_eq!((stats.active, stats.queued, stats.rejected), (1, 99, 0), "{failure:?}");
        assert_eq!(spawner.asked.get(), 100, "{failure:?}");
        gate.open();
        blocked.join().unwrap();
        let first = handles[0].join().unwrap();
        assert!(handles[1..].iter().all(|handle| handle.join().unwrap() == first), "{failure:?}");
        pool.shutdown();
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(pool.stats().completed, 100, "{failure:?}");
    }
}

/// What the observer is told about threads that did not come.
#[derive(Clone)]
struct Told(Log<String>);

impl Observer for Told {
    fn spawn_failed(&self, error: &io::Error) {
        self.0.add(error.to_string());
    }

    fn contained(&self, place: Place, panic: &Panic) {
        self.0.add(format!("{place}: {panic}"));
    }
}

/// TP-049, TP-050, TP-052: a submission that finds no worker and gets none fails and returns the closure, in
/// every form; the observer hears why; the pool is as if nothing had been asked of it and works when threads
/// can be had again.
#[test]
fn a_task_that_nobody_can_run_comes_back() {
    for failure in FAILURES {
        let (spawner, told) = (Flaky::new(), Told(Log::new()));
        let pool = Executor::builder().core_threads(2).spawner(spawner.clone());
        let pool = pool.observer(told.clone()).build().unwrap();
        let fresh = pool.stats();
        spawner.turn(failure);

        let refused = pool.submit(|| 42).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::NoWorker);
        assert_eq!(refused.into_task()(), 42);
        let runs = Counter::new();
        pool.execute(runs.body()).unwrap_err().into_task()();
        pool.schedule(HOUR, runs.body()).unwrap_err().into_task()();
        pool.schedule_at_fixed_rate(HOUR, HOUR, runs.body()).unwrap_err().into_task()();
        pool.schedule_with_fixed_delay(HOUR, HOUR, runs.body()).unwrap_err().into_task()();
        assert_eq!(runs.get(), 4, "each closure came back whole");
        assert_eq!(told.0.entries().len(), 5, "{failure:?}: {:?}", told.0.entries());
        let reason = match failure {
            Fate::Fail => "out of threads",
            Fate::Panic => "a thread spawner: the spawner is broken",
            _ => "the spawner dropped the worker",
        };
        assert!(told.0.entries().iter().all(|entry| entry == reason), "{:?}", told.0.entries());

        let mut stats = pool.stats();
        assert_eq!(std::mem::take(&mut stats.rejected), 5);
        assert_eq!(stats, fresh, "{failure:?}");
        spawner.turn(Fate::Start);
        assert_eq!(pool.submit(|| 43).unwrap().join().unwrap(), 43);
        finish(&pool);
    }
}

/// TP-052: threads that did not come hold up neither termination nor a manual clock.
#[test]
fn a_failed_start_leaves_nothing_to_wait_for() {
    for failure in FAILURES {
        let (spawner, clock) = (Flaky::new(), ManualClock::new());
        let pool = Executor::builder().spawner(spawner.clone()).clock(clock.clone()).build().unwrap();
        spawner.turn(failure);
        assert!(pool.submit(|| ()).is_err());
        clock.advance(HOUR);
        pool.shutdown();
        assert!(pool.is_terminated(), "{failure:?}: no worker is left to end it later");
        assert!(pool.await_termination(Duration::ZERO));
    }
}

/// TP-049: what is refused for want of a thread meets the rejection policy like anything else.
#[test]
fn a_task_without_a_worker_meets_the_rejection_policy() {
    let (pool, spawner) = flaky(1);
    spawner.turn(Fate::Fail);
    pool.set_rejection(Rejection::CallerRuns);
    let here = pool.submit(|| thread::current().id()).unwrap();
    assert_eq!(here.join().unwrap(), thread::current().id());
    assert!(pool.schedule(HOUR, || ()).is_err(), "nothing runs early");
    pool.set_rejection(Rejection::Discard);
    let (probe, captured) = Probe::new();
    let gone = pool.submit(move || drop(captured)).unwrap();
    assert!(matches!(gone.failure(), Some(TaskError::Abandoned(Abandoned::Rejected))));
    assert!(probe.is_dropped());
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    pool.set_rejection(Rejection::custom(move |task, reason, _| {
        sender.lock().unwrap().send((task, reason)).unwrap();
    }));
    let kept = pool.submit(|| 7).unwrap();
    let (task, reason) = receiver.recv().unwrap();
    assert_eq!((task.id(), reason), (kept.id(), RejectReason::NoWorker));
    assert!(task.run());
    assert_eq!(kept.join().unwrap(), 7);
    finish(&pool);
}

/// TP-053: a changed spawner makes the threads from then on, and no others.
#[test]
fn a_changed_spawner_makes_later_threads_only() {
    let (old, new) = (Flaky::named("old "), Flaky::named("new "));
    let pool = Executor::builder().core_threads(2).thread_name("p").spawner(old.clone()).build().unwrap();
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    pool.set_spawner(new.clone());
    assert_eq!(pool.submit(thread_name).unwrap().join().unwrap(), "new p-thread-2");
    assert_eq!((old.asked.get(), new.asked.get()), (1, 1));
    let second = Gate::new();
    let occupied = block_worker(&pool, &second);
    gate.open();
    blocked.join().unwrap();
    assert_eq!(pool.submit(thread_name).unwrap().join().unwrap(), "old p-thread-1", "it lives on");
    second.open();
    occupied.join().unwrap();
    finish(&pool);
}

/// A spawner whose calls the test decides on, one by one.
struct Slow {
    asked: Gate,
}

impl Spawner for Slow {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.asked.pass();
        drop(worker);
        Err(io::Error::other("out of threads, after some thought"))
    }
}

/// TP-050, TP-052: a task that was accepted because a thread was on its way is not forgotten when that thread
/// does not come: its handle resolves, and so does everything else.
#[test]
fn a_task_that_relied_on_a_thread_that_never_came_is_given_up() {
    let gate = Gate::new();
    let pool = Executor::builder().spawner(Slow { asked: gate.clone() }).build().unwrap();
    let (probe, captured) = Probe::new();
    thread::scope(|scope| {
        let first = scope.spawn(|| pool.submit(|| ()).map(drop).unwrap_err().reason());
        gate.await_arrivals(1);
        let relying = pool.schedule(HOUR, move || drop(captured)).unwrap();
        assert!(relying.is_queued());
        gate.open();
        assert_eq!(first.join().unwrap(), RejectReason::NoWorker);
        assert_no_worker(&relying);
    });
    assert!(probe.is_dropped());
    assert_eq!((pool.stats().queued, pool.stats().pool_size), (0, 0));
    finish(&pool);
}

/// TP-050, TP-052: the same when the thread was asked for by a change of size or ahead of time.
#[test]
fn whoever_asked_in_vain_for_a_thread_gives_up_what_relied_on_it() {
    let gate = Gate::new();
    let pool = Executor::builder().spawner(Slow { asked: gate.clone() }).build().unwrap();
    thread::scope(|scope| {
        let prestart = scope.spawn(|| pool.prestart_all_core_threads());
        gate.await_arrivals(1);
        let relying = pool.submit(|| ()).unwrap();
        gate.open();
        assert_eq!(prestart.join().unwrap(), 0);
        assert_no_worker(&relying);
    });
    finish(&pool);
}

/// TP-052: a shutdown while a thread is being asked for in vain still comes to its end.
#[test]
fn a_shutdown_during_a_start_that_fails_terminates() {
    let gate = Gate::new();
    let pool = Executor::builder().spawner(Slow { asked: gate.clone() }).build().unwrap();
    thread::scope(|scope| {
        let submission = scope.spawn(|| pool.schedule(HOUR, || ()).map(drop).unwrap_err().reason());
        gate.await_arrivals(1);
        pool.shutdown();
        assert!(pool.is_terminating());
        gate.open();
        assert_eq!(submission.join().unwrap(), RejectReason::NoWorker);
    });
    assert!(pool.is_terminated());
    assert!(pool.await_termination(Duration::MAX));
}

/// TP-052, TP-080: a worker does not go in favour of one that is only on its way, neither because its time is
/// over nor because there are too many: were that one not to come, nobody would be left for what is queued.
#[test]
fn a_worker_stays_until_the_next_has_come() {
    let (gate, hurdle, clock) = (Gate::new(), Gate::new(), ManualClock::new());
    let pool = Executor::builder().core_threads(0).max_threads(2).keep_alive(STEP).clock(clock.clone());
    let pool = pool.build().unwrap();
    let blocked = block_worker(&pool, &gate);
    pool.set_spawner(Slow { asked: hurdle.clone() });
    thread::scope(|scope| {
        // The only worker is busy, so this asks for a second one.
        let far = scope.spawn(|| pool.schedule(HOUR, || 7).unwrap());
        hurdle.await_arrivals(1);
        pool.set_max_threads(1).unwrap();
        gate.open();
        blocked.join().unwrap();
        clock.jump(2 * STEP);
        let done = pool.submit(|| ()).unwrap();
        done.join().unwrap();
        clock.jump(2 * STEP);
        hurdle.open();
        let far = far.join().unwrap();
        clock.advance(HOUR);
        assert_eq!(far.join().unwrap(), 7);
    });
    finish(&pool);
}

/// Keeps its workers instead of running them.
#[derive(Clone, Default)]
struct Hoarder(Arc<Mutex<Vec<WorkerThread>>>);

impl Spawner for Hoarder {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.0.lock().unwrap().push(worker);
        Ok(None)
    }
}

impl Hoarder {
    fn take(&self) -> Vec<WorkerThread> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// TP-050, TP-052: a worker may be dropped long after the spawner has promised it. Only with the last one is
/// there nobody left; then what is queued is given up, and the pool works again as soon as it gets a thread.
#[test]
fn a_worker_lost_later_resolves_what_waited_for_it() {
    let hoarder = Hoarder::default();
    let pool = Executor::builder().core_threads(2).spawner(hoarder.clone()).build().unwrap();
    let now = pool.submit(|| 1).unwrap();
    let later = pool.schedule(HOUR, || 2).unwrap();
    let mut workers = hoarder.take();
    assert_eq!((workers.len(), pool.stats().pool_size, pool.stats().active), (2, 2, 0));
    drop(workers.pop());
    assert_eq!(pool.stats().pool_size, 1);
    assert!(now.is_queued() && later.is_queued(), "there is hope");
    drop(workers);
    assert_no_worker(&now);
    assert_no_worker(&later);
    let third = pool.submit(|| 3).unwrap();
    let workers: Vec<_> = hoarder.take().into_iter().map(|worker| thread::spawn(|| worker.run())).collect();
    assert_eq!((workers.len(), third.join().unwrap()), (1, 3));
    finish(&pool);
    workers.into_iter().for_each(|thread| thread.join().unwrap());
}

/// TP-052: a stopped pool waits for a worker that has no thread yet, and ends when it is run or dropped.
#[test]
fn a_worker_without_a_thread_ends_the_pool_when_it_goes() {
    for run in [false, true] {
        let hoarder = Hoarder::default();
        let pool = Executor::builder().spawner(hoarder.clone()).build().unwrap();
        let task = pool.submit(|| ()).unwrap();
        assert_eq!(pool.shutdown_now().len(), 1);
        assert!(matches!(task.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
        assert!(pool.is_terminating());
        for worker in hoarder.take() {
            if run { thread::spawn(|| worker.run()).join().unwrap() } else { drop(worker) }
        }
        assert!(pool.await_termination(Duration::MAX));
        assert_eq!(pool.stats().pool_size, 0);
    }
}

/// TP-048, TP-052: growth that fails, for a task beyond the core, on a change of size or ahead of time, is
/// growth that did not happen.
#[test]
fn growth_that_fails_costs_nothing() {
    for failure in FAILURES {
        let spawner = Flaky::new();
        let pool =
            Executor::builder().core_threads(1).max_threads(8).spawner(spawner.clone()).build().unwrap();
        let gate = Gate::new();
        let blocked = block_worker(&pool, &gate);
        spawner.turn(failure);
        let handles: Vec<_> = (0..4).map(|n| pool.submit(move || n).unwrap()).collect();
        pool.set_core_threads(4).unwrap();
        assert!(!pool.prestart_core_thread(), "{failure:?}");
        assert_eq!(pool.prestart_all_core_threads(), 0, "{failure:?}");
        assert_eq!((pool.stats().pool_size, pool.stats().queued), (1, 4), "{failure:?}");
        assert_eq!(pool.stats().largest_pool_size, 1);
        gate.open();
        blocked.join().unwrap();
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
        assert_eq!(spawner.started.get(), 1);
        spawner.turn(Fate::Start);
        assert_eq!(pool.prestart_all_core_threads(), 3);
        eventually("all four are there", || pool.stats().pool_size == 4);
        finish(&pool);
    }
}
