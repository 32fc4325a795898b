//! Schedules of all kinds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{OnFailure, RunTimes, Schedule, TaskError, TaskState, Tick};

use crate::bodies::{SECOND, at, busy, seconds};
use crate::support::{Log, finish, manual};

/// The builder's series and the forms of Java run at the same instants, for the same deadlines.
#[test]
fn a_series_without_policies_runs_as_the_java_forms_do() {
    let lengths = [0, 25, 3, 0, 12];
    let forms: [(Schedule, u64); 2] =
        [(Schedule::FixedRate(10 * SECOND), 1), (Schedule::FixedDelay(10 * SECOND), 2)];
    for (schedule, _) in forms {
        let run = |series: bool| {
            let (pool, clock) = manual(1);
            let log = Log::new();
            let body = busy(&clock, &log, &lengths);
            let handle = match (schedule, series) {
                (Schedule::FixedRate(period), true) => {
                    pool.task(body).after(SECOND).every(period).start().unwrap()
                }
                (Schedule::FixedRate(period), false) => {
                    pool.schedule_at_fixed_rate(SECOND, period, body).unwrap()
                }
                (Schedule::FixedDelay(delay), true) => {
                    pool.task(body).after(SECOND).with_fixed_delay(delay).start().unwrap()
                }
                (Schedule::FixedDelay(delay), false) => {
                    pool.schedule_with_fixed_delay(SECOND, delay, body).unwrap()
                }
                _ => unreachable!(),
            };
            for _ in 0..100 {
                clock.advance(SECOND);
            }
            let picture = (log.entries(), handle.runs(), handle.deadline(), handle.state());
            finish(&pool);
            picture
        };
        assert_eq!(run(true), run(false), "{schedule:?}");
    }
}

#[test]
fn a_function_says_when_the_next_run_is_and_is_told_of_the_last() {
    let (pool, clock) = manual(1);
    let (log, told) = (Log::new(), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&told);
    let next = move |run: RunTimes| {
        heard.lock().unwrap().push((seconds(run.deadline), seconds(run.started), seconds(run.ended)));
        (seconds(run.ended) < 20).then(|| run.started.after(7 * SECOND))
    };
    let task = pool.task(busy(&clock, &log, &[2])).after(5 * SECOND).next_by(next).start().unwrap();
    clock.advance(60 * SECOND);
    assert_eq!(log.entries(), [(5, 5, 0), (12, 12, 0), (19, 19, 0), (26, 26, 0)]);
    assert_eq!(*told.lock().unwrap(), [(5, 5, 7), (12, 12, 12), (19, 19, 19), (26, 26, 26)]);
    assert_eq!(task.state(), TaskState::Succeeded);
    assert_eq!(task.info().schedule(), Schedule::Custom);
    finish(&pool);
}

#[test]
fn an_instant_that_has_passed_means_at_once() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| ()).after(5 * SECOND).next_by(|_| Some(Tick::ZERO)).at_most(3).start().unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(task.runs(), 3);
    task.join().unwrap();
    finish(&pool);
}

/// A plan is user code: it runs in the worker, under no lock, and its panic ends its own task.
#[test]
fn a_plan_that_panics_ends_its_series_and_nothing_else() {
    let (pool, clock) = manual(1);
    let by_function = pool.task(|| ()).next_by(|_| panic!("no plan")).start().unwrap();
    let calls = Mutex::new(0);
    let calendar = move |after| {
        *calls.lock().unwrap() += 1;
        assert!(*calls.lock().unwrap() < 3, "no calendar");
        Some(after + SECOND)
    };
    let by_calendar = pool.task(|| ()).calendar(calendar).start().unwrap();
    clock.advance(10 * SECOND);
    for (task, message) in [(by_function, "no plan"), (by_calendar, "no calendar")] {
        let failure = task.failure().expect("it has ended");
        assert!(matches!(&failure, TaskError::Panicked(panic) if panic.message() == message), "{failure}");
    }
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    finish(&pool);
}

#[test]
fn a_plan_may_call_its_own_executor() {
    let (pool, clock) = manual(1);
    let inner = pool.scheduler();
    let log = Log::new();
    let seen = log.clone();
    let next = move |run: RunTimes| {
        seen.add(inner.tasks().len());
        inner.submit(|| ()).unwrap();
        (seconds(run.ended) < 2).then(|| run.ended.after(SECOND))
    };
    let task = pool.task(|| ()).next_by(next).start().unwrap();
    clock.advance(10 * SECOND);
    assert_eq!((task.runs(), log.entries()), (3, vec![1, 1, 1]));
    drop(task);
    finish(&pool);
}

/// What the plan captured goes when the task does.
#[test]
fn a_plan_is_dropped_with_its_task() {
    let (pool, clock) = manual(1);
    let (probe, captured) = crate::support::Probe::new();
    let next = move |run: RunTimes| {
        let _held = &captured;
        Some(run.ended.after(SECOND))
    };
    let task = pool.task(|| ()).next_by(next).start().unwrap();
    clock.advance(SECOND);
    task.cancel();
    drop(task);
    clock.wait_until_idle();
    assert!(probe.is_dropped());
    finish(&pool);
}

#[test]
fn deadlines_that_are_known_are_listed_beforehand() {
    let (pool, clock) = manual(1);
    let grid = pool.task(|| ()).after(5 * SECOND).every(10 * SECOND).start().unwrap();
    let java = pool.schedule_at_fixed_rate(5 * SECOND, 10 * SECOND, || ()).unwrap();
    let ended = pool.task(|| ()).after(5 * SECOND).every(10 * SECOND).until(at(20)).start().unwrap();
    let delay = pool.schedule_with_fixed_delay(5 * SECOND, 10 * SECOND, || ()).unwrap();
    let once = pool.schedule(5 * SECOND, || ()).unwrap();
    let list = |ticks: Vec<Tick>| ticks.into_iter().map(seconds).collect::<Vec<_>>();
    assert_eq!(list(grid.upcoming(3)), [5, 15, 25]);
    assert_eq!(list(java.upcoming(3)), [5, 15, 25]);
    assert_eq!(list(ended.upcoming(3)), [5, 15]);
    assert_eq!(list(delay.upcoming(3)), [5]);
    assert_eq!(list(once.upcoming(3)), [5]);
    clock.advance(5 * SECOND);
    assert_eq!(list(grid.upcoming(2)), [15, 25]);
    assert_eq!(list(java.upcoming(2)), [15, 25]);
    assert_eq!(list(once.upcoming(2)), [] as [u64; 0]);
    assert_eq!(grid.upcoming(0), []);
    finish(&pool);
}

/// After a pause for a failure the schedule is taken up at its first point that lies ahead of the run, not of now.
#[test]
fn what_is_upcoming_behind_a_run_off_the_plan_comes_after_it() {
    let (pool, clock) = manual(1);
    let body = || Err::<(), _>("no");
    let builder = pool.task(body).every(SECOND).on_failure(OnFailure::backoff(60 * SECOND..=60 * SECOND));
    let grid = builder.start().unwrap();
    let hourly = |after: std::time::SystemTime| {
        let hour = Duration::from_secs(3600);
        let passed = after.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?.as_secs() / 3600;
        Some(std::time::SystemTime::UNIX_EPOCH + hour * u32::try_from(passed + 1).unwrap())
    };
    let calendar = pool.task(|| ()).calendar(hourly).start().unwrap();
    clock.wait_until_idle();
    let list = |ticks: Vec<Tick>| ticks.into_iter().map(seconds).collect::<Vec<_>>();
    assert_eq!(list(grid.upcoming(3)), [60, 61, 62]);
    assert!(calendar.reschedule(600 * SECOND).is_done());
    assert_eq!(list(calendar.upcoming(3)), [600, 7200, 10_800]);
    assert!(calendar.reschedule(9000 * SECOND).is_done());
    assert_eq!(list(calendar.upcoming(3)), [9000, 10_800, 14_400]);
    finish(&pool);
}
