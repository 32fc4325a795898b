//! User code that calls back into the executor that calls it.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use punctual::{
    Abandoned, Decoration, Executor, Keep, Leftover, ManualClock, Observer, OnDrop, RejectReason, Rejection,
    RunOutcome, Scheduler, TaskContext, TaskError, TaskHandle, TaskInfo, TaskState, UnrunTask, WaitError,
};

use crate::support::{Counter, Gate, HOUR, Log, PATIENCE, STEP, block_worker, eventually, finish, manual};

/// Calls its closure when it is dropped.
struct OnDropCall<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDropCall<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// ---- bodies that end their own pool

#[test]
fn a_body_may_shut_its_pool_down_stop_it_and_close_it() {
    let ways: [fn(&Executor) -> bool; 3] = [
        |pool| {
            pool.shutdown();
            !TaskContext::current().is_interrupted()
        },
        |pool| {
            let unrun = pool.shutdown_now();
            unrun.len() == 1 && TaskContext::current().is_interrupted()
        },
        |pool| matches!(pool.close(), Err(WaitError::WouldDeadlock)),
    ];
    for way in ways {
        let (pool, _clock) = manual(1);
        let gate = Gate::new();
        let (inner, entry) = (pool.clone(), gate.clone());
        let body = pool.submit(move || {
            entry.pass();
            way(&inner) && inner.is_shutdown() && !inner.is_terminated()
        });
        let body = body.unwrap();
        let queued = pool.submit(|| ()).unwrap();
        gate.open();
        assert!(body.join().unwrap());
        assert!(pool.await_termination(Duration::MAX));
        assert!(queued.is_done());
    }
}

#[test]
fn a_body_that_waits_for_itself_is_told_so() {
    let (pool, _clock) = manual(1);
    let (sender, receiver) = mpsc::channel::<TaskHandle<bool>>();
    let me = pool.submit(move || {
        let me = receiver.recv().unwrap();
        let answers = [me.join().err(), me.wait().err(), me.join_timeout(Duration::MAX).err()];
        answers.iter().all(|answer| matches!(answer, Some(WaitError::WouldDeadlock)))
    });
    let me = me.unwrap();
    let queue = punctual::CompletionQueue::new();
    // The body gets the only handle; what it answers comes through the queue of its successor.
    let (done, end) = mpsc::channel();
    let watch = pool.submit(move || done.send(())).unwrap();
    sender.send(me).unwrap();
    end.recv().unwrap();
    queue.push(watch);
    assert!(queue.take().unwrap().is_some());
    assert_eq!(pool.stats().completed, 2);
    finish(&pool);
}

#[test]
fn the_last_executor_may_be_dropped_by_a_body_under_every_policy() {
    for on_drop in [OnDrop::Detach, OnDrop::Join, OnDrop::Abort] {
        let clock = ManualClock::new();
        let pool = Executor::builder().clock(clock.clone()).on_drop(on_drop).build().unwrap();
        let watch = pool.schedule(HOUR, || ()).unwrap();
        let gate = Gate::new();
        let (entry, scheduler) = (gate.clone(), pool.scheduler());
        let body = pool.submit(move || {
            entry.pass();
            drop(scheduler);
            TaskContext::current().is_interrupted()
        });
        drop(pool);
        gate.open();
        assert_eq!(body.unwrap().join().unwrap(), on_drop == OnDrop::Abort, "{on_drop:?}");
        match on_drop {
            OnDrop::Abort => assert_eq!(watch.state(), TaskState::Abandoned),
            _ => {
                clock.advance(HOUR);
                assert_eq!(watch.state(), TaskState::Succeeded);
            }
        }
    }
}

/// Outside of every task, but on a worker: waiting for the pool there would be for ever.
#[test]
fn the_last_executor_may_go_with_a_value_that_nobody_takes() {
    for on_drop in [OnDrop::Detach, OnDrop::Join, OnDrop::Abort] {
        let (gone, end) = mpsc::channel();
        let pool = Executor::builder().on_drop(on_drop).build().unwrap();
        let gate = Gate::new();
        let (entry, value) = (gate.clone(), pool.clone());
        let note = OnDropCall(move || gone.send(()).unwrap());
        let handle = pool.submit(move || {
            entry.pass();
            // Dropped in this order: the executor, then the note that it is gone.
            (value, note)
        });
        drop((handle, pool));
        gate.open();
        assert!(end.recv_timeout(PATIENCE).is_ok(), "{on_drop:?}: the worker waits for itself");
    }
}

#[test]
fn a_periodic_body_may_own_the_last_executor() {
    for on_drop in [OnDrop::Detach, OnDrop::Join, OnDrop::Abort] {
        let (gone, end) = mpsc::channel();
        let clock = ManualClock::new();
        let pool = Executor::builder().clock(clock.clone()).on_drop(on_drop).build().unwrap();
        let owner = pool.clone();
        let note = OnDropCall(move || gone.send(()).unwrap());
        let body = move || {
            let _ = &note;
            owner.shutdown();
        };
        let beat = pool.schedule_at_fixed_rate(Duration::ZERO, STEP, body);
        drop(pool);
        assert!(end.recv_timeout(PATIENCE).is_ok(), "{on_drop:?}: the worker waits for itself");
        drop(beat);
    }
}

// ---- hooks

/// Uses its executor in every hook, and drops it in the last one.
#[derive(Clone, Default)]
struct Meddler {
    executor: Arc<Mutex<Option<Executor>>>,
    closes: Arc<Mutex<Vec<&'static str>>>,
    nested: Counter,
}

impl Meddler {
    fn meddle(&self, place: &'static str) {
        let executor = self.executor.lock().unwrap().clone();
        let Some(executor) = executor else { return };
        let _ = (executor.stats(), executor.queue(), executor.to_string(), executor.purge());
        if executor.is_shutdown() {
            assert_eq!(executor.submit(|| ()).unwrap_err().reason(), RejectReason::ShutDown);
            if matches!(executor.close(), Err(WaitError::WouldDeadlock)) {
                self.closes.lock().unwrap().push(place);
            }
        } else if self.nested.get() < 20 {
            self.nested.hit();
            executor.schedule(HOUR, || ()).unwrap().cancel();
            executor.execute(|| ()).unwrap();
        }
    }
}

impl Observer for Meddler {
    fn before_run(&self, _: TaskInfo<'_>) {
        self.meddle("before");
    }

    fn after_run(&self, _: TaskInfo<'_>, _: RunOutcome<'_>) {
        self.meddle("after");
    }

    fn worker_started(&self) {
        self.meddle("started");
    }

    fn worker_stopped(&self) {
        self.meddle("stopped");
    }

    fn terminated(&self) {
        self.meddle("terminated");
        let executor = self.executor.lock().unwrap().take();
        drop(executor);
    }
}

#[test]
fn hooks_may_use_close_and_drop_the_executor_that_calls_them() {
    // Ended by its last worker, and by the call that shuts it down while it has none.
    for works in [true, false] {
        let meddler = Meddler::default();
        let builder = Executor::builder().observer(meddler.clone()).on_drop(OnDrop::Join);
        let pool = builder.build().unwrap();
        *meddler.executor.lock().unwrap() = Some(pool.clone());
        if works {
            assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
            eventually("the nested tasks have run", || {
                let stats = pool.stats();
                stats.queued + stats.active == 0
            });
        }
        pool.shutdown();
        assert!(pool.await_termination(Duration::MAX));
        let expected: &[&str] = if works { &["stopped", "terminated"] } else { &["terminated"] };
        assert_eq!(*meddler.closes.lock().unwrap(), expected);
        assert!(meddler.executor.lock().unwrap().is_none());
    }
}

// ---- destructors

#[test]
fn destructors_may_use_the_executor_that_runs_them() {
    let (pool, clock) = manual(1);
    let dropped = Counter::new();
    let guest = || {
        let (pool, dropped) = (pool.scheduler(), dropped.clone());
        OnDropCall(move || {
            let other = pool.schedule(HOUR, || ());
            let _ = (pool.stats(), pool.queue());
            other.map_or_else(|_| (), |other| assert!(other.cancel()));
            dropped.hit();
        })
    };
    // In a run, as a value, by a cancel, by a removal, by the policy of a shutdown, by a stop.
    let captured = guest();
    pool.submit(move || drop(captured)).unwrap().join().unwrap();
    let value = guest();
    drop(pool.submit(move || value).unwrap());
    clock.wait_until_idle();
    assert_eq!(dropped.get(), 2);
    let later = |captured: OnDropCall<_>| pool.schedule(HOUR, move || drop(captured)).unwrap();
    assert!(later(guest()).cancel());
    drop(later(guest()).remove().unwrap());
    assert_eq!(dropped.get(), 4);
    let by_policy = [later(guest()), later(guest())];
    pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
    pool.shutdown();
    assert!(by_policy.iter().all(TaskHandle::is_cancelled));
    assert_eq!(dropped.get(), 6);
    finish(&pool);
}

// ---- decorators and rejection handlers

#[test]
fn a_decorator_may_submit_to_the_executor_it_decorates_for() {
    struct Plain;
    impl Decoration for Plain {
        fn run(&mut self, body: &mut dyn FnMut()) {
            body();
            body();
        }
    }
    let log = Log::new();
    let host: Arc<Mutex<Option<Scheduler>>> = Arc::default();
    let (inner, record) = (Arc::clone(&host), log.clone());
    let decorate = move |task: TaskInfo<'_>| {
        let scheduler = inner.lock().unwrap().clone();
        if let (Some(scheduler), "outer") = (scheduler, task.name().unwrap_or("")) {
            let record = record.clone();
            drop((scheduler.queue(), scheduler.submit(move || record.add("inner"))));
        }
        Some(Box::new(Plain) as Box<dyn Decoration>)
    };
    let pool = Executor::builder().clock(ManualClock::new()).decorator(decorate).build().unwrap();
    *host.lock().unwrap() = Some(pool.scheduler());
    let outer = log.clone();
    pool.task(move || outer.add("outer")).name("outer").start().unwrap().join().unwrap();
    // Taken out again, for it owns the executor that owns the decorator.
    *host.lock().unwrap() = None;
    pool.close().unwrap();
    // The outer one has the lower id, but the worker may have had the inner one first.
    let mut ran = log.entries();
    ran.sort_unstable();
    assert_eq!(ran, ["inner", "outer"]);
}

#[test]
fn a_rejection_handler_may_submit_run_and_drop_what_it_is_given() {
    let log = Log::new();
    let record = log.clone();
    let handler = move |task: UnrunTask, reason: RejectReason, scheduler: &Scheduler| {
        record.add(reason);
        match record.entries().len() {
            // It comes here again, one level deeper, and then runs on this very thread.
            1 => {
                let deeper = scheduler.submit(|| 1).unwrap();
                assert_eq!(deeper.join().unwrap(), 1);
                drop(task);
            }
            2 => assert!(task.run()),
            _ => {
                scheduler.shutdown();
                assert!(task.cancel());
            }
        }
    };
    let pool = Executor::builder()
        .clock(ManualClock::new())
        .capacity(0)
        .rejection(Rejection::custom(handler))
        .build()
        .unwrap();
    let gate = Gate::new();
    let block = block_worker(&pool, &gate);
    let refused = pool.submit(|| 2).unwrap();
    assert!(matches!(refused.join(), Err(WaitError::Task(TaskError::Abandoned(Abandoned::Rejected)))));
    assert!(pool.submit(|| 3).unwrap().is_cancelled());
    assert!(pool.is_shutdown());
    assert!(pool.submit(|| 4).unwrap().is_cancelled());
    use RejectReason::{Saturated, ShutDown};
    assert_eq!(log.entries(), [Saturated, Saturated, Saturated, ShutDown]);
    gate.open();
    block.join().unwrap();
    finish(&pool);
}
