//! Properties of what operators do: look, retry, move, forget.

use std::time::Duration;

use super::{Hand, Subject, in_seconds, job};
use crate::job::{Due, JobId, JobState, NewJob, OnConflict};
use crate::store::{Filter, Moved, QueueChange, ScheduleChange, Verdict};
use crate::time::Timestamp;

/// A retry by hand starts from the beginning.
pub fn a_dead_job_lives_again_unless_its_key_is_taken(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let held = hand.hold(job().unique("k", OnConflict::Keep));
    assert_eq!(hand.store.retry(held.id, Due::Now).unwrap(), Moved::Not(JobState::Claimed));
    hand.report(&held, Verdict::Fail { error: "no".to_owned() });
    let usurper = hand.add(job().unique("k", OnConflict::Keep).due(in_seconds(60)));
    let error = hand.store.retry(held.id, Due::Now).unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains(&usurper.to_string()), "{error}");
    assert_eq!(hand.get(held.id).state, JobState::Dead);
    hand.store.cancel(vec![usurper]).unwrap();
    let Moved::Waiting(ticket) = hand.store.retry(held.id, Due::Now).unwrap() else { panic!("it was dead") };
    let again = hand.sweep(1).pop().unwrap();
    assert_eq!((again.id, again.attempt, again.crashes), (ticket.id, 1, 0));
    assert_eq!(again.payload, held.payload);
    assert_eq!(hand.store.retry(usurper, Due::Now).unwrap(), Moved::Not(JobState::Cancelled));
    assert_eq!(hand.store.retry(JobId::from_i64(4_711), Due::Now).unwrap(), Moved::Unknown);
    subject.verify();
}

/// Only what waits can be moved.
pub fn a_rescheduled_job_moves_and_others_do_not(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let id = hand.add(job());
    let Moved::Waiting(ticket) = hand.store.reschedule(id, in_seconds(2)).unwrap() else {
        panic!("it waits")
    };
    assert_eq!((ticket.due, ticket.version), (hand.get(id).due, hand.get(id).version));
    assert_eq!(hand.sweep(1), []);
    hand.store.reschedule(id, Due::Now).unwrap();
    let held = hand.sweep(1).pop().unwrap();
    assert_eq!(hand.store.reschedule(id, Due::Now).unwrap(), Moved::Not(JobState::Claimed));
    hand.report(&held, Verdict::Done);
    assert_eq!(hand.store.reschedule(id, Due::Now).unwrap(), Moved::Not(JobState::Done));
    assert_eq!(hand.store.reschedule(JobId::from_i64(4_711), Due::Now).unwrap(), Moved::Unknown);
    subject.verify();
}

/// Conditions are joined by "and"; pages follow each other.
pub fn filters_find_what_they_describe(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let done = hand.hold(job().unique("a", OnConflict::Keep));
    hand.report(&done, Verdict::Done);
    let dead = hand.hold(job());
    hand.report(&dead, Verdict::Fail { error: "no".to_owned() });
    let held = hand.hold(job().queue("mail"));
    let waits = hand.add(job().queue("mail").unique("a", OnConflict::Keep).due(in_seconds(60)));
    let foreign = hand.add(NewJob::new("foreign", "{}"));
    let ids = |filter: Filter| -> Vec<JobId> {
        hand.store.find(&filter).unwrap().iter().map(|job| job.id).collect()
    };
    assert_eq!(ids(Filter::new()), [done.id, dead.id, held.id, waits, foreign]);
    assert_eq!(ids(Filter::new().state(JobState::Scheduled)), [waits, foreign]);
    assert_eq!(ids(Filter::new().state(JobState::Claimed)), [held.id]);
    assert_eq!(ids(Filter::new().state(JobState::Done)), [done.id]);
    assert_eq!(ids(Filter::new().state(JobState::Dead)), [dead.id]);
    assert_eq!(ids(Filter::new().state(JobState::Cancelled)), []);
    assert_eq!(ids(Filter::new().unique("a")), [done.id, waits]);
    assert_eq!(ids(Filter::new().queue("mail").kind("known")), [held.id, waits]);
    assert_eq!(ids(Filter::new().kind("foreign")), [foreign]);
    assert_eq!(ids(Filter::new().queue("none")), []);
    assert_eq!(ids(Filter::new().limit(2)), [done.id, dead.id]);
    assert_eq!(ids(Filter::new().after(dead.id).limit(2)), [held.id, waits]);
    assert_eq!(ids(Filter::new().limit(0)), []);
    for job in hand.store.find(&Filter::new()).unwrap() {
        assert_eq!(Some(job.clone()), hand.store.job(job.id).unwrap());
    }
    let queues: Vec<String> = hand.store.queues().unwrap().into_iter().map(|queue| queue.name).collect();
    assert_eq!(queues, ["default", "mail"]);
}

/// What lives is never forgotten.
pub fn purge_and_trim_forget_only_what_is_over(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let dead = hand.hold(job());
    hand.report(&dead, Verdict::Fail { error: "no".to_owned() });
    let done = hand.hold(job());
    hand.report(&done, Verdict::Retry { after: Duration::ZERO, error: "not yet".to_owned() });
    let done = hand.sweep(1).pop().unwrap();
    hand.report(&done, Verdict::Done);
    let held = hand.hold(job());
    let waits = hand.add(job().due(in_seconds(60)));
    let finished = hand.get(done.id).finished.unwrap();

    assert_eq!(hand.store.trim(finished, 9).unwrap(), 0, "not older than itself");
    let all = vec![dead.id, done.id, held.id, waits, JobId::from_i64(4_711)];
    assert_eq!(hand.store.purge(all.clone()).unwrap(), 1);
    assert_eq!(hand.store.job(dead.id).unwrap(), None);
    assert_eq!(hand.store.failures(dead.id).unwrap(), []);
    assert_eq!(hand.store.failures(done.id).unwrap().len(), 1);
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(hand.store.trim(hand.store.now(), 0).unwrap(), 0);
    assert_eq!(hand.store.trim(hand.store.now(), 9).unwrap(), 1);
    assert_eq!(hand.store.job(done.id).unwrap(), None);
    assert_eq!(hand.store.failures(done.id).unwrap(), []);
    assert_eq!((hand.get(held.id).state, hand.get(waits).state), (JobState::Claimed, JobState::Scheduled));
    subject.verify();
}

/// Nothing a user writes is taken for a command.
pub fn hostile_text_comes_back_as_it_was(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let nasty = ["'; DROP TABLE job; --", "\u{202e}\u{1f980}é", "%s%n$1?", "\"", "\\", " ", "null"];
    for text in nasty {
        let new = NewJob::new("known", text).queue(text).unique(text, OnConflict::Reject);
        let held = hand.hold(new);
        assert_eq!((held.queue.as_str(), held.payload.as_deref()), (text, Some(text)));
        assert_eq!(
            hand.store.find(&Filter::new().unique(text).queue(text)).unwrap(),
            std::slice::from_ref(&held)
        );
        hand.report(&held, Verdict::Fail { error: format!("{text}\0\n\u{7f}") });
        assert_eq!(hand.get(held.id).note, Some(format!("{text}\0\n\u{7f}")));
        hand.store.set_queue(text, QueueChange::Pause(text.to_owned())).unwrap();
    }
    assert_eq!(hand.store.queues().unwrap().len(), nasty.len());
}

/// Who asks for something that nobody may be called finds nothing, and nothing is broken.
pub fn what_nobody_may_be_called_is_not_found(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.add(job());
    let long = "x".repeat(100_000);
    for name in ["", "\0", "known\0", "a\nb", "\u{7f}", &long] {
        for filter in [Filter::new().kind(name), Filter::new().queue(name), Filter::new().unique(name)] {
            assert_eq!(hand.store.find(&filter).unwrap(), [], "{filter:?}");
        }
        for change in [ScheduleChange::Pause(name.to_owned()), ScheduleChange::Resume, ScheduleChange::Remove]
        {
            assert!(!hand.store.set_schedule(name, change).unwrap(), "{name:?}");
        }
        let error = hand.store.set_queue(name, QueueChange::Resume).unwrap_err();
        assert!(error.is_invalid(), "{error}");
    }
    subject.verify();
}

/// No instant and no duration overflows.
pub fn the_ends_of_time_are_ordinary_instants(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let first = hand.add(job().due(Due::At(Timestamp::from_micros(i64::MIN))));
    let last = hand.add(job().due(Due::At(Timestamp::MAX)));
    let never = hand.add(job().due(Due::After(Duration::MAX)));
    let (tickets, next) = hand.peek(hand.store.now(), 9);
    assert_eq!((tickets.len(), tickets[0].id, next), (1, first, Some(Timestamp::MAX)));
    let held = hand.sweep(9);
    assert_eq!((held.len(), held[0].id), (1, first));
    hand.report(&held[0], Verdict::Snooze { after: Duration::MAX });
    let (tickets, next) = hand.peek(Timestamp::MAX, 9);
    let ids: Vec<JobId> = tickets.iter().map(|ticket| ticket.id).collect();
    assert_eq!((ids, next), (vec![first, last, never], None));
    let huge = Some(Duration::MAX);
    let limits =
        crate::job::Limits { timeout: huge, max_attempts: u32::MAX, max_crashes: u32::MAX, ..held[0].limits };
    let id = hand.add(NewJob { limits, ..job() });
    let back = hand.get(id).limits;
    assert!(back.timeout >= Some(Duration::from_secs(1 << 40)));
    assert_eq!((back.max_attempts, back.max_crashes), (u32::MAX, u32::MAX));
}
