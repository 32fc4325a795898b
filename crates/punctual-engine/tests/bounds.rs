//! What a call may cost and what a queue may hold, by count and never by time.

use punctual_engine::{TaskKey, Tick, TimerQueue};

const MILLION: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Invariant 9: the most that one call may look at or move.
const MOST: u64 = 1_500;

/// Measures every call.
#[derive(Default)]
struct Measured {
    queue: TimerQueue<u64>,
    number: u64,
    most: [u64; 4],
}

impl Measured {
    fn call<R>(&mut self, kind: usize, call: impl FnOnce(&mut TimerQueue<u64>) -> R) -> R {
        let before = self.queue.work();
        let result = call(&mut self.queue);
        self.most[kind] = self.most[kind].max(self.queue.work() - before);
        result
    }

    fn insert(&mut self, deadline: u64) -> TaskKey {
        self.number += 1;
        let number = self.number;
        self.call(0, |queue| queue.insert(Tick::from_nanos(deadline), number, deadline))
    }

    fn cancel(&mut self, key: TaskKey) -> Option<u64> {
        self.call(1, |queue| queue.cancel(key))
    }

    fn pop(&mut self) -> Option<u64> {
        self.call(2, |queue| queue.pop().map(|fired| fired.value))
    }

    fn tend(&mut self) -> bool {
        self.call(3, TimerQueue::tend_ahead)
    }

    fn pop_all(&mut self) {
        let mut last = 0;
        while let Some(deadline) = self.pop() {
            assert!(last <= deadline);
            last = deadline;
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.most.iter().all(|&most| most <= MOST), "insert, cancel, pop, tend: {:?}", self.most);
            self.queue.verify();
        }
    }
}

/// Invariant 9, at a million entries of every distribution: fill, hold, empty.
#[test]
fn no_call_does_much_whatever_the_deadlines() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut shapes: [Box<dyn FnMut(u64, u64) -> u64>; 11] = [
        Box::new(|_, now| now + random.u64(..SECOND)),
        Box::new(|step, _| step),
        Box::new(|step, _| 4 * MILLION - step),
        Box::new(|_, now| now),
        // Two ascending streams, the second in the gaps of the first and then beyond it.
        Box::new(|step, now| now + step % 2 * 1_000 + step),
        // All there is into one spot, alternately from below and from above.
        Box::new(|step, _| if step % 2 == 0 { MILLION * 4 - step } else { MILLION * 4 + 4 * MILLION - step }),
        // A sawtooth, with teeth of some leaves each.
        Box::new(|step, now| now + step % 1_009 * MILLION + step),
        // Nine of ten far away, so that what is near runs out again and again.
        Box::new(|step, now| {
            now + if step % 10 == 0 { step % 1_000 } else { SECOND + step * 7_919 % MILLION }
        }),
        // Runs in order, each beginning at a random place: leaves that are full slices, and stamps between them.
        Box::new(|step, now| now + step / 5_000 * 617_411 % 1_009 * MILLION + step % 5_000 * 1_000),
        // Crowds, far from each other: between them there is room for many leaves, and no entry.
        Box::new(|step, now| (now / SECOND + step * 7_919 % 10 * 3 + 1) * SECOND + step * 104_729 % 1_000),
        // All within a second, a year ahead: what is far is told apart by the millisecond.
        Box::new(|step, now| now.max(1 << 55) + step * 7_919 % MILLION * 1_000),
    ];
    for shape in &mut shapes {
        let mut measured = Measured::default();
        for step in 0..MILLION {
            measured.insert(shape(step, 0));
        }
        for step in MILLION..MILLION + MILLION / 4 {
            let now = measured.pop().expect("an entry");
            measured.insert(shape(step, now));
        }
        measured.pop_all();
    }
}

/// What is done between the calls need not be done by them: 200,000 entries have to come near, and no pop in a row of many
/// has anything to do with that.
#[test]
fn who_has_time_enough_between_calls_finds_them_short() {
    // The longest row of pops that each did a whole step of the sifting, and so took several times as long as others.
    let longest_row = |has_time: bool| {
        let mut random = fastrand::Rng::with_seed(5);
        let mut measured = Measured::default();
        for _ in 0..MILLION / 5 {
            measured.insert(random.u64(..SECOND));
        }
        let (mut row, mut longest) = (0, 0);
        while !measured.queue.is_empty() {
            let before = measured.queue.work();
            measured.pop();
            row = if measured.queue.work() - before > 200 { row + 1 } else { 0 };
            longest = longest.max(row);
            while has_time && measured.tend() {}
        }
        longest
    };
    let (hurried, calm) = (longest_row(false), longest_row(true));
    assert!(hurried > 500, "{hurried}: then there is nothing to be gained");
    assert!(calm <= 2, "{calm}");
}

/// With time for one small step between two calls, the calls take none, but for the few refills of the front.
#[test]
fn a_sifting_that_was_begun_in_time_leaves_the_calls_alone() {
    let mut random = fastrand::Rng::with_seed(6);
    let mut measured = Measured::default();
    for _ in 0..MILLION / 2 {
        measured.insert(random.u64(..SECOND));
    }
    while measured.tend() {}
    let (mut long, mut last) = (0, 0);
    while let Some(deadline) = {
        let before = measured.queue.work();
        let popped = measured.pop();
        long += u64::from(measured.queue.work() - before > 200);
        popped
    } {
        assert!(last <= deadline);
        last = deadline;
        measured.tend();
    }
    assert!(long < MILLION / 2 / 100, "{long} calls were long");
}

/// And if there is no time after all, they take them soon enough: none has to catch up.
#[test]
fn a_sifting_that_was_begun_and_left_to_the_calls_makes_none_of_them_long() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut measured = Measured::default();
    for _ in 0..MILLION {
        measured.insert(random.u64(..SECOND));
    }
    // A step where nothing is under way begins a sifting, and there it stays.
    while !measured.queue.is_empty() {
        measured.tend();
        for _ in 0..200_000 {
            measured.pop();
        }
    }
}

/// Invariant 9 where it is hardest: almost all is cancelled, in some order, and then the rest is popped or the head
/// cancelled. Whoever comes upon the graves must not have to walk past all of them.
#[test]
fn no_call_does_much_whatever_is_cancelled() {
    for every in [2, 17, 1_000, MILLION] {
        for order in 0..3 {
            let mut random = fastrand::Rng::with_seed(every);
            let mut measured = Measured::default();
            let mut keys: Vec<(u64, TaskKey)> = (0..MILLION / 4)
                .map(|step| if order == 1 { random.u64(..SECOND) } else { step })
                .map(|deadline| (deadline, measured.insert(deadline)))
                .collect();
            if order == 2 {
                random.shuffle(&mut keys[1..]);
            }
            for (step, &(deadline, key)) in keys.iter().enumerate() {
                if step as u64 % every != 0 {
                    assert_eq!(measured.cancel(key), Some(deadline));
                }
            }
            assert_eq!(measured.queue.len() as u64, (MILLION / 4).div_ceil(every));
            // Half of the rest go by cancelling the head, half by firing.
            while let Some((head, ..)) = measured.queue.peek() {
                measured.cancel(head);
                measured.pop();
            }
        }
    }
}

/// Invariant 9 where a sifting has least time: at a million entries what is near is cancelled, in order, as fast as
/// calls can follow each other; then all but one in a hundred, at random; then the rest fires.
#[test]
fn no_call_does_much_when_all_that_is_near_is_cancelled() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut measured = Measured::default();
    let mut keys: Vec<(u64, TaskKey)> = (0..MILLION)
        .map(|_| random.u64(..SECOND))
        .map(|deadline| (deadline, measured.insert(deadline)))
        .collect();
    keys.sort_unstable_by_key(|entry| entry.0);
    let mut rest = keys.split_off(keys.len() / 2);
    for (deadline, key) in keys {
        assert_eq!(measured.cancel(key), Some(deadline));
    }
    assert_eq!(measured.queue.next_deadline(), Some(Tick::from_nanos(rest[0].0)));
    random.shuffle(&mut rest);
    for (deadline, key) in rest.drain(rest.len() / 100..) {
        assert_eq!(measured.cancel(key), Some(deadline));
    }
    assert_eq!(measured.queue.len(), rest.len());
    measured.pop_all();
}

/// Invariant 9 where nearly all slots that there were have been given back: whoever looks for what is far has to pass them by,
/// and none of them is far any more.
#[test]
fn no_call_does_much_where_most_slots_are_gone() {
    let mut random = fastrand::Rng::with_seed(9);
    let mut measured = Measured::default();
    let far = (0..2 * MILLION).map(|_| 3 * SECOND + random.u64(..SECOND)).collect::<Vec<_>>();
    let near = (0..2 * MILLION / 11).map(|_| SECOND + random.u64(..SECOND)).collect::<Vec<_>>();
    let mut keys: Vec<TaskKey> =
        far.into_iter().chain(near).map(|deadline| measured.insert(deadline)).collect();
    let rest = keys.split_off(keys.len() - 100_000);
    keys.into_iter().for_each(|key| assert!(measured.cancel(key).is_some()));
    assert_eq!(measured.queue.len(), rest.len());
    measured.pop_all();
}

/// Inserts of every kind fall into siftings at every stage; those to the far end are many times as many as what is
/// near, so that what is near has to keep pace with what is far.
#[test]
fn no_call_does_much_while_a_flood_comes_in() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut measured = Measured::default();
    let mut now = 0;
    for step in 0..MILLION {
        measured.insert(now + SECOND + random.u64(..SECOND));
        if step % 8 == 0 {
            measured.insert(now + random.u64(..SECOND / 100));
        }
        if step % 4 == 0 {
            now = now.max(measured.pop().expect("an entry"));
        }
    }
    measured.pop_all();
}

/// What an entry costs on the whole: a far insert next to nothing beyond the push, and what comes and goes in order
/// is not moved one by one.
#[test]
fn entries_pay_when_they_leave_and_little_if_they_came_in_order() {
    let mut random = fastrand::Rng::with_seed(9);
    let check = |name: &str, insert: u64, pop: u64, deadline: &mut dyn FnMut(u64) -> u64| {
        let mut queue = TimerQueue::new();
        for step in 0..MILLION {
            queue.insert(Tick::from_nanos(deadline(step)), step, ());
        }
        let inserted = queue.work();
        assert!(inserted <= insert * MILLION, "{name}: {inserted} looks for a million inserts");
        while queue.pop().is_some() {}
        let popped = queue.work() - inserted;
        assert!(popped <= pop * MILLION, "{name}: {popped} looks for a million pops");
    };
    check("uniform", 1, 10, &mut |_| random.u64(..SECOND));
    check("ascending", 2, 6, &mut |step| step);
    check("descending", 4, 8, &mut |step| MILLION - step);
}

/// What comes near is put in order by two or three digits: found, moved once for each, looked through.
#[test]
fn what_comes_near_is_moved_a_few_times() {
    let mut random = fastrand::Rng::with_seed(10);
    let mut queue = TimerQueue::new();
    for number in 0..MILLION / 5 {
        queue.insert(Tick::from_nanos(random.u64(..SECOND)), number, ());
    }
    let before = queue.work();
    while queue.tend_ahead() {}
    let looks = queue.work() - before;
    assert!(looks <= MILLION / 5 * 6, "{looks}");
}

/// Whoever stands in line may be cancelled, one after the other or in any order, all of a stretch or nearly all: nobody has to look for
/// the next for long.
#[test]
fn no_call_does_much_where_a_stretch_of_the_line_is_cancelled() {
    let mut random = fastrand::Rng::with_seed(11);
    for (in_order, spared) in [(true, 0), (false, 0), (true, 5_000), (false, 5_000)] {
        let mut measured = Measured::default();
        let mut keys: Vec<(u64, TaskKey)> = Vec::new();
        for _ in 0..MILLION / 4 {
            let deadline = random.u64(..SECOND);
            keys.push((deadline, measured.insert(deadline)));
        }
        while measured.tend() {}
        keys.sort_unstable_by_key(|&(deadline, _)| deadline);
        let mut stretch = keys[2_000..100_000].to_vec();
        if !in_order {
            random.shuffle(&mut stretch);
        }
        for (at, (_, key)) in stretch.into_iter().enumerate() {
            if spared == 0 || at % spared != 0 {
                measured.cancel(key);
            }
        }
        measured.pop_all();
    }
}

/// Arrivals that descend, but not below a leaf that is full, look through that leaf once and not every time.
#[test]
fn descending_arrivals_above_a_full_leaf_do_not_scan_it_each_time() {
    // For one of these lengths the last leaf is just full.
    for length in 1_000..1_300 {
        let mut queue = TimerQueue::new();
        for step in 0..length {
            queue.insert(Tick::from_nanos(step), step, ());
        }
        let before = queue.work();
        for step in 0..500 {
            queue.insert(Tick::from_nanos(100_000 - step), step, ());
        }
        let looks = queue.work() - before;
        assert!(looks <= 10 * 500, "{looks} looks for 500 inserts after {length}");
    }
}

/// Memory stays flat under the timeout pattern: P pending, and each step queues one at 30 s ± 5 s and cancels a
/// random earlier one, while the clock goes on.
#[test]
fn timeouts_that_are_cancelled_leave_nothing_behind() {
    const PENDING: usize = 100_000;
    for step_nanos in [0, 20_000] {
        let mut random = fastrand::Rng::with_seed(5);
        let mut measured = Measured::default();
        let mut now = 0;
        let mut keys: Vec<TaskKey> = Vec::new();
        for _ in 0..PENDING {
            keys.push(measured.insert(now + 25 * SECOND + random.u64(..10 * SECOND)));
        }
        // The most there was memory for, in the first and in the second half.
        let mut most = [[0; 3]; 2];
        for step in 0..12 * PENDING {
            let key = &mut keys[random.usize(..PENDING)];
            measured.cancel(*key);
            *key = measured.insert(now + 25 * SECOND + random.u64(..10 * SECOND));
            now += step_nanos;
            while measured.call(2, |queue| queue.pop_due(Tick::from_nanos(now))).is_some() {}
            if step % 1_000 == 0 {
                let footprint = measured.queue.footprint();
                let here = [footprint.stamps, footprint.slots, footprint.leaves];
                let most = &mut most[usize::from(step >= 6 * PENDING)];
                *most = [0, 1, 2].map(|row| most[row].max(here[row]));
            }
        }
        let [first, second] = most;
        let limits = [PENDING * 5 / 2, PENDING + 2_048, PENDING / 64];
        for row in 0..3 {
            // A tenth, or a chunk of leaves: a look every thousand steps need not see the most there was.
            let most = (first[row] * 11 / 10).max(first[row] + 64);
            assert!(second[row] <= most, "memory grows: {first:?}, then {second:?}");
            assert!(second[row] <= limits[row], "memory for {second:?}, not {limits:?}");
        }
    }
}

/// What is cancelled at once costs no memory, however often and wherever.
#[test]
fn a_million_fleeting_entries_leave_nothing_behind() {
    let mut measured = Measured::default();
    for deadline in [0, 1_000, 1_000] {
        measured.insert(deadline);
    }
    for step in 0..MILLION {
        let key = measured.insert(step % 2_000);
        assert_eq!(measured.cancel(key), Some(step % 2_000));
    }
    let footprint = measured.queue.footprint();
    assert!(footprint.stamps <= 2_000, "{footprint:?}");
    assert!(footprint.slots <= 1_024, "{footprint:?}");
}

/// Few survivors of many entries hold little memory, wherever they are.
#[test]
fn survivors_hold_little_memory() {
    let mut measured = Measured::default();
    let mut random = fastrand::Rng::with_seed(6);
    let keys: Vec<TaskKey> = (0..MILLION).map(|_| measured.insert(random.u64(..SECOND))).collect();
    for (step, key) in keys.into_iter().enumerate() {
        if step % 1_000 != 0 {
            measured.cancel(key);
        }
    }
    let footprint = measured.queue.footprint();
    assert_eq!(measured.queue.len(), 1_000);
    assert!(footprint.stamps <= 20_000, "{footprint:?}");
    assert!(footprint.leaves <= 1_500, "{footprint:?}");
}

/// Invariant 8, second half: a queue that was large and has run empty has given its memory back on the way, and
/// after `drain` all of it; and no key from before finds anything.
#[test]
fn an_empty_queue_holds_no_memory() {
    let mut measured = Measured::default();
    let mut keys: Vec<TaskKey> = (0..MILLION).map(|step| measured.insert(step * 7_919 % MILLION)).collect();
    let mut slots = measured.queue.footprint().slots;
    assert!(slots >= MILLION as usize);
    measured.pop_all();
    slots = measured.queue.footprint().slots;
    assert!(slots <= 1_024, "memory for {slots} values in an empty queue");
    assert!(measured.queue.footprint().stamps <= 1_000);

    keys.extend((0..10_000).map(|step| measured.insert(step)));
    assert_eq!(measured.queue.drain().len(), 10_000);
    let footprint = measured.queue.footprint();
    assert_eq!((footprint.stamps, footprint.slots, footprint.leaves), (0, 0, 0));

    // New tenants in the same slots: the old keys stay stale.
    for step in 0..10_000 {
        measured.insert(step);
    }
    assert!(keys.into_iter().all(|key| !measured.queue.contains(key)));
    assert_eq!(measured.queue.len(), 10_000);
}

/// Invariant 9 for whoever inserts a few at a time and sees to the queue once for all of them: what was put off does not
/// pile up, and no later call pays for it.
#[test]
fn inserts_that_share_their_upkeep_make_no_later_call_long() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut measured = Measured::default();
    for _ in 0..7_000 {
        measured.insert(random.u64(..SECOND));
    }
    // All of it far behind: what is near becomes too little beside it, and nothing but these calls can see to that.
    for _ in 0..2 * MILLION / 64 {
        for _ in 0..64 {
            measured.number += 1;
            let (number, deadline) = (measured.number, 10 * SECOND + random.u64(..10 * SECOND));
            measured.call(0, |queue| queue.insert_untended(Tick::from_nanos(deadline), number, deadline));
        }
        measured.call(0, TimerQueue::upkeep);
    }
    measured.pop_all();
}
