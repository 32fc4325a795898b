//! Cancelling and interrupting tasks: what waits, what runs, what repeats.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use punctual::{
    Executor, FutureTask, Interrupted, Observer, OnCancel, RunOutcome, Scheduler, TaskContext, TaskHandle,
    TaskInfo, TaskState, WaitError,
};

use crate::support::{
    Counter, Gate, HOUR, Log, Probe, STEP, WatchedClock, block_worker, eventually, finish, manual,
};

type Cancel<T> = fn(&TaskHandle<T>) -> bool;

fn ways<T>() -> [Cancel<T>; 2] {
    [TaskHandle::cancel, TaskHandle::interrupt]
}

/// What a body saw: how its sleep ended, the flag then, what taking it gave, the flag after, a second sleep.
type Seen = (Result<(), Interrupted>, bool, bool, bool, Result<(), Interrupted>);

/// A body that sleeps until it is interrupted, then waits at the gate.
fn sleeper(begun: mpsc::Sender<()>, gate: &Gate, seen: &Log<Seen>) -> impl FnOnce() + Send + 'static {
    let (gate, seen) = (gate.clone(), seen.clone());
    move || {
        let context = TaskContext::current();
        begun.send(()).unwrap();
        let slept = context.sleep(HOUR);
        gate.pass();
        let (flag, taken, after) =
            (context.is_interrupted(), context.take_interrupt(), context.is_interrupted());
        seen.add((slept, flag, taken, after, context.sleep(Duration::ZERO)));
    }
}

const INTERRUPTED: Seen = (Err(Interrupted), true, true, false, Ok(()));

/// FT-009: an interrupt makes a running task cancelled at once, while its body goes on; a wait in the body
/// returns early. The flag stays until the body takes it.
#[test]
fn an_interrupt_is_seen_by_the_body_after_the_task_is_cancelled() {
    let (pool, clock) = manual(1);
    let (gate, seen, (begun, begin)) = (Gate::new(), Log::new(), mpsc::channel());
    let handle = pool.submit(sleeper(begun.clone(), &gate, &seen)).unwrap();
    begin.recv().unwrap();
    assert!(handle.interrupt());
    assert!(handle.is_done() && handle.is_cancelled());
    gate.await_arrivals(1);
    assert!(seen.entries().is_empty(), "the body has not ended");
    gate.open();
    clock.wait_until_idle();
    assert_eq!(seen.entries(), [INTERRUPTED]);
    finish(&pool);

    let (gate, seen) = (Gate::new(), Log::new());
    let task = FutureTask::new(sleeper(begun, &gate, &seen));
    thread::scope(|scope| {
        scope.spawn(|| assert!(task.run()));
        begin.recv().unwrap();
        assert!(task.interrupt());
        assert!(task.is_done() && task.is_cancelled());
        gate.await_arrivals(1);
        gate.open();
    });
    assert_eq!(seen.entries(), [INTERRUPTED]);
}

/// FT-009, FT-022: an interrupt that comes just when the body begins either keeps it from running or is seen by
/// it.
#[test]
fn an_interrupt_cannot_slip_past_a_body_that_begins() {
    let (pool, _clock) = manual(2);
    let (begun, ended) = (Counter::new(), Counter::new());
    for _ in 0..500 {
        let (begin, end) = (begun.clone(), ended.clone());
        let handle = pool.submit(move || {
            begin.hit();
            assert_eq!(TaskContext::current().sleep(HOUR), Err(Interrupted));
            end.hit();
        });
        assert!(handle.unwrap().interrupt());
    }
    eventually("every body that began was interrupted", || {
        let stats = pool.stats();
        stats.active + stats.queued == 0
    });
    assert_eq!(begun.get(), ended.get());
    finish(&pool);
}

/// FT-010: a body that was cancelled may return or panic; either is dropped, and the task stays cancelled.
#[test]
fn the_outcome_of_a_cancelled_body_is_dropped() {
    for fails in [false, true] {
        let (pool, clock) = manual(1);
        let (gate, (probe, value)) = (Gate::new(), Probe::new());
        let held = gate.clone();
        let body = move || {
            held.pass();
            assert!(!fails, "after being cancelled");
            value
        };
        let handle = pool.submit(body).unwrap();
        gate.await_arrivals(1);
        assert!(handle.cancel());
        gate.open();
        clock.wait_until_idle();
        assert!(probe.is_dropped());
        assert_eq!(handle.state(), TaskState::Cancelled);
        assert!(handle.join().unwrap_err().is_cancelled());
        finish(&pool);

        let (gate, (probe, value)) = (Gate::new(), Probe::new());
        let held = gate.clone();
        let task = FutureTask::new(move || {
            held.pass();
            assert!(!fails, "after being cancelled");
            value
        });
        thread::scope(|scope| {
            scope.spawn(|| assert!(task.run()));
            gate.await_arrivals(1);
            assert!(task.cancel());
            gate.open();
        });
        assert!(probe.is_dropped());
        assert!(task.join().unwrap_err().is_cancelled());
    }
}

/// FT-011, TP-017: a plain cancel makes a running and a queued task cancelled at once, for every kind of wait.
/// The running body is not interrupted and goes on to its end; each task is counted once.
#[test]
fn a_plain_cancel_lets_the_body_go_on() {
    let (pool, clock) = manual(1);
    let (gate, ends) = (Gate::new(), Log::new());
    let (held, end) = (gate.clone(), ends.clone());
    let running = pool.submit(move || {
        held.pass();
        end.add(TaskContext::current().is_interrupted());
    });
    let (running, queued) = (running.unwrap(), pool.submit(|| ()).unwrap());
    gate.await_arrivals(1);
    for handle in [&running, &queued] {
        assert!(handle.cancel());
        assert!(handle.is_done() && handle.is_cancelled());
        assert!(handle.join().unwrap_err().is_cancelled());
        assert!(handle.join_timeout(STEP).unwrap_err().is_cancelled());
    }
    let stats = pool.stats();
    assert_eq!((stats.active, stats.queued, stats.completed, stats.cancelled), (1, 0, 0, 1));
    assert!(ends.entries().is_empty());
    gate.open();
    clock.wait_until_idle();
    assert_eq!(ends.entries(), [false]);
    let stats = pool.stats();
    assert_eq!((stats.active, stats.queued, stats.completed, stats.cancelled), (0, 0, 1, 1));
    finish(&pool);

    let (gate, ends) = (Gate::new(), Log::new());
    let (held, end) = (gate.clone(), ends.clone());
    let task = FutureTask::new(move || {
        held.pass();
        end.add(TaskContext::current().is_interrupted());
    });
    thread::scope(|scope| {
        scope.spawn(|| assert!(task.run()));
        gate.await_arrivals(1);
        assert!(task.cancel());
        assert!(task.join().unwrap_err().is_cancelled());
        gate.open();
    });
    assert_eq!(ends.entries(), [false]);
}

/// FT-013: whoever is blocked waiting for a task, with a timeout or without, is released by a cancel of either
/// kind while the body still runs.
#[test]
fn a_cancel_releases_those_who_wait_though_the_body_runs() {
    for cancel in ways() {
        let clock = WatchedClock::new();
        let pool = Executor::builder().clock(clock.clone()).build().unwrap();
        let gate = Gate::new();
        let handle = block_worker(&pool, &gate);
        thread::scope(|scope| {
            let untimed = scope.spawn(|| handle.join());
            let timed = scope.spawn(|| handle.join_timeout(HOUR));
            clock.await_blocked(2);
            assert!(cancel(&handle));
            assert!(untimed.join().unwrap().unwrap_err().is_cancelled());
            assert!(timed.join().unwrap().unwrap_err().is_cancelled());
        });
        assert_eq!(pool.stats().active, 1);
        gate.open();
        finish(&pool);
    }
    for cancel in [FutureTask::cancel, FutureTask::interrupt] {
        let (clock, gate) = (WatchedClock::new(), Gate::new());
        let held = gate.clone();
        let task = FutureTask::new(move || held.pass()).with_clock(clock.clone());
        thread::scope(|scope| {
            let runner = scope.spawn(|| task.run());
            gate.await_arrivals(1);
            let untimed = scope.spawn(|| task.join());
            let timed = scope.spawn(|| task.join_timeout(HOUR));
            clock.await_blocked(2);
            assert!(cancel(&task));
            assert!(untimed.join().unwrap().unwrap_err().is_cancelled());
            assert!(timed.join().unwrap().unwrap_err().is_cancelled());
            assert!(!runner.is_finished());
            gate.open();
            assert!(runner.join().unwrap());
        });
    }
}

/// FT-014, FT-015: an interrupt, however it races with the end of its task, is not seen by the next one on the
/// same thread.
#[test]
fn an_interrupt_does_not_leak_into_the_next_task() {
    let (pool, _clock) = manual(1);
    for round in 0..200 {
        let gate = Gate::new();
        let held = gate.clone();
        let first = pool.submit(move || {
            held.pass();
            thread::current().id()
        });
        let next = pool.submit(|| {
            let context = TaskContext::current();
            (context.is_interrupted(), context.sleep(Duration::ZERO), thread::current().id())
        });
        let (first, next) = (first.unwrap(), next.unwrap());
        gate.await_arrivals(1);
        if round % 2 == 0 {
            assert!(first.interrupt());
            gate.open();
        } else {
            gate.open();
            first.interrupt();
        }
        let (flag, slept, thread) = next.join().unwrap();
        assert_eq!((flag, slept), (false, Ok(())));
        if let Ok(id) = first.join() {
            assert_eq!(id, thread);
        }
    }
    finish(&pool);

    let gate = Gate::new();
    let held = gate.clone();
    let first = FutureTask::new(move || held.pass());
    let next = FutureTask::new(|| TaskContext::current().is_interrupted());
    thread::scope(|scope| {
        scope.spawn(|| assert!(first.run() && next.run()));
        gate.await_arrivals(1);
        assert!(first.interrupt());
        gate.open();
    });
    assert!(!next.join().unwrap());
}

/// FT-016: to interrupt a task that waits in the queue disturbs nobody who runs.
#[test]
fn to_interrupt_a_queued_task_interrupts_nobody() {
    let (pool, _clock) = manual(1);
    let (gate, calls) = (Gate::new(), Counter::new());
    let held = gate.clone();
    let running = pool.submit(move || {
        held.pass();
        TaskContext::current().is_interrupted()
    });
    let (running, queued) = (running.unwrap(), pool.submit(calls.body()).unwrap());
    gate.await_arrivals(1);
    assert!(queued.interrupt());
    gate.open();
    assert!(!running.join().unwrap());
    finish(&pool);
    assert_eq!(calls.get(), 0);
}

/// FT-022: of many tasks that wait for the same thing, all that are interrupted give up at once, and the one
/// that is not gets it.
#[test]
fn interrupted_tasks_leave_what_they_wait_for_to_the_rest() {
    const TASKS: usize = 12;
    let (pool, clock) = manual(TASKS);
    let key = Arc::new(pool.schedule(HOUR, || 7).unwrap());
    let ends = Log::new();
    let contender = |n: usize| {
        let (key, ends) = (Arc::clone(&key), ends.clone());
        pool.submit(move || {
            let got = key.join();
            ends.add((n, matches!(got, Err(WaitError::Interrupted))));
            got.map_err(drop)
        })
    };
    let handles: Vec<_> = (0..TASKS).map(|n| contender(n).unwrap()).collect();
    clock.wait_until_idle();
    for handle in &handles[1..] {
        assert!(handle.interrupt());
    }
    clock.wait_until_idle();
    let mut ended = ends.entries();
    ended.sort_unstable();
    assert_eq!(ended, (1..TASKS).map(|n| (n, true)).collect::<Vec<_>>());
    clock.advance(HOUR);
    assert_eq!(handles[0].join().unwrap(), Ok(7));
    for handle in &handles[1..] {
        assert!(handle.join().unwrap_err().is_cancelled());
    }
    finish(&pool);
}

#[derive(Clone)]
struct Hooks(Counter);

impl Observer for Hooks {
    fn before_run(&self, _: TaskInfo<'_>) {
        self.0.hit();
    }

    fn after_run(&self, _: TaskInfo<'_>, _: RunOutcome<'_>) {
        self.0.hit();
    }
}

/// ST-050: a task that is cancelled before it is due never runs, once or repeatedly, whatever becomes of its
/// entry.
#[test]
fn a_task_cancelled_before_it_is_due_never_runs() {
    for on_cancel in [OnCancel::Remove, OnCancel::KeepUntilDue] {
        for cancel in ways() {
            let (pool, clock) = manual(2);
            pool.set_on_cancel(on_cancel);
            let (doomed, spared) = (Counter::new(), Counter::new());
            let handles = [
                pool.schedule(STEP, doomed.body()).unwrap(),
                pool.schedule_at_fixed_rate(STEP, STEP, doomed.body()).unwrap(),
                pool.schedule_with_fixed_delay(STEP, STEP, doomed.body()).unwrap(),
            ];
            let other = pool.schedule(STEP, spared.body()).unwrap();
            for handle in &handles {
                assert!(cancel(handle) && handle.is_cancelled());
            }
            clock.advance(5 * STEP);
            other.join().unwrap();
            assert_eq!((doomed.get(), spared.get()), (0, 1));
            finish(&pool);
        }
    }
}

/// ST-051, ST-052, TP-018: by default a cancelled task leaves the queue at once. If it is to be kept its entry
/// stays until it is due, and then goes silently: no hook is called, and it counts as cancelled, not as
/// completed.
#[test]
fn the_entry_of_a_cancelled_task_stays_only_if_asked_to() {
    let (hooks, clock) = (Counter::new(), punctual::ManualClock::new());
    let builder = Executor::builder().clock(clock.clone()).observer(Hooks(hooks.clone()));
    let pool = builder.build().unwrap();
    assert_eq!(pool.on_cancel(), OnCancel::Remove);
    let removed = pool.schedule(STEP, || ()).unwrap();
    assert!(removed.cancel() && !removed.is_queued());
    assert_eq!(pool.stats().queued, 0);

    pool.set_on_cancel(OnCancel::KeepUntilDue);
    let (probe, captured) = Probe::new();
    let kept = pool.schedule(STEP, move || drop(captured)).unwrap();
    assert!(kept.cancel() && kept.is_queued() && probe.is_dropped());
    clock.advance(STEP - Duration::from_nanos(1));
    assert_eq!(pool.queue()[0].id(), kept.id());
    clock.advance(Duration::from_nanos(1));
    assert!(!kept.is_queued() && pool.queue().is_empty());
    let stats = pool.stats();
    assert_eq!((hooks.get(), stats.completed, stats.cancelled, stats.active), (0, 0, 2, 0));

    // One that is due and waits behind another.
    let gate = Gate::new();
    let blocker = block_worker(&pool, &gate);
    let queued = pool.submit(|| ()).unwrap();
    assert!(queued.cancel() && queued.is_queued());
    gate.open();
    blocker.join().unwrap();
    clock.wait_until_idle();
    let stats = pool.stats();
    assert_eq!((hooks.get(), stats.completed, stats.cancelled, stats.queued), (2, 1, 3, 0));
    finish(&pool);
}

/// ST-053: a periodic task that cancels itself goes on with its run and has no other; nothing is left in the
/// queue. An interrupt is seen by the very run that made it.
#[test]
fn a_periodic_task_can_end_itself() {
    for (cancel, interrupted) in ways().into_iter().zip([false, true]) {
        for on_cancel in [OnCancel::Remove, OnCancel::KeepUntilDue] {
            let (pool, clock) = manual(1);
            pool.set_on_cancel(on_cancel);
            let own = Arc::new(OnceLock::<TaskHandle<()>>::new());
            let (seen, (probe, captured)) = (Log::new(), Probe::new());
            let (slot, log) = (Arc::clone(&own), seen.clone());
            let body = move || {
                let (_keep, handle) = (&captured, slot.get().unwrap());
                let cancelled = cancel(handle);
                log.add((cancelled, handle.is_cancelled(), TaskContext::current().is_interrupted()));
            };
            own.set(pool.schedule_at_fixed_rate(STEP, STEP, body).unwrap()).unwrap();
            clock.advance(5 * STEP);
            let handle = own.get().unwrap();
            assert_eq!(seen.entries(), [(true, true, interrupted)]);
            assert_eq!((handle.runs(), handle.state()), (1, TaskState::Cancelled));
            assert!(!handle.is_queued() && probe.is_dropped());
            let stats = pool.stats();
            assert_eq!((stats.queued, stats.completed, stats.cancelled), (0, 1, 0));
            finish(&pool);
        }
    }
}

/// ST-054: a periodic task that is cancelled while it runs, and then panics, is cancelled, not failed, and does
/// not run again.
#[test]
fn a_panic_after_a_cancel_does_not_make_it_a_failure() {
    let (pool, clock) = manual(1);
    let (gate, calls) = (Gate::new(), Counter::new());
    let (held, count) = (gate.clone(), calls.clone());
    let body = move || {
        count.hit();
        held.pass();
        panic!("after being cancelled");
    };
    let handle = pool.schedule_with_fixed_delay(Duration::ZERO, STEP, body).unwrap();
    gate.await_arrivals(1);
    assert!(handle.cancel());
    gate.open();
    clock.advance(5 * STEP);
    assert_eq!((handle.state(), calls.get()), (TaskState::Cancelled, 1));
    assert!(handle.failure().unwrap().is_cancelled());
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

/// A tick that replaces itself after two runs with a slower one.
struct Ticker {
    pool: Scheduler,
    log: Log<(u32, Duration)>,
    current: Mutex<Option<TaskHandle<()>>>,
}

impl Ticker {
    fn start(self: &Arc<Self>, period: u32) {
        let this = Arc::clone(self);
        let handle =
            self.pool.schedule_at_fixed_rate(period * STEP, period * STEP, move || this.tick(period));
        *self.current.lock().unwrap() = Some(handle.unwrap());
    }

    fn tick(self: &Arc<Self>, period: u32) {
        let now = Duration::from_nanos(self.pool.clock().now().as_nanos());
        self.log.add((period, now));
        if TaskContext::current().runs() == 2 {
            let old = self.current.lock().unwrap().take().unwrap();
            assert!(old.cancel());
            if period < 4 {
                self.start(period + 1);
            }
        }
    }
}

/// ST-055: a run that cancels its own task and schedules another in its place, again and again, leaves exactly
/// the newest going.
#[test]
fn a_periodic_task_can_replace_itself() {
    let (pool, clock) = manual(2);
    let ticker = Arc::new(Ticker { pool: pool.scheduler(), log: Log::new(), current: Mutex::new(None) });
    ticker.start(1);
    clock.advance(100 * STEP);
    let at = |period, steps: u32| (period, steps * STEP);
    let expected = [at(1, 1), at(1, 2), at(2, 4), at(2, 6), at(3, 9), at(3, 12), at(4, 16), at(4, 20)];
    assert_eq!(ticker.log.entries(), expected);
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}
