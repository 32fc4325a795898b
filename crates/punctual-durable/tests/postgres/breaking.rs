//! Connections break, servers go away and come back; jobs are neither lost nor recorded twice.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_durable::{Done, Event, Filter, JobContext, JobId, JobState, Jobs, PostgresStore, Store};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, work};

/// What a node on the database of `url` has told.
#[derive(Default)]
struct Told {
    recorded: BTreeMap<JobId, u32>,
    rescued: u32,
    failed: u32,
}

fn node(url: &str, told: &Arc<Mutex<Told>>, sender: std::sync::mpsc::Sender<JobId>) -> Jobs {
    let told = Arc::clone(told);
    Jobs::open(url)
        .unwrap()
        .concurrency(4)
        .poll_interval(Duration::from_millis(20))
        .handle("work", move |_: serde_json::Value, cx: &JobContext| {
            sender.send(cx.id())?;
            Ok(Done)
        })
        .observe(move |event| {
            let mut told = told.lock().unwrap();
            match event {
                Event::Recorded { id, .. } => *told.recorded.entry(*id).or_default() += 1,
                Event::Rescued { .. } => told.rescued += 1,
                Event::StoreFailed(error) => {
                    assert!(error.is_transient(), "{error:?}");
                    told.failed += 1;
                }
                _ => {}
            }
        })
        .start()
        .unwrap()
}

/// Enqueues one job, however often the connection breaks; says how many were accepted for certain.
fn enqueue(store: &PostgresStore) -> JobId {
    loop {
        match store.enqueue(vec![work()]) {
            Ok(accepted) => return accepted[0].id(),
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
}

fn all_done(store: &PostgresStore, ids: &[JobId]) {
    for id in ids {
        loop {
            // Reading may meet a server that is just going.
            match store.job(*id) {
                Ok(job) if job.as_ref().is_some_and(|job| job.state == JobState::Done) => break,
                Ok(job) => assert!(job.is_some(), "{id} is lost"),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_storm_of_broken_connections_loses_nothing() {
    let database = Database::new();
    let told = Arc::default();
    let (sender, receiver) = channel();
    let jobs = node(&database.url, &told, sender);
    let store = database.open();
    let mut ids = Vec::new();
    let mut broken = 0;
    for _ in 0..15 {
        ids.extend((0..10).map(|_| enqueue(&store)));
        // Whatever is under way at this moment.
        broken += Postgres::shared().terminate_backends(&database.url);
        receiver.recv().unwrap();
    }
    all_done(&store, &ids);
    assert_eq!(jobs.shutdown(Duration::from_secs(60)).unwrap(), 0);
    let told = told.lock().unwrap();
    assert!(broken >= 15, "{broken} connections were broken");
    assert!(told.recorded.values().all(|times| *times == 1), "{:?}", told.recorded);
    let alive = store.find(&Filter::new().state(JobState::Claimed)).unwrap();
    assert_eq!(alive, [], "nothing is left behind");
}

#[test]
fn a_server_that_stops_at_once_and_comes_back_finds_everything_as_it_was() {
    let server = Postgres::start(Settings::durable());
    let url = server.fresh_database();
    let told = Arc::default();
    let (sender, receiver) = channel();
    let jobs = node(&url, &told, sender);
    let store = PostgresStore::open(&url).unwrap();
    let mut ids: Vec<JobId> = (0..50).map(|_| enqueue(&store)).collect();
    for _ in 0..2 {
        receiver.recv().unwrap();
        server.stop_immediate();
        let error = store.enqueue(vec![work()]).unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        server.restart();
        ids.extend((0..50).map(|_| enqueue(&store)));
    }
    all_done(&store, &ids);
    assert_eq!(jobs.shutdown(Duration::from_secs(60)).unwrap(), 0);
    assert_eq!(told.lock().unwrap().rescued, 0, "nobody was taken for dead");
}

/// Two nodes; the server is away for longer than their leases. Whoever is back first must not take the other for dead.
#[test]
fn leases_that_ran_out_while_the_server_was_away_get_another() {
    use punctual_durable::{Exchange, NodeId};
    let server = Postgres::start(Settings::durable());
    let url = server.fresh_database();
    let (first, second) = (NodeId::random(), NodeId::random());
    let lease = Duration::from_secs(120);
    {
        let store = PostgresStore::open(&url).unwrap();
        store.enqueue(vec![work()]).unwrap();
        store.renew(first, lease).unwrap();
        let sweep = Exchange::new(crate::kinds()).sweep(1);
        assert_eq!(store.exchange(first, sweep).unwrap().claimed.len(), 1);
    }
    server.stop_immediate();
    server.restart();
    // As if the server had been away for an hour.
    let hour = "UPDATE punctual.node SET until = until - 3600000000";
    postgres::Client::connect(&url, postgres::NoTls).unwrap().batch_execute(hour).unwrap();
    let store = PostgresStore::open(&url).unwrap();
    store.renew(second, lease).unwrap();
    assert_eq!(store.rescue(second, 9).unwrap(), [], "it has the time of one lease to come back");
    let brief = "UPDATE punctual.node SET lease = 1 WHERE held <> '{}'";
    postgres::Client::connect(&url, postgres::NoTls).unwrap().batch_execute(brief).unwrap();
    assert_eq!(store.rescue(second, 9).unwrap().len(), 1, "which is over now");
}

/// The standby has been up for longer than a lease when it takes over: that it has started says nothing.
#[test]
fn leases_that_ran_out_in_a_failover_get_another() {
    use punctual_durable::{Exchange, NodeId, Report, Verdict};
    let lease = Duration::from_secs(3);
    let server = Postgres::start(Settings::fast());
    let url = server.fresh_database();
    let (first, second) = (NodeId::random(), NodeId::random());
    let held = {
        let store = PostgresStore::open(&url).unwrap();
        store.enqueue(vec![work()]).unwrap();
        store.renew(first, lease).unwrap();
        let sweep = Exchange::new(crate::kinds()).sweep(1);
        store.exchange(first, sweep).unwrap().claimed.remove(0)
    };
    let standby = server.standby();
    let name = url.rsplit('/').next().unwrap();
    let mut sql = standby.connect(name);
    let uptime = "SELECT clock_timestamp() - pg_postmaster_start_time() > interval '3.1 seconds'";
    while !sql.query_one(uptime, &[]).unwrap().get::<_, bool>(0) {
        std::thread::yield_now();
    }
    server.await_standby(&standby);
    server.stop_immediate();
    // Who only looks may open a standby, too.
    let reader = PostgresStore::open(&standby.url(name)).unwrap();
    assert_eq!(reader.job(held.id).unwrap().unwrap().state, JobState::Claimed);
    standby.promote();

    let store = PostgresStore::open(&standby.url(name)).unwrap();
    store.renew(second, lease).unwrap();
    // As if all that had taken an hour.
    let hour = "UPDATE punctual.node SET until = until - 3600000000 WHERE held <> '{}'";
    sql.batch_execute(hour).unwrap();
    assert_eq!(store.rescue(second, 9).unwrap(), [], "it has the time of one lease to come back");
    assert_eq!(store.rescue(second, 9).unwrap(), [], "and that is not forgotten");
    // It comes back, and what it did counts.
    store.renew(first, lease).unwrap();
    let done = vec![Report::new(held.id, held.fence, Verdict::Done)];
    let answer = store.exchange(first, Exchange::new(crate::kinds()).reports(done)).unwrap();
    assert_eq!(answer.recorded, [punctual_durable::Recorded::Over(JobState::Done)]);

    // One that does not come back is dead a lease after the failover, and the next failover is another.
    store.enqueue(vec![work()]).unwrap();
    assert_eq!(store.exchange(first, Exchange::new(crate::kinds()).sweep(1)).unwrap().claimed.len(), 1);
    let back = "UPDATE punctual.meta SET value = value - 3600000000 WHERE name = 'failover'";
    sql.batch_execute(back).unwrap();
    sql.batch_execute(hour).unwrap();
    assert_eq!(store.rescue(second, 9).unwrap().len(), 1);
}
