//! A spawned future: polled when it is due, and whenever it is woken.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Executor, Observer, RejectReason, Rejection, RunOutcome, TaskInfo, TaskState, Tick};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, block_worker, finish, manual};
use crate::{Event, Yield, block_on};

#[test]
fn a_future_runs_on_a_worker_and_its_handle_has_the_value() {
    let (pool, _clock) = manual(1);
    let thread = std::thread::current().id();
    let handle = pool.spawn(async move { std::thread::current().id() != thread }).unwrap();
    assert!(handle.join().unwrap());
    let handle = pool.spawn(async { 7 }).unwrap();
    assert_eq!(block_on(handle).unwrap(), 7);
    finish(&pool);
}

#[test]
fn a_future_that_waits_holds_no_worker() {
    let (pool, clock) = manual(1);
    let events: Vec<_> = (0..100).map(|_| Event::new()).collect();
    let waiting: Vec<_> = events.iter().map(|event| pool.spawn(event.clone()).unwrap()).collect();
    // The only worker is free for others, and for them.
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    clock.wait_until_idle();
    assert!(waiting.iter().all(|handle| handle.state() == TaskState::Waiting && handle.is_queued()));
    assert_eq!((pool.stats().active, pool.stats().delayed), (0, 100));
    events.iter().rev().for_each(Event::happen);
    waiting.iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(pool.stats().largest_pool_size, 1);
    finish(&pool);
}

#[test]
fn a_future_is_polled_once_for_each_wake_and_not_otherwise() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let handle = pool.spawn(event.clone()).unwrap();
    clock.advance(HOUR);
    assert_eq!(event.polls(), 1);
    for polls in 2..10 {
        event.wake();
        clock.wait_until_idle();
        assert_eq!(event.polls(), polls);
    }
    clock.advance(HOUR);
    assert_eq!((event.polls(), handle.runs()), (9, 1));
    finish(&pool);
}

/// Wakes that come before the poll they ask for are one.
#[test]
fn any_number_of_wakes_before_a_poll_are_one() {
    let (pool, clock) = manual(1);
    let (event, gate) = (Event::new(), Gate::new());
    let handle = pool.spawn(event.clone()).unwrap();
    clock.wait_until_idle();
    let blocked = block_worker(&pool, &gate);
    for _ in 0..10 {
        event.wake();
    }
    assert_eq!(pool.stats().queued, 1, "it is queued once");
    gate.open();
    blocked.join().unwrap();
    clock.wait_until_idle();
    assert_eq!(event.polls(), 2);
    assert!(!handle.is_done());
    finish(&pool);
}

#[test]
fn a_wake_from_inside_a_poll_is_not_lost() {
    let (pool, clock) = manual(1);
    let handle = pool
        .spawn(async {
            for _ in 0..100 {
                Yield::default().await;
            }
            7
        })
        .unwrap();
    clock.wait_until_idle();
    assert_eq!(handle.try_join().unwrap().unwrap(), 7);
    assert_eq!(pool.stats().completed, 101, "each poll counts as a run");
    finish(&pool);
}

/// A wake is a submission: due at that instant, behind what was submitted before, ahead of what comes after.
#[test]
fn a_woken_future_takes_its_turn_by_the_instant_of_the_wake() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (event, gate) = (Event::new(), Gate::new());
    let awaited = event.clone();
    let entry = log.clone();
    let handle = pool
        .spawn(async move {
            awaited.await;
            entry.add("woken");
        })
        .unwrap();
    clock.wait_until_idle();
    block_worker(&pool, &gate);
    pool.submit(log.body("before")).unwrap();
    event.happen();
    pool.submit(log.body("after")).unwrap();
    clock.jump(STEP);
    pool.submit(log.body("later")).unwrap();
    pool.task(log.body("earlier")).first(Tick::ZERO).start().unwrap();
    gate.open();
    handle.join().unwrap();
    clock.wait_until_idle();
    assert_eq!(log.entries(), ["before", "woken", "after", "earlier", "later"]);
    finish(&pool);
}

/// Under its old number a future that wakes itself would be first for ever while the clock stands still.
#[test]
fn futures_that_wake_themselves_take_turns_while_the_clock_stands_still() {
    let (pool, clock) = manual(1);
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    let first = pool
        .spawn(async move {
            while !seen.load(std::sync::atomic::Ordering::SeqCst) {
                Yield::default().await;
            }
        })
        .unwrap();
    let second = pool.submit(move || flag.store(true, std::sync::atomic::Ordering::SeqCst)).unwrap();
    second.join().unwrap();
    first.join().unwrap();
    clock.wait_until_idle();
    finish(&pool);
}

#[test]
fn the_deadline_of_a_waiting_future_is_the_end_of_time_and_then_the_instant_of_its_wake() {
    let (pool, clock) = manual(1);
    let (event, gate) = (Event::new(), Gate::new());
    let handle = pool.spawn_after(STEP, event.clone()).unwrap();
    assert_eq!(handle.deadline(), Tick::ZERO.after(STEP));
    clock.advance(2 * STEP);
    assert_eq!(handle.deadline(), Tick::MAX);
    assert_eq!(clock.advance_to_next(), None, "nobody waits for an instant");
    block_worker(&pool, &gate);
    event.wake();
    assert_eq!(handle.deadline(), Tick::ZERO.after(2 * STEP));
    clock.jump(STEP);
    event.wake();
    assert_eq!(handle.deadline(), Tick::ZERO.after(2 * STEP), "the first wake counts");
    gate.open();
    clock.wait_until_idle();
    finish(&pool);
}

#[test]
fn a_delayed_future_is_not_polled_early() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let handle = pool.spawn_after(HOUR, event.clone()).unwrap();
    event.happen();
    clock.advance(HOUR - Duration::from_nanos(1));
    assert_eq!(event.polls(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(event.polls(), 1);
    handle.join().unwrap();
    finish(&pool);
}

#[test]
fn a_future_made_by_a_closure_is_made_when_it_is_due() {
    let (pool, clock) = manual(1);
    let made = Counter::new();
    let count = made.clone();
    let make = move || {
        count.hit();
        async { 7 }
    };
    let handle = pool.task_async(make).name("later").after(HOUR).start().unwrap();
    assert_eq!((handle.name(), made.get()), (Some("later"), 0));
    clock.advance(HOUR);
    assert_eq!((made.get(), handle.join().unwrap()), (1, 7));
    finish(&pool);
}

#[test]
fn a_refused_future_comes_back_unpolled_and_usable() {
    let (pool, _clock) = manual(1);
    pool.shutdown();
    let event = Event::new();
    event.happen();
    let awaited = event.clone();
    let (probe, captured) = Probe::new();
    let refused = pool
        .spawn(async move {
            let _captured = captured;
            awaited.await;
            7
        })
        .unwrap_err();
    assert_eq!((refused.reason(), event.polls()), (RejectReason::ShutDown, 0));
    assert!(!probe.is_dropped());
    assert_eq!(block_on(refused.into_task()), 7);
    assert!(probe.is_dropped());
    let closure = pool.task_async(|| async { 7 }).start().unwrap_err().into_task();
    assert_eq!(block_on(closure()), 7);
    finish(&pool);
}

/// To be accepted takes room, to be woken does not.
#[test]
fn a_full_queue_refuses_a_new_future_and_takes_a_woken_one() {
    let clock = punctual::ManualClock::new();
    let pool = Executor::builder().capacity(1).clock(clock.clone()).build().unwrap();
    let (event, gate) = (Event::new(), Gate::new());
    let waiting = pool.spawn(event.clone()).unwrap();
    clock.wait_until_idle();
    block_worker(&pool, &gate);
    assert_eq!(pool.spawn(async {}).unwrap_err().reason(), RejectReason::Saturated);
    event.happen();
    gate.open();
    waiting.join().unwrap();
    finish(&pool);
}

/// The caller polls once; the pool, which had no room for a new task, takes the one that has begun.
#[test]
fn a_future_that_its_caller_had_to_run_goes_on_in_the_pool() {
    let clock = punctual::ManualClock::new();
    let builder = Executor::builder().capacity(0).rejection(Rejection::CallerRuns).clock(clock.clone());
    let pool = builder.build().unwrap();
    let (event, gate) = (Event::new(), Gate::new());
    block_worker(&pool, &gate);
    let handle = pool.spawn(event.clone()).unwrap();
    assert_eq!((event.polls(), handle.state()), (1, TaskState::Waiting));
    gate.open();
    clock.wait_until_idle();
    assert_eq!(event.polls(), 1);
    event.happen();
    handle.join().unwrap();
    assert_eq!(event.polls(), 2);
    finish(&pool);
}

/// Every poll is a run to hooks; they learn whether the future was ready.
#[test]
fn hooks_see_every_poll_and_whether_it_was_the_last() {
    struct Outcomes(Log<(u64, &'static str)>);
    impl Observer for Outcomes {
        fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
            let outcome = match outcome {
                RunOutcome::Pending => "pending",
                RunOutcome::Returned => "returned",
                _ => "panicked",
            };
            self.0.add((task.runs(), outcome));
        }
    }
    let log = Log::new();
    let clock = punctual::ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).observer(Outcomes(log.clone())).build().unwrap();
    pool.spawn(async { Yield::default().await }).unwrap().join().unwrap();
    assert!(
        pool.spawn(async {
            Yield::default().await;
            panic!("on purpose")
        })
        .unwrap()
        .join()
        .is_err()
    );
    let expected = [(1, "pending"), (1, "returned"), (1, "pending"), (1, "panicked")];
    assert_eq!(log.entries(), expected);
    finish(&pool);
}

/// A pool without core threads keeps one for a future that waits, and starts one for a future that is woken.
#[test]
fn a_pool_without_core_threads_runs_futures() {
    let (pool, clock) = manual(0);
    let event = Event::new();
    let handle = pool.spawn(event.clone()).unwrap();
    clock.advance(HOUR);
    event.happen();
    handle.join().unwrap();
    clock.advance(HOUR);
    assert_eq!((event.polls(), pool.stats().pool_size), (2, 0));
    finish(&pool);
}

/// A future knows its task, as every body does.
#[test]
fn a_future_sees_the_context_of_its_task() {
    let (pool, _clock) = manual(1);
    let make = || async {
        Yield::default().await;
        let context = punctual::TaskContext::current();
        (context.id(), context.name().map(str::to_owned), context.runs())
    };
    let handle = pool.task_async(make).name("me").start().unwrap();
    let id = handle.id();
    assert_eq!(handle.join().unwrap(), (Some(id), Some("me".to_owned()), 1));
    finish(&pool);
}

#[test]
fn a_listing_has_woken_futures_in_the_order_in_which_they_will_be_polled() {
    let (pool, clock) = manual(1);
    let (event, gate) = (Event::new(), Gate::new());
    let woken = pool.spawn(event.clone()).unwrap();
    clock.wait_until_idle();
    block_worker(&pool, &gate);
    let before = pool.submit(|| ()).unwrap();
    event.wake();
    let after = pool.submit(|| ()).unwrap();
    let listed: Vec<_> = pool.queue().iter().map(|task| task.id()).collect();
    assert_eq!(listed, [before.id(), woken.id(), after.id()]);
    gate.open();
    clock.wait_until_idle();
    finish(&pool);
}
