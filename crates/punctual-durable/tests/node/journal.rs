//! Progress and log lines: from the handler to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use punctual_durable::{Backoff, Done, Error, JobContext, JobError, JobState, KindOptions, Outcome};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail};
use crate::flaky::Flaky;

#[test]
fn what_a_running_job_says_is_seen_soon_though_nothing_else_happens() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        cx.progress(0.1, "opening");
        cx.progress(0.25, "copying");
        cx.log("one");
        cx.log("two");
        begin.send(())?;
        cx.sleep(HOUR)?;
        cx.log("three");
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    bench.clock.advance(SECOND);
    let log = jobs.log(id).unwrap();
    let progress = log.progress.unwrap();
    assert_eq!((progress.fraction(), progress.message.as_str()), (0.25, "copying"), "the newest");
    assert_eq!(progress.fence, bench_fence(&jobs, id));
    assert_eq!(log.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    bench.clock.advance(HOUR);
    assert_eq!(jobs.log(id).unwrap().lines.len(), 3, "the last words come with the report");
    bench.end(jobs);
}

fn bench_fence(jobs: &punctual_durable::Jobs, id: punctual_durable::JobId) -> punctual_durable::Fence {
    jobs.job(id).unwrap().unwrap().fence
}

#[test]
fn each_attempt_has_lines_of_its_own_and_a_panic_loses_none() {
    let bench = Bench::new();
    let options = KindOptions::new().backoff(Backoff::fixed(SECOND)).max_attempts(3);
    let handler = |_: Mail, cx: &JobContext| -> Result<Outcome, JobError> {
        cx.log(format!("attempt {}", cx.attempt()));
        match cx.attempt() {
            1 => panic!("out of paper"),
            2 => Err("no".into()),
            _ => Ok(Done),
        }
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(HOUR);
    let log = jobs.log(id).unwrap();
    let said: Vec<_> = log.lines.iter().map(|line| (line.number, line.text.as_str())).collect();
    assert_eq!(said, [(0, "attempt 1"), (0, "attempt 2"), (0, "attempt 3")]);
    assert!(log.lines.windows(2).all(|pair| pair[0].fence < pair[1].fence && pair[0].at < pair[1].at));
    bench.end(jobs);
}

#[test]
fn a_job_that_talks_without_end_is_cut_off_and_succeeds() {
    let bench = Bench::new();
    let handler = |_: Mail, cx: &JobContext| {
        for n in 0..3_000 {
            cx.log(format!("line {n}"));
            cx.progress(f64::from(n) / 3_000.0, "x".repeat(5_000));
        }
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(SECOND);
    let log = jobs.log(id).unwrap();
    assert_eq!(log.lines.len(), 1_000);
    assert_eq!(log.lines[998].text, "line 998");
    assert_eq!(log.lines[999].text, "further lines are left out");
    assert!(log.progress.unwrap().message.len() < 2_000);
    bench.end(jobs);
}

#[test]
fn what_was_said_while_the_store_was_down_is_kept_in_order_when_it_is_back() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let handler = |_: Mail, cx: &JobContext| {
        for n in 0..10 {
            cx.log(format!("line {n}"));
            cx.progress(f64::from(n) / 10.0, "copying");
            cx.sleep(SECOND)?;
        }
        Ok(Done)
    };
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(2 * SECOND);
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    bench.clock.advance(5 * SECOND);
    assert_eq!(jobs.log(id).unwrap().lines.len(), 2);
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    flaky.lose_next_answer();
    bench.clock.advance(10 * SECOND);
    let log = jobs.log(id).unwrap();
    let said: Vec<_> = log.lines.iter().map(|line| line.text.clone()).collect();
    assert_eq!(said, (0..10).map(|n| format!("line {n}")).collect::<Vec<_>>(), "each once");
    assert_eq!(log.progress.unwrap().millionths, 900_000);
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn a_store_that_refuses_what_is_said_loses_the_lines_and_no_outcome() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let handler = move |mail: Mail, cx: &JobContext| {
        count.fetch_add(1, Ordering::SeqCst);
        cx.log(mail.to);
        Ok(Done)
    };
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    flaky.refuse_what_says("poison");
    let ids: Vec<_> = jobs.enqueue_many(["a", "poison", "b"].map(mail)).unwrap();
    bench.clock.advance(HOUR);
    assert!(ids.iter().all(|id| bench.state(id.id()) == JobState::Done));
    assert_eq!(runs.load(Ordering::SeqCst), 3, "none was run again");
    assert_eq!(jobs.log(ids[1].id()).unwrap().lines, []);
    bench.end(jobs);
}
