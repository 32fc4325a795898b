//! Properties of enqueue.

use std::collections::BTreeSet;

use super::{Hand, Subject, in_seconds, job};
use crate::job::{JobState, Limits, NewJob, OnConflict};
use crate::store::{Enqueued, Filter, Verdict};

/// Invariant 1.
pub fn acknowledged_jobs_survive_a_crash(subject: &mut dyn Subject) {
    let store = subject.store();
    let jobs: Vec<NewJob> = (0..100).map(|n| NewJob::new("other", n.to_string())).collect();
    let accepted = store.enqueue(jobs).unwrap();
    drop(store);
    subject.crash();
    let store = subject.store();
    for (n, accepted) in accepted.iter().enumerate() {
        let record = store.job(accepted.id()).unwrap().expect("acknowledged is durable");
        assert_eq!((record.state, record.payload), (JobState::Scheduled, Some(n.to_string())));
    }
}

/// Invariant 2.
pub fn a_batch_with_one_bad_job_is_refused_as_a_whole(subject: &mut dyn Subject) {
    let store = subject.store();
    store.enqueue(vec![job().unique("taken", OnConflict::Keep)]).unwrap();
    let bad = [
        NewJob::new("", "{}"),
        NewJob::new("a\0b", "{}"),
        job().queue("x".repeat(256)),
        NewJob::new("known", "x".repeat(NewJob::MAX_PAYLOAD + 1)),
        NewJob { limits: Limits { max_attempts: 0, ..Limits::default() }, ..job() },
    ];
    for bad in bad {
        let error = store.enqueue(vec![job(), bad.clone(), job()]).unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
    let clash = vec![job(), job().unique("taken", OnConflict::Reject), job()];
    let error = store.enqueue(clash).unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("\"taken\""), "{error}");
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 1, "nothing was accepted");
    assert_eq!(store.enqueue(Vec::new()).unwrap(), []);
    subject.verify();
}

/// Invariant 6.
pub fn a_unique_key_is_held_until_the_job_is_over(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let keyed = || job().unique("one", OnConflict::Keep);
    let first = hand.add(keyed());
    let same = || hand.store.enqueue(vec![keyed()]).unwrap()[0] == Enqueued::Existing(first);
    assert!(same(), "while it waits");
    let held = hand.sweep(1).pop().unwrap();
    assert!(same(), "while it is claimed");
    hand.report(&held, Verdict::Snooze { after: std::time::Duration::ZERO });
    assert!(same(), "while it waits again");
    let held = hand.sweep(1).pop().unwrap();
    hand.report(&held, Verdict::Fail { error: "no".to_owned() });
    assert_ne!(hand.add(keyed()), first, "the dead hold no key");
    subject.verify();
}

/// The three policies.
pub fn a_conflict_is_settled_as_the_newcomer_asked(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let with = |payload: &str, policy| NewJob { payload: payload.to_owned(), ..job() }.unique("k", policy);
    let first = hand.add(with("1", OnConflict::Reject));
    assert_eq!(hand.store.enqueue(vec![with("2", OnConflict::Keep)]).unwrap(), [Enqueued::Existing(first)]);
    assert_eq!(hand.get(first).payload.unwrap(), "1");
    assert!(hand.store.enqueue(vec![with("3", OnConflict::Reject)]).unwrap_err().is_conflict());

    let later = with("4", OnConflict::Replace).due(in_seconds(60));
    let Enqueued::Replaced(ticket) = hand.store.enqueue(vec![later]).unwrap()[0] else {
        panic!("it waits, so it can be replaced")
    };
    let record = hand.get(first);
    assert_eq!((ticket.id, ticket.version, ticket.due), (first, record.version, record.due));
    assert_eq!(record.payload.as_deref(), Some("4"));
    assert_eq!(record.due, hand.store.now().after(std::time::Duration::from_secs(60)));
    assert_eq!(hand.sweep(9), [], "it is not due any more");

    hand.store.enqueue(vec![with("5", OnConflict::Replace)]).unwrap();
    let held = hand.sweep(1).pop().unwrap();
    assert_eq!(held.payload.as_deref(), Some("5"));
    let answer = hand.store.enqueue(vec![with("6", OnConflict::Replace)]).unwrap();
    assert_eq!(answer, [Enqueued::Existing(first)], "a claimed job stays as it is");
    assert_eq!(hand.get(first).payload.as_deref(), Some("5"));
    subject.verify();
}

/// A batch meets itself as it would meet others.
pub fn a_key_twice_in_one_batch_is_one_job(subject: &mut dyn Subject) {
    let store = subject.store();
    let keyed = |policy| job().unique("k", policy);
    let answers = store.enqueue(vec![keyed(OnConflict::Keep), keyed(OnConflict::Keep)]).unwrap();
    assert_eq!(answers[1], Enqueued::Existing(answers[0].id()));
    let twice = vec![job().unique("l", OnConflict::Keep), job().unique("l", OnConflict::Reject)];
    assert!(store.enqueue(twice).unwrap_err().is_conflict());
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 1);
    subject.verify();
}

/// Not after the end of the job, not after a crash.
pub fn ids_are_never_given_twice(subject: &mut dyn Subject) {
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let hand = Hand::new(subject);
        let held = hand.hold(job());
        assert!(seen.insert(held.id), "{} was given before", held.id);
        hand.report(&held, Verdict::Done);
        subject.clock().advance(std::time::Duration::from_secs(1));
        hand.store.trim(hand.store.now(), usize::MAX).unwrap();
        assert_eq!(hand.store.job(held.id).unwrap(), None);
        drop(hand);
        subject.crash();
    }
}
