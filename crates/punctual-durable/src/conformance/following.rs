//! Properties of jobs that follow others.

use std::time::Duration;

use super::{Hand, KIND, Subject, in_seconds, job, kinds};
use crate::job::{Due, JobId, JobRecord, JobState, Limits, NewJob, OnConflict, OnLost};
use crate::store::{Exchange, Exchanged, Filter, Recorded, Report, Verdict};

fn named(payload: &str) -> NewJob {
    NewJob::new(KIND, payload)
}

impl Hand {
    fn done_with(&self, job: &JobRecord, follow_ups: Vec<NewJob>) -> Exchanged {
        let report = Report::new(job.id, job.fence, Verdict::Done).follow_ups(follow_ups);
        self.exchange(Exchange::new(kinds()).reports(vec![report]))
    }

    fn children(&self, id: JobId) -> Vec<JobRecord> {
        self.store.find(&Filter::new().parent(id)).unwrap()
    }
}

/// Each link carries the rest of the chain, and waits from when the one before it was done.
pub fn a_chain_goes_on_in_the_transaction_in_which_a_link_is_done(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let chain = named("a").then(named("b").due(in_seconds(5)).queue("other")).then(named("c"));
    let a = hand.hold(chain);
    assert_eq!(a.then.iter().map(|job| job.payload.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    subject.clock().advance(Duration::from_secs(1));
    let answer = hand.done_with(&a, Vec::new());
    let due = hand.store.now().after(Duration::from_secs(5));
    let b = hand.children(a.id).remove(0);
    assert_eq!((b.queue.as_str(), b.due, b.then.len()), ("other", due, 1));
    let ticket = answer.followed[0];
    assert_eq!((answer.followed.len(), ticket.id, ticket.version, ticket.due), (1, b.id, b.version, due));
    let done = hand.get(a.id);
    assert_eq!((done.state, done.then, done.note), (JobState::Done, vec![], None), "it has become a job");
    assert_eq!(hand.sweep(9), [], "its pause is not over");

    drop(hand);
    subject.crash();
    subject.clock().advance(Duration::from_secs(5));
    let hand = Hand::new(subject);
    let b = hand.sweep(9).pop().expect("it has waited, and survived");
    assert_eq!((b.payload.as_deref(), b.parent), (Some("b"), Some(a.id)));
    assert_eq!(hand.report(&b, Verdict::Done), Recorded::Over(JobState::Done));
    let c = hand.sweep(9).pop().unwrap();
    assert_eq!((c.payload.as_deref(), c.parent, c.then.len()), (Some("c"), Some(b.id), 0));
    assert_eq!(hand.done_with(&c, Vec::new()).followed, []);
    assert_eq!(hand.store.find(&Filter::new()).unwrap().len(), 3);
    subject.verify();
}

/// Exactly once: a report that is repeated or stale makes nothing.
pub fn follow_ups_are_accepted_once_and_only_from_the_holder(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job().then(named("chain")));
    let asked = || vec![named("asked").due(in_seconds(60)), named("asked").due(in_seconds(60))];
    let late = JobRecord { fence: crate::job::Fence::from_i64(-1), ..held.clone() };
    let stale = hand.done_with(&late, asked());
    assert_eq!((stale.recorded[0], stale.followed.len()), (Recorded::Stale, 0));
    assert_eq!(hand.children(held.id), []);
    assert_eq!(hand.done_with(&held, asked()).followed.len(), 3, "the chain, and what the handler asked for");
    let again = hand.done_with(&held, asked());
    assert_eq!((again.recorded[0], again.followed.len()), (Recorded::Already, 0));
    assert_eq!(hand.children(held.id).len(), 3);
    subject.verify();
}

/// Whatever else becomes of a link; but it is there to be seen, and for another try.
pub fn a_chain_ends_with_a_link_that_is_not_done(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let chain = || job().then(named("next"));
    let over: Vec<(JobId, JobState)> = [
        (Verdict::Fail { error: "no".to_owned() }, JobState::Dead),
        (Verdict::Discard { reason: "moot".to_owned() }, JobState::Discarded),
        (Verdict::Cancelled, JobState::Cancelled),
    ]
    .into_iter()
    .map(|(verdict, state)| {
        let held = hand.hold(chain());
        let report = Report::new(held.id, held.fence, verdict).follow_ups(vec![named("asked")]);
        assert_eq!(hand.exchange(Exchange::new(kinds()).reports(vec![report])).followed, []);
        (held.id, state)
    })
    .collect();
    let waiting = hand.add(chain().due(in_seconds(60)));
    hand.store.cancel(vec![waiting]).unwrap();
    let again = hand.hold(chain());
    hand.report(&again, Verdict::Retry { after: Duration::from_secs(60), error: "not yet".to_owned() });
    let lost = hand.hold(NewJob { limits: Limits { on_lost: OnLost::Fail, ..Limits::default() }, ..chain() });
    let (dead, ids) = (over[0].0, over.iter().map(|(id, _)| *id).chain([waiting, again.id, lost.id]));
    for (id, state) in over.iter().copied().chain([(waiting, JobState::Cancelled)]) {
        assert_eq!((hand.get(id).state, hand.get(id).then.len()), (state, 1));
    }
    drop(hand);
    subject.crash();
    let hand = Hand::new(subject);
    hand.store.rescue(hand.node, 9).unwrap();
    assert_eq!((hand.get(lost.id).state, hand.get(lost.id).then.len()), (JobState::Dead, 1));
    for id in ids {
        assert_eq!(hand.children(id), []);
    }
    hand.store.retry(dead, Due::Now).unwrap();
    let held = hand.sweep(9).into_iter().find(|job| job.id == dead).unwrap();
    hand.report(&held, Verdict::Done);
    assert_eq!(hand.children(dead).len(), 1, "late, but done: the chain goes on");
    subject.verify();
}

/// The policy of the follow-up decides about it, and about nothing else.
pub fn a_follow_up_whose_key_is_taken_blocks_nothing(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let taken = hand.add(named("old").due(in_seconds(60)).unique("k", OnConflict::Keep));
    for (policy, changes) in
        [(OnConflict::Keep, false), (OnConflict::Reject, false), (OnConflict::Replace, true)]
    {
        let follow = named("new").due(in_seconds(30)).unique("k", policy).then(named("rest"));
        let held = hand.hold(job().then(follow));
        let answer = hand.done_with(&held, vec![named("beside").due(in_seconds(60))]);
        assert_eq!(answer.recorded[0], Recorded::Over(JobState::Done), "{policy:?}");
        assert_eq!(answer.followed.len(), 1 + usize::from(changes), "the one beside it is unharmed");
        let note = hand.get(held.id).note;
        if changes {
            let record = hand.get(taken);
            assert_eq!((record.payload.as_deref(), record.then.len(), note), (Some("new"), 1, None));
            assert_eq!(record.due, hand.store.now().after(Duration::from_secs(30)));
            assert_eq!(answer.followed[0].version, record.version);
        } else {
            let note = note.expect("it is noted");
            assert!(note.contains("\"known\"") && note.contains("\"k\""), "{note}");
            assert!(note.contains(&taken.to_string()), "{note}");
            assert_eq!(hand.get(taken).payload.as_deref(), Some("old"));
        }
    }
    // The key of a job is free for what follows it.
    let own =
        hand.hold(job().unique("own", OnConflict::Reject).then(job().unique("own", OnConflict::Reject)));
    hand.report(&own, Verdict::Done);
    assert_eq!((hand.children(own.id).len(), hand.get(own.id).note), (1, None));
    let held = hand.sweep(1).remove(0);
    hand.done_with(&held, vec![NewJob::new("", "{}"), named("good").due(in_seconds(60))]);
    assert_eq!(hand.children(held.id).len(), 1, "one that makes no sense is left out");
    assert!(hand.get(held.id).note.unwrap().contains("the kind is empty"));
    subject.verify();
}
