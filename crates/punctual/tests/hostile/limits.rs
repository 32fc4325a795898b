//! Durations without end, periods of nothing, queues without measure.

use std::sync::Arc;
use std::time::Duration;

use punctual::{
    Abandoned, Clock, CompletionQueue, DelayQueue, Executor, InvalidArgument, ManualClock, OnDrop,
    RejectReason, TaskError, Tick, Timer,
};

use crate::assert_works;
use crate::support::{HOUR, Probe, STEP, finish, manual};

#[test]
fn the_longest_duration_is_as_long_as_time_everywhere() {
    const MAX: Duration = Duration::MAX;
    let clock = ManualClock::new();
    let builder = Executor::builder().clock(clock.clone()).keep_alive(MAX).core_threads_time_out();
    let pool = builder.timer_slack(MAX).build().unwrap();
    for step in [STEP, HOUR] {
        let never = pool.schedule(MAX, || ()).unwrap();
        let runs = [
            pool.schedule_at_fixed_rate(Duration::ZERO, MAX, || ()).unwrap(),
            pool.schedule_with_fixed_delay(Duration::ZERO, MAX, || ()).unwrap(),
            pool.task(|| ()).with_fixed_start(MAX).start().unwrap(),
        ];
        assert_eq!(pool.submit_with_timeout(MAX, || 7).unwrap().join_timeout(MAX).unwrap(), 7);
        assert_eq!(pool.submit_with_fallback(MAX, || 7, || 8).unwrap().join().unwrap(), 7);
        assert_eq!(pool.invoke_any_timeout([|| Ok::<_, ()>(7)], MAX).unwrap(), 7);
        assert_eq!(pool.invoke_all_timeout([|| 7], MAX).unwrap()[0].join().unwrap(), 7);
        pool.set_keep_alive(MAX).unwrap();
        let queue = DelayQueue::with_clock(clock.clone());
        let far = queue.push(MAX, 1);
        queue.push(Duration::ZERO, 2);
        assert!(runs.iter().all(|handle| handle.runs() == 1) && !never.is_done());
        assert_eq!(queue.take_timeout(MAX).unwrap(), Some(2));
        assert_eq!(queue.remove(far), Some(1));
        let completed = CompletionQueue::with_clock(clock.clone());
        completed.submit(&pool, || 7).unwrap();
        assert_eq!(completed.take_timeout(MAX).unwrap().unwrap().join().unwrap(), 7);
        for handle in runs {
            handle.cancel();
        }
        never.cancel();
        clock.jump(step);
    }
    pool.close().unwrap();
}

/// However far a clock is moved: what waits for the end of time waits for something else.
#[test]
fn the_end_of_time_does_not_come() {
    let far: [fn(&ManualClock); 2] = [
        |clock| clock.advance(Duration::MAX),
        |clock| {
            clock.jump(Duration::MAX);
            clock.wait_until_idle();
        },
    ];
    for go_far in far {
        let (pool, clock) = manual(1);
        let never = pool.schedule(Duration::MAX, || ()).unwrap();
        let paused = pool.task(|| ()).after(STEP).every(HOUR).start().unwrap();
        assert_eq!(paused.pause(), punctual::Steered::Now);
        let seen = Arc::new(std::sync::Mutex::new(None));
        let waker = Arc::clone(&seen);
        let poll = move |context: &mut std::task::Context<'_>| {
            *waker.lock().unwrap() = Some(context.waker().clone());
            std::task::Poll::<()>::Pending
        };
        let idle = pool.spawn(std::future::poll_fn(poll)).unwrap();
        let century = pool.task(|| ()).every(100 * 365 * 24 * HOUR).start().unwrap();
        clock.wait_until_idle();
        for _ in 0..2 {
            go_far(&clock);
            assert_eq!(clock.now(), Tick::from_nanos(u64::MAX - 1));
            assert!(!never.is_done() && paused.runs() == 0 && pool.stats().active == 0);
            assert_eq!((idle.state(), century.runs()), (punctual::TaskState::Waiting, 6));
        }
        // It is still good for what is due.
        assert_works(&pool);
        finish(&pool);
    }
}

#[test]
fn a_real_wait_for_the_end_of_time_is_ended_by_the_next_task() {
    let pool = Executor::new(1);
    let never = pool.schedule(Duration::MAX, || ()).unwrap();
    assert_works(&pool);
    assert!(!never.is_done());
    let timer = Timer::new("for ever").unwrap();
    let far = timer.schedule(Duration::MAX, || ()).unwrap();
    assert_eq!(timer.cancel(), 1);
    assert!(far.is_cancelled() && timer.await_termination(Duration::MAX));
    finish(&pool);
    assert!(matches!(never.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
}

#[test]
fn a_period_of_zero_is_refused_and_the_body_comes_back() {
    let (pool, _clock) = manual(1);
    let (probe, captured) = Probe::new();
    let refused = pool.schedule_at_fixed_rate(STEP, Duration::ZERO, move || _ = &captured).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ZeroPeriod);
    let body = refused.into_task();
    assert!(!probe.is_dropped());
    let refused = pool.schedule_with_fixed_delay(STEP, Duration::ZERO, body).unwrap_err();
    let refused = pool.task(refused.into_task()).with_fixed_start(Duration::ZERO).start().unwrap_err();
    drop(refused.into_task());
    assert!(probe.is_dropped());
    let zero = Executor::builder().core_threads_time_out().keep_alive(Duration::ZERO).build();
    assert!(matches!(zero, Err(InvalidArgument { .. })));
    finish(&pool);
}

#[test]
fn a_crowd_of_waiting_tasks_goes_with_its_executor() {
    for (on_drop, crowd) in [(OnDrop::Abort, 1_000_000), (OnDrop::Detach, 100_000)] {
        let captured = Arc::new(());
        let builder = Executor::builder().clock(ManualClock::new()).on_drop(on_drop);
        let keep = (punctual::Leftover::Delayed, punctual::Keep::Cancel);
        let pool = builder.after_shutdown(keep.0, keep.1).build().unwrap();
        let mut last = None;
        for _ in 0..crowd {
            let captured = Arc::clone(&captured);
            last = Some(pool.schedule(HOUR, move || drop(captured)).unwrap());
        }
        assert_eq!(Arc::strong_count(&captured), 1 + crowd);
        drop(pool);
        assert_eq!(Arc::strong_count(&captured), 1);
        assert!(last.unwrap().is_done());
    }
}

/// A closure this large fits on the stack of a worker a few times only. Whoever makes it needs more.
#[test]
fn a_large_closure_is_run_in_every_form_and_comes_back_if_it_is_refused() {
    let spacious = std::thread::Builder::new().stack_size(64 << 20);
    spacious.spawn(run_large_closures).unwrap().join().unwrap();
}

fn run_large_closures() {
    const SIZE: usize = 256 * 1024;
    fn large(mark: u8) -> impl Fn() -> u8 + Send + Sync + Clone + 'static {
        let payload = [mark; SIZE];
        move || payload[SIZE - 1]
    }
    let (pool, clock) = manual(1);
    assert_eq!(pool.submit(large(1)).unwrap().join().unwrap(), 1);
    assert_eq!(pool.submit_with_timeout(HOUR, large(2)).unwrap().join().unwrap(), 2);
    let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let beats: Vec<_> = (0..2)
        .map(|form| {
            let (body, runs) = (large(3), Arc::clone(&runs));
            let beat = move || {
                assert_eq!(body(), 3);
                runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            };
            match form {
                0 => pool.schedule_at_fixed_rate(STEP, STEP, beat).unwrap(),
                _ => pool.task(beat).after(STEP).every(STEP).start().unwrap(),
            }
        })
        .collect();
    clock.advance(3 * STEP);
    assert_eq!(runs.load(std::sync::atomic::Ordering::Relaxed), 6);
    assert!(beats.iter().all(|beat| beat.cancel()));
    let made = large(4);
    let make = move || std::future::ready(made());
    assert_eq!(pool.task_async(make).start().unwrap().join().unwrap(), 4);
    let task = Arc::new(punctual::FutureTask::new(large(5)));
    let runner = Arc::clone(&task);
    assert!(pool.submit(move || runner.run()).unwrap().join().unwrap());
    assert_eq!(task.join().unwrap(), 5);
    pool.shutdown();
    assert_eq!(pool.submit(large(6)).unwrap_err().into_task()(), 6);
    assert_eq!(pool.submit_with_timeout(HOUR, large(7)).unwrap_err().into_task()(), 7);
    finish(&pool);
}
