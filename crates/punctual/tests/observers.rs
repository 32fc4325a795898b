//! The ready-made observers, seen from the other side: by a subscriber and by a recorder that capture.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata as Place, Recorder,
    SharedString, Unit,
};
use punctual::{
    Executor, ManualClock, MetricsObserver, Observer, RunOutcome, Spawner, TaskInfo, TracingObserver,
    WorkerThread,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

const STEP: Duration = Duration::from_millis(10);

// ---- tracing

/// Writes down what happens to spans, and events with the span they are in.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Captured>>);

#[derive(Default)]
struct Captured {
    lines: Vec<String>,
    entered: Vec<u64>,
    next: u64,
}

/// Fields as text, by name.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&fields.join(" "))
    }
}

impl Capture {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines.clone()
    }

    fn add(&self, line: String) {
        self.0.lock().unwrap().lines.push(line);
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let mut captured = self.0.lock().unwrap();
        captured.next += 1;
        let id = captured.next;
        captured.lines.push(format!("new {id} {} {fields}", span.metadata().name()));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        self.add(format!("record {} {fields}", span.into_u64()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut captured = self.0.lock().unwrap();
        let inside = captured.entered.clone();
        captured.lines.push(format!("{} in {inside:?} {fields}", event.metadata().level()));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().entered.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        let left = self.0.lock().unwrap().entered.pop();
        assert_eq!(left, Some(span.into_u64()), "spans are left in the order in which they were entered");
    }

    fn try_close(&self, span: Id) -> bool {
        self.add(format!("close {}", span.into_u64()));
        true
    }
}

/// Threads that trace to the subscriber given.
struct Traced(Dispatch);

impl Spawner for Traced {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        let dispatch = self.0.clone();
        let run = move || tracing::dispatcher::with_default(&dispatch, || worker.run());
        thread::Builder::new().spawn(run).map(Some)
    }
}

fn traced(observer: impl Observer) -> (Executor, ManualClock, Capture) {
    let (capture, clock) = (Capture::default(), ManualClock::new());
    let spawner = Traced(Dispatch::new(capture.clone()));
    let builder = Executor::builder().observer(observer).spawner(spawner).clock(clock.clone());
    (builder.build().unwrap(), clock, capture)
}

#[test]
fn a_run_is_a_span_and_what_the_body_says_is_inside_it() {
    let (pool, clock, capture) = traced(TracingObserver::new());
    pool.task(|| tracing::info!("hello")).name("greeter").after(STEP).start().unwrap();
    clock.jump(3 * STEP);
    clock.wait_until_idle();
    pool.close().unwrap();
    let expected = [
        "new 1 run lateness_ns=20000000 name=\"greeter\" run=1 task=0",
        "INFO in [1] message=hello",
        "record 1 outcome=\"returned\"",
        "close 1",
    ];
    assert_eq!(capture.lines(), expected);
}

#[test]
fn a_panic_is_an_error_inside_the_span_of_its_run() {
    let (pool, clock, capture) = traced(TracingObserver::new());
    let failed = pool.submit(|| panic!("on purpose")).unwrap();
    assert!(failed.join().is_err());
    clock.wait_until_idle();
    pool.close().unwrap();
    let expected = [
        "new 1 run lateness_ns=0 run=1 task=0",
        "record 1 outcome=\"panicked\"",
        "ERROR in [1] message=a task panicked panic=\"on purpose\"",
        "close 1",
    ];
    assert_eq!(capture.lines(), expected);
}

#[test]
fn a_future_has_a_span_for_each_poll() {
    let (pool, clock, capture) = traced(TracingObserver::new());
    let nap = pool.sleep(STEP);
    pool.spawn(async move { nap.await.unwrap() }).unwrap();
    clock.advance(STEP);
    pool.close().unwrap();
    let outcomes: Vec<String> =
        capture.lines().into_iter().filter(|line| line.starts_with("record")).collect();
    let expected =
        ["record 1 outcome=\"pending\"", "record 2 outcome=\"returned\"", "record 3 outcome=\"returned\""];
    assert_eq!(outcomes, expected, "poll, timer, poll");
}

/// A run inside a run, as with a caller-runs rejection in a body, is a span inside a span.
#[test]
fn a_run_inside_a_run_is_a_span_inside_a_span() {
    let (pool, clock, capture) = traced(TracingObserver::new());
    let inner = pool.schedule(Duration::from_secs(3600), || tracing::info!("inner")).unwrap();
    let outer = pool
        .submit(move || {
            assert!(inner.remove().unwrap().run());
            tracing::info!("outer");
        })
        .unwrap();
    outer.join().unwrap();
    clock.wait_until_idle();
    pool.close().unwrap();
    let events: Vec<String> = capture.lines().into_iter().filter(|line| line.starts_with("INFO")).collect();
    assert_eq!(events, ["INFO in [1, 2] message=inner", "INFO in [1] message=outer"]);
}

// ---- pairs

/// Refuses every run.
struct Refuses;

impl Observer for Refuses {
    fn before_run(&self, _: TaskInfo<'_>) {
        panic!("not this one");
    }
}

/// No span may be left open by a run that another observer has refused.
#[test]
fn the_first_of_a_pair_is_told_of_the_end_of_a_run_that_the_second_refused() {
    let (pool, clock, capture) = traced((TracingObserver::new(), Refuses));
    for _ in 0..2 {
        let refused = pool.submit(|| unreachable!("the hook refused it")).unwrap();
        assert!(refused.join().unwrap_err().to_string().contains("not this one"));
    }
    clock.wait_until_idle();
    pool.close().unwrap();
    let closed: Vec<String> = capture.lines().into_iter().filter(|line| line.starts_with("close")).collect();
    assert_eq!(closed, ["close 1", "close 2"]);
}

#[test]
fn a_pair_nests_and_tells_both_whatever_the_other_does() {
    #[derive(Clone)]
    struct Says(&'static str, bool, Arc<Mutex<Vec<String>>>);
    impl Says {
        fn say(&self, what: &str) {
            self.2.lock().unwrap().push(format!("{} {what}", self.0));
        }
    }
    impl Observer for Says {
        fn before_run(&self, _: TaskInfo<'_>) {
            self.say("before");
        }
        fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
            self.say(if matches!(outcome, RunOutcome::Returned) { "returned" } else { "failed" });
            assert!(!self.1, "a hook panics");
        }
        fn terminated(&self) {
            self.say("terminated");
            assert!(!self.1, "a hook panics");
        }
    }
    let said = Arc::new(Mutex::new(Vec::new()));
    let pair = (Says("a", true, Arc::clone(&said)), Says("b", true, Arc::clone(&said)));
    let pool = Executor::builder().observer(pair).build().unwrap();
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    pool.close().unwrap();
    let expected = ["a before", "b before", "b returned", "a returned", "a terminated", "b terminated"];
    assert_eq!(*said.lock().unwrap(), expected);
}

// ---- metrics

/// Keeps every metric by its name and labels.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, Arc<Entry>>>>);

/// Counters and gauges as whole numbers, histograms by their last value and how many there were.
#[derive(Default)]
struct Entry {
    number: AtomicU64,
    last: Mutex<f64>,
}

impl Ledger {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn number(&self, name: &str) -> u64 {
        self.0.lock().unwrap()[name].number.load(Ordering::SeqCst)
    }

    fn last(&self, name: &str) -> f64 {
        *self.0.lock().unwrap()[name].last.lock().unwrap()
    }
}

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.number.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.number.store(value, Ordering::SeqCst);
    }
}

impl GaugeFn for Entry {
    fn increment(&self, value: f64) {
        self.number.fetch_add(value as u64, Ordering::SeqCst);
    }

    fn decrement(&self, value: f64) {
        self.number.fetch_sub(value as u64, Ordering::SeqCst);
    }

    fn set(&self, value: f64) {
        self.number.store(value as u64, Ordering::SeqCst);
    }
}

impl HistogramFn for Entry {
    fn record(&self, value: f64) {
        self.number.fetch_add(1, Ordering::SeqCst);
        *self.last.lock().unwrap() = value;
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Place<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Place<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, key: &Key, _: &Place<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key))
    }
}

#[test]
fn runs_lateness_and_threads_are_counted_under_the_name_of_their_pool() {
    let ledger = Ledger::default();
    let observer = metrics::with_local_recorder(&ledger, || MetricsObserver::new("mailer"));
    let clock = ManualClock::new();
    let pool = Executor::builder().observer(observer).clock(clock.clone()).build().unwrap();
    assert!(pool.submit(|| panic!("on purpose")).unwrap().join().is_err());
    pool.schedule(STEP, || ()).unwrap();
    let nap = pool.sleep_until(punctual::Tick::ZERO);
    pool.spawn(async move {
        nap.await.unwrap();
        std::future::pending::<()>().await;
    })
    .unwrap();
    clock.wait_until_idle();
    assert_eq!(ledger.number("punctual_workers{pool=mailer}"), 1);
    clock.jump(3 * STEP);
    clock.wait_until_idle();
    pool.close().unwrap();
    let runs = |outcome| ledger.number(&format!("punctual_runs_total{{pool=mailer,outcome={outcome}}}"));
    // The future is polled, found lost, and ended: two polls, of which the second returned nothing.
    assert_eq!((runs("panicked"), runs("pending"), runs("returned")), (1, 1, 2));
    assert_eq!(ledger.number("punctual_lateness_seconds{pool=mailer}"), 4);
    assert_eq!(ledger.last("punctual_lateness_seconds{pool=mailer}"), 0.02);
    assert_eq!(ledger.number("punctual_workers{pool=mailer}"), 0);
    assert_eq!(ledger.number("punctual_spawn_failures_total{pool=mailer}"), 0);
}

#[test]
fn what_goes_wrong_beside_the_bodies_is_counted() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor panics");
        }
    }
    struct Fails;
    impl Spawner for Fails {
        fn spawn(&self, _: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
            Err(io::Error::other("no thread"))
        }
    }
    let ledger = Ledger::default();
    let observer = metrics::with_local_recorder(&ledger, || MetricsObserver::new("p"));
    let pool = Executor::builder().observer(observer).build().unwrap();
    let bomb = Bomb;
    let far = pool
        .schedule(Duration::from_secs(3600), move || {
            let _bomb = &bomb;
        })
        .unwrap();
    assert!(far.cancel());
    assert_eq!(ledger.number("punctual_contained_panics_total{pool=p}"), 1);
    pool.set_spawner(Fails);
    pool.set_core_threads(2).unwrap();
    drop(pool.submit(|| ()));
    assert_eq!(ledger.number("punctual_spawn_failures_total{pool=p}"), 1);
    pool.close().unwrap();
}
