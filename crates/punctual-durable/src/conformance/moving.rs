//! Properties of stores that are copied, in and out.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, Gap, ManualClock, WallOverlap};

use super::{Hand, Subject, in_seconds, job, kinds};
use crate::job::{Due, Fence, JobId, JobRecord, JobState, NewJob, NodeId, OnConflict, OnLost, StoreId};
use crate::journal::{LogLine, Progress, Update};
use crate::schedule::{Cadence, Firing, Missed, NewSchedule, OnFailure, Overlap, ScheduleRecord};
use crate::store::{Exchange, Filter, MemoryStore, QueueChange, Recorded, ScheduleChange, Store, Verdict};
use crate::transfer::{Cargo, MovingJob, export, import, transfer};

/// A store in memory whose clock shows what that of the subject shows.
fn beside(subject: &dyn Subject) -> Arc<MemoryStore> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_nanos(subject.clock().now().as_nanos()));
    Arc::new(MemoryStore::with_time(clock))
}

fn node_on(store: Arc<dyn Store>) -> Hand {
    let hand = Hand { store, node: NodeId::random() };
    hand.renew();
    hand
}

/// Jobs in every state but claimed, with everything that can be kept of them.
fn furnish(hand: &Hand) {
    for verdict in [
        Verdict::Done,
        Verdict::Discard { reason: "moot".to_owned() },
        Verdict::Fail { error: "no".to_owned() },
        Verdict::Retry { after: Duration::from_secs(60), error: "not yet".to_owned() },
        Verdict::Cancelled,
    ] {
        let held = hand.hold(job().unique(format!("{verdict:?}"), OnConflict::Reject).then(job().queue("b")));
        let now = hand.store.now();
        let said = Update {
            progress: Some(Progress::new(held.fence, now, 5, "some")),
            lines: vec![LogLine::new(held.fence, 0, now, "a line")],
            ..Update::new(held.id, held.fence)
        };
        hand.exchange(Exchange::new(kinds()).updates(vec![said]));
        hand.report(&held, verdict);
        for follow_up in hand.store.find(&Filter::new().parent(held.id)).unwrap() {
            hand.store.cancel(vec![follow_up.id]).unwrap();
        }
    }
    hand.add(NewJob::new("foreign", "'\0\u{1f980}").queue("c").due(in_seconds(60)));
    hand.store.set_queue("a", QueueChange::Limit(Some(3))).unwrap();
    hand.store.set_queue("b", QueueChange::Pause("why".to_owned())).unwrap();
    let schedule = |name| NewSchedule::new(name, Cadence::Every(Duration::from_secs(60)), job());
    hand.store.save_schedule(schedule("s")).unwrap();
    hand.store.save_schedule(with_every_policy("t")).unwrap();
    hand.store.set_schedule("t", ScheduleChange::Trigger).unwrap();
    let held = hand.sweep(1).remove(0);
    hand.report(&held, Verdict::Fail { error: "no".to_owned() });
    assert_eq!(hand.store.schedules().unwrap()[1].failures, 1);
    hand.store.set_schedule("t", ScheduleChange::Pause("why".to_owned())).unwrap();
    let now = hand.store.now();
    let (name, occurrences, next) = ("s".to_owned(), vec![now], Some(now.after(Duration::from_secs(60))));
    let firing = Firing { name, version: 1, occurrences, missed: 3, replaces: false, next };
    assert_eq!(hand.get(hand.store.fire(vec![firing]).unwrap()[0].id).missed, 3);
    hand.store.set_schedule("s", ScheduleChange::Backfill(vec![now])).unwrap();
}

/// A schedule that has nothing at its default.
fn with_every_policy(name: &str) -> NewSchedule {
    let wall = Cadence::cron("H 2 * * *", "Europe/Berlin").unwrap();
    NewSchedule {
        missed: Missed::all(3).within(Duration::from_secs(7)),
        overlap: Overlap::AtMost(2),
        on_failure: OnFailure::StopAfter(3),
        spread: Duration::from_secs(60),
        jitter: Duration::from_nanos(1),
        ..NewSchedule::new(
            name,
            wall.gap(Gap::Shift).unwrap().wall_overlap(WallOverlap::Both).unwrap(),
            job(),
        )
    }
}

/// All there is in a store, but for what is its own: ids and owners.
fn contents(store: &dyn Store) -> String {
    contents_but(store, None)
}

/// The same without the job that has this key.
fn contents_but(store: &dyn Store, key: Option<&str>) -> String {
    let jobs: Vec<_> = (store.find(&Filter::new().limit(9_999)).unwrap().into_iter())
        .filter(|record| key.is_none() || record.unique.as_deref() != key)
        .map(|record| {
            let (failures, log) = (store.failures(record.id).unwrap(), store.log(record.id).unwrap());
            (JobRecord { id: JobId::from_i64(0), owner: None, parent: None, ..record }, failures, log)
        })
        .collect();
    format!("{jobs:#?} {:#?} {:#?}", store.queues().unwrap(), store.schedules().unwrap())
}

/// In and out, directly and through a file: nothing is lost, and nothing comes twice.
pub fn a_copy_has_everything_once(subject: &mut dyn Subject) {
    let source = beside(subject);
    furnish(&node_on(source.clone()));
    let store = subject.store();
    let count = source.find(&Filter::new()).unwrap().len();
    let copied = transfer(&*source, &*store).unwrap();
    assert_eq!((copied.jobs, copied.schedules), (count, 2));
    assert_eq!(contents(&*store), contents(&*source));
    let again = transfer(&*source, &*store).unwrap();
    assert_eq!((again.jobs, again.schedules, again.upto), (0, 0, copied.upto));

    let (back, read) = (beside(subject), beside(subject));
    transfer(&*store, &*back).unwrap();
    let mut file = Vec::new();
    export(&*store, &mut file).unwrap();
    import(file.as_slice(), &*read).unwrap();
    for copy in [back, read] {
        assert_eq!(contents(&*copy), contents(&*source));
        copy.verify();
    }
    subject.verify();
    assert_ne!(store.identity().unwrap(), source.identity().unwrap());
    assert!(transfer(&*store, &*store).unwrap_err().is_invalid());
    assert!(import(file.as_slice(), &*store).unwrap_err().is_invalid());
    let identity = store.identity().unwrap();
    drop(store);
    subject.crash();
    assert_eq!(subject.store().identity().unwrap(), identity, "a store stays the same for ever");
}

/// Through another store and back, directly and through a file. Not one of the tests that the macro makes: it takes two
/// stores of different kinds, two more to come back to, and all of them empty and on the same clock.
pub fn what_goes_there_and_comes_back_is_what_it_was(
    here: &Arc<dyn Store>,
    there: &dyn Store,
    back: [&dyn Store; 2],
) {
    let hand = node_on(Arc::clone(here));
    let lost = hand.hold(job().unique("lost", OnConflict::Keep));
    furnish(&hand);
    let count = here.find(&Filter::new()).unwrap().len();
    let export = |from: &dyn Store| {
        let mut file = Vec::new();
        assert_eq!(export(from, &mut file).unwrap(), u64::try_from(count).unwrap());
        file
    };
    for _ in 0..2 {
        transfer(&**here, there).unwrap();
        import(export(&**here).as_slice(), there).unwrap();
    }
    assert_eq!(there.find(&Filter::new()).unwrap().len(), count, "each once");
    hand.report(&lost, Verdict::Release);
    // What its node still held has been lost on the way, and nothing else has happened.
    let arrived = there.find(&Filter::new().unique("lost")).unwrap().remove(0);
    assert_eq!((arrived.state, arrived.crashes), (JobState::Scheduled, 1));
    let without_lost = |store: &dyn Store| contents_but(store, Some("lost"));
    assert_eq!(without_lost(there), without_lost(&**here));
    for (store, through_a_file) in back.into_iter().zip([false, true]) {
        for _ in 0..2 {
            if through_a_file {
                import(export(there).as_slice(), store).unwrap();
            } else {
                transfer(there, store).unwrap();
            }
        }
        assert_eq!(contents(store), contents(there), "{through_a_file}");
    }
}

/// What was taken in is a job like others: it is run, and fences go on growing.
pub fn a_job_that_moved_in_is_a_job_like_others(subject: &mut dyn Subject) {
    let source = beside(subject);
    let old = node_on(source.clone());
    let first = old.hold(job().unique("k", OnConflict::Reject).then(job()));
    old.report(&first, Verdict::Release);
    let hand = Hand::new(subject);
    let own = hand.add(job().due(Due::After(Duration::from_secs(60))));
    transfer(&*source, &*hand.store).unwrap();
    let held = hand.sweep(9).pop().expect("it is due");
    assert_ne!(held.id, own);
    assert!(held.fence > first.fence, "whoever remembers the old fence accepts the new one");
    assert_eq!((held.attempt, held.payload.as_deref()), (1, Some("{}")));
    let error = hand.store.enqueue(vec![job().unique("k", OnConflict::Reject)]).unwrap_err();
    assert!(error.is_conflict());
    hand.report(&held, Verdict::Done);
    assert_eq!(hand.store.find(&Filter::new().parent(held.id)).unwrap().len(), 1, "its chain came along");
    // Run, and forgotten: it does not come again.
    subject.clock().advance(Duration::from_secs(1));
    hand.store.trim(hand.store.now(), 9).unwrap();
    assert_eq!(transfer(&*source, &*hand.store).unwrap().jobs, 0);
    source.enqueue(vec![job(), job()]).unwrap();
    assert_eq!(transfer(&*source, &*hand.store).unwrap().jobs, 2, "only what is new");
    subject.verify();
}

/// Whatever its numbers are, it is claimed and so are others.
pub fn a_job_with_the_greatest_numbers_moves_in_and_blocks_nobody(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let now = hand.store.now();
    let greatest = |id: i64| {
        let record = JobRecord::accepted(JobId::from_i64(id), job(), now);
        let (attempt, crashes, version) = (u32::MAX - 1, u32::MAX, i64::MAX);
        let record = JobRecord { attempt, crashes, version, fence: Fence::from_i64(1 << 62), ..record };
        MovingJob { record, failures: Vec::new(), log: crate::JobLog::default() }
    };
    let from = StoreId::random();
    hand.store.import(Cargo { jobs: vec![greatest(1), greatest(i64::MAX)], ..Cargo::new(from) }).unwrap();
    hand.add(job());
    for verdict in [Verdict::Retry { after: Duration::ZERO, error: "no".to_owned() }, Verdict::Release] {
        let held = hand.sweep(9);
        let seen = held.iter().filter(|job| job.attempt > 1_000_000).count();
        assert_eq!(held.len() - seen, 1, "the other one");
        for job in held {
            assert_ne!(hand.report(&job, verdict.clone()), Recorded::Stale);
        }
    }
    let held = hand.sweep(9);
    assert!(held.iter().all(|job| job.fence > Fence::from_i64(1 << 62)));
    drop(hand);
    subject.crash();
    let rescuer = Hand::new(subject);
    assert_eq!(rescuer.store.rescue(rescuer.node, 9).unwrap().len(), held.len());
    subject.verify();
}

/// As if its node had died.
pub fn what_was_claimed_moves_in_as_lost(subject: &mut dyn Subject) {
    let source = beside(subject);
    let old = node_on(source.clone());
    let rerun = old.hold(job());
    let fail = old.hold(NewJob { limits: crate::Limits { on_lost: OnLost::Fail, ..rerun.limits }, ..job() });
    let asked = old.hold(job());
    source.cancel(vec![asked.id]).unwrap();
    let hand = Hand::new(subject);
    transfer(&*source, &*hand.store).unwrap();
    let found = hand.store.find(&Filter::new()).unwrap();
    let seen: Vec<_> = found.iter().map(|job| (job.state, job.attempt, job.crashes, job.owner)).collect();
    let expected = [
        (JobState::Scheduled, 0, 1, None),
        (JobState::Dead, fail.attempt, 1, None),
        (JobState::Cancelled, asked.attempt, 1, None),
    ];
    assert_eq!(seen, expected);
    assert!(hand.store.failures(found[0].id).unwrap()[0].message.contains("died"));
    assert_eq!((found[2].payload.as_deref(), found[2].finished), (None, Some(hand.store.now())));
    assert_eq!(hand.sweep_ids(9), [found[0].id]);
    subject.verify();
}

/// What follows it comes after the others of its page, and its key follows its policy.
pub fn what_was_completed_moves_in_as_done_and_what_follows_it_blocks_nothing(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let now = hand.store.now();
    let here = hand.add(job().unique("here", OnConflict::Keep).due(in_seconds(60)));
    let moving = |id: i64, record: JobRecord| MovingJob {
        record: JobRecord { id: JobId::from_i64(id), ..record },
        failures: Vec::new(),
        log: crate::JobLog::default(),
    };
    let completed = |id: i64, new: NewJob| {
        let record = JobRecord::accepted(JobId::from_i64(id), new, now);
        let (state, fence, owner) = (JobState::Claimed, Fence::from_i64(id), Some(NodeId::random()));
        moving(id, JobRecord { state, fence, owner, attempt: 1, completed: true, ..record })
    };
    let keyed = |key: &str, policy| NewJob::new("next", "{}").unique(key, policy).then(job());
    let both = completed(5, job().then(NewJob::new("chain", "{}")));
    let asked = vec![NewJob::new("asked", "1"), NewJob::new("asked", "2")];
    let holder = job().unique("on board", OnConflict::Keep);
    let jobs = vec![
        completed(1, job().unique("digest", OnConflict::Reject).then(keyed("digest", OnConflict::Keep))),
        completed(2, job().then(keyed("digest", OnConflict::Keep))),
        completed(3, job().then(keyed("here", OnConflict::Reject))),
        completed(4, job().then(keyed("on board", OnConflict::Keep))),
        moving(5, JobRecord { asked, ..both.record }),
        moving(6, JobRecord::accepted(JobId::from_i64(6), holder, now)),
    ];
    let cargo = Cargo { jobs, ..Cargo::new(StoreId::random()) };
    assert_eq!(hand.store.import(cargo.clone()).unwrap().jobs, 6);
    assert_eq!(hand.store.import(cargo).unwrap().jobs, 0);
    let found = hand.store.find(&Filter::new().state(JobState::Done)).unwrap();
    let seen: Vec<_> = (found.iter())
        .map(|job| {
            let next = hand.store.find(&Filter::new().parent(job.id)).unwrap().into_iter();
            assert!(job.then.is_empty() && job.asked.is_empty() && job.finished == Some(now));
            (next.map(|job| (job.kind, job.then.len())).collect::<Vec<_>>(), job.note.is_some())
        })
        .collect();
    let next = |kind: &str, then| (kind.to_owned(), then);
    let three = vec![next("chain", 0), next("asked", 0), next("asked", 0)];
    let refused = || (vec![], true);
    assert_eq!(seen, [(vec![next("next", 1)], false), refused(), refused(), refused(), (three, false)]);
    let note = found[2].note.as_deref().unwrap_or_default();
    assert!(note.contains(&format!("belongs to job {here}")), "{note}");
    assert_eq!(hand.store.find(&Filter::new().unique("on board")).unwrap().len(), 1);
    subject.verify();
}

/// While an occurrence of a fixed delay is alive, only its end makes the next. If none is alive here, that was now.
pub fn a_fixed_delay_goes_on_whatever_became_of_its_occurrence_on_the_way(subject: &mut dyn Subject) {
    const MINUTE: Duration = Duration::from_secs(60);
    let hand = Hand::new(subject);
    let now = hand.store.now();
    let schedule = |name: &str| {
        let record = ScheduleRecord::saved(NewSchedule::new(name, Cadence::Delay(MINUTE), job()), now);
        ScheduleRecord { next: None, ..record }
    };
    let occurrence = |id: i64, schedule: &str, state: JobState| {
        let record = JobRecord::accepted(JobId::from_i64(id), job(), now);
        let limits = crate::Limits { on_lost: OnLost::Fail, ..record.limits };
        let record = JobRecord { state, limits, series: Some((schedule.to_owned(), now)), ..record };
        MovingJob { record, failures: Vec::new(), log: crate::JobLog::default() }
    };
    let paused = ScheduleRecord { paused: Some((now, "why".to_owned())), ..schedule("paused") };
    let cargo = Cargo {
        jobs: vec![occurrence(1, "alive", JobState::Scheduled), occurrence(2, "lost", JobState::Claimed)],
        schedules: vec![schedule("alive"), schedule("lost"), paused, schedule("run before")],
        ..Cargo::new(StoreId::random())
    };
    hand.store.import(cargo).unwrap();
    let nexts = || {
        let schedules = hand.store.schedules().unwrap().into_iter();
        schedules.map(|schedule| (schedule.definition.name, schedule.next)).collect::<Vec<_>>()
    };
    let later = Some(now.after(MINUTE));
    let names = ["alive", "lost", "paused", "run before"].map(str::to_owned);
    let expected = |alive| names.clone().into_iter().zip([alive, later, None, later]).collect::<Vec<_>>();
    assert_eq!(nexts(), expected(None));
    assert!(hand.store.check().unwrap().iter().all(|finding| finding.check != "schedules"));
    let held = hand.sweep(9);
    assert_eq!(held.len(), 1);
    hand.report(&held[0], Verdict::Done);
    assert_eq!(nexts(), expected(later));
    subject.verify();
}

/// Invariant 2: a page is taken in as a whole or not at all, and can be sent again.
pub fn a_page_that_cannot_be_taken_in_leaves_nothing(subject: &mut dyn Subject) {
    let store = subject.store();
    let taken = store.enqueue(vec![job().unique("k", OnConflict::Keep)]).unwrap()[0].id();
    let now = store.now();
    let from = StoreId::random();
    let moving = |id: i64, new: NewJob| MovingJob {
        record: JobRecord::accepted(JobId::from_i64(id), new, now),
        failures: Vec::new(),
        log: crate::JobLog::default(),
    };
    let page = |jobs: Vec<MovingJob>| Cargo { jobs, ..Cargo::new(from) };
    let clash =
        page(vec![moving(1, job()), moving(2, job().unique("k", OnConflict::Keep)), moving(3, job())]);
    let error = store.import(clash.clone()).unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("\"k\""), "{error}");
    let bad = page(vec![moving(1, job()), moving(2, NewJob::new("", "{}"))]);
    let error = store.import(bad).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("job 2"), "{error}");
    let mut occurrence = moving(2, job());
    occurrence.record.series = Some(("s\0".to_owned(), now));
    let error = store.import(page(vec![moving(1, job()), occurrence])).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("job 2"), "{error}");
    assert!(store.import(page(vec![moving(2, job()), moving(1, job())])).unwrap_err().is_invalid());
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 1);
    store.cancel(vec![taken]).unwrap();
    assert_eq!(store.import(clash).unwrap().jobs, 3, "when the key is free");
    // A page that overlaps with what is known, as after an answer that was lost.
    let more = store.import(page(vec![moving(3, job()), moving(4, job())])).unwrap();
    assert_eq!((more.jobs, more.upto), (1, JobId::from_i64(4)));
    assert_eq!(store.import(Cargo::new(from)).unwrap().upto, JobId::from_i64(4));
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 5);
    subject.verify();
}
