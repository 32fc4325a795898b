//! Submissions that race with shutdown.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use punctual::{
    Abandoned, Clock, Executor, Interrupted, InvokeAllError, Keep, Leftover, ManualClock, Observer,
    RejectReason, Spawner, TaskContext, TaskError, TaskHandle, TaskInfo, TaskState, Tick, WorkerThread,
};

use crate::support::{Counter, Gate, HOUR, PATIENCE, STEP, block_worker, eventually, manual};

/// Waits for a handle that must resolve; only a failing test waits long.
#[track_caller]
fn resolve<T>(handle: &TaskHandle<T>) -> Result<T, punctual::WaitError> {
    handle.wait_timeout(PATIENCE).expect("every accepted handle resolves");
    handle.join()
}

/// TP-044: threads that hammer a pool with tasks which end only when interrupted, while it is stopped: every
/// pool terminates, every task that began was interrupted, every one that waited came back, none is lost.
#[test]
fn no_task_escapes_a_stop_it_raced_with() {
    const ROUNDS: usize = 40;
    const HAMMERS: usize = 3;
    for round in 0..ROUNDS {
        let pool = Executor::builder().core_threads(4).max_threads(8).capacity(10).build().unwrap();
        let (start, begun, drained) = (Barrier::new(HAMMERS + 1), Counter::new(), AtomicUsize::new(0));
        let hammer = || {
            start.wait();
            let mut accepted = Vec::new();
            loop {
                let begun = begun.clone();
                let nap = move || {
                    begun.hit();
                    TaskContext::current().sleep(HOUR)
                };
                match pool.submit(nap) {
                    Ok(handle) => accepted.push(handle),
                    Err(refused) if refused.reason() == RejectReason::ShutDown => return accepted,
                    Err(_) => thread::yield_now(),
                }
            }
        };
        let accepted: Vec<TaskHandle<Result<(), Interrupted>>> = thread::scope(|scope| {
            let hammers: Vec<_> = (0..HAMMERS).map(|_| scope.spawn(hammer)).collect();
            start.wait();
            (0..round).for_each(|_| thread::yield_now());
            drained.store(pool.shutdown_now().len(), Ordering::SeqCst);
            assert!(pool.shutdown_now().is_empty(), "nothing is queued after a stop");
            hammers.into_iter().flat_map(|hammer| hammer.join().unwrap()).collect()
        });
        assert!(pool.await_termination(PATIENCE), "round {round}: {pool}");
        let ran = accepted.iter().filter(|handle| handle.state() == TaskState::Succeeded).count();
        for handle in &accepted {
            match resolve(handle) {
                Ok(slept) => assert_eq!(slept, Err(Interrupted)),
                Err(error) => assert!(matches!(error.task(), Some(TaskError::Abandoned(Abandoned::Stopped)))),
            }
        }
        assert_eq!((ran, ran), (begun.get(), pool.stats().completed as usize));
        assert_eq!(ran + drained.into_inner(), accepted.len());
    }
}

/// TP-023: a thread that waits in `invoke_all` returns when the pool is stopped, a hundred times over: what ran
/// is interrupted, what waited is abandoned, what came too late is refused.
#[test]
fn a_stop_releases_whoever_waits_for_all() {
    for round in 0..100 {
        let pool = Executor::new(2);
        let begun = Counter::new();
        let nap = || {
            let begun = begun.clone();
            move || {
                begun.hit();
                TaskContext::current().sleep(HOUR)
            }
        };
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| pool.invoke_all((0..4).map(|_| nap())));
            if round % 2 == 0 {
                eventually("two bodies run", || begun.get() == 2);
            }
            drop(pool.shutdown_now());
            match caller.join().unwrap() {
                Ok(handles) => assert!(handles.iter().all(TaskHandle::is_done)),
                Err(error) => assert!(matches!(error, InvokeAllError::Rejected(RejectReason::ShutDown))),
            }
        });
        assert!(pool.await_termination(Duration::MAX));
    }
}

/// TP-045, ST-095: whatever the policies, a submission that meets a shutdown is either refused or accepted, and
/// then its handle resolves as the table of shutdown says: what is due runs, what is delayed or periodic runs or
/// is cancelled.
#[test]
fn a_submission_that_meets_a_shutdown_is_refused_or_resolved() {
    const SUBMITTERS: usize = 3;
    const TICK: Duration = Duration::from_micros(100);
    for round in 0..48 {
        let keep = |bit| if round & bit == 0 { Keep::Cancel } else { Keep::Run };
        let (delayed, periodic) = (keep(1), keep(2));
        let builder = Executor::builder().core_threads(round % 3).after_shutdown(Leftover::Delayed, delayed);
        let pool = builder.after_shutdown(Leftover::Periodic, periodic).build().unwrap();
        // What is to be cancelled must not come due by accident.
        let delay = if delayed == Keep::Run { TICK } else { HOUR };
        let (now_ran, later_ran, start) = (Counter::new(), Counter::new(), Barrier::new(SUBMITTERS + 1));
        let submitter = || {
            start.wait();
            let (mut due, mut later, mut series) = (Vec::new(), Vec::new(), Vec::new());
            let refused = loop {
                match pool.submit(now_ran.body()) {
                    Ok(handle) => due.push(handle),
                    Err(refused) => break refused.reason(),
                }
                match pool.schedule(delay, later_ran.body()) {
                    Ok(handle) => later.push(handle),
                    Err(refused) => break refused.reason(),
                }
                match pool.schedule_at_fixed_rate(TICK, HOUR, || ()) {
                    Ok(handle) => series.push(handle),
                    Err(refused) => break refused.reason(),
                }
                thread::yield_now();
            };
            assert_eq!(refused, RejectReason::ShutDown);
            (due, later, series)
        };
        let (mut due_count, mut later_count) = (0, 0);
        thread::scope(|scope| {
            let submitters: Vec<_> = (0..SUBMITTERS).map(|_| scope.spawn(submitter)).collect();
            start.wait();
            (0..round).for_each(|_| thread::yield_now());
            pool.shutdown();
            for submitter in submitters {
                let (due, later, series) = submitter.join().unwrap();
                for handle in &series {
                    assert!(periodic == Keep::Cancel || handle.cancel());
                    assert!(resolve(handle).unwrap_err().is_cancelled());
                }
                due.iter().for_each(|handle| resolve(handle).unwrap());
                for handle in &later {
                    match resolve(handle) {
                        Ok(()) => assert_eq!(delayed, Keep::Run),
                        Err(error) => assert!(delayed == Keep::Cancel && error.is_cancelled()),
                    }
                }
                due_count += due.len();
                later_count += if delayed == Keep::Run { later.len() } else { 0 };
            }
        });
        assert!(pool.await_termination(PATIENCE), "round {round}: {pool}");
        assert_eq!(pool.stats().queued, 0);
        assert_eq!((now_ran.get(), later_ran.get()), (due_count, later_count), "each exactly once");
    }
}

/// A clock on which no two readings are equal, and which lets a chosen thread, right after it has read the time,
/// wait for another to have submitted something; for a while, because that one may be kept out.
#[derive(Debug, Default)]
struct Lagging {
    now: AtomicU64,
    slow: OnceLock<ThreadId>,
    has_read: AtomicBool,
    submitted: AtomicBool,
}

impl Clock for Lagging {
    fn now(&self) -> Tick {
        let now = self.now.fetch_add(1, Ordering::SeqCst);
        if self.slow.get() == Some(&thread::current().id()) && !self.has_read.swap(true, Ordering::SeqCst) {
            let kept_out = |_: &i32| !self.submitted.load(Ordering::SeqCst);
            (0..2000).take_while(kept_out).for_each(|_| thread::yield_now());
        }
        Tick::from_nanos(now)
    }
}

/// TP-045, ST-068: a task that is accepted as due while a shutdown has begun and holds an older time is due for
/// the shutdown as well, and runs.
#[test]
fn what_is_accepted_as_due_is_due_for_the_shutdown() {
    let clock = Arc::new(Lagging::default());
    let builder = Executor::builder().clock(Arc::clone(&clock));
    let pool = builder.after_shutdown(Leftover::Delayed, Keep::Cancel).build().unwrap();
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    clock.slow.set(thread::current().id()).unwrap();
    thread::scope(|scope| {
        let submitter = scope.spawn(|| {
            eventually("the shutdown has read the time", || clock.has_read.load(Ordering::SeqCst));
            let submitted = pool.submit(|| 7);
            clock.submitted.store(true, Ordering::SeqCst);
            submitted
        });
        pool.shutdown();
        gate.open();
        blocker.join().unwrap();
        match submitter.join().unwrap() {
            Ok(accepted) => assert_eq!(resolve(&accepted).unwrap(), 7),
            Err(refused) => assert_eq!(refused.reason(), RejectReason::ShutDown),
        }
    });
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-096: a periodic task whose run ends while its pool is shut down is not queued again, and is cancelled.
#[test]
fn a_series_that_meets_a_shutdown_is_cancelled() {
    for round in 0..20 {
        let pool = Executor::new(2);
        let period = Duration::from_micros(20);
        let series = [
            pool.schedule_at_fixed_rate(Duration::ZERO, period, || ()).unwrap(),
            pool.schedule_with_fixed_delay(Duration::ZERO, period, || ()).unwrap(),
        ];
        eventually("both run", || series.iter().all(|handle| handle.runs() > 0));
        (0..round).for_each(|_| thread::yield_now());
        pool.shutdown();
        for handle in &series {
            assert!(resolve(handle).unwrap_err().is_cancelled());
        }
        assert!(pool.await_termination(PATIENCE), "round {round}: {pool}");
        assert!(series.iter().all(|handle| !handle.is_queued()));
        assert_eq!(pool.stats().completed, series.iter().map(TaskHandle::runs).sum::<u64>());
    }
}

// ---- threads that cannot be had

/// Holds whoever asks for the first thread at a gate and then refuses it; the others are had, or not.
struct FirstFails {
    gate: Gate,
    asked: AtomicUsize,
    later: bool,
}

impl FirstFails {
    fn new(gate: &Gate, later: bool) -> Self {
        Self { gate: gate.clone(), asked: AtomicUsize::new(0), later }
    }
}

impl Spawner for FirstFails {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            self.gate.pass();
        } else if self.later {
            return Ok(Some(thread::spawn(move || worker.run())));
        }
        drop(worker);
        Err(io::Error::other("no thread today"))
    }
}

fn first_fails(gate: &Gate, later: bool) -> Executor {
    Executor::builder().clock(ManualClock::new()).spawner(FirstFails::new(gate, later)).build().unwrap()
}

/// TP-045, TP-046: a worker that is on its way when the pool is shut down, and then does not come, leaves nobody
/// waiting: another is made for what is queued, and if none can be had, that resolves all the same. Then the pool
/// ends.
#[test]
fn a_task_stranded_by_a_shutdown_is_run_or_resolved() {
    for later in [true, false] {
        let gate = Gate::new();
        let pool = first_fails(&gate, later);
        thread::scope(|scope| {
            let first = scope.spawn(|| pool.submit(|| 1).map_err(|refused| refused.reason()));
            gate.await_arrivals(1);
            let stranded = pool.submit(|| 2).unwrap();
            pool.shutdown();
            gate.open();
            assert_eq!(first.join().unwrap().map(drop), Err(RejectReason::NoWorker));
            eventually("the stranded task is over", || stranded.is_done());
            match stranded.join() {
                Ok(value) => assert!(later && value == 2),
                Err(error) => {
                    assert!(
                        !later && matches!(error.task(), Some(TaskError::Abandoned(Abandoned::NoWorker)))
                    );
                }
            }
        });
        assert!(pool.await_termination(Duration::MAX));
    }
}

/// ST-095: the pool is not over before the last of the tasks that a shutdown ended is resolved, even if what they
/// captured takes its time to be dropped.
#[test]
fn termination_waits_for_the_tasks_that_the_shutdown_cancels() {
    struct Slow(Gate);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.pass();
        }
    }
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let series = [(), ()].map(|()| {
        let slow = Slow(gate.clone());
        let hold = move || {
            let _held = &slow;
        };
        pool.schedule_at_fixed_rate(HOUR, HOUR, hold).unwrap()
    });
    thread::scope(|scope| {
        scope.spawn(|| pool.shutdown());
        gate.await_arrivals(1);
        let waiter = scope.spawn(|| {
            assert!(pool.await_termination(Duration::MAX));
            series.iter().all(TaskHandle::is_done)
        });
        // A pool that would end too early is given the chance to.
        (0..2000).take_while(|_| !waiter.is_finished()).for_each(|_| thread::yield_now());
        gate.open();
        assert!(waiter.join().unwrap());
    });
}

// ---- interrupts

/// TP-047: an interrupt belongs to a task: the next on the same thread does not see it, nor does any see that
/// the pool's settings change; but one that was taken before a stop and begins after it begins interrupted.
#[test]
fn an_interrupt_reaches_the_task_it_is_meant_for() {
    struct HoldBefore(Gate);
    impl Observer for HoldBefore {
        fn before_run(&self, task: TaskInfo<'_>) {
            if task.name() == Some("held") {
                self.0.pass();
            }
        }
    }
    let gate = Gate::new();
    let builder = Executor::builder().clock(ManualClock::new()).observer(HoldBefore(gate.clone()));
    let pool = builder.build().unwrap();
    let running = pool.submit(|| TaskContext::current().sleep(HOUR)).unwrap();
    eventually("the body runs", || running.state() == TaskState::Running);
    let next = pool.submit(|| (TaskContext::current().is_interrupted(), thread::current().id())).unwrap();
    pool.set_core_threads(2).unwrap();
    pool.set_core_threads(1).unwrap();
    pool.set_keep_alive(STEP).unwrap();
    assert_eq!(running.state(), TaskState::Running, "undisturbed by housekeeping");
    assert!(running.interrupt());
    assert!(!next.join().unwrap().0);

    let look = || TaskContext::current().is_interrupted();
    let held = pool.task(look).name("held").start().unwrap();
    gate.await_arrivals(1);
    assert!(pool.shutdown_now().is_empty());
    gate.open();
    assert!(held.join().unwrap());
    assert!(pool.await_termination(Duration::MAX));
}
