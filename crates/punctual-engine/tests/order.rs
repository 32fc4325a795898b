//! Single properties of the order, each by itself. The letters and numbers are those of the behaviour catalogue;
//! "invariant N" is the numbering of the engine's design.

use std::rc::Rc;
use std::time::Duration;

use punctual_engine::{RunTimes, Schedule, TaskKey, Tick, TimerQueue};

fn tick(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

fn values<T>(queue: &mut TimerQueue<T>) -> Vec<T> {
    std::iter::from_fn(|| queue.pop()).map(|fired| fired.value).collect()
}

/// ST-037: a later submission with an earlier deadline overtakes.
#[test]
fn an_earlier_deadline_overtakes() {
    let mut queue = TimerQueue::new();
    for (number, deadline) in [50, 20, 40, 10, 30].into_iter().enumerate() {
        queue.insert(tick(deadline), number as u64, deadline);
    }
    assert_eq!(values(&mut queue), [10, 20, 30, 40, 50]);
}

/// ST-038, invariant 2: a million equal deadlines leave in order of submission, whatever order they came in and
/// wherever else in the queue there is something.
#[test]
fn equal_deadlines_leave_in_order_of_number() {
    const COUNT: u64 = 1_000_000;
    let mut queue = TimerQueue::new();
    queue.insert(tick(6), 0, 0);
    queue.insert(tick(4), 0, 0);
    for step in 0..COUNT {
        // Every number once, in a scattered order: the factor is odd and not a multiple of 5.
        let number = step * 333_667 % COUNT;
        queue.insert(tick(5), number, number);
    }
    assert_eq!(queue.pop().map(|fired| fired.deadline), Some(tick(4)));
    for number in 0..COUNT {
        let fired = queue.pop_due(tick(5)).expect("one of the million");
        assert_eq!((fired.number, fired.value), (number, number));
    }
    assert_eq!(queue.pop_due(tick(5)), None);
    assert_eq!(queue.len(), 1);
}

/// ST-041, NX-025: eleven tasks of exactly these delays; whichever is cancelled, the rest ascend.
#[test]
fn cancelling_one_leaves_the_rest_in_order() {
    const DELAYS: [u64; 11] = [3000, 3400, 3900, 3800, 3700, 3600, 3430, 3420, 3310, 3500, 3200];
    for gone in 0..DELAYS.len() {
        let mut queue = TimerQueue::new();
        let insert = |(number, delay)| queue.insert(tick(delay), number as u64, delay);
        let keys: Vec<TaskKey> = DELAYS.into_iter().enumerate().map(insert).collect();
        assert_eq!(queue.cancel(keys[gone]), Some(DELAYS[gone]));
        queue.verify();
        let mut expected: Vec<u64> = DELAYS.into_iter().filter(|&delay| delay != DELAYS[gone]).collect();
        expected.sort_unstable();
        assert_eq!(values(&mut queue), expected);
    }
}

/// ST-057: cancelling the head or any other entry removes exactly that one, and the next head is right.
#[test]
fn cancelling_removes_exactly_one() {
    const COUNT: u64 = 2_000;
    let mut queue = TimerQueue::new();
    let keys: Vec<TaskKey> = (0..COUNT).map(|nanos| queue.insert(tick(nanos), 0, nanos)).collect();
    for step in 0..COUNT / 4 {
        let head = queue.peek().map(|(key, _, _, &value)| (key, value)).expect("a head");
        assert_eq!(head, (keys[2 * step as usize], 2 * step));
        assert_eq!(queue.cancel(head.0), Some(2 * step));
        assert_eq!(queue.next_deadline(), Some(tick(2 * step + 1)));
        assert_eq!(queue.cancel(keys[(2 * step + 1) as usize]), Some(2 * step + 1));
        let other = COUNT - 1 - step;
        assert_eq!(queue.cancel(keys[other as usize]), Some(other));
        assert_eq!(queue.len() as u64, COUNT - 3 * (step + 1));
        assert_eq!(queue.next_deadline(), Some(tick(2 * step + 2)));
    }
    queue.verify();
}

/// ST-043, invariant 14: the first, the middle and the last instants neither wrap nor panic.
#[test]
fn extreme_deadlines_keep_their_order() {
    const EXTREMES: [u64; 9] = [
        0,
        1,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX - 1,
        u64::MAX,
        u64::MAX,
    ];
    for turn in 0..EXTREMES.len() {
        let mut queue = TimerQueue::new();
        for step in 0..EXTREMES.len() * 200 {
            let which = (step + turn) % EXTREMES.len();
            let number = if step % 2 == 0 { u64::MAX - step as u64 } else { step as u64 };
            queue.insert(tick(EXTREMES[which]), number, ());
        }
        queue.verify();
        assert_eq!(queue.due_count(Tick::ZERO), 200);
        assert_eq!(queue.due_count(Tick::MAX), queue.len());
        assert_eq!(queue.pop_due(Tick::ZERO).map(|fired| fired.deadline), Some(Tick::ZERO));
        let rest = queue.drain();
        assert!(rest.is_sorted_by_key(|fired| (fired.deadline, fired.number)));
        assert_eq!(rest.last().map(|fired| fired.deadline), Some(Tick::MAX));
        assert_eq!(rest.len(), EXTREMES.len() * 200 - 1);
    }
}

/// Invariant 2: an engine made of digits would stumble where digits roll over. This one has none, and shows it.
#[test]
fn order_holds_across_every_power_of_two() {
    let mut queue = TimerQueue::new();
    let mut expected = Vec::new();
    for bits in 0..64 {
        for offset in 0..8 {
            for base in [1_u64 << bits, 255 << (bits & !7), 63 << bits.min(58)] {
                let deadline = (base - 1).saturating_add(offset).wrapping_sub(4);
                let number = expected.len() as u64;
                queue.insert(tick(deadline), number, (deadline, number));
                expected.push((deadline, number));
            }
        }
    }
    expected.sort_unstable();
    queue.verify();
    // Stepping the clock to every instant there is: nothing early, nothing left behind (invariant 3).
    let mut fired = Vec::new();
    for &(now, _) in &expected {
        if let Some(before) = now.checked_sub(1) {
            assert_eq!(queue.pop_due(tick(before)), None);
        }
        fired.extend(std::iter::from_fn(|| queue.pop_due(tick(now))).map(|fired| fired.value));
    }
    assert!(fired == expected, "out of order");
}

/// Invariant 13: a fixed-rate task that is late re-enters below what has left already, with the number it has had
/// from the first, and takes its place among those that are due.
#[test]
fn a_late_rerun_takes_its_place_among_the_due() {
    let period = Schedule::FixedRate(Duration::from_nanos(10));
    let mut queue = TimerQueue::new();
    queue.insert(tick(10), 0, "rate");
    queue.insert(tick(20), 1, "b");
    queue.insert(tick(25), 2, "c");
    queue.insert(tick(95), 3, "d");
    let now = tick(100);
    let mut ran = Vec::new();
    while let Some(fired) = queue.pop_due(now) {
        ran.push((fired.value, fired.deadline.as_nanos()));
        if fired.value == "rate" {
            let next = period.next(RunTimes { deadline: fired.deadline, started: now, ended: now });
            queue.insert(next.expect("periodic"), fired.number, "rate");
        }
        queue.verify();
    }
    let mut expected: Vec<_> = (1..=10).map(|n| ("rate", n * 10)).collect();
    expected.extend([("b", 20), ("c", 25), ("d", 95)]);
    expected.sort_by_key(|&(name, deadline)| (deadline, name != "rate"));
    assert_eq!(ran, expected);
    assert_eq!(queue.next_deadline(), Some(tick(110)));
}

/// DQ-002, invariant 8: whatever leaves the queue, in whichever way, is not held by it any more, and what is
/// inside goes with it; each value is dropped once.
#[test]
fn nothing_is_kept_of_what_has_left() {
    let witness = Rc::new(());
    let mut queue = TimerQueue::new();
    let keys: Vec<TaskKey> =
        (0..5_000).map(|nanos| queue.insert(tick(nanos * 7 % 1_000), nanos, Rc::clone(&witness))).collect();
    assert_eq!(Rc::strong_count(&witness), 5_001);
    for key in keys.iter().step_by(3) {
        drop(queue.cancel(*key));
    }
    assert_eq!(Rc::strong_count(&witness), queue.len() + 1);
    for _ in 0..1_000 {
        drop(queue.pop());
    }
    assert_eq!(Rc::strong_count(&witness), queue.len() + 1);
    let rest = queue.drain();
    assert_eq!(Rc::strong_count(&witness), rest.len() + 1);
    drop(rest);
    assert_eq!(Rc::strong_count(&witness), 1);
    for nanos in 0..1_000 {
        queue.insert(tick(nanos), 0, Rc::clone(&witness));
    }
    drop(queue);
    assert_eq!(Rc::strong_count(&witness), 1);
}

/// A key that was never handed out, or by another queue, finds nothing or at least nothing that is not there.
#[test]
fn foreign_keys_are_harmless() {
    let mut queue = TimerQueue::new();
    assert_eq!(queue.cancel(TaskKey::NONE), None);
    let key = queue.insert(tick(1), 0, 'a');
    for bits in [0, 1, u64::MAX, u64::MAX << 32, key.to_bits() + 1, key.to_bits() + (1 << 32)] {
        let foreign = TaskKey::from_bits(bits);
        if foreign != key {
            assert_eq!(queue.cancel(foreign), None);
            assert_eq!(queue.get(foreign), None);
            assert!(!queue.contains(foreign));
        }
    }
    queue.cancel(key);
    // The generation of the next tenant, while there is none.
    assert_eq!(queue.cancel(TaskKey::from_bits(key.to_bits() + 1)), None);
    queue.verify();
}
