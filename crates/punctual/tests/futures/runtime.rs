//! Bodies that run on somebody else's runtime, timed and held by the pool.

use std::future::pending;
use std::sync::{Arc, Mutex};

use punctual::{BoxedFuture, Executor, TaskState, run_on};

use crate::support::{HOUR, Probe, STEP, finish, manual};
use crate::{Event, Yield, block_on};

/// Keeps what it is given until it is told to run or drop it.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<BoxedFuture>>>);

impl Shelf {
    fn runtime(&self) -> impl Fn(BoxedFuture) + Send + Sync + 'static {
        let this = self.clone();
        move |future| this.0.lock().unwrap().push(future)
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn run_all(&self) {
        let futures = std::mem::take(&mut *self.0.lock().unwrap());
        futures.into_iter().for_each(block_on);
    }

    fn drop_all(&self) {
        let futures = std::mem::take(&mut *self.0.lock().unwrap());
        drop(futures);
    }
}

/// Another pool as the runtime.
fn pool_as_runtime() -> (Executor, impl Fn(BoxedFuture) + Clone + Send + Sync + 'static) {
    let (pool, _clock) = manual(1);
    let inner = pool.clone();
    (pool, move |future| drop(inner.spawn(future).unwrap()))
}

#[test]
fn the_body_runs_there_and_the_value_comes_here() {
    let (pool, _clock) = manual(1);
    let (other, runtime) = pool_as_runtime();
    let here = pool.submit(|| std::thread::current().id()).unwrap().join().unwrap();
    let there = pool
        .spawn(run_on(runtime, async {
            Yield::default().await;
            std::thread::current().id()
        }))
        .unwrap();
    assert_ne!(there.join().unwrap(), here);
    finish(&pool);
    finish(&other);
}

#[test]
fn a_delayed_body_is_handed_over_when_it_is_due() {
    let (pool, clock) = manual(1);
    let shelf = Shelf::default();
    let handle = pool.spawn_after(HOUR, run_on(shelf.runtime(), async { 7 })).unwrap();
    clock.advance(HOUR - STEP);
    assert_eq!(shelf.len(), 0);
    clock.advance(STEP);
    assert_eq!((shelf.len(), handle.state()), (1, TaskState::Waiting));
    shelf.run_all();
    assert_eq!(handle.join().unwrap(), 7);
    finish(&pool);
}

#[test]
fn a_periodic_body_is_handed_over_at_each_deadline() {
    let (pool, clock) = manual(1);
    let (other, runtime) = pool_as_runtime();
    let handle = pool.task_async(move || run_on(runtime.clone(), async {})).every(HOUR).start().unwrap();
    for runs in 1..4 {
        // It comes back from another pool, which this clock knows nothing of.
        crate::support::eventually("the run is over", || {
            handle.state() == TaskState::Waiting
                && handle.deadline() < punctual::Tick::MAX
                && handle.runs() == runs
        });
        clock.advance(HOUR);
    }
    handle.cancel();
    finish(&pool);
    finish(&other);
}

#[test]
fn a_cancelled_body_is_dropped_by_its_runtime() {
    let (pool, clock) = manual(1);
    let (other, runtime) = pool_as_runtime();
    let (probe, captured) = Probe::new();
    let event = Event::new();
    let awaited = event.clone();
    let handle = pool
        .spawn(run_on(runtime, async move {
            let _captured = captured;
            awaited.await;
        }))
        .unwrap();
    crate::support::eventually("it waits there", || event.polls() == 1);
    clock.wait_until_idle();
    assert!(handle.cancel());
    crate::support::eventually("it is dropped there", || probe.is_dropped());
    assert_eq!(event.polls(), 1);
    finish(&pool);
    finish(&other);
}

/// Cancelled before the runtime gets to it, it is never polled.
#[test]
fn a_body_cancelled_on_its_way_is_not_begun() {
    let (pool, clock) = manual(1);
    let (shelf, event) = (Shelf::default(), Event::new());
    let handle = pool.spawn(run_on(shelf.runtime(), event.clone())).unwrap();
    clock.wait_until_idle();
    assert!(handle.cancel());
    shelf.run_all();
    assert_eq!(event.polls(), 0);
    finish(&pool);
}

#[test]
fn a_panic_there_is_the_outcome_here_with_its_payload() {
    let (pool, _clock) = manual(1);
    let (other, runtime) = pool_as_runtime();
    let handle = pool.spawn(run_on(runtime, async { std::panic::panic_any(7_u8) })).unwrap();
    let error = handle.join().unwrap_err();
    assert_eq!(error.panic().unwrap().with_payload(|payload: &u8| *payload), Some(7));
    finish(&pool);
    finish(&other);
}

#[test]
fn a_body_that_its_runtime_drops_fails_and_does_not_hang() {
    let (pool, clock) = manual(1);
    let shelf = Shelf::default();
    let handle = pool.spawn(run_on(shelf.runtime(), pending::<()>())).unwrap();
    clock.wait_until_idle();
    shelf.drop_all();
    assert!(handle.join().unwrap_err().to_string().contains("the runtime dropped the future"));
    finish(&pool);
}
