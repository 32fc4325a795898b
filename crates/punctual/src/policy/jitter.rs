//! Deadlines that do not all fall together: at random, or by name.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// A random delay on top of each deadline, different each time.
///
/// Never early: jitter only delays. The grid of a fixed rate stays where it is, so delays do not add up.
///
/// ```text
/// grid      1         2         3         4
/// run       ··[1]     [2]       ·[3]      ···[4]
/// ```
///
/// ```
/// use punctual::{Executor, Jitter, ManualClock};
/// use std::time::Duration;
///
/// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let poll = pool.task(|| ()).every(minute).jitter(Jitter::up_to(minute / 2)).start()?;
/// clock.advance(60 * minute - Duration::from_nanos(1));
/// assert!((59..=60).contains(&poll.runs()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Jitter {
    most: Duration,
    seed: Option<u64>,
}

impl Jitter {
    /// A delay from nothing to `most`, each equally likely.
    #[must_use]
    pub const fn up_to(most: Duration) -> Self {
        Self { most, seed: None }
    }

    /// Makes the delays of a task the same in every program run: for tests.
    #[must_use]
    pub const fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The seed for the dice of a task with this jitter.
    pub(crate) fn seed(self) -> Option<u64> {
        self.seed
    }

    pub(crate) fn draw(self, dice: &mut Dice) -> Duration {
        Duration::from_nanos(dice.up_to(u64::try_from(self.most.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A delay on top of each deadline that is always the same for a task of this name, so that many tasks with one
/// schedule are spread evenly.
///
/// The name is hashed in a way that never changes; a task without one goes by its first tag, and without that it
/// is not delayed.
///
/// ```text
/// grid      1         2         3
/// "a"       ··[1]     ··[2]     ··[3]
/// "b"       ·····[1]  ·····[2]  ·····[3]
/// ```
///
/// ```
/// use punctual::Spread;
/// use std::time::Duration;
///
/// let hour = Spread::over(Duration::from_secs(3600));
/// assert_eq!(hour.delay("report"), hour.delay("report"));
/// assert_ne!(hour.delay("report"), hour.delay("backup"));
/// assert!(hour.delay("backup") < Duration::from_secs(3600));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spread {
    window: Duration,
}

impl Spread {
    /// Delays from nothing to just below `window`.
    #[must_use]
    pub const fn over(window: Duration) -> Self {
        Self { window }
    }

    /// The delay of a task of this name.
    #[must_use]
    pub fn delay(&self, name: &str) -> Duration {
        match u64::try_from(self.window.as_nanos()).unwrap_or(u64::MAX) {
            0 => Duration::ZERO,
            window => Duration::from_nanos(scale(stir(fnv(name)), window)),
        }
    }
}

/// FNV-1a: short, and the same everywhere and for ever.
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The finish of SplitMix64: every bit of the input moves every bit of the output.
fn stir(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A word that is evenly spread over all words, spread over those below `bound`.
fn scale(word: u64, bound: u64) -> u64 {
    // The upper half of the product; it fits by construction.
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// A source of random numbers for one task: SplitMix64.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Different each time: the standard library's hash keys are.
    pub(crate) fn random() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        stir(self.0)
    }

    /// A number from 0 to `most`, both possible.
    fn up_to(&mut self, most: u64) -> u64 {
        let word = self.roll();
        most.checked_add(1).map_or(word, |bound| scale(word, bound))
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Dice, Jitter, Spread};
    use std::collections::HashSet;
    use std::time::Duration;

    #[test]
    fn jitter_reaches_both_ends_and_no_further() {
        let mut dice = Dice::new(11);
        let seen: HashSet<u128> =
            (0..400).map(|_| Jitter::up_to(Duration::from_nanos(3)).draw(&mut dice).as_nanos()).collect();
        assert_eq!(seen, HashSet::from([0, 1, 2, 3]));
        assert_eq!(Jitter::up_to(Duration::ZERO).draw(&mut dice), Duration::ZERO);
        // The longest there is must not overflow.
        let _ = Jitter::up_to(Duration::MAX).draw(&mut dice);
    }

    #[test]
    fn dice_with_one_seed_fall_alike_and_others_do_not() {
        let rolls = |mut dice: Dice| [dice.roll(), dice.roll(), dice.roll()];
        assert_eq!(rolls(Dice::new(5)), rolls(Dice::new(5)));
        assert_ne!(rolls(Dice::new(5)), rolls(Dice::new(6)));
        assert_ne!(rolls(Dice::random()), rolls(Dice::random()));
    }

    /// The promise of a stable spread is kept across versions: these are the numbers.
    #[test]
    fn the_place_of_a_name_never_changes() {
        let hour = Spread::over(Duration::from_secs(3600));
        let seconds = ["", "a", "report", "backup"].map(|name| hour.delay(name).as_secs());
        assert_eq!(seconds, [3447, 38, 677, 108]);
    }

    #[test]
    fn names_are_spread_evenly() {
        let minute = Spread::over(Duration::from_secs(60));
        let mut per_second = [0_u32; 60];
        for n in 0..6000 {
            per_second[minute.delay(&format!("task-{n}")).as_secs() as usize] += 1;
        }
        assert!(per_second.iter().all(|count| (60..=150).contains(count)), "{per_second:?}");
        assert_eq!(Spread::over(Duration::ZERO).delay("x"), Duration::ZERO);
    }
}
