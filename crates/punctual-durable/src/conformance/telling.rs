//! Properties of what handlers say while they run.

use std::time::Duration;

use super::{Hand, Subject, job, kinds};
use crate::job::{Fence, JobRecord, NodeId};
use crate::journal::{JobLog, LogLine, Progress, Update};
use crate::store::{Exchange, Report, Verdict};

impl Hand {
    /// What the holder of `job` would say.
    fn said(&self, job: &JobRecord, millionths: u32, numbers: std::ops::Range<u32>) -> Update {
        let now = self.store.now();
        Update {
            progress: Some(Progress::new(job.fence, now, millionths, format!("at {millionths}"))),
            lines: numbers.map(|n| LogLine::new(job.fence, n, now, format!("line {n}\0\n\'"))).collect(),
            ..Update::new(job.id, job.fence)
        }
    }

    fn say(&self, update: Update) {
        self.exchange(Exchange::new(kinds()).updates(vec![update]));
    }
}

/// The newest progress, and every line once, also if it is said again after an answer was lost.
pub fn what_a_handler_says_is_kept_in_order_and_once(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    assert_eq!(hand.store.log(held.id).unwrap(), JobLog::default());
    let first = hand.said(&held, 100, 0..2);
    hand.say(first.clone());
    hand.say(first);
    subject.clock().advance(Duration::from_secs(1));
    let second = hand.said(&held, 200, 1..3);
    // With the report: what is said in the same breath still counts.
    let report =
        Report::new(held.id, held.fence, Verdict::Retry { after: Duration::ZERO, error: "no".to_owned() });
    hand.exchange(Exchange::new(kinds()).updates(vec![second.clone()]).reports(vec![report]));
    let again = hand.sweep(1).remove(0);
    let third = Update { progress: None, ..hand.said(&again, 0, 0..1) };
    hand.say(third);
    let log = hand.store.log(held.id).unwrap();
    assert_eq!(log.progress, second.progress, "what says nothing of progress takes none away");
    let lines: Vec<_> = log.lines.iter().map(|line| (line.fence, line.number, line.text.as_str())).collect();
    let text = |n: u32| format!("line {n}\0\n\'");
    let (one, two, three) = (text(0), text(1), text(2));
    let expected =
        [(held.fence, 0, &one), (held.fence, 1, &two), (held.fence, 2, &three), (again.fence, 0, &one)];
    assert_eq!(lines, expected.map(|(fence, number, text)| (fence, number, text.as_str())));
    drop(hand);
    subject.crash();
    assert_eq!(subject.store().log(held.id).unwrap(), log, "it survives a crash");
    subject.verify();
}

/// Invariant 3.
pub fn whoever_does_not_hold_a_job_says_nothing_of_it(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    let stranger = Hand { store: subject.store(), node: NodeId::random() };
    stranger.say(hand.said(&held, 1, 0..1));
    hand.say(Update { fence: Fence::from_i64(-1), ..hand.said(&held, 1, 0..1) });
    hand.say(Update { id: crate::job::JobId::from_i64(4_711), ..hand.said(&held, 1, 0..1) });
    hand.report(&held, Verdict::Release);
    hand.say(hand.said(&held, 1, 0..1));
    let again = hand.sweep(1).remove(0);
    hand.say(hand.said(&held, 1, 0..1));
    hand.report(&again, Verdict::Done);
    hand.say(hand.said(&again, 1, 0..1));
    assert_eq!(hand.store.log(held.id).unwrap(), JobLog::default());
    assert_eq!(hand.store.log(crate::job::JobId::from_i64(4_711)).unwrap(), JobLog::default());
    subject.verify();
}

/// A log is kept as long as its job.
pub fn a_log_is_forgotten_with_its_job(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    for verdict in [Verdict::Done, Verdict::Fail { error: "no".to_owned() }] {
        let held = hand.hold(job());
        hand.say(hand.said(&held, 1, 0..3));
        hand.report(&held, verdict);
        assert_eq!(hand.store.log(held.id).unwrap().lines.len(), 3, "while it is kept");
        subject.clock().advance(Duration::from_secs(1));
        let gone = hand.store.trim(hand.store.now(), 9).unwrap() + hand.store.purge(vec![held.id]).unwrap();
        assert_eq!((gone, hand.store.log(held.id).unwrap()), (1, JobLog::default()));
    }
    subject.verify();
}
