//! Destructors that take their time, wait for other tasks, or ask where they are.

use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::SystemTime;

use punctual::{
    Clock, Executor, ManualClock, Missed, OnDrop, Parker, Scheduler, TaskContext, TaskHandle, TaskId, Tick,
};

use crate::support::{Counter, Gate, HOUR, PATIENCE, STEP, block_worker, eventually, finish, manual};

/// Calls its closure when it is dropped.
struct Last<F: FnOnce()>(Option<F>);

fn last<F: FnOnce()>(call: F) -> Last<F> {
    Last(Some(call))
}

impl<F: FnOnce()> Drop for Last<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

/// Tells as which task it is dropped.
fn witness(seen: &mpsc::Sender<Option<TaskId>>) -> impl Send + 'static {
    let seen = seen.clone();
    last(move || seen.send(TaskContext::current().id()).unwrap())
}

/// Has the pool do something, waits for it, and tells what came of it.
fn client(scheduler: Scheduler) -> (impl Send + 'static, mpsc::Receiver<u32>) {
    let (sender, answer) = mpsc::channel();
    let value = last(move || {
        // Gives up in real time, so that the threads of a failing test end.
        let (done, end) = mpsc::channel();
        scheduler.execute(move || done.send(7).unwrap()).unwrap();
        if let Ok(seven) = end.recv_timeout(PATIENCE) {
            sender.send(seven).unwrap();
        }
    });
    (value, answer)
}

/// Stands still, and once does something on the thread that asked for it when that looks at the clock next.
#[derive(Clone, Default)]
struct Sly {
    now: Arc<AtomicU64>,
    trick: Arc<Mutex<Option<Trick>>>,
    /// How often a thread has come to wait.
    waits: Counter,
}

type Trick = (ThreadId, Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Sly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sly")
    }
}

impl Sly {
    fn when_i_look(&self, trick: impl FnOnce() + Send + 'static) {
        *self.trick.lock().unwrap() = Some((thread::current().id(), Box::new(trick)));
    }

    fn await_waits(&self, n: usize) {
        eventually("the workers wait", || self.waits.get() >= n);
    }
}

impl Clock for Sly {
    fn now(&self) -> Tick {
        let trick = self.trick.lock().unwrap().take_if(|(thread, _)| *thread == thread::current().id());
        if let Some((_, trick)) = trick {
            trick();
        }
        Tick::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn wait(&self, parker: &Arc<Parker>, _: Option<Tick>) {
        self.waits.hit();
        parker.park();
    }
}

/// Two workers that wait.
fn sly_pool() -> (Executor, Sly) {
    let clock = Sly::default();
    let builder = Executor::builder().core_threads(2).clock(clock.clone()).on_drop(OnDrop::Detach);
    let pool = builder.build().unwrap();
    assert_eq!(pool.prestart_all_core_threads(), 2);
    clock.await_waits(2);
    (pool, clock)
}

#[test]
fn a_panic_payload_that_nobody_asks_for_may_wait_for_another_task() {
    for threads in [2, 3] {
        let builder = Executor::builder().core_threads(threads).on_drop(OnDrop::Detach);
        let clock = ManualClock::new();
        let pool = builder.clock(clock.clone()).build().unwrap();
        assert_eq!(pool.prestart_all_core_threads(), threads);
        clock.wait_until_idle();
        let (payload, answer) = client(pool.scheduler());
        pool.execute(move || panic_any(payload)).unwrap();
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(7), "everybody else sleeps");
        assert_eq!(pool.submit(|| 8).unwrap().join().unwrap(), 8);
        finish(&pool);
    }
}

/// The handle goes when the worker has found that somebody may still ask for the value: then the worker is the last to have
/// it, at a moment when it is about to wait.
#[test]
fn a_value_may_wait_for_another_task_whenever_its_handle_goes() {
    let (pool, clock) = sly_pool();
    let (value, answer) = client(pool.scheduler());
    let (give, given) = mpsc::channel::<TaskHandle<_>>();
    let inner = clock.clone();
    let handle = pool.submit(move || {
        let own = given.recv().unwrap();
        inner.when_i_look(move || drop(own));
        value
    });
    give.send(handle.unwrap()).unwrap();
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(7), "the other worker sleeps");
    finish(&pool);
}

/// The same at a moment when the worker takes one task and is to wake another for the next.
#[test]
fn a_value_that_takes_its_time_keeps_no_other_worker_waiting() {
    let (pool, clock) = sly_pool();
    let (give, given) = mpsc::channel::<TaskHandle<_>>();
    let (ran, runs) = mpsc::channel();
    let (sender, answer) = mpsc::channel();
    let value = last(move || sender.send(runs.recv_timeout(PATIENCE)).unwrap());
    let inner = clock.clone();
    let handle = pool.submit(move || {
        let own = given.recv().unwrap();
        let now = Arc::clone(&inner.now);
        inner.when_i_look(move || {
            drop(own);
            // It leaps, and nobody wakes by itself.
            now.store(Tick::ZERO.after(2 * HOUR).as_nanos(), Ordering::SeqCst);
        });
        value
    });
    let first = pool.schedule(HOUR, || ()).unwrap();
    clock.await_waits(3);
    let second = pool.schedule(HOUR, move || ran.send(()).unwrap()).unwrap();
    give.send(handle.unwrap()).unwrap();
    assert_eq!(answer.recv_timeout(2 * PATIENCE), Ok(Ok(())), "nobody was woken for the second");
    assert!(first.join().is_ok() && second.join().is_ok());
    finish(&pool);
}

#[test]
fn a_panic_payload_is_dropped_as_its_own_task_and_not_as_the_next() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let block = block_worker(&pool, &gate);
    let (seen, sights) = mpsc::channel();
    let (payload, own) = (witness(&seen), seen.clone());
    pool.execute(move || {
        own.send(TaskContext::current().id()).unwrap();
        panic_any(payload);
    })
    .unwrap();
    let next = pool.submit(|| ()).unwrap();
    gate.open();
    assert!(block.join().is_ok() && next.join().is_ok());
    let [own, dropped] = [(); 2].map(|()| sights.recv_timeout(PATIENCE).unwrap());
    assert!(own.is_some() && own != Some(next.id()));
    assert_eq!(dropped, own);
    finish(&pool);
}

/// The body comes too late for its time-out, and nobody has a handle.
#[test]
fn what_took_the_place_of_a_value_is_not_dropped_as_the_next_task() {
    for panics in [false, true] {
        let (pool, clock) = manual(1);
        let gate = Gate::new();
        let (seen, sights) = mpsc::channel();
        let (inner, stand_in) = (gate.clone(), witness(&seen));
        let fallback = move || if panics { panic_any(stand_in) } else { Some(stand_in) };
        let body = move || {
            inner.pass();
            None
        };
        let handle = pool.submit_with_fallback(STEP, body, fallback).unwrap();
        gate.await_arrivals(1);
        let next = pool.submit(|| ()).unwrap();
        clock.jump(STEP);
        handle.wait().unwrap();
        drop(handle);
        gate.open();
        next.join().unwrap();
        // On the worker, or where the fallback ran.
        let dropped = sights.recv_timeout(PATIENCE).unwrap();
        assert_ne!(dropped, Some(next.id()));
        finish(&pool);
    }
}

/// A calendar is asked when the task is taken, so its panic ends the task outside of every run.
#[test]
fn a_panic_payload_of_a_calendar_is_not_dropped_as_the_next_task() {
    let (pool, clock) = manual(1);
    let (seen, sights) = mpsc::channel();
    let (first, payload) = (AtomicBool::new(true), Mutex::new(Some(witness(&seen))));
    let calendar = move |wall: SystemTime| match first.swap(false, Ordering::SeqCst) {
        true => Some(wall + STEP),
        false => panic_any(payload.lock().unwrap().take()),
    };
    let series = pool.task(|| ()).calendar(calendar).missed(Missed::once()).start().unwrap();
    let gate = Gate::new();
    let block = block_worker(&pool, &gate);
    clock.jump(2 * STEP);
    let next = pool.submit(|| ()).unwrap();
    drop(series);
    gate.open();
    assert!(block.join().is_ok() && next.join().is_ok());
    let dropped = sights.recv_timeout(PATIENCE).unwrap();
    assert_ne!(dropped, Some(next.id()));
    finish(&pool);
}
