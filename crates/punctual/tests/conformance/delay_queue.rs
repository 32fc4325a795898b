//! Values that come out when their time has come.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use punctual::{
    Clock, DelayQueue, Interrupted, ManualClock, Parker, Remaining, SystemClock, TaskContext, Tick,
};

use crate::support::{Gate, HOUR, Probe, SHORT, STEP, elapsed, eventually, finish, manual};

fn queue<T>() -> (DelayQueue<T>, ManualClock) {
    let clock = ManualClock::new();
    (DelayQueue::with_clock(clock.clone()), clock)
}

fn values<T: Clone>(queue: &DelayQueue<T>) -> Vec<T> {
    queue.snapshot().into_iter().map(|delayed| delayed.value).collect()
}

/// A manual clock that counts who waits on it, and who of them for an instant.
#[derive(Debug)]
struct Watched {
    clock: ManualClock,
    waiting: AtomicUsize,
    timed: AtomicUsize,
}

impl Watched {
    fn new() -> Arc<Self> {
        let (waiting, timed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { clock: ManualClock::new(), waiting, timed })
    }

    fn await_waiting(&self, n: usize) {
        eventually("all wait", || self.waiting.load(Ordering::SeqCst) == n);
    }

    fn timed(&self) -> usize {
        self.timed.load(Ordering::SeqCst)
    }
}

impl Clock for Watched {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        let timed = usize::from(until.is_some());
        self.timed.fetch_add(timed, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.clock.wait(parker, until);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.timed.fetch_sub(timed, Ordering::SeqCst);
    }
}

// ---- putting in

/// DQ-003, DQ-004: there is no bound: however full, a push returns at once, and its value is there.
#[test]
fn a_push_never_blocks_and_never_fails() {
    let (queue, _clock) = queue();
    let keys: Vec<_> = (0..10_000).map(|n| queue.push(HOUR, n)).collect();
    assert_eq!(queue.len(), 10_000);
    assert!(keys.iter().all(|key| queue.contains(*key)));
    assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), 10_000);
}

/// DQ-005, DQ-023: made from a collection it holds everything, and gives it out in the order of delays, as a
/// vector of its own.
#[test]
fn a_collection_becomes_a_queue_in_order_of_delay() {
    let queue: DelayQueue<u32> = [5, 3, 1, 4, 2].into_iter().map(|n| (n * HOUR, n)).collect();
    let mut picture = values(&queue);
    assert_eq!(picture, [1, 2, 3, 4, 5]);
    picture.clear();
    assert_eq!((queue.len(), values(&queue).len()), (5, 5));
    assert_eq!(format!("{queue:?}"), "[1, 2, 3, 4, 5]");
    assert_eq!(queue.drain(), [1, 2, 3, 4, 5]);
    assert!(DelayQueue::<u32>::from_iter(Vec::<(Duration, u32)>::new()).is_empty());
}

/// DQ-005: a queue on a clock of its own is filled in the same way, whoever owns it.
#[test]
fn a_queue_can_be_extended() {
    let (mut queue, clock) = queue();
    queue.extend([(2 * STEP, "later"), (STEP, "sooner")]);
    (&queue).extend([(Tick::ZERO, "now")]);
    clock.jump(2 * STEP);
    assert_eq!(queue.drain_due(usize::MAX), ["now", "sooner", "later"]);
}

// ---- taking what is due

/// DQ-006: whatever the order in which they were put in, values that are due come out in order of deadline, those
/// of one deadline in order of insertion, by every way of taking.
#[test]
fn due_values_come_out_in_order() {
    type Take = fn(&DelayQueue<u32>) -> Option<u32>;
    let takes: [Take; 3] = [
        |queue| queue.try_take(),
        |queue| queue.take().ok(),
        |queue| queue.take_timeout(Duration::ZERO).unwrap(),
    ];
    for take in takes {
        let (queue, clock) = queue();
        // 7 and 20 have no common divisor: a scrambled order that visits all. Every two share a deadline.
        for n in (0..20_u32).map(|n| n * 7 % 20) {
            queue.push(Duration::from_millis(u64::from(n / 2)), n);
        }
        let expected = {
            let mut all: Vec<u32> = (0..20).map(|n| n * 7 % 20).collect();
            all.sort_by_key(|n| n / 2);
            all
        };
        clock.jump(STEP);
        let taken: Vec<u32> = (0..20).map(|_| take(&queue).unwrap()).collect();
        assert_eq!(taken, expected);
        assert!(queue.is_empty());
    }
}

/// DQ-008, DQ-009, DQ-013, DQ-026: what is not due does not come out and stays, an empty queue gives nothing, and a
/// timeout of zero takes what is due.
#[test]
fn only_what_is_due_comes_out() {
    let (queue, clock) = queue();
    assert!(queue.is_empty());
    assert_eq!((queue.len(), queue.try_take(), queue.take_timeout(Duration::ZERO)), (0, None, Ok(None)));
    assert!(queue.peek().is_none() && queue.next_in().is_none() && queue.snapshot().is_empty());
    assert!(queue.drain_due(usize::MAX).is_empty() && queue.drain().is_empty());
    queue.push(STEP, 'a');
    queue.push(Duration::MAX, 'z');
    clock.jump(STEP - Duration::from_nanos(1));
    assert_eq!((queue.try_take(), queue.take_timeout(Duration::ZERO)), (None, Ok(None)));
    assert_eq!(queue.len(), 2);
    clock.jump(Duration::from_nanos(1));
    assert_eq!(queue.take_timeout(Duration::ZERO), Ok(Some('a')));
    assert_eq!((queue.try_take(), queue.len()), (None, 1));
}

/// DQ-008: a timed take of nothing lasts as long as it was told.
#[test]
fn a_timed_take_waits_its_time_out() {
    let queue = DelayQueue::new();
    let (waited, taken) = elapsed(|| queue.take_timeout(SHORT));
    assert_eq!(taken, Ok(None));
    assert!(waited >= SHORT, "{waited:?}");
    queue.push(Duration::MAX, ());
    let (waited, taken) = elapsed(|| queue.take_timeout(SHORT));
    assert_eq!((taken, queue.len()), (Ok(None), 1));
    assert!(waited >= SHORT, "{waited:?}");
}

/// DQ-010: a value that is put in while somebody waits comes out to them, with and without a timeout, due at once
/// or later.
#[test]
fn a_waiting_taker_gets_what_is_put_in() {
    for delay in [Duration::ZERO, STEP] {
        let clock = Watched::new();
        let queue = DelayQueue::with_clock(Arc::clone(&clock));
        thread::scope(|scope| {
            let timed = scope.spawn(|| queue.take_timeout(HOUR).unwrap().unwrap());
            let untimed = scope.spawn(|| queue.take().unwrap());
            clock.await_waiting(2);
            queue.push(delay, 1);
            queue.push(delay, 2);
            clock.clock.jump(delay);
            let mut taken = [timed.join().unwrap(), untimed.join().unwrap()];
            taken.sort_unstable();
            assert_eq!(taken, [1, 2]);
        });
    }
}

/// DQ-007, DQ-011: a take inside a task ends when the task is interrupted, before it waits (with whatever timeout,
/// and even if something is due) or while it waits. Nothing is lost by it, and the flag stays set.
#[test]
fn a_take_ends_when_its_task_is_interrupted() {
    type Take = fn(&DelayQueue<u32>) -> Result<Option<u32>, Interrupted>;
    let takes: [(Take, bool); 3] = [
        (|queue| queue.take().map(Some), true),
        (|queue| queue.take_timeout(HOUR), true),
        (|queue| queue.take_timeout(Duration::ZERO), false),
    ];
    for (take, blocks) in takes {
        for before in [true, false] {
            if !before && !blocks {
                continue;
            }
            let (pool, _) = manual(1);
            let clock = Watched::new();
            let queue = Arc::new(DelayQueue::with_clock(Arc::clone(&clock)));
            let (gate, (sender, receiver)) = (Gate::new(), mpsc::channel());
            let (inner, entry) = (Arc::clone(&queue), gate.clone());
            let handle = pool
                .submit(move || {
                    entry.pass();
                    sender.send((take(&inner), TaskContext::current().is_interrupted())).unwrap();
                })
                .unwrap();
            gate.await_arrivals(1);
            if before {
                queue.push(Duration::ZERO, 7);
                handle.interrupt();
                gate.open();
            } else {
                gate.open();
                clock.await_waiting(1);
                handle.interrupt();
            }
            assert_eq!(receiver.recv().unwrap(), (Err(Interrupted), true));
            assert_eq!(queue.try_take(), before.then_some(7));
            finish(&pool);
        }
    }
}

/// DQ-007: a taker that was called for a value and is interrupted at the same time passes the call on: another
/// taker gets the value.
#[test]
fn an_interrupted_taker_passes_its_call_on() {
    for _ in 0..50 {
        let (pool, _) = manual(1);
        let clock = Watched::new();
        let queue = Arc::new(DelayQueue::with_clock(Arc::clone(&clock)));
        let (inner, (sender, receiver)) = (Arc::clone(&queue), mpsc::channel());
        thread::scope(|scope| {
            let patient = scope.spawn(|| queue.take().unwrap());
            clock.await_waiting(1);
            // The last to wait is the first to be called.
            let hasty = pool.submit(move || sender.send(inner.take()).unwrap()).unwrap();
            clock.await_waiting(2);
            let pusher = scope.spawn(|| queue.push(Duration::ZERO, 7));
            hasty.interrupt();
            pusher.join().unwrap();
            if receiver.recv().unwrap().is_ok() {
                queue.push(Duration::ZERO, 7);
            }
            assert_eq!(patient.join().unwrap(), 7);
        });
        finish(&pool);
    }
}

/// DQ-015: on the machine's clock, with several takers, nothing comes out before its time.
#[test]
fn nothing_is_taken_early() {
    let clock = SystemClock::new();
    let queue = DelayQueue::with_clock(clock);
    let start = clock.now();
    for n in (1..=32).rev() {
        let deadline = start.after(Duration::from_millis(n));
        queue.push(deadline, deadline);
    }
    let mut last = Tick::ZERO;
    for _ in 0..16 {
        let deadline = queue.take().unwrap();
        assert!(clock.now() >= deadline && deadline > last);
        last = deadline;
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let deadline = queue.take().unwrap();
                    assert!(clock.now() >= deadline);
                }
            });
        }
    });
    assert!(queue.is_empty());
}

/// DQ-019: draining moves what is due, in order, up to the number given, and nothing else.
#[test]
fn a_drain_of_what_is_due_leaves_the_rest() {
    let (queue, clock) = queue();
    for n in [3, 1, 4, 2, 9] {
        queue.push(n * STEP, n);
    }
    clock.jump(4 * STEP);
    assert!(queue.drain_due(0).is_empty());
    assert_eq!(queue.drain_due(3), [1, 2, 3]);
    assert_eq!(queue.drain_due(3), [4]);
    assert!(queue.drain_due(usize::MAX).is_empty());
    assert_eq!(values(&queue), [9]);
}

/// DQ-020: a drain with pushes going on loses nothing and gives nothing twice.
#[test]
fn a_drain_during_pushes_loses_nothing() {
    const EACH: u32 = 500;
    let queue = DelayQueue::new();
    let mut seen = BTreeSet::new();
    thread::scope(|scope| {
        for from in [0, EACH] {
            let queue = &queue;
            scope.spawn(move || {
                for n in from..from + EACH {
                    queue.push(Duration::ZERO, n);
                }
            });
        }
        eventually("everything has come out", || {
            for n in queue.drain_due(17) {
                assert!(seen.insert(n), "{n} came out twice");
            }
            seen.len() == 2 * EACH as usize
        });
    });
    assert!(queue.is_empty());
}

/// DQ-024: of many takers one waits for the clock. An earlier value makes one of them wait for that instead, and
/// each that leaves, with a value or without, leaves another in its place.
#[test]
fn one_taker_waits_for_the_clock_and_is_replaced() {
    const TAKERS: usize = 8;
    let clock = Watched::new();
    let queue = DelayQueue::with_clock(Arc::clone(&clock));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..TAKERS {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || sender.send(queue.take().unwrap()).unwrap());
        }
        clock.await_waiting(TAKERS);
        assert_eq!(clock.timed(), 0);
        for n in 0..TAKERS as u32 {
            queue.push((10 + n) * STEP, n);
        }
        eventually("one leads", || clock.timed() == 1);
        clock.await_waiting(TAKERS);
        // An earlier one: the clock moves to it only, and somebody has it.
        queue.push(STEP, 99);
        clock.clock.jump(STEP);
        assert_eq!(receiver.recv().unwrap(), 99);
        eventually("another leads", || clock.timed() == 1);
        for n in 0..TAKERS as u32 - 1 {
            clock.await_waiting(TAKERS - 1 - n as usize);
            assert_eq!(clock.timed(), 1, "of {} that wait", TAKERS - 1 - n as usize);
            clock.clock.jump(if n == 0 { 9 * STEP } else { STEP });
            assert_eq!(receiver.recv().unwrap(), n);
            if n + 2 < TAKERS as u32 {
                eventually("another leads", || clock.timed() == 1);
            }
        }
    });
    assert_eq!(queue.len(), 1);
}

/// DQ-024: a leader whose own time is over passes the lead on.
#[test]
fn a_leader_that_gives_up_passes_the_lead_on() {
    let clock = Watched::new();
    let queue = DelayQueue::with_clock(Arc::clone(&clock));
    queue.push(3 * STEP, 7);
    thread::scope(|scope| {
        let hasty = scope.spawn(|| queue.take_timeout(STEP));
        clock.await_waiting(1);
        let patient = scope.spawn(|| queue.take());
        clock.await_waiting(2);
        assert_eq!(clock.timed(), 1);
        clock.clock.jump(STEP);
        assert_eq!(hasty.join().unwrap(), Ok(None));
        eventually("the other leads", || clock.timed() == 1);
        clock.clock.jump(2 * STEP);
        assert_eq!(patient.join().unwrap(), Ok(7));
    });
}

// ---- all values, due or not

/// DQ-012: the earliest can be looked at before it is due, with the longest delay there is.
#[test]
fn a_peek_shows_the_earliest_before_it_is_due() {
    let (queue, clock) = queue();
    let far = queue.push(Duration::MAX, "far");
    let head = queue.peek().unwrap();
    assert_eq!((head.key, head.value, head.deadline), (far, "far", Tick::MAX));
    assert!(!head.remaining.is_due());
    queue.push(STEP, "near");
    clock.jump(3 * STEP);
    let head = queue.peek().unwrap();
    assert_eq!((head.value, head.remaining), ("near", Remaining::Overdue(2 * STEP)));
    assert_eq!(queue.next_in(), Some(Remaining::Overdue(2 * STEP)));
    assert_eq!(queue.len(), 2);
}

/// DQ-014, DQ-016: counting, looking and taking out by key cover what is not due; a key is good until its value has
/// left, and touches no other.
#[test]
fn a_key_is_good_until_its_value_has_left() {
    let (queue, clock) = queue();
    // Equal values are told apart.
    let [due, far, other] = [Duration::ZERO, HOUR, HOUR].map(|delay| queue.push(delay, 'x'));
    assert_eq!((queue.len(), queue.snapshot().len()), (3, 3));
    assert!(queue.contains(due) && queue.contains(far));
    assert_eq!(queue.remove(far), Some('x'));
    assert_eq!((queue.remove(far), queue.contains(far), queue.len()), (None, false, 2));
    assert_eq!(queue.try_take(), Some('x'));
    assert_eq!((queue.remove(due), queue.contains(due)), (None, false));
    // A new value may take the place of the old one, and the old keys do not find it.
    queue.push(HOUR, 'y');
    queue.push(HOUR, 'z');
    assert_eq!((queue.remove(due), queue.remove(far)), (None, None));
    assert!(queue.contains(other));
    clock.jump(HOUR);
    assert_eq!(queue.drain_due(usize::MAX), ['x', 'y', 'z']);
}

/// DQ-014: clearing takes everything, due or not, and drops it.
#[test]
fn clearing_drops_everything() {
    let (queue, _clock) = queue();
    let (probe, captured) = Probe::new();
    queue.push(Duration::ZERO, Arc::clone(&captured));
    queue.push(Duration::MAX, captured);
    queue.clear();
    assert!(queue.is_empty() && probe.is_dropped());
}

/// DQ-017, DQ-025: keeping some values drops the others, due or not, says how many, and leaves order and keys as
/// they were. Of nothing it keeps nothing.
#[test]
fn retaining_drops_what_is_refused() {
    let (queue, clock) = queue();
    assert_eq!(queue.retain(|_| false), 0);
    let keys: Vec<_> = (0..100_u64).map(|n| queue.push(Duration::from_millis(n / 3), n)).collect();
    clock.jump(STEP);
    assert_eq!(queue.retain(|n| n % 4 == 0), 75);
    assert_eq!(queue.retain(|n| n % 4 == 0), 0);
    assert_eq!(values(&queue), (0..100).step_by(4).collect::<Vec<_>>());
    assert!(queue.contains(keys[40]) && !queue.contains(keys[41]));
    let panics = std::panic::AssertUnwindSafe(|| queue.retain(|n| *n < 50 && panic!("undecided")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(queue.len(), 25);
    assert_eq!(queue.retain(|_| false), 25);
    assert!(queue.is_empty());
}

/// DQ-021, DQ-022, DQ-025: a snapshot does not change with the queue; taking one of its entries out takes exactly
/// that one, if it is still there, though all are equal and none will ever be due.
#[test]
fn a_snapshot_stays_as_it_was() {
    let (queue, _clock) = queue();
    let keys = [(); 3].map(|()| queue.push(Duration::MAX, "same"));
    let picture = queue.snapshot();
    assert_eq!(picture.iter().map(|delayed| delayed.key).collect::<Vec<_>>(), keys);
    assert_eq!(queue.remove(picture[1].key), Some("same"));
    assert_eq!(keys.map(|key| queue.contains(key)), [true, false, true]);
    queue.clear();
    assert_eq!(picture.len(), 3);
    assert!(picture.iter().all(|delayed| delayed.value == "same" && queue.remove(delayed.key).is_none()));
}

/// DQ-024: threads that put in, take, take out and give up, all at once, lose nothing.
#[test]
fn nothing_is_lost_in_a_crowd() {
    const EACH: usize = 200;
    let (queue, taken) = (DelayQueue::new(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 0..EACH {
                    let key = queue.push(Duration::from_micros(n as u64 % 50), ());
                    if n % 5 == 0 && queue.remove(key).is_some() {
                        taken.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for patience in [Duration::from_micros(20), Duration::from_millis(5)] {
            let (queue, taken) = (&queue, &taken);
            scope.spawn(move || {
                while taken.load(Ordering::SeqCst) < 2 * EACH {
                    if queue.take_timeout(patience).unwrap().is_some() {
                        taken.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!((taken.load(Ordering::SeqCst), queue.len()), (2 * EACH, 0));
}
