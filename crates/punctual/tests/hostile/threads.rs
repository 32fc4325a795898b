//! Threads that cannot be had.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::{
    Abandoned, Executor, ManualClock, Observer, OnDrop, RejectReason, Spawner, TaskError, TaskHandle,
    TaskState, WaitError, WorkerThread,
};

use crate::support::{Counter, Gate, HOUR, STEP, eventually, finish};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Failure {
    Error,
    Panic,
    Lose,
    /// The error's own destructor panics.
    Booby,
}

/// Fails at its `nth` call.
struct Unreliable {
    nth: usize,
    how: Failure,
    calls: AtomicUsize,
}

#[derive(Debug)]
struct BoobyTrapped;

impl std::fmt::Display for BoobyTrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("trapped")
    }
}

impl std::error::Error for BoobyTrapped {}

impl Drop for BoobyTrapped {
    fn drop(&mut self) {
        panic!("an error panics when it is dropped");
    }
}

impl Spawner for Unreliable {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            match self.how {
                Failure::Error => return Err(io::Error::other("no thread")),
                Failure::Panic => panic!("no thread"),
                Failure::Lose => return Ok(None),
                Failure::Booby => return Err(io::Error::other(BoobyTrapped)),
            }
        }
        std::thread::Builder::new().spawn(move || worker.run()).map(Some)
    }
}

/// The worker that goes from one due task to the next asks for the help that it did not get the first time.
#[test]
fn a_thread_that_could_not_be_had_is_asked_for_again_with_the_next_task() {
    let clock = ManualClock::new();
    let spawner = Unreliable { nth: 2, how: Failure::Error, calls: AtomicUsize::new(0) };
    let builder = Executor::builder().core_threads(1).max_threads(2).clock(clock.clone());
    let pool = builder.spawner(spawner).build().unwrap();
    let gate = Gate::new();
    let (second, third) = (gate.clone(), gate);
    let handles = [
        pool.schedule(STEP, || ()).unwrap(),
        pool.schedule(STEP, move || second.pass()).unwrap(),
        pool.schedule(STEP, move || third.open()).unwrap(),
    ];
    clock.wait_until_idle();
    clock.jump(STEP);
    // The second task lets its thread go only when the third has run, on another.
    eventually("all have run", || handles.iter().all(TaskHandle::is_done));
    assert_eq!(pool.stats().largest_pool_size, 2);
    finish(&pool);
}

#[test]
fn whichever_thread_cannot_be_had_what_is_accepted_runs() {
    for how in [Failure::Error, Failure::Panic, Failure::Lose, Failure::Booby] {
        for nth in 1..=6 {
            let clock = ManualClock::new();
            let spawner = Unreliable { nth, how, calls: AtomicUsize::new(0) };
            let builder = Executor::builder().core_threads(2).max_threads(4).clock(clock.clone());
            let pool = builder.spawner(spawner).build().unwrap();
            let mut accepted: Vec<TaskHandle<()>> = Vec::new();
            let mut refused = 0;
            for round in 0..4_u32 {
                pool.prestart_core_thread();
                for delay in [Duration::ZERO, STEP * round] {
                    match pool.schedule(delay, || ()) {
                        Ok(handle) => accepted.push(handle),
                        Err(why) => {
                            assert_eq!(why.reason(), RejectReason::NoWorker);
                            refused += 1;
                        }
                    }
                }
                pool.resize(2 + round as usize % 2).unwrap();
                clock.advance(STEP);
            }
            clock.advance(4 * STEP);
            assert!(refused <= 1, "{how:?} at {nth}: one failure refuses one task at most");
            for handle in accepted {
                assert_eq!(handle.state(), TaskState::Succeeded, "{how:?} at {nth}");
            }
            pool.shutdown();
            assert!(pool.await_termination(Duration::MAX), "{how:?} at {nth}");
        }
    }
}

/// Keeps the first worker for the test to lose.
#[derive(Clone, Default)]
struct Hoarder(Arc<Mutex<Vec<WorkerThread>>>, Counter);

impl Spawner for Hoarder {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.1.hit();
        if self.1.get() == 1 {
            self.0.lock().unwrap().push(worker);
            return Ok(None);
        }
        std::thread::Builder::new().spawn(move || worker.run()).map(Some)
    }
}

#[test]
fn a_worker_that_its_spawner_loses_later_leaves_no_handle_unresolved() {
    let hoard = Hoarder::default();
    let pool = Executor::builder().spawner(hoard.clone()).build().unwrap();
    let waiting = [pool.submit(|| 1).unwrap(), pool.submit(|| 2).unwrap()];
    assert!(waiting.iter().all(|handle| !handle.is_done()));
    let lost = std::mem::take(&mut *hoard.0.lock().unwrap());
    drop(lost);
    for handle in waiting {
        assert!(matches!(handle.join(), Err(WaitError::Task(TaskError::Abandoned(Abandoned::NoWorker)))));
    }
    assert_eq!(pool.submit(|| 3).unwrap().join().unwrap(), 3);
    finish(&pool);
}

/// Its threads panic when their workers have left.
struct Crashing;

impl Spawner for Crashing {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        let crash = move || {
            worker.run();
            panic!("a thread crashes on its way out");
        };
        std::thread::Builder::new().spawn(crash).map(Some)
    }
}

#[test]
fn threads_that_crash_on_their_way_out_do_not_keep_the_pool_from_its_end() {
    let pool = Executor::builder().core_threads(2).spawner(Crashing).build().unwrap();
    for _ in 0..3 {
        assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
        pool.resize(1).unwrap();
        pool.resize(2).unwrap();
    }
    finish(&pool);
}

/// Closes its executor when it has no threads.
#[derive(Clone, Default)]
struct Closer(Arc<Mutex<Option<Executor>>>, Counter);

impl Observer for Closer {
    fn spawn_failed(&self, _: &io::Error) {
        let executor = self.0.lock().unwrap().take().expect("told once");
        assert!(matches!(executor.close(), Err(WaitError::WouldDeadlock)));
        self.1.hit();
    }
}

#[test]
fn an_executor_without_threads_may_be_closed_by_whoever_is_told() {
    let closer = Closer::default();
    let spawner = Unreliable { nth: 1, how: Failure::Error, calls: AtomicUsize::new(0) };
    let builder = Executor::builder().spawner(spawner).observer(closer.clone()).on_drop(OnDrop::Join);
    let pool = builder.build().unwrap();
    *closer.0.lock().unwrap() = Some(pool.clone());
    assert_eq!(pool.submit(|| ()).unwrap_err().reason(), RejectReason::NoWorker);
    assert_eq!(closer.1.get(), 1);
    assert!(pool.await_termination(Duration::MAX));
}

/// Never has a thread, and says so when its gate is open: the first call has one of its own, and all others share one.
#[derive(Clone, Default)]
struct Never {
    calls: Arc<AtomicUsize>,
    first: Gate,
    others: Gate,
}

impl Spawner for Never {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        drop(worker);
        match self.calls.fetch_add(1, Ordering::SeqCst) {
            0 => self.first.pass(),
            _ => self.others.pass(),
        }
        Err(io::Error::other("no thread"))
    }
}

/// Whoever steers a task that has lost its thread asks for another, and its submitter relies on that.
#[test]
fn a_task_steered_while_no_thread_can_be_had_ends() {
    let never = Never::default();
    let pool = Executor::builder().core_threads(0).spawner(never.clone()).build().unwrap();
    let task = std::thread::scope(|scope| {
        let submitter = scope.spawn(|| pool.task(|| ()).name("far").after(HOUR).start());
        never.first.await_arrivals(1);
        let steerer = scope.spawn(|| pool.find("far").unwrap().trigger_now());
        never.others.await_arrivals(1);
        never.first.open();
        let task = submitter.join().unwrap().unwrap();
        never.others.open();
        assert!(steerer.join().unwrap().is_done());
        task
    });
    assert!(matches!(task.failure(), Some(TaskError::Abandoned(Abandoned::NoWorker))), "{task:?}");
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}
