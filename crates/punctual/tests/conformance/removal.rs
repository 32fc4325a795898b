//! What leaves the queue before its time, and what it takes along.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual::{
    Abandoned, Decoration, Executor, Keep, Leftover, ManualClock, OnCancel, Scheduler, TaskError, TaskHandle,
    TaskId, TaskInfo, TaskState,
};

use crate::support::{Counter, Gate, HOUR, Log, Probe, STEP, WatchedClock, block_worker, finish, manual};

const POLICIES: [OnCancel; 2] = [OnCancel::Remove, OnCancel::KeepUntilDue];

fn queued(pool: &Executor) -> Vec<TaskId> {
    pool.queue().iter().map(punctual::QueuedTask::id).collect()
}

/// ST-056: tasks that are scheduled and cancelled at once leave nothing behind, however many; they count as
/// neither tasks nor completed, and a shutdown then ends at once.
#[test]
fn scheduling_and_cancelling_leaves_nothing_behind() {
    let (pool, _clock) = manual(2);
    let captured = Arc::new(());
    for n in 0..20_000 {
        let weight = Arc::clone(&captured);
        let handle = pool.schedule(10 * HOUR, move || drop(weight)).unwrap();
        assert!(if n % 2 == 0 { handle.cancel() } else { handle.interrupt() });
        assert_eq!(Arc::strong_count(&captured), 1);
    }
    assert_eq!(pool.stats().queued, 0);
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
    let stats = pool.stats();
    assert_eq!((stats.task_count(), stats.completed, stats.cancelled), (0, 0, 20_000));
}

/// ST-057: a cancel takes out exactly the task it is for, first, last or between; the rest run in order, the new
/// first one at its time.
#[test]
fn a_cancel_removes_exactly_its_own_task() {
    for doomed in 0..5 {
        let (pool, clock) = manual(1);
        let log = Log::new();
        let mut handles: Vec<_> = [3, 0, 4, 1, 2u32]
            .map(|n| (n, pool.schedule((n + 1) * STEP, log.body(n)).unwrap()))
            .into_iter()
            .collect();
        handles.sort_by_key(|(n, _)| *n);
        let (_, gone) = handles.remove(doomed);
        assert!(gone.cancel());
        let ids: Vec<_> = handles.iter().map(|(_, handle)| handle.id()).collect();
        assert_eq!(queued(&pool), ids);
        assert_eq!(pool.queue()[0].remaining().duration(), (handles[0].0 + 1) * STEP);
        clock.advance(HOUR);
        assert_eq!(log.entries(), handles.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        finish(&pool);
    }
}

/// ST-057: the same for many at random.
#[test]
fn what_is_left_after_random_cancels_is_in_order() {
    let mut random = fastrand::Rng::with_seed(57);
    for _ in 0..20 {
        let (pool, clock) = manual(1);
        let (log, mut left) = (Log::new(), Vec::new());
        for n in 0..200u32 {
            let delay = random.u32(1..40) * STEP;
            left.push((delay, n, pool.schedule(delay, log.body(n)).unwrap()));
        }
        left.retain(|(_, _, handle)| random.bool() || !handle.cancel());
        left.sort_by_key(|(delay, n, _)| (*delay, *n));
        assert_eq!(queued(&pool), left.iter().map(|(_, _, handle)| handle.id()).collect::<Vec<_>>());
        clock.advance(HOUR);
        assert_eq!(log.entries(), left.iter().map(|(_, n, _)| *n).collect::<Vec<_>>());
        finish(&pool);
    }
}

/// ST-058: whether cancelled tasks are removed can be asked, and changes nothing about which of the others a
/// shutdown lets run.
#[test]
fn the_setting_for_cancelled_tasks_goes_with_every_shutdown_policy() {
    for on_cancel in POLICIES {
        for (delayed, periodic) in [(true, true), (true, false), (false, true), (false, false)] {
            let keep = |runs| if runs { Keep::Run } else { Keep::Cancel };
            let clock = ManualClock::new();
            let pool = Executor::builder().clock(clock.clone()).on_cancel(on_cancel).build().unwrap();
            assert_eq!(pool.on_cancel(), on_cancel);
            pool.set_after_shutdown(Leftover::Delayed, keep(delayed));
            pool.set_after_shutdown(Leftover::Periodic, keep(periodic));
            let (once, often, never) = (Counter::new(), Counter::new(), Counter::new());
            let one_shot = pool.schedule(2 * STEP, once.body()).unwrap();
            let repeated = pool.schedule_at_fixed_rate(STEP, STEP, often.body()).unwrap();
            let cancelled = [
                pool.schedule(STEP, never.body()).unwrap(),
                pool.schedule_at_fixed_rate(STEP, STEP, never.body()).unwrap(),
            ];
            assert!(cancelled.iter().all(TaskHandle::cancel));
            pool.shutdown();
            clock.advance(3 * STEP);
            assert_eq!((once.get(), often.get()), (usize::from(delayed), 3 * usize::from(periodic)));
            assert_eq!((one_shot.is_cancelled(), repeated.is_cancelled()), (!delayed, !periodic));
            assert_eq!((never.get(), pool.is_terminated()), (0, !periodic));
            finish(&pool);
        }
    }
}

/// A decoration that counts what happens to it.
struct Wrapper {
    ran: Counter,
    cancelled: Counter,
    _captured: Option<Arc<()>>,
}

impl Decoration for Wrapper {
    fn run(&mut self, body: &mut dyn FnMut()) {
        self.ran.hit();
        body();
    }

    fn cancelled(&mut self) {
        self.cancelled.hit();
    }
}

/// ST-059: a decorated task leaves the queue when it is cancelled or removed, like any other; the decoration is
/// told once of the cancel, and goes as well.
#[test]
fn a_decorated_task_is_removed_like_any_other() {
    let clock = ManualClock::new();
    let (ran, cancelled, captures) = (Counter::new(), Counter::new(), Arc::new(Mutex::new(Vec::new())));
    let (run, cancel, shared) = (ran.clone(), cancelled.clone(), Arc::clone(&captures));
    let decorator = move |_: TaskInfo<'_>| {
        let captured = shared.lock().unwrap().pop();
        let wrapper = Wrapper { ran: run.clone(), cancelled: cancel.clone(), _captured: captured };
        Some(Box::new(wrapper) as Box<dyn Decoration>)
    };
    let pool = Executor::builder().clock(clock.clone()).decorator(decorator).build().unwrap();
    let other = pool.schedule(STEP, || 7).unwrap();
    let (probe, captured) = Probe::new();
    captures.lock().unwrap().push(captured);
    let doomed = pool.schedule(STEP, || 7).unwrap();
    assert!(doomed.cancel() && !doomed.is_queued());
    assert!(probe.is_dropped());
    assert_eq!((cancelled.get(), queued(&pool)), (1, vec![other.id()]));

    let removed = pool.schedule(STEP, || 7).unwrap();
    let unrun = removed.remove().unwrap();
    assert_eq!((cancelled.get(), queued(&pool)), (1, vec![other.id()]));
    drop(unrun);
    assert_eq!(cancelled.get(), 2);
    clock.advance(STEP);
    assert_eq!((ran.get(), cancelled.get(), other.join().unwrap()), (1, 2, 7));
    finish(&pool);
}

/// Takes its task out of the pool by itself when it is cancelled.
struct SelfRemoving {
    pool: Arc<Mutex<Option<Scheduler>>>,
    id: TaskId,
    removed: Log<bool>,
}

impl Decoration for SelfRemoving {
    fn run(&mut self, body: &mut dyn FnMut()) {
        body();
    }

    fn cancelled(&mut self) {
        let pool = self.pool.lock().unwrap().clone().unwrap();
        self.removed.add(pool.remove(self.id).is_some());
    }
}

/// ST-060: a decoration that removes its own task when it is cancelled finds its way into the pool, also while
/// others do the same: the entry is there if cancelled tasks are kept, and gone if they are not.
#[test]
fn a_decoration_may_remove_its_own_task_when_cancelled() {
    for on_cancel in POLICIES {
        let (slot, removed) = (Arc::new(Mutex::new(None)), Log::new());
        let (shared, log) = (Arc::clone(&slot), removed.clone());
        let decorator = move |task: TaskInfo<'_>| {
            let (pool, removed) = (Arc::clone(&shared), log.clone());
            Some(Box::new(SelfRemoving { pool, id: task.id(), removed }) as Box<dyn Decoration>)
        };
        let clock = ManualClock::new();
        let builder = Executor::builder().clock(clock).on_cancel(on_cancel).decorator(decorator);
        let pool = builder.build().unwrap();
        *slot.lock().unwrap() = Some(pool.scheduler());
        let work = || {
            for n in 0..50 {
                let kept = pool.schedule((n + 1) * STEP, || ()).unwrap();
                let doomed = pool.schedule_at_fixed_rate((n + 1) * STEP, STEP, || ()).unwrap();
                assert!(doomed.cancel() && !doomed.is_queued() && kept.is_queued());
            }
        };
        thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(removed.entries(), [on_cancel == OnCancel::KeepUntilDue; 100]);
        assert_eq!(pool.stats().queued, 100);
        for id in queued(&pool) {
            assert!(pool.remove(id).is_some());
        }
        finish(&pool);
        *slot.lock().unwrap() = None;
    }
}

/// ST-061: a queued task can be removed once; one that runs cannot. The view of the queue agrees at each step.
#[test]
fn a_queued_task_can_be_removed_once() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    let [first, second] = [0, 1].map(|_| pool.schedule(STEP, || ()).unwrap());
    assert!(running.remove().is_none() && pool.remove(running.id()).is_none());
    assert_eq!(queued(&pool), [first.id(), second.id()]);

    let unrun = second.remove().unwrap();
    assert_eq!((unrun.id(), queued(&pool)), (second.id(), vec![first.id()]));
    assert!(second.remove().is_none() && pool.remove(second.id()).is_none() && !second.is_queued());

    let unrun = pool.remove(first.id()).unwrap();
    assert_eq!((unrun.id(), queued(&pool)), (first.id(), vec![]));
    assert!(first.remove().is_none() && pool.remove(first.id()).is_none() && !first.is_queued());
    gate.open();
    running.join().unwrap();
    finish(&pool);
}

/// TP-019: tasks without a handle, in a pool with a bounded queue, are removed by the id that the view shows.
#[test]
fn a_task_without_a_handle_can_be_removed_by_its_id() {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).capacity(10).build().unwrap();
    let (gate, log) = (Gate::new(), Log::new());
    let running = block_worker(&pool, &gate);
    for n in 0..5 {
        pool.execute(log.body(n)).unwrap();
    }
    let ids = queued(&pool);
    assert!(pool.remove(running.id()).is_none());
    for id in [ids[1], ids[4]] {
        assert!(pool.remove(id).is_some());
        assert!(pool.remove(id).is_none());
        assert!(!queued(&pool).contains(&id));
    }
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [0, 2, 3]);
    finish(&pool);
}

/// ST-062: while somebody holds a removed task it is neither done nor cancelled, and waits time out. Running,
/// cancelling or dropping it releases those who wait.
#[test]
fn a_removed_task_waits_for_whoever_has_it() {
    let clock = WatchedClock::new();
    let pool = Executor::builder().clock(clock.clone()).build().unwrap();
    let removed = || {
        let handle = pool.schedule(STEP, || 7).unwrap();
        let unrun = handle.remove().unwrap();
        clock.clock.advance(HOUR);
        assert_eq!(handle.state(), TaskState::Waiting);
        assert!(handle.join_timeout(Duration::ZERO).unwrap_err().is_timeout());
        (handle, unrun)
    };
    let (run, unrun) = removed();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| run.join());
        clock.await_blocked(1);
        assert!(unrun.run());
        assert_eq!(waiter.join().unwrap().unwrap(), 7);
    });
    let (cancelled, unrun) = removed();
    assert!(unrun.cancel());
    assert!(cancelled.join().unwrap_err().is_cancelled());
    let (by_handle, unrun) = removed();
    assert!(by_handle.cancel() && !unrun.run());
    assert!(by_handle.join().unwrap_err().is_cancelled());
    let (dropped, unrun) = removed();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| dropped.join());
        clock.await_blocked(1);
        drop(unrun);
        let error = waiter.join().unwrap().unwrap_err();
        assert!(matches!(error.task(), Some(TaskError::Abandoned(Abandoned::Removed))));
    });
    finish(&pool);
}

/// ST-063, TP-020: a purge takes out what was cancelled and kept, and nothing else; a second one finds nothing.
#[test]
fn a_purge_removes_what_is_cancelled_and_nothing_else() {
    let (pool, _clock) = manual(1);
    pool.set_on_cancel(OnCancel::KeepUntilDue);
    let handles: Vec<_> = (0..5).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    assert!(handles[0].cancel() && handles[3].cancel());
    assert_eq!((pool.stats().task_count(), pool.purge()), (5, 2));
    assert_eq!(pool.stats().task_count(), 3);
    assert_eq!(queued(&pool), [1, 2, 4].map(|n| handles[n].id()));
    assert_eq!((pool.purge(), pool.stats().task_count()), (0, 3));
    finish(&pool);

    let (pool, _clock) = manual(1);
    pool.set_on_cancel(OnCancel::KeepUntilDue);
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    let handles: Vec<_> = (0..4).map(|_| pool.submit(|| ()).unwrap()).collect();
    assert!(handles[1].cancel() && handles[2].cancel());
    for purged in [2, 0] {
        assert_eq!(pool.purge(), purged);
        assert_eq!((pool.stats().queued, pool.stats().task_count()), (2, 3));
    }
    gate.open();
    running.join().unwrap();
    handles[0].join().unwrap();
    handles[3].join().unwrap();
    finish(&pool);
}

/// ST-064: once cancelled tasks are purged nothing they captured is alive, and neither is the result of a task
/// that has run once its handle is gone, though ten idle workers have had each of them in view.
#[test]
fn idle_workers_and_an_empty_queue_hold_nothing() {
    let (pool, clock) = manual(10);
    pool.set_on_cancel(OnCancel::KeepUntilDue);
    assert_eq!(pool.prestart_all_core_threads(), 10);
    let (probe, captured) = Probe::new();
    let results: Vec<_> = (0..20)
        .map(|_| {
            let result = Arc::clone(&captured);
            pool.submit(move || result).unwrap()
        })
        .collect();
    clock.wait_until_idle();
    // Each becomes the first of the queue, so that some worker waits for it.
    for n in (1..=100).rev() {
        let captured = Arc::clone(&captured);
        let handle = pool.schedule(n * HOUR, move || drop(captured)).unwrap();
        clock.wait_until_idle();
        assert!(handle.cancel());
    }
    drop(captured);
    assert_eq!((pool.stats().queued, pool.purge(), pool.stats().queued), (100, 100, 0));
    assert!(!probe.is_dropped(), "the results are there");
    drop(results);
    assert!(probe.is_dropped());
    assert_eq!(pool.stats().pool_size, 10);
    finish(&pool);
}

/// TP-021: to take the last task out of a pool that is shut down lets it terminate: by removing, by cancelling,
/// or, if cancelled tasks are kept, by purging.
#[test]
fn taking_the_last_task_out_lets_a_pool_terminate() {
    let (remove, cancel, purge): (fn(&Executor, TaskHandle<()>), _, _) = (
        |_, handle| drop(handle.remove().unwrap()),
        |_: &Executor, handle: TaskHandle<()>| assert!(handle.cancel()),
        |pool: &Executor, handle: TaskHandle<()>| {
            assert!(handle.cancel() && !pool.is_terminated());
            assert_eq!(pool.purge(), 1);
        },
    );
    let by_id: fn(&Executor, TaskHandle<()>) = |pool, handle| drop(pool.remove(handle.id()).unwrap());
    let ways = [
        (OnCancel::Remove, remove),
        (OnCancel::Remove, by_id),
        (OnCancel::Remove, cancel),
        (OnCancel::KeepUntilDue, purge),
    ];
    for (on_cancel, take_out) in ways {
        let (pool, clock) = manual(3);
        pool.set_on_cancel(on_cancel);
        pool.prestart_all_core_threads();
        let last = pool.schedule(HOUR, || ()).unwrap();
        pool.shutdown();
        clock.wait_until_idle();
        assert!(pool.is_terminating() && last.is_queued());
        take_out(&pool, last);
        assert!(pool.await_termination(Duration::MAX));
    }
}
