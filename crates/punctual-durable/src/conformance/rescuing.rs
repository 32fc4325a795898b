//! Properties of leases and rescue.

use std::time::Duration;

use super::{Hand, LEASE, Subject, job};
use crate::job::{JobState, Limits, NewJob, OnConflict, OnLost};
use crate::store::{Recorded, Verdict};

/// Invariant 8; and at least once.
pub fn jobs_of_a_dead_node_are_rescued(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job().unique("k", OnConflict::Keep));
    let fail = Limits { on_lost: OnLost::Fail, ..Limits::default() };
    let once = hand.hold(NewJob { limits: fail, ..job() });
    let asked = hand.hold(job());
    hand.store.cancel(vec![asked.id]).unwrap();
    let node = hand.node;
    drop(hand);
    subject.crash();
    let hand = Hand::new(subject);
    let rescued = hand.store.rescue(hand.node, 100).unwrap();
    let seen: Vec<_> = rescued.iter().map(|rescue| (rescue.id, rescue.from, rescue.state)).collect();
    let expected = [
        (held.id, node, JobState::Scheduled),
        (once.id, node, JobState::Dead),
        (asked.id, node, JobState::Cancelled),
    ];
    assert_eq!(seen, expected);
    assert_eq!(hand.store.rescue(hand.node, 100).unwrap(), []);
    let record = hand.get(held.id);
    assert_eq!((record.crashes, record.attempt), (1, 0), "the crash counts, the attempt does not");
    let failures = hand.store.failures(held.id).unwrap();
    assert!(failures[0].message.contains(&format!("{node:?} died")), "{failures:?}");
    assert_eq!(hand.sweep_ids(9), [held.id], "run again at once");
    subject.verify();
}

/// Invariant 3, when it matters most.
pub fn a_rescued_job_refuses_its_old_owner(subject: &mut dyn Subject) {
    let late = Hand::new(subject);
    let first = late.hold(job());
    let node = late.node;
    drop(late);
    subject.crash();
    let hand = Hand::new(subject);
    hand.store.rescue(hand.node, 100).unwrap();
    let late = Hand { store: subject.store(), node };
    assert_eq!(late.report(&first, Verdict::Done), Recorded::Stale, "while it waits");
    let second = hand.sweep(1).pop().unwrap();
    assert_eq!(late.report(&first, Verdict::Done), Recorded::Stale, "while another holds it");
    assert!(matches!(hand.report(&second, Verdict::Done), Recorded::Over(JobState::Done)));
    assert_eq!(late.report(&first, Verdict::Done), Recorded::Stale, "when it is over");
    subject.verify();
}

/// A poison pill is swallowed `max_crashes` times.
pub fn a_job_that_kills_its_nodes_dies(subject: &mut dyn Subject) {
    let limits = Limits { max_crashes: 3, max_attempts: 1, ..Limits::default() };
    let id = Hand::new(subject).hold(NewJob { limits, ..job() }).id;
    for crash in 1..=3 {
        subject.crash();
        let hand = Hand::new(subject);
        assert_eq!(hand.store.rescue(hand.node, 100).unwrap().len(), 1);
        assert_eq!(hand.get(id).crashes, crash);
        if crash < 3 {
            subject.clock().advance(Duration::from_secs(300));
            hand.renew();
            assert_eq!(hand.sweep_ids(9), [id]);
        }
    }
    let record = subject.store().job(id).unwrap().unwrap();
    assert_eq!(record.state, JobState::Dead);
    assert!(record.note.unwrap().contains("3rd time"));
    subject.verify();
}

/// However long a job takes.
pub fn jobs_of_a_living_node_are_never_rescued(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    for _ in 0..5 {
        subject.clock().advance(LEASE / 2);
        hand.renew();
        assert_eq!(hand.store.rescue(hand.node, 100).unwrap(), []);
    }
    assert!(matches!(hand.report(&held, Verdict::Done), Recorded::Over(JobState::Done)));
}

/// Nobody waits for a lease that was given up.
pub fn a_node_that_leaves_frees_its_jobs_at_once(subject: &mut dyn Subject) {
    let leaver = Hand::new(subject);
    let held = leaver.hold(job());
    leaver.store.leave(leaver.node).unwrap();
    assert_eq!(leaver.sweep(1), []);
    let heir = Hand::new(subject);
    let rescued = heir.store.rescue(heir.node, 100).unwrap();
    assert_eq!((rescued.len(), rescued[0].id, rescued[0].from), (1, held.id, leaver.node));
    assert_eq!(heir.sweep_ids(1), [held.id]);
    leaver.store.leave(leaver.node).unwrap();
    heir.renew();
}
