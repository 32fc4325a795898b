//! Models of a future on a pool with one worker: no wake is lost, and it ends once.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::thread;

use crate::loom_support::{Counted, Drops, explore, pool};
use crate::{Abandoned, Executor, ManualClock, TaskError, WaitError};

/// Ready when it has happened. None of this is loom's: what is modelled is who is woken.
#[derive(Clone, Default)]
struct Event(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

struct Awaits {
    event: Event,
    _counted: Counted,
}

impl Event {
    fn awaits(&self, drops: &Drops) -> Awaits {
        Awaits { event: self.clone(), _counted: drops.counted() }
    }

    fn take_waker(&self) -> Option<Waker> {
        self.0.1.lock().unwrap().take()
    }

    /// Calls the waker that is there now, if one is.
    fn happen(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        // Unlocked: what follows may switch threads.
        if let Some(waker) = self.take_waker() {
            waker.wake();
        }
    }
}

impl Future for Awaits {
    type Output = u8;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u8> {
        let waker = context.waker().clone();
        let old = self.event.0.1.lock().unwrap().replace(waker);
        drop(old);
        // A place for another thread to come in between.
        thread::yield_now();
        if self.event.0.0.load(Ordering::SeqCst) { Poll::Ready(7) } else { Poll::Pending }
    }
}

fn start() -> Executor {
    pool(&ManualClock::new(), 0).build().unwrap()
}

fn end(executor: &Executor) {
    executor.shutdown();
    assert!(executor.await_termination(Duration::MAX));
    assert_eq!((executor.stats().queued, executor.stats().active), (0, 0));
}

#[test]
fn a_wake_at_any_moment_is_answered_by_a_poll() {
    explore(3, || {
        let (executor, event, drops) = (start(), Event::default(), Drops::default());
        let handle = executor.spawn(event.awaits(&drops)).unwrap();
        let waker = {
            let event = event.clone();
            thread::spawn(move || event.happen())
        };
        assert_eq!(handle.join().unwrap(), 7);
        waker.join().unwrap();
        assert_eq!(drops.get(), 1);
        drop(event.take_waker());
        end(&executor);
    });
}

#[test]
fn a_cancel_beside_a_wake_ends_the_future_once() {
    explore(3, || {
        let (executor, event, drops) = (start(), Event::default(), Drops::default());
        let handle = executor.spawn(event.awaits(&drops)).unwrap();
        let waker = {
            let event = event.clone();
            thread::spawn(move || event.happen())
        };
        let cancelled = handle.cancel();
        assert_eq!(handle.join().is_err(), cancelled);
        waker.join().unwrap();
        end(&executor);
        assert_eq!(drops.get(), 1);
        drop(event.take_waker());
    });
}

#[test]
fn a_last_waker_dropped_at_any_moment_resolves_the_handle() {
    explore(3, || {
        let (executor, event, drops) = (start(), Event::default(), Drops::default());
        let handle = executor.spawn(event.awaits(&drops)).unwrap();
        let dropper = {
            let event = event.clone();
            thread::spawn(move || {
                let waker = event.take_waker();
                let found = waker.is_some();
                drop(waker);
                found
            })
        };
        if !dropper.join().unwrap() {
            // It came too early: then the future is woken.
            event.happen();
            handle.cancel();
        }
        match handle.join() {
            Ok(value) => assert_eq!(value, 7),
            Err(WaitError::Task(TaskError::Abandoned(Abandoned::Dropped) | TaskError::Cancelled)) => {}
            Err(other) => panic!("{other}"),
        }
        end(&executor);
        assert_eq!(drops.get(), 1);
        drop(event.take_waker());
    });
}
