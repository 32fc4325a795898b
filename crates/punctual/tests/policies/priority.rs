//! Who goes first when several tasks are due.

use std::time::Duration;

use punctual::{Executor, ManualClock, Priority, Steered};

use crate::bodies::SECOND;
use crate::support::{Gate, HOUR, Log, Probe, block_worker, finish, manual};

fn ahead(seconds: u64) -> Priority {
    Priority::ahead(Duration::from_secs(seconds))
}

/// A pool whose only worker is held until the gate is opened.
fn held() -> (Executor, ManualClock, Gate) {
    let (pool, clock) = manual(1);
    let gate = Gate::new();
    block_worker(&pool, &gate);
    (pool, clock, gate)
}

#[test]
fn a_head_start_is_worth_its_time_and_no_more() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    for second in [10, 20, 30, 40] {
        pool.schedule(second * SECOND, log.body(u64::from(second))).unwrap();
    }
    let task = |name, after: u32, start| {
        let builder = pool.task(log.body(name)).after(after * SECOND).priority(ahead(start));
        drop(builder.start().unwrap());
    };
    task(115, 40, 25); // as if it were due at 15
    task(125, 50, 25);
    task(110, 40, 30); // with the one of 10, which came first
    clock.jump(60 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [10, 110, 115, 20, 125, 30, 40]);
    finish(&pool);
}

/// However much of a head start it has: not before its deadline.
#[test]
fn nothing_runs_early() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    pool.task(log.body("urgent"))
        .after(10 * SECOND)
        .priority(Priority::ahead(Duration::MAX))
        .start()
        .unwrap();
    pool.schedule(5 * SECOND, log.body("plain")).unwrap();
    clock.advance(9 * SECOND);
    assert_eq!(log.entries(), ["plain"]);
    clock.advance(SECOND);
    assert_eq!(log.entries(), ["plain", "urgent"]);
    finish(&pool);
}

/// Urgent tasks come in faster than they can be run; a plain one has its turn all the same.
#[test]
fn what_has_waited_longer_than_the_head_start_goes_first() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    pool.submit(log.body("plain")).map(drop).unwrap();
    for n in 0..20 {
        let time = clock.clone();
        let mut body = log.body("urgent");
        let urgent = move || {
            time.jump(SECOND);
            body();
        };
        pool.task(urgent).after(n * SECOND).priority(ahead(5)).start().unwrap();
    }
    clock.jump(4 * SECOND);
    gate.open();
    clock.wait_until_idle();
    clock.advance(60 * SECOND);
    // Those due before 5 go first; then it is the turn of the one that was due at 0.
    assert_eq!(log.entries().iter().position(|entry| *entry == "plain"), Some(5));
    finish(&pool);
}

#[test]
fn equal_ranks_run_in_submission_order() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    for (n, start) in [(0, 3), (1, 1), (2, 0), (3, 2), (4, 3)] {
        let at = Duration::from_secs(10 + start);
        pool.task(log.body(n)).after(at).priority(ahead(start)).start().unwrap();
    }
    pool.schedule(10 * SECOND, log.body(5)).unwrap();
    clock.jump(60 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [0, 1, 2, 3, 4, 5]);
    finish(&pool);
}

/// Random tasks against a sort of those that are due.
#[test]
fn random_tasks_run_in_the_order_of_their_ranks() {
    fastrand::seed(6);
    for _ in 0..50 {
        let (pool, clock, gate) = held();
        let log = Log::new();
        let mut expected = Vec::new();
        let mut handles = Vec::new();
        for n in 0..60_u64 {
            let (at, start) = (fastrand::u64(0..30), fastrand::bool().then(|| fastrand::u64(0..20)));
            let builder = pool.task(log.body(n)).after(Duration::from_secs(at));
            let builder = match start {
                Some(start) => builder.priority(ahead(start)),
                None => builder,
            };
            let handle = builder.start().unwrap();
            if fastrand::u8(..5) == 0 {
                assert!(handle.cancel());
                continue;
            }
            expected.push((at as i64 - start.unwrap_or(0) as i64, n));
            handles.push(handle);
        }
        expected.sort_unstable();
        clock.jump(60 * SECOND);
        gate.open();
        clock.wait_until_idle();
        assert_eq!(log.entries(), expected.into_iter().map(|(_, n)| n).collect::<Vec<_>>());
        finish(&pool);
    }
}

#[test]
fn a_periodic_task_keeps_its_head_start() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    let builder = pool.task(log.body("beat")).after(10 * SECOND).every(10 * SECOND).priority(ahead(30));
    let beat = builder.start().unwrap();
    for second in [5, 9, 15, 25] {
        pool.schedule(second * SECOND, log.body("plain")).unwrap();
    }
    clock.jump(30 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries()[..3], ["beat"; 3]);
    assert_eq!(beat.runs(), 3);
    finish(&pool);
}

/// Steered, cancelled and drained like any other, and nothing of it stays behind.
#[test]
fn a_task_with_a_head_start_is_a_task_like_any_other() {
    let (pool, clock) = manual(1);
    let (probe, captured) = Probe::new();
    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let captured = captured.clone();
            pool.task(move || drop(captured)).after(HOUR).priority(ahead(9)).start().unwrap()
        })
        .collect();
    drop(captured);
    assert_eq!(pool.stats().queued, 1000);
    assert_eq!(tasks[0].reschedule(SECOND), Steered::Now);
    assert_eq!(tasks[1].pause(), Steered::Now);
    clock.advance(SECOND);
    assert!(tasks[0].is_done());
    assert!(tasks[2].cancel());
    assert_eq!(tasks[1].resume(), Steered::Now);
    assert_eq!(pool.queue().len(), 998);
    drop(pool.shutdown_now());
    assert!(probe.is_dropped() && tasks.iter().all(|task| task.is_done()));
    finish(&pool);
}

/// Each run is a task of its own then, and must not lose the place that its beat had.
#[test]
fn runs_that_may_overlap_have_the_head_start_of_their_task() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    drop(pool.submit(log.body("plain")).unwrap());
    let seen = log.clone();
    let builder = pool.task(move || seen.add("urgent")).priority(ahead(60)).every(HOUR);
    let _task = builder.overlap(punctual::Overlap::Allow(2)).start_shared().unwrap();
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), ["urgent", "plain"]);
    finish(&pool);
}

/// Whatever comes after it, with a name or a plan of its own.
#[test]
fn a_head_start_is_not_forgotten_when_other_tasks_come_in() {
    let (pool, clock, gate) = held();
    let log = Log::new();
    drop(pool.task(log.body("urgent")).after(SECOND).priority(ahead(60)).start().unwrap());
    drop(pool.task(log.body("named")).name("plain").start().unwrap());
    drop(pool.task(log.body("limited")).timeout(HOUR).start().unwrap());
    clock.jump(2 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), ["urgent", "named", "limited"]);
    finish(&pool);
}
