//! The PostgreSQL store passes the suite.

use std::sync::Arc;

use punctual::ManualClock;
use punctual_durable::conformance::{LEASE, Subject};
use punctual_durable::{PostgresStore, Store};
use punctual_testbed::Postgres;

/// A crash is the end of all connections, and of the lease.
#[derive(Debug)]
struct InDatabase {
    clock: ManualClock,
    url: String,
    store: Option<Arc<PostgresStore>>,
}

fn in_database() -> InDatabase {
    let clock = ManualClock::new();
    let url = Postgres::shared().fresh_database();
    let store = PostgresStore::open_with_time(&url, clock.clone()).unwrap();
    InDatabase { clock, url, store: Some(Arc::new(store)) }
}

impl Subject for InDatabase {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn crash(&mut self) {
        self.store = None;
        self.clock.advance(LEASE);
        self.store = Some(Arc::new(PostgresStore::open_with_time(&self.url, self.clock.clone()).unwrap()));
    }
}

impl Drop for InDatabase {
    fn drop(&mut self) {
        self.store = None;
        if !std::thread::panicking() {
            Postgres::shared().drop_database(&self.url);
        }
    }
}

punctual_durable::conformance_tests!(in_database);
