//! Sleep, timeout and interval: polled by anything, timed by the pool.

use std::future::{Future, pending, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual::{
    Executor, Interval, Keep, Leftover, ManualClock, MissedTicks, RejectReason, Sleep, TaskError, Tick,
    TimeoutError, TimerError,
};

use crate::support::{Gate, HOUR, Probe, STEP, block_worker, finish, manual};
use crate::{Calls, Event, block_on};

/// Polls once, by hand, with a waker that counts.
fn poll<F: Future + Unpin>(future: &mut F, calls: &Arc<Calls>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(calls))))
}

fn at(steps: u32) -> Tick {
    Tick::ZERO.after(steps * STEP)
}

#[test]
fn a_sleep_is_ready_at_its_instant_and_not_before_and_wakes_once() {
    let (pool, clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut sleep = pool.sleep(HOUR);
    assert!(poll(&mut sleep, &calls).is_pending());
    clock.advance(HOUR - Duration::from_nanos(1));
    assert!(poll(&mut sleep, &calls).is_pending() && !sleep.is_elapsed());
    assert_eq!(calls.0.get(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(calls.0.get(), 1);
    assert!(matches!(poll(&mut sleep, &calls), Poll::Ready(Ok(()))) && sleep.is_elapsed());
    assert!(matches!(poll(&mut sleep, &calls), Poll::Ready(Ok(()))), "it stays ready");
    finish(&pool);
}

/// The time counts from the call, not from the first poll.
#[test]
fn a_sleep_that_is_polled_late_is_ready_at_once_and_needs_no_timer() {
    let (pool, clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let (mut sleep, mut zero) = (pool.sleep(STEP), pool.sleep(Duration::ZERO));
    clock.advance(STEP);
    assert!(poll(&mut sleep, &calls).is_ready() && poll(&mut zero, &calls).is_ready());
    let mut past = pool.sleep_until(Tick::ZERO);
    assert!(poll(&mut past, &calls).is_ready());
    assert_eq!((pool.stats().completed, pool.stats().pool_size), (0, 0));
    finish(&pool);
}

#[test]
fn nothing_is_queued_before_the_first_poll_and_nothing_is_left_after_a_drop() {
    let (pool, _clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut sleeps: Vec<Sleep> = (0..100).map(|_| pool.sleep(HOUR)).collect();
    assert_eq!(pool.stats().queued, 0);
    for sleep in &mut sleeps {
        assert!(poll(sleep, &calls).is_pending());
    }
    assert_eq!((pool.stats().queued, Arc::strong_count(&calls)), (100, 101));
    drop(sleeps);
    assert_eq!((pool.stats().queued, Arc::strong_count(&calls)), (0, 1), "timers and wakers are gone");
    assert_eq!(calls.0.get(), 0);
    finish(&pool);
}

#[test]
fn a_reset_sleep_waits_for_its_new_instant_alone() {
    let (pool, clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut sleep = pool.sleep(STEP);
    assert!(poll(&mut sleep, &calls).is_pending());
    sleep.reset(3 * STEP);
    assert_eq!((pool.stats().queued, sleep.deadline()), (0, at(3)));
    clock.advance(2 * STEP);
    assert!(poll(&mut sleep, &calls).is_pending());
    assert_eq!(calls.0.get(), 0);
    clock.advance(STEP);
    assert_eq!(calls.0.get(), 1);
    assert!(poll(&mut sleep, &calls).is_ready());
    sleep.reset(at(4));
    assert!(poll(&mut sleep, &calls).is_pending(), "one that was ready may wait again");
    finish(&pool);
}

#[test]
fn the_last_waker_that_polled_is_the_one_that_is_called() {
    let (pool, clock) = manual(1);
    let (old, new) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
    let mut sleep = pool.sleep(STEP);
    assert!(poll(&mut sleep, &old).is_pending() && poll(&mut sleep, &new).is_pending());
    clock.advance(STEP);
    assert_eq!((old.0.get(), new.0.get()), (0, 1));
    finish(&pool);
}

// ---- an executor that runs nothing any more

#[test]
fn a_sleep_on_an_executor_that_is_shut_down_fails_and_does_not_hang() {
    let (pool, _clock) = manual(1);
    let sleeps = [pool.sleep(HOUR), pool.sleep(Duration::ZERO), pool.sleep_until(Tick::MAX)];
    pool.close().unwrap();
    for mut sleep in sleeps {
        for _ in 0..2 {
            let error = block_on(&mut sleep).unwrap_err();
            assert!(matches!(error, TimerError::Rejected(RejectReason::ShutDown)), "{error:?}");
            assert_eq!(error.to_string(), "timer refused: the executor is shut down");
        }
    }
}

#[test]
fn a_shutdown_treats_timers_as_delayed_tasks() {
    for keep in [Keep::Run, Keep::Cancel] {
        let (pool, clock) = manual(1);
        pool.set_after_shutdown(Leftover::Delayed, keep);
        let calls = Arc::new(Calls::default());
        let mut sleep = pool.sleep(STEP);
        assert!(poll(&mut sleep, &calls).is_pending());
        pool.shutdown();
        clock.advance(STEP);
        assert_eq!(calls.0.get(), 1);
        let Poll::Ready(outcome) = poll(&mut sleep, &calls) else { panic!("still pending") };
        assert_eq!(outcome.is_ok(), keep == Keep::Run);
        assert!(pool.await_termination(Duration::MAX));
    }
}

#[test]
fn a_stop_resolves_every_timer() {
    let (pool, _clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut sleep = pool.sleep(HOUR);
    assert!(poll(&mut sleep, &calls).is_pending());
    drop(pool.shutdown_now());
    assert_eq!(calls.0.get(), 1);
    let error = block_on(sleep).unwrap_err();
    assert!(matches!(error, TimerError::Lost(TaskError::Abandoned(_))), "{error:?}");
    assert!(pool.await_termination(Duration::MAX));
}

#[test]
fn a_full_queue_refuses_a_timer_with_its_reason() {
    let clock = ManualClock::new();
    let pool = Executor::builder().capacity(1).clock(clock).build().unwrap();
    let calls = Arc::new(Calls::default());
    let mut first = pool.sleep(HOUR);
    assert!(poll(&mut first, &calls).is_pending());
    let error = block_on(pool.sleep(HOUR)).unwrap_err();
    assert!(matches!(error, TimerError::Rejected(RejectReason::Saturated)));
    assert_eq!(pool.stats().rejected, 1);
    finish(&pool);
}

/// A timer is no reason for an executor to live on: the drop policy acts, and the timer says how it ended.
#[test]
fn a_timer_does_not_own_its_executor() {
    let clock = ManualClock::new();
    let builder = Executor::builder().clock(clock.clone()).on_drop(punctual::OnDrop::Abort);
    let pool = builder.build().unwrap();
    let calls = Arc::new(Calls::default());
    let (mut set, unset) = (pool.sleep(HOUR), pool.sleep(HOUR));
    assert!(poll(&mut set, &calls).is_pending());
    drop(pool);
    assert!(matches!(block_on(set), Err(TimerError::Lost(_))));
    assert!(matches!(block_on(unset), Err(TimerError::Rejected(_))));
}

// ---- timeout

#[test]
fn a_timeout_gives_the_value_if_it_comes_in_time_and_withdraws_its_timer() {
    let (pool, clock) = manual(1);
    let event = Event::new();
    let awaited = event.clone();
    let limited = pool.timeout(HOUR, async move {
        awaited.await;
        7
    });
    let handle = pool.spawn(limited).unwrap();
    clock.wait_until_idle();
    assert_eq!(pool.stats().queued, 2, "the future and its limit");
    event.happen();
    assert_eq!(handle.join().unwrap().unwrap(), 7);
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn a_timeout_drops_a_future_that_is_not_ready_in_time() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let limited = pool.timeout(STEP, async move {
        let _captured = captured;
        pending::<()>().await;
    });
    let handle = pool.spawn(limited).unwrap();
    clock.advance(STEP - Duration::from_nanos(1));
    assert!(!handle.is_done() && !probe.is_dropped());
    clock.advance(Duration::from_nanos(1));
    let error = handle.join().unwrap().unwrap_err();
    assert!(error.is_elapsed() && probe.is_dropped());
    assert_eq!(error.to_string(), "not ready after 10ms");
    finish(&pool);
}

/// The future is asked first, so one that is ready is never too late, not even where no timer is to be had.
#[test]
fn a_timeout_never_turns_down_a_value_that_is_there() {
    let (pool, clock) = manual(1);
    let late = pool.timeout(STEP, ready(7));
    clock.advance(HOUR);
    assert_eq!(block_on(late).unwrap(), 7);
    pool.close().unwrap();
    assert_eq!(block_on(pool.timeout(STEP, ready(7))).unwrap(), 7);
    let refused = block_on(pool.timeout(STEP, pending::<()>())).unwrap_err();
    assert!(matches!(refused, TimeoutError::Timer(TimerError::Rejected(RejectReason::ShutDown))));
    assert!(!refused.is_elapsed());
}

#[test]
fn a_dropped_timeout_takes_future_and_timer_along() {
    let (pool, _clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let (probe, captured) = Probe::new();
    let mut limited = Box::pin(pool.timeout(HOUR, async move {
        let _captured = captured;
        pending::<()>().await;
    }));
    assert!(poll(&mut limited, &calls).is_pending());
    assert_eq!(pool.stats().queued, 1);
    drop(limited);
    assert!(probe.is_dropped() && pool.stats().queued == 0);
    finish(&pool);
}

// ---- interval

/// The ticks that come, with the instants at which they come, if the caller is busy until `busy` after the first.
fn ticks(missed: MissedTicks) -> Vec<(Tick, Tick)> {
    let (pool, clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut interval = pool.interval(STEP).unwrap().missed(missed);
    let next = |interval: &mut Interval| {
        let mut tick = pin!(interval.tick());
        let waker = Waker::from(Arc::clone(&calls));
        tick.as_mut().poll(&mut Context::from_waker(&waker)).map(Result::unwrap)
    };
    let mut came = Vec::new();
    assert!(next(&mut interval).is_pending(), "the first is a period away");
    clock.advance(STEP);
    while let Poll::Ready(tick) = next(&mut interval) {
        came.push((tick, punctual::Clock::now(&clock)));
        if came.len() == 1 {
            clock.advance(5 * STEP / 2);
        }
    }
    clock.advance(STEP / 2);
    while let Poll::Ready(tick) = next(&mut interval) {
        came.push((tick, punctual::Clock::now(&clock)));
    }
    clock.advance(STEP);
    while let Poll::Ready(tick) = next(&mut interval) {
        came.push((tick, punctual::Clock::now(&clock)));
    }
    finish(&pool);
    came
}

#[test]
fn missed_ticks_are_caught_up_skipped_or_put_off() {
    let busy = Tick::ZERO.after(7 * STEP / 2);
    let moved = busy.after(STEP);
    let [one, two, three, four, five] = [1, 2, 3, 4, 5].map(at);
    assert_eq!(
        ticks(MissedTicks::Burst),
        [(one, one), (two, busy), (three, busy), (four, four), (five, five)]
    );
    assert_eq!(ticks(MissedTicks::Skip), [(one, one), (two, busy), (four, four), (five, five)]);
    assert_eq!(ticks(MissedTicks::Delay), [(one, one), (two, busy), (moved, five)]);
}

#[test]
fn a_tick_that_is_given_up_comes_again() {
    let (pool, clock) = manual(1);
    let calls = Arc::new(Calls::default());
    let mut interval = pool.interval_at(at(2), HOUR).unwrap();
    for _ in 0..3 {
        let mut tick = Box::pin(interval.tick());
        assert!(poll(&mut tick, &calls).is_pending());
    }
    assert_eq!(pool.stats().queued, 1, "one timer, not three");
    clock.advance(2 * STEP);
    assert_eq!(block_on(interval.tick()).unwrap(), at(2));
    assert_eq!(interval.next(), at(2).after(HOUR));
    drop(interval);
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

#[test]
fn an_interval_of_zero_is_refused() {
    let (pool, _clock) = manual(1);
    assert!(pool.interval(Duration::ZERO).unwrap_err().to_string().contains("0ns"));
    finish(&pool);
}

#[test]
fn an_interval_ends_with_its_executor_even_if_it_is_always_late() {
    let (pool, clock) = manual(1);
    let inner = pool.clone();
    let loops = pool
        .spawn(async move {
            let mut interval = inner.interval(Duration::from_nanos(1)).unwrap();
            let mut count = 0_u64;
            while interval.tick().await.is_ok() {
                count += 1;
                if count == 1_000 {
                    inner.shutdown();
                }
            }
            count
        })
        .unwrap();
    clock.wait_until_idle();
    clock.jump(HOUR);
    assert_eq!(loops.join().unwrap(), 1_000);
    assert!(pool.await_termination(Duration::MAX));
}

// ---- in one pool

/// One worker: the body that blocks it makes timers late, never early, and none is lost.
#[test]
fn timers_fire_in_order_of_their_instants_when_the_worker_is_free_again() {
    let (pool, clock) = manual(1);
    let (gate, log) = (Gate::new(), crate::support::Log::new());
    for steps in [3, 1, 2] {
        let (nap, log) = (pool.sleep(steps * STEP), log.clone());
        pool.spawn(async move {
            nap.await.unwrap();
            log.add(steps);
        })
        .unwrap();
    }
    clock.wait_until_idle();
    block_worker(&pool, &gate);
    clock.jump(HOUR);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [1, 2, 3]);
    finish(&pool);
}

#[test]
fn a_thousand_sleepers_on_two_workers_wake_at_their_own_instants() {
    let (pool, clock) = manual(2);
    let sleepers: Vec<_> = (1..=1_000_u32)
        .map(|n| {
            let (inner, clock) = (pool.clone(), clock.clone());
            let due = at(n % 10 + 1);
            let nap = async move {
                inner.sleep_until(due).await.unwrap();
                (due, punctual::Clock::now(&clock))
            };
            pool.spawn(nap).unwrap()
        })
        .collect();
    clock.advance(20 * STEP);
    for sleeper in sleepers {
        let (due, woke) = sleeper.try_join().unwrap().unwrap();
        assert_eq!(due, woke);
    }
    finish(&pool);
}
