//! What the tests share: pools on a manual clock, gates to hold bodies, probes for what is dropped.
#![allow(dead_code, reason = "each file uses its own part")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use punctual::{Clock, Executor, ManualClock, Parker, TaskHandle, Tick};

/// One step of manual time.
pub(crate) const STEP: Duration = Duration::from_millis(10);
/// Long enough in manual time to be never reached by accident.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Real time that only a test about to fail waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Real time for the few tests whose subject is real time.
pub(crate) const SHORT: Duration = Duration::from_millis(12);

/// A pool of `threads` on a clock that stands still.
pub(crate) fn manual(threads: usize) -> (Executor, ManualClock) {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(threads).clock(clock.clone()).build().unwrap();
    (pool, clock)
}

/// Ends `pool` and waits for every thread of it. On a manual clock time never passes here.
pub(crate) fn finish(pool: &Executor) {
    drop(pool.shutdown_now());
    assert!(pool.await_termination(Duration::MAX));
}

/// Looks again and again until `condition` holds. For what must come without further help and has no event.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "bounds a wait that only a failing test sits out")]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::yield_now();
    }
}

/// The real time `work` takes.
#[expect(clippy::disallowed_methods, reason = "real time is the subject of the tests that use it")]
pub(crate) fn elapsed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Holds bodies until it is opened.
///
/// On a manual clock use `jump`, not `advance`, while a body waits here: it is not at rest.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Blocks until the gate is open. Ignores interrupts.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.1 += 1;
        changed.notify_all();
        while !state.0 {
            state = changed.wait(state).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().0 = true;
        changed.notify_all();
    }

    /// Waits until `n` threads have come to the gate, in all.
    #[track_caller]
    pub(crate) fn await_arrivals(&self, n: usize) {
        let (state, changed) = &*self.0;
        let state = state.lock().unwrap();
        let (state, timeout) = changed.wait_timeout_while(state, PATIENCE, |state| state.1 < n).unwrap();
        assert!(!timeout.timed_out(), "{} of {n} arrived", state.1);
    }
}

/// Occupies one worker of `pool` until the gate is opened; returns when the body has begun.
pub(crate) fn block_worker(pool: &Executor, gate: &Gate) -> TaskHandle<()> {
    let inner = gate.clone();
    let before = gate.0.0.lock().unwrap().1;
    let handle = pool.submit(move || inner.pass()).unwrap();
    gate.await_arrivals(before + 1);
    handle
}

/// Makes a worker that waits for a deadline look at the queue now: it must find nothing that is not due.
pub(crate) fn look_round(pool: &Executor, clock: &ManualClock) {
    pool.submit(|| ()).unwrap().join().unwrap();
    clock.wait_until_idle();
}

/// Counts calls.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn hit(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A body that counts its calls.
    pub(crate) fn body(&self) -> impl FnMut() + Send + Clone + 'static {
        let this = self.clone();
        move || this.hit()
    }
}

/// Records what happened, in order.
pub(crate) struct Log<E>(Arc<Mutex<Vec<E>>>);

impl<E> Clone for Log<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Send + Clone + 'static> Log<E> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn add(&self, entry: E) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<E> {
        self.0.lock().unwrap().clone()
    }

    /// A body that records `entry`.
    pub(crate) fn body(&self, entry: E) -> impl FnMut() + Send + 'static {
        let this = self.clone();
        move || this.add(entry.clone())
    }
}

/// Something to capture, and a way to see whether it is still there.
pub(crate) struct Probe {
    watched: Weak<()>,
}

impl Probe {
    pub(crate) fn new() -> (Self, Arc<()>) {
        let captured = Arc::new(());
        (Self { watched: Arc::downgrade(&captured) }, captured)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.watched.strong_count() == 0
    }
}

/// A manual clock that counts the threads which are blocked on it and are no workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedClock {
    pub(crate) clock: ManualClock,
    crew: Arc<Mutex<Vec<Arc<Parker>>>>,
    blocked: Arc<AtomicUsize>,
}

impl WatchedClock {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until `n` threads that are no workers are blocked.
    #[track_caller]
    pub(crate) fn await_blocked(&self, n: usize) {
        eventually("so many threads are blocked", || self.blocked.load(Ordering::SeqCst) == n);
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        let is_worker = self.crew.lock().unwrap().iter().any(|other| Arc::ptr_eq(other, parker));
        let counts = usize::from(!is_worker);
        self.blocked.fetch_add(counts, Ordering::SeqCst);
        self.clock.wait(parker, until);
        self.blocked.fetch_sub(counts, Ordering::SeqCst);
    }

    fn worker_started(&self) {
        self.clock.worker_started();
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        self.crew.lock().unwrap().push(Arc::clone(parker));
        self.clock.worker_entered(parker);
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        self.clock.worker_stopped(parker);
    }
}
