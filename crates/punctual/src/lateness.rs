//! How late runs begin, counted.
//!
//! A histogram with 32 buckets for every doubling: values below 32 ns are exact, all others known to within a
//! thirty-second part, up to the end of time. Each worker has counters of its own, made when it first records, and
//! adds to them without a lock; a reader adds up those of all workers. So recording is two uncontended additions,
//! and reading disturbs nobody.
//!
//! # Invariants
//! 1. `index` grows with its argument, and `upper(index(v))` is the greatest value with the index of `v`. So
//!    quantiles are never understated.
//! 2. A snapshot may miss what is being recorded while it is taken; it never counts anything twice.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};

/// Buckets for every doubling, as a power of two.
const BITS: u32 = 5;
const FINE: u64 = 1 << BITS;
/// A linear part, and one for each power of two from there to 2⁶³.
const BUCKETS: usize = (FINE as usize) * (64 - BITS as usize + 1);
/// Workers beyond so many share counters.
const STRIPES: usize = 64;

/// Where workers record.
pub(crate) struct Recorder {
    stripes: Box<[OnceLock<Stripe>]>,
}

struct Stripe {
    counts: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Stripe {
    fn new() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { counts, max: AtomicU64::new(0) }
    }
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| OnceLock::new()).collect() }
    }

    /// Counts a run of the worker in that place.
    pub(crate) fn record(&self, worker: usize, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        let stripe = self.stripes[worker % STRIPES].get_or_init(Stripe::new);
        // Counters, read one by one and for no conclusions about anything else.
        stripe.counts[index(nanos)].fetch_add(1, Ordering::Relaxed);
        stripe.max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Lateness {
        let mut sum = Lateness { counts: vec![0; BUCKETS].into(), count: 0, max: 0 };
        for stripe in self.stripes.iter().filter_map(OnceLock::get) {
            for (total, count) in sum.counts.iter_mut().zip(&stripe.counts) {
                let count = count.load(Ordering::Relaxed);
                *total += count;
                sum.count += count;
            }
            sum.max = sum.max.max(stripe.max.load(Ordering::Relaxed));
        }
        sum
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The bucket of a value.
fn index(nanos: u64) -> usize {
    if nanos < FINE {
        return nanos as usize;
    }
    let shift = u64::BITS - 1 - nanos.leading_zeros() - BITS;
    // The leading bit is in both terms, once as the first of its bucket row.
    (u64::from(shift) * FINE + (nanos >> shift)) as usize
}

/// The greatest value of a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * FINE {
        return index;
    }
    let shift = index / FINE - 1;
    let first = (index % FINE + FINE) << shift;
    first + ((1 << shift) - 1)
}

/// How late runs began, from when their executor was built until this picture was taken; see
/// [`Scheduler::lateness`](crate::Scheduler::lateness).
///
/// Every number is exact to within 1/32 of itself and errs on the late side.
///
/// ```
/// use punctual::{Executor, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let pool = Executor::builder().clock(clock.clone()).record_lateness().build()?;
/// for _ in 0..100 {
///     pool.schedule(Duration::from_secs(1), || ())?;
/// }
/// clock.jump(Duration::from_secs(3)); // not a stop at every deadline: all are two seconds late
/// clock.wait_until_idle();
/// let late = pool.lateness().expect("it was asked for");
/// assert_eq!((late.count(), late.max()), (100, Duration::from_secs(2)));
/// assert_eq!(late.p50(), Duration::from_secs(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Lateness {
    counts: Box<[u64]>,
    count: u64,
    max: u64,
}

impl Lateness {
    /// Runs counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latest of all, exactly.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// What that part of all runs was not later than: `quantile(0.99)` is the 99th percentile. Zero if nothing was
    /// counted. A `part` outside of 0 to 1 is taken for the nearer of them, and one that is no number for 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        let part = if part.is_nan() { 1.0 } else { part.clamp(0.0, 1.0) };
        // The run of that rank. Beyond 2⁵³ runs the rank is as good as the float.
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper(index).min(self.max));
            }
        }
        self.max()
    }

    /// The median.
    #[must_use]
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Nine in ten are not later.
    #[must_use]
    pub fn p90(&self) -> Duration {
        self.quantile(0.9)
    }

    /// All but one in a hundred are not later.
    #[must_use]
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// All but one in a thousand are not later.
    #[must_use]
    pub fn p999(&self) -> Duration {
        self.quantile(0.999)
    }

    /// The buckets that are not empty, earliest first: no run in it was later than so much, and so many runs.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (Duration::from_nanos(upper(index).min(self.max)), *count))
    }

    /// What was counted since `earlier`, a picture of the same executor: for figures of the last second, say. The
    /// [`max`](Self::max) of the result is that of its latest bucket.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts: Box<[u64]> =
            self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then)).collect();
        let count = counts.iter().sum();
        let latest = counts.iter().rposition(|count| *count > 0).map_or(0, upper);
        Self { counts, count, max: latest.min(self.max) }
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count)
            .field("p50", &self.p50())
            .field("p90", &self.p90())
            .field("p99", &self.p99())
            .field("p999", &self.p999())
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Lateness {
    /// `count = 100, p50 = 51µs, p90 = 60µs, p99 = 93µs, p99.9 = 120µs, max = 131µs`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "count = {}, p50 = {:?}, p90 = {:?}, p99 = {:?}, p99.9 = {:?}, max = {:?}",
            self.count,
            self.p50(),
            self.p90(),
            self.p99(),
            self.p999(),
            self.max()
        )
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{BUCKETS, FINE, Recorder, index, upper};
    use std::time::Duration;

    /// Powers of two and their neighbours: where an index could go wrong.
    fn corners() -> impl Iterator<Item = u64> {
        let near = |power: u32| {
            let value = 1_u64 << power;
            [value - 1, value, value + 1, value + value / 2]
        };
        (0..64).flat_map(near).chain([0, u64::MAX - 1, u64::MAX])
    }

    /// Invariant 1.
    #[test]
    fn a_bucket_ends_where_the_next_begins_and_is_a_thirty_second_part_wide() {
        for bucket in 0..BUCKETS {
            let last = upper(bucket);
            assert_eq!(index(last), bucket);
            match last.checked_add(1) {
                Some(next) => assert_eq!(index(next), bucket + 1),
                None => assert_eq!(bucket, BUCKETS - 1),
            }
        }
        for value in corners() {
            let above = upper(index(value)) - value;
            assert!(above <= value / FINE, "{value} is counted as {above} more");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values_and_err_on_the_late_side() {
        let recorder = Recorder::new();
        let mut random = fastrand::Rng::with_seed(7);
        let mut values: Vec<u64> = (0..10_000).map(|_| random.u64(..) >> random.u32(0..64)).collect();
        for (n, value) in values.iter().enumerate() {
            recorder.record(n, Duration::from_nanos(*value));
        }
        values.sort_unstable();
        let late = recorder.snapshot();
        assert_eq!((late.count(), late.max()), (10_000, Duration::from_nanos(values[9_999])));
        for (part, rank) in
            [(0.0, 1), (0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (0.999, 9_990), (1.0, 10_000)]
        {
            let exact = values[rank - 1];
            let told = u64::try_from(late.quantile(part).as_nanos()).unwrap();
            assert!(exact <= told && told - exact <= exact / FINE, "{part}: {told} for {exact}");
        }
        assert_eq!(late.buckets().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert!(late.buckets().is_sorted());
    }

    #[test]
    fn nothing_counted_is_never_late() {
        let late = Recorder::new().snapshot();
        for part in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 0.5, 1.0, 2.0, f64::INFINITY] {
            assert_eq!(late.quantile(part), Duration::ZERO);
        }
        assert_eq!(late.buckets().count(), 0);
    }

    #[test]
    fn a_difference_counts_what_came_between() {
        let recorder = Recorder::new();
        recorder.record(0, Duration::from_secs(9));
        let before = recorder.snapshot();
        for worker in 0..200 {
            recorder.record(worker, Duration::from_nanos(20));
        }
        let between = recorder.snapshot().since(&before);
        assert_eq!((between.count(), between.max()), (200, Duration::from_nanos(20)));
        assert_eq!(before.since(&recorder.snapshot()).count(), 0, "the wrong way round is nothing");
    }
}
