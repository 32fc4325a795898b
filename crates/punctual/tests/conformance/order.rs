//! Exact order of deadline and submission.

use std::time::Duration;

use punctual::{
    Clock, Executor, ManualClock, OnCancel, QueuedTask, Remaining, TaskContext, TaskHandle, TaskId, Tick,
};

use crate::fixed_rate::{Kind, millis};
use crate::support::{Gate, HOUR, Log, STEP, block_worker, finish, manual};

/// The delays, in milliseconds, with which a heap that only sifts down after a removal goes wrong.
const DELAYS: [u64; 11] = [3000, 3400, 3900, 3800, 3700, 3600, 3430, 3420, 3310, 3500, 3200];

/// ST-037: the earlier deadline goes first, whichever task came first; also past a leader who waits already.
#[test]
fn an_earlier_deadline_overtakes() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    for delay in [5, 3, 4, 1, 2] {
        drop(pool.schedule(delay * STEP, log.body(delay)).unwrap());
        clock.wait_until_idle();
    }
    clock.advance(STEP / 2);
    drop(pool.schedule(STEP / 4, log.body(0)).unwrap());
    clock.advance(STEP / 4);
    assert_eq!(log.entries(), [0]);
    clock.advance(HOUR);
    assert_eq!(log.entries(), [0, 1, 2, 3, 4, 5]);
    finish(&pool);
}

/// ST-037: what came due while every thread was busy starts in the order of deadlines, too.
#[test]
fn overdue_tasks_start_in_the_order_of_their_deadlines() {
    let (pool, clock) = manual(1);
    let (log, gate) = (Log::new(), Gate::new());
    drop(block_worker(&pool, &gate));
    for delay in [2, 5, 1, 4, 3] {
        drop(pool.schedule(delay * STEP, log.body(delay)).unwrap());
    }
    clock.jump(HOUR);
    drop(pool.submit(log.body(6)).unwrap());
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [1, 2, 3, 4, 5, 6]);
    finish(&pool);
}

/// ST-038: with one deadline the order is that of submission, however the deadline was arrived at and whatever
/// lies before and after it.
#[test]
fn equal_deadlines_run_in_submission_order() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let noon = Tick::ZERO.after(10 * STEP);
    drop(pool.schedule(10 * STEP, log.body(0)).unwrap());
    drop(pool.schedule(12 * STEP, log.body(98)).unwrap());
    drop(pool.task(log.body(1)).first(noon).start().unwrap());
    drop(pool.schedule_at_fixed_rate(10 * STEP, HOUR, log.body(2)).unwrap());
    clock.advance(4 * STEP);
    drop(pool.schedule(6 * STEP, log.body(3)).unwrap());
    drop(pool.schedule_with_fixed_delay(6 * STEP, HOUR, log.body(4)).unwrap());
    clock.advance(STEP);
    for n in 5..100 {
        match n {
            98 => {}
            _ if n % 2 == 0 => drop(pool.schedule(5 * STEP, log.body(n)).unwrap()),
            _ => drop(pool.task(log.body(n)).first(noon).start().unwrap()),
        }
    }
    clock.advance(10 * STEP);
    let expected: Vec<i32> = (0..98).chain([99, 98]).collect();
    assert_eq!(log.entries(), expected);
    finish(&pool);
}

/// ST-039: tasks without delay that queue up behind one another run in the order of their submission, on a clock
/// that moves between them and on one that stands still.
#[test]
fn immediate_tasks_run_in_submission_order() {
    for pool in [Executor::new(1), manual(1).0] {
        let (log, gate) = (Log::new(), Gate::new());
        drop(block_worker(&pool, &gate));
        for n in 0..20 {
            match n % 3 {
                0 => pool.execute(log.body(n)).unwrap(),
                1 => drop(pool.submit(log.body(n)).unwrap()),
                _ => drop(pool.schedule(Duration::ZERO, log.body(n)).unwrap()),
            }
        }
        let last = pool.submit(|| ()).unwrap();
        gate.open();
        last.join().unwrap();
        assert_eq!(log.entries(), (0..20).collect::<Vec<i32>>());
        finish(&pool);
    }
}

/// ST-040: a periodic task keeps its place among equals for ever, however often and however late before the common
/// deadline it was queued again; a one-shot task that came after it stays behind it.
#[test]
fn periodic_tasks_that_coincide_keep_their_order() {
    for kind in [Kind::Rate, Kind::Delay] {
        for periods in [[2, 3], [3, 2], [6, 6]] {
            let (pool, clock) = manual(1);
            let log = Log::new();
            let body = |name: usize| {
                let (log, clock) = (log.clone(), clock.clone());
                move || log.add((millis(clock.now()), name))
            };
            for (name, period) in periods.into_iter().enumerate() {
                drop(kind.start(&pool, period * STEP, period * STEP, body(name)));
            }
            drop(pool.schedule(12 * STEP, body(2)).unwrap());
            clock.advance(24 * STEP);
            let met: Vec<_> = log.entries().into_iter().filter(|(time, _)| time % 60 == 0).collect();
            let expected =
                [(60, 0), (60, 1), (120, 0), (120, 1), (120, 2), (180, 0), (180, 1), (240, 0), (240, 1)];
            assert_eq!(met, expected, "{kind:?} {periods:?}");
            finish(&pool);
        }
    }
}

/// A pool on which tasks with these [`DELAYS`] wait, each logging its delay.
fn eleven(on_cancel: OnCancel) -> (Executor, ManualClock, Vec<TaskHandle<()>>, Log<u64>) {
    let clock = ManualClock::new();
    let builder = Executor::builder().core_threads(1).clock(clock.clone()).on_cancel(on_cancel);
    let (pool, log) = (builder.build().unwrap(), Log::new());
    let schedule = |delay| pool.schedule(Duration::from_millis(delay), log.body(delay)).unwrap();
    let handles = DELAYS.into_iter().map(schedule).collect();
    (pool, clock, handles, log)
}

/// ST-041: whichever task is taken out of the middle of the queue, by a cancel or by removal, the others run in
/// ascending order; also if a cancelled one leaves an empty entry.
#[test]
fn removal_from_the_middle_leaves_the_others_in_order() {
    type Way = (OnCancel, fn(&TaskHandle<()>) -> bool);
    let ways: [Way; 3] = [
        (OnCancel::Remove, TaskHandle::cancel),
        (OnCancel::KeepUntilDue, TaskHandle::cancel),
        (OnCancel::Remove, |handle| handle.remove().is_some()),
    ];
    for (on_cancel, take_out) in ways {
        for index in 0..DELAYS.len() {
            let (pool, clock, handles, log) = eleven(on_cancel);
            assert!(take_out(&handles[index]));
            let mut expected = DELAYS.to_vec();
            expected.remove(index);
            expected.sort_unstable();
            clock.advance(HOUR);
            assert_eq!(log.entries(), expected, "without {index}");
            finish(&pool);
        }
    }
}

/// ST-041: no pair of removals disturbs the order either.
#[test]
fn two_removals_leave_the_others_in_order() {
    for first in 0..DELAYS.len() {
        let (pool, _clock, handles, _log) = eleven(OnCancel::Remove);
        let mut left: Vec<(u64, TaskId)> =
            DELAYS.into_iter().zip(handles.iter().map(TaskHandle::id)).collect();
        for index in [first, (first * 7 + 3) % DELAYS.len()] {
            handles[index].cancel();
            left.retain(|(_, id)| *id != handles[index].id());
        }
        left.sort_unstable();
        let drained: Vec<TaskId> = pool.shutdown_now().iter().map(|task| task.id()).collect();
        assert_eq!(drained, left.iter().map(|(_, id)| *id).collect::<Vec<_>>());
        assert!(pool.await_termination(Duration::MAX));
    }
}

/// ST-042: Java promises no order of iteration; here what is listed first runs first.
#[test]
fn the_listing_follows_the_order_of_execution() {
    let (pool, clock) = manual(1);
    let (ran, gate) = (Log::new(), Gate::new());
    let body = || {
        let ran = ran.clone();
        move || ran.add(TaskContext::current().id().unwrap())
    };
    drop(block_worker(&pool, &gate));
    for delay in DELAYS.into_iter().chain([0, 3700, 3200, 0]) {
        drop(pool.schedule(Duration::from_millis(delay), body()).unwrap());
    }
    drop(pool.schedule_at_fixed_rate(Duration::from_millis(3400), HOUR, body()).unwrap());
    let listed: Vec<TaskId> = pool.queue().iter().map(QueuedTask::id).collect();
    assert_eq!(listed.len(), DELAYS.len() + 5);
    gate.open();
    clock.advance(HOUR);
    assert_eq!(ran.entries(), listed);
    finish(&pool);
}

/// ST-043: the clock does not wrap where a signed number would, and order holds across that point and up to the
/// end of time. A deadline compared with itself is equal.
#[test]
fn order_holds_wherever_the_clock_stands() {
    let signed_end = Duration::from_nanos(i64::MAX as u64);
    for start in [signed_end - 2 * STEP, 2 * signed_end - 10 * STEP] {
        let (pool, clock) = manual(1);
        clock.jump(start);
        let log = Log::new();
        let mut handles = Vec::new();
        for delay in [4, 1, 3, 2] {
            handles.push(pool.schedule(delay * STEP, log.body(delay)).unwrap());
        }
        let [four, one, ..] = &handles[..] else { unreachable!("four were scheduled") };
        assert!(one.remaining() < four.remaining() && one.deadline() < four.deadline());
        assert_eq!(one.remaining().cmp(&one.remaining()), std::cmp::Ordering::Equal);
        assert_eq!(one.remaining(), Remaining::In(STEP));
        clock.advance(2 * STEP);
        assert_eq!(log.entries(), [1, 2]);
        assert_eq!(one.remaining(), Remaining::Overdue(STEP));
        assert!(one.remaining() < four.remaining());
        clock.advance(2 * STEP);
        assert_eq!(log.entries(), [1, 2, 3, 4]);
        finish(&pool);
    }
}
