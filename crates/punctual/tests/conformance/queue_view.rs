//! What is waiting.

use std::thread;
use std::time::Duration;

use punctual::{Abandoned, Executor, Remaining, Schedule, TaskError, TaskHandle, TaskId};

use crate::support::{Counter, Gate, HOUR, STEP, block_worker, finish, manual};

fn queued(pool: &Executor) -> Vec<TaskId> {
    pool.queue().iter().map(punctual::QueuedTask::id).collect()
}

/// ST-109, ST-110, TP-082: the view has the waiting tasks, known by the ids of their handles, in order, and not
/// the one that runs.
#[test]
fn the_view_has_what_waits_and_not_what_runs() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let running = block_worker(&pool, &gate);
    let waiting: Vec<_> = (0..4).map(|_| pool.submit(|| ()).unwrap()).collect();
    let ids: Vec<TaskId> = waiting.iter().map(TaskHandle::id).collect();
    assert_eq!(queued(&pool), ids);
    assert!(!queued(&pool).contains(&running.id()));
    assert!(!running.is_queued() && waiting.iter().all(TaskHandle::is_queued));
    assert!(waiting[1].cancel());
    assert_eq!(queued(&pool), [ids[0], ids[2], ids[3]]);
    gate.open();
    waiting[3].join().unwrap();
    assert!(queued(&pool).is_empty());
    finish(&pool);
}

/// ST-109: a periodic task is in the view between its runs and not during one.
#[test]
fn a_periodic_task_is_in_the_view_between_its_runs() {
    let (pool, clock) = manual(1);
    let inner = pool.clone();
    let seen = Counter::new();
    let count = seen.clone();
    let body = move || (0..queued(&inner).len()).for_each(|_| count.hit());
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, body).unwrap();
    for run in 1..=3 {
        assert_eq!(queued(&pool), [beat.id()]);
        clock.advance(STEP);
        let view = pool.queue();
        assert_eq!((view[0].id(), view[0].runs(), beat.runs()), (beat.id(), run, run));
    }
    assert_eq!(seen.get(), 0, "never while it ran");
    finish(&pool);
}

/// ST-111: the first of the view is the next to run, due or not, and each entry says what is known of its task;
/// there is room for any number. Looking takes nothing out.
#[test]
fn the_view_is_in_the_order_of_deadlines_and_says_what_is_due() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let _running = block_worker(&pool, &gate);
    let far = pool.schedule(HOUR, || ()).unwrap();
    let soon = pool.task(|| ()).name("soon").after(STEP).every(2 * STEP).start().unwrap();
    let due = pool.submit(|| ()).unwrap();
    let view = pool.queue();
    assert_eq!(queued(&pool), [due.id(), soon.id(), far.id()]);
    assert_eq!(view[0].remaining(), Remaining::Overdue(Duration::ZERO));
    assert_eq!(view[1].remaining(), Remaining::In(STEP));
    assert_eq!((view[1].name(), view[1].schedule()), (Some("soon"), Schedule::FixedRate(2 * STEP)));
    assert_eq!(view.iter().map(punctual::QueuedTask::is_periodic).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(view[2].deadline(), far.deadline());
    assert_eq!(view[2].name(), None);
    assert!(due.cancel());
    let head = &pool.queue()[0];
    assert_eq!((head.id(), head.remaining().is_due()), (soon.id(), false), "the first, though not due");
    clock.jump(2 * STEP);
    let due: Vec<bool> = pool.queue().iter().map(|task| task.remaining().is_due()).collect();
    assert_eq!(due, [true, false]);
    assert_eq!(pool.queue()[0].remaining(), Remaining::Overdue(STEP));
    assert_eq!(view[1].remaining(), Remaining::In(STEP), "a picture stays as it was");
    assert_eq!((pool.stats().queued, pool.stats().delayed, pool.capacity()), (2, 1, None));
    gate.open();
    finish(&pool);
}

/// ST-112: taking everything out by what the view shows empties the queue; the handles wait for as long as the
/// tasks are kept and resolve when they are dropped; a shutdown then ends the pool at once.
#[test]
fn clearing_by_the_view_resolves_every_handle() {
    let (pool, clock) = manual(2);
    let handles: Vec<_> = (0..5).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    let taken: Vec<_> = pool.queue().iter().map(|task| pool.remove(task.id()).unwrap()).collect();
    assert!(pool.queue().is_empty() && pool.stats().queued == 0);
    assert!(!handles.iter().any(TaskHandle::is_done));
    drop(taken);
    for handle in &handles {
        assert!(matches!(handle.failure(), Some(TaskError::Abandoned(Abandoned::Removed))));
    }
    clock.advance(2 * HOUR);
    assert_eq!(pool.stats().completed, 0);
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-113: the view is a picture: the queue may change while somebody walks through it, and taking out by it
/// finds what is still there and nothing else, once.
#[test]
fn walking_the_view_tolerates_change() {
    let (pool, clock) = manual(1);
    let handles: Vec<_> = (0..6).map(|n| pool.schedule(STEP * (n + 1), || ()).unwrap()).collect();
    let view = pool.queue();
    clock.advance(2 * STEP);
    assert!(handles[3].cancel());
    drop(pool.schedule(STEP, || ()).unwrap());
    let removed: Vec<bool> = view.iter().map(|task| pool.remove(task.id()).is_some()).collect();
    assert_eq!(removed, [false, false, true, false, true, true]);
    assert!(view.iter().all(|task| pool.remove(task.id()).is_none()));
    assert_eq!(pool.stats().queued, 1, "what came later was not in the picture");
    finish(&pool);
}

/// ST-113: looking and taking out by several threads at once loses nothing and takes nothing twice.
#[test]
fn every_task_is_taken_out_by_one_thread_or_run() {
    const TASKS: usize = 200;
    let (pool, runs, removed) = (Executor::new(2), Counter::new(), Counter::new());
    let gate = Gate::new();
    let blocked = [block_worker(&pool, &gate), block_worker(&pool, &gate)];
    let handles: Vec<_> = (0..TASKS).map(|_| pool.submit(runs.body()).unwrap()).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                gate.pass();
                for task in pool.queue() {
                    if let Some(task) = pool.remove(task.id()) {
                        removed.hit();
                        drop(task);
                    }
                }
            });
        }
        gate.await_arrivals(4);
        gate.open();
    });
    blocked.iter().for_each(|handle| handle.join().unwrap());
    handles.iter().for_each(|handle| handle.wait().unwrap());
    assert_eq!(runs.get() + removed.get(), TASKS);
    assert_eq!(handles.iter().filter(|handle| handle.failure().is_some()).count(), removed.get());
    finish(&pool);
}

/// ST-114: nothing is in the view directly after a stop, nor after termination.
#[test]
fn nothing_is_queued_after_a_stop() {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    let _running = block_worker(&pool, &gate);
    for _ in 0..3 {
        drop(pool.schedule(HOUR, || ()).unwrap());
    }
    let beat = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let drained = pool.shutdown_now();
    assert_eq!((drained.len(), pool.queue().len(), pool.stats().queued), (4, 0, 0));
    assert!(!beat.is_queued());
    gate.open();
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.queue().is_empty());

    let (pool, _) = (manual(1).0, clock);
    drop(pool.submit(|| ()).unwrap());
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX));
    assert!(pool.queue().is_empty());
}
