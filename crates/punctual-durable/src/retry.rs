//! How long a failed job waits before it is tried again.

use std::time::Duration;

/// The wait before each further attempt: exponential, with a ceiling, and spread out at random.
///
/// ```
/// use punctual_durable::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60)).without_jitter();
/// let seconds: Vec<u64> = (1..=8).map(|attempt| backoff.wait(attempt).as_secs()).collect();
/// assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
    factor: f64,
    /// The part of a wait that is left to chance, 0 to 1.
    jitter: f64,
}

impl Backoff {
    /// `first` after the first failure, then twice as long each time, at most `ceiling`; a fifth of it is left
    /// to chance, so that jobs that failed together do not come back together.
    #[must_use]
    pub const fn exponential(first: Duration, ceiling: Duration) -> Self {
        Self { first, ceiling, factor: 2.0, jitter: 0.2 }
    }

    /// The same wait each time.
    #[must_use]
    pub const fn fixed(wait: Duration) -> Self {
        Self { first: wait, ceiling: wait, factor: 1.0, jitter: 0.0 }
    }

    /// Leaves nothing to chance.
    #[must_use]
    pub const fn without_jitter(mut self) -> Self {
        self.jitter = 0.0;
        self
    }

    /// The wait after the failure of attempt `attempt`, counted from 1.
    #[must_use]
    pub fn wait(&self, attempt: u32) -> Duration {
        let exponent = attempt.saturating_sub(1).min(1_000);
        let grown = self.first.as_secs_f64() * self.factor.powi(exponent.cast_signed());
        let capped = grown.min(self.ceiling.as_secs_f64());
        let chance = self.jitter * (fastrand::f64() - 0.5);
        Duration::try_from_secs_f64(capped * (1.0 + chance)).unwrap_or(self.ceiling)
    }
}

impl Default for Backoff {
    /// A second, doubled each time, at most an hour.
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_secs(3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_attempt_number_and_no_duration_breaks_it() {
        let odd = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        for (first, ceiling) in odd.iter().flat_map(|first| odd.map(|ceiling| (*first, ceiling))) {
            for attempt in [0, 1, 2, 1_000, u32::MAX] {
                let wait = Backoff::exponential(first, ceiling).without_jitter().wait(attempt);
                assert!(wait <= ceiling, "{first:?} {ceiling:?} {attempt} gives {wait:?}");
            }
        }
    }

    #[test]
    fn jitter_stays_within_a_tenth_either_way() {
        let backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_secs(10));
        for _ in 0..1_000 {
            let wait = backoff.wait(3).as_secs_f64();
            assert!((9.0..=11.0).contains(&wait), "{wait}");
        }
    }
}
