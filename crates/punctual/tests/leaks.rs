//! After any amount of work nothing is left behind: no closure, value, payload, waker, decoration or thread.
//!
//! Everything that is handed in is a [`Token`] of one [`Ledger`], which knows how many there are; threads are
//! counted by the spawner from outside and by the observer from inside.

#[path = "conformance/support.rs"]
mod support;

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;
use punctual::{
    CompletionQueue, Decoration, DelayQueue, Executor, FutureTask, ManualClock, Observer, OnCancel, OnDrop,
    Rejection, RunOutcome, Spawner, TaskHandle, TaskInfo, UnrunTask, WorkerThread,
};
use support::{Gate, HOUR, Log, STEP, eventually, finish};

/// Counts what is alive.
#[derive(Clone, Default)]
struct Ledger(Arc<AtomicIsize>);

/// One thing that is alive.
struct Token(Arc<AtomicIsize>);

impl Ledger {
    fn token(&self) -> Token {
        self.0.fetch_add(1, Ordering::SeqCst);
        Token(Arc::clone(&self.0))
    }

    fn alive(&self) -> isize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A waker that is counted.
struct Bell(#[expect(dead_code, reason = "held for its count")] Token);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {}
}

impl Ledger {
    /// Polls `handle` with a waker that it keeps if the task is not over.
    fn poll<T>(&self, handle: &mut TaskHandle<T>) {
        let waker = Waker::from(Arc::new(Bell(self.token())));
        let _ = Pin::new(handle).poll(&mut Context::from_waker(&waker));
    }
}

/// A decoration that is counted.
struct Wrapper(#[expect(dead_code, reason = "held for its count")] Token);

impl Decoration for Wrapper {
    fn run(&mut self, body: &mut dyn FnMut()) {
        body();
    }
}

/// Counts threads from outside and from inside.
#[derive(Clone, Default)]
struct Threads {
    spawned: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    started: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

impl Spawner for Threads {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.spawned.fetch_add(1, Ordering::SeqCst);
        let ended = Arc::clone(&self.ended);
        let work = move || {
            worker.run();
            ended.fetch_add(1, Ordering::SeqCst);
        };
        thread::Builder::new().spawn(work).map(Some)
    }
}

impl Observer for Threads {
    fn worker_started(&self) {
        self.started.fetch_add(1, Ordering::SeqCst);
    }

    fn worker_stopped(&self) {
        self.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Threads {
    fn counts(&self) -> [usize; 4] {
        [&self.spawned, &self.started, &self.stopped, &self.ended].map(|count| count.load(Ordering::SeqCst))
    }

    fn all_gone(&self) -> bool {
        let [spawned, rest @ ..] = self.counts();
        rest.iter().all(|count| *count == spawned)
    }
}

/// One of everything that can become of a task, chosen by chance; the handle is kept, dropped, or guards.
fn load(pool: &Executor, ledger: &Ledger, rng: &mut Rng, kept: &mut Vec<TaskHandle<Token>>) {
    let (captured, value) = (ledger.token(), ledger.token());
    let body = move || {
        drop(captured);
        value
    };
    let delay = if rng.bool() { Duration::ZERO } else { Duration::from_micros(rng.u64(..3_000)) };
    match rng.u8(..10) {
        0 => drop(pool.schedule(delay, body)),
        1 => drop(pool.schedule(HOUR, body).map(TaskHandle::cancel_on_drop)),
        2 => drop(pool.schedule(HOUR, body).map(|handle| handle.remove())),
        3 => drop(pool.submit_with_timeout(Duration::from_micros(rng.u64(..200)), body)),
        4 => {
            let payload = ledger.token();
            drop(pool.submit(move || panic_any((payload, body))));
        }
        5 => {
            let (captured, mut left) = (ledger.token(), rng.u8(1..4));
            let payload = Mutex::new(Some(ledger.token()));
            let beat = pool.schedule_at_fixed_rate(delay, Duration::from_micros(50), move || {
                let _ = &captured;
                left -= 1;
                if left == 0 {
                    panic_any(payload.lock().unwrap().take());
                }
            });
            drop(beat);
        }
        6 => {
            let captured = ledger.token();
            let beat = pool.schedule_with_fixed_delay(delay, HOUR, move || _ = &captured);
            if let Ok(mut beat) = beat {
                ledger.poll(&mut beat);
                if rng.bool() {
                    beat.cancel();
                }
            }
        }
        7 => {
            if let Ok(mut handle) = pool.schedule(delay, body) {
                ledger.poll(&mut handle);
                ledger.poll(&mut handle);
                handle.interrupt();
            }
        }
        _ => kept.extend(pool.schedule(delay, body)),
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Shutdown,
    Stop,
    /// Stop, and keep what was drained for a while.
    StopAndKeep,
    Drop(OnDrop),
}

#[test]
fn nothing_is_left_of_a_mixed_load_however_it_ends() {
    let ends = [
        End::Shutdown,
        End::Stop,
        End::StopAndKeep,
        End::Drop(OnDrop::Join),
        End::Drop(OnDrop::Abort),
        End::Drop(OnDrop::Detach),
    ];
    for (round, end) in (0_u64..).zip(ends.into_iter().flat_map(|end| [end, end])) {
        let (ledger, threads) = (Ledger::default(), Threads::default());
        let decorate = {
            let ledger = ledger.clone();
            move |_: TaskInfo<'_>| Some(Box::new(Wrapper(ledger.token())) as Box<dyn Decoration>)
        };
        let mut builder = Executor::builder().core_threads(2).max_threads(4).spawner(threads.clone());
        builder =
            builder.observer(threads.clone()).decorator(decorate).keep_alive(Duration::from_micros(500));
        if let End::Drop(on_drop) = end {
            builder = builder.on_drop(on_drop);
        }
        if round % 2 == 1 {
            builder =
                builder.on_cancel(OnCancel::KeepUntilDue).capacity(60).rejection(Rejection::DiscardOldest);
        }
        let pool = builder.build().unwrap();
        let mut kept = Vec::new();
        let mut rng = Rng::with_seed(round);
        for n in 0..400 {
            load(&pool, &ledger, &mut rng, &mut kept);
            if n % 40 == 0 {
                pool.resize(1 + n / 40 % 4).unwrap();
            }
        }
        let mut drained: Vec<UnrunTask> = Vec::new();
        match end {
            End::Shutdown => {
                // What is an hour away would keep us.
                drop(pool.queue().into_iter().filter_map(|task| pool.remove(task.id())).collect::<Vec<_>>());
                pool.shutdown();
                assert!(pool.await_termination(Duration::MAX));
            }
            End::Stop => finish(&pool),
            End::StopAndKeep => {
                drained = pool.shutdown_now();
                assert!(pool.await_termination(Duration::MAX));
            }
            End::Drop(_) => drop(pool.queue().into_iter().filter_map(|task| pool.remove(task.id())).count()),
        }
        drop(pool);
        if end == End::Drop(OnDrop::Detach) || end == End::Drop(OnDrop::Abort) {
            eventually("the threads end by themselves", || threads.all_gone());
        }
        assert!(threads.all_gone(), "{end:?}: {:?}", threads.counts());
        let waiting = drained.len();
        assert!(kept.iter().filter(|handle| !handle.is_done()).count() <= waiting);
        drop(drained);
        assert!(kept.iter().all(TaskHandle::is_done), "{end:?}");
        drop(kept);
        assert_eq!(ledger.alive(), 0, "{end:?}");
    }
}

/// On a clock that stands still it is known when each thing goes, not only that it does.
#[test]
fn a_thing_goes_as_soon_as_nobody_can_want_it() {
    let (ledger, clock) = (Ledger::default(), ManualClock::new());
    let pool = Executor::builder().clock(clock.clone()).build().unwrap();
    let holding = |token: Token| move || _ = &token;
    // Captured things go with the run, the value with the handle.
    let captured = ledger.token();
    let value = ledger.token();
    let handle = pool.submit(move || (drop(captured), value).1).unwrap();
    handle.wait().unwrap();
    clock.wait_until_idle();
    assert_eq!(ledger.alive(), 1);
    drop(handle);
    assert_eq!(ledger.alive(), 0);
    // What a cancelled task captured goes with the cancel, kept or not.
    for on_cancel in [OnCancel::Remove, OnCancel::KeepUntilDue] {
        pool.set_on_cancel(on_cancel);
        let mut far = pool.schedule(HOUR, holding(ledger.token())).unwrap();
        ledger.poll(&mut far);
        assert_eq!(ledger.alive(), 2);
        far.cancel();
        assert_eq!(ledger.alive(), 0);
    }
    // A payload goes with the last who can look at it.
    let payload = ledger.token();
    let failed = pool.submit(move || panic_any(payload)).unwrap();
    let error = failed.join().unwrap_err();
    clock.wait_until_idle();
    drop(failed);
    assert_eq!(ledger.alive(), 1);
    drop(error);
    assert_eq!(ledger.alive(), 0);
    // The closure of a refused task comes back and goes with the refusal.
    pool.shutdown();
    let refused = pool.submit(holding(ledger.token())).unwrap_err();
    assert_eq!(ledger.alive(), 1);
    drop(refused);
    assert_eq!(ledger.alive(), 0);
    finish(&pool);
}

/// The work refers to its limit, and the limit to the work: neither may wait for the hour to pass.
#[test]
fn work_with_a_limit_goes_at_once_when_its_decorator_panics() {
    let (ledger, clock) = (Ledger::default(), ManualClock::new());
    let decorate = |_: TaskInfo<'_>| -> Option<Box<dyn Decoration>> { panic!("no decoration") };
    let pool = Executor::builder().clock(clock.clone()).decorator(decorate).build().unwrap();
    let (captured, fallback) = (ledger.token(), ledger.token());
    let submit = || drop(pool.submit_with_fallback(HOUR, move || drop(captured), move || drop(fallback)));
    assert!(catch_unwind(AssertUnwindSafe(submit)).is_err());
    assert_eq!((ledger.alive(), pool.stats().timeouts), (0, 0));
    finish(&pool);
}

#[test]
fn what_waits_in_queues_goes_with_them() {
    let ledger = Ledger::default();
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    for n in 0..50_u32 {
        queue.push(STEP * n, ledger.token());
    }
    clock.jump(STEP);
    assert_eq!(queue.drain_due(10).len(), 2);
    drop(queue.try_take());
    assert_eq!(ledger.alive(), 48);
    drop(queue);
    assert_eq!(ledger.alive(), 0);

    // A completion queue that is dropped early goes when the last of its tasks does.
    let pool = Executor::builder().clock(clock.clone()).build().unwrap();
    let completed = CompletionQueue::with_clock(clock.clone());
    for n in 0..10_u32 {
        let (captured, value) = (ledger.token(), ledger.token());
        let body = move || (drop(captured), value).1;
        completed.push(pool.schedule(STEP * n, body).unwrap());
    }
    clock.advance(4 * STEP);
    drop(completed.take().unwrap());
    drop(completed);
    clock.advance(10 * STEP);
    assert_eq!(ledger.alive(), 0);
    finish(&pool);

    let task = FutureTask::new({
        let token = ledger.token();
        move || token
    });
    task.notify(&Waker::from(Arc::new(Bell(ledger.token()))));
    drop(task);
    assert_eq!(ledger.alive(), 0);
}

/// Waits on a manual clock that end by time, by cancel and by interrupt leave no waker behind.
#[test]
fn waits_that_end_early_leave_nothing_registered() {
    let (ledger, clock) = (Ledger::default(), ManualClock::new());
    let threads = Threads::default();
    let builder = Executor::builder().core_threads(3).clock(clock.clone());
    let pool = builder.spawner(threads.clone()).observer(threads.clone()).build().unwrap();
    let gate = Gate::new();
    let log = Log::new();
    let far = Arc::new(Mutex::new(Some(pool.schedule(HOUR, || ()).unwrap())));
    let waiters: Vec<_> = (0..2_u32)
        .map(|n| {
            let (far, log, entry, token) = (Arc::clone(&far), log.clone(), gate.clone(), ledger.token());
            let body = move || {
                let _ = &token;
                let handle = far.lock().unwrap().take();
                entry.pass();
                // One waits for a task that does not come, one on the clock; both are interrupted.
                let interrupted = match handle {
                    Some(handle) => handle.join().is_err(),
                    None => punctual::TaskContext::current().sleep(HOUR).is_err(),
                };
                log.add((n, interrupted));
            };
            pool.submit(body).unwrap()
        })
        .collect();
    gate.await_arrivals(2);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries().len(), 0);
    assert!(waiters.iter().all(TaskHandle::interrupt));
    clock.wait_until_idle();
    assert_eq!(log.entries().iter().filter(|(_, interrupted)| *interrupted).count(), 2);
    assert_eq!(ledger.alive(), 0);
    finish(&pool);
    assert!(threads.all_gone());
}

/// Hooks see every run of a load, and what they are given does not outlive them.
#[test]
fn an_observer_goes_with_its_executor() {
    struct Held(Token);
    impl Observer for Held {
        fn after_run(&self, _: TaskInfo<'_>, _: RunOutcome<'_>) {
            let _ = &self.0;
        }
    }
    let ledger = Ledger::default();
    let pool = Executor::builder().observer(Held(ledger.token())).build().unwrap();
    let handle = pool.submit(|| 7).unwrap();
    assert_eq!(handle.join().unwrap(), 7);
    finish(&pool);
    drop(pool);
    assert_eq!(ledger.alive(), 1, "a handle is a grip on the executor too");
    drop(handle);
    assert_eq!(ledger.alive(), 0);
}
