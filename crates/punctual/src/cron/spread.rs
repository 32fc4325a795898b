//! `H`: a value that is arbitrary, but always the same for the same seed.
//!
//! A hundred nightly tasks at `0 0 * * *` start at the same second. At `H H * * *`, each with its own name for a seed,
//! they spread over the day, and every one keeps its time over restarts, machines and versions of this crate: the
//! function below is part of the contract, and a test pins its values.

use super::field::Unit;

/// A number below `size` that depends on seed and field alone.
pub(super) fn spread(seed: &str, unit: Unit, size: u16) -> u16 {
    // FNV-1a over the seed. Its low bits alone are weak, hence the stirring; the field goes in between, so that
    // minute and hour of one seed have nothing to do with each other.
    let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let field = match unit {
        Unit::Second => 1,
        Unit::Minute => 2,
        Unit::Hour => 3,
        Unit::DayOfMonth => 4,
        Unit::Month => 5,
        Unit::DayOfWeek => 6,
        Unit::Year => 7,
    };
    let mut stirred = hash.wrapping_add(field << 56);
    for _ in 0..2 {
        stirred = (stirred ^ stirred >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    ((stirred >> 32) % u64::from(size.max(1))) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_seed_are_the_same_for_ever() {
        let of = |seed| [Unit::Second, Unit::Minute, Unit::Hour].map(|unit| spread(seed, unit, unit.size()));
        assert_eq!(of("nightly-report"), [34, 51, 5]);
        assert_eq!(of("backup"), [58, 9, 9]);
        assert_eq!(of(""), [20, 30, 5]);
    }

    #[test]
    fn many_seeds_fill_every_minute_and_every_hour_about_equally() {
        for (unit, size) in [(Unit::Minute, 60_u16), (Unit::Hour, 24), (Unit::DayOfWeek, 7)] {
            let mut counts = vec![0; usize::from(size)];
            for task in 0..100 * size {
                counts[usize::from(spread(&format!("task-{task}"), unit, size))] += 1;
            }
            assert!(counts.iter().all(|count| (50..=150).contains(count)), "{unit:?}: {counts:?}");
        }
    }
}
