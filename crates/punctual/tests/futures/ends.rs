//! How a future ends when it is not let run to its end, and what is left of it: nothing.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual::{
    Abandoned, Decoration, Executor, Keep, Leftover, ManualClock, OnCancel, OnDrop, TaskContext, TaskError,
    TaskHandle, TaskInfo, TaskState, WaitError,
};

use crate::support::{Gate, HOUR, Probe, finish, manual};
use crate::{Event, Yield};

fn is_abandoned<T>(handle: &TaskHandle<T>, how: Abandoned) -> bool {
    matches!(handle.failure(), Some(TaskError::Abandoned(why)) if why == how)
}

#[test]
fn a_cancelled_future_that_waits_is_dropped_before_cancel_returns() {
    for on_cancel in [OnCancel::Remove, OnCancel::KeepUntilDue] {
        let clock = ManualClock::new();
        let pool = Executor::builder().on_cancel(on_cancel).clock(clock.clone()).build().unwrap();
        let event = Event::new();
        let awaited = event.clone();
        let (probe, captured) = Probe::new();
        let handle = pool
            .spawn(async move {
                let _captured = captured;
                awaited.await;
            })
            .unwrap();
        clock.wait_until_idle();
        assert!(handle.cancel());
        assert!(probe.is_dropped() && handle.is_cancelled() && !handle.cancel());
        // What waits to be woken is never due, so there is nothing to keep it for.
        assert_eq!(pool.stats().queued, 0);
        // The waker outlives it, and does no harm.
        event.happen();
        clock.wait_until_idle();
        assert_eq!(event.polls(), 1);
        finish(&pool);
    }
}

#[test]
fn a_future_cancelled_while_it_is_polled_is_dropped_right_after_that_poll() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let (probe, captured) = Probe::new();
    let held = gate.clone();
    let handle = pool
        .spawn(async move {
            let _captured = captured;
            held.pass();
            Yield::default().await;
            unreachable!("it is not polled again");
        })
        .unwrap();
    gate.await_arrivals(1);
    assert!(handle.cancel());
    assert!(handle.join().unwrap_err().is_cancelled() && !probe.is_dropped());
    gate.open();
    clock.wait_until_idle();
    assert!(probe.is_dropped());
    assert_eq!((pool.stats().queued, pool.stats().active), (0, 0));
    finish(&pool);
}

#[test]
fn a_future_that_is_polled_learns_of_an_interrupt() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let (held, seen) = (gate.clone(), Arc::new(Mutex::new(None)));
    let see = Arc::clone(&seen);
    let handle = pool
        .spawn(async move {
            held.pass();
            *see.lock().unwrap() = Some(TaskContext::current().is_interrupted());
        })
        .unwrap();
    gate.await_arrivals(1);
    assert!(handle.interrupt());
    gate.open();
    clock.wait_until_idle();
    assert_eq!(*seen.lock().unwrap(), Some(true));
    finish(&pool);
}

#[test]
fn a_panic_of_any_poll_is_the_outcome_and_costs_no_worker() {
    let (pool, _clock) = manual(1);
    for yields in 0..3 {
        let (probe, captured) = Probe::new();
        let handle = pool
            .spawn(async move {
                let _captured = captured;
                for _ in 0..yields {
                    Yield::default().await;
                }
                panic!("poll {yields}");
            })
            .unwrap();
        let error: WaitError = handle.join().unwrap_err();
        assert_eq!(error.panic().unwrap().message(), format!("poll {yields}"));
        assert!(probe.is_dropped());
    }
    assert_eq!(pool.stats().largest_pool_size, 1);
    finish(&pool);
}

/// The value is safe from a destructor that panics.
#[test]
fn a_future_whose_destructor_panics_keeps_its_value() {
    struct Bomb(bool);
    impl Future for Bomb {
        type Output = u8;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
            self.0 = true;
            Poll::Ready(7)
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "a destructor panics");
        }
    }
    let (pool, _clock) = manual(1);
    assert_eq!(pool.spawn(Bomb(false)).unwrap().join().unwrap(), 7);
    assert_eq!(pool.submit(|| 8).unwrap().join().unwrap(), 8);
    finish(&pool);
}

// ---- shutdown

/// By analogy with delayed tasks, which a shutdown leaves by default.
#[test]
fn a_shutdown_lets_futures_go_on_and_the_executor_ends_after_them() {
    let (pool, clock) = manual(1);
    let (first, second) = (Event::new(), Event::new());
    let (one, two) = (first.clone(), second.clone());
    let handle = pool
        .spawn(async move {
            one.await;
            two.await;
            7
        })
        .unwrap();
    clock.wait_until_idle();
    pool.shutdown();
    clock.wait_until_idle();
    assert!(pool.is_terminating());
    first.happen();
    clock.wait_until_idle();
    assert!(pool.is_terminating() && !handle.is_done());
    second.happen();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(handle.join().unwrap(), 7);
}

#[test]
fn a_shutdown_that_cancels_delayed_tasks_cancels_futures_that_wait() {
    let (pool, clock) = manual(1);
    pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
    let (probe, captured) = Probe::new();
    let (event, gate) = (Event::new(), Gate::new());
    let awaited = event.clone();
    let waiting = pool
        .spawn(async move {
            let _captured = captured;
            awaited.await;
        })
        .unwrap();
    clock.wait_until_idle();
    // This one is being polled; it is cancelled when it has to wait.
    let (held, late) = (gate.clone(), event.clone());
    let polled = pool
        .spawn(async move {
            held.pass();
            Yield::default().await;
            late.await;
        })
        .unwrap();
    gate.await_arrivals(1);
    pool.shutdown();
    assert!(waiting.is_cancelled() && probe.is_dropped() && !polled.is_done());
    gate.open();
    assert!(pool.await_termination(Duration::MAX));
    assert!(polled.is_cancelled());
    assert_eq!(event.polls(), 2, "woken in its first poll, it had its second");
}

#[test]
fn a_stop_returns_futures_that_wait_and_dropping_them_resolves_their_handles() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let (event, gate) = (Event::new(), Gate::new());
    let awaited = event.clone();
    let waiting = pool
        .spawn(async move {
            let _captured = captured;
            awaited.await;
        })
        .unwrap();
    clock.wait_until_idle();
    let held = gate.clone();
    let polled = pool
        .spawn(async move {
            held.pass();
            pending::<()>().await;
        })
        .unwrap();
    gate.await_arrivals(1);
    let drained = pool.shutdown_now();
    assert_eq!(drained.iter().map(|task| task.id()).collect::<Vec<_>>(), [waiting.id()]);
    // Woken in the hands of its owner it stays there.
    event.wake();
    assert!(!waiting.is_done());
    drop(drained);
    assert!(is_abandoned(&waiting, Abandoned::Stopped) && probe.is_dropped());
    gate.open();
    assert!(pool.await_termination(Duration::MAX));
    assert!(polled.is_done());
}

#[test]
fn a_drained_future_that_is_run_is_polled_once_and_ends() {
    let (pool, clock) = manual(1);
    let (ready, unready) = (Event::new(), Event::new());
    let handles = [ready.clone(), unready.clone()].map(|event| pool.spawn(event).unwrap());
    clock.wait_until_idle();
    let drained = pool.shutdown_now();
    ready.happen();
    for task in drained {
        assert!(task.run());
    }
    assert_eq!(handles[0].state(), TaskState::Succeeded);
    assert!(is_abandoned(&handles[1], Abandoned::Stopped));
    assert_eq!((ready.polls(), unready.polls()), (2, 2));
    assert!(pool.await_termination(Duration::MAX));
}

#[test]
fn a_future_that_was_taken_out_and_is_run_goes_back_if_it_is_not_ready() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let handle = pool.spawn(event.clone()).unwrap();
    clock.wait_until_idle();
    let task = handle.remove().unwrap();
    event.wake();
    clock.wait_until_idle();
    assert_eq!((event.polls(), pool.stats().queued), (1, 0));
    assert!(task.run());
    assert_eq!((event.polls(), pool.stats().queued), (2, 1));
    event.happen();
    handle.join().unwrap();
    finish(&pool);
}

/// The pool may be gone when somebody calls a waker.
#[test]
fn a_waker_outlives_future_handle_and_pool() {
    let event = Event::new();
    let (probe, value) = Probe::new();
    let (pool, clock) = manual(1);
    let awaited = event.clone();
    let handle = pool
        .spawn(async move {
            awaited.await;
            value
        })
        .unwrap();
    clock.wait_until_idle();
    let waker = event.waker();
    event.happen();
    handle.wait().unwrap();
    drop(handle);
    clock.wait_until_idle();
    assert!(probe.is_dropped(), "the waker keeps no value");
    waker.wake_by_ref();
    finish(&pool);
    drop(pool);
    waker.wake_by_ref();
    waker.wake();
    event.wake();
}

#[test]
fn an_executor_that_is_dropped_leaves_no_handle_waiting() {
    for on_drop in [OnDrop::Detach, OnDrop::Abort] {
        let pool = Executor::builder().on_drop(on_drop).build().unwrap();
        let event = Event::new();
        let handle = pool.spawn(event.clone()).unwrap();
        pool.submit(|| ()).unwrap().join().unwrap();
        drop(pool);
        if on_drop == OnDrop::Detach {
            // As a delayed task would.
            event.happen();
        }
        assert_eq!(handle.join().is_ok(), on_drop == OnDrop::Detach);
    }
}

// ---- futures that nobody can wake

#[test]
fn a_future_that_keeps_no_waker_ends_as_abandoned() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let handle = pool
        .spawn(async move {
            let _captured = captured;
            pending::<()>().await;
        })
        .unwrap();
    clock.wait_until_idle();
    assert!(is_abandoned(&handle, Abandoned::Dropped) && probe.is_dropped());
    pool.close().unwrap();
}

/// Not by the thread that drops the waker: it may hold a lock that the future's destructor takes.
#[test]
fn a_future_whose_last_waker_is_dropped_ends_on_a_worker() {
    struct Locks(Arc<Mutex<Option<Waker>>>);
    impl Drop for Locks {
        fn drop(&mut self) {
            drop(self.0.lock().unwrap());
        }
    }
    let (pool, clock) = manual(1);
    let place = Arc::new(Mutex::new(None));
    let locks = Locks(Arc::clone(&place));
    let handle = pool
        .spawn(poll_fn(move |context| {
            locks.0.lock().unwrap().get_or_insert_with(|| context.waker().clone());
            Poll::<()>::Pending
        }))
        .unwrap();
    clock.wait_until_idle();
    let mut held = place.lock().unwrap();
    let second = held.clone();
    *held = None;
    drop(held);
    clock.wait_until_idle();
    assert!(!handle.is_done(), "there is another waker");
    let held = place.lock().unwrap();
    drop(second);
    drop(held);
    clock.wait_until_idle();
    assert!(is_abandoned(&handle, Abandoned::Dropped));
    finish(&pool);
}

#[test]
fn a_future_that_was_woken_by_its_last_waker_is_polled() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let handle = pool.spawn(event.clone()).unwrap();
    clock.wait_until_idle();
    let waker = event.waker();
    event.forget();
    // Consumes the last one.
    waker.wake();
    clock.wait_until_idle();
    assert_eq!((event.polls(), handle.state()), (2, TaskState::Waiting));
    event.forget();
    clock.wait_until_idle();
    assert_eq!((event.polls(), handle.state()), (2, TaskState::Abandoned));
    finish(&pool);
}

// ---- decorations

/// Leaves out the body from the given run on.
struct LeaveOut(usize);

impl Decoration for LeaveOut {
    fn run(&mut self, body: &mut dyn FnMut()) {
        if self.0 > 0 {
            self.0 -= 1;
            body();
        }
    }
}

#[test]
fn a_future_that_is_left_out_by_its_decoration_ends_as_abandoned() {
    for polls in 0..3 {
        let clock = ManualClock::new();
        let decorator = move |_: TaskInfo<'_>| Some(Box::new(LeaveOut(polls)) as Box<dyn Decoration>);
        let pool = Executor::builder().clock(clock.clone()).decorator(decorator).build().unwrap();
        let handle = pool
            .spawn(async {
                for _ in 0..3 {
                    Yield::default().await;
                }
            })
            .unwrap();
        clock.advance(HOUR);
        assert!(is_abandoned(&handle, Abandoned::Dropped), "left out after {polls}");
        finish(&pool);
    }
}

/// The panic belongs to the submitting thread, and the future must not be left behind with nobody to end it.
#[test]
fn a_decorator_that_panics_leaves_nothing_of_the_future() {
    let decorator = |_: TaskInfo<'_>| -> Option<Box<dyn Decoration>> { panic!("on purpose") };
    let pool = Executor::builder().decorator(decorator).build().unwrap();
    let (probe, captured) = Probe::new();
    let future = async move { drop(captured) };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.spawn(future)));
    assert!(result.is_err() && probe.is_dropped());
    finish(&pool);
}

/// A future may own the last grip on its executor, and be dropped by whoever cancels it.
#[test]
fn a_future_that_owns_its_executor_can_be_cancelled() {
    for on_drop in [OnDrop::Detach, OnDrop::Join, OnDrop::Abort] {
        let pool = Executor::builder().on_drop(on_drop).build().unwrap();
        let (event, inner) = (Event::new(), pool.clone());
        let awaited = event.clone();
        let handle = pool
            .spawn(async move {
                awaited.await;
                drop(inner);
            })
            .unwrap();
        crate::support::eventually("it waits", || event.polls() == 1);
        drop(pool);
        assert!(handle.cancel() && handle.is_cancelled());
    }
}
