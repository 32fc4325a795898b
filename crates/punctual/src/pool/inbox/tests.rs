use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::{LANES, MINE, mine};
use crate::pool::aside::BEHIND;
use crate::pool::core::MOST_QUEUED;
use crate::pool::lane::{BATCH, KEYS, MOST, ROOM};
use crate::{Clock, Executor, ManualClock, RejectReason, Stats, TaskHandle, TaskState, Tick};

const HOUR: Duration = Duration::from_secs(3600);

fn pool(clock: &ManualClock) -> Executor {
    let pool = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
    pool.prestart_all_core_threads();
    clock.wait_until_idle();
    pool
}

fn counts(pool: &Executor) -> (usize, u64) {
    let Stats { queued, cancelled, .. } = pool.stats();
    (queued, cancelled)
}

/// Some from the inbox, some from the queue, few and many at once; whoever looks finds them gone.
#[test]
fn what_is_cancelled_is_gone_for_whoever_looks() {
    let all = [1, BATCH - 1, BATCH, BATCH + 1, KEYS + 1, 3 * ROOM];
    for (looks_every, lanes) in
        all.into_iter().flat_map(|looks_every| [(looks_every, 1), (looks_every, LANES)])
    {
        let clock = ManualClock::new();
        let pool = pool(&clock);
        in_lane(lanes - 1, || drop(pool.pool().core.lock()));
        let captured = Arc::new(());
        let mut random = fastrand::Rng::with_seed(looks_every as u64);
        let (mut waiting, mut cancelled) = (Vec::new(), 0);
        for step in 1..=10 * ROOM {
            let held = Arc::clone(&captured);
            waiting.push(pool.schedule(HOUR + HOUR * random.u32(..100), move || drop(held)).unwrap());
            if random.bool() || step > 9 * ROOM {
                // The newest is in the inbox as a rule, the others in the queue.
                let place = if random.bool() { waiting.len() - 1 } else { random.usize(..waiting.len()) };
                assert!(waiting.swap_remove(place).cancel());
                cancelled += 1;
            }
            assert_eq!(Arc::strong_count(&captured), 1 + waiting.len(), "a body goes with the cancel");
            if step % looks_every == 0 {
                assert_eq!(counts(&pool), (waiting.len(), cancelled));
            }
        }
        clock.advance(200 * HOUR);
        assert!(waiting.iter().all(|task| task.state() == TaskState::Succeeded));
        assert_eq!(pool.stats().completed, waiting.len() as u64, "what was cancelled does not run");
        assert_eq!(counts(&pool), (0, cancelled));
        pool.close().unwrap();
    }
}

/// Tasks that go by their marks, cancelled by one thread while they are in the lanes of others.
#[test]
fn what_is_cancelled_by_its_mark_in_other_lanes_is_gone() {
    for each in [1, BATCH / 2, ROOM] {
        let clock = ManualClock::new();
        let (pool, first) = watched(&clock);
        let schedule = |_| pool.schedule(2 * HOUR, || panic!("it was cancelled")).unwrap();
        let mut others = Vec::new();
        let handles: Vec<Vec<TaskHandle<()>>> = (0..LANES)
            .map(|lane| {
                in_lane(lane, || {
                    loop {
                        let handles: Vec<_> = (0..each).map(schedule).collect();
                        if handles.iter().all(TaskHandle::goes_by_mark) {
                            return handles;
                        }
                        // They are where there are tasks of other pools. With them out of the way, and out of the lane, others will not be.
                        others.extend(handles);
                        drop(pool.pool().core.lock());
                    }
                })
            })
            .collect();
        in_lane(LANES - 1, || assert!(handles.iter().flatten().all(TaskHandle::cancel)));
        assert_eq!(counts(&pool), (1 + others.len(), (LANES * each) as u64));
        assert!(others.iter().all(TaskHandle::cancel));
        clock.advance(3 * HOUR);
        assert!(first.state() == TaskState::Succeeded && !handles.iter().flatten().any(TaskHandle::cancel));
        assert_eq!((pool.stats().completed, pool.stats().queued), (1, 0));
        pool.close().unwrap();
    }
}

/// The next handle takes over the count of one that is gone.
#[test]
fn a_count_that_a_handle_has_left_serves_another() {
    let clock = ManualClock::new();
    let (executor, _first) = watched(&clock);
    let left = || executor.pool().core.first_lane().lock().left.len();
    let schedule = |_| executor.schedule(2 * HOUR, || ()).unwrap();
    let mut others = Vec::new();
    let handles = loop {
        let handles = Vec::from_iter((0..BATCH).map(schedule));
        // Otherwise they are where there are tasks of other pools.
        if handles.iter().all(TaskHandle::goes_by_mark) {
            break handles;
        }
        others.extend(handles);
    };
    handles.into_iter().for_each(|handle| assert!(handle.cancel()));
    // They are seen to, and then what they have left comes to the lane with what is taken out of it.
    drop(executor.pool().core.lock());
    let other = schedule(0);
    drop(executor.pool().core.lock());
    let before = (left(), Arc::strong_count(executor.tether()));
    let handle = schedule(0);
    assert_eq!((left(), Arc::strong_count(executor.tether())), (before.0 - 1, before.1));
    assert!(handle.cancel() && other.cancel());
    clock.advance(3 * HOUR);
    executor.close().unwrap();
}

/// How many references there are to what keeps the pool there, but for those of its executor.
fn counted(executor: &Executor) -> usize {
    (0..LANES).map(|lane| in_lane(lane, || Arc::strong_count(executor.tether()) - 1)).sum()
}

/// Invariant 8: while it runs a pool keeps some counts that handles have left, for others; when it is shut down each that is left
/// is that of a handle.
#[test]
fn counts_that_handles_have_left_do_not_keep_the_pool() {
    let clock = ManualClock::new();
    let (executor, first) = watched(&clock);
    let weak = Arc::downgrade(executor.pool());
    let mut random = fastrand::Rng::with_seed(11);
    let mut handles = vec![first];
    for step in 0..20 * KEYS {
        handles.push(in_lane(step % LANES, || executor.schedule(2 * HOUR, || ()).unwrap()));
        if handles.len() > LANES {
            let handle = handles.swap_remove(random.usize(1..handles.len()));
            // Most are dropped where they have been cancelled, before anybody has seen to that; some later, some uncancelled.
            match random.usize(..8) {
                0 => drop(handle),
                1 => {
                    let _ = handle.cancel();
                    handles.push(handle);
                }
                _ => in_lane(random.usize(..LANES), || drop((handle.cancel(), handle))),
            }
        }
        let kept = 3 * LANES * KEYS;
        assert!((handles.len()..handles.len() + kept).contains(&counted(&executor)), "at step {step}");
    }
    executor.shutdown();
    assert_eq!(counted(&executor), handles.len());
    executor.shutdown_now();
    executor.close().unwrap();
    drop(executor);
    assert_eq!(weak.strong_count() > 0, !handles.is_empty());
    drop(handles);
    assert_eq!(weak.strong_count(), 0);
}

/// In the inbox, in the queue, or laid out.
#[test]
fn workers_are_behind_if_something_is_overdue_wherever_it_is() {
    let (clock, (release, released)) = (ManualClock::new(), mpsc::channel::<()>());
    let pool = pool(&clock);
    let busy = pool.submit(move || released.recv().unwrap()).unwrap();
    while pool.stats().active == 0 {
        thread::yield_now();
    }
    drop(pool.submit(|| ()).unwrap());
    let guarded = &pool.pool().core;
    let nanosecond = Duration::from_nanos(1);
    clock.jump(BEHIND);
    for place in ["inbox", "queue", "laid out"] {
        let now = clock.now();
        assert!(!guarded.is_behind(now), "{place}");
        assert!(guarded.is_behind(now.after(nanosecond)), "{place}");
        match place {
            "inbox" => drop(guarded.lock()),
            "queue" => guarded.core.lock().lay_out(now),
            _ => assert!(guarded.ready().next_deadline().is_some()),
        }
    }
    release.send(()).unwrap();
    busy.join().unwrap();
    pool.close().unwrap();
}

/// What a thread returns that keeps to this lane.
fn in_lane<R: Send>(lane: usize, act: impl FnOnce() -> R + Send) -> R {
    let keeping = || {
        MINE.with(|mine| mine.set(lane));
        act()
    };
    thread::scope(|scope| scope.spawn(keeping).join().unwrap())
}

/// A pool whose worker waits for a task in an hour, so that what is due later is left in the inbox. All lanes are in use.
fn watched(clock: &ManualClock) -> (Executor, TaskHandle<()>) {
    let executor = pool(clock);
    in_lane(LANES - 1, || drop(executor.pool().core.lock()));
    let first = executor.schedule(HOUR, || ()).unwrap();
    clock.wait_until_idle();
    (executor, first)
}

/// Invariant 4: the lanes are emptied at different times, and what is due at one instant runs in the order of submission.
#[test]
fn what_is_due_at_one_instant_runs_in_order_whatever_lane_it_came_by() {
    let clock = ManualClock::new();
    let (executor, _first) = watched(&clock);
    let (ran, mut submitted) = (Arc::new(Mutex::new(Vec::new())), 0);
    let mut random = fastrand::Rng::with_seed(7);
    while submitted < 20 * ROOM {
        // The first few lanes are crowded, and emptied, again and again; the others hardly ever.
        let lanes = random.usize(1..=LANES);
        let (lane, count) = (random.usize(..lanes), random.usize(1..ROOM));
        in_lane(lane, || {
            for number in submitted..submitted + count {
                let ran = Arc::clone(&ran);
                drop(executor.schedule(2 * HOUR, move || ran.lock().unwrap().push(number)).unwrap());
            }
        });
        submitted += count;
    }
    assert!(executor.pool().core.earliest() < Tick::MAX, "some are in the inbox");
    clock.jump(2 * HOUR);
    clock.wait_until_idle();
    assert_eq!(*ran.lock().unwrap(), Vec::from_iter(0..submitted));
    executor.close().unwrap();
}

#[test]
fn what_is_in_any_lane_is_seen_and_cancelled_by_whoever_wants_to() {
    let clock = ManualClock::new();
    let (executor, first) = watched(&clock);
    let tasks: Vec<_> =
        (0..LANES).map(|lane| in_lane(lane, || executor.schedule(2 * HOUR, || ()).unwrap())).collect();
    assert_eq!(executor.stats().queued, 1 + LANES);
    let more: Vec<_> =
        (0..LANES).map(|lane| in_lane(lane, || executor.schedule(3 * HOUR, || ()).unwrap())).collect();
    for (lane, (task, other)) in tasks.iter().zip(&more).enumerate() {
        // Of the second of them it is another's lane, but for the last.
        in_lane(lane, || assert!(task.cancel()));
        in_lane(LANES - 1, || assert!(other.cancel()));
    }
    assert!(first.cancel());
    assert_eq!(counts(&executor), (0, 1 + 2 * LANES as u64));
    executor.close().unwrap();
}

#[test]
fn a_thread_that_meets_another_in_its_lane_keeps_to_the_next() {
    let clock = ManualClock::new();
    let (executor, _first) = watched(&clock);
    let (core, me) = (&executor.pool().core, mine().1);
    let lane = &core.inbox.0.lanes[0];
    let moved = |user: usize| {
        lane.lock().user = user;
        in_lane(0, || {
            drop(core.contend(lane, 0, me));
            mine().0
        })
    };
    assert_eq!(moved(me), 0, "it has met a worker");
    assert_eq!(moved(me + 1), 1);
    executor.shutdown_now();
}

#[test]
fn nobody_looks_out_for_what_was_cancelled_in_the_inbox() {
    let clock = ManualClock::new();
    let executor = pool(&clock);
    let pool = executor.pool();
    // It is watched for, so that the next may be left in the inbox.
    let first = executor.schedule(HOUR, || ()).unwrap();
    clock.wait_until_idle();
    let tasks = [2, 3].map(|hours| executor.schedule(hours * HOUR, || ()).unwrap());
    assert_eq!(pool.core.earliest(), clock.now().after(2 * HOUR), "they are in the inbox");
    let cancelled = tasks.map(|task| (task.cancel(), pool.core.earliest() < Tick::MAX));
    assert_eq!(cancelled, [(true, true), (true, false)]);
    assert!(first.cancel());
    executor.close().unwrap();
}

/// A worker that goes from task to task does not look into the inbox: it finds the task cancelled.
#[test]
fn a_worker_passes_over_what_was_cancelled_while_it_was_busy() {
    let clock = ManualClock::new();
    let pool = pool(&clock);
    let tasks: Arc<std::sync::Mutex<Vec<TaskHandle<()>>>> = Arc::default();
    let others = Arc::clone(&tasks);
    let first = pool.schedule(HOUR, move || {
        others.lock().unwrap().iter().step_by(2).for_each(|task| assert!(task.cancel()));
    });
    let more = (0..BATCH).map(|_| pool.schedule(HOUR, || ()).unwrap());
    tasks.lock().unwrap().extend(more);
    clock.advance(HOUR);
    first.unwrap().join().unwrap();
    let states: Vec<TaskState> = tasks.lock().unwrap().iter().map(TaskHandle::state).collect();
    assert!(states.iter().step_by(2).all(|state| *state == TaskState::Cancelled));
    assert!(states.iter().skip(1).step_by(2).all(|state| *state == TaskState::Succeeded));
    assert_eq!(pool.stats().completed, 1 + BATCH as u64 / 2);
    assert_eq!(counts(&pool), (0, BATCH as u64 / 2));
    pool.close().unwrap();
}

#[test]
fn a_place_that_a_cancel_has_freed_can_be_taken_at_once() {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(1).capacity(BATCH).clock(clock.clone()).build().unwrap();
    pool.prestart_all_core_threads();
    clock.wait_until_idle();
    let mut waiting: Vec<_> = (0..BATCH).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    for _ in 0..3 * BATCH {
        assert!(pool.schedule(HOUR, || ()).is_err(), "there is no more room");
        assert!(waiting.remove(0).cancel());
        waiting.push(pool.schedule(HOUR, || ()).unwrap());
    }
    pool.shutdown_now();
}

/// Invariant 7.
#[test]
fn a_thread_that_may_go_is_told_by_the_cancel_itself() {
    let keep_alive = Duration::from_secs(3);
    for core in [0, 2] {
        let clock = ManualClock::new();
        let builder = Executor::builder().core_threads(core).core_threads_time_out();
        let pool = builder.keep_alive(keep_alive).clock(clock.clone()).build().unwrap();
        let task = pool.schedule(HOUR, || ()).unwrap();
        clock.advance(2 * keep_alive);
        assert!(task.cancel());
        clock.advance(2 * keep_alive);
        assert_eq!(pool.stats().pool_size, 0);
        pool.close().unwrap();
    }
}

/// A pool whose one worker runs a task until the sender says so.
fn busy(clock: &ManualClock) -> (Executor, mpsc::Sender<()>) {
    let pool = pool(clock);
    let ((say, hear), (begun, has_begun)) = (mpsc::channel(), mpsc::channel());
    let body = move || {
        begun.send(()).unwrap();
        hear.recv().unwrap();
    };
    drop(pool.submit(body).unwrap());
    has_begun.recv().unwrap();
    (pool, say)
}

/// Those that ran, in that order, and what is expected of them: each with when it is due, after now, and its number.
#[derive(Default)]
struct Runs {
    ran: Arc<Mutex<Vec<usize>>>,
    expected: Vec<(u64, usize)>,
}

impl Runs {
    fn schedule(&self, pool: &Executor, (delay, number): (u64, usize)) -> TaskHandle<()> {
        let ran = Arc::clone(&self.ran);
        pool.schedule(Duration::from_nanos(delay), move || ran.lock().unwrap().push(number)).unwrap()
    }

    fn check(mut self) {
        self.expected.sort();
        let numbers: Vec<usize> = self.expected.into_iter().map(|(_, number)| number).collect();
        assert_eq!(*self.ran.lock().unwrap(), numbers);
    }
}

/// While the one worker is busy nobody empties the lane but whoever finds it full.
#[test]
fn a_lane_that_runs_full_again_and_again_loses_nothing() {
    let clock = ManualClock::new();
    let (pool, say) = busy(&clock);
    let (mut runs, mut most) = (Runs::default(), 0);
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..3 * MOST + ROOM {
        let turn = (random.u64(..2 * MOST as u64), number);
        let task = runs.schedule(&pool, turn);
        // The newest is in the lane, whatever was moved before it.
        if random.u8(..8) == 0 {
            assert!(task.cancel());
        } else {
            runs.expected.push(turn);
        }
        most = most.max(pool.pool().core.first_lane().lock().letters.len());
    }
    assert_eq!(most, MOST, "it was full, and never more than that");
    say.send(()).unwrap();
    clock.advance(HOUR);
    runs.check();
    pool.close().unwrap();
}

/// The worker finds some in the queue and few in the lane, all of them due.
#[test]
fn what_is_left_in_a_lane_that_was_relieved_runs_in_its_turn() {
    let count = MOST / 2 + ROOM / 2;
    for delays in [vec![5; count], (0..count as u64).rev().collect(), (0..count as u64).collect()] {
        let clock = ManualClock::new();
        let (pool, say) = busy(&clock);
        let mut runs = Runs::default();
        for turn in delays.into_iter().zip(0..) {
            drop(runs.schedule(&pool, turn));
            runs.expected.push(turn);
        }
        let left = {
            let (core, lane) = (&pool.pool().core, pool.pool().core.first_lane());
            let left = lane.relieve(&mut core.lock_alone()).letters.len();
            assert!(!lane.is_crowded());
            left
        };
        assert_eq!(left, ROOM / 2);
        clock.jump(HOUR);
        say.send(()).unwrap();
        clock.wait_until_idle();
        runs.check();
        pool.close().unwrap();
    }
}

#[test]
fn of_a_lane_that_was_relieved_of_all_nobody_looks_out_for_anything() {
    let clock = ManualClock::new();
    let (pool, say) = busy(&clock);
    (0..3).for_each(|_| drop(pool.schedule(HOUR, || ()).unwrap()));
    let lane = pool.pool().core.first_lane();
    assert!(lane.relieve(&mut pool.pool().core.lock_alone()).letters.is_empty());
    assert_eq!((pool.pool().core.earliest(), lane.is_crowded()), (Tick::MAX, false));
    say.send(()).unwrap();
    clock.advance(HOUR);
    assert_eq!(pool.stats().completed, 4);
    pool.close().unwrap();
}

/// In these tests fifty thousand are as many as there are slots.
#[test]
fn a_queue_that_can_take_no_more_says_so_also_where_a_lane_runs_full() {
    let clock = ManualClock::new();
    let (pool, say) = busy(&clock);
    let refused =
        (0..2 * MOST_QUEUED).find_map(|_| pool.schedule(HOUR, || ()).err()).map(|refused| refused.reason());
    assert_eq!(refused, Some(RejectReason::Saturated));
    assert!(pool.stats().queued <= MOST_QUEUED);
    say.send(()).unwrap();
    clock.advance(HOUR);
    pool.close().unwrap();
}
