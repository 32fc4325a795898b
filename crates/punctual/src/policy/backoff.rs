//! Longer and longer pauses.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::jitter::{Dice, Jitter};

/// How long to wait after the first, the second, the third failure in a row.
///
/// The first pause is multiplied with each failure until it reaches the longest.
///
/// ```
/// use punctual::Backoff;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let backoff = Backoff::between(second..=60 * second);
/// let pauses: Vec<u64> = (1..=8).map(|failures| backoff.pause(failures).as_secs()).collect();
/// assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
/// assert_eq!(Backoff::constant(second).pause(9), second);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    factor: u32,
    attempts: Option<u32>,
    jitter: Option<Jitter>,
}

impl Backoff {
    /// From the first pause to the longest, doubling. If the range is the wrong way round, its start is both.
    #[must_use]
    pub fn between(pauses: RangeInclusive<Duration>) -> Self {
        let (first, longest) = pauses.into_inner();
        Self { first, longest: longest.max(first), factor: 2, attempts: None, jitter: None }
    }

    /// The same pause each time.
    #[must_use]
    pub fn constant(pause: Duration) -> Self {
        Self::between(pause..=pause)
    }

    /// What each pause is of the one before it. Default 2; 0 counts as 1.
    #[must_use]
    pub fn factor(mut self, factor: u32) -> Self {
        self.factor = factor.max(1);
        self
    }

    /// Gives up at so many failures in a row. By default never; 0 counts as 1.
    #[must_use]
    pub fn give_up_after(mut self, failures: u32) -> Self {
        self.attempts = Some(failures.max(1));
        self
    }

    /// Adds a random time to each pause, so that those who failed together do not come back together. By default
    /// nothing is added.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// The pause after so many failures in a row, without jitter.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        let mut pause = self.first;
        for _ in 1..failures {
            if pause >= self.longest || self.factor == 1 || pause.is_zero() {
                break;
            }
            pause = pause.saturating_mul(self.factor);
        }
        pause.min(self.longest)
    }

    /// The pause after so many failures in a row; `None` when it is time to give up.
    pub(crate) fn next(&self, failures: u32, dice: &mut Dice) -> Option<Duration> {
        if self.attempts.is_some_and(|most| failures >= most) {
            return None;
        }
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.draw(dice));
        Some(self.pause(failures).saturating_add(jitter))
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Backoff, Dice, Jitter};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_never_shrink_and_never_pass_the_longest() {
        fastrand::seed(7);
        for _ in 0..500 {
            let first = Duration::from_nanos(fastrand::u64(0..=1 << fastrand::u32(0..60)));
            let longest = Duration::from_nanos(fastrand::u64(0..=1 << fastrand::u32(0..63)));
            let backoff = Backoff::between(first..=longest).factor(fastrand::u32(0..10));
            let pauses: Vec<Duration> = (1..40).map(|failures| backoff.pause(failures)).collect();
            assert_eq!(pauses[0], first);
            assert!(pauses.is_sorted() && pauses.iter().all(|pause| *pause <= longest.max(first)));
        }
    }

    #[test]
    fn the_largest_numbers_end_at_the_longest_pause() {
        let backoff = Backoff::between(SECOND..=Duration::MAX).factor(u32::MAX);
        assert_eq!(backoff.pause(u32::MAX), Duration::MAX);
        let still = Backoff::between(Duration::ZERO..=Duration::MAX);
        assert_eq!(still.pause(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn it_gives_up_at_the_failure_it_says() {
        let mut dice = Dice::new(1);
        let backoff = Backoff::constant(SECOND).give_up_after(3);
        let pauses: Vec<_> = (1..=4).map(|failures| backoff.next(failures, &mut dice)).collect();
        assert_eq!(pauses, [Some(SECOND), Some(SECOND), None, None]);
        assert_eq!(Backoff::constant(SECOND).give_up_after(0).next(1, &mut dice), None);
    }

    #[test]
    fn jitter_only_adds() {
        let mut dice = Dice::new(3);
        let backoff = Backoff::constant(SECOND).jitter(Jitter::up_to(SECOND));
        for failures in 1..200 {
            let pause = backoff.next(failures, &mut dice).unwrap();
            assert!((SECOND..=2 * SECOND).contains(&pause));
        }
    }
}
