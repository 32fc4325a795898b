//! Jobs that are claimed before they are due, and what they leave to others meanwhile; see `node/pace.rs`.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use punctual_durable::{Done, Filter, JobContext, JobState};

use crate::bench::{Bench, Mail, SECOND, mail, recorder};
use crate::flaky::Flaky;

/// Less than the shortest lead.
const SOON: Duration = Duration::from_millis(3);

#[test]
fn what_waits_for_its_instant_leaves_its_thread_to_what_is_due() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().concurrency(1).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let soon = jobs.enqueue(mail("soon")).after(SOON).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(soon), JobState::Claimed, "early");
    jobs.enqueue(mail("now")).send().unwrap();
    bench.clock.wait_until_idle();
    bench.clock.advance(SECOND);
    let expected = [("now", Duration::ZERO), ("soon", SOON)];
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), expected.map(|(to, at)| (to.to_owned(), at)));
    bench.end(jobs);
}

#[test]
fn what_has_begun_takes_its_thread_and_nothing_is_claimed_for_it() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to)?;
        cx.sleep(SECOND)?;
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(1).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    jobs.enqueue(mail("soon")).after(SOON).send().unwrap();
    bench.clock.advance(SOON);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["soon"]);
    let others =
        [Duration::ZERO, SOON].map(|after| jobs.enqueue(mail("other")).after(after).send().unwrap().id());
    bench.clock.wait_until_idle();
    assert_eq!(others.map(|id| bench.state(id)), [JobState::Scheduled; 2], "for others to claim");
    bench.clock.advance(10 * SECOND);
    assert_eq!(others.map(|id| bench.state(id)), [JobState::Done; 2]);
    bench.end(jobs);
}

#[test]
fn jobs_that_come_densely_share_calls_and_no_report_waits_long() {
    const COUNT: u32 = 200;
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let store = Arc::new(Flaky::new(bench.store.clone()));
    let jobs = bench.on(store.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let millis = |n: u32| Duration::from_millis(n.into());
    for n in 1..=COUNT {
        jobs.enqueue(mail("dense")).after(millis(n)).send().unwrap();
    }
    let before = store.exchanges();
    for n in 1..=COUNT {
        bench.clock.advance(millis(1));
        assert_eq!(calls.try_iter().map(|(_, at)| at).collect::<Vec<_>>(), [millis(n)]);
        let done = jobs.find(&Filter::new().state(JobState::Done).limit(1_000)).unwrap().len();
        assert!(done as u32 + 10 >= n, "{done} of {n} are recorded");
    }
    let exchanges = store.exchanges() - before;
    assert!(exchanges <= COUNT / 4, "{exchanges} exchanges for {COUNT} jobs");
    bench.clock.advance(millis(10));
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done).limit(1_000)).unwrap().len(), 200);
    bench.end(jobs);
}
