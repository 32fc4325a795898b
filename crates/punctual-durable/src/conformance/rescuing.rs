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

/// A node that held several jobs, of which each may have killed it: nobody knows which.
pub fn a_job_does_not_die_of_what_another_may_have_done(subject: &mut dyn Subject) {
    let limits = Limits { max_crashes: 3, ..Limits::default() };
    let hand = Hand::new(subject);
    let (a, b) = (hand.hold(NewJob { limits, ..job() }).id, hand.hold(NewJob { limits, ..job() }).id);
    drop(hand);
    for crash in 1..=5 {
        subject.crash();
        let hand = Hand::new(subject);
        assert_eq!(hand.store.rescue(hand.node, 100).unwrap().len(), 2);
        for id in [a, b] {
            let record = hand.get(id);
            assert_eq!((record.state, record.crashes), (JobState::Scheduled, crash.min(2)));
        }
        subject.clock().advance(Duration::from_secs(300));
        hand.renew();
        let held = hand.sweep(9);
        assert_eq!(held.len(), 2);
        if crash == 5 {
            hand.report(&held[0], Verdict::Defer { after: Duration::ZERO });
        }
    }
    subject.crash();
    let hand = Hand::new(subject);
    let rescued = hand.store.rescue(hand.node, 100).unwrap();
    assert_eq!(rescued.iter().map(|it| (it.id, it.state)).collect::<Vec<_>>(), [(b, JobState::Dead)]);
    assert_eq!(hand.sweep_ids(9), [a]);
    subject.verify();
}

/// Losses count in a row: an attempt that ends begins anew, one that is given back does not.
pub fn an_attempt_that_ends_clears_the_crashes(subject: &mut dyn Subject) {
    let after = Duration::ZERO;
    let error = "no".to_owned();
    for (verdict, crashes) in [
        (Verdict::Retry { after, error }, 0),
        (Verdict::Snooze { after }, 0),
        (Verdict::Release, 1),
        (Verdict::Defer { after: Duration::from_secs(1) }, 1),
    ] {
        let id = Hand::new(subject).hold(job()).id;
        subject.crash();
        let hand = Hand::new(subject);
        assert_eq!(hand.store.rescue(hand.node, 100).unwrap().len(), 1);
        let held = hand.sweep(1).pop().unwrap();
        assert_eq!((held.id, held.crashes, held.attempt), (id, 1, 1));
        let due = match verdict {
            Verdict::Defer { after } => hand.store.now().after(after),
            Verdict::Release => held.due,
            _ => hand.store.now(),
        };
        assert_eq!(hand.report(&held, verdict.clone()), Recorded::Waits(due));
        let record = hand.get(id);
        assert_eq!((record.state, record.crashes), (JobState::Scheduled, crashes), "{verdict:?}");
        assert_eq!(record.attempt, u32::from(matches!(verdict, Verdict::Retry { .. })));
        hand.store.cancel(vec![id]).unwrap();
        hand.store.leave(hand.node).unwrap();
    }
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

/// Who watches sees who is there, who holds what, and who does not live any more.
pub fn nodes_are_told_with_what_they_hold_and_whether_they_live(subject: &mut dyn Subject) {
    assert_eq!(subject.store().nodes().unwrap(), []);
    let hand = Hand::new(subject);
    let seen = |subject: &dyn Subject| {
        let nodes = subject.store().nodes().unwrap();
        nodes.iter().map(|node| (node.id, node.alive, node.held)).collect::<Vec<_>>()
    };
    assert_eq!(seen(subject), [(hand.node, true, 0)]);
    let done = hand.hold(job());
    hand.hold(job());
    assert_eq!(seen(subject), [(hand.node, true, 2)]);
    hand.report(&done, Verdict::Done);
    assert_eq!(seen(subject), [(hand.node, true, 1)]);
    let until = hand.store.nodes().unwrap()[0].until;
    assert!(until.is_none_or(|until| until == hand.store.now().after(LEASE)), "{until:?}");

    let dead = hand.node;
    drop(hand);
    subject.crash();
    assert_eq!(seen(subject), [(dead, false, 1)]);
    let hand = Hand::new(subject);
    let mut both = [(dead, false, 1), (hand.node, true, 0)];
    both.sort_unstable();
    assert_eq!(seen(subject), both);
    hand.store.rescue(hand.node, 9).unwrap();
    assert_eq!(seen(subject), [(hand.node, true, 0)], "the dead are forgotten");
    hand.sweep(9);
    hand.store.leave(hand.node).unwrap();
    assert_eq!(seen(subject), [(hand.node, false, 1)], "who has gone without its job");
    subject.verify();
}
