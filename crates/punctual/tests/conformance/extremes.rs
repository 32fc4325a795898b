//! Delays and periods at the ends of time.

use std::sync::mpsc;
use std::time::Duration;

use punctual::{Clock, Executor, Remaining, Scheduler, TaskId, Tick};

use crate::support::{Counter, Gate, HOUR, Log, PATIENCE, STEP, block_worker, finish, manual};

const NANO: Duration = Duration::from_nanos(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The four ways to schedule.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Unit,
    Value,
    FixedDelay,
    FixedRate,
}

const FORMS: [Form; 4] = [Form::Unit, Form::Value, Form::FixedDelay, Form::FixedRate];

impl Form {
    fn start(
        self,
        pool: &Scheduler,
        delay: Duration,
        period: Duration,
        mut body: impl FnMut() + Send + 'static,
    ) -> TaskId {
        match self {
            Self::Unit => pool.schedule(delay, body).unwrap().id(),
            Self::Value => pool.schedule(delay, move || (body(), 7)).unwrap().id(),
            Self::FixedDelay => pool.schedule_with_fixed_delay(delay, period, body).unwrap().id(),
            Self::FixedRate => pool.schedule_at_fixed_rate(delay, period, body).unwrap().id(),
        }
    }
}

/// ST-044: a delay cannot be negative; its counterpart, a deadline that has passed, means now in every form. With a
/// fixed rate the grid begins in the past, and what was missed is made up.
#[test]
fn a_deadline_in_the_past_means_now() {
    let (pool, clock) = manual(1);
    clock.jump(300 * YEAR);
    let now = clock.now();
    let just_now = Tick::from_nanos(now.as_nanos() - 1);
    for past in [Tick::ZERO, just_now, now] {
        let log = Log::new();
        drop(pool.task(log.body("once")).first(past).start().unwrap());
        drop(pool.task(log.body("delay")).first(past).with_fixed_delay(200 * YEAR).start().unwrap());
        drop(pool.task(log.body("rate")).first(past).every(400 * YEAR).start().unwrap());
        clock.wait_until_idle();
        let mut ran = log.entries();
        ran.sort_unstable();
        assert_eq!(ran, ["delay", "once", "rate"]);
    }
    let grid = Counter::new();
    let first = Tick::from_nanos(now.as_nanos() - 35);
    drop(pool.task(grid.body()).first(first).every(10 * NANO).start().unwrap());
    clock.wait_until_idle();
    assert_eq!((grid.get(), clock.now()), (4, now));
    finish(&pool);
}

/// ST-045: whatever form a task at the end of time has, and whatever form one that is due, if both are queued while
/// the pool is busy, in either order and wherever the clock stands, the due one runs and the other never does.
#[test]
fn a_task_at_the_end_of_time_does_not_stop_due_work() {
    for start in [Duration::ZERO, HOUR, 300 * YEAR] {
        for due in FORMS {
            for far in FORMS {
                for far_first in [true, false] {
                    due_runs_and_far_waits(start, due, far, far_first);
                }
            }
        }
    }
}

fn due_runs_and_far_waits(start: Duration, due: Form, far: Form, far_first: bool) {
    let what = format!("{due:?} now, {far:?} at the end of time, {far_first}, from {start:?}");
    let (pool, clock) = manual(1);
    clock.jump(start);
    let (ran, ran_far, gate) = (Counter::new(), Counter::new(), Gate::new());
    drop(block_worker(&pool, &gate));
    let start_far = || far.start(&pool, Duration::MAX, Duration::MAX, ran_far.body());
    let start_due = || due.start(&pool, Duration::ZERO, STEP, ran.body());
    let (near_id, far_id) = match far_first {
        true => {
            let far_id = start_far();
            (start_due(), far_id)
        }
        false => (start_due(), start_far()),
    };
    let queued: Vec<TaskId> = pool.queue().iter().map(|task| task.id()).collect();
    assert_eq!(queued, [near_id, far_id], "{what}");
    gate.open();
    clock.wait_until_idle();
    assert_eq!((ran.get(), ran_far.get()), (1, 0), "{what}");
    clock.advance(STEP);
    let runs = if matches!(due, Form::Unit | Form::Value) { 1 } else { 2 };
    assert_eq!(ran.get(), runs, "{what}");
    drop(pool.remove(near_id));
    clock.advance(100 * YEAR);
    assert_eq!((ran.get(), ran_far.get()), (runs, 0), "{what}");
    assert_eq!(pool.queue()[0].id(), far_id, "{what}");
    finish(&pool);
}

/// ST-045: the same on the machine's clock, whose waits are the operating system's: before the due task comes, the
/// pool has nothing but the end of time to wait for.
#[test]
fn a_real_wait_for_the_end_of_time_is_cut_short_by_due_work() {
    for due in FORMS {
        for far in FORMS {
            let pool = Executor::new(1);
            let ran_far = Counter::new();
            far.start(&pool, Duration::MAX, Duration::MAX, ran_far.body());
            pool.submit(|| ()).unwrap().join().unwrap();
            let (sender, receiver) = mpsc::channel();
            due.start(&pool, Duration::ZERO, STEP, move || {
                sender.send(()).unwrap();
            });
            let ran = receiver.recv_timeout(PATIENCE);
            assert_eq!((ran, ran_far.get()), (Ok(()), 0), "{due:?} now, {far:?} at the end of time");
            finish(&pool);
        }
    }
}

/// ST-046: a periodic task with the longest period, fixed delay or fixed rate, is in nobody's way when it is queued
/// again: what its body submits or schedules for now, in every form, runs.
#[test]
fn a_body_with_the_longest_period_can_submit_immediate_tasks() {
    for outer in [Form::FixedDelay, Form::FixedRate] {
        for inner in FORMS.map(Some).into_iter().chain([None]) {
            let (pool, clock) = manual(1);
            clock.jump(HOUR);
            let (outer_ran, inner_ran) = (Counter::new(), Counter::new());
            let (scheduler, ran, count) = (pool.scheduler(), outer_ran.clone(), inner_ran.clone());
            outer.start(&pool, Duration::ZERO, Duration::MAX, move || {
                ran.hit();
                match inner {
                    Some(form) => drop(form.start(&scheduler, Duration::ZERO, STEP, count.body())),
                    None => scheduler.execute(count.body()).unwrap(),
                }
            });
            clock.wait_until_idle();
            let what = format!("{inner:?} by {outer:?}");
            assert_eq!((outer_ran.get(), inner_ran.get()), (1, 1), "{what}");
            clock.advance(2 * STEP);
            let runs = if matches!(inner, Some(Form::FixedDelay | Form::FixedRate)) { 3 } else { 1 };
            assert_eq!((outer_ran.get(), inner_ran.get()), (1, runs), "{what}");
            finish(&pool);
        }
    }
}

/// ST-047: the remaining delay of a task at the end of time is clamped there: it is what is left of time, some 584
/// years from the epoch of the clock, and shrinks as time passes.
#[test]
fn a_longest_delay_is_reported_as_all_the_time_there_is() {
    let (pool, clock) = manual(1);
    let all = Duration::from_nanos(u64::MAX);
    for passed in [Duration::ZERO, HOUR, 300 * YEAR] {
        clock.jump(passed);
        let left = all - clock.now().since(Tick::ZERO);
        let once = pool.schedule(Duration::MAX, || ()).unwrap();
        let rate = pool.schedule_at_fixed_rate(Duration::MAX, STEP, || ()).unwrap();
        let delay = pool.schedule_with_fixed_delay(Duration::MAX, STEP, || ()).unwrap();
        for handle in [&once, &rate, &delay] {
            assert_eq!((handle.remaining(), handle.deadline()), (Remaining::In(left), Tick::MAX));
        }
        clock.jump(STEP);
        assert_eq!(once.remaining(), Remaining::In(left - STEP));
    }
    assert!(pool.queue().iter().all(|task| task.deadline() == Tick::MAX));
    finish(&pool);
}

/// ST-048: a fixed-rate task with the longest period, once it has run, does not starve one that is behind schedule:
/// the addition when it is queued again saturates like that of a first delay. Java fails this.
#[test]
fn a_longest_period_does_not_starve_a_task_behind_schedule() {
    for start in [Duration::ZERO, HOUR, 300 * YEAR] {
        for longest in [Form::FixedRate, Form::FixedDelay] {
            for period in [Duration::MAX, Duration::from_nanos(i64::MAX as u64)] {
                for longest_first in [true, false] {
                    let (pool, clock) = manual(1);
                    clock.jump(start);
                    let (big, small, gate) = (Counter::new(), Counter::new(), Gate::new());
                    drop(block_worker(&pool, &gate));
                    let start_big = || longest.start(&pool, Duration::ZERO, period, big.body());
                    if longest_first {
                        start_big();
                    }
                    Form::FixedRate.start(&pool, Duration::ZERO, STEP, small.body());
                    if !longest_first {
                        start_big();
                    }
                    clock.jump(350 * STEP);
                    gate.open();
                    clock.wait_until_idle();
                    assert_eq!((big.get(), small.get()), (1, 351), "{longest:?} {period:?} from {start:?}");
                    clock.advance(2 * STEP);
                    assert_eq!((big.get(), small.get()), (1, 353));
                    finish(&pool);
                }
            }
        }
    }
}

/// ST-048: the same while the neighbour falls behind because of its own long run.
#[test]
fn a_longest_period_does_not_starve_a_slow_neighbour() {
    let (pool, clock) = manual(1);
    let (big, small) = (Counter::new(), Counter::new());
    let (slept, mut count) = (clock.clone(), small.body());
    Form::FixedRate.start(&pool, STEP, STEP, move || {
        count();
        if slept.now() == Tick::ZERO.after(STEP) {
            slept.jump(350 * STEP);
        }
    });
    Form::FixedRate.start(&pool, STEP, Duration::MAX, big.body());
    clock.advance(STEP);
    assert_eq!((big.get(), small.get()), (1, 351));
    finish(&pool);
}

/// ST-049: whatever unit a delay was written in, one that does not fit is the end of time and one that just fits is
/// exact.
#[test]
fn long_delays_saturate_in_every_unit() {
    let (pool, clock) = manual(1);
    let deadline = |delay| pool.schedule(delay, || ()).unwrap().deadline();
    let beyond = [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_secs(i64::MAX as u64),
        Duration::from_millis(u64::MAX),
        Duration::from_millis(i64::MAX as u64),
        Duration::from_micros(u64::MAX),
        Duration::from_nanos(u64::MAX) + NANO,
        Duration::from_nanos(u64::MAX),
    ];
    assert!(beyond.into_iter().all(|delay| deadline(delay) == Tick::MAX));
    let (last, half) = (u64::MAX - 1, i64::MAX as u64 + 1);
    assert_eq!(deadline(Duration::from_nanos(last)), Tick::from_nanos(last));
    assert_eq!(deadline(Duration::from_nanos(half)), Tick::from_nanos(half));
    clock.jump(5 * NANO);
    assert_eq!(deadline(Duration::from_nanos(u64::MAX - 6)), Tick::from_nanos(last));
    assert_eq!(deadline(Duration::from_nanos(u64::MAX - 5)), Tick::MAX);
    assert_eq!(deadline(Duration::from_nanos(u64::MAX - 4)), Tick::MAX);
    assert_eq!(deadline(Duration::from_nanos(half)), Tick::from_nanos(half + 5));
    finish(&pool);
}
