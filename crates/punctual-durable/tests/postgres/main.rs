//! What the PostgreSQL store promises beyond the suite: connections, transactions, several nodes, broken servers.

mod breaking;
mod bursts;
mod completing;
mod connecting;
mod examining;
#[cfg(feature = "sqlite")]
#[path = "../folder/mod.rs"]
mod folder;
mod holding;
mod looking_back;
mod moving;
mod poisoned;
mod ringing;
mod sharing;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use punctual_durable::{
    Enqueued, Exchange, Exchanged, NewJob, NodeId, PostgresStore, Report, Store, Tenure, Ticket, Verdict,
};
use punctual_testbed::{Postgres, Settings};

const LEASE: Duration = Duration::from_secs(600);

fn kinds() -> Arc<[String]> {
    Arc::new(["work".to_owned()])
}

fn work() -> NewJob {
    NewJob::new("work", "{}")
}

fn new_ticket(answer: &Enqueued) -> Ticket {
    match answer {
        Enqueued::New(ticket) => *ticket,
        other => panic!("{other:?}"),
    }
}

/// A database of one's own, on the shared server or on another.
struct Database {
    url: String,
    server: Option<Postgres>,
}

impl Database {
    fn new() -> Self {
        Self { url: Postgres::shared().fresh_database(), server: None }
    }

    /// On a server where nobody else does anything.
    fn alone() -> Self {
        let server = Postgres::start(Settings::fast());
        Self { url: server.fresh_database(), server: Some(server) }
    }

    fn open(&self) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::open(&self.url).unwrap())
    }

    /// Waits until so many listen: before that they hear nothing.
    fn await_listeners(&self, count: i64) {
        let listens = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                       AND application_name = 'punctual bell' AND state = 'idle' AND query LIKE '%LISTEN%'";
        let mut sql = self.client();
        while sql.query_one(listens, &[]).unwrap().get::<_, i64>(0) < count {
            std::thread::yield_now();
        }
    }

    fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url, postgres::NoTls).unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.server.is_none() {
            Postgres::shared().drop_database(&self.url);
        }
    }
}

/// A node that is moved by hand, on a connection of its own.
struct Hand {
    store: Arc<PostgresStore>,
    id: NodeId,
}

impl Hand {
    fn new(database: &Database) -> Self {
        Self::on(database.open())
    }

    fn on(store: Arc<PostgresStore>) -> Self {
        let hand = Self { store, id: NodeId::random() };
        assert_eq!(hand.store.renew(hand.id, LEASE).unwrap().tenure, Tenure::Active);
        hand
    }

    fn sweep(&self, most: usize) -> Exchanged {
        self.store.exchange(self.id, Exchange::new(kinds()).sweep(most)).unwrap()
    }

    /// Says that all of these are done, and takes as many more.
    fn done(&self, answer: &Exchanged, most: usize) -> Exchanged {
        let report = |job: &punctual_durable::JobRecord| Report::new(job.id, job.fence, Verdict::Done);
        let reports = answer.claimed.iter().map(report).collect();
        self.store.exchange(self.id, Exchange::new(kinds()).reports(reports).sweep(most)).unwrap()
    }
}
