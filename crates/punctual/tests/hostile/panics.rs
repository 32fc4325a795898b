//! Panics where nobody expects them.

use std::future::Future;
use std::io;
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use punctual::{
    CompletionQueue, Decoration, Executor, ManualClock, Observer, Panic, Place, RejectReason, RunOutcome,
    TaskError, TaskHandle, TaskInfo, TaskState, WaitError,
};

use crate::support::{Gate, HOUR, Log, STEP, block_worker, finish, manual};
use crate::{Bomb, assert_works};

/// Panics when it is dropped with another of its kind, for as long as its fuse lasts.
struct Chain(u32);

impl Drop for Chain {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Self(self.0 - 1));
        }
    }
}

/// Everything an observer is told about contained panics.
#[derive(Clone)]
struct Seen(Log<Place>);

impl Observer for Seen {
    fn contained(&self, place: Place, _: &Panic) {
        self.0.add(place);
    }
}

fn seen() -> (Executor, ManualClock, Log<Place>) {
    let (clock, log) = (ManualClock::new(), Log::new());
    let pool = Executor::builder().clock(clock.clone()).observer(Seen(log.clone())).build().unwrap();
    (pool, clock, log)
}

/// Runs a task whose value nobody takes: the worker drops it.
fn leave<T: Send + 'static>(pool: &Executor, clock: &ManualClock, value: fn() -> T) {
    drop(pool.schedule(STEP, value).unwrap());
    clock.advance(STEP);
}

#[test]
fn a_panic_payload_whose_destructor_panics_costs_no_worker() {
    let (pool, clock, _) = seen();
    for fuse in [1, 2, 5] {
        // Nobody asks for the outcome: the worker is the last to hold the payload.
        pool.execute(move || panic_any(Chain(fuse))).unwrap();
        let asked = pool.submit(move || panic_any(Chain(fuse))).unwrap();
        assert!(asked.join().unwrap_err().panic().is_some());
        assert_works(&pool);
    }
    // The same from a destructor and from a hook that is told of it.
    pool.execute(|| drop(Chain(3))).unwrap();
    leave(&pool, &clock, || Chain(3));
    assert_works(&pool);
    finish(&pool);
}

#[test]
fn destructors_that_panic_are_contained_wherever_they_run() {
    let (pool, clock, log) = seen();
    let body = || {
        let bomb = Bomb;
        move || _ = &bomb
    };
    // After a run that nobody takes the value of; and a body dropped by a cancel.
    leave(&pool, &clock, || Bomb);
    assert_works(&pool);
    let waiting = pool.schedule_at_fixed_rate(HOUR, HOUR, body()).unwrap();
    assert!(waiting.cancel());
    // Several at once, by policy and by a stop.
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(pool.schedule_at_fixed_rate(HOUR, HOUR, body()).unwrap());
        handles.push(pool.schedule_with_fixed_delay(HOUR, HOUR, body()).unwrap());
    }
    let far: Vec<_> = (0..3).map(|_| pool.schedule(HOUR, body()).unwrap()).collect();
    pool.shutdown();
    assert!(handles.iter().all(TaskHandle::is_cancelled));
    finish(&pool);
    assert!(far.iter().all(|handle| handle.state() == TaskState::Abandoned));
    let contained = log.entries();
    assert_eq!(contained.len(), 1 + 1 + 6 + 3);
    assert!(contained.iter().all(|place| *place == Place::Destructor));
}

/// Panics in every method, and when it is dropped.
struct Spiteful(Bomb);

impl Decoration for Spiteful {
    fn run(&mut self, body: &mut dyn FnMut()) {
        body();
        panic!("a decoration panics after the body");
    }

    fn cancelled(&mut self) {
        let _ = &self.0;
        panic!("a decoration panics when it is told");
    }
}

#[test]
fn a_decoration_that_panics_beside_a_value_and_a_body_that_do_ends_only_its_task() {
    let spite = |_: TaskInfo<'_>| Some(Box::new(Spiteful(Bomb)) as Box<dyn Decoration>);
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).decorator(spite).build().unwrap();
    let run = pool.submit(|| Bomb).unwrap();
    assert!(matches!(run.wait(), Ok(())) && run.state() == TaskState::Failed);
    let bomb = Bomb;
    let cancelled = pool.schedule_at_fixed_rate(HOUR, HOUR, move || _ = &bomb).unwrap();
    assert!(cancelled.cancel());
    // Ended by its time-out while it waits: body and decoration go in one call.
    let gate = Gate::new();
    let block = block_worker(&pool, &gate);
    let bomb = Bomb;
    let late = pool.submit_with_timeout(STEP, move || drop(bomb)).unwrap();
    clock.jump(STEP);
    gate.open();
    assert!(block.wait().is_ok() && late.wait().is_ok());
    // The decoration of a refused task is dropped on the way out, and the body comes back.
    pool.shutdown();
    assert_eq!(pool.submit(|| ()).unwrap_err().reason(), RejectReason::ShutDown);
    finish(&pool);
}

#[test]
fn a_fallback_that_panics_ends_its_task() {
    let (pool, clock) = manual(2);
    let gate = Gate::new();
    let inner = gate.clone();
    let work = pool.submit_with_fallback(STEP, move || inner.pass(), || panic!("no fallback")).unwrap();
    gate.await_arrivals(1);
    clock.jump(STEP);
    assert_eq!(work.join().unwrap_err().panic().unwrap().message(), "no fallback");
    gate.open();
    finish(&pool);
}

/// Panics when it wakes, or when it is dropped.
struct Siren {
    wakes: bool,
}

impl Wake for Siren {
    fn wake(self: Arc<Self>) {
        assert!(!self.wakes, "a waker panics");
    }
}

impl Drop for Siren {
    fn drop(&mut self) {
        assert!(self.wakes, "a waker panics when it is dropped");
    }
}

fn poll<T>(handle: &mut TaskHandle<T>, waker: &Waker) -> bool {
    Pin::new(handle).poll(&mut Context::from_waker(waker)).is_ready()
}

#[test]
fn a_waker_that_panics_leaves_every_other_waiter_woken() {
    let (pool, clock) = manual(1);
    for wakes in [true, false] {
        let mut handle = pool.schedule(STEP, || ()).unwrap();
        let siren = Waker::from(Arc::new(Siren { wakes }));
        assert!(!poll(&mut handle, &siren));
        let queue = CompletionQueue::new();
        drop(siren);
        queue.push(handle);
        clock.advance(STEP);
        assert!(queue.take().unwrap().unwrap().join().is_ok());
    }
    // One that is replaced is dropped by the poll, and the poll has its answer all the same.
    let mut handle = pool.schedule(STEP, || 7).unwrap();
    assert!(!poll(&mut handle, &Waker::from(Arc::new(Siren { wakes: false }))));
    assert!(!poll(&mut handle, Waker::noop()));
    clock.advance(STEP);
    assert_eq!(handle.join().unwrap(), 7);
    assert_works(&pool);
    finish(&pool);
}

/// Panics in every hook; in the one before a run only for tasks with a name.
struct Hysterical;

impl Observer for Hysterical {
    fn before_run(&self, task: TaskInfo<'_>) {
        assert!(task.name().is_none(), "the hook before a run panics");
    }

    fn after_run(&self, _: TaskInfo<'_>, _: RunOutcome<'_>) {
        panic!("the hook after a run panics");
    }

    fn terminated(&self) {
        panic_any(Chain(2));
    }

    fn worker_started(&self) {
        panic!("the hook at the start of a worker panics");
    }

    fn worker_stopped(&self) {
        panic_any(Chain(2));
    }

    fn spawn_failed(&self, _: &io::Error) {
        panic!("the hook for threads that fail panics");
    }

    fn contained(&self, _: Place, _: &Panic) {
        panic_any(Chain(2));
    }
}

#[test]
fn an_observer_that_panics_everywhere_disturbs_nothing_but_what_it_says() {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).observer(Hysterical).build().unwrap();
    assert_works(&pool);
    let named = pool.task(|| 7).name("named").start().unwrap();
    assert!(matches!(named.join(), Err(WaitError::Task(TaskError::HookPanicked(_)))));
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    leave(&pool, &clock, || Bomb);
    clock.advance(2 * STEP);
    assert_eq!(beat.runs(), 3);
    assert!(pool.submit(|| panic!("a body panics")).unwrap().join().unwrap_err().panic().is_some());
    let bomb = Bomb;
    assert!(pool.schedule(HOUR, move || drop(bomb)).unwrap().cancel());
    assert_works(&pool);
    finish(&pool);
    assert!(beat.is_done());
}
