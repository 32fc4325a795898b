//! The queue against the model and the reference heap. "Invariant N" is the numbering of the engine's design.

mod trio;

use proptest::prelude::*;
use trio::{SHAPES, grow_hold_shrink, op, run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Invariants 1, 2, 3, 5, 13; ST-037, ST-038.
    #[test]
    fn any_mix_agrees_with_the_model(
        (start, ops) in (0..64_u32, any::<u64>(), 0..64_u32).prop_flat_map(|(bits, start, shift)| {
            (Just(start >> shift), proptest::collection::vec(op(u64::MAX >> bits), 1..1_500))
        })
    ) {
        run(&ops, start, false);
    }

    /// The same, with the queue's invariants checked after every single step.
    #[test]
    fn no_step_breaks_an_invariant(ops in proptest::collection::vec(op(1_000), 1..200)) {
        run(&ops, 0, true);
    }
}

/// Invariants 1, 2, 3, 5, 8, 13 at sizes where leaves split, thin out and merge.
#[test]
fn long_runs_of_every_shape_agree_with_the_model() {
    fastrand::seed(7);
    for shape in SHAPES {
        grow_hold_shrink(shape, 20_000);
    }
}
