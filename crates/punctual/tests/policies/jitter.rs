//! Deadlines that do not all fall together.

use punctual::{Clock, Jitter, Missed, Spread, Tick};

use crate::bodies::{SECOND, busy};
use crate::support::{Gate, Log, block_worker, finish, manual};

fn starts(jitter: Option<Jitter>, spread: Option<Spread>, name: &str) -> Vec<Tick> {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let mut builder = pool.task(move || seen.add(time.now())).name(name).every(60 * SECOND);
    if let Some(jitter) = jitter {
        builder = builder.jitter(jitter);
    }
    if let Some(spread) = spread {
        builder = builder.spread(spread);
    }
    let _task = builder.start().unwrap();
    clock.advance(6000 * SECOND);
    finish(&pool);
    log.entries()
}

#[test]
fn jitter_delays_each_run_anew_and_does_not_add_up() {
    let runs = starts(Some(Jitter::up_to(30 * SECOND).seeded(4)), None, "a");
    assert!((100..=101).contains(&runs.len()));
    let delays: Vec<u64> = runs
        .iter()
        .enumerate()
        .map(|(n, at)| at.as_nanos() - 60 * u64::try_from(n).unwrap() * 1_000_000_000)
        .collect();
    assert!(delays.iter().all(|delay| *delay <= 30_000_000_000));
    let mut distinct = delays.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), delays.len());
    let mean = delays.iter().sum::<u64>() / delays.len() as u64;
    assert!((10_000_000_000..20_000_000_000).contains(&mean), "{mean}");
}

#[test]
fn a_seed_makes_jitter_repeatable() {
    let jitter = Jitter::up_to(30 * SECOND);
    assert_eq!(starts(Some(jitter.seeded(1)), None, "a"), starts(Some(jitter.seeded(1)), None, "a"));
    assert_ne!(starts(Some(jitter.seeded(1)), None, "a"), starts(Some(jitter.seeded(2)), None, "a"));
    assert_ne!(starts(Some(jitter), None, "a"), starts(Some(jitter), None, "a"));
}

#[test]
fn a_spread_delays_every_run_by_the_same_time_for_one_name() {
    let spread = Spread::over(60 * SECOND);
    let runs = starts(None, Some(spread), "a");
    let expected: Vec<Tick> =
        (0..runs.len() as u32).map(|n| Tick::ZERO.after(60 * SECOND * n + spread.delay("a"))).collect();
    assert_eq!(runs, expected);
    assert_eq!(runs, starts(None, Some(spread), "a"));
    assert_ne!(runs, starts(None, Some(spread), "b"));
}

/// A point is due when its spread is over, not before: with one of almost a period, a run of one and a half periods
/// misses one point and not two.
#[test]
fn points_are_missed_by_the_time_at_which_they_would_have_run() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let spread = Spread::over(10 * SECOND);
    let delay = spread.delay("");
    assert!(delay > 9 * SECOND);
    let body = busy(&clock, &log, &[15]);
    let builder = pool.task(body).name("").every(10 * SECOND).spread(spread).missed(Missed::skip());
    let task = builder.start().unwrap();
    clock.advance(delay);
    clock.advance(20 * SECOND);
    assert_eq!((task.runs(), task.info().missed()), (3, 1));
    assert_eq!(task.deadline(), Tick::ZERO.after(40 * SECOND + delay));
    finish(&pool);
}

/// The same when no worker was free: the point that would have run last stands for those before it.
#[test]
fn a_late_worker_runs_the_latest_point_whose_spread_is_over() {
    let (pool, clock) = manual(1);
    let (log, gate) = (Log::new(), Gate::new());
    let spread = Spread::over(10 * SECOND);
    let body = busy(&clock, &log, &[]);
    let builder = pool.task(body).name("").every(10 * SECOND).spread(spread).missed(Missed::once());
    let task = builder.start().unwrap();
    block_worker(&pool, &gate);
    clock.jump(25 * SECOND);
    gate.open();
    clock.wait_until_idle();
    assert_eq!((log.entries(), task.runs()), (vec![(25, 19, 1)], 1));
    finish(&pool);
}
