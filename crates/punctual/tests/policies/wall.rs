//! Tasks that go by the clock on the wall, which is set forward and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use punctual::{Clock, Executor, ManualClock, Missed, Parker, TaskContext, TaskHandle, Tick};

use crate::bodies::{SECOND, at};
use crate::support::{Gate, HOUR, Log, finish, look_round, manual};

const MINUTE: Duration = Duration::from_secs(60);

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn shown(clock: &ManualClock) -> u64 {
    clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Every full hour.
fn hourly(after: SystemTime) -> Option<SystemTime> {
    let passed = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / 3600;
    Some(wall((passed + 1) * 3600))
}

/// Notes the time on the wall and how many points were left out.
fn chime(pool: &Executor, clock: &ManualClock, missed: Missed) -> (TaskHandle<()>, Log<(u64, u64)>) {
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add((shown(&time), TaskContext::current().missed()));
    let task = pool.task(body).calendar(hourly).missed(missed).start();
    (task.unwrap_or_else(|_| unreachable!()), log)
}

#[test]
fn a_task_runs_at_its_time_on_the_wall() {
    let (pool, clock) = manual(1);
    clock.set_wall(wall(1000));
    let task = pool.task(|| 7).first(wall(1000 + 7200)).start().unwrap();
    assert_eq!(task.remaining().duration(), 2 * HOUR);
    assert_eq!(task.info().wall_deadline(), Some(wall(8200)));
    clock.advance(2 * HOUR - SECOND);
    assert!(!task.is_done());
    clock.advance(SECOND);
    assert_eq!(task.join().unwrap(), 7);
    finish(&pool);
}

/// Its only task is in nobody's queue at that moment.
#[test]
fn a_wall_clock_set_during_a_run_is_followed_after_it() {
    let (pool, clock) = manual(2);
    clock.set_wall(wall(3540));
    let (gate, log) = (Gate::new(), Log::new());
    let (inner, seen, time) = (gate.clone(), log.clone(), clock.clone());
    let body = move || {
        inner.pass();
        seen.add(shown(&time));
    };
    let task = pool.task(body).calendar(hourly).start().unwrap();
    // Both workers wait.
    look_round(&pool, &clock);
    clock.jump(MINUTE);
    gate.await_arrivals(1);
    clock.set_wall(wall(4000));
    // A worker that wakes sees that the clock was set.
    pool.submit(|| ()).unwrap().join().unwrap();
    gate.open();
    clock.wait_until_idle();
    clock.set_wall(wall(7200));
    look_round(&pool, &clock);
    assert_eq!((log.entries(), task.runs()), (vec![4000, 7200], 2));
    finish(&pool);
}

/// It is queued for a look in a minute, which is nobody's business.
#[test]
fn whoever_looks_at_a_task_sees_its_time_on_the_wall() {
    let (pool, clock) = manual(1);
    clock.set_wall(wall(1000));
    let task = pool.task(|| 7).first(wall(1000 + 7200)).start().unwrap();
    let sooner = pool.schedule(HOUR, || ()).unwrap();
    for passed in [0, 90] {
        clock.advance(SECOND * passed);
        let order: Vec<_> = pool.queue().iter().map(|task| (task.id(), task.deadline())).collect();
        assert_eq!(order, [(sooner.id(), at(3600)), (task.id(), at(7200))]);
        let left = 2 * HOUR - SECOND * passed;
        assert_eq!((task.remaining().duration(), pool.tasks()[1].remaining().duration()), (left, left));
    }
    let unrun = pool.remove(task.id()).unwrap();
    assert_eq!(unrun.remaining().duration(), 2 * HOUR - 90 * SECOND);
    drop(unrun);
    finish(&pool);
}

/// It is for no time on the wall, but everything in a calendar is looked at when the wall clock was set.
#[test]
fn a_run_that_was_rescheduled_is_not_made_early_by_a_step_of_the_wall_clock() {
    for step in [9, 7 * 3600] {
        let (pool, clock) = manual(1);
        clock.set_wall(wall(3600));
        let (task, log) = chime(&pool, &clock, Missed::once());
        assert_eq!(task.reschedule(10 * MINUTE), punctual::Steered::Now);
        clock.set_wall(wall(3600 + step));
        look_round(&pool, &clock);
        look_round(&pool, &clock);
        assert_eq!((task.runs(), task.deadline()), (0, at(600)));
        clock.advance(10 * MINUTE);
        assert_eq!(log.entries(), [(3600 + step + 600, 0)]);
        finish(&pool);
    }
}

#[test]
fn a_calendar_is_followed_point_by_point() {
    let (pool, clock) = manual(1);
    clock.set_wall(wall(1800));
    let (task, log) = chime(&pool, &clock, Missed::once());
    assert_eq!(task.upcoming_wall(3), [wall(3600), wall(7200), wall(10800)]);
    clock.advance(3 * HOUR);
    assert_eq!(log.entries(), [(3600, 0), (7200, 0), (10800, 0)]);
    finish(&pool);
}

/// The clock goes back by 30 minutes, ten minutes before the hour: it strikes when the wall says so, not before.
#[test]
fn after_a_step_back_nothing_runs_before_its_time_on_the_wall() {
    let (pool, clock) = manual(1);
    let (_task, log) = chime(&pool, &clock, Missed::once());
    clock.advance(50 * MINUTE);
    clock.set_wall(wall(20 * 60));
    clock.advance(39 * MINUTE);
    assert_eq!(log.entries(), []);
    clock.advance(MINUTE);
    assert_eq!(log.entries(), [(3600, 0)]);
    finish(&pool);
}

/// The clock goes back over a point that has been run: its time comes again, and it is not run again.
#[test]
fn after_a_step_back_nothing_runs_twice() {
    let (pool, clock) = manual(1);
    let (_task, log) = chime(&pool, &clock, Missed::burst());
    clock.advance(HOUR + MINUTE);
    clock.set_wall(wall(3600 - 60));
    clock.advance(10 * MINUTE);
    assert_eq!(log.entries(), [(3600, 0)]);
    clock.advance(HOUR);
    assert_eq!(log.entries(), [(3600, 0), (7200, 0)]);
    finish(&pool);
}

/// The clock is set forward by more than three hours; within a minute the policy has decided.
#[test]
fn after_a_step_forward_the_missed_policy_decides() {
    for (missed, expected) in [
        (Missed::once(), vec![(12_060, 2)]),
        (Missed::skip(), vec![(12_060, 2)]),
        (Missed::burst(), vec![(12_060, 0), (12_060, 0), (12_060, 0)]),
        (Missed::once().within(21 * MINUTE - SECOND), vec![]),
        (Missed::once().within(21 * MINUTE), vec![(12_060, 2)]),
    ] {
        let (pool, clock) = manual(1);
        let (_task, log) = chime(&pool, &clock, missed);
        clock.advance(10 * MINUTE);
        clock.set_wall(wall(12_000));
        clock.advance(MINUTE);
        assert_eq!(log.entries(), expected, "{missed:?}");
        clock.advance(HOUR);
        let left_out = if expected.is_empty() { 3 } else { 0 };
        assert_eq!(log.entries().last(), Some(&(14_400, left_out)));
        finish(&pool);
    }
}

/// Any worker that wakes compares the clocks, so a busy executor follows at once.
#[test]
fn a_step_is_noticed_by_whoever_wakes_first() {
    let (pool, clock) = manual(1);
    let (_task, log) = chime(&pool, &clock, Missed::once());
    clock.advance(10 * MINUTE + SECOND / 2);
    clock.set_wall(wall(3600));
    pool.submit(|| ()).unwrap().join().unwrap();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [(3600, 0)]);
    finish(&pool);
}

/// A run of a day's length in between changes nothing about what is due.
#[test]
fn time_that_passes_as_it_should_moves_nothing() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| ()).first(wall(86_400)).start().unwrap();
    for _ in 0..23 {
        clock.advance(HOUR);
        assert_eq!(task.deadline(), at(86_400));
    }
    clock.advance(HOUR);
    assert!(task.is_done());
    finish(&pool);
}

#[test]
fn a_fixed_rate_from_an_instant_on_the_wall_counts_on_by_the_executors_clock() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let _task = pool.task(move || seen.add(time.now())).first(wall(100)).every(10 * SECOND).start().unwrap();
    clock.advance(105 * SECOND);
    clock.set_wall(wall(0));
    clock.advance(10 * SECOND);
    assert_eq!(log.entries(), [at(100), at(110)]);
    finish(&pool);
}

#[test]
fn a_calendar_ends_with_its_last_point_before_an_instant_on_the_wall() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| ()).calendar(hourly).until(wall(3 * 3600)).start().unwrap();
    clock.advance(10 * HOUR);
    task.join().unwrap();
    assert_eq!(task.runs(), 3);
    finish(&pool);
}

#[test]
fn a_paused_calendar_goes_on_with_its_next_point() {
    let (pool, clock) = manual(1);
    let (task, log) = chime(&pool, &clock, Missed::burst());
    let _ = task.pause();
    clock.advance(5 * HOUR + 30 * MINUTE);
    let _ = task.resume();
    clock.advance(HOUR);
    assert_eq!(log.entries(), [(6 * 3600, 5)]);
    finish(&pool);
}

#[test]
fn a_calendar_is_taken_up_again_after_a_run_that_was_rescheduled_or_triggered() {
    let (pool, clock) = manual(1);
    let (task, log) = chime(&pool, &clock, Missed::once());
    let _ = task.reschedule(10 * MINUTE);
    clock.advance(20 * MINUTE);
    // That was the run of the first hour.
    assert_eq!(task.info().wall_deadline(), Some(wall(7200)));
    let _ = task.trigger_now();
    clock.wait_until_idle();
    assert_eq!(task.info().wall_deadline(), Some(wall(7200)));
    clock.advance(2 * HOUR);
    assert_eq!(log.entries(), [(600, 0), (1200, 0), (7200, 0)]);
    finish(&pool);
}

#[test]
fn a_single_run_on_the_wall_can_be_rescheduled() {
    let (pool, clock) = manual(1);
    let task = pool.task(|| 7).first(wall(7200)).start().unwrap();
    assert!(task.reschedule(MINUTE).is_done());
    clock.advance(MINUTE);
    assert_eq!(task.join().unwrap(), 7);
    finish(&pool);
}

/// A manual clock that counts the waits begun with it, and readings of its wall clock.
#[derive(Clone, Debug, Default)]
struct Counting {
    clock: ManualClock,
    waits: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
}

impl Clock for Counting {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.clock.wall()
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        self.waits.fetch_add(1, Ordering::SeqCst);
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

#[test]
fn a_task_on_the_wall_is_looked_at_once_a_minute_and_others_never() {
    let counting = Counting::default();
    let pool = Executor::builder().core_threads(1).clock(counting.clone()).build().unwrap();
    let _far = pool.schedule(10 * HOUR, || ()).unwrap();
    let _grid = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    counting.clock.advance(2 * HOUR);
    assert_eq!(counting.looks.load(Ordering::SeqCst), 0, "the wall is nobody's business here");
    let waits = |time: Duration| {
        let before = counting.waits.load(Ordering::SeqCst);
        counting.clock.advance(time);
        counting.waits.load(Ordering::SeqCst) - before
    };
    assert_eq!(waits(HOUR / 2), 0);
    let task = pool.task(|| ()).first(counting.clock.wall() + 30 * HOUR).start().unwrap();
    counting.clock.wait_until_idle();
    assert_eq!(waits(HOUR / 4), 15, "one look a minute");
    task.cancel();
    assert!(waits(MINUTE) <= 1);
    assert_eq!(waits(HOUR / 10), 0);
    finish(&pool);
}

/// The executor is younger than its first point: 00:00, and it is 01:30.
#[test]
fn a_fixed_rate_from_an_instant_in_the_past_keeps_its_grid() {
    for (missed, expected) in [
        (Missed::skip(), vec![(5400, 1), (7200, 0), (10_800, 0)]),
        (Missed::burst(), vec![(5400, 0), (5400, 0), (7200, 0), (10_800, 0)]),
    ] {
        let (pool, clock) = manual(1);
        clock.set_wall(wall(5400));
        let log = Log::new();
        let (seen, time) = (log.clone(), clock.clone());
        let body = move || seen.add((shown(&time), TaskContext::current().missed()));
        let task = pool.task(body).first(wall(0)).every(HOUR).missed(missed).start().unwrap();
        clock.wait_until_idle();
        assert_eq!(task.upcoming_wall(3), [wall(7200), wall(10_800), wall(14_400)]);
        clock.advance(HOUR + HOUR / 2);
        assert_eq!(log.entries(), expected, "{missed:?}");
        // From here on it counts by the executor's clock.
        clock.set_wall(wall(0));
        clock.advance(HOUR);
        assert_eq!(log.entries().last(), Some(&(3600, 0)));
        finish(&pool);
    }
}

#[test]
fn a_paused_fixed_rate_from_an_instant_on_the_wall_goes_on_with_its_next_point() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add((time.now(), TaskContext::current().missed()));
    let task = pool.task(body).first(wall(100)).every(10 * SECOND).start().unwrap();
    assert_eq!(task.upcoming(3), [at(100), at(110), at(120)]);
    let _ = task.pause();
    clock.advance(105 * SECOND);
    assert_eq!(task.resume(), punctual::Steered::Now);
    clock.advance(15 * SECOND);
    assert_eq!(log.entries(), [(at(110), 1), (at(120), 0)]);
    finish(&pool);
}

/// Which of the points before the first run are too late is seen on the wall.
#[test]
fn a_fixed_rate_from_an_instant_on_the_wall_leaves_out_what_is_too_late() {
    let (pool, clock) = manual(1);
    let (log, gate) = (Log::new(), Gate::new());
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add((time.now(), TaskContext::current().missed()));
    let builder = pool.task(body).first(wall(100)).every(10 * SECOND);
    let _task = builder.missed(Missed::burst().within(12 * SECOND)).start().unwrap();
    crate::support::block_worker(&pool, &gate);
    clock.jump(135 * SECOND);
    gate.open();
    clock.wait_until_idle();
    clock.advance(5 * SECOND);
    assert_eq!(log.entries(), [(at(135), 3), (at(140), 0)]);
    finish(&pool);
}

/// The wall clock was ten days ahead when the task was made.
#[test]
fn a_calendar_is_planned_anew_when_the_wall_clock_was_ahead() {
    let (pool, clock) = manual(1);
    clock.set_wall(wall(10 * 86_400));
    let (task, log) = chime(&pool, &clock, Missed::once());
    clock.set_wall(wall(1800));
    clock.advance(HOUR);
    assert_eq!(log.entries(), [(3600, 0)]);
    // Corrected once more, over a point that was run: that is not run again.
    clock.set_wall(wall(1800));
    clock.advance(HOUR);
    assert_eq!(task.info().wall_deadline(), Some(wall(7200)));
    clock.advance(HOUR);
    assert_eq!(log.entries(), [(3600, 0), (7200, 0)]);
    finish(&pool);
}

/// It was told not to begin before an instant, and does not.
#[test]
fn a_calendar_that_is_planned_anew_keeps_its_beginning() {
    let (pool, clock) = manual(1);
    clock.set_wall(wall(2 * 3600));
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || seen.add(shown(&time));
    let _task = pool.task(body).first(wall(4 * 3600)).calendar(hourly).start().unwrap();
    clock.wait_until_idle();
    clock.set_wall(wall(1800));
    clock.advance(8 * HOUR);
    assert_eq!(log.entries(), [5 * 3600, 6 * 3600, 7 * 3600, 8 * 3600]);
    finish(&pool);
}
