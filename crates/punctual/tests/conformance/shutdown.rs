//! What a shutdown leaves and what it ends.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::time::Duration;

use punctual::{
    Abandoned, Decoration, Executor, Keep, Leftover, ManualClock, OnCancel, TaskContext, TaskError,
    TaskHandle, TaskInfo, TaskState, WaitError,
};

use crate::support::{Counter, Gate, HOUR, STEP, block_worker, manual};

const KEEPS: [Keep; 2] = [Keep::Run, Keep::Cancel];

fn manual_with(threads: usize, delayed: Keep, periodic: Keep) -> (Executor, ManualClock) {
    let (pool, clock) = manual(threads);
    pool.set_after_shutdown(Leftover::Delayed, delayed);
    pool.set_after_shutdown(Leftover::Periodic, periodic);
    (pool, clock)
}

fn is_cancelled<T: std::fmt::Debug>(outcome: &Result<T, WaitError>) -> bool {
    outcome.as_ref().is_err_and(WaitError::is_cancelled)
}

#[track_caller]
fn assert_terminates<T>(pool: &Executor, handles: &[&TaskHandle<T>]) {
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.queue().is_empty());
    for handle in handles {
        assert!(handle.is_done(), "{handle:?}");
    }
}

// ---- the table

/// One way to set the policies, each set or left at its default, and one way for periodic tasks to end.
#[derive(Clone, Copy, Debug)]
struct Case {
    delayed: Option<Keep>,
    periodic: Option<Keep>,
    on_cancel: Option<OnCancel>,
    /// Periodic bodies panic at the end of their first run.
    fails: bool,
}

impl Case {
    fn all() -> Vec<Self> {
        let keeps = [None, Some(Keep::Run), Some(Keep::Cancel)];
        let mut cases = Vec::new();
        for delayed in keeps {
            for periodic in keeps {
                for on_cancel in [None, Some(OnCancel::Remove), Some(OnCancel::KeepUntilDue)] {
                    cases.extend([true, false].map(|fails| Self { delayed, periodic, on_cancel, fails }));
                }
            }
        }
        cases
    }

    fn delayed_run(self) -> bool {
        self.delayed.is_none_or(|keep| keep == Keep::Run)
    }

    fn periodic_run(self) -> bool {
        self.periodic == Some(Keep::Run)
    }
}

/// Four tasks, one of each kind.
struct Wave {
    immediate: TaskHandle<usize>,
    delayed: TaskHandle<usize>,
    periodic: [TaskHandle<()>; 2],
}

/// What a periodic body panics with.
#[derive(PartialEq, Debug)]
struct Payload(usize);

impl Wave {
    /// All that are not immediate are due in one step.
    fn submit(pool: &Executor, case: Case, number: usize, ran: &Counter, gate: &Gate) -> Self {
        let value = |value| {
            let (ran, gate) = (ran.clone(), gate.clone());
            move || {
                ran.hit();
                gate.pass();
                value
            }
        };
        let repeat = |id| {
            let (ran, gate) = (ran.clone(), gate.clone());
            move || {
                ran.hit();
                gate.pass();
                if case.fails {
                    resume_unwind(Box::new(Payload(id)));
                }
            }
        };
        Self {
            immediate: pool.submit(value(number)).unwrap(),
            delayed: pool.schedule(STEP, value(10 + number)).unwrap(),
            periodic: [
                pool.schedule_at_fixed_rate(STEP, STEP, repeat(20 + number)).unwrap(),
                pool.schedule_with_fixed_delay(STEP, STEP, repeat(30 + number)).unwrap(),
            ],
        }
    }

    fn states(&self) -> [TaskState; 4] {
        let [rate, delay] = &self.periodic;
        [self.immediate.state(), self.delayed.state(), rate.state(), delay.state()]
    }

    fn queued(&self) -> [bool; 4] {
        let [rate, delay] = &self.periodic;
        [self.immediate.is_queued(), self.delayed.is_queued(), rate.is_queued(), delay.is_queued()]
    }
}

/// ST-065, ST-066, ST-067, ST-068, ST-069, ST-070, ST-071, ST-072: in every combination of policies, for each
/// kind of task, running and queued: what stays, what is cancelled before shutdown returns, what runs in the
/// end and how often, and that the pool then terminates with every handle resolved.
#[test]
fn every_combination_of_policies_follows_the_table() {
    for case in Case::all() {
        follow_the_table(case);
    }
}

fn follow_the_table(case: Case) {
    let (pool, clock) = manual(4);
    for (kind, keep) in [(Leftover::Delayed, case.delayed), (Leftover::Periodic, case.periodic)] {
        if let Some(keep) = keep {
            pool.set_after_shutdown(kind, keep);
        }
    }
    if let Some(on_cancel) = case.on_cancel {
        pool.set_on_cancel(on_cancel);
    }
    let (ran, gate) = (Counter::new(), Gate::new());

    let running = Wave::submit(&pool, case, 1, &ran, &gate);
    clock.jump(STEP);
    gate.await_arrivals(4);
    let queued = Wave::submit(&pool, case, 2, &ran, &gate);
    let cancelled = pool.schedule(STEP, || ()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(cancelled.is_queued(), case.on_cancel == Some(OnCancel::KeepUntilDue), "{case:?}");

    pool.shutdown();
    assert!(pool.is_shutdown() && pool.is_terminating() && !pool.is_terminated());
    assert_eq!(running.states(), [TaskState::Running; 4], "{case:?}");
    assert_eq!(running.queued(), [false; 4], "{case:?}");
    let (delayed, periodic) = (case.delayed_run(), case.periodic_run());
    let state = |stays| if stays { TaskState::Waiting } else { TaskState::Cancelled };
    let stay = [true, delayed, periodic, periodic];
    assert_eq!(queued.queued(), stay, "{case:?}");
    assert_eq!(queued.states(), stay.map(state), "{case:?}");
    assert_eq!(pool.queue().len(), stay.iter().filter(|stays| **stays).count(), "{case:?}");
    assert!(!cancelled.is_queued());

    gate.open();
    if delayed || periodic {
        clock.advance(STEP);
    }
    let continues = periodic && !case.fails;
    if continues {
        assert!(!pool.is_terminated());
        for handle in running.periodic.iter().chain(&queued.periodic) {
            assert!(handle.is_queued() && handle.cancel());
        }
        if case.on_cancel == Some(OnCancel::KeepUntilDue) {
            clock.advance(STEP);
        }
    }
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.queue().is_empty() && !pool.is_terminating());

    // Two immediate, the first delayed, the first two periodic; what the policies add; a second round of the
    // first two, if they do not end by panicking.
    let rounds = 5 + usize::from(delayed) + 2 * usize::from(periodic) + 2 * usize::from(continues);
    assert_eq!(ran.get(), rounds, "{case:?}");
    assert_eq!(running.immediate.join().unwrap(), 1);
    assert_eq!(running.delayed.join().unwrap(), 11);
    assert_eq!(queued.immediate.join().unwrap(), 2);
    match queued.delayed.join() {
        Ok(value) => assert!(delayed && value == 12),
        outcome => assert!(!delayed && is_cancelled(&outcome), "{case:?}"),
    }
    for (wave, number) in [(&running, 1), (&queued, 2)] {
        for (handle, id) in wave.periodic.iter().zip([20 + number, 30 + number]) {
            let outcome = handle.join();
            let payload = outcome.as_ref().unwrap_err().panic().map(|panic| {
                panic.with_payload(|payload: &Payload| payload.0).expect("the payload of the body")
            });
            let failed = case.fails && (number == 1 || periodic);
            assert_eq!(payload, failed.then_some(id), "{case:?}");
            assert!(failed || is_cancelled(&outcome), "{case:?}");
        }
    }
}

/// ST-066: a periodic body that runs at a shutdown is neither interrupted nor resolved before it ends, and then
/// is cancelled or goes on as the policy says.
#[test]
fn a_running_periodic_body_ends_undisturbed() {
    for periodic in KEEPS {
        let (pool, clock) = manual_with(1, Keep::Run, periodic);
        let gate = Gate::new();
        let (seen, saw) = mpsc::channel();
        let held = gate.clone();
        let series = pool.schedule_at_fixed_rate(STEP, STEP, move || {
            held.pass();
            seen.send(TaskContext::current().is_interrupted()).unwrap();
        });
        let series = series.unwrap();
        clock.jump(STEP);
        gate.await_arrivals(1);
        pool.shutdown();
        assert_eq!(series.state(), TaskState::Running);
        gate.open();
        assert!(!saw.recv().unwrap());
        if periodic == Keep::Run {
            clock.wait_until_idle();
            assert!(series.is_queued() && !series.is_done());
            clock.advance(2 * STEP);
            assert_eq!(series.runs(), 3);
            assert!(series.cancel());
        }
        assert!(is_cancelled(&series.join()));
        assert_terminates(&pool, &[&series]);
    }
}

/// ST-073: when periodic tasks outlive a shutdown, cancelling them, queued or running, ends the pool.
#[test]
fn cancelling_what_outlived_the_shutdown_ends_the_pool() {
    let (pool, clock) = manual_with(2, Keep::Run, Keep::Run);
    let gate = Gate::new();
    let held = gate.clone();
    let running = pool.schedule_with_fixed_delay(STEP, HOUR, move || held.pass()).unwrap();
    let queued = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    clock.jump(STEP);
    gate.await_arrivals(1);
    pool.shutdown();
    assert!(running.cancel() && queued.cancel());
    assert!(!pool.is_terminated(), "a body still runs");
    gate.open();
    assert_terminates(&pool, &[&running, &queued]);
}

// ---- policies that change

/// ST-074: a policy that is turned off after the shutdown cancels its own kind at once and leaves the other; the
/// pool terminates by itself when that was the last.
#[test]
fn turning_a_policy_off_after_shutdown_takes_effect_at_once() {
    for kinds in [[Leftover::Periodic, Leftover::Delayed], [Leftover::Delayed, Leftover::Periodic]] {
        let (pool, _clock) = manual_with(2, Keep::Run, Keep::Run);
        let delayed = pool.schedule(HOUR, || ()).unwrap();
        let periodic = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
        pool.shutdown();
        let of = |kind| if kind == Leftover::Delayed { &delayed } else { &periodic };
        pool.set_after_shutdown(kinds[0], Keep::Cancel);
        assert!(of(kinds[0]).is_cancelled() && !of(kinds[0]).is_queued());
        assert!(!of(kinds[1]).is_done() && of(kinds[1]).is_queued());
        assert!(!pool.is_terminated());
        pool.set_after_shutdown(kinds[1], Keep::Cancel);
        assert!(of(kinds[1]).is_cancelled());
        assert_terminates(&pool, &[&delayed, &periodic]);
    }
}

/// ST-075: turning the policy on after the shutdown revives nothing, but a periodic body that runs at that
/// moment is queued again, because the policy is read when it ends.
#[test]
fn turning_a_policy_on_after_shutdown_keeps_only_what_runs() {
    let (pool, clock) = manual_with(1, Keep::Run, Keep::Cancel);
    let gate = Gate::new();
    let held = gate.clone();
    let running = pool.schedule_at_fixed_rate(STEP, STEP, move || held.pass()).unwrap();
    let queued = pool.schedule_at_fixed_rate(HOUR, STEP, || ()).unwrap();
    clock.jump(STEP);
    gate.await_arrivals(1);
    pool.shutdown();
    pool.set_after_shutdown(Leftover::Periodic, Keep::Run);
    assert!(queued.is_cancelled() && !queued.is_queued());
    gate.open();
    clock.advance(STEP);
    assert_eq!(running.runs(), 2);
    assert!(running.is_queued());
    assert_eq!(queued.runs(), 0);
    assert!(running.cancel());
    assert_terminates(&pool, &[&running, &queued]);
}

/// ST-076: a task that is due and waits for a worker when the policy turns against it is cancelled instead of
/// run; one that the policy cannot touch any more, because it has come due, runs.
#[test]
fn a_due_task_meets_the_policy_of_the_moment_it_would_run() {
    let (pool, clock) = manual_with(1, Keep::Run, Keep::Run);
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let periodic = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    let delayed = pool.schedule(STEP, || 7).unwrap();
    let later = pool.schedule(2 * STEP, || 8).unwrap();
    pool.shutdown();
    clock.jump(STEP);
    assert!(periodic.remaining().is_due() && periodic.is_queued());
    pool.set_after_shutdown(Leftover::Periodic, Keep::Cancel);
    pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
    gate.open();
    assert_eq!(delayed.join().unwrap(), 7);
    assert!(is_cancelled(&later.join()));
    assert!(is_cancelled(&periodic.join()));
    assert_eq!((periodic.runs(), later.runs()), (0, 0));
    assert_terminates(&pool, &[&blocker, &periodic]);
}

/// ST-077: by default a delayed task still runs at its time, not before, also in a pool without core threads.
#[test]
fn by_default_a_delayed_task_runs_after_shutdown_at_its_time() {
    for threads in [0, 1, 3] {
        let (pool, clock) = manual(threads);
        let handle = pool.schedule(HOUR, || 7).unwrap();
        pool.shutdown();
        clock.advance(HOUR - Duration::from_nanos(1));
        assert!(!handle.is_done() && !pool.is_terminated());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(handle.join().unwrap(), 7);
        assert_terminates(&pool, &[&handle]);
    }
}

/// ST-078: by default periodic tasks are cancelled by a shutdown and the pool terminates without time passing.
#[test]
fn by_default_periodic_tasks_end_with_the_shutdown() {
    let (pool, _clock) = manual(1);
    let rate = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let delay = pool.schedule_with_fixed_delay(HOUR, HOUR, || ()).unwrap();
    pool.shutdown();
    assert!(rate.is_cancelled() && delay.is_cancelled());
    assert_terminates(&pool, &[&rate, &delay]);
}

/// ST-079: a second shutdown changes nothing, neither does one after a stop, and a stop after the end returns
/// nothing.
#[test]
fn stopping_twice_is_stopping_once() {
    let (pool, clock) = manual(1);
    let kept = pool.schedule(STEP, || 7).unwrap();
    pool.shutdown();
    pool.shutdown();
    assert!(kept.is_queued());
    clock.advance(STEP);
    assert_eq!(kept.join().unwrap(), 7);
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.shutdown_now().is_empty());
    pool.shutdown();
    assert!(pool.is_terminated());

    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let drained = pool.schedule(STEP, || ()).unwrap();
    let tasks = pool.shutdown_now();
    pool.shutdown();
    assert!(pool.shutdown_now().is_empty());
    assert_eq!(tasks.len(), 1);
    assert_eq!((drained.state(), blocker.state()), (TaskState::Waiting, TaskState::Running));
    drop(tasks);
    gate.open();
    assert_terminates(&pool, &[&drained, &blocker]);
}

/// ST-080: policies may be set and read in every state and from any thread, a task's included.
#[test]
fn policies_can_be_set_and_read_in_every_state() {
    fn set_and_read(pool: &Executor) {
        for kind in [Leftover::Delayed, Leftover::Periodic] {
            for keep in [Keep::Cancel, Keep::Run] {
                pool.set_after_shutdown(kind, keep);
                assert_eq!(pool.after_shutdown(kind), keep);
            }
        }
    }
    let (pool, _clock) = manual(1);
    set_and_read(&pool);
    let inside = pool.clone();
    pool.submit(move || set_and_read(&inside)).unwrap().join().unwrap();
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    pool.shutdown();
    set_and_read(&pool);
    let outside = pool.clone();
    std::thread::spawn(move || set_and_read(&outside)).join().unwrap();
    gate.open();
    assert_terminates(&pool, &[&blocker]);
    set_and_read(&pool);
}

// ---- stopping at once

/// ST-081, ST-086, ST-088, TP-022: a stop returns exactly what had not begun and empties the queue; what runs is
/// interrupted, counts as completed when it returns, and if it does not care still delivers its value; then the
/// pool is over.
#[test]
fn a_stop_returns_what_waits_and_interrupts_what_runs() {
    let (pool, _clock) = manual(2);
    let ready = Gate::new();
    ready.open();
    let handles: Vec<TaskHandle<bool>> = (0..5)
        .map(|_| {
            let ready = ready.clone();
            let nap = move || {
                ready.pass();
                TaskContext::current().sleep(HOUR).is_err() && TaskContext::current().is_interrupted()
            };
            pool.submit(nap).unwrap()
        })
        .collect();
    ready.await_arrivals(2);
    let drained = pool.shutdown_now();
    assert!(pool.is_shutdown() && pool.queue().is_empty());
    let ids = |handles: &[TaskHandle<bool>]| handles.iter().map(TaskHandle::id).collect::<Vec<_>>();
    assert_eq!(drained.iter().map(punctual::UnrunTask::id).collect::<Vec<_>>(), ids(&handles[2..]));
    for running in &handles[..2] {
        assert!(running.join().unwrap(), "interrupted, and its value delivered");
    }
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(pool.stats().completed, 2);
    assert!(handles[2..].iter().all(|handle| handle.state() == TaskState::Waiting && handle.runs() == 0));
}

/// ST-088: a stopped pool is not over while a body runs that ignores the interrupt, and is as soon as it ends.
#[test]
fn a_stopped_pool_waits_for_bodies_that_ignore_the_interrupt() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let stubborn = block_worker(&pool, &gate);
    assert!(pool.shutdown_now().is_empty());
    assert!(!pool.await_termination(Duration::ZERO) && pool.is_terminating());
    gate.open();
    stubborn.join().unwrap();
    assert_terminates(&pool, &[&stubborn]);
}

/// ST-082, ST-084: every kind of queued task comes back, in order, under the id its handle has; it is not done as
/// long as it is kept, and resolves as abandoned, whoever waits for it, when it is dropped.
#[test]
fn what_a_stop_returns_is_resolved_when_it_is_dropped() {
    let (pool, _clock) = manual(1);
    let mut handles = Vec::new();
    for n in 1..=3 {
        handles.push(pool.schedule(n * HOUR, || ()).unwrap());
        handles.push(pool.schedule_at_fixed_rate(n * HOUR, HOUR, || ()).unwrap());
        handles.push(pool.schedule_with_fixed_delay(n * HOUR, HOUR, || ()).unwrap());
    }
    let drained = pool.shutdown_now();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(drained.len(), 9);
    for (task, handle) in drained.iter().zip(&handles) {
        assert_eq!((task.id(), task.is_periodic()), (handle.id(), handle.is_periodic()));
        assert!(!handle.is_done() && !handle.is_cancelled() && !handle.is_queued());
    }
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| handles[0].join());
        drop(drained);
        let outcome = waiter.join().unwrap();
        assert!(matches!(outcome, Err(WaitError::Task(TaskError::Abandoned(Abandoned::Stopped)))));
    });
    assert!(handles.iter().all(|handle| handle.state() == TaskState::Abandoned && handle.runs() == 0));
}

/// ST-083, ST-085: a drained task has not been run, its decoration included; run by hand it runs like any other,
/// inside its decoration, a periodic one once.
#[test]
fn a_drained_task_runs_by_hand_inside_its_decoration() {
    struct Counted(Counter);
    impl Decoration for Counted {
        fn run(&mut self, body: &mut dyn FnMut()) {
            self.0.hit();
            body();
        }
    }
    let (decorated, ran) = (Counter::new(), Counter::new());
    let counter = decorated.clone();
    let decorator = move |_: TaskInfo<'_>| Some(Box::new(Counted(counter.clone())) as Box<dyn Decoration>);
    let pool = Executor::builder().clock(ManualClock::new()).decorator(decorator).build().unwrap();
    let once = pool.schedule(HOUR, ran.body()).unwrap();
    let many = pool.schedule_at_fixed_rate(HOUR, HOUR, ran.body()).unwrap();
    let dropped = pool.schedule(HOUR, ran.body()).unwrap();
    let mut drained = pool.shutdown_now().into_iter();
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!((decorated.get(), ran.get()), (0, 0));
    assert!(drained.next().unwrap().run() && drained.next().unwrap().run());
    assert_eq!((decorated.get(), ran.get()), (2, 2));
    once.join().unwrap();
    assert!(matches!(many.failure(), Some(TaskError::Abandoned(Abandoned::Stopped))));
    drop(drained);
    assert_eq!((decorated.get(), dropped.state()), (2, TaskState::Abandoned));
}

/// ST-087: a periodic body that runs at a stop is interrupted but not resolved before it ends, then cancelled
/// and not queued again, whatever the policy.
#[test]
fn a_periodic_body_that_runs_at_a_stop_is_its_last() {
    for periodic in KEEPS {
        let (pool, clock) = manual_with(1, Keep::Run, periodic);
        let gate = Gate::new();
        let (seen, saw) = mpsc::channel();
        let held = gate.clone();
        let series = pool.schedule_at_fixed_rate(STEP, STEP, move || {
            held.pass();
            seen.send(TaskContext::current().is_interrupted()).unwrap();
        });
        let series = series.unwrap();
        clock.jump(STEP);
        gate.await_arrivals(1);
        assert!(pool.shutdown_now().is_empty());
        assert_eq!(series.state(), TaskState::Running);
        gate.open();
        assert!(saw.recv().unwrap());
        assert!(is_cancelled(&series.join()));
        assert_terminates(&pool, &[&series]);
        assert_eq!(series.runs(), 1);
    }
}
