//! Properties of schedules.

use std::time::Duration;

use super::{Hand, KIND, Subject, job, kinds};
use crate::job::{Due, JobState, Limits, NewJob};
use crate::schedule::{Cadence, Firing, Missed, NewSchedule, OnFailure, Overlap, ScheduleRecord};
use crate::store::{Exchange, Filter, Recorded, Saved, ScheduleChange, Verdict};
use crate::time::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);

fn every_minute(name: &str) -> NewSchedule {
    NewSchedule::new(name, Cadence::Every(MINUTE), job())
}

fn delayed(name: &str) -> NewSchedule {
    NewSchedule::new(name, Cadence::Delay(MINUTE), job())
}

impl Hand {
    fn due(&self) -> Vec<ScheduleRecord> {
        self.store.due_schedules(&kinds(), self.store.now()).unwrap()
    }

    /// Fires whatever is due, as a node does; says how many jobs that made.
    fn fire(&self) -> usize {
        let now = self.store.now();
        let firings = self.due().iter().filter_map(|record| record.firing(now, now)).collect();
        self.store.fire(firings).unwrap().len()
    }

    fn only_schedule(&self) -> ScheduleRecord {
        let mut all = self.store.schedules().unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn pass(&self, subject: &dyn Subject, time: Duration) {
        subject.clock().advance(time);
        self.renew();
    }
}

/// Re-declaring at every start of a program is harmless.
pub fn a_schedule_saved_again_is_the_same_schedule(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    assert_eq!(hand.store.save_schedule(every_minute("s")).unwrap(), Saved::Created);
    let first = hand.only_schedule();
    assert_eq!((first.next, first.version), (Some(hand.store.now().after(MINUTE)), 1));
    hand.pass(subject, MINUTE / 2);
    assert_eq!(hand.store.save_schedule(every_minute("s")).unwrap(), Saved::Unchanged);
    assert_eq!(hand.only_schedule(), first);
    hand.store.set_schedule("s", ScheduleChange::Pause("holidays".to_owned())).unwrap();
    assert_eq!(hand.store.save_schedule(delayed("s")).unwrap(), Saved::Updated);
    let changed = hand.only_schedule();
    assert_eq!(changed.definition, delayed("s"));
    assert_eq!(changed.next, Some(hand.store.now().after(MINUTE)), "counted from now");
    assert_eq!(changed.paused.unwrap().1, "holidays", "it stays paused");
    assert!(hand.store.save_schedule(every_minute("")).unwrap_err().is_invalid());
    drop(hand);
    subject.crash();
    assert_eq!(Hand::new(subject).only_schedule().definition, delayed("s"), "it survives a crash");
    subject.verify();
}

/// A program that is deployed anew declares its schedules anew, and some of them differently.
pub fn a_change_of_the_job_changes_nothing_about_when(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let start = Some(hand.store.now());
    let with = |payload: &str| NewSchedule { start, job: NewJob::new(KIND, payload), ..every_minute("s") };
    hand.store.save_schedule(with("1")).unwrap();
    assert_eq!(hand.fire(), 1);
    let first = hand.sweep(9).remove(0);
    hand.pass(subject, MINUTE / 2);
    assert_eq!(hand.store.save_schedule(with("2")).unwrap(), Saved::Updated);
    assert_eq!(hand.fire(), 0, "it has happened");
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0, "it waits for the first");
    let owed = hand.only_schedule().owed.expect("it is owed");
    hand.store.save_schedule(with("3")).unwrap();
    hand.report(&first, Verdict::Done);
    let second = hand.sweep(9).remove(0);
    assert_eq!((second.series.clone().unwrap().1, second.payload.as_deref()), (owed, Some("3")));
    hand.report(&second, Verdict::Done);
    // Nobody was there when the next one came.
    hand.pass(subject, MINUTE);
    hand.store.save_schedule(with("4")).unwrap();
    assert_eq!(hand.fire(), 1);
    let third = hand.sweep(9).remove(0);
    assert_eq!((third.series.clone().unwrap().1, third.payload.as_deref()), (owed.after(MINUTE), Some("4")));
    hand.report(&third, Verdict::Done);
    // Another grid goes on after what has happened.
    let denser = NewSchedule { cadence: Cadence::Every(MINUTE / 2), ..with("4") };
    hand.store.save_schedule(denser).unwrap();
    assert_eq!(hand.only_schedule().next, start.map(|start| start.after(5 * MINUTE / 2)));
    subject.verify();
}

/// Of two that saw the same, one wins; a crash leaves both or neither.
pub fn every_occurrence_happens_once(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    // Overlap is allowed, so nothing but the version keeps a second one from happening.
    hand.store.save_schedule(NewSchedule { overlap: Overlap::Allow, ..every_minute("s") }).unwrap();
    assert_eq!(hand.due(), []);
    hand.pass(subject, MINUTE);
    let now = hand.store.now();
    let seen = hand.due().remove(0).firing(now, now).unwrap();
    let twice = hand.store.fire(vec![seen.clone(), seen.clone()]).unwrap();
    assert_eq!(twice.len(), 1);
    assert_eq!(hand.store.fire(vec![seen]).unwrap(), []);
    let record = hand.get(twice[0].id);
    assert_eq!((record.series, record.due), (Some(("s".to_owned(), now)), now));
    let schedule = hand.only_schedule();
    assert_eq!((schedule.last, schedule.next), (Some(now), Some(now.after(MINUTE))));
    let gone = Firing {
        name: "none".to_owned(),
        version: 1,
        occurrences: vec![now],
        missed: 0,
        replaces: true,
        next: None,
    };
    assert_eq!(hand.store.fire(vec![gone]).unwrap(), []);
    assert_eq!(hand.store.find(&Filter::new()).unwrap().len(), 1);
    subject.verify();
}

/// By default one waits; or it is skipped; or it happens all the same.
pub fn overlapping_occurrences_follow_the_policy(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    for overlap in [Overlap::Wait, Overlap::Skip, Overlap::Allow] {
        hand.store.save_schedule(NewSchedule { overlap, ..every_minute("s") }).unwrap();
        hand.pass(subject, MINUTE);
        assert_eq!(hand.fire(), 1);
        let first = hand.sweep(1).remove(0);
        hand.pass(subject, MINUTE);
        let second = hand.fire();
        hand.pass(subject, MINUTE);
        let third = hand.fire();
        assert_eq!(second + third, if overlap == Overlap::Allow { 2 } else { 0 }, "{overlap:?}");
        let now = hand.store.now();
        assert_eq!(hand.only_schedule().owed, (overlap == Overlap::Wait).then_some(now), "the latest");
        // While it is tried again it is not over.
        hand.report(&first, Verdict::Retry { after: Duration::ZERO, error: "no".to_owned() });
        let again = hand.sweep(9).into_iter().find(|job| job.id == first.id).expect("it waits again");
        assert_eq!(again.series, first.series);
        hand.report(&again, Verdict::Fail { error: "no".to_owned() });
        let next = hand.sweep(9);
        match overlap {
            Overlap::Wait => {
                assert_eq!((next.len(), next[0].series.as_ref().unwrap().1, next[0].due), (1, now, now));
                assert_eq!(hand.only_schedule().owed, None);
            }
            _ => assert_eq!(next.len(), 0),
        }
        let living = hand.store.find(&Filter::new().state(JobState::Claimed)).unwrap();
        for job in living {
            hand.report(&job, Verdict::Done);
        }
    }
    subject.verify();
}

/// From the schedule to the job, by every way; and it stays with the job.
pub fn an_occurrence_knows_how_many_were_missed_before_it(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.store.save_schedule(every_minute("s")).unwrap();
    hand.pass(subject, 5 * MINUTE);
    assert_eq!(hand.fire(), 1);
    let waits = hand.store.find(&Filter::new()).unwrap().remove(0);
    assert_eq!(waits.missed, 4, "the latest of five");
    let held = hand.sweep(9).remove(0);
    assert_eq!(held.missed, 4, "swept");
    // While it runs, three come: the last of them waits.
    for _ in 0..3 {
        hand.pass(subject, MINUTE);
        assert_eq!(hand.fire(), 0);
    }
    assert_eq!(hand.only_schedule().missed, 2);
    hand.report(&held, Verdict::Fail { error: "no".to_owned() });
    assert_eq!((hand.get(held.id).missed, hand.only_schedule().missed), (4, 0), "over");
    let ticket = hand.peek(hand.store.now(), 9).0.remove(0);
    let exchange = Exchange::new(kinds()).claims(vec![ticket]);
    let owed = hand.exchange(exchange).claimed.remove(0);
    assert_eq!(owed.missed, 2, "claimed by name");
    hand.report(&owed, Verdict::Snooze { after: Duration::ZERO });
    let owed = hand.sweep(9).remove(0);
    assert_eq!(owed.missed, 2, "again");
    hand.report(&owed, Verdict::Done);
    assert_eq!(hand.get(owed.id).missed, 2);
    hand.store.retry(held.id, Due::Now).unwrap();
    assert_eq!(hand.sweep(9).remove(0).missed, 4, "in another life");
    hand.store.set_schedule("s", ScheduleChange::Trigger).unwrap();
    assert_eq!(hand.sweep(9).remove(0).missed, 0, "asked for");
    subject.verify();
}

/// In the transaction in which the last of them ends, however that is known.
pub fn a_schedule_stops_after_so_many_failures_in_a_row(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let on_failure = OnFailure::StopAfter(3);
    let limits = Limits { max_crashes: 0, ..Limits::default() };
    let schedule = NewSchedule { on_failure, job: NewJob { limits, ..job() }, ..every_minute("s") };
    hand.store.save_schedule(schedule.clone()).unwrap();
    let next = || {
        hand.pass(subject, MINUTE);
        assert_eq!(hand.fire(), 1);
        hand.sweep(9).remove(0)
    };
    let fail = || Verdict::Fail { error: "no".to_owned() };
    let discard = || Verdict::Discard { reason: "moot".to_owned() };
    let endings =
        [(fail(), 1), (Verdict::Cancelled, 1), (fail(), 2), (discard(), 0), (fail(), 1), (Verdict::Done, 0)];
    for (verdict, failures) in endings {
        hand.report(&next(), verdict);
        assert_eq!(hand.only_schedule().failures, failures);
    }
    // One that is tried again has not failed yet.
    let held = next();
    hand.report(&held, Verdict::Retry { after: Duration::ZERO, error: "no".to_owned() });
    assert_eq!(hand.only_schedule().failures, 0);
    hand.report(&hand.sweep(9).remove(0), fail());
    // One that waits and is cancelled says nothing, either.
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 1);
    let waits = hand.store.find(&Filter::new().state(JobState::Scheduled)).unwrap().remove(0);
    hand.store.cancel(vec![waits.id]).unwrap();
    hand.report(&next(), fail());
    assert_eq!((hand.only_schedule().failures, hand.only_schedule().paused), (2, None));
    // The third is lost, and one is owed.
    next();
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0);
    assert!(hand.only_schedule().owed.is_some());
    drop(hand);
    subject.crash();
    subject.clock().advance(super::LEASE);
    let hand = Hand::new(subject);
    let rescued = hand.store.rescue(hand.node, 9).unwrap();
    assert_eq!(rescued.iter().map(|rescue| rescue.state).collect::<Vec<_>>(), [JobState::Dead]);
    let stopped = hand.only_schedule();
    let reason = "3 occurrences in a row have failed".to_owned();
    assert_eq!((stopped.failures, stopped.paused, stopped.owed), (3, Some((hand.store.now(), reason)), None));
    assert_eq!((hand.sweep(9), hand.due()), (vec![], vec![]));
    // Saved again it stays as it is; resumed it begins anew.
    assert_eq!(hand.store.save_schedule(schedule).unwrap(), Saved::Unchanged);
    assert!(hand.only_schedule().paused.is_some());
    hand.pass(subject, 2 * MINUTE);
    hand.store.set_schedule("s", ScheduleChange::Resume).unwrap();
    assert_eq!((hand.only_schedule().failures, hand.only_schedule().paused), (0, None));
    assert_eq!(hand.fire(), 1, "the latest of those that were missed");
    hand.report(&hand.sweep(9).remove(0), fail());
    assert_eq!(hand.only_schedule().failures, 1);
    // And whoever goes on whatever happens does not count.
    hand.store.save_schedule(every_minute("s")).unwrap();
    assert_eq!(hand.only_schedule().failures, 0);
    subject.verify();
}

/// The occurrence is what it is on the grid; its job is due later, and what is owed is not early.
pub fn a_job_may_be_due_later_than_its_occurrence(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let late = NewSchedule { spread: MINUTE / 2, jitter: MINUTE / 4, ..every_minute("s") };
    hand.store.save_schedule(late).unwrap();
    let first = hand.only_schedule();
    let nominal = first.next.unwrap();
    let come = first.fire_from(Duration::ZERO).unwrap();
    let due = first.due(nominal);
    assert!(nominal < come && come < due, "{nominal} {come} {due}");
    hand.pass(subject, come.before(Duration::from_micros(1)).since(hand.store.now()));
    assert_eq!(hand.fire(), 0, "it is spread");
    hand.pass(subject, Duration::from_micros(1));
    assert_eq!(hand.fire(), 1);
    assert_eq!(hand.sweep(9), [], "and not due yet");
    let job = hand.store.find(&Filter::new()).unwrap().remove(0);
    assert_eq!((job.due, job.series.unwrap().1), (due, nominal));
    let record = hand.only_schedule();
    assert_eq!((record.last, record.next), (Some(nominal), Some(nominal.after(MINUTE))));
    // The next one waits for the first, and is due when it would have been.
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0);
    let owed = nominal.after(MINUTE);
    assert!(hand.store.now() < record.due(owed));
    let held = hand.sweep(9).remove(0);
    hand.report(&held, Verdict::Done);
    let next = hand.store.find(&Filter::new().state(JobState::Scheduled)).unwrap().remove(0);
    assert_eq!((next.due, next.series.unwrap().1), (record.due(owed), owed));
    // What somebody asks for is due at once.
    hand.store.set_schedule("s", ScheduleChange::Trigger).unwrap();
    assert_eq!(hand.sweep(9).len(), 1);
    subject.verify();
}

/// As many as are allowed, and no more; a place that is free again is taken.
pub fn no_more_occurrences_are_alive_than_allowed(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let two = NewSchedule { overlap: Overlap::AtMost(2), missed: Missed::all(9), ..every_minute("s") };
    hand.store.save_schedule(two.clone()).unwrap();
    hand.pass(subject, 3 * MINUTE);
    assert_eq!(hand.fire(), 2, "of three that were missed");
    let held = hand.sweep(1).remove(0);
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0, "one runs, and one waits");
    assert_eq!(hand.only_schedule().owed, None, "it was skipped");
    hand.report(&held, Verdict::Done);
    assert_eq!(hand.sweep(9).len(), 1, "nothing else");
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 1, "there is a place again");
    assert_eq!(hand.only_schedule().last, Some(hand.store.now()));
    let none = NewSchedule { overlap: Overlap::AtMost(0), ..two };
    assert!(hand.store.save_schedule(none).unwrap_err().is_invalid());
    subject.verify();
}

/// The new one takes the place of one that waits, and follows one that runs; whoever comes too late cancels nothing.
pub fn an_occurrence_replaces_the_one_before_it(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let replace = NewSchedule { overlap: Overlap::Replace, missed: Missed::all(9), ..every_minute("s") };
    hand.store.save_schedule(replace).unwrap();
    hand.pass(subject, 3 * MINUTE);
    assert_eq!(hand.fire(), 1, "each of three replaces the one before it");
    let first = hand.store.find(&Filter::new()).unwrap().remove(0);
    assert_eq!(first.series.clone().unwrap().1, hand.store.now());
    hand.pass(subject, MINUTE);
    let now = hand.store.now();
    let seen = hand.due().remove(0).firing(now, now.after(MINUTE)).unwrap();
    assert_eq!(seen.occurrences, [now], "nobody is asked to stop before it is time");
    assert_eq!(hand.store.fire(vec![seen.clone(), seen.clone()]).unwrap().len(), 1);
    let gone = hand.get(first.id);
    assert_eq!((gone.state, gone.finished, gone.payload), (JobState::Cancelled, Some(now), None));
    let second = hand.sweep(9).remove(0);
    assert_eq!(second.series.clone().unwrap().1, now);

    assert_eq!(hand.store.fire(vec![seen]).unwrap(), [], "it was seen before that");
    assert!(!hand.get(second.id).cancel_requested);
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0, "it follows the one that runs");
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 0);
    let third = hand.store.now();
    assert_eq!(hand.only_schedule().owed, Some(third), "the latest");
    assert!(hand.get(second.id).cancel_requested);
    assert_eq!(
        hand.store.renew(hand.node, super::LEASE).unwrap().cancels,
        [second.id],
        "its owner hears of it"
    );
    // It heeds that by not going back to wait.
    hand.report(&second, Verdict::Retry { after: MINUTE, error: "stopped".to_owned() });
    assert_eq!(hand.get(second.id).state, JobState::Cancelled);
    let held = hand.sweep(9);
    assert_eq!((held.len(), held[0].series.as_ref().unwrap().1), (1, third));
    assert_eq!(hand.only_schedule().owed, None);

    // One that waits to be tried again, and one that somebody has asked for, are replaced as well.
    hand.report(&held[0], Verdict::Retry { after: 9 * MINUTE, error: "no".to_owned() });
    hand.store.set_schedule("s", ScheduleChange::Trigger).unwrap();
    hand.pass(subject, MINUTE);
    assert_eq!(hand.fire(), 1);
    assert_eq!(hand.store.find(&Filter::new().state(JobState::Cancelled)).unwrap().len(), 4);
    let held = hand.sweep(9);
    assert_eq!(held.len(), 1);
    // What is paused replaces nothing.
    hand.pass(subject, MINUTE);
    let now = hand.store.now();
    let seen = hand.due().remove(0).firing(now, now).unwrap();
    hand.store.set_schedule("s", ScheduleChange::Pause("why".to_owned())).unwrap();
    assert_eq!(hand.store.fire(vec![seen]).unwrap(), []);
    assert!(!hand.get(held[0].id).cancel_requested);
    subject.verify();
}

/// However the occurrence ends.
pub fn a_fixed_delay_counts_from_the_end_of_the_last(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.store.save_schedule(delayed("s")).unwrap();
    let fail = || Verdict::Fail { error: "no".to_owned() };
    let endings: [&dyn Fn(&crate::job::JobRecord); 3] = [
        &|held| assert_ne!(hand.report(held, Verdict::Done), Recorded::Stale),
        &|held| assert_ne!(hand.report(held, fail()), Recorded::Stale),
        &|held| {
            hand.report(held, Verdict::Snooze { after: Duration::from_secs(5) });
            hand.store.cancel(vec![held.id]).unwrap();
        },
    ];
    for end in endings {
        hand.pass(subject, MINUTE);
        assert_eq!(hand.fire(), 1);
        let held = hand.sweep(1).remove(0);
        assert_eq!(hand.only_schedule().next, None);
        hand.pass(subject, 5 * MINUTE);
        assert_eq!(hand.fire(), 0, "the last is not over");
        end(&held);
        assert_eq!(hand.only_schedule().next, Some(hand.store.now().after(MINUTE)));
    }
    subject.verify();
}

/// A pause loses nothing but time.
pub fn a_paused_schedule_makes_nothing_until_it_is_resumed(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.store.save_schedule(every_minute("s")).unwrap();
    hand.pass(subject, MINUTE);
    let now = hand.store.now();
    let seen = hand.due().remove(0).firing(now, now).unwrap();
    assert!(hand.store.set_schedule("s", ScheduleChange::Pause("why".to_owned())).unwrap());
    assert_eq!(hand.store.fire(vec![seen]).unwrap(), [], "it was too late");
    assert_eq!(hand.due(), []);
    hand.pass(subject, 10 * MINUTE);
    assert!(hand.store.set_schedule("s", ScheduleChange::Resume).unwrap());
    assert_eq!(hand.fire(), 1, "the latest of those that were missed");
    assert_eq!(hand.only_schedule().last, Some(now.after(10 * MINUTE)));

    assert!(hand.store.set_schedule("s", ScheduleChange::Trigger).unwrap());
    assert_eq!(hand.sweep(9).len(), 2, "an extra one");
    assert!(hand.store.set_schedule("s", ScheduleChange::Remove).unwrap());
    assert!(!hand.store.set_schedule("s", ScheduleChange::Remove).unwrap());
    assert!(!hand.store.set_schedule("s", ScheduleChange::Trigger).unwrap());
    assert_eq!(hand.store.schedules().unwrap(), []);
    let held = hand.store.find(&Filter::new().state(JobState::Claimed)).unwrap();
    for job in held {
        hand.report(&job, Verdict::Done);
    }
    subject.verify();
}

/// All of them, once for each time one asks; and nothing else changes.
pub fn a_backfill_makes_the_occurrences_it_names(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.store.save_schedule(every_minute("s")).unwrap();
    hand.store.set_schedule("s", ScheduleChange::Pause("why".to_owned())).unwrap();
    let before = hand.only_schedule();
    let now = hand.store.now();
    let times = [3, 2, 1].map(|n| now.before(n * MINUTE));
    assert!(hand.store.set_schedule("s", ScheduleChange::Backfill(times.to_vec())).unwrap());
    assert_eq!(hand.only_schedule(), before);
    let held = hand.sweep(9);
    let made: Vec<_> = held.iter().map(|job| (job.series.clone(), job.due)).collect();
    assert_eq!(made, times.map(|nominal| (Some(("s".to_owned(), nominal)), now)));
    assert!(hand.store.set_schedule("s", ScheduleChange::Backfill(Vec::new())).unwrap());
    assert!(!hand.store.set_schedule("none", ScheduleChange::Backfill(times.to_vec())).unwrap());
    assert_eq!(hand.store.find(&Filter::new()).unwrap().len(), 3);
    for job in held {
        hand.report(&job, Verdict::Done);
    }
    subject.verify();
}

/// A node fires only what it can run; absence is dealt with as the schedule says.
pub fn schedules_are_seen_by_those_who_know_their_kind(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let foreign = NewSchedule::new("foreign", Cadence::Every(MINUTE), NewJob::new("foreign", "{}"));
    hand.store.save_schedule(foreign).unwrap();
    let start = Timestamp::from_micros(hand.store.now().as_micros() + 5);
    let all = NewSchedule {
        start: Some(start),
        missed: Missed::all(3),
        overlap: Overlap::Allow,
        ..every_minute("mine")
    };
    hand.store.save_schedule(all).unwrap();
    hand.pass(subject, 10 * MINUTE);
    assert_eq!(hand.due().iter().map(|record| record.definition.name.as_str()).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(hand.fire(), 3);
    assert_eq!(hand.store.schedules().unwrap().len(), 2);
    let nominal: Vec<_> = hand.sweep(9).into_iter().map(|job| job.series.unwrap().1).collect();
    let expected = [7, 8, 9].map(|n| start.after(n * MINUTE));
    assert_eq!(nominal, expected);
    subject.verify();
}
