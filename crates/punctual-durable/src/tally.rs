//! What happened, in numbers: how many attempts ended how in each minute, how late they began, how long they ran, and
//! which errors there were. To be read without counting jobs.
//!
//! Each node counts for itself, in memory, and writes with one of its exchanges what it has counted: every few seconds,
//! and when it leaves. Rows belong to (minute or hour, node, kind, …) and hold *totals*, so writing them again changes
//! nothing, no two nodes ever wait for the same row, and jobs pay for them next to nothing. A crash loses the last few
//! seconds: these are statistics, the jobs themselves are exact.
//!
//! # Bounds
//! Kinds are those the node can run. Of different errors a node keeps [`MOST_ERRORS`] in an hour, and counts the rest
//! together: no text of an error can fill the store.
//!
//! # Paths not taken
//! *Counting in the transaction of each report:* all nodes would queue for the row of the present minute.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::journal::shorten;
use crate::time::Timestamp;

/// Different errors that a node tells apart in an hour.
const MOST_ERRORS: usize = 200;
/// Bytes of the example that is kept of an error.
const MOST_EXAMPLE: usize = 1 << 10;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Ending {
    /// The job is done.
    Done,
    /// It failed, and will be tried again.
    Retried,
    /// It failed for the last time.
    Dead,
    /// There was nothing to do any more.
    Discarded,
    /// It was taken back.
    Cancelled,
    /// It asked to be run later.
    Snoozed,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::Retried, Self::Dead, Self::Discarded, Self::Cancelled, Self::Snoozed];

    /// The number a store keeps.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The ending of that number, if there is one.
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Snoozed => "snoozed",
        })
    }
}

/// How often something took how long: a count for each doubling, from an eighth of a millisecond to three days.
///
/// ```
/// use punctual_durable::Spans;
/// use std::time::Duration;
///
/// let mut spans = Spans::default();
/// (1..=100).for_each(|n| spans.add(Duration::from_millis(n)));
/// assert_eq!(spans.count(), 100);
/// // At most twice the truth, never less.
/// assert_eq!(spans.quantile(0.5), Some(Duration::from_millis(64)));
/// assert_eq!(spans.quantile(0.99), Some(Duration::from_millis(128)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spans([u64; Self::BUCKETS]);

impl Spans {
    /// How many counts there are.
    pub const BUCKETS: usize = 32;

    /// Counts one.
    pub fn add(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        // Bucket n: up to 125 µs × 2ⁿ.
        let n = micros.div_ceil(125).saturating_sub(1).checked_ilog2().map_or(0, |log| log as usize + 1);
        let bucket = &mut self.0[n.min(Self::BUCKETS - 1)];
        *bucket = bucket.saturating_add(1);
    }

    /// The longest span that counts in bucket `n`; the last one has no end.
    #[must_use]
    pub fn bound(n: usize) -> Option<Duration> {
        (n + 1 < Self::BUCKETS).then(|| Duration::from_micros(125 << n))
    }

    /// The counts, without the empty ones at the end.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        let used = self.0.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.0[..used]
    }

    /// From counts that a store has kept; what is too much is left out.
    #[must_use]
    pub fn from_counts(counts: &[u64]) -> Self {
        let mut spans = Self::default();
        spans.0.iter_mut().zip(counts).for_each(|(bucket, count)| *bucket = *count);
        spans
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The span that this part of all does not exceed, rounded up to the next bound; `None` if there are none, or if it
    /// is longer than all bounds.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let total = self.count();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let wanted = ((total as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0_u64;
        for (n, count) in self.0.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return Self::bound(n);
            }
        }
        None
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(bucket, count)| *bucket = bucket.saturating_add(count));
    }
}

/// The attempts of one kind that ended in one way within one minute.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RunTally {
    /// When the minute began.
    pub minute: Timestamp,
    /// The kind of the jobs.
    pub kind: String,
    /// How they ended.
    pub ending: Ending,
    /// How late they began.
    pub late: Spans,
    /// How long they ran.
    pub ran: Spans,
}

impl RunTally {
    /// A tally as a store keeps it.
    #[must_use]
    pub fn new(minute: Timestamp, kind: impl Into<String>, ending: Ending, late: Spans, ran: Spans) -> Self {
        Self { minute, kind: kind.into(), ending, late, ran }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ran.count()
    }

    /// Adds up the tallies of all nodes; by minute, kind and ending.
    #[must_use]
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(Timestamp, String, Ending), Self> = BTreeMap::new();
        for tally in all {
            sums.entry((tally.minute, tally.kind.clone(), tally.ending))
                .and_modify(|sum| {
                    sum.late.merge(&tally.late);
                    sum.ran.merge(&tally.ran);
                })
                .or_insert(tally);
        }
        sums.into_values().collect()
    }
}

/// Errors of one kind that are the same but for numbers in their text.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ErrorTally {
    /// The hour it was counted in; of a sum, the first.
    pub hour: Timestamp,
    /// The kind of the jobs.
    pub kind: String,
    /// What errors that are the same have in common; 0 for those beyond what is told apart.
    pub fingerprint: i64,
    /// The last of them.
    pub example: String,
    /// When there was the first.
    pub first: Timestamp,
    /// When there was the last.
    pub last: Timestamp,
    /// How many there were.
    pub count: u64,
}

impl ErrorTally {
    /// One error, seen at an instant.
    #[must_use]
    pub fn new(kind: impl Into<String>, fingerprint: i64, example: impl Into<String>, at: Timestamp) -> Self {
        let (kind, example) = (kind.into(), example.into());
        Self { hour: start_of(HOUR, at), kind, fingerprint, example, first: at, last: at, count: 1 }
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.hour = self.hour.min(other.hour);
        self.first = self.first.min(other.first);
        if other.last >= self.last {
            (self.last, self.example) = (other.last, other.example);
        }
    }

    /// Adds up the tallies of all nodes and hours; by kind, the most frequent first.
    #[must_use]
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums: BTreeMap<(String, i64), Self> = BTreeMap::new();
        for tally in all {
            match sums.get_mut(&(tally.kind.clone(), tally.fingerprint)) {
                Some(sum) => sum.add(tally),
                None => drop(sums.insert((tally.kind.clone(), tally.fingerprint), tally)),
            }
        }
        let mut sums: Vec<Self> = sums.into_values().collect();
        sums.sort_by_key(|tally| (tally.kind.clone(), std::cmp::Reverse(tally.count)));
        sums
    }
}

/// What a node has counted: totals for minutes and hours, to be written over what it wrote before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tallies {
    /// Attempts.
    pub runs: Vec<RunTally>,
    /// Errors.
    pub errors: Vec<ErrorTally>,
}

impl Tallies {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.errors.is_empty()
    }
}

/// The same for errors that differ only in words with digits in them, such as ids, addresses and times; never 0.
///
/// ```
/// use punctual_durable::fingerprint;
///
/// assert_eq!(fingerprint("no route to 10.0.0.7 after 35 ms"), fingerprint("no route to 10.1.2.3 after 4 ms"));
/// assert_ne!(fingerprint("no route"), fingerprint("no disk"));
/// ```
#[must_use]
pub fn fingerprint(message: &str) -> i64 {
    // FNV-1a: the same on every machine, for ever.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |text: &str| {
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for word in message.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let letters = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        let rest = &word[letters.len()..];
        eat(if letters.chars().any(|c| c.is_ascii_digit()) { "#" } else { letters });
        eat(rest);
    }
    hash.cast_signed().max(i64::MIN + 1) | 1
}

fn start_of(unit: i64, at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_micros().div_euclid(unit).saturating_mul(unit))
}

/// The counts of one node.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    runs: BTreeMap<(Timestamp, String, Ending), (Spans, Spans)>,
    errors: BTreeMap<(Timestamp, String, i64), ErrorTally>,
    /// Whether something has been counted since it was last told.
    news: bool,
    /// When it was last told.
    telling: Option<Timestamp>,
}

impl Counter {
    pub(crate) fn run(&mut self, at: Timestamp, kind: &str, ending: Ending, late: Duration, ran: Duration) {
        let key = (start_of(MINUTE, at), kind.to_owned(), ending);
        let (lates, rans) = self.runs.entry(key).or_default();
        lates.add(late);
        rans.add(ran);
        self.news = true;
    }

    pub(crate) fn error(&mut self, at: Timestamp, kind: &str, message: &str) {
        let hour = start_of(HOUR, at);
        let mut fingerprint = fingerprint(message);
        let mut example = shorten(message.to_owned(), MOST_EXAMPLE);
        let known = self.errors.contains_key(&(hour, kind.to_owned(), fingerprint));
        if !known && self.errors.range((hour, String::new(), i64::MIN)..).count() >= MOST_ERRORS {
            (fingerprint, example) = (0, "other errors".to_owned());
        }
        let tally = ErrorTally::new(kind, fingerprint, example, at);
        match self.errors.get_mut(&(hour, kind.to_owned(), fingerprint)) {
            Some(sum) => sum.add(tally),
            None => drop(self.errors.insert((hour, kind.to_owned(), fingerprint), tally)),
        }
        self.news = true;
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news
    }

    /// What there is to tell, at `now`.
    pub(crate) fn tell(&mut self, now: Timestamp) -> Tallies {
        self.news = false;
        self.telling = Some(now);
        let runs = self.runs.iter().map(|((minute, kind, ending), (late, ran))| {
            RunTally::new(*minute, kind.clone(), *ending, *late, *ran)
        });
        Tallies { runs: runs.collect(), errors: self.errors.values().cloned().collect() }
    }

    /// It has been written. What was of earlier minutes and hours then is not needed any more.
    pub(crate) fn told(&mut self) {
        let Some(now) = self.telling.take() else { return };
        let (minute, hour) = (start_of(MINUTE, now), start_of(HOUR, now));
        self.runs.retain(|(of, _, _), _| *of >= minute);
        self.errors.retain(|(of, _, _), _| *of >= hour);
    }

    /// It may not have been written.
    pub(crate) fn untold(&mut self) {
        self.news = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn spans_are_counted_under_the_first_bound_that_holds_them() {
        let mut spans = Spans::default();
        assert_eq!((spans.quantile(0.5), spans.counts()), (None, [].as_slice()));
        let micros = [0, 1, 125, 126, 250, 251, 1_000, 1_001];
        micros.into_iter().for_each(|n| spans.add(Duration::from_micros(n)));
        assert_eq!(spans.counts(), [3, 2, 1, 1, 1]);
        for n in 0..Spans::BUCKETS - 1 {
            let mut one = Spans::default();
            one.add(Spans::bound(n).unwrap());
            assert_eq!((one.counts().len(), one.quantile(1.0)), (n + 1, Spans::bound(n)));
        }
        let mut long = Spans::default();
        long.add(Duration::MAX);
        assert_eq!((long.counts().len(), long.quantile(0.1)), (Spans::BUCKETS, None));
        assert_eq!(Spans::from_counts(spans.counts()), spans);
        assert_eq!(Spans::from_counts(&[u64::MAX; 99]).count(), u64::MAX);
    }

    #[test]
    fn a_counter_tells_totals_and_drops_them_when_their_time_is_over() {
        let mut counter = Counter::default();
        counter.run(at(59), "a", Ending::Done, Duration::ZERO, Duration::ZERO);
        counter.run(at(61), "a", Ending::Done, Duration::ZERO, Duration::ZERO);
        assert!(counter.has_news());
        let tallies = counter.tell(at(61));
        assert_eq!(tallies.runs.iter().map(|tally| tally.minute).collect::<Vec<_>>(), [at(0), at(60)]);
        assert!(!counter.has_news());
        counter.told();
        counter.run(at(62), "a", Ending::Done, Duration::ZERO, Duration::ZERO);
        let again = counter.tell(at(119));
        counter.run(at(119), "a", Ending::Done, Duration::ZERO, Duration::ZERO);
        counter.told();
        assert_eq!(counter.tell(at(121)).runs[0].count(), 3, "counted while it was told");
        assert_eq!((again.runs.len(), again.runs[0].count()), (1, 2), "the total of the minute");
        counter.untold();
        assert!(counter.has_news());
        let twice = RunTally::sum(again.runs.iter().chain(&tallies.runs).cloned());
        assert_eq!(twice.iter().map(RunTally::count).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn no_flood_of_errors_fills_the_memory() {
        let mut counter = Counter::default();
        let word = |n: u32| char::from_u32(0x4e00 + n).unwrap();
        for n in 0..10_000 {
            counter.error(at(1), "a", &format!("error {}", word(n)));
            counter.error(at(2), "a", &format!("at {n}"));
        }
        let errors = ErrorTally::sum(counter.tell(at(3_601)).errors);
        assert!(errors.len() <= MOST_ERRORS + 1, "{}", errors.len());
        assert_eq!(errors.iter().map(|tally| tally.count).sum::<u64>(), 20_000, "all are counted");
        let numbered = errors.iter().find(|tally| tally.example == "at 9999").expect("the last one");
        assert_eq!((numbered.count, numbered.first, numbered.last), (10_000, at(2), at(2)));
        assert!(errors.iter().any(|tally| tally.fingerprint == 0 && tally.example == "other errors"));
        counter.told();
        assert!(counter.tell(at(3_601)).is_empty());
    }
}
