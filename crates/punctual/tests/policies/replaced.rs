//! Runs that make way for the next.

use punctual::{Clock, Executor, ManualClock, Observer, Overlap, RunOutcome, Spread, TaskContext, TaskInfo};

use crate::bodies::{SECOND, seconds};
use crate::support::{Gate, Log, block_worker, finish, manual};

struct Outcomes(Log<String>);

impl Observer for Outcomes {
    fn after_run(&self, _: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        self.0.add(match outcome {
            RunOutcome::Failed(error) => error.to_string(),
            RunOutcome::Returned => "returned".to_owned(),
            _ => "else".to_owned(),
        });
    }
}

/// What the handle does not count as a failure, an observer is not told as one; and both name the same.
#[test]
fn an_observer_sees_what_the_handle_does() {
    for (overlap, expected, failures) in [
        (Overlap::Replace, "returned", 0),
        (Overlap::Never, "the task took longer than its timeout of 10s", 2),
    ] {
        let (clock, log) = (ManualClock::new(), Log::new());
        let builder = Executor::builder().core_threads(1).clock(clock.clone());
        let pool = builder.observer(Outcomes(log.clone())).build().unwrap();
        let body = || TaskContext::current().sleep(3600 * SECOND);
        let builder = pool.task(body).every(10 * SECOND).overlap(overlap);
        let builder = builder.on_failure(punctual::OnFailure::Continue);
        let builder = if failures > 0 { builder.timeout(10 * SECOND) } else { builder };
        let task = builder.start().unwrap();
        clock.advance(25 * SECOND);
        assert_eq!(log.entries(), [expected; 2], "{overlap:?}");
        assert_eq!(task.info().failures(), failures);
        finish(&pool);
    }
}

/// A run that begins late, because no worker was free, makes way when the next is due all the same.
#[test]
fn a_spread_run_that_began_late_is_replaced_in_time() {
    let (pool, clock) = manual(1);
    let (log, gate) = (Log::new(), Gate::new());
    let (seen, time) = (log.clone(), clock.clone());
    let body = move || {
        let began = seconds(time.now());
        let result = TaskContext::current().sleep(3600 * SECOND);
        seen.add((began, seconds(time.now())));
        result
    };
    let (period, spread) = (1000 * SECOND, Spread::over(900 * SECOND));
    let builder = pool.task(body).name("spread").every(period).overlap(Overlap::Replace).spread(spread);
    let task = builder.start().unwrap();
    let first = seconds(task.deadline());
    assert!(first > 1, "another name would do");
    block_worker(&pool, &gate);
    // After the next point, and before the next run is due.
    clock.jump(SECOND * u32::try_from(1000 + first - 1).unwrap());
    gate.open();
    clock.wait_until_idle();
    clock.advance(2 * SECOND);
    assert_eq!(log.entries(), [(1000 + first - 1, 1000 + first)]);
    finish(&pool);
}
