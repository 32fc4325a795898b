//! Properties of reports and cancels.

use std::time::Duration;

use super::{Hand, Subject, in_seconds, job, kinds};
use crate::job::{Fence, JobId, JobState, Limits, NewJob, NodeId, OnConflict};
use crate::store::{Cancelling, Exchange, Recorded, Report, Verdict};

fn failed() -> Verdict {
    Verdict::Retry { after: Duration::from_secs(3), error: "no route".to_owned() }
}

/// Invariant 4.
pub fn done_is_recorded_once_and_frees_the_key(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job().unique("k", OnConflict::Keep));
    let Recorded::Over(JobState::Done) = hand.report(&held, Verdict::Done) else { panic!("it is done") };
    let record = hand.get(held.id);
    assert_eq!((record.state, record.payload, record.attempt), (JobState::Done, None, 1));
    assert_eq!((record.unique.as_deref(), record.finished), (Some("k"), Some(hand.store.now())));
    assert_ne!(hand.add(job().unique("k", OnConflict::Reject)), held.id);
    let held = hand.sweep(1).pop().unwrap();
    hand.report(&held, Verdict::Discard { reason: "sent by hand".to_owned() });
    let record = hand.get(held.id);
    assert_eq!((record.state, record.note.as_deref()), (JobState::Discarded, Some("sent by hand")));
    subject.verify();
}

/// Attempts are counted, failures are kept.
pub fn a_failed_job_waits_and_dies_with_its_last_attempt(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let limits = Limits { max_attempts: 2, ..Limits::default() };
    let first = hand.hold(NewJob { limits, ..job() });
    let due = hand.store.now().after(Duration::from_secs(3));
    assert_eq!(hand.report(&first, failed()), Recorded::Waits(due));
    let record = hand.get(first.id);
    assert_eq!(
        (record.state, record.due, record.note.as_deref()),
        (JobState::Scheduled, due, Some("no route"))
    );
    assert_eq!(hand.sweep(9), [], "it waits");
    subject.clock().advance(Duration::from_secs(3));
    let second = hand.sweep(9).pop().expect("it has waited");
    assert_eq!((second.attempt, second.fence > first.fence), (2, true));
    assert!(matches!(hand.report(&second, failed()), Recorded::Over(JobState::Dead)));
    let record = hand.get(first.id);
    assert_eq!((record.state, record.payload.as_deref()), (JobState::Dead, Some("{}")), "kept for a retry");
    let failures = hand.store.failures(first.id).unwrap();
    let seen: Vec<_> = failures.iter().map(|f| (f.attempt, f.fence, f.message.as_str())).collect();
    assert_eq!(seen, [(1, first.fence, "no route"), (2, second.fence, "no route")]);
    subject.verify();
}

/// `attempt` is not a fence.
pub fn snoozed_and_released_jobs_keep_their_attempts(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let first = hand.hold(job());
    hand.report(&first, Verdict::Release);
    let second = hand.sweep(1).pop().unwrap();
    assert_eq!((second.attempt, second.due), (1, first.due), "as if it had not been claimed");
    assert!(second.fence > first.fence);
    hand.report(&second, Verdict::Snooze { after: Duration::from_secs(1) });
    assert_eq!(hand.sweep(1), []);
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(hand.sweep(1).pop().unwrap().attempt, 1);
    assert_eq!(hand.store.failures(first.id).unwrap(), []);
}

/// Invariant 3.
pub fn a_report_with_the_wrong_owner_or_fence_changes_nothing(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    let stranger = Hand { store: subject.store(), node: NodeId::random() };
    let wrong_fence =
        crate::job::JobRecord { fence: Fence::from_i64(held.fence.as_i64() + 1), ..held.clone() };
    let unknown = crate::job::JobRecord { id: JobId::from_i64(4_711), ..held.clone() };
    for verdict in [Verdict::Done, failed(), Verdict::Release, Verdict::Cancelled] {
        assert_eq!(stranger.report(&held, verdict.clone()), Recorded::Stale);
        assert_eq!(hand.report(&wrong_fence, verdict.clone()), Recorded::Stale);
        assert_eq!(hand.report(&unknown, verdict), Recorded::Stale);
    }
    assert_eq!(hand.get(held.id), held);
    // An attempt that was given back and begun anew does not answer to its first fence.
    hand.report(&held, Verdict::Release);
    let again = hand.sweep(1).pop().unwrap();
    assert_eq!(hand.report(&held, Verdict::Done), Recorded::Stale);
    assert_eq!(hand.get(held.id), again);
    subject.verify();
}

/// Invariant 7.
pub fn a_report_sent_twice_is_recorded_once(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let verdicts = [Verdict::Done, failed(), Verdict::Fail { error: "never".to_owned() }, Verdict::Cancelled];
    for verdict in verdicts {
        let held = hand.hold(job());
        let first = hand.report(&held, verdict.clone());
        assert!(matches!(first, Recorded::Over(_) | Recorded::Waits(_)), "{first:?}");
        let record = hand.get(held.id);
        let failures = hand.store.failures(held.id).unwrap();
        subject.clock().advance(Duration::from_secs(1));
        assert_eq!(hand.report(&held, verdict.clone()), Recorded::Already, "{verdict:?}");
        assert_eq!(hand.get(held.id), record);
        assert_eq!(hand.store.failures(held.id).unwrap(), failures);
        hand.store.cancel(vec![held.id]).unwrap();
    }
    subject.verify();
}

/// A cancel and a claim have one winner.
pub fn a_cancel_before_the_claim_wins(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let id = hand.add(job().unique("k", OnConflict::Keep));
    let (tickets, _) = hand.peek(hand.store.now(), 9);
    let answers = hand.store.cancel(vec![id, id, JobId::from_i64(4_711)]).unwrap();
    let over = Cancelling::Over(JobState::Cancelled);
    assert_eq!(answers, [Cancelling::Cancelled, over, Cancelling::Unknown]);
    assert_eq!(hand.exchange(Exchange::new(kinds()).claims(tickets).sweep(9)).claimed, []);
    assert_eq!(hand.get(id).state, JobState::Cancelled);
    assert_ne!(hand.add(job().unique("k", OnConflict::Reject)), id, "its key is free");
    subject.verify();
}

/// The owner hears of it with its next renewal, and the job does not come back.
pub fn a_cancel_after_the_claim_reaches_the_owner(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job());
    let other = hand.hold(job());
    assert_eq!(hand.store.cancel(vec![held.id]).unwrap(), [Cancelling::Requested]);
    assert!(hand.get(held.id).cancel_requested);
    assert_eq!(hand.store.renew(hand.node, super::LEASE).unwrap().cancels, [held.id]);
    assert!(matches!(hand.report(&held, failed()), Recorded::Over(JobState::Cancelled)));
    assert_eq!(hand.store.renew(hand.node, super::LEASE).unwrap().cancels, []);
    assert_eq!(hand.store.cancel(vec![other.id]).unwrap(), [Cancelling::Requested]);
    assert!(matches!(hand.report(&other, Verdict::Done), Recorded::Over(JobState::Done)), "it was too late");
    subject.verify();
}

/// Invariant 2: an answer for one is not an error for all.
pub fn one_stale_report_does_not_hurt_its_batch(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held: Vec<_> = (0..3).map(|_| hand.hold(job())).collect();
    let waiting = hand.add(job());
    let mut reports: Vec<Report> =
        held.iter().map(|job| Report::new(job.id, job.fence, Verdict::Done)).collect();
    reports[1].fence = Fence::from_i64(-5);
    let exchanged = hand.exchange(Exchange::new(kinds()).reports(reports).sweep(9));
    assert_eq!(exchanged.recorded[1], Recorded::Stale);
    assert!(matches!(exchanged.recorded[2], Recorded::Over(JobState::Done)));
    assert_eq!(exchanged.claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [waiting]);
    assert_eq!(hand.get(held[1].id).state, JobState::Claimed);
}

/// What was claimed by an exchange whose answer was lost is not lost.
pub fn disowned_jobs_wait_again(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let known = hand.hold(job());
    let forgotten = hand.hold(job());
    let later = hand.add(job().due(in_seconds(60)));
    hand.exchange(Exchange::new(kinds()).disown_all_but(vec![known.id]));
    assert_eq!(hand.get(known.id).state, JobState::Claimed);
    let record = hand.get(forgotten.id);
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Scheduled, 0, 0));
    assert_eq!(hand.get(later).version, 1, "what waits is not touched");
    assert_eq!(hand.sweep_ids(9), [forgotten.id]);
    subject.verify();
}
