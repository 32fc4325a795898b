//! What the record of lateness counts, and what it costs whoever did not ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::{Clock, Executor, ManualClock, Observer, Parker, Tick};

const STEP: Duration = Duration::from_millis(10);

/// A manual clock that counts how often it is read.
#[derive(Clone, Debug, Default)]
struct Read {
    clock: ManualClock,
    reads: Arc<AtomicUsize>,
}

impl Clock for Read {
    fn now(&self) -> Tick {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        self.clock.wait(parker, until);
    }

    fn worker_started(&self) {
        self.clock.worker_started();
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        self.clock.worker_entered(parker);
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        self.clock.worker_stopped(parker);
    }
}

struct Nothing;
impl Observer for Nothing {}

/// Reads of the clock while a burst of `n` due tasks is run.
fn reads_in_a_burst(n: usize, settings: impl FnOnce(punctual::Builder) -> punctual::Builder) -> usize {
    let read = Read::default();
    let pool = settings(Executor::builder()).clock(read.clone()).build().unwrap();
    for _ in 0..n {
        pool.schedule(STEP, || ()).unwrap();
    }
    read.clock.wait_until_idle();
    let before = read.reads.load(Ordering::SeqCst);
    read.clock.jump(STEP);
    read.clock.wait_until_idle();
    let reads = read.reads.load(Ordering::SeqCst) - before;
    pool.close().unwrap();
    reads
}

/// Who did not ask for lateness does not pay for it.
#[test]
fn the_clock_is_read_for_each_run_of_a_burst_only_if_somebody_wants_to_know() {
    assert!(reads_in_a_burst(1_000, |builder| builder) < 10);
    assert!(reads_in_a_burst(1_000, punctual::Builder::record_lateness) >= 1_000);
    assert!(reads_in_a_burst(1_000, |builder| builder.observer(Nothing)) >= 1_000);
}

#[test]
fn lateness_is_recorded_only_where_it_was_asked_for() {
    let pool = Executor::new(1);
    assert!(pool.lateness().is_none());
    pool.close().unwrap();
}

#[test]
fn every_run_on_a_worker_is_counted_with_its_own_lateness() {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(2).record_lateness().clock(clock.clone()).build().unwrap();
    for n in 1..=10 {
        pool.schedule(n * STEP, || ()).unwrap();
    }
    let beat = pool.schedule_at_fixed_rate(STEP, STEP, || ()).unwrap();
    clock.advance(5 * STEP);
    let punctual = pool.lateness().unwrap();
    assert_eq!((punctual.count(), punctual.max()), (10, Duration::ZERO));
    clock.jump(5 * STEP);
    clock.wait_until_idle();
    let late = pool.lateness().unwrap().since(&punctual);
    // Deadlines at 6, 7, 8, 9 and 10 steps, each twice, seen at 10.
    assert_eq!((late.count(), late.max()), (10, 4 * STEP));
    assert!(late.p50() >= 2 * STEP && late.quantile(0.2) == Duration::ZERO);
    assert!(beat.cancel());
    pool.close().unwrap();
}

#[test]
fn a_text_says_it_all() {
    let clock = ManualClock::new();
    let pool = Executor::builder().record_lateness().clock(clock.clone()).build().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    let text = pool.lateness().unwrap().to_string();
    assert_eq!(text, "count = 1, p50 = 0ns, p90 = 0ns, p99 = 0ns, p99.9 = 0ns, max = 0ns");
    pool.close().unwrap();
}

/// What is cancelled while it waits never begins, so it is not late, although a worker may wake for it.
#[test]
fn what_was_cancelled_is_not_late() {
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).record_lateness().build().unwrap();
    pool.submit(|| ()).unwrap().join().unwrap();
    for _ in 0..5 {
        let task = pool.schedule(STEP, || ()).unwrap();
        clock.wait_until_idle();
        assert!(task.cancel());
        clock.advance(2 * STEP);
    }
    clock.wait_until_idle();
    assert_eq!(pool.lateness().unwrap().count(), 1);
    pool.close().unwrap();
}
