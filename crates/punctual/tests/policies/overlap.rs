//! Runs that come due while another is going on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::{
    Interrupted, Keep, Leftover, Missed, OnFailure, Overlap, RejectReason, TaskContext, TaskError, TaskState,
};

use crate::bodies::{SECOND, busy, seconds};
use crate::support::{Counter, Gate, Log, Probe, finish, manual};

fn timeline(overlap: Overlap, missed: Missed) -> Vec<(u64, u64, u64)> {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = busy(&clock, &log, &[25]);
    let _task = pool.task(body).every(10 * SECOND).overlap(overlap).missed(missed).start().unwrap();
    clock.wait_until_idle();
    clock.advance(15 * SECOND);
    finish(&pool);
    log.entries()
}

#[test]
fn without_overlap_the_policy_for_missed_runs_decides() {
    let burst = timeline(Overlap::Never, Missed::burst());
    assert_eq!(burst, [(0, 0, 0), (25, 10, 0), (25, 20, 0), (30, 30, 0), (40, 40, 0)]);
    assert_eq!(timeline(Overlap::Never, Missed::skip()), [(0, 0, 0), (30, 30, 2), (40, 40, 0)]);
}

#[test]
fn one_run_waits_and_the_others_are_left_out() {
    for missed in [Missed::burst(), Missed::skip()] {
        assert_eq!(timeline(Overlap::Queue, missed), [(0, 0, 0), (25, 20, 1), (30, 30, 0), (40, 40, 0)]);
    }
}

#[test]
fn a_single_lane_leaves_out_what_comes_meanwhile() {
    assert_eq!(timeline(Overlap::Allow(1), Missed::burst()), [(0, 0, 0), (30, 30, 2), (40, 40, 0)]);
}

/// A run is asked to stop exactly when the next is due, and only that run: the next one begins undisturbed.
#[test]
fn a_run_is_replaced_when_the_next_is_due() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || {
        use punctual::Clock;
        let context = TaskContext::current();
        assert!(!context.is_interrupted(), "asked to stop before it began");
        let began = seconds(time.now());
        let result = context.sleep(if context.runs() == 2 { 3 * SECOND } else { 3600 * SECOND });
        seen.add((began, seconds(time.now()), result.is_err()));
        result
    };
    let task = pool.task(body).every(10 * SECOND).overlap(Overlap::Replace).start().unwrap();
    clock.advance(35 * SECOND);
    // The second slept its time out; the others were replaced, which is no failure.
    assert_eq!(log.entries(), [(0, 10, true), (10, 13, false), (20, 30, true)]);
    assert_eq!((task.runs(), task.info().failures()), (4, 0));
    finish(&pool);
}

/// Being replaced excuses an error, not a panic.
#[test]
fn a_run_that_panics_when_it_is_replaced_has_failed() {
    let (pool, clock) = manual(1);
    let body = || -> Result<(), Interrupted> {
        TaskContext::current().sleep(3600 * SECOND).expect("undisturbed");
        Ok(())
    };
    let task = pool.task(body).every(10 * SECOND).overlap(Overlap::Replace).start().unwrap();
    clock.advance(10 * SECOND);
    assert_eq!(task.state(), TaskState::Failed);
    finish(&pool);
}

#[test]
fn overlapping_runs_need_a_shared_body() {
    let (pool, _clock) = manual(1);
    let refused = pool.task(|| ()).every(SECOND).overlap(Overlap::Allow(2)).start().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::NotShared);
    refused.into_task()();
    finish(&pool);
}

/// A body that holds every run at a gate and counts how many there are at once.
#[derive(Clone, Default)]
struct Held {
    gate: Gate,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Held {
    fn body(&self) -> impl Fn() + Send + Sync + 'static {
        let held = self.clone();
        move || {
            let inside = held.inside.fetch_add(1, Ordering::SeqCst) + 1;
            held.most.fetch_max(inside, Ordering::SeqCst);
            held.gate.pass();
            held.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn so_many_runs_overlap_and_no_more() {
    let (pool, clock) = manual(4);
    let held = Held::default();
    let builder = pool.task(held.body()).name("lanes").every(10 * SECOND).overlap(Overlap::Allow(2));
    let task = builder.start_shared().unwrap();
    held.gate.await_arrivals(1);
    clock.jump(10 * SECOND);
    held.gate.await_arrivals(2);
    // No place for these two.
    clock.jump(10 * SECOND);
    while task.info().missed() < 1 {
        std::thread::yield_now();
    }
    clock.jump(10 * SECOND);
    while task.info().missed() < 2 {
        std::thread::yield_now();
    }
    held.gate.open();
    clock.wait_until_idle();
    assert_eq!(task.runs(), 2);
    clock.advance(10 * SECOND);
    assert_eq!((task.runs(), held.most.load(Ordering::SeqCst)), (3, 2));
    assert_eq!(task.info().last_run().map(|(began, _)| seconds(began)), Some(40));
    finish(&pool);
}

#[test]
fn a_shared_run_that_fails_ends_the_series_as_its_policy_says() {
    for (policy, expected) in [(OnFailure::Stop, 1), (OnFailure::StopAfter(2), 2), (OnFailure::Continue, 5)] {
        let (pool, clock) = manual(2);
        let builder =
            pool.task(|| Err::<(), _>("no")).every(SECOND).overlap(Overlap::Allow(2)).on_failure(policy);
        let task = builder.start_shared().unwrap();
        clock.advance(4 * SECOND);
        assert_eq!(task.info().failures(), expected, "{policy:?}");
        assert_eq!(task.is_done(), policy != OnFailure::Continue);
        assert_eq!(task.recent_failures().len() as u64, expected);
        finish(&pool);
    }
}

/// To whoever has the handle there is one task.
#[test]
fn a_cancelled_series_begins_no_run_that_was_queued_and_holds_nothing() {
    let (pool, clock) = manual(1);
    let (gate, runs, (probe, captured)) = (Gate::new(), Counter::new(), Probe::new());
    let (inner, count) = (gate.clone(), runs.clone());
    let body = move || {
        let _held = &captured;
        count.hit();
    };
    let builder = pool.task(body).after(SECOND).every(3600 * SECOND).overlap(Overlap::Allow(2));
    let task = builder.start_shared().unwrap();
    // Due together with the beat, and so before the run that the beat submits.
    let blocker = pool.schedule(SECOND, move || inner.pass()).unwrap();
    clock.jump(SECOND);
    gate.await_arrivals(1);
    assert_eq!((task.runs(), pool.stats().queued), (1, 2));
    assert!(task.cancel());
    assert!(probe.is_dropped());
    assert_eq!(pool.stats().queued, 0);
    gate.open();
    blocker.join().unwrap();
    clock.wait_until_idle();
    assert_eq!(runs.get(), 0);
    finish(&pool);
}

/// The beat waits in the queue while its runs go on elsewhere.
#[test]
fn a_series_that_a_shared_run_has_ended_leaves_the_queue_at_once() {
    let (pool, clock) = manual(2);
    pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
    let (gate, (probe, captured)) = (Gate::new(), Probe::new());
    let inner = gate.clone();
    let body = move || -> Result<(), &str> {
        let _held = &captured;
        inner.pass();
        Err("no")
    };
    let task = pool.task(body).every(3600 * SECOND).overlap(Overlap::Allow(2)).start_shared().unwrap();
    gate.await_arrivals(1);
    pool.shutdown();
    gate.open();
    clock.wait_until_idle();
    assert_eq!((task.state(), probe.is_dropped()), (TaskState::Failed, true));
    assert_eq!((pool.stats().queued, pool.stats().cancelled), (0, 0));
    assert!(pool.is_terminated(), "an hour too late");
}

#[test]
fn an_interrupt_reaches_every_run_that_is_going_on() {
    let (pool, clock) = manual(3);
    let log = Log::new();
    let seen = log.clone();
    let body = move || {
        let result = TaskContext::current().sleep(3600 * SECOND);
        seen.add(result.is_err());
        result
    };
    let task = pool.task(body).every(SECOND).overlap(Overlap::Allow(2)).start_shared().unwrap();
    clock.advance(SECOND);
    assert_eq!(pool.stats().active, 2);
    assert!(task.interrupt());
    clock.wait_until_idle();
    assert_eq!(log.entries(), [true, true]);
    assert!(matches!(task.failure(), Some(TaskError::Cancelled)));
    finish(&pool);
}

/// An executor that is shut down refuses the runs; the beat makes them itself, and nothing is lost.
#[test]
fn a_shared_run_that_is_refused_is_made_by_the_beat() {
    let (pool, clock) = manual(2);
    pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
    let log = Log::new();
    let seen = log.clone();
    let body = move || seen.add(TaskContext::current().name().map(str::to_owned));
    let builder = pool.task(body).name("beat").every(SECOND).overlap(Overlap::Allow(2)).at_most(4);
    let task = builder.start_shared().unwrap();
    clock.wait_until_idle();
    pool.shutdown();
    clock.advance(3 * SECOND);
    task.join().unwrap();
    assert_eq!(log.entries(), vec![Some("beat".to_owned()); 4]);
    assert!(pool.is_terminated());
}
