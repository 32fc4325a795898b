//! Jobs that have been lost so often that they may be what kills their nodes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use punctual_durable::{
    Done, Exchange, Filter, JobContext, JobError, JobId, JobState, MemoryStore, NewJob, NodeId, Outcome,
    Store,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail};

/// Jobs whose nodes have died twice; due in five seconds.
fn suspects(bench: &Bench, count: usize) -> Vec<JobId> {
    let store = &bench.store;
    store.enqueue(vec![NewJob::new("mail", r#"{"to":"a"}"#); count]).unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (node, heir) = (NodeId::random(), NodeId::random());
        store.renew(node, HOUR).unwrap();
        let all = Exchange::new(Arc::new(["mail".to_owned()])).sweep(count);
        ids = store.exchange(node, all).unwrap().claimed.iter().map(|job| job.id).collect();
        store.leave(node).unwrap();
        store.renew(heir, HOUR).unwrap();
        assert_eq!(store.rescue(heir, count).unwrap().len(), count);
        store.leave(heir).unwrap();
    }
    assert!(ids.iter().all(|id| store.job(*id).unwrap().unwrap().crashes == 2));
    ids
}

/// How many of these a node holds, by what the store knows: whom its death would be charged to.
fn held(store: &MemoryStore) -> usize {
    let claimed = store.find(&Filter::new().state(JobState::Claimed).limit(usize::MAX)).unwrap();
    claimed.iter().filter(|job| job.crashes >= 2).count()
}

fn done(bench: &Bench, ids: &[JobId]) -> usize {
    ids.iter().filter(|id| bench.state(**id) == JobState::Done).count()
}

/// Otherwise the crash of one would be the end of the others, too.
#[test]
fn a_suspect_begins_when_the_store_knows_that_no_other_is_held() {
    let bench = Bench::new();
    let ids = suspects(&bench, 20);
    let (tell, told) = channel();
    let store = bench.store.clone();
    let handler = move |_: Mail, _: &JobContext| {
        tell.send(held(&store))?;
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(8).handle("mail", handler).start().unwrap();
    for _ in 0..120 {
        bench.clock.advance(SECOND / 2);
    }
    assert_eq!(done(&bench, &ids), 20, "each has its turn");
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [1; 20]);
    bench.end(jobs);
}

/// A handler that tells whom it was called for, and takes its time over suspects.
fn long() -> (impl Fn(Mail, &JobContext) -> Result<Outcome, JobError>, Receiver<String>) {
    let (tell, told) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        let long = mail.to == "a";
        tell.send(mail.to)?;
        cx.sleep(if long { 1_000 * SECOND } else { Duration::ZERO })?;
        Ok(Done)
    };
    (handler, told)
}

#[test]
fn a_suspect_that_takes_long_keeps_other_suspects_waiting_and_nobody_else() {
    let bench = Bench::new();
    let ids = suspects(&bench, 3);
    let (handler, told) = long();
    let jobs = bench.jobs().concurrency(8).handle("mail", handler).start().unwrap();
    bench.clock.advance(500 * SECOND);
    let fresh = jobs.enqueue(mail("b")).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!((done(&bench, &ids), held(&bench.store), bench.state(fresh)), (0, 1, JobState::Done));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["a", "b"]);
    bench.clock.advance(4_000 * SECOND);
    assert_eq!(done(&bench, &ids), 3);
    bench.end(jobs);
}

#[test]
fn a_node_that_is_shut_down_keeps_no_suspect() {
    let bench = Bench::new();
    let ids = suspects(&bench, 5);
    let (handler, told) = long();
    let jobs = bench.jobs().concurrency(8).handle("mail", handler).start().unwrap();
    bench.clock.jump(5 * SECOND);
    told.recv().unwrap();
    jobs.shutdown(Duration::ZERO).unwrap();
    // The one that had begun may need a moment.
    bench.clock.wait_until_idle();
    bench.store.verify();
    let states: Vec<_> = ids.iter().map(|id| bench.state(*id)).collect();
    assert_eq!(states, [JobState::Scheduled; 5]);
}
