//! The model tests once more, with limits so small (see `cfg!(test)`) that every rare path is common.

#[path = "../../tests/trio/mod.rs"]
mod trio;

use proptest::prelude::*;
use std::rc::Rc;
use std::vec::Vec;

use super::coarse::Coarse;
use super::sift::Stage;
use crate::{TaskKey, Tick, TimerQueue};
use trio::{SHAPES, grow_hold_shrink, op, run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Invariants 1, 2, 3, 4, 5, 8, 13, with all of the queue's own after every step.
    #[test]
    fn no_step_breaks_an_invariant(
        (start, ops) in (0..60_u32, any::<u64>(), 0..64_u32).prop_flat_map(|(bits, start, shift)| {
            (Just(start >> shift), proptest::collection::vec(op(u64::MAX >> bits), 1..400))
        })
    ) {
        run(&ops, start, true);
    }
}

/// Invariants 1, 2, 3, 5, 8, 13 across many groups and chunks.
#[test]
fn long_runs_of_every_shape_agree_with_the_model() {
    fastrand::seed(8);
    for shape in SHAPES {
        grow_hold_shrink(shape, 5_000);
    }
}

/// Entries that agree in deadline and number are against the contract, but lose nothing and break nothing.
#[test]
fn equal_orders_break_nothing() {
    fastrand::seed(9);
    let mut queue = TimerQueue::new();
    let mut keys = Vec::new();
    for step in 0..2_000_u64 {
        keys.push(queue.insert(Tick::from_nanos(step % 3), 0, step));
        if step % 3 == 0 {
            queue.cancel(keys[fastrand::usize(..keys.len())]);
        }
        queue.verify();
    }
    let before = queue.len();
    let all = queue.drain();
    assert_eq!(all.len(), before);
    assert!(all.is_sorted_by_key(|fired| fired.deadline));
}

/// Behind a live head, everything for a long way is dead: the next pop must not pay for all of it. By count.
#[test]
fn a_run_of_dead_entries_is_gone_before_it_is_met() {
    let mut queue = TimerQueue::new();
    let keys: Vec<_> = (0..10_000).map(|nanos| queue.insert(Tick::from_nanos(nanos), 0, nanos)).collect();
    for &key in &keys[1..9_999] {
        queue.cancel(key);
        queue.verify();
    }
    let before = queue.work();
    assert_eq!(queue.pop().map(|fired| fired.value), Some(0));
    assert!(queue.work() - before < 100, "{}", queue.work() - before);
    assert_eq!(queue.pop().map(|fired| fired.value), Some(9_999));
    queue.verify();
}

/// A queue in the middle of a sifting, with all deadlines that are in it.
fn sifting(random: &mut fastrand::Rng) -> (TimerQueue<u64>, Vec<(u64, TaskKey)>) {
    loop {
        let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
        for number in 0..random.u64(500..1_500) {
            let deadline = random.u64(..100_000);
            entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
        }
        while queue.far.sift.stage != Stage::Sifting && queue.pop().is_some() {}
        for _ in 0..random.u32(1..20) {
            queue.pop();
        }
        entries.retain(|&(_, key)| queue.contains(key));
        if queue.far.sift.stage == Stage::Sifting && queue.far.sift.at + 8 < queue.far.sift.end {
            queue.verify();
            return (queue, entries);
        }
    }
}

/// What the queue gives out is all of this, in order.
fn gives(mut queue: TimerQueue<u64>, mut deadlines: Vec<u64>) {
    deadlines.sort_unstable();
    for deadline in deadlines {
        assert_eq!(queue.pop().map(|fired| fired.value), Some(deadline));
        queue.verify();
    }
    assert!(queue.is_empty());
}

/// Counting, listing and draining find each entry once, wherever it is at that moment.
#[test]
fn all_is_exact_in_the_middle_of_a_sifting() {
    let mut random = fastrand::Rng::with_seed(10);
    for _ in 0..20 {
        let (mut queue, entries) = sifting(&mut random);
        let mut deadlines: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        deadlines.sort_unstable();
        let mut listed: Vec<u64> = queue.iter().map(|entry| *entry.value).collect();
        listed.sort_unstable();
        assert_eq!(listed, deadlines);
        assert_eq!(queue.len(), deadlines.len());
        for now in (0..100_000).step_by(997) {
            let due = deadlines.partition_point(|&deadline| deadline <= now);
            assert_eq!(queue.due_count(Tick::from_nanos(now)), due);
        }
        let drained: Vec<u64> = queue.drain().iter().map(|fired| fired.value).collect();
        assert_eq!(drained, deadlines);
        assert_eq!((queue.footprint().stamps, queue.footprint().leaves), (0, 0));
        queue.verify();
    }
}

/// What arrives while sifting finds its place on either side of the floor and of the limit.
#[test]
fn arrivals_during_a_sifting_keep_the_order() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20 {
        let (mut queue, entries) = sifting(&mut random);
        let mut deadlines: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        let [floor, limit] = [queue.floor(), queue.far.limit].map(|order| (order >> 64) as u64);
        let limit = limit.min(100_000);
        for step in 0..random.u64(1..100) {
            let middle = floor + (limit - floor) / 2;
            let deadline = [0, floor, floor + 1, middle, limit, limit + 1, 200_000][random.usize(..7)];
            queue.insert(Tick::from_nanos(deadline), 10_000 + step, deadline);
            deadlines.push(deadline);
            queue.verify();
        }
        gives(queue, deadlines);
    }
}

/// Cancels that take away all that is near, faster than a sifting with small steps can follow: it must catch up.
#[test]
fn the_front_never_overtakes_a_sifting() {
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..20 {
        let (mut queue, mut entries) = sifting(&mut random);
        let floor = (queue.floor() >> 64) as u64;
        entries.sort_unstable_by_key(|entry| entry.0);
        let near = entries.partition_point(|&(deadline, _)| deadline <= floor);
        for (_, key) in entries.drain(..near) {
            assert!(queue.cancel(key).is_some());
            queue.verify();
        }
        gives(queue, entries.into_iter().map(|entry| entry.0).collect());
    }
}

/// Nothing is left near but a short front, and the next arrival is above the floor: below what has been brought near,
/// but perhaps not below what has not. It must not slip into the front.
#[test]
fn an_arrival_just_above_the_floor_waits_for_the_sifting() {
    let mut random = fastrand::Rng::with_seed(14);
    let mut seen = 0;
    while seen < 5 {
        let (mut queue, mut entries) = sifting(&mut random);
        let floor = (queue.floor() >> 64) as u64;
        let front: Vec<TaskKey> = queue.front.iter().rev().take(2).map(|stamp| stamp.key).collect();
        entries.retain(|&(deadline, key)| {
            let stays = deadline > floor || front.contains(&key);
            if !stays {
                queue.cancel(key);
            }
            stays
        });
        if queue.front.len() > 2 {
            queue.purge_front();
        }
        // One above the floor would pass for equal to it.
        let gap = queue.floor() + 2;
        if queue.far.sift.stage != Stage::Sifting
            || queue.index.first_bound().is_some_and(|bound| bound <= gap)
        {
            continue;
        }
        seen += 1;
        queue.insert(Tick::from_nanos((gap >> 64) as u64), gap as u64, floor);
        queue.verify();
        gives(queue, entries.iter().map(|entry| entry.0).chain([floor]).collect());
    }
}

/// All that is far is cancelled while it is being sifted, and whatever comes then comes out.
#[test]
fn a_sifting_ends_when_nothing_far_is_left() {
    let mut random = fastrand::Rng::with_seed(13);
    for _ in 0..20 {
        let (mut queue, mut entries) = sifting(&mut random);
        random.shuffle(&mut entries);
        let is_near = |key: TaskKey| Coarse::from_link(queue.slab.link(key.slot)) == Coarse::NEVER;
        let (near, far) = entries.into_iter().partition::<Vec<_>, _>(|&(_, key)| is_near(key));
        for (_, key) in far {
            assert!(queue.cancel(key).is_some());
            queue.verify();
        }
        assert_eq!((queue.far.live, queue.line.live), (0, 0));
        gives(queue, near.into_iter().map(|entry| entry.0).collect());
    }
}

/// Many are cancelled between two steps, again and again: what a sifting has found is looked through once all the same.
#[test]
fn a_sifting_comes_to_its_end_whatever_is_cancelled_meanwhile() {
    let mut random = fastrand::Rng::with_seed(61);
    let mut queue = TimerQueue::new();
    let insert = |queue: &mut TimerQueue<u64>, random: &mut fastrand::Rng, now: u64| {
        let number = random.u64(..);
        queue.insert_untended(Tick::from_nanos(now + random.u64(..1 << 40)), number, number)
    };
    let mut keys: Vec<_> = (0..20_000).map(|_| insert(&mut queue, &mut random, 0)).collect();
    let (mut rounds, mut longest, mut siftings) = (0, 0, 0);
    for now in 0..60_000 {
        let first = random.usize(..keys.len() - 8);
        let _ = queue.cancel_each(&keys[first..first + 8], drop);
        for key in &mut keys[first..first + 8] {
            if !queue.contains(*key) {
                *key = insert(&mut queue, &mut random, now << 26);
            }
        }
        rounds = if queue.far.sift.stage == Stage::Lining { rounds + 1 } else { 0 };
        siftings += usize::from(rounds == 1);
        longest = longest.max(rounds);
    }
    queue.verify();
    assert!(siftings > 5, "{siftings} in all");
    // A quarter of all is found, and every round takes a step, in which six are looked through.
    assert!(longest < queue.slab.breadth() / 4 / 6, "one was looked through for {longest} rounds");
}

/// All who have joined the line are cancelled before the others are looked through, while some of them have been called: what
/// comes then is in its place before and behind these.
#[test]
fn a_line_that_is_disbanded_while_others_are_to_join_leaves_its_floor() {
    let mut random = fastrand::Rng::with_seed(62);
    let mut seen = 0;
    while seen < 20 {
        let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
        for number in 0..random.u64(2_000..4_000) {
            let deadline = random.u64(..1_000_000_000);
            entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
        }
        while queue.near() > 8 && queue.pop().is_some() {}
        while queue.far.sift.stage != Stage::Sorting && queue.tend_ahead() {}
        entries.retain(|&(_, key)| queue.contains(key));
        entries.sort_unstable_by_key(|entry| entry.0);
        // So that the living are picked out.
        for _ in 0..12 {
            let (_, key) = entries.remove(random.usize(20..100));
            queue.cancel(key);
        }
        while !(queue.far.sift.stage == Stage::Lining && queue.line.live >= 12) && queue.tend_ahead() {}
        let near = queue.line.floor.min(queue.far.sift.floor);
        while queue.front.first().is_none_or(|stamp| stamp.order() <= near) {
            assert_eq!(queue.pop().map(|fired| fired.value), Some(entries.remove(0).0));
        }
        if queue.far.sift.stage != Stage::Lining || queue.line.live == 0 {
            continue;
        }
        seen += 1;
        let is_in_line =
            |queue: &TimerQueue<u64>, deadline: u64| queue.line.has(Coarse::of(Tick::from_nanos(deadline)));
        let called = queue.front.len();
        let end = entries.partition_point(|&(deadline, _)| is_in_line(&queue, deadline));
        let until = queue.far.sift.until;
        let found = entries.partition_point(|&(deadline, _)| Coarse::of(Tick::from_nanos(deadline)) <= until);
        let others: Vec<_> = entries.drain(end..found).map(|entry| entry.1).collect();
        assert_eq!(queue.cancel_each(&others, drop), others.len());
        while queue.line.live > 0 && queue.far.sift.stage == Stage::Lining {
            let (_, key) = entries.remove(called);
            assert!(queue.cancel(key).is_some());
            queue.verify();
        }
        assert!(queue.line.live == 0 && queue.far.sift.stage == Stage::Lining && queue.front.len() == called);
        let last = entries[called - 1].0;
        let mut deadlines: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        for (number, deadline) in [last - 1, last, last + 1, last + 2].into_iter().enumerate() {
            queue.insert(Tick::from_nanos(deadline), 10_000 + number as u64, deadline);
            deadlines.push(deadline);
            queue.verify();
        }
        gives(queue, deadlines);
    }
}

/// Crowds at a few instants, far from each other, do not stand in line, and come out in order all the same.
#[test]
fn crowds_go_to_the_leaves() {
    let mut random = fastrand::Rng::with_seed(15);
    for crowds in 1..8 {
        let (mut queue, mut deadlines) = (TimerQueue::new(), Vec::new());
        for number in 0..2_000 {
            let deadline = random.u64(1..=crowds) * 1_000_000 + random.u64(..3);
            queue.insert(Tick::from_nanos(deadline), number, deadline);
            deadlines.push(deadline);
        }
        deadlines.sort_unstable();
        for deadline in deadlines {
            assert_eq!(queue.pop().map(|fired| fired.value), Some(deadline));
            queue.verify();
            assert_eq!(queue.line.live, 0, "they stand in line");
        }
        assert!(queue.index.first_bound().is_none());
    }
}

/// A queue some of whose entries stand in line, with all deadlines that are in it.
fn lined_up(random: &mut fastrand::Rng) -> (TimerQueue<u64>, Vec<(u64, TaskKey)>) {
    let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
    for number in 0..random.u64(500..3_000) {
        let deadline = random.u64(..1_000_000);
        entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
    }
    while queue.line.live < 30 {
        assert!(queue.tend_ahead() || queue.pop().is_some(), "a line on the way");
    }
    entries.retain(|&(_, key)| queue.contains(key));
    entries.sort_unstable_by_key(|entry| entry.0);
    (queue, entries)
}

/// Whoever comes before, among or behind those in line is in its place.
#[test]
fn arrivals_beside_a_line_keep_the_order() {
    let mut random = fastrand::Rng::with_seed(20);
    for _ in 0..20 {
        let (mut queue, entries) = lined_up(&mut random);
        let mut deadlines: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        for number in 10_000..10_000 + random.u64(1..500) {
            let first = deadlines.iter().min().copied().unwrap_or(0);
            let within = 1_000_000 >> random.u32(..12);
            let deadline = first + random.u64(..within);
            queue.insert(Tick::from_nanos(deadline), number, deadline);
            deadlines.push(deadline);
            queue.verify();
            if random.u8(..4) == 0 {
                let least = deadlines.iter().enumerate().min_by_key(|entry| entry.1).map(|entry| entry.0);
                let expected = least.map(|at| deadlines.swap_remove(at));
                assert_eq!(queue.pop().map(|fired| fired.value), expected);
                queue.verify();
            }
        }
        gives(queue, deadlines);
    }
}

/// Somebody in line is due in a year. What comes meanwhile, and is due before that, is far all the same, as soon as it is much.
#[test]
fn a_line_that_reaches_far_ahead_keeps_nobody_near() {
    let mut random = fastrand::Rng::with_seed(60);
    let (mut queue, mut deadlines) = (TimerQueue::new(), Vec::new());
    let mut insert = |queue: &mut TimerQueue<u64>, deadline: u64| {
        queue.insert(Tick::from_nanos(deadline), deadlines.len() as u64, deadline);
        deadlines.push(deadline);
    };
    for step in 0..200 {
        insert(&mut queue, if step % 20 == 0 { (1 << 56) - (step << 46) } else { random.u64(..1_000) });
    }
    let mut gone = 0;
    while queue.line.end() < 1 << 100 {
        if !queue.tend_ahead() {
            assert!(queue.pop().is_some(), "a line on the way");
            gone += 1;
        }
    }
    for _ in 0..3_000 {
        insert(&mut queue, 1_000_000 + random.u64(..1_000_000));
        queue.verify();
    }
    assert!(queue.far.live > 2_500, "{} are far, {} in line", queue.far.live, queue.line.live);
    deadlines.sort_unstable();
    gives(queue, deadlines.split_off(gone));
}

/// Those who leave the line are not met again, wherever they stood.
#[test]
fn who_leaves_the_line_is_not_met() {
    for seed in 21..41 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut entries) = lined_up(&mut random);
        let (start, end) = (random.usize(..entries.len()), random.usize(..=entries.len()));
        let mut gone: Vec<_> = entries.drain(start.min(end)..start.max(end)).collect();
        if random.bool() {
            random.shuffle(&mut gone);
        }
        for (_, key) in gone {
            assert!(queue.cancel(key).is_some());
            queue.verify();
        }
        for (deadline, _) in entries {
            assert_eq!(queue.pop().map(|fired| fired.value), Some(deadline));
            queue.verify();
        }
        assert!(queue.is_empty());
    }
}

/// What stood in line leaves no memory behind.
#[test]
fn a_line_that_is_over_gives_its_memory_back() {
    for cancels in [false, true] {
        let mut random = fastrand::Rng::with_seed(42);
        let (mut queue, entries) = lined_up(&mut random);
        assert!(queue.footprint().marks > 30);
        for (_, key) in entries {
            if cancels {
                queue.cancel(key);
            } else {
                queue.pop();
            }
            queue.verify();
        }
        while queue.far.sift.stage != Stage::Idle {
            queue.upkeep();
        }
        assert_eq!(queue.footprint().marks, 0);
    }
}

/// Half of all entries at nearly one instant, and the others anywhere.
#[test]
fn a_crowd_among_others_is_in_order() {
    let mut random = fastrand::Rng::with_seed(16);
    for _ in 0..10 {
        let (mut queue, mut deadlines) = (TimerQueue::new(), Vec::new());
        let instant = random.u64(..100_000);
        for number in 0..2_000 {
            let deadline = if random.bool() { instant + random.u64(..3) } else { random.u64(..100_000) };
            queue.insert(Tick::from_nanos(deadline), number, deadline);
            deadlines.push(deadline);
        }
        gives(queue, deadlines);
    }
}

/// A queue at that stage, with all deadlines that are in it.
fn at_stage(stage: Stage) -> (TimerQueue<u64>, Vec<(u64, TaskKey)>) {
    let mut random = fastrand::Rng::with_seed(17);
    let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
    for number in 0..3_000 {
        // Some of them in a crowd.
        let deadline = random.u64(..1_000_000).max(600_000 * u64::from(random.u8(..8) == 0));
        entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
    }
    while queue.far.sift.stage != stage {
        assert!(queue.tend_ahead() || queue.pop().is_some(), "{stage:?} on the way");
    }
    queue.verify();
    entries.retain(|&(_, key)| queue.contains(key));
    entries.sort_unstable_by_key(|entry| entry.0);
    (queue, entries)
}

const STAGES: [Stage; 5] = [Stage::Drawing, Stage::Sifting, Stage::Sorting, Stage::Lining, Stage::Clearing];

/// All that was about to come is cancelled, at every stage, whether anything else is far or not.
#[test]
fn nothing_stays_when_nobody_comes() {
    for stage in STAGES {
        for leave in [0, 3, 400] {
            let (mut queue, mut entries) = at_stage(stage);
            let near = entries.partition_point(|entry| (entry.0 as u128) << 64 <= queue.floor());
            for (_, key) in entries.drain(near..entries.len() - leave) {
                // Without upkeep, so that all go at this stage, as far as it is left to them.
                assert!(queue.cancel_untended(key).is_some());
                queue.verify();
            }
            while queue.far.sift.stage != Stage::Idle {
                queue.upkeep();
                queue.verify();
            }
            gives(queue, entries.into_iter().map(|entry| entry.0).collect());
        }
    }
}

/// Some of those that are about to stand in line are cancelled while crowds among them go to the leaves, so many that the rest is looked
/// through again: nobody is met twice.
#[test]
fn what_is_looked_through_again_is_met_once() {
    for seed in 70..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
        for number in 0..2_000 {
            let deadline = random.u64(..1_000_000);
            let deadline = if random.u8(..4) == 0 { deadline / 20_000 * 20_000 } else { deadline };
            entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
        }
        while queue.far.sift.stage != Stage::Lining {
            assert!(queue.tend_ahead() || queue.pop().is_some(), "on the way");
        }
        for _ in 0..random.u32(..50) {
            queue.upkeep();
        }
        entries.retain(|&(_, key)| queue.contains(key));
        random.shuffle(&mut entries);
        for _ in 0..random.u32(1..5) {
            let mut many = random.usize(5..40);
            entries.retain(|&(_, key)| {
                let due = Coarse::from_link(queue.slab.link(key.slot));
                let goes = many > 0 && due != Coarse::NEVER && queue.far.sift.has_found(key.slot, due);
                many -= usize::from(goes);
                !goes || queue.cancel_untended(key).is_none()
            });
            queue.verify();
            queue.upkeep();
        }
        while queue.far.sift.stage != Stage::Idle {
            queue.upkeep();
            queue.verify();
        }
        gives(queue, entries.into_iter().map(|entry| entry.0).collect());
    }
}

/// The queue is emptied by cancels, the last first or the first first, and then by pops.
#[test]
fn a_queue_that_is_emptied_while_sifting_is_empty() {
    for stage in STAGES {
        for descending in [false, true] {
            let (mut queue, mut entries) = at_stage(stage);
            if descending {
                entries.reverse();
            }
            for (_, key) in entries {
                queue.cancel_untended(key);
                queue.verify();
            }
            assert!(queue.is_empty() && queue.index.first_bound().is_none());
            assert_eq!((queue.far.live, queue.line.live), (0, 0));
        }
        let (queue, entries) = at_stage(stage);
        gives(queue, entries.into_iter().map(|entry| entry.0).collect());
    }
}

/// All that is far is in crowds, which go to the leaves while it is looked through; the last are cancelled before. Whoever pops finds
/// those in the leaves, though the sifting is not over.
#[test]
fn what_has_gone_to_the_leaves_is_found_while_others_are_looked_through() {
    let mut seen = 0;
    for seed in 50..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut entries) = (TimerQueue::new(), Vec::new());
        for number in 0..400 {
            let deadline = if number < 60 { random.u64(..1_000) } else { random.u64(1..8) * 1_000_000 };
            entries.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
        }
        while queue.far.sift.stage != Stage::Lining && (queue.tend_ahead() || queue.pop().is_some()) {}
        entries.retain(|&(_, key)| queue.contains(key));
        let last = random.u64(2..8) * 1_000_000;
        entries.retain(|&(deadline, key)| deadline < last || queue.cancel_untended(key).is_none());
        while queue.far.live > 0 && queue.far.sift.is_apart() {
            queue.upkeep();
            queue.verify();
        }
        seen += u32::from(queue.far.sift.is_apart());
        entries.retain(|&(deadline, key)| deadline > 1_000 || queue.cancel_untended(key).is_none());
        queue.verify();
        gives(queue, entries.into_iter().map(|entry| entry.0).collect());
    }
    assert!(seen > 0, "{seen}");
}

/// A queue that is dropped in the middle of a sifting drops every value once.
#[test]
fn a_sifting_queue_can_be_dropped() {
    let witness = Rc::new(());
    let mut queue = TimerQueue::new();
    for number in 0..1_000 {
        queue.insert(Tick::from_nanos(number * 617 % 1_000), number, Rc::clone(&witness));
    }
    while queue.far.sift.stage != Stage::Sifting {
        assert!(queue.pop().is_some(), "a sifting on the way");
    }
    queue.pop();
    assert!(queue.far.sift.at < queue.far.sift.end);
    assert_eq!(Rc::strong_count(&witness), queue.len() + 1);
    drop(queue);
    assert_eq!(Rc::strong_count(&witness), 1);
}

/// What comes in order is neither searched for a place nor sorted. By count.
#[test]
fn what_ascends_is_not_moved() {
    let mut queue = TimerQueue::new();
    for nanos in 1..=10_000 {
        queue.insert(Tick::from_nanos(nanos), nanos, nanos);
    }
    assert_eq!(queue.ramp.live, 10_000);
    queue.verify();
    let before = queue.work;
    for nanos in 1..=10_000 {
        assert_eq!(queue.pop().map(|fired| fired.value), Some(nanos));
        queue.insert(Tick::from_nanos(nanos + 10_000), nanos, nanos + 10_000);
    }
    assert_eq!((queue.ramp.live, queue.work - before), (10_000, 0));
    queue.verify();
    gives(queue, (10_001..=20_000).collect());
}

/// A ramp and what is behind the front are one order, to every call.
#[test]
fn a_ramp_beside_all_else_is_in_order() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..50 {
        let (mut queue, mut deadlines, mut keys) = (TimerQueue::new(), Vec::new(), Vec::new());
        for number in 0..random.u64(1..600) {
            // Every other one ascends.
            let deadline = if number % 2 == 0 { 100 * number } else { random.u64(..60_000) };
            keys.push((deadline, queue.insert(Tick::from_nanos(deadline), number, deadline)));
            deadlines.push(deadline);
        }
        for _ in 0..random.usize(..keys.len()) {
            let (deadline, key) = keys.swap_remove(random.usize(..keys.len()));
            assert_eq!(queue.cancel(key), Some(deadline));
            deadlines.remove(deadlines.iter().position(|other| *other == deadline).unwrap());
            queue.verify();
        }
        deadlines.sort_unstable();
        assert_eq!(queue.next_deadline().map(Tick::as_nanos), deadlines.first().copied());
        assert_eq!(queue.peek().map(|(_, tick, ..)| tick.as_nanos()), deadlines.first().copied());
        for now in (0..60_000).step_by(661) {
            let due = deadlines.partition_point(|&deadline| deadline <= now);
            assert_eq!(queue.due_count(Tick::from_nanos(now)), due);
        }
        gives(queue, deadlines);
    }
}

/// A few entries far ahead do not keep what ascends below them off the ramp for long.
#[test]
fn a_few_late_entries_are_moved_out_of_the_way() {
    for late in [1, 2, 9, 40_u64] {
        let mut queue = TimerQueue::new();
        let far: Vec<_> = (0..late).map(|n| queue.insert(Tick::MAX, n, u64::MAX)).collect();
        for nanos in 1..=200 {
            queue.insert(Tick::from_nanos(nanos), nanos, nanos);
            queue.verify();
        }
        // With more than a few the ramp is theirs.
        assert_eq!(queue.ramp.live > 150, late < 40, "{late} late: {} on the ramp", queue.ramp.live);
        assert!(far.iter().all(|&key| queue.contains(key)));
        let all: Vec<u64> = queue.drain().iter().map(|fired| fired.value).collect();
        assert!(all.is_sorted() && all.len() == 200 + late as usize);
    }
}

/// Arrivals in no order are not moved twice each: patience grows.
#[test]
fn what_comes_in_no_order_is_hardly_ever_moved() {
    let mut random = fastrand::Rng::with_seed(12);
    let mut queue = TimerQueue::new();
    let mut left = 0_u64;
    for number in 0..4_000 {
        let before = queue.ramp.live;
        queue.insert(Tick::from_nanos(random.u64(..1_000_000)), number, number);
        left += u64::from(queue.ramp.live < before);
    }
    assert!(left < 400, "{left} of 4,000 were moved");
    queue.verify();
}

/// Pages of which little lives are joined, and memory is in proportion to what lives.
#[test]
fn a_ramp_that_was_cancelled_gives_its_memory_back() {
    let mut queue = TimerQueue::new();
    let keys: Vec<_> = (1..=4_000).map(|n| queue.insert(Tick::from_nanos(n), n, n)).collect();
    let full = queue.footprint().stamps;
    for (n, &key) in keys.iter().enumerate() {
        if n % 40 != 0 {
            queue.cancel(key);
            queue.verify();
        }
    }
    assert_eq!(queue.len(), 100);
    assert!(queue.footprint().stamps < full / 8, "{} of {full}", queue.footprint().stamps);
    gives(queue, (1..=4_000).filter(|n| (n - 1) % 40 == 0).collect());
}

/// Two queues in step, one of which has a few entries cancelled at once where the other has them one by one.
#[test]
fn several_cancelled_at_once_are_gone_as_if_one_by_one() {
    let mut most_calls = 0;
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut other, mut keys) = (TimerQueue::new(), TimerQueue::new(), Vec::new());
        for number in 0..2_000_u64 {
            let deadline = Tick::from_nanos(random.u64(..5_000));
            keys.push((queue.insert(deadline, number, number), other.insert(deadline, number, number)));
            if random.u8(..4) == 0 {
                // Some of them have left, and some are named twice.
                let few: Vec<_> = (0..random.usize(..20)).map(|_| keys[random.usize(..keys.len())]).collect();
                let (mut gone, few_keys) = (Vec::new(), few.iter().map(|pair| pair.0).collect::<Vec<_>>());
                let (mut rest, mut calls) = (&few_keys[..], 0);
                while !rest.is_empty() {
                    let before = queue.work();
                    let seen = queue.cancel_each(rest, |value| gone.push(value));
                    assert!(seen > 0, "a call sees to one at least");
                    assert!(
                        seen == rest.len() || queue.work() - before > super::ENOUGH_WORK,
                        "and to all it may"
                    );
                    (rest, calls) = (&rest[seen..], calls + 1);
                }
                most_calls = most_calls.max(calls);
                assert_eq!(gone, few.iter().filter_map(|pair| other.cancel(pair.1)).collect::<Vec<_>>());
                queue.verify();
            }
            if random.u8(..8) == 0 {
                assert_eq!(queue.pop(), other.pop());
            }
        }
        assert_eq!(queue.drain(), other.drain());
    }
    assert!(most_calls > 1, "some were left for another time");
}

/// Whether they came in order or not; and what is shown is still there.
#[test]
fn a_pop_shows_one_of_the_next_few() {
    for ascending in [true, false] {
        let mut queue = TimerQueue::new();
        for number in 0..9_u64 {
            let nanos = if ascending { number } else { 8 - number };
            queue.insert(Tick::from_nanos(nanos), number, nanos);
        }
        let (mut furthest, mut shown) = (0, None);
        while let Some(fired) = queue.pop_and_show(|value| shown = Some(*value)) {
            if let Some(value) = shown.take() {
                assert!(value > fired.value, "{value} has left");
                furthest = furthest.max(value - fired.value);
            }
        }
        assert!(furthest > 1, "not the very next alone");
    }
}
