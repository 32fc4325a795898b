//! Fixed rate: a grid that does not move.
//!
//! What fixed rate and fixed delay have in common is stated once, as functions of the [`Kind`] that the tests of
//! both files call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::ThreadId;
use std::time::Duration;

use punctual::{Clock, Executor, ManualClock, TaskContext, TaskHandle, TaskState, Tick};

use crate::support::{
    Counter, Gate, HOUR, Log, SHORT, STEP, elapsed, eventually, finish, look_round, manual,
};

const NANO: Duration = Duration::from_nanos(1);

/// The two ways to run again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Rate,
    Delay,
}

impl Kind {
    pub(crate) fn start(
        self,
        pool: &Executor,
        first: Duration,
        period: Duration,
        body: impl FnMut() + Send + 'static,
    ) -> TaskHandle<()> {
        match self {
            Self::Rate => pool.schedule_at_fixed_rate(first, period, body).unwrap(),
            Self::Delay => pool.schedule_with_fixed_delay(first, period, body).unwrap(),
        }
    }
}

/// A step is ten of these.
pub(crate) fn millis(tick: Tick) -> u128 {
    tick.since(Tick::ZERO).as_millis()
}

/// A body that logs, in milliseconds, what it was due at and what time it is.
pub(crate) fn logging(log: &Log<(u128, u128)>, clock: &ManualClock) -> impl FnMut() + Send + 'static {
    let (log, clock) = (log.clone(), clock.clone());
    move || log.add((millis(TaskContext::current().deadline().unwrap()), millis(clock.now())))
}

// ---- what both kinds have in common

pub(crate) fn first_run_waits_for_the_initial_delay(kind: Kind) {
    let (pool, clock) = manual(2);
    let ran = Counter::new();
    let handle = kind.start(&pool, 3 * STEP, STEP, ran.body());
    clock.advance(3 * STEP - NANO);
    look_round(&pool, &clock);
    assert_eq!(ran.get(), 0);
    clock.advance(NANO);
    assert_eq!((ran.get(), handle.runs()), (1, 1));
    finish(&pool);
}

/// Seven periods lie between the first and the eighth run, in real time and without help.
pub(crate) fn eight_runs_take_seven_periods_of_real_time(kind: Kind) {
    let period = SHORT / 4;
    let pool = Executor::new(1);
    let (sender, receiver) = mpsc::channel();
    let start = || {
        let handle = kind.start(&pool, Duration::ZERO, period, move || sender.send(()).unwrap());
        (0..8).for_each(|_| receiver.recv().unwrap());
        handle
    };
    let (taken, handle) = elapsed(start);
    assert!(taken >= 7 * period, "{taken:?}");
    assert!(!handle.is_done());
    finish(&pool);
}

pub(crate) fn runs_never_overlap(kind: Kind) {
    let (pool, clock) = manual(4);
    assert_eq!(pool.prestart_all_core_threads(), 4);
    let (inside, overlaps, begun) = (Arc::new(AtomicBool::new(false)), Counter::new(), Counter::new());
    let (others, runs) = (overlaps.clone(), begun.clone());
    let handle = kind.start(&pool, Duration::ZERO, STEP, move || {
        if inside.swap(true, Ordering::SeqCst) {
            others.hit();
        }
        runs.hit();
        let _ = TaskContext::current().sleep(5 * STEP / 2);
        inside.store(false, Ordering::SeqCst);
    });
    for _ in 0..20 {
        clock.advance(STEP / 2);
        assert!(pool.stats().active <= 1);
    }
    // From 0 to 10 steps: every 2.5 at once again, or 3.5 with the delay between.
    let expected = match kind {
        Kind::Rate => 5,
        Kind::Delay => 3,
    };
    assert_eq!((begun.get(), overlaps.get()), (expected, 0));
    assert_eq!(handle.runs(), expected as u64);
    finish(&pool);
}

/// Makes each run happen on another thread than the one before, by holding up the thread of that one.
pub(crate) fn a_run_sees_what_the_run_before_it_did(kind: Kind) {
    let (pool, clock) = manual(2);
    let threads: Log<ThreadId> = Log::new();
    let (log, seen) = (threads.clone(), Log::new());
    let (sums, mut sum) = (seen.clone(), 0_u64);
    drop(kind.start(&pool, Duration::ZERO, STEP, move || {
        sum = sum * 3 + 1;
        sums.add(sum);
        log.add(std::thread::current().id());
    }));
    clock.wait_until_idle();
    for run in 1..5 {
        let last = *threads.entries().last().unwrap();
        let (hold, both_here) = (Gate::new(), Gate::new());
        for _ in 0..2 {
            let (hold, both_here) = (hold.clone(), both_here.clone());
            let blocker = move || {
                both_here.pass();
                if std::thread::current().id() == last {
                    hold.pass();
                }
            };
            pool.execute(blocker).unwrap();
        }
        both_here.await_arrivals(2);
        both_here.open();
        hold.await_arrivals(1);
        clock.jump(STEP);
        eventually("the next run", || threads.entries().len() == run + 1);
        assert_ne!(*threads.entries().last().unwrap(), last);
        hold.open();
        clock.wait_until_idle();
    }
    assert_eq!(seen.entries(), [1, 4, 13, 40, 121]);
    finish(&pool);
}

pub(crate) fn no_wait_for_a_live_series_ends_well(kind: Kind) {
    let (pool, clock) = manual(1);
    let (gate, held) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (inner, hold) = (gate.clone(), Arc::clone(&held));
    let handle = kind.start(&pool, STEP, STEP, move || {
        if hold.load(Ordering::SeqCst) {
            inner.pass();
        }
    });
    std::thread::scope(|scope| {
        assert!(handle.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
        assert!(handle.try_join().is_none());

        let waiter = scope.spawn(|| handle.join_timeout(5 * STEP));
        eventually("a wait across runs times out", || {
            clock.advance(STEP);
            waiter.is_finished()
        });
        assert!(waiter.join().unwrap().unwrap_err().is_timeout());
        assert!(handle.runs() >= 5);

        held.store(true, Ordering::SeqCst);
        clock.jump(STEP);
        gate.await_arrivals(1);
        assert_eq!(handle.state(), TaskState::Running);
        assert!(handle.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
        let waiter = scope.spawn(|| handle.join_timeout(STEP));
        eventually("a wait during a run times out", || {
            clock.jump(STEP);
            waiter.is_finished()
        });
        assert!(waiter.join().unwrap().unwrap_err().is_timeout());

        let waiter = scope.spawn(|| handle.join());
        assert!(handle.cancel());
        assert!(waiter.join().unwrap().unwrap_err().is_cancelled());
    });
    gate.open();
    finish(&pool);
}

pub(crate) fn a_panic_ends_the_series_and_nothing_else(kind: Kind) {
    let (pool, clock) = manual(1);
    let (cause, ran, threads) = (Arc::new(()), Counter::new(), Log::new());
    let (thrown, count, log) = (Arc::clone(&cause), ran.clone(), threads.clone());
    let handle = kind.start(&pool, STEP, STEP, move || {
        count.hit();
        log.add(std::thread::current().id());
        if count.get() == 3 {
            std::panic::panic_any(Arc::clone(&thrown));
        }
    });
    clock.advance(2 * STEP);
    assert!(!handle.is_done());
    clock.advance(STEP);
    assert!(handle.is_done() && !handle.is_cancelled());
    assert_eq!((handle.state(), handle.is_queued()), (TaskState::Failed, false));
    let error = handle.join().unwrap_err();
    let original = error.panic().unwrap().with_payload(|payload: &Arc<()>| Arc::ptr_eq(payload, &cause));
    assert_eq!(original, Some(true));
    assert_eq!((pool.stats().queued, pool.queue().len()), (0, 0));
    clock.advance(HOUR);
    assert_eq!((ran.get(), handle.runs()), (3, 3));
    let thread = pool.submit(|| std::thread::current().id()).unwrap().join().unwrap();
    assert_eq!(threads.entries(), [thread; 3]);
    assert_eq!(pool.stats().largest_pool_size, 1);
    finish(&pool);
}

/// A body for a hundred runs, the last of which panics.
fn hundred(ran: &Counter) -> impl FnMut() + Send + 'static {
    let count = ran.clone();
    move || {
        count.hit();
        assert_ne!(count.get(), 100, "enough");
    }
}

pub(crate) fn the_shortest_period_gives_exactly_as_many_runs(kind: Kind) {
    let (pool, clock) = manual(2);
    let ran = Counter::new();
    let handle = kind.start(&pool, Duration::ZERO, NANO, hundred(&ran));
    clock.advance(98 * NANO);
    assert_eq!((ran.get(), handle.is_done()), (99, false));
    clock.advance(1000 * NANO);
    assert_eq!((ran.get(), handle.runs(), handle.is_done()), (100, 100, true));
    finish(&pool);

    let (pool, ran) = (Executor::new(2), Counter::new());
    let handle = kind.start(&pool, Duration::ZERO, NANO, hundred(&ran));
    assert!(handle.join().unwrap_err().panic().is_some());
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!((ran.get(), handle.runs()), (100, 100));
}

pub(crate) fn every_run_counts_as_completed(kind: Kind) {
    let (pool, clock) = manual(2);
    let ran = Counter::new();
    let count = ran.clone();
    let handle = kind.start(&pool, STEP, STEP, move || {
        count.hit();
        assert_ne!(count.get(), 6, "enough");
    });
    for n in 0..=5 {
        assert_eq!((pool.stats().completed, handle.runs()), (n, n));
        assert_eq!(pool.stats().task_count(), n + 1);
        clock.advance(STEP);
    }
    assert!(handle.is_done());
    assert_eq!((pool.stats().completed, pool.stats().task_count()), (6, 6));
    finish(&pool);
}

pub(crate) fn a_cancel_prevents_all_later_runs(kind: Kind) {
    let (pool, clock) = manual(1);
    let ran = Counter::new();
    let between = kind.start(&pool, STEP, STEP, ran.body());
    clock.advance(3 * STEP);
    assert!(between.cancel());
    assert!(between.is_done() && between.is_cancelled());
    assert_eq!(pool.stats().queued, 0);
    clock.advance(HOUR);
    assert_eq!(ran.get(), 3);

    let (gate, finished) = (Gate::new(), Counter::new());
    let (inner, count) = (gate.clone(), finished.clone());
    let during = kind.start(&pool, Duration::ZERO, STEP, move || {
        inner.pass();
        assert!(!TaskContext::current().is_interrupted());
        count.hit();
    });
    gate.await_arrivals(1);
    assert!(during.cancel());
    assert!(during.is_cancelled());
    assert_eq!(finished.get(), 0);
    gate.open();
    clock.advance(HOUR);
    assert_eq!((finished.get(), during.runs(), pool.stats().queued), (1, 1, 0));
    assert!(!during.cancel());
    finish(&pool);
}

// ---- fixed rate

/// ST-020: the first run waits for the initial delay, to the nanosecond.
#[test]
fn the_first_run_is_not_before_the_initial_delay() {
    first_run_waits_for_the_initial_delay(Kind::Rate);
}

/// ST-021, ST-022: without help from outside the task runs again and again, and eight runs take seven periods at
/// least.
#[test]
fn eight_runs_take_at_least_seven_periods() {
    eight_runs_take_seven_periods_of_real_time(Kind::Rate);
}

/// ST-021, ST-023: on a machine that keeps up, each run is at its own point of the grid: eight take seven periods
/// exactly.
#[test]
fn runs_that_are_on_time_are_on_the_grid() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    drop(pool.schedule_at_fixed_rate(Duration::ZERO, STEP, logging(&log, &clock)).unwrap());
    clock.advance(7 * STEP);
    let grid: Vec<_> = (0..8).map(|n| (10 * n, 10 * n)).collect();
    assert_eq!(log.entries(), grid);
    finish(&pool);
}

/// ST-023: a late run is late on a grid that stays where it is, and so is whatever follows.
#[test]
fn a_late_run_does_not_move_the_grid() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let handle = pool.schedule_at_fixed_rate(STEP, 2 * STEP, logging(&log, &clock)).unwrap();
    clock.wait_until_idle();
    clock.jump(3 * STEP / 2);
    clock.wait_until_idle();
    clock.advance(2 * STEP);
    clock.wait_until_idle();
    clock.jump(17 * STEP / 10);
    clock.wait_until_idle();
    clock.advance(2 * STEP);
    assert_eq!(log.entries(), [(10, 15), (30, 30), (50, 52), (70, 70)]);
    assert_eq!(millis(handle.deadline()), 90);
    finish(&pool);
}

/// ST-024: what was missed during a long run is made up back to back, one run for each point of the grid; then
/// the grid goes on at its old phase.
#[test]
fn missed_runs_are_made_up_and_the_grid_resumes() {
    let (pool, clock) = manual(3);
    let log = Log::new();
    let mut body = logging(&log, &clock);
    let body = move || {
        body();
        if TaskContext::current().runs() == 1 {
            TaskContext::current().sleep(10 * STEP).unwrap();
        }
    };
    drop(pool.schedule_at_fixed_rate(Duration::ZERO, STEP, body).unwrap());
    clock.advance(12 * STEP + STEP / 2);
    let mut expected = vec![(0, 0)];
    expected.extend((1..=10).map(|n| (10 * n, 100)));
    expected.extend([(110, 110), (120, 120)]);
    assert_eq!(log.entries(), expected);
    finish(&pool);
}

/// ST-025: however many threads are idle and however long a run takes, there is one run at a time.
#[test]
fn runs_of_one_task_never_overlap() {
    runs_never_overlap(Kind::Rate);
}

/// ST-026: what a run did to its own state is there in the next, on another thread.
#[test]
fn a_run_sees_its_predecessor_on_another_thread() {
    a_run_sees_what_the_run_before_it_did(Kind::Rate);
}

/// ST-027: while the series lives a timed wait times out, between runs and during one; an untimed one ends only
/// with the series.
#[test]
fn a_wait_never_ends_well_while_the_series_lives() {
    no_wait_for_a_live_series_ends_well(Kind::Rate);
}

/// ST-028: a panic ends the series with its payload, leaves nothing queued, and the thread works on.
#[test]
fn a_panic_ends_the_series() {
    a_panic_ends_the_series_and_nothing_else(Kind::Rate);
}

/// ST-029: a period of a nanosecond is fine, and a panic in the hundredth run makes it a hundred runs.
#[test]
fn a_period_of_a_nanosecond_gives_exactly_a_hundred_runs() {
    the_shortest_period_gives_exactly_as_many_runs(Kind::Rate);
}

/// ST-030: each run counts as a completed task, the one that panics included.
#[test]
fn each_run_is_counted() {
    every_run_counts_as_completed(Kind::Rate);
}

/// ST-031: a cancel between runs prevents the next; one during a run lets it finish, undisturbed, as the last.
#[test]
fn a_cancelled_series_has_no_further_run() {
    a_cancel_prevents_all_later_runs(Kind::Rate);
}
