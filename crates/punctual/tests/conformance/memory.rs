//! What is dropped, and when.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use punctual::{
    DelayQueue, Executor, FutureTask, Keep, Leftover, ManualClock, Observer, OnCancel, Panic, Place,
    TaskHandle, Timer, WaitError,
};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, block_worker, finish, manual};

/// ST-128: tasks that are scheduled and cancelled at once leave nothing behind, however many: nothing they
/// captured, nothing queued, nothing counted; and a shutdown has nothing to wait for.
#[test]
fn tasks_cancelled_at_once_leave_nothing_behind() {
    let (pool, clock) = manual(1);
    let shared = Arc::new(());
    for _ in 0..20_000 {
        let captured = Arc::clone(&shared);
        assert!(pool.schedule(Duration::from_secs(600), move || drop(captured)).unwrap().cancel());
        assert_eq!(Arc::strong_count(&shared), 1);
    }
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.task_count(), stats.completed), (0, 0, 0));
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
    drop(clock);
}

/// ST-128: what was cancelled holds nothing even while its entry is kept, and a purge takes the entries from
/// under ten workers who wait for them.
#[test]
fn cancelled_tasks_that_are_kept_hold_nothing() {
    let clock = ManualClock::new();
    let builder = Executor::builder().core_threads(10).on_cancel(OnCancel::KeepUntilDue);
    let pool = builder.clock(clock.clone()).build().unwrap();
    let shared = Arc::new(());
    let handles: Vec<_> = (0..100)
        .map(|n| {
            let captured = Arc::clone(&shared);
            pool.schedule(HOUR - STEP * n, move || drop(captured)).unwrap()
        })
        .collect();
    clock.wait_until_idle();
    assert_eq!((Arc::strong_count(&shared), pool.stats().pool_size), (101, 10));
    assert!(handles.iter().all(TaskHandle::cancel));
    assert_eq!((Arc::strong_count(&shared), pool.stats().queued), (1, 100));
    drop(handles);
    assert_eq!((pool.purge(), pool.stats().queued, pool.purge()), (100, 0, 0));
    clock.wait_until_idle();
    assert_eq!(pool.stats().pool_size, 10);
    finish(&pool);
}

/// Says which thread drops it, and may call back while that happens.
struct Grave {
    log: Log<ThreadId>,
    look: Option<Executor>,
}

impl Drop for Grave {
    fn drop(&mut self) {
        if let Some(pool) = self.look.take() {
            // Would deadlock under a lock of the pool.
            assert!(pool.stats().queued < usize::MAX);
            drop(pool.queue());
        }
        self.log.add(thread::current().id());
    }
}

/// FT-039: a task lets go of its closure at the moment it is over: the one that ran it does so before anybody
/// sees the outcome, a canceller before `cancel` returns; and in neither case is a lock held.
#[test]
fn the_closure_is_dropped_when_the_task_is_over() {
    let (pool, clock) = manual(1);
    let (log, here) = (Log::new(), thread::current().id());
    let grave = || Grave { log: log.clone(), look: Some(pool.clone()) };
    let worker = pool.submit(|| thread::current().id()).unwrap().join().unwrap();
    let captured = grave();
    let returned = pool.submit(move || captured.look.is_some()).unwrap();
    assert!(returned.join().unwrap());
    assert_eq!(log.entries(), [worker], "returned");
    let captured = grave();
    let panicked = pool.submit(move || assert!(captured.look.is_none(), "as intended")).unwrap();
    panicked.wait().unwrap();
    assert_eq!(log.entries(), [worker; 2], "panicked");
    let (captured, mut runs) = (grave(), 0);
    let series = pool.schedule_at_fixed_rate(STEP, STEP, move || {
        runs += 1;
        assert!(runs < 3 && captured.look.is_some(), "as intended");
    });
    let series = series.unwrap();
    clock.advance(2 * STEP);
    assert_eq!(log.entries().len(), 2, "between two runs it is needed");
    clock.advance(STEP);
    assert!(series.is_done());
    assert_eq!(log.entries(), [worker; 3], "the series ended with a panic");

    let captured = grave();
    let waiting = pool.schedule(HOUR, move || drop(captured)).unwrap();
    assert!(waiting.cancel());
    assert_eq!(log.entries(), [worker, worker, worker, here], "dropped by the canceller");
    let (captured, gate) = (grave(), Gate::new());
    let inner = gate.clone();
    let running = pool.submit(move || {
        inner.pass();
        drop(captured);
    });
    let running = running.unwrap();
    gate.await_arrivals(1);
    assert!(running.cancel());
    assert_eq!(log.entries().len(), 4, "its body still runs");
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries()[4..], [worker], "dropped by its worker");
    let captured = grave();
    drop(pool.schedule_at_fixed_rate(HOUR, HOUR, move || assert!(captured.look.is_some())).unwrap());
    pool.set_after_shutdown(Leftover::Periodic, Keep::Cancel);
    pool.shutdown();
    assert_eq!(log.entries()[5..], [here], "dropped by the shutdown");
    assert!(pool.await_termination(Duration::MAX));
}

/// FT-039: the same without an executor, also for a task that is completed by hand.
#[test]
fn a_task_without_an_executor_lets_go_of_its_closure() {
    type End = fn(&FutureTask<bool>);
    let ends: [End; 5] = [
        |task| assert!(task.run()),
        |task| assert!(task.cancel()),
        |task| assert!(task.interrupt()),
        |task| task.set(true).unwrap(),
        |task| assert!(task.fail(Panic::new("by hand"))),
    ];
    for end in ends {
        let (probe, captured) = Probe::new();
        let task = FutureTask::new(move || Arc::strong_count(&captured) == 1);
        assert!(!probe.is_dropped());
        end(&task);
        assert!(task.is_done() && probe.is_dropped());
    }
    let (probe, captured) = Probe::new();
    let task = FutureTask::repeatable(move || assert_eq!(Arc::strong_count(&captured), 1));
    assert!(task.run_and_reset() && !probe.is_dropped());
    assert!(task.run() && probe.is_dropped());
    let (probe, captured) = Probe::new();
    let task = FutureTask::new(move || -> () { panic!("with {}", Arc::strong_count(&captured)) });
    assert!(task.run() && probe.is_dropped());
    let (probe, captured) = Probe::new();
    drop(FutureTask::new(move || drop(captured)));
    assert!(probe.is_dropped());
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor of a user's");
    }
}

#[derive(Clone)]
struct Contained(Log<Place>);

impl Observer for Contained {
    fn contained(&self, place: Place, _: &Panic) {
        self.0.add(place);
    }
}

/// FT-039: a destructor that panics reaches neither the canceller nor the worker: it is told to the observer,
/// whether a closure is dropped by a cancel, by a purge of policy or by the run, or a value nobody wants.
#[test]
fn a_destructor_that_panics_is_contained() {
    let (clock, contained) = (ManualClock::new(), Contained(Log::new()));
    let builder = Executor::builder().clock(clock.clone()).observer(contained.clone());
    let pool = builder.build().unwrap();
    let bomb = Bomb;
    let cancelled = pool.schedule(HOUR, move || std::mem::forget(bomb)).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(contained.0.entries(), [Place::Destructor]);
    let (bomb, mut runs) = (Bomb, 0);
    let series = pool.schedule_at_fixed_rate(STEP, STEP, move || {
        let _held = &bomb;
        runs += 1;
        assert!(runs < 2, "as intended");
    });
    let series = series.unwrap();
    clock.advance(2 * STEP);
    assert!(series.is_done());
    assert_eq!(contained.0.entries(), [Place::Destructor; 2]);
    let gate = Gate::new();
    let inner = gate.clone();
    let unwanted = pool.submit(move || {
        inner.pass();
        Bomb
    });
    let unwanted = unwanted.unwrap();
    gate.await_arrivals(1);
    assert!(unwanted.cancel());
    gate.open();
    clock.wait_until_idle();
    assert_eq!(contained.0.entries(), [Place::Destructor; 3]);
    let bomb = Bomb;
    let never = move || {
        let _held = &bomb;
    };
    drop(pool.schedule_at_fixed_rate(HOUR, HOUR, never).unwrap());
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7, "on the same worker");
    assert_eq!(pool.stats().pool_size, 1);
    pool.shutdown();
    assert_eq!(contained.0.entries(), [Place::Destructor; 4]);
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-129: workers that wait for the first task, or did, hold nothing of it. Its value shows it: removed and run
/// elsewhere, it is gone with its handle, while the workers still wait.
#[test]
fn a_waiting_worker_holds_nothing_of_the_first_task() {
    let (pool, clock) = manual(4);
    let (probe, value) = Probe::new();
    let head = pool.schedule(STEP, move || value).unwrap();
    let others: Vec<_> = (0..5).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    clock.wait_until_idle();
    let removed = head.remove().unwrap();
    assert!(removed.run());
    assert!(head.is_done() && !probe.is_dropped());
    drop(head);
    assert!(probe.is_dropped());
    assert!(others.iter().all(TaskHandle::is_queued));
    clock.advance(HOUR);
    assert!(others.iter().all(TaskHandle::is_done));
    finish(&pool);
}

/// ST-130: a worker has let go of a task when it begins the next, and when it waits.
#[test]
fn a_worker_lets_go_of_a_task_before_the_next() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    let (probe, value) = Probe::new();
    drop(pool.submit(move || value).unwrap());
    let next = pool.submit(move || probe.is_dropped()).unwrap();
    gate.open();
    blocked.join().unwrap();
    assert!(next.join().unwrap(), "gone before the next body began");
    let (probe, value) = Probe::new();
    drop(pool.submit(move || value).unwrap());
    clock.wait_until_idle();
    assert!(probe.is_dropped(), "gone before the worker waits");
    let (probe, value) = Probe::new();
    let kept = pool.submit(move || value).unwrap();
    clock.wait_until_idle();
    assert!(!probe.is_dropped(), "the handle has it");
    drop(kept.join().unwrap());
    assert!(probe.is_dropped());
    assert!(matches!(kept.join(), Err(WaitError::Task(punctual::TaskError::Taken))));
    finish(&pool);
}

/// DQ-002: what has left a delay queue, in whatever way, is nowhere in it; what is in it goes with it.
#[test]
fn what_has_left_a_delay_queue_is_gone_from_it() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    let shared = Arc::new(());
    let push = |delay: Duration| queue.push(delay, Arc::clone(&shared));
    let held = || Arc::strong_count(&shared) - 1;
    let key = push(HOUR);
    drop(queue.remove(key).unwrap());
    assert_eq!(held(), 0, "removed");
    for n in 0..8 {
        push(STEP * n);
    }
    drop(queue.take().unwrap());
    assert_eq!(held(), 7, "taken");
    clock.jump(4 * STEP);
    drop(queue.try_take().unwrap());
    drop(queue.drain_due(2));
    assert_eq!((held(), queue.len()), (4, 4), "drained");
    let all = queue.drain();
    assert_eq!((all.len(), held()), (4, 4));
    drop(all);
    assert_eq!(held(), 0, "all drained");
    push(HOUR);
    queue.clear();
    assert_eq!(held(), 0, "cleared");
    push(HOUR);
    drop(queue);
    assert_eq!(Arc::strong_count(&shared), 1, "dropped with the queue");
}

/// TM-001: a timer holds nothing of a task that is cancelled or has run, purge or no purge, and one that is
/// cancelled holds no task at all; only a body that runs is there to its end.
#[test]
fn a_timer_holds_only_what_it_will_run() {
    let clock = ManualClock::new();
    let timer = Timer::with_clock("keeper", clock.clone()).unwrap();
    let shared = Arc::new(Mutex::new(0));
    let held = || Arc::strong_count(&shared) - 1;
    let body = || {
        let shared = Arc::clone(&shared);
        move || *shared.lock().unwrap() += 1
    };
    let handles: Vec<_> = (0..100).map(|_| timer.schedule(HOUR, body()).unwrap()).collect();
    assert_eq!(held(), 100);
    assert!(handles.iter().skip(1).step_by(3).all(TaskHandle::cancel));
    assert_eq!((held(), timer.purge()), (67, 0));
    clock.advance(HOUR);
    assert_eq!((held(), *shared.lock().unwrap()), (0, 67));

    let (gate, ended) = (Gate::new(), Counter::new());
    let (inner, count, last) = (gate.clone(), ended.clone(), body());
    let running = timer.schedule(Duration::ZERO, move || {
        inner.pass();
        count.hit();
        drop(last);
    });
    let running = running.unwrap();
    gate.await_arrivals(1);
    let far = timer.schedule(HOUR, body()).unwrap();
    drop(timer.schedule_at_fixed_rate(HOUR, HOUR, body()).unwrap());
    drop(timer.schedule_repeating(HOUR, HOUR, body()).unwrap());
    assert_eq!(held(), 4);
    assert_eq!(timer.cancel(), 3);
    assert_eq!((held(), far.is_cancelled()), (1, true), "what runs is not touched");
    gate.open();
    running.join().unwrap();
    assert!(timer.await_termination(Duration::MAX));
    assert_eq!((held(), ended.get(), timer.purge()), (0, 1, 0));
}
