//! Properties of statistics, and of looks that count nothing.

use std::time::Duration;

use super::{Hand, KIND, Subject, in_seconds, job, kinds};
use crate::job::{NewJob, NodeId};
use crate::lane::Lane;
use crate::store::{Exchange, QueueChange, Verdict};
use crate::tally::{Ending, ErrorTally, RunTally, Spans, Tallies};
use crate::time::Timestamp;

fn minute(n: i64) -> Timestamp {
    Timestamp::from_micros(n * 60_000_000)
}

fn spans(counts: &[u64]) -> Spans {
    Spans::from_counts(counts)
}

impl Hand {
    fn count(&self, runs: Vec<RunTally>, errors: Vec<ErrorTally>) {
        self.exchange(Exchange::new(kinds()).tallies(Tallies { runs, errors }));
    }
}

/// Totals of a node replace its own, and are added to those of others.
pub fn what_nodes_count_is_added_up(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let other = Hand { store: subject.store(), node: NodeId::random() };
    let run =
        |n, ending, counts: &[u64]| RunTally::new(minute(n), KIND, ending, spans(counts), spans(&[3, 0, 1]));
    let error = |seconds: i64, fingerprint, text: &str| {
        ErrorTally::new(KIND, fingerprint, text, Timestamp::from_micros(seconds * 1_000_000))
    };
    hand.count(vec![run(1, Ending::Done, &[1]), run(1, Ending::Dead, &[1])], vec![error(60, 7, "old")]);
    let more = ErrorTally { count: 5, last: minute(2), ..error(60, 7, "newer") };
    hand.count(vec![run(1, Ending::Done, &[2]), run(2, Ending::Done, &[4])], vec![more]);
    other.count(vec![run(1, Ending::Done, &[0, 5])], vec![error(130, 7, "newest\0"), error(60, -9, "other")]);

    let tallies = |from, until| hand.store.tallies(minute(from), minute(until)).unwrap();
    let expected = [
        RunTally::new(minute(1), KIND, Ending::Done, spans(&[2, 5]), spans(&[6, 0, 2])),
        run(1, Ending::Dead, &[1]),
        run(2, Ending::Done, &[4]),
    ];
    assert_eq!(tallies(0, 9), expected);
    assert_eq!(tallies(1, 2), expected[..2]);
    assert_eq!(tallies(2, 3), expected[2..]);
    let errors = hand.store.errors(minute(0)).unwrap();
    let seen: Vec<_> = errors.iter().map(|e| (e.fingerprint, e.count, e.example.as_str(), e.first)).collect();
    assert_eq!(seen, [(7, 6, "newest\0", minute(1)), (-9, 1, "other", minute(1))]);
    assert_eq!(hand.store.errors(Timestamp::from_micros(130_000_000)).unwrap().len(), 1);

    drop((hand, other));
    subject.crash();
    let store = subject.store();
    assert_eq!(store.tallies(minute(0), Timestamp::MAX).unwrap(), expected, "they survive a crash");
    store.trim(minute(2), 9).unwrap();
    assert_eq!(store.tallies(minute(0), Timestamp::MAX).unwrap(), expected[2..], "and are trimmed");
    assert_eq!(store.errors(minute(0)).unwrap().len(), 1);
    subject.verify();
}

/// When the first of each is due, whoever may take from it.
pub fn lines_tell_what_waits_where(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    assert_eq!(hand.store.lines().unwrap(), []);
    let now = hand.store.now();
    hand.add(job().due(in_seconds(9)));
    hand.add(job().due(in_seconds(5)));
    hand.add(NewJob::new("foreign", "{}").queue("b").lane(Lane::Low));
    let done = hand.hold(job().queue("c"));
    hand.report(&done, Verdict::Done);
    hand.store.set_queue("b", QueueChange::Pause(String::new())).unwrap();
    let lines = hand.store.lines().unwrap();
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line.queue.as_str(), line.kind.as_str(), line.lane, line.first_due))
        .collect();
    let expected = [
        ("b", "foreign", Lane::Low, Some(now)),
        ("c", KIND, Lane::Normal, None),
        ("default", KIND, Lane::Normal, Some(now.after(Duration::from_secs(5)))),
    ];
    assert_eq!(seen, expected);
}

/// What waits, by when it is due; what runs or is over does not count.
pub fn the_density_of_what_comes_is_seen(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    let now = hand.store.now();
    for seconds in [0, 1, 9, 10, 10, 29, 30] {
        hand.add(job().due(in_seconds(seconds)).queue(if seconds % 2 == 0 { "even" } else { "odd" }));
    }
    let ten = Duration::from_secs(10);
    let density = hand.store.upcoming(now, ten, 3, 100).unwrap();
    assert_eq!((density.counts, density.partial), (vec![3, 2, 1], false));
    for most in 0..6 {
        let few = hand.store.upcoming(now, ten, 3, most).unwrap();
        assert!(few.partial, "{most} of 6");
        assert_eq!(few.counts.iter().sum::<u64>(), most as u64, "no more, in all lines together");
        assert_eq!(few.counts[0], (most as u64).min(3), "the next ones first: {few:?}");
        assert!(few.counts[1] <= 2 && few.counts[2] <= 1, "{few:?}");
    }
    let exact = hand.store.upcoming(now, ten, 3, 6).unwrap();
    assert!(!exact.partial, "there are no more");
    assert_eq!(
        hand.store.upcoming(now, Duration::ZERO, 2, 9).unwrap().counts,
        [1, 0],
        "a microsecond at least"
    );
    assert_eq!(hand.store.upcoming(now, Duration::MAX, 2, 9).unwrap().counts, [7, 0]);
    assert!(hand.store.upcoming(Timestamp::MAX, ten, 0, 9).unwrap().counts.is_empty());
    let before = Timestamp::from_micros(-5);
    assert_eq!(hand.store.upcoming(before, Duration::MAX, 2, 9).unwrap().counts, [7, 0]);
    assert!(hand.store.upcoming(Timestamp::from_micros(i64::MIN), ten, 2, 9).unwrap().counts == [0, 0]);
    hand.report(&held, Verdict::Done);
}

/// A store in order has nothing to warn of, and an orphan is seen. (A server in a test may be one that forgets everything
/// with the power.)
pub fn a_check_finds_orphans_and_nothing_where_nothing_is(subject: &mut dyn Subject) {
    use crate::doctor::Severity;
    let worst = |subject: &dyn Subject| {
        let findings = subject.store().check().unwrap();
        findings
            .into_iter()
            .filter(|finding| finding.severity > Severity::Info && finding.check != "durability")
            .map(|finding| finding.check)
            .next()
    };
    assert_eq!(worst(subject), None);
    let hand = Hand::new(subject);
    hand.hold(job());
    assert_eq!(worst(subject), None, "its holder lives");
    drop(hand);
    subject.crash();
    let hand = Hand::new(subject);
    assert_eq!(worst(subject), Some("orphaned claims"));
    hand.store.rescue(hand.node, 9).unwrap();
    assert_eq!(worst(subject), None);
}
