//! Real threads, real time, and as much going on at once as a few seconds hold. Every test checks itself by
//! counting: what was accepted is run, cancelled or abandoned, each once, and nothing is left.

#[path = "conformance/support.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use punctual::{
    CompletionQueue, DelayQueue, Executor, ManualClock, OnCancel, Rejection, TaskError, TaskHandle,
    TaskState, Tick,
};
use support::{Counter, Gate, Log, block_worker, finish};

const SEED: u64 = 0x0070_756e_6374_7561;

/// Up to 2 ms, often nothing at all.
fn short(rng: &mut Rng) -> Duration {
    Duration::from_micros(if rng.bool() { 0 } else { rng.u64(..2_000) })
}

/// How the tasks of one thread ended, as their handles tell.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Ends {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    abandoned: u64,
}

impl Ends {
    /// Waits for each task; one that does not end keeps the test from ending.
    fn of<T>(handles: impl IntoIterator<Item = TaskHandle<T>>) -> Self {
        handles.into_iter().fold(Self::default(), |mut ends, handle| {
            handle.wait().unwrap();
            match handle.state() {
                TaskState::Succeeded => ends.succeeded += 1,
                TaskState::Failed => ends.failed += 1,
                TaskState::Cancelled => ends.cancelled += 1,
                TaskState::Abandoned => ends.abandoned += 1,
                other => panic!("over and {other:?}"),
            }
            ends
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

/// Producers that also cancel and panic, a thread that changes the sizes, one that takes pictures; then the end.
#[test]
fn whatever_happens_at_once_every_task_ends_once_and_is_counted_once() {
    const PRODUCERS: u64 = 4;
    const TASKS: u64 = 1_500;
    for (round, on_cancel) in [OnCancel::Remove, OnCancel::KeepUntilDue].into_iter().enumerate() {
        let pool = Executor::builder().core_threads(2).max_threads(5).on_cancel(on_cancel).build().unwrap();
        pool.set_keep_alive(Duration::from_micros(300)).unwrap();
        let (ran, panicked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let over = AtomicBool::new(false);
        let producer = |seed: u64| {
            let mut rng = Rng::with_seed(seed);
            let mut handles = Vec::new();
            for n in 0..TASKS {
                let (ran, panicked) = (Arc::clone(&ran), Arc::clone(&panicked));
                let fails = n % 500 == 499;
                let body = move || {
                    if fails {
                        panicked.fetch_add(1, Ordering::Relaxed);
                        panic!("as planned");
                    }
                    ran.fetch_add(1, Ordering::Relaxed);
                };
                handles.push(pool.schedule(short(&mut rng), body).unwrap());
                if rng.u8(..) < 90 {
                    handles[rng.usize(..handles.len())].cancel();
                }
                if rng.u8(..) < 10 {
                    thread::yield_now();
                }
            }
            Ends::of(handles)
        };
        let mut ends = Ends::default();
        thread::scope(|scope| {
            let first = SEED + round as u64 * PRODUCERS;
            let producers: Vec<_> =
                (0..PRODUCERS).map(|n| scope.spawn(move || producer(first + n))).collect();
            let resizer = scope.spawn(|| {
                let mut rng = Rng::with_seed(SEED);
                while !over.load(Ordering::Relaxed) {
                    pool.resize(rng.usize(1..6)).unwrap();
                    pool.prestart_core_thread();
                    pool.purge();
                    thread::yield_now();
                }
            });
            let watcher = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let stats = pool.stats();
                    assert!(stats.active <= stats.pool_size && stats.delayed <= stats.queued, "{stats:?}");
                    let queue = pool.queue();
                    assert!(queue.is_sorted_by_key(|task| (task.deadline(), task.id())));
                    thread::yield_now();
                }
            });
            ends = producers.into_iter().fold(ends, |ends, producer| ends.plus(producer.join().unwrap()));
            over.store(true, Ordering::Relaxed);
            resizer.join().unwrap();
            watcher.join().unwrap();
        });
        pool.shutdown();
        assert!(pool.await_termination(Duration::MAX));
        let stats = pool.stats();
        assert_eq!(ends.succeeded + ends.failed + ends.cancelled, PRODUCERS * TASKS);
        assert!(ends.abandoned == 0 && ends.failed <= panicked.load(Ordering::Relaxed));
        // A task that was cancelled while its body ran is counted by the run, and by nothing else.
        let bodies = ran.load(Ordering::Relaxed) + panicked.load(Ordering::Relaxed);
        assert!(ends.succeeded + ends.failed <= bodies);
        assert_eq!((stats.completed, stats.cancelled), (bodies, PRODUCERS * TASKS - bodies));
        assert!(stats.cancelled <= ends.cancelled);
        assert_eq!((stats.queued, stats.active, stats.pool_size), (0, 0, 0));
    }
}

/// Many threads submit; one worker, held until all is queued, must run it in the order of (deadline, id).
#[test]
fn one_worker_runs_what_many_threads_submit_in_exact_order() {
    const TASKS: u64 = 2_000;
    let pool = Executor::builder().build().unwrap();
    let gate = Gate::new();
    let block = block_worker(&pool, &gate);
    let started: Arc<Mutex<Vec<u64>>> = Arc::default();
    let base = pool.clock().now();
    let mut expected: Vec<(Tick, u64)> = Vec::new();
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..3_u64)
            .map(|n| {
                let (pool, started) = (&pool, &started);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(SEED ^ n);
                    let mut mine = Vec::new();
                    for _ in 0..TASKS {
                        // A narrow range, so that many are equal; some of it in the past.
                        let deadline = base.after(Duration::from_micros(rng.u64(..50)));
                        let started = Arc::clone(started);
                        let body = move || {
                            let id = punctual::TaskContext::current().id().unwrap();
                            started.lock().unwrap().push(id.number());
                        };
                        let handle = pool.task(body).first(deadline).start().unwrap();
                        if rng.u8(..) < 40 {
                            assert!(handle.cancel());
                        } else {
                            mine.push((deadline, handle.id().number()));
                        }
                    }
                    mine
                })
            })
            .collect();
        expected = submitters.into_iter().flat_map(|submitter| submitter.join().unwrap()).collect();
    });
    expected.sort_unstable();
    gate.open();
    pool.shutdown();
    assert!(pool.await_termination(Duration::MAX) && block.is_done());
    let order: Vec<u64> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(*started.lock().unwrap(), order);
}

#[test]
fn periodic_tasks_never_overlap_and_never_run_after_their_cancel() {
    let pool = Executor::builder().core_threads(4).build().unwrap();
    let violations = Counter::new();
    thread::scope(|scope| {
        for n in 0..4_u64 {
            let (pool, violations) = (&pool, &violations);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(SEED ^ n);
                for turn in 0..25 {
                    let (inside, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
                    let (violated, counted) = (violations.clone(), Arc::clone(&runs));
                    let body = move || {
                        if inside.fetch_add(1, Ordering::SeqCst) != 0 {
                            violated.hit();
                        }
                        counted.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    };
                    let period = Duration::from_micros(1 + rng.u64(..200));
                    let beat = match turn % 2 {
                        0 => pool.schedule_at_fixed_rate(short(&mut rng), period, body).unwrap(),
                        _ => pool.schedule_with_fixed_delay(short(&mut rng), period, body).unwrap(),
                    };
                    while runs.load(Ordering::SeqCst) < 3 {
                        thread::yield_now();
                    }
                    assert!(beat.cancel() && !beat.is_queued());
                    let begun = beat.runs();
                    thread::yield_now();
                    assert_eq!(beat.runs(), begun, "a run began after the cancel had returned");
                    assert!(!beat.cancel() && !beat.is_queued() && beat.is_cancelled());
                }
            });
        }
    });
    assert_eq!(violations.get(), 0);
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

/// Submissions racing with every way to end a pool: what is accepted resolves, what is refused comes back.
#[test]
fn an_executor_may_be_ended_at_any_moment() {
    for round in 0..60_u64 {
        let capacity = if round % 5 == 0 { 3 } else { usize::MAX };
        let builder = Executor::builder().core_threads(1).max_threads(3).capacity(capacity);
        let pool = builder.rejection(Rejection::Abort).build().unwrap();
        let (ran, refused) = (Arc::new(AtomicU64::new(0)), &AtomicU64::new(0));
        let (accepted, ends) = thread::scope(|scope| {
            let submitters: Vec<_> = (0..3_u64)
                .map(|n| {
                    let (pool, ran) = (pool.clone(), Arc::clone(&ran));
                    scope.spawn(move || {
                        let mut rng = Rng::with_seed(SEED ^ (round << 8) ^ n);
                        let mut handles = Vec::new();
                        for _ in 0..40 {
                            let ran = Arc::clone(&ran);
                            let body = move || _ = ran.fetch_add(1, Ordering::Relaxed);
                            match pool.schedule(short(&mut rng) / 4, body) {
                                Ok(handle) => handles.push(handle),
                                Err(why) => {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                    drop(why.into_task());
                                }
                            }
                        }
                        (handles.len() as u64, Ends::of(handles))
                    })
                })
                .collect();
            let mut rng = Rng::with_seed(round);
            (0..rng.u32(..200)).for_each(|_| thread::yield_now());
            match round % 3 {
                0 => pool.shutdown(),
                1 => drop(pool.shutdown_now()),
                _ => pool.close().unwrap(),
            }
            assert!(pool.await_termination(Duration::MAX) && pool.is_terminated());
            submitters.into_iter().fold((0, Ends::default()), |(accepted, ends), submitter| {
                let (more, other) = submitter.join().unwrap();
                (accepted + more, ends.plus(other))
            })
        });
        assert_eq!(accepted + refused.load(Ordering::Relaxed), 120);
        assert_eq!(ends.succeeded, ran.load(Ordering::Relaxed));
        assert_eq!((ends.succeeded + ends.abandoned, ends.cancelled + ends.failed), (accepted, 0));
        if round % 3 != 1 {
            assert_eq!(ends.abandoned, 0, "an orderly shutdown runs what was accepted");
        }
        assert_eq!((pool.stats().completed, pool.stats().rejected), (ends.succeeded, 120 - accepted));
    }
}

#[test]
fn in_a_flood_of_short_tasks_one_that_waits_for_a_later_one_holds_nothing_back() {
    const FLOOD: usize = 20_000;
    for workers in [2, 4] {
        let pool = Executor::new(workers);
        pool.prestart_all_core_threads();
        for _ in 0..10 {
            let ran = Arc::new(AtomicUsize::new(0));
            let flood = || {
                for _ in 0..FLOOD {
                    let ran = Arc::clone(&ran);
                    let body = move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    };
                    pool.execute(body).unwrap();
                }
            };
            let (go_on, gate) = std::sync::mpsc::channel();
            flood();
            // Whoever runs it is lost to the flood, and to the task that releases it.
            let blocked = pool.submit(move || gate.recv().is_ok()).unwrap();
            flood();
            pool.submit(move || go_on.send(())).unwrap().join().unwrap().unwrap();
            assert!(blocked.join().unwrap());
            assert!(
                ran.load(Ordering::Relaxed) > FLOOD,
                "what came before the task that was waited for has begun"
            );
        }
        finish(&pool);
    }
}

#[test]
fn a_delay_queue_gives_every_value_to_one_taker() {
    const VALUES: u64 = 1_500;
    let queue = DelayQueue::new();
    let taken: Log<u64> = Log::new();
    let removed = AtomicU64::new(0);
    thread::scope(|scope| {
        for n in 0..2 {
            let (queue, removed) = (&queue, &removed);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(SEED ^ n);
                for value in 0..VALUES {
                    let key = queue.push(short(&mut rng), n * VALUES + value);
                    if rng.u8(..) < 30 && queue.remove(key).is_some() {
                        removed.fetch_add(1, Ordering::Relaxed);
                        queue.push(Duration::ZERO, n * VALUES + value);
                    }
                }
            });
        }
        for n in 0..3 {
            let (queue, taken) = (&queue, taken.clone());
            // Between them they take all there is; who times out comes back.
            scope.spawn(move || {
                let mut rng = Rng::with_seed(n);
                while taken.entries().len() < 2 * VALUES as usize {
                    if let Some(value) = queue.take_timeout(short(&mut rng)).unwrap() {
                        taken.add(value);
                    }
                }
            });
        }
    });
    let mut all = taken.entries();
    all.sort_unstable();
    assert_eq!(all, (0..2 * VALUES).collect::<Vec<_>>());
    assert!(queue.is_empty());
}

/// Tasks that are far from being due and have nothing to be dropped, as most time-outs: cancelled by whoever made them and by others,
/// beside their deadlines, and dropped at once or kept.
#[test]
fn of_all_that_cancel_a_far_task_one_comes_first_and_what_is_cancelled_does_not_run() {
    const TASKS: usize = 600;
    static RUN: AtomicUsize = AtomicUsize::new(0);
    let seconds = |random: &mut Rng| Duration::from_secs(random.u64(1..6));
    for round in 0..8 {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(2).clock(clock.clone()).build().unwrap();
        RUN.store(0, Ordering::Relaxed);
        let schedule = |random: &mut Rng| {
            pool.schedule(seconds(random), || _ = RUN.fetch_add(1, Ordering::Relaxed)).unwrap()
        };
        // In a thread of its own: where tasks of other pools have been none goes by its mark.
        let handles: Vec<_> = thread::scope(|scope| {
            let mut random = Rng::with_seed(SEED + round);
            scope.spawn(move || (0..TASKS).map(|_| schedule(&mut random)).collect()).join().unwrap()
        });
        let cancelled = AtomicUsize::new(0);
        let cancel = |handle: &TaskHandle<()>| {
            cancelled.fetch_add(usize::from(handle.cancel()), Ordering::Relaxed);
            assert!(handle.is_done(), "cancelled, or it has run");
        };
        thread::scope(|scope| {
            for thread in 0..3 {
                let (handles, cancel, schedule) = (&handles, &cancel, &schedule);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(SEED ^ (round * 3 + thread));
                    let mut own: Vec<_> = (0..50).map(|_| schedule(&mut random)).collect();
                    for _ in 0..TASKS {
                        cancel(&handles[random.usize(..TASKS)]);
                        let place = random.usize(..50);
                        let old = std::mem::replace(&mut own[place], schedule(&mut random));
                        cancel(&old);
                    }
                    own.iter().for_each(cancel);
                });
            }
            scope.spawn(|| (0..6).for_each(|_| clock.jump(Duration::from_secs(1))));
            scope.spawn(|| {
                (0..20).for_each(|_| assert!(pool.purge() < 4 * TASKS && pool.stats().active <= 2))
            });
        });
        clock.jump(Duration::from_secs(6));
        let succeeded = Ends::of(handles).succeeded;
        pool.shutdown();
        assert!(pool.await_termination(Duration::MAX));
        let (stats, all) = (pool.stats(), TASKS + 3 * (TASKS + 50));
        assert_eq!(stats.completed, RUN.load(Ordering::Relaxed) as u64);
        assert!(succeeded <= stats.completed);
        // What was running when it was cancelled counts as completed.
        assert!(stats.completed as usize + cancelled.load(Ordering::Relaxed) >= all);
        assert_eq!((stats.completed + stats.cancelled, stats.queued), (all as u64, 0));
    }
}

#[test]
fn time_outs_completion_queues_and_waiters_meet_at_every_task() {
    let pool = Executor::builder().core_threads(3).build().unwrap();
    let queue = CompletionQueue::new();
    let mut rng = Rng::with_seed(SEED);
    let mut limited = 0_u32;
    for n in 0..600_u32 {
        let work = Duration::from_micros(rng.u64(..60));
        let body = move || {
            let _ = punctual::TaskContext::current().sleep(work);
            n
        };
        let limit = Duration::from_micros(rng.u64(..200));
        let handle = match n % 3 {
            0 => pool.submit_with_timeout(limit, body).unwrap(),
            1 => pool.submit_with_fallback(limit, body, move || n).unwrap(),
            _ => pool.submit(body).unwrap(),
        };
        limited += u32::from(n % 3 == 0);
        queue.push(handle);
    }
    let (mut values, mut cut) = (Vec::new(), 0_u32);
    while let Some(handle) = queue.take().unwrap() {
        match handle.try_join().expect("it came out because it is done") {
            Ok(value) => values.push(value),
            Err(TaskError::Cancelled) => cut += 1,
            Err(other) => panic!("{other}"),
        }
    }
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len() as u32 + cut, 600);
    assert!(cut <= limited);
    pool.close().unwrap();
    assert_eq!(pool.stats().queued, 0, "every limit was withdrawn or has fired");
}

/// The manual clock under many executors and waiters: it settles, and nothing is early.
#[test]
fn a_manual_clock_drives_several_pools_exactly() {
    let clock = ManualClock::new();
    let pools: Vec<Executor> =
        (1..=3).map(|n| Executor::builder().core_threads(n).clock(clock.clone()).build().unwrap()).collect();
    let early = Counter::new();
    let mut rng = Rng::with_seed(SEED);
    let mut handles = Vec::new();
    for n in 0..900 {
        let (clock, early) = (clock.clone(), early.clone());
        let delay = Duration::from_millis(rng.u64(..100));
        let due = punctual::Clock::now(&clock).after(delay);
        let body = move || {
            if punctual::Clock::now(&clock) != due {
                early.hit();
            }
        };
        handles.push(pools[n % 3].schedule(delay, body).unwrap());
    }
    clock.advance(Duration::from_millis(100));
    assert!(handles.iter().all(|handle| handle.state() == TaskState::Succeeded));
    assert_eq!(early.get(), 0);
    pools.iter().for_each(finish);
}
