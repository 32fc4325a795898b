//! How a series whose runs overlap ends, and what it says of each of them.

use punctual::{
    Keep, Leftover, Missed, OnFailure, Overlap, RejectReason, Steered, TaskContext, TaskError, TaskHandle,
    TaskState,
};

use crate::bodies::SECOND;
use crate::support::{Gate, Log, Probe, block_worker, finish, manual};

/// A body whose runs wait for a gate each, and fail as told.
fn gated(
    gates: &[Gate],
    fails: &'static [bool],
) -> impl Fn() -> Result<(), &'static str> + Send + Sync + 'static {
    let gates = gates.to_vec();
    let next = std::sync::atomic::AtomicUsize::new(0);
    move || {
        let run = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        gates[run].pass();
        if fails[run] { Err("as told") } else { Ok(()) }
    }
}

/// Waits until a task with bodies at a gate has run as often.
fn await_runs(task: &TaskHandle<()>, runs: u64) {
    crate::support::eventually("so many runs have begun", || task.runs() == runs);
}

/// The handle resolves with the last run, not with its beginning, and with what that came to.
#[test]
fn a_series_of_runs_that_overlap_ends_when_the_last_of_them_has_ended() {
    for (policy, fails, expected) in [
        (OnFailure::Stop, &[false, false], TaskState::Succeeded),
        (OnFailure::Continue, &[true, false], TaskState::Succeeded),
        (OnFailure::Continue, &[false, true], TaskState::Failed),
        (OnFailure::Stop, &[false, true], TaskState::Failed),
    ] {
        for first_to_end in [0, 1] {
            let (pool, clock) = manual(3);
            let (gates, (probe, captured)) = ([Gate::new(), Gate::new()], Probe::new());
            let inner = gated(&gates, fails);
            let body = move || {
                let _held = &captured;
                inner()
            };
            let builder = pool.task(body).every(SECOND).overlap(Overlap::Allow(2)).on_failure(policy);
            let task = builder.at_most(2).start_shared().unwrap();
            gates[0].await_arrivals(1);
            clock.jump(SECOND);
            gates[1].await_arrivals(1);
            await_runs(&task, 2);
            assert!(!task.is_done(), "its runs go on");
            gates[first_to_end].open();
            gates[1 - first_to_end].open();
            clock.wait_until_idle();
            assert_eq!((task.state(), task.runs()), (expected, 2), "{policy:?} {fails:?}");
            assert_eq!(task.info().failures(), fails.iter().filter(|fails| **fails).count() as u64);
            assert!(probe.is_dropped());
            assert_eq!((pool.stats().queued, pool.stats().cancelled), (0, 0));
            finish(&pool);
        }
    }
}

/// Nothing can be steered any more, but what goes on can be stopped.
#[test]
fn the_last_runs_of_a_series_can_be_cancelled_and_interrupted() {
    for interrupt in [false, true] {
        let (pool, clock) = manual(2);
        let log = Log::new();
        let seen = log.clone();
        let body = move || {
            let result = TaskContext::current().sleep(3600 * SECOND);
            seen.add(result.is_err());
        };
        let builder = pool.task(body).every(SECOND).overlap(Overlap::Allow(2)).until(SECOND / 2);
        let task = builder.start_shared().unwrap();
        clock.wait_until_idle();
        assert_eq!((task.is_done(), pool.stats().active, pool.stats().queued), (false, 1, 0));
        assert_eq!((task.trigger_now(), task.pause()), (Steered::Over, Steered::Over));
        assert!(if interrupt { task.interrupt() } else { task.cancel() });
        assert!(task.is_cancelled());
        finish(&pool);
        assert_eq!(log.entries(), [true]);
    }
}

/// The series is to end with a point that had no place. Its runs go on, and the last of them is the last.
#[test]
fn a_series_whose_last_point_had_no_place_ends_with_its_last_run() {
    let (pool, clock) = manual(3);
    let gates = [Gate::new(), Gate::new()];
    let body = gated(&gates, &[false, false]);
    let builder = pool.task(body).every(SECOND).overlap(Overlap::Allow(2)).until(3 * SECOND);
    let task = builder.start_shared().unwrap();
    for gate in &gates {
        gate.await_arrivals(1);
        clock.jump(SECOND);
    }
    for missed in [1, 2] {
        crate::support::eventually("it is left out", || task.info().missed() == missed);
        clock.jump(SECOND);
    }
    crate::support::eventually("the beat is not queued", || pool.stats().queued == 0);
    assert!(!task.is_done());
    gates.iter().for_each(Gate::open);
    clock.wait_until_idle();
    assert_eq!((task.state(), task.runs()), (TaskState::Succeeded, 2));
    finish(&pool);
}

/// As the last run of any other series, it is not queued and not cancelled by a shutdown.
#[test]
fn the_last_runs_of_a_series_outlive_a_shutdown() {
    let (pool, clock) = manual(2);
    let gate = Gate::new();
    let inner = gate.clone();
    let builder = pool.task(move || inner.pass()).every(SECOND).overlap(Overlap::Allow(2)).at_most(1);
    let task = builder.start_shared().unwrap();
    gate.await_arrivals(1);
    await_runs(&task, 1);
    pool.shutdown();
    gate.open();
    task.join().unwrap();
    clock.wait_until_idle();
    assert!(pool.is_terminated());
}

/// The runs end in another order than they began.
#[test]
fn a_failure_knows_which_of_the_overlapping_runs_it_was() {
    let (pool, clock) = manual(3);
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let body = gated(&gates, &[true, false, true]);
    let builder = pool.task(body).every(SECOND).overlap(Overlap::Allow(3)).on_failure(OnFailure::Continue);
    let task = builder.at_most(3).start_shared().unwrap();
    for (run, gate) in gates.iter().enumerate() {
        gate.await_arrivals(1);
        await_runs(&task, run as u64 + 1);
        if run < 2 {
            clock.jump(SECOND);
        }
    }
    for (run, failures) in [(2, 1), (1, 1), (0, 2)] {
        gates[run].open();
        crate::support::eventually("its end is noted", || task.info().failures() == failures);
    }
    clock.wait_until_idle();
    let runs: Vec<u64> = task.recent_failures().iter().map(punctual::FailedRun::run).collect();
    assert_eq!(runs, [3, 1]);
    finish(&pool);
}

/// The body of a beat knows its task, and is given back and dropped all the same.
#[test]
fn a_series_that_is_refused_gives_its_shared_body_back_and_holds_nothing() {
    let (pool, _clock) = manual(1);
    let (probe, captured) = Probe::new();
    let body = move || drop(captured.clone());
    let builder = pool.task(body).after(10 * SECOND).every(SECOND).overlap(Overlap::Allow(2));
    let refused = builder.until(9 * SECOND).start_shared().unwrap_err();
    assert_eq!(refused.reason(), RejectReason::NeverDue);
    finish(&pool);
    let refused = pool.task(refused.into_task()).every(SECOND).overlap(Overlap::Allow(2)).start_shared();
    let refused = refused.unwrap_err();
    assert_eq!((refused.reason(), probe.is_dropped()), (RejectReason::ShutDown, false));
    drop(refused);
    assert!(probe.is_dropped());
}

/// Drained while its last run is queued, kept by nobody.
#[test]
fn the_last_runs_of_a_series_that_are_drained_abandon_it() {
    let (pool, clock) = manual(1);
    let (gate, (probe, captured)) = (Gate::new(), Probe::new());
    let body = move || drop(captured.clone());
    let builder = pool.task(body).after(SECOND).every(SECOND).overlap(Overlap::Allow(2)).at_most(1);
    let task = builder.start_shared().unwrap();
    // Due together with the beat, and so before the run that the beat submits.
    let inner = gate.clone();
    let blocker = pool.schedule(SECOND, move || inner.pass()).unwrap();
    clock.jump(SECOND);
    gate.await_arrivals(1);
    assert_eq!((task.is_done(), task.runs()), (false, 1));
    drop(pool.shutdown_now());
    assert!(matches!(task.failure(), Some(TaskError::Abandoned(_))), "{:?}", task.failure());
    assert!(probe.is_dropped());
    gate.open();
    blocker.wait().unwrap();
    finish(&pool);
}

/// An executor that is shut down refuses the runs, and the beat makes them itself.
#[test]
fn the_failure_of_a_shared_run_that_was_refused_is_a_failure() {
    let policies = [(OnFailure::Stop, 1), (OnFailure::StopAfter(2), 2), (OnFailure::Continue, 3)];
    for ((policy, runs), is_async) in policies.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let (pool, clock) = manual(2);
        pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
        let task = if is_async {
            let builder = pool.task_async(|| async { Err::<(), _>("no") }).after(SECOND).every(SECOND);
            builder.overlap(Overlap::Allow(2)).on_failure(policy).at_most(3).start_shared().unwrap()
        } else {
            let builder = pool.task(|| Err::<(), _>("no")).after(SECOND).every(SECOND);
            builder.overlap(Overlap::Allow(2)).on_failure(policy).at_most(3).start_shared().unwrap()
        };
        pool.shutdown();
        clock.advance(5 * SECOND);
        assert!(matches!(task.failure(), Some(TaskError::Failed(_))), "{policy:?} {is_async}");
        let info = task.info();
        assert_eq!((info.failures(), info.last_run().is_some()), (runs, true), "{policy:?} {is_async}");
        assert!(pool.is_terminated());
    }
}

#[test]
fn a_shared_run_that_was_refused_has_its_timeout() {
    let (pool, clock) = manual(2);
    pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
    let body = || TaskContext::current().sleep(3600 * SECOND).is_err().then_some(()).ok_or("undisturbed");
    let builder = pool.task(body).after(SECOND).timeout(SECOND).every(60 * SECOND).overlap(Overlap::Allow(2));
    let task = builder.start_shared().unwrap();
    pool.shutdown();
    clock.advance(2 * SECOND);
    assert!(matches!(task.failure(), Some(TaskError::TimedOut(_))));
    clock.wait_until_idle();
    assert!(pool.is_terminated());
}

/// A run that overlaps others is a task of its own, and knows all the same.
#[test]
fn a_shared_run_knows_how_many_were_left_out_before_it() {
    let (pool, clock) = manual(2);
    let (log, gate) = (Log::new(), Gate::new());
    let seen = log.clone();
    let body = move || seen.add(TaskContext::current().missed());
    let builder = pool.task(body).every(10 * SECOND).overlap(Overlap::Allow(2));
    let _task = builder.missed(Missed::once()).start_shared().unwrap();
    clock.wait_until_idle();
    let blockers = [block_worker(&pool, &gate), block_worker(&pool, &gate)];
    clock.jump(35 * SECOND);
    gate.open();
    clock.wait_until_idle();
    drop(blockers);
    clock.advance(5 * SECOND);
    assert_eq!(log.entries(), [0, 2, 0]);
    finish(&pool);
}
