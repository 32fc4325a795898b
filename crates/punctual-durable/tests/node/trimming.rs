//! What is long over is forgotten, when there is time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_durable::{Done, Error, JobContext, MemoryStore, Result, Store, Timestamp};

use crate::bench::{Bench, HOUR, Mail};
use crate::delegate::delegate;

/// It cannot forget anything.
#[derive(Debug)]
struct Untidy {
    store: Arc<MemoryStore>,
    tries: AtomicU32,
}

impl Store for Untidy {
    delegate! { now on_news tell_news enqueue cancel reschedule retry purge set_queue save_schedule set_schedule schedules due_schedules fire job find failures log queues lines upcoming tallies errors check identity import renew leave peek exchange rescue }

    fn trim(&self, _: Timestamp, _: usize) -> Result<usize> {
        self.tries.fetch_add(1, Ordering::SeqCst);
        Err(Error::transient("not now"))
    }
}

#[test]
fn a_store_that_cannot_forget_is_not_asked_again_at_once() {
    let bench = Bench::new();
    let store = Arc::new(Untidy { store: bench.store.clone(), tries: AtomicU32::new(0) });
    let handler = |_: Mail, _: &JobContext| Ok(Done);
    let jobs = bench.on(store.clone()).handle("mail", handler).start().unwrap();
    bench.clock.advance(HOUR);
    let tries = store.tries.load(Ordering::SeqCst);
    assert!((2..=61).contains(&tries), "{tries}");
    bench.end(jobs);
}
