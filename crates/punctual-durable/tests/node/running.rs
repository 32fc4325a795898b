//! What a node does with jobs, on a manual clock: no test here waits for real time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use punctual::Clock;
use punctual_durable::{
    Backoff, Done, Enqueued, Filter, JobContext, JobError, JobState, Jobs, JobsBuilder, KindOptions, Moved,
    NewJob, OnConflict, Outcome, Store,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, Unruly, mail, recorder, unruly};

#[test]
fn jobs_start_at_their_very_instant_and_in_order() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    for hours in [3, 1, 2] {
        jobs.enqueue(mail(&hours.to_string())).after(hours * HOUR).send().unwrap();
    }
    let now = jobs.enqueue(mail("now")).send().unwrap().id();
    bench.clock.advance(10 * HOUR);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("now", 0), ("1", 1), ("2", 2), ("3", 3)];
    assert_eq!(calls, expected.map(|(to, hours)| (to.to_owned(), hours * HOUR)));
    assert_eq!(bench.state(now), JobState::Done);
    bench.end(jobs);
}

#[test]
fn jobs_enqueued_by_others_are_found_in_time() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    // Not through `jobs`: as another process does it.
    let new = |to: &str, after| {
        NewJob::new("mail", format!("{{\"to\":\"{to}\"}}")).due(punctual_durable::Due::After(after))
    };
    bench.store.enqueue(vec![new("late", 90 * SECOND), new("next look", SECOND)]).unwrap();
    bench.clock.advance(HOUR);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("next look", 60), ("late", 90)];
    assert_eq!(calls, expected.map(|(to, seconds)| (to.to_owned(), seconds * SECOND)));
    bench.end(jobs);
}

#[test]
fn a_failed_job_is_tried_again_after_its_backoff_until_it_is_dead() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let clock = bench.clock.clone();
    let options =
        KindOptions::new().max_attempts(4).backoff(Backoff::exponential(SECOND, HOUR).without_jitter());
    let handler = move |_: Mail, cx: &JobContext| -> Result<Outcome, JobError> {
        sender.send((cx.attempt(), clock.now().as_nanos() / 1_000_000_000))?;
        match cx.attempt() {
            1 => panic!("out of paper"),
            2 => Err(JobError::from("busy").retry_after(10 * SECOND)),
            _ => Err("no".into()),
        }
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(1, 0), (2, 1), (3, 11), (4, 15)]);
    assert_eq!(bench.state(id), JobState::Dead);
    let said: Vec<String> = jobs.failures(id).unwrap().into_iter().map(|failure| failure.message).collect();
    assert_eq!(said, ["panicked: out of paper", "busy", "no", "no"]);

    assert!(matches!(jobs.retry(id).unwrap(), Moved::Waiting(_)));
    bench.clock.wait_until_idle();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(1, 3_600)], "a new life, at once");
    bench.end(jobs);
}

#[test]
fn errors_that_panic_themselves_are_failures_like_others() {
    for ((no_text, no_end), said) in unruly() {
        for options in [KindOptions::new().max_attempts(1), KindOptions::new().at_most_once()] {
            let bench = Bench::new();
            let (sender, calls) = channel();
            let handler = move |_: Mail, _: &JobContext| {
                sender.send(())?;
                Err(Unruly { no_text, no_end }.into())
            };
            let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
            let id = jobs.enqueue(mail("a")).send().unwrap().id();
            bench.clock.advance(HOUR);
            assert_eq!((bench.state(id), calls.try_iter().count()), (JobState::Dead, 1));
            assert_eq!(jobs.failures(id).unwrap()[0].message, said);
            bench.end(jobs);
        }
    }
}

#[test]
fn discarded_snoozed_and_hopeless_jobs_go_where_they_should() {
    let bench = Bench::new();
    let handler = |mail: Mail, cx: &JobContext| match mail.to.as_str() {
        "discard" => Ok(Outcome::Discard("moved away".to_owned())),
        "snooze" if cx.record().version < 4 => Ok(Outcome::Snooze(HOUR)),
        "snooze" if cx.attempt() == 1 => Ok(Done),
        _ => Err(JobError::permanent("no such person")),
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let [discard, snooze, hopeless] =
        ["discard", "snooze", "hopeless"].map(|to| jobs.enqueue(mail(to)).send().unwrap().id());
    let foul = bench.store.enqueue(vec![NewJob::new("mail", "{\"from\": 1}")]).unwrap()[0].id();
    bench.clock.advance(2 * HOUR);
    assert_eq!(
        [discard, snooze, hopeless, foul].map(|id| bench.state(id)),
        [JobState::Discarded, JobState::Done, JobState::Dead, JobState::Dead]
    );
    let note = bench.store.job(foul).unwrap().unwrap().note.unwrap();
    assert!(note.contains("cannot be read") && note.contains("missing field `to`"), "{note}");
    bench.end(jobs);
}

#[test]
fn a_handler_can_enqueue_what_follows() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to.clone())?;
        if mail.to.len() < 4 {
            cx.client().enqueue(Mail { to: mail.to + "!" }).after(SECOND).send()?;
        }
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["a", "a!", "a!!", "a!!!"]);
    bench.end(jobs);
}

#[test]
fn no_more_handlers_run_at_once_than_there_are_threads_nor_than_a_queue_allows() {
    let bench = Bench::new();
    let (running, peak, narrow_peak) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let narrow = Arc::new(AtomicU32::new(0));
    let counters = (running.clone(), peak.clone(), narrow.clone(), narrow_peak.clone());
    let handler = move |_: Mail, cx: &JobContext| {
        let (running, peak, narrow, narrow_peak) = &counters;
        let is_narrow = cx.record().queue == "narrow";
        peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if is_narrow {
            narrow_peak.fetch_max(narrow.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        }
        cx.sleep(SECOND)?;
        narrow.fetch_sub(u32::from(is_narrow), Ordering::SeqCst);
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(4).handle("mail", handler).start().unwrap();
    jobs.limit("narrow", Some(1)).unwrap();
    for _ in 0..12 {
        jobs.enqueue(mail("a")).send().unwrap();
    }
    for _ in 0..6 {
        jobs.enqueue(mail("b")).queue("narrow").send().unwrap();
    }
    // Twelve on four threads take three seconds; the narrow queue, due after them, takes six more, one by one, and
    // is never left waiting.
    bench.clock.advance(9 * SECOND);
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done)).unwrap().len(), 18);
    assert_eq!((peak.load(Ordering::SeqCst), narrow_peak.load(Ordering::SeqCst)), (4, 1));
    bench.end(jobs);
}

#[test]
fn a_paused_queue_waits_and_starts_again_when_it_is_resumed() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.pause("default", "maintenance").unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    jobs.enqueue(mail("b")).queue("other").send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), Duration::ZERO)]);
    jobs.resume("default").unwrap();
    bench.clock.wait_until_idle();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("a".to_owned(), HOUR)], "at once");
    bench.end(jobs);
}

#[test]
fn a_burst_is_worked_off_by_lane_without_starving_any() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(cx.record().lane)?;
        Ok(Done)
    };
    // Enqueued before the node starts: it finds all of them overdue.
    for lane in punctual_durable::Lane::ALL {
        bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}").lane(lane); 150]).unwrap();
    }
    let jobs = bench.jobs().concurrency(15).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let calls: Vec<_> = calls.try_iter().collect();
    assert_eq!(calls.len(), 600);
    let first: Vec<_> = calls[..60].to_vec();
    for lane in punctual_durable::Lane::ALL {
        assert!(first.contains(&lane), "{lane} has not moved: {first:?}");
    }
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done).limit(1_000)).unwrap().len(), 600);
    bench.end(jobs);
}

#[test]
fn what_was_claimed_ahead_does_not_hold_up_what_is_more_urgent() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to.clone())?;
        if mail.to == "slow" {
            cx.sleep(10 * SECOND)?;
        }
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(1).poll_interval(SECOND).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let names = std::iter::repeat_n("quick", 20).chain(std::iter::repeat_n("slow", 20));
    jobs.enqueue_many(names.map(mail)).unwrap();
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 21, "the first of the slow ones runs");
    let held = jobs.find(&Filter::new().state(JobState::Claimed)).unwrap();
    assert_eq!(held.len(), 1, "the others that were claimed ahead have been given back");
    let waiting = jobs.find(&Filter::new().state(JobState::Scheduled)).unwrap();
    assert!(waiting.iter().all(|job| job.attempt == 0), "and have lost no attempt");
    jobs.enqueue(mail("urgent")).lane(punctual_durable::Lane::Urgent).send().unwrap();
    bench.clock.advance(10 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["urgent", "slow"]);
    bench.clock.advance(HOUR);
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done)).unwrap().len(), 41);
    bench.end(jobs);
}

#[test]
fn observers_hear_of_everything_and_may_panic() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let observer = move |event: &punctual_durable::Event<'_>| {
        sender.send(event.to_string()).unwrap();
        panic!("an observer that cannot bear it");
    };
    let options = KindOptions::new().max_attempts(1);
    let handler = |_: Mail, _: &JobContext| Err(JobError::from("no"));
    let jobs = bench.jobs().observe(observer).handle_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    let events: Vec<String> = events.try_iter().collect();
    assert_eq!(events, ["claiming jobs".to_owned(), format!("mail job {id} failed and is dead: no")]);
    bench.end(jobs);
}

#[test]
fn jobs_that_are_over_are_forgotten_in_time_and_the_dead_are_not() {
    let bench = Bench::new();
    let handler = |mail: Mail, _: &JobContext| match mail.to.as_str() {
        "dead" => Err(JobError::permanent("no")),
        _ => Ok(Done),
    };
    let jobs = bench.jobs().retain(HOUR).handle("mail", handler).start().unwrap();
    let dead = jobs.enqueue(mail("dead")).send().unwrap().id();
    jobs.enqueue_many(vec![mail("a"); 2_500]).unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(jobs.find(&Filter::new().limit(9_999)).unwrap().len(), 2_501, "not a moment early");
    bench.clock.advance(HOUR / 2);
    let left = jobs.find(&Filter::new().limit(9_999)).unwrap();
    assert_eq!((left.len(), left[0].id), (1, dead));
    bench.end(jobs);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let bench = Bench::new();
    let handler = |_: Mail, _: &JobContext| Ok(Done);
    let refused = |builder: JobsBuilder| builder.start().unwrap_err().to_string();
    assert!(
        refused(bench.jobs().handle("mail", handler).handle("mail", handler))
            .contains("\"mail\" is given twice")
    );
    assert!(refused(bench.jobs().handle("", handler)).contains("the kind is empty"));
    assert!(refused(bench.jobs().concurrency(0).handle("mail", handler)).contains("concurrency of 0"));
    assert!(refused(bench.jobs().lease(Duration::ZERO).handle("mail", handler)).contains("a lease of 0ns"));
    let never = KindOptions::new().max_attempts(0);
    assert!(refused(bench.jobs().handle_with("mail", never, handler)).contains("max_attempts 0"));
    for url in ["jobs.db", "mysql:x", "memory:x", ""] {
        assert!(Jobs::open(url).unwrap_err().is_invalid(), "{url:?}");
    }

    let jobs = bench.jobs().handle("mail", handler).handle("letter", handler).start().unwrap();
    assert!(jobs.enqueue(mail("a")).send().unwrap_err().to_string().contains("enqueue_as"));
    assert!(jobs.enqueue(7_u32).send().unwrap_err().to_string().contains("u32"));
    assert!(jobs.enqueue_as("mail", BTreeMap::from([([1], 2)])).send().unwrap_err().is_invalid(), "no JSON");
    let keyed = |policy| jobs.enqueue_as("other", mail("a")).unique_or("k", policy).send();
    let id = keyed(OnConflict::Reject).unwrap().id();
    assert_eq!(keyed(OnConflict::Keep).unwrap(), Enqueued::Existing(id));
    assert!(keyed(OnConflict::Reject).unwrap_err().is_conflict());
    bench.end(jobs);
}

#[test]
fn a_process_without_handlers_enqueues_and_runs_nothing() {
    let bench = Bench::new();
    let options = KindOptions::new().queue("post");
    let jobs = bench.jobs().declare::<Mail>("mail", options).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(HOUR);
    let record = jobs.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.queue.as_str(), jobs.node_id()), (JobState::Scheduled, "post", None));
    bench.end(jobs);
}
