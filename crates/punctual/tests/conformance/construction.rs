//! Construction, settings and what they refuse.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::{
    Executor, Keep, Leftover, ManualClock, OnCancel, RejectReason, Rejection, RejectionHandler, Scheduler,
    Spawner, Tick, UnrunTask, WorkerThread,
};

use crate::support::{Counter, Gate, STEP, block_worker, finish, manual};

/// Plain threads, counted.
#[derive(Clone, Default)]
struct Counting(Counter);

impl Spawner for Counting {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        self.0.hit();
        std::thread::Builder::new().spawn(move || worker.run()).map(Some)
    }
}

fn sizes(pool: &Executor) -> (usize, usize) {
    (pool.core_threads(), pool.max_threads())
}

/// ST-002: a core size of zero is fine in every form, and such a pool ends at once, without a thread.
#[test]
fn a_pool_without_core_threads_ends_without_ever_having_a_thread() {
    let spawned = Counting::default();
    let counted = || Executor::builder().core_threads(0).spawner(spawned.clone());
    let forms = || {
        [
            Executor::new(0),
            Executor::cached(),
            counted().build().unwrap(),
            counted().max_threads(3).build().unwrap(),
            counted().max_threads(3).capacity(2).rejection(Rejection::Discard).build().unwrap(),
        ]
    };
    for pool in forms() {
        assert_eq!(pool.core_threads(), 0);
        assert!(pool.shutdown_now().is_empty());
        assert!(pool.is_terminated());
        assert_eq!(pool.stats().largest_pool_size, 0);
    }
    for pool in forms() {
        pool.shutdown();
        assert!(pool.await_termination(Duration::ZERO));
        assert_eq!(pool.stats().largest_pool_size, 0);
    }
    assert_eq!(spawned.0.get(), 0);
}

/// ST-004, TP-006: what was given at construction reads back, and the spawner given is the one that is used.
#[test]
fn settings_read_back_as_they_were_given() {
    let spawned = Counting::default();
    let handler: Arc<dyn RejectionHandler> = Arc::new(|_: UnrunTask, _: RejectReason, _: &Scheduler| ());
    let pool = Executor::builder()
        .core_threads(2)
        .max_threads(3)
        .keep_alive(Duration::from_millis(1000))
        .capacity(7)
        .rejection(Rejection::Custom(Arc::clone(&handler)))
        .spawner(spawned.clone())
        .build()
        .unwrap();
    assert_eq!(sizes(&pool), (2, 3));
    assert_eq!(pool.keep_alive(), Duration::from_secs(1));
    assert_eq!(pool.capacity(), Some(7));
    match pool.rejection() {
        Rejection::Custom(read) => assert!(Arc::ptr_eq(&read, &handler)),
        other => panic!("{other:?} instead of the handler given"),
    }
    pool.submit(|| ()).unwrap().join().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(spawned.0.get(), 2);
    finish(&pool);
}

/// ST-005: the defaults. Unlike Java's, the maximum follows the core size, the keep-alive is ten seconds and a
/// cancelled task leaves the queue at once.
#[test]
fn untouched_settings_have_their_documented_values() {
    let pool = Executor::new(3);
    assert_eq!(sizes(&pool), (3, 3));
    assert_eq!(sizes(&Executor::new(0)), (0, 1));
    assert_eq!(sizes(&Executor::builder().build().unwrap()), (1, 1));
    assert_eq!(pool.keep_alive(), Duration::from_secs(10));
    assert_eq!(pool.capacity(), None);
    assert!(!pool.core_threads_time_out());
    assert_eq!(pool.on_cancel(), OnCancel::Remove);
    assert_eq!(pool.after_shutdown(Leftover::Periodic), Keep::Cancel);
    assert_eq!(pool.after_shutdown(Leftover::Delayed), Keep::Run);
}

/// ST-006, TP-007: unless told otherwise a pool, bounded or not, refuses with an error that returns the closure.
#[test]
fn by_default_a_refused_submission_fails() {
    let unbounded = Executor::new(1);
    assert!(matches!(unbounded.rejection(), Rejection::Abort));
    unbounded.shutdown();
    let refused = unbounded.submit(|| 7).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ShutDown);
    assert_eq!(refused.into_task()(), 7);

    let bounded = Executor::builder().core_threads(1).capacity(1).build().unwrap();
    assert!(matches!(bounded.rejection(), Rejection::Abort));
    let gate = Gate::new();
    drop(block_worker(&bounded, &gate));
    bounded.execute(|| ()).unwrap();
    let refused = bounded.submit(|| 8).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Saturated);
    assert_eq!(refused.into_task()(), 8);
    gate.open();
    finish(&bounded);
}

/// ST-007: a fresh pool has counted nothing and has no thread; the first submission or a prestart brings one.
#[test]
fn no_thread_exists_before_it_is_asked_for() {
    let spawned = Counting::default();
    let fresh = || Executor::builder().core_threads(2).spawner(spawned.clone()).build().unwrap();
    let (submitted, prestarted) = (fresh(), fresh());
    for pool in [&submitted, &prestarted] {
        let stats = pool.stats();
        assert_eq!((stats.pool_size, stats.largest_pool_size, stats.active), (0, 0, 0));
        assert_eq!((stats.task_count(), stats.completed, stats.queued), (0, 0, 0));
    }
    assert_eq!(spawned.0.get(), 0);
    submitted.submit(|| ()).unwrap().join().unwrap();
    assert_eq!((spawned.0.get(), submitted.stats().pool_size), (1, 1));
    assert!(prestarted.prestart_core_thread());
    assert_eq!((spawned.0.get(), prestarted.stats().pool_size), (2, 1));
    finish(&submitted);
    finish(&prestarted);
}

/// ST-009: a period of zero is refused before the pool or its rejection policy has any part in it, also by a
/// pool that is shut down.
#[test]
fn a_period_of_zero_is_refused_before_anything_else_happens() {
    let handled = Counter::new();
    let seen = handled.clone();
    let pool = Executor::builder().rejection(Rejection::custom(move |_, _, _| seen.hit())).build().unwrap();
    let zero = Duration::ZERO;
    let refuse_all = || {
        let task = || pool.task(|| ());
        let refused = [
            pool.schedule_at_fixed_rate(STEP, zero, || ()).unwrap_err().reason(),
            pool.schedule_with_fixed_delay(STEP, zero, || ()).unwrap_err().reason(),
            task().every(zero).start().unwrap_err().reason(),
            task().with_fixed_delay(zero).start().unwrap_err().reason(),
            task().with_fixed_start(zero).start().unwrap_err().reason(),
        ];
        assert_eq!(refused, [RejectReason::ZeroPeriod; 5]);
    };
    let before = pool.stats();
    refuse_all();
    assert_eq!(pool.stats(), before);
    pool.shutdown();
    refuse_all();
    assert_eq!((handled.get(), pool.stats().rejected), (0, 0));
    let returned = Counter::new();
    pool.schedule_at_fixed_rate(zero, zero, returned.body()).unwrap_err().into_task()();
    assert_eq!(returned.get(), 1);
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-010: every form takes whatever first delay there is: none, the least, the longest, and one that has passed.
#[test]
fn every_first_delay_is_accepted_by_every_form() {
    let (pool, clock) = manual(1);
    clock.advance(STEP);
    let ran = Counter::new();
    for delay in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        drop(pool.schedule(delay, ran.body()).unwrap());
        drop(pool.schedule_at_fixed_rate(delay, Duration::MAX, ran.body()).unwrap());
        drop(pool.schedule_with_fixed_delay(delay, Duration::MAX, ran.body()).unwrap());
    }
    clock.wait_until_idle();
    assert_eq!(ran.get(), 3);
    for passed in [Tick::ZERO, Tick::from_nanos(1)] {
        drop(pool.task(ran.body()).first(passed).start().unwrap());
        drop(pool.task(ran.body()).first(passed).every(Duration::MAX).start().unwrap());
        drop(pool.task(ran.body()).first(passed).with_fixed_delay(Duration::MAX).start().unwrap());
        drop(pool.task(ran.body()).first(passed).with_fixed_start(Duration::MAX).start().unwrap());
    }
    clock.wait_until_idle();
    assert_eq!(ran.get(), 3 + 8);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(ran.get(), 6 + 8);
    assert_eq!(pool.stats().rejected, 0);
    finish(&pool);
}

/// TP-002, TP-004: a maximum of zero, or below the core size, makes no pool, whatever else is set.
#[test]
fn a_maximum_must_be_positive_and_not_below_the_core() {
    let settled = |core, max| Executor::builder().core_threads(core).max_threads(max);
    for (core, max) in [(0, 0), (1, 0), (2, 1), (usize::MAX, 5)] {
        let forms = [
            settled(core, max),
            settled(core, max).capacity(3),
            settled(core, max).rejection(Rejection::Discard),
            settled(core, max).spawner(Counting::default()),
            Executor::builder().max_threads(max).core_threads(core),
        ];
        for builder in forms {
            assert!(builder.build().is_err(), "core {core}, max {max}");
        }
    }
    for (core, max) in [(0, 1), (1, 1), (2, 3)] {
        assert_eq!(sizes(&settled(core, max).build().unwrap()), (core, max));
    }
    assert!(Executor::fixed(0).is_err());
}

/// TP-009, TP-010: a change that would put the core above the maximum, or the maximum to zero, changes nothing;
/// maximum first and core second, both grow in step.
#[test]
fn a_refused_change_of_size_leaves_both_sizes() {
    let pool = Executor::builder().core_threads(2).max_threads(4).build().unwrap();
    for max in [0, 1] {
        assert!(pool.set_max_threads(max).is_err());
        assert_eq!(sizes(&pool), (2, 4));
    }
    for core in [5, usize::MAX] {
        assert!(pool.set_core_threads(core).is_err());
        assert_eq!(sizes(&pool), (2, 4));
    }
    assert!(pool.resize(0).is_err());
    assert_eq!(sizes(&pool), (2, 4));

    let pool = Executor::fixed(1).unwrap();
    for size in 1..=4 {
        pool.set_max_threads(size).unwrap();
        pool.set_core_threads(size).unwrap();
        assert!(pool.set_core_threads(size + 1).is_err());
        assert_eq!(sizes(&pool), (size, size));
    }
}

/// TP-014: also where no maximum was given, one below the core size is refused. Until one is given it follows
/// the core size, so that growing the core needs no second call.
#[test]
fn a_pool_without_a_maximum_still_refuses_one_below_its_core() {
    let pool = Executor::new(3);
    assert!(pool.set_max_threads(2).is_err());
    assert_eq!(sizes(&pool), (3, 3));
    pool.set_core_threads(6).unwrap();
    assert_eq!(sizes(&pool), (6, 6));
    pool.set_max_threads(6).unwrap();
    assert!(pool.set_core_threads(7).is_err());
    assert_eq!(sizes(&pool), (6, 6));
}

/// TP-012: core threads that may time out and a keep-alive of zero exclude each other, in whatever order.
#[test]
fn core_threads_cannot_time_out_at_once() {
    let zero = Duration::ZERO;
    assert!(Executor::builder().keep_alive(zero).core_threads_time_out().build().is_err());

    let impatient = Executor::builder().keep_alive(zero).build().unwrap();
    assert!(impatient.set_core_threads_time_out(true).is_err());
    assert!(!impatient.core_threads_time_out());
    impatient.set_core_threads_time_out(false).unwrap();
    impatient.set_keep_alive(STEP).unwrap();
    impatient.set_core_threads_time_out(true).unwrap();
    assert!(impatient.core_threads_time_out());
    assert!(impatient.set_keep_alive(zero).is_err());
    assert_eq!(impatient.keep_alive(), STEP);
}

/// TP-013: a changed spawner, rejection policy or maximum is in force when the call returns.
#[test]
fn changed_settings_take_effect_at_once() {
    let (old, new) = (Counting::default(), Counting::default());
    let pool = Executor::builder().core_threads(2).spawner(old.clone()).build().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    pool.set_spawner(new.clone());
    pool.submit(|| ()).unwrap().join().unwrap();
    assert_eq!((old.0.get(), new.0.get()), (1, 1));

    pool.set_max_threads(5).unwrap();
    assert_eq!(pool.max_threads(), 5);
    let handler: Arc<dyn RejectionHandler> = Arc::new(|task: UnrunTask, _: RejectReason, _: &Scheduler| {
        task.run();
    });
    pool.set_rejection(Rejection::Custom(Arc::clone(&handler)));
    assert!(matches!(pool.rejection(), Rejection::Custom(read) if Arc::ptr_eq(&read, &handler)));
    pool.shutdown();
    let here = std::thread::current().id();
    assert_eq!(pool.submit(|| std::thread::current().id()).unwrap().join().unwrap(), here);
    assert!(pool.await_termination(Duration::MAX));
}

/// ST-004: the core size reads back in every form of construction, and the clock is the one given.
#[test]
fn every_form_of_construction_keeps_its_core_size() {
    let clock = ManualClock::new();
    clock.jump(STEP);
    let built = Executor::builder().core_threads(5).clock(clock).build().unwrap();
    assert_eq!(built.clock().now(), Tick::ZERO.after(STEP));
    assert_eq!(built.core_threads(), 5);
    assert_eq!(Executor::new(4).core_threads(), 4);
    assert_eq!(sizes(&Executor::fixed(3).unwrap()), (3, 3));
    assert_eq!(Executor::single().stats().core_threads, 1);
    assert_eq!(Executor::cached().core_threads(), 0);
}
