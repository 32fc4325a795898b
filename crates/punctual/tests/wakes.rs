//! Who wakes, and how often: one waiter for the clock, one wake-up for a due task, none for nothing.
//!
//! Every wait of the crate goes through its clock, so a clock that counts sees every wake-up: a thread that was
//! woken waits again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::{Clock, DelayQueue, Executor, ManualClock, Parker, Tick};

const HOUR: Duration = Duration::from_secs(3600);

/// A manual clock that counts the waits begun with it.
#[derive(Clone, Debug)]
struct Counting {
    clock: ManualClock,
    timed: Arc<AtomicUsize>,
    untimed: Arc<AtomicUsize>,
}

impl Counting {
    fn new() -> Self {
        Self { clock: ManualClock::new(), timed: Arc::default(), untimed: Arc::default() }
    }

    /// Waits begun so far: with an instant to wait for, and without.
    fn waits(&self) -> (usize, usize) {
        self.clock.wait_until_idle();
        (self.timed.load(Ordering::SeqCst), self.untimed.load(Ordering::SeqCst))
    }

    fn since(&self, before: (usize, usize)) -> (usize, usize) {
        let now = self.waits();
        (now.0 - before.0, now.1 - before.1)
    }
}

impl Clock for Counting {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        let count = if until.is_some() { &self.timed } else { &self.untimed };
        count.fetch_add(1, Ordering::SeqCst);
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

fn idle_pool(threads: usize) -> (Executor, Counting) {
    let clock = Counting::new();
    let pool = Executor::builder().core_threads(threads).clock(clock.clone()).build().unwrap();
    assert_eq!(pool.prestart_all_core_threads(), threads);
    (pool, clock)
}

fn finish(pool: &Executor) {
    drop(pool.shutdown_now());
    assert!(pool.await_termination(Duration::MAX));
}

/// Idle workers with nothing queued wait once, without a time, and are not heard of again.
#[test]
fn an_idle_pool_does_not_wake() {
    let (pool, clock) = idle_pool(4);
    assert_eq!(clock.waits(), (0, 4));
    clock.clock.advance(1000 * HOUR);
    assert_eq!(clock.waits(), (0, 4));
    finish(&pool);
}

/// Of four idle workers one waits for the deadline; an isolated task wakes that one and no other.
#[test]
fn one_deadline_costs_one_timed_wait_and_one_wake_up() {
    let (pool, clock) = idle_pool(4);
    let before = clock.waits();
    let task = pool.schedule(HOUR, || ()).unwrap();
    assert_eq!(clock.since(before), (1, 0), "one worker re-arms, three sleep on");
    let before = clock.waits();
    clock.clock.advance(HOUR);
    assert!(task.is_done());
    assert_eq!(clock.since(before), (0, 1), "the one that ran it goes back to sleep");
    finish(&pool);
}

/// A task behind the first one changes nothing for anybody.
#[test]
fn a_later_task_wakes_nobody() {
    let (pool, clock) = idle_pool(2);
    drop(pool.schedule(HOUR, || ()).unwrap());
    let before = clock.waits();
    for n in 1..100 {
        drop(pool.schedule(HOUR + Duration::from_nanos(n), || ()).unwrap());
    }
    assert_eq!(clock.since(before), (0, 0));
    finish(&pool);
}

/// A periodic task on an idle pool costs one timed wait for each run.
#[test]
fn a_heartbeat_costs_one_wake_up_a_beat() {
    let (pool, clock) = idle_pool(3);
    let beat = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    clock.clock.advance(HOUR);
    let before = clock.waits();
    clock.clock.advance(100 * HOUR);
    assert_eq!(beat.runs(), 101);
    let (timed, untimed) = clock.since(before);
    assert_eq!(timed, 100);
    assert_eq!(untimed, 0);
    finish(&pool);
}

/// Whoever takes a task wakes nobody to watch the next deadline: that has been watched already. (Of many the second is not
/// always known: now and then somebody is woken.)
#[test]
fn deadlines_far_apart_cost_one_wake_up_each() {
    let (pool, clock) = idle_pool(3);
    let mut random = fastrand::Rng::with_seed(3);
    let mut hours: Vec<u32> = (1..=1000).collect();
    random.shuffle(&mut hours);
    for hour in hours {
        drop(pool.schedule(hour * HOUR, || ()).unwrap());
    }
    clock.clock.advance(HOUR);
    let before = clock.waits();
    clock.clock.advance(999 * HOUR);
    assert_eq!(pool.stats().completed, 1000);
    let (timed, untimed) = clock.since(before);
    assert!((999..1050).contains(&(timed + untimed)), "{timed} timed and {untimed} untimed waits");
    finish(&pool);
}

/// Cancelling the task that is waited for wakes nobody; its deadline is found empty once.
#[test]
fn a_cancelled_task_wakes_nobody() {
    let (pool, clock) = idle_pool(2);
    let task = pool.schedule(HOUR, || ()).unwrap();
    let before = clock.waits();
    assert!(task.cancel());
    assert_eq!(clock.since(before), (0, 0));
    clock.clock.advance(2 * HOUR);
    assert_eq!(clock.since(before), (0, 1));
    finish(&pool);
}

/// The first worker taking a burst of due tasks wakes the second, and so on: no more threads than tasks.
#[test]
fn a_burst_wakes_no_more_threads_than_tasks() {
    let (pool, clock) = idle_pool(8);
    let before = clock.waits();
    let tasks: Vec<_> = (0..2).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    clock.clock.advance(HOUR);
    assert!(tasks.iter().all(|task| task.is_done()));
    let (timed, untimed) = clock.since(before);
    assert!(timed + untimed <= 4, "{timed} timed and {untimed} untimed waits for two tasks");
    finish(&pool);
}

/// DQ-024: of many takers one waits with a time.
#[test]
fn one_taker_leads_and_the_others_follow() {
    let clock = Counting::new();
    let queue = Arc::new(DelayQueue::with_clock(clock.clone()));
    queue.push(HOUR, 0);
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.take().unwrap())
        })
        .collect();
    while clock.timed.load(Ordering::SeqCst) + clock.untimed.load(Ordering::SeqCst) < 8 {
        std::thread::yield_now();
    }
    assert_eq!(clock.timed.load(Ordering::SeqCst), 1);
    for n in 1..8 {
        queue.push(HOUR, n);
    }
    clock.clock.jump(HOUR);
    let mut taken: Vec<i32> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Workers ask the kernel for exact timers, or for what they were told.
#[cfg(target_os = "linux")]
#[test]
fn workers_set_their_timer_slack() {
    let slack = |pool: &Executor| pool.submit(|| rustix::thread::current_timer_slack().unwrap()).unwrap();
    let exact = Executor::new(1);
    assert_eq!(slack(&exact).join().unwrap(), 1);
    finish(&exact);
    let coarse = Executor::builder().timer_slack(Duration::from_micros(50)).build().unwrap();
    assert_eq!(slack(&coarse).join().unwrap(), 50_000);
    finish(&coarse);
    let zero = Executor::builder().timer_slack(Duration::ZERO).build().unwrap();
    assert_eq!(slack(&zero).join().unwrap(), 1, "zero means the least there is, not the kernel's default");
    finish(&zero);
}
