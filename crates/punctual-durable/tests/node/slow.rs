//! A store that takes its time, on the manual clock: whatever it is asked for, the rest has its turn.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Clock, ManualClock, Tick};
use punctual_durable::{
    Done, Error, Event, Exchange, Exchanged, Firing, JobContext, JobState, MemoryStore, NewJob, NodeId, Peek,
    Peeked, Renewal, Rescued, Result, Store, Ticket,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, gated, mail};
use crate::delegate::delegate;

/// What it does passes to the store behind it, and takes time.
#[derive(Debug)]
struct Slow {
    store: Arc<MemoryStore>,
    clock: ManualClock,
    /// How long a renewal takes once a handler has been called, and how many more of them do.
    renewal: Duration,
    slow_renewals: AtomicU32,
    exchange: Duration,
    /// Exchanges that fail, after that time, before one succeeds.
    failures: AtomicU32,
    /// Whether an exchange takes until what was claimed before is over: so there is always something to report next.
    keeps_busy: bool,
    /// Jobs that were claimed, and those of them whose handlers have been called.
    claimed: AtomicUsize,
    handled: AtomicUsize,
    fired: Mutex<Vec<Tick>>,
}

impl Slow {
    fn new(bench: &Bench, renewal: Duration, exchange: Duration) -> Self {
        Self {
            store: bench.store.clone(),
            clock: bench.clock.clone(),
            renewal,
            slow_renewals: AtomicU32::new(100_000),
            exchange,
            failures: AtomicU32::new(0),
            keeps_busy: false,
            claimed: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            fired: Mutex::default(),
        }
    }
}

/// Counts down to zero; says whether it was there.
fn is_used_up(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
}

impl Store for Slow {
    delegate! { now on_news tell_news enqueue cancel reschedule retry purge trim set_queue save_schedule set_schedule schedules due_schedules job find failures log queues lines upcoming tallies errors check identity import leave }

    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        let renewal = self.store.renew(node, lease);
        if self.handled.load(Ordering::SeqCst) > 0 && !is_used_up(&self.slow_renewals) {
            self.clock.jump(self.renewal);
            std::thread::yield_now();
        }
        renewal
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.store.peek(peek)
    }

    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        let busy = || self.handled.load(Ordering::SeqCst) < self.claimed.load(Ordering::SeqCst);
        // Not for ever: what found no thread in time has been given back.
        for _ in (0..1_000).take_while(|_| self.keeps_busy && busy()) {
            std::thread::yield_now();
        }
        self.clock.jump(self.exchange);
        if !is_used_up(&self.failures) {
            return Err(Error::transient("it took too long"));
        }
        let answer = self.store.exchange(node, exchange)?;
        self.claimed.fetch_add(answer.claimed.len(), Ordering::SeqCst);
        Ok(answer)
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        self.store.rescue(node, most)
    }

    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        self.fired.lock().unwrap().push(self.clock.now());
        self.store.fire(firings)
    }
}

#[test]
fn renewals_that_take_longer_than_their_interval_keep_no_report_waiting() {
    let bench = Bench::new();
    let slow = Arc::new(Slow::new(&bench, 250 * SECOND, Duration::ZERO));
    let store = slow.clone();
    let handler = move |_: Mail, _: &JobContext| {
        store.handled.fetch_add(1, Ordering::SeqCst);
        // From now on there is always one due.
        store.clock.jump(200 * SECOND);
        Ok(Done)
    };
    let (store, (tell, recorded)) = (slow.clone(), channel());
    let observe = move |event: &Event<'_>| {
        if let Event::Recorded { .. } = event {
            let _ = tell.send(store.slow_renewals.swap(0, Ordering::SeqCst));
        }
    };
    let jobs = bench.on(slow.clone()).observe(observe).handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    assert!(recorded.recv().unwrap() > 0, "it has waited until renewals became quick");
    bench.clock.wait_until_idle();
    bench.end(jobs);
}

#[test]
fn a_node_that_never_comes_to_rest_fires_its_schedules() {
    let bench = Bench::new();
    let slow = Arc::new(Slow { keeps_busy: true, ..Slow::new(&bench, Duration::ZERO, SECOND) });
    let start = bench.clock.now();
    bench.store.enqueue((0..10_000).map(|_| NewJob::new("mail", r#"{"to":"a"}"#)).collect()).unwrap();
    let store = slow.clone();
    let handler = move |_: Mail, _: &JobContext| {
        store.handled.fetch_add(1, Ordering::SeqCst);
        Ok(Done)
    };
    let jobs = bench.on(slow.clone()).poll_interval(SECOND).handle("mail", handler).start().unwrap();
    jobs.schedule("tick").every(2 * SECOND).job(mail("b")).save().unwrap();
    while slow.handled.load(Ordering::SeqCst) < 10_000 {
        std::thread::yield_now();
    }
    let took = bench.clock.now().since(start);
    let fired = slow.fired.lock().unwrap().clone();
    assert!(took > 15 * SECOND, "{took:?}: so it did not rest");
    let (mut last, mut longest) = (start, Duration::ZERO);
    for tick in fired {
        (longest, last) = (longest.max(tick.since(last)), tick);
    }
    assert!(longest.max(bench.clock.now().since(last)) <= 10 * SECOND, "{longest:?}");
    jobs.remove_schedule("tick").unwrap();
    // The last handlers may not have returned yet.
    assert_eq!(jobs.shutdown(1_000 * HOUR).unwrap(), 0);
    bench.store.verify();
}

/// The pause that it would grant to others, which nobody needs any more, grows with the time that a failure takes.
#[test]
fn a_node_that_leaves_does_not_wait_for_reports_that_were_set_aside() {
    let bench = Bench::new();
    let slow = Arc::new(Slow::new(&bench, Duration::ZERO, 10 * SECOND));
    let (handler, gate) = gated();
    let jobs = bench.on(slow.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    slow.failures.store(1_000, Ordering::SeqCst);
    gate.go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    assert!(jobs.shutdown(Duration::ZERO).unwrap_err().is_transient());
    assert_eq!(bench.state(id), JobState::Claimed);
    slow.failures.store(0, Ordering::SeqCst);
    bench.clock.advance(2 * SECOND);
    assert_eq!(bench.state(id), JobState::Done);
    bench.store.verify();
}
