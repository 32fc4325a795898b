//! Jobs that follow others, as users ask for them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use punctual_durable::{
    Backoff, Done, Filter, JobContext, JobError, JobState, KindOptions, NewJob, OnConflict, Outcome,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail, recorder};

#[test]
fn a_chain_runs_in_order_with_its_pauses() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let chain = jobs.enqueue(mail("a")).after(SECOND);
    let chain = chain.then(jobs.enqueue(mail("b")).after(HOUR).queue("other")).then(jobs.enqueue(mail("c")));
    let first = chain.send().unwrap().id();
    bench.clock.advance(2 * HOUR);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("a", SECOND), ("b", SECOND + HOUR), ("c", SECOND + HOUR)];
    assert_eq!(calls, expected.map(|(to, time)| (to.to_owned(), time)));
    let second = jobs.find(&Filter::new().parent(first)).unwrap();
    assert_eq!((second.len(), second[0].queue.as_str(), second[0].state), (1, "other", JobState::Done));
    bench.end(jobs);
}

#[test]
fn what_a_handler_asked_for_follows_its_success_and_no_other_end() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let attempts = AtomicU32::new(0);
    let handler = move |mail: Mail, cx: &JobContext| -> Result<Outcome, JobError> {
        sender.send(mail.to.clone())?;
        if mail.to == "next" {
            return Ok(Done);
        }
        for _ in 0..2 {
            cx.then(cx.client().enqueue(self::mail("next")).after(SECOND))?;
        }
        match (mail.to.as_str(), attempts.fetch_add(1, Ordering::SeqCst)) {
            ("late", 0) => Err("not yet".into()),
            ("late", 1) => panic!("out of paper"),
            ("late", 2) => Ok(Outcome::Snooze(SECOND)),
            ("never", _) => Ok(Outcome::Discard("moot".to_owned())),
            _ => Ok(Done),
        }
    };
    let options = KindOptions::new().backoff(Backoff::fixed(SECOND));
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    jobs.enqueue(mail("late")).send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["late", "late", "late", "late", "next", "next"]);
    jobs.enqueue(mail("never")).send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["never"]);
    bench.end(jobs);
}

#[test]
fn a_follow_up_that_makes_no_sense_is_told_to_whoever_asks_for_it() {
    let bench = Bench::new();
    let (sender, said) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(cx.then(cx.client().enqueue_as("", 1)).unwrap_err().to_string())?;
        sender.send(cx.then(cx.client().enqueue(1_u8)).unwrap_err().to_string())?;
        for _ in 0..NewJob::MAX_CHAIN {
            cx.then(cx.client().enqueue_as("elsewhere", 1))?;
        }
        sender.send(cx.then(cx.client().enqueue_as("elsewhere", 1)).unwrap_err().to_string())?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    let said: Vec<String> = said.try_iter().collect();
    assert!(said[0].contains("the kind is empty") && said[1].contains("u8"), "{said:?}");
    assert!(said[2].contains("more than 100"), "{said:?}");
    assert_eq!(bench.state(id), JobState::Done);
    assert_eq!(jobs.find(&Filter::new().parent(id).limit(999)).unwrap().len(), NewJob::MAX_CHAIN);
    let bad = jobs.enqueue(mail("a")).then(jobs.enqueue(1_u8)).send().unwrap_err();
    assert!(bad.is_invalid() && bad.to_string().contains("u8"), "{bad}");
    bench.end(jobs);
}

#[test]
fn every_occurrence_of_a_schedule_has_its_chain() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let follow = jobs.enqueue(mail("b")).after(SECOND);
    jobs.schedule("s").every(60 * SECOND).job(mail("a")).then(follow).save().unwrap();
    bench.clock.advance(122 * SECOND);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("a", 60), ("b", 61), ("a", 120), ("b", 121)];
    assert_eq!(calls, expected.map(|(to, seconds)| (to.to_owned(), seconds * SECOND)));
    let wrong = jobs.schedule("s").every(SECOND).job(mail("a")).then(jobs.enqueue_as("", 1)).save();
    assert!(wrong.unwrap_err().to_string().contains("the kind is empty"));
    bench.end(jobs);
}

#[test]
fn a_job_may_follow_itself_under_its_own_key() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to.len())?;
        if mail.to.len() < 3 {
            let next = cx.client().enqueue(self::mail(&(mail.to + "x"))).after(SECOND);
            cx.then(next.unique_or("ring", OnConflict::Reject))?;
        }
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("")).unique("ring").send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    let notes = jobs.find(&Filter::new()).unwrap().into_iter().filter_map(|job| job.note).count();
    assert_eq!(notes, 0);
    bench.end(jobs);
}
