//! The memory store passes the suite.

use std::sync::Arc;

use punctual::ManualClock;
use punctual_durable::conformance::{LEASE, Subject};
use punctual_durable::{MemoryStore, Store};

#[derive(Debug)]
struct InMemory {
    clock: ManualClock,
    store: Arc<MemoryStore>,
}

fn in_memory() -> InMemory {
    let clock = ManualClock::new();
    InMemory { clock: clock.clone(), store: Arc::new(MemoryStore::with_time(clock)) }
}

impl Subject for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Memory does not survive a process; what this store can lose is a node.
    fn crash(&mut self) {
        self.clock.advance(LEASE);
    }

    fn verify(&self) {
        self.store.verify();
    }
}

punctual_durable::conformance_tests!(in_memory);
