//! Runs besides those that are planned.

use punctual::{Backoff, Missed, Steered};

use crate::bodies::{SECOND, busy};
use crate::support::{HOUR, Log, finish, manual};

/// Whatever makes it more than a plain task: a limit, a time on the wall, attempts.
#[test]
fn a_paused_task_that_runs_once_does_so_when_it_is_triggered() {
    let (pool, clock) = manual(1);
    let limited = pool.task(|| 7).after(HOUR).timeout(HOUR).start().unwrap();
    let walled = pool.task(|| 7).first(std::time::SystemTime::UNIX_EPOCH + HOUR).start().unwrap();
    let backoff = Backoff::between(SECOND..=SECOND);
    let tried = pool.task(|| Ok::<_, String>(7)).after(HOUR).retry(backoff).start().unwrap();
    for task in [&limited, &walled] {
        assert_eq!((task.pause(), task.trigger_now()), (Steered::Now, Steered::Now));
        clock.wait_until_idle();
        assert_eq!(task.try_join().map(Result::unwrap), Some(7));
    }
    assert_eq!((tried.pause(), tried.trigger_now()), (Steered::Now, Steered::Now));
    clock.wait_until_idle();
    assert_eq!(tried.try_join().map(Result::unwrap), Some(Ok(7)));
    finish(&pool);
}

/// What was left out is told to the run that follows it in the schedule, once.
#[test]
fn a_triggered_run_has_missed_nothing_and_leaves_the_news_to_the_next() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let body = busy(&clock, &log, &[25]);
    let task = pool.task(body).every(10 * SECOND).missed(Missed::skip()).start().unwrap();
    clock.wait_until_idle();
    assert_eq!(task.trigger_now(), Steered::Now);
    clock.advance(5 * SECOND);
    assert_eq!(task.trigger_now(), Steered::Now);
    clock.advance(10 * SECOND);
    let missed: Vec<_> = log.entries().into_iter().map(|(began, _, missed)| (began, missed)).collect();
    assert_eq!(missed, [(0, 0), (25, 0), (30, 2), (30, 0), (40, 0)]);
    finish(&pool);
}
