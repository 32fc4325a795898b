//! How many jobs come due when.
//!
//! Every job that is counted costs a step in an index, so no more than a given number are looked at. Which ones matters:
//! what comes soon is of more interest than what is in the first line by name. So a store looks through one *window* of
//! time after the other, each twice as long as the one before, and through all its lines in each. It then searches each
//! line a dozen times at most, and whatever is before the window in which it stopped has been counted in full.

use std::time::Duration;

use crate::time::Timestamp;

/// How many jobs come due when.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Density {
    /// For each stretch of time, how many wait for an instant in it.
    pub counts: Vec<u64>,
    /// Whether there are more than were looked at: then there are *at least* so many, in later stretches perhaps many
    /// more.
    pub partial: bool,
}

impl Density {
    /// The most stretches of time.
    pub const MAX_STEPS: usize = 10_000;

    /// Counts due times in `steps` stretches of `width` from `from` on. `partial` says whether there are more.
    #[must_use]
    pub fn of(dues: &[Timestamp], from: Timestamp, width: Duration, steps: usize, partial: bool) -> Self {
        let mut counting = Counting::new(from, width, steps, usize::MAX);
        for due in dues {
            counting.note(*due);
        }
        Self { partial, ..counting.finish() }
    }

    /// When the last of these stretches ends.
    #[must_use]
    pub fn end(from: Timestamp, width: Duration, steps: usize) -> Timestamp {
        let steps = u32::try_from(steps.min(Self::MAX_STEPS)).unwrap_or(u32::MAX);
        from.after(Duration::from_micros(micros(width)).saturating_mul(steps))
    }

    /// The windows through which to look for what comes due in `steps` stretches, one after the other: each from an
    /// instant until before another.
    ///
    /// ```
    /// use punctual_durable::{Density, Timestamp};
    /// use std::time::Duration;
    ///
    /// let windows = Density::windows(Timestamp::EPOCH, Duration::from_micros(1), 5);
    /// let micros = windows.iter().map(|(from, until)| (from.as_micros(), until.as_micros()));
    /// assert_eq!(micros.collect::<Vec<_>>(), [(0, 1), (1, 3), (3, 5)]);
    /// ```
    #[must_use]
    pub fn windows(from: Timestamp, width: Duration, steps: usize) -> Vec<(Timestamp, Timestamp)> {
        let steps = steps.min(Self::MAX_STEPS);
        let (mut windows, mut begin, mut long) = (Vec::new(), 0, 1);
        while begin < steps {
            let end = steps.min(begin + long);
            windows.push((Self::end(from, width, begin), Self::end(from, width, end)));
            (begin, long) = (end, 2 * long);
        }
        windows
    }
}

/// The width of a stretch: a microsecond at least.
pub(super) fn micros(width: Duration) -> u64 {
    u64::try_from(width.as_micros().max(1)).unwrap_or(u64::MAX)
}

/// Counts due times as they come, up to a given number of them.
#[derive(Debug)]
pub(super) struct Counting {
    density: Density,
    from: Timestamp,
    width: u64,
    left: usize,
}

impl Counting {
    pub(super) fn new(from: Timestamp, width: Duration, steps: usize, most: usize) -> Self {
        let density = Density { counts: vec![0; steps.min(Density::MAX_STEPS)], partial: false };
        Self { density, from, width: micros(width), left: most }
    }

    /// One that comes due then; says whether it was the one too many.
    pub(super) fn note(&mut self, due: Timestamp) -> bool {
        if self.left == 0 {
            self.density.partial = true;
            return true;
        }
        self.left -= 1;
        if due >= self.from {
            self.add(due.since(self.from).as_micros() / u128::from(self.width), 1);
        }
        false
    }

    /// So many in one stretch, which somebody else has counted.
    #[cfg(feature = "postgres")]
    pub(super) fn note_all(&mut self, step: i64, count: i64, partial: bool) {
        self.density.partial |= partial;
        if let (Ok(step), Ok(count)) = (u128::try_from(step), u64::try_from(count)) {
            self.add(step, count);
        }
    }

    fn add(&mut self, step: u128, count: u64) {
        if let Some(sum) = usize::try_from(step).ok().and_then(|step| self.density.counts.get_mut(step)) {
            *sum += count;
        }
    }

    pub(super) fn finish(self) -> Density {
        self.density
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_all_stretches_without_a_gap_and_are_few() {
        for steps in [0, 1, 2, 3, 4, 60, 9_999, 10_000, usize::MAX] {
            for (from, width) in [
                (Timestamp::EPOCH, Duration::from_secs(7)),
                (Timestamp::from_micros(i64::MIN), Duration::ZERO),
                (Timestamp::from_micros(-5), Duration::MAX),
            ] {
                let windows = Density::windows(from, width, steps);
                assert!(windows.len() <= 14, "{} windows", windows.len());
                assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0));
                assert_eq!(windows.first().map(|window| window.0), (steps > 0).then_some(from));
                let end = (steps > 0).then(|| Density::end(from, width, steps));
                assert_eq!(windows.last().map(|window| window.1), end);
            }
        }
    }

    #[test]
    fn one_too_many_makes_it_partial_and_is_not_counted() {
        let at = Timestamp::from_micros;
        let mut counting = Counting::new(at(10), Duration::from_micros(5), 2, 2);
        assert_eq!([10, 19].map(|due| counting.note(at(due))), [false, false]);
        assert!(!counting.density.partial && counting.note(at(12)));
        assert_eq!(counting.finish(), Density { counts: vec![1, 1], partial: true });
    }
}
