//! The model tests once more, with limits so small (see `cfg!(test)`) that every rare path is common.

#[path = "../../tests/trio/mod.rs"]
mod trio;

use proptest::prelude::*;
use std::vec::Vec;

use crate::{Tick, TimerQueue};
use trio::{SHAPES, grow_hold_shrink, op, run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

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
