//! One-shot tasks that are tried again.

use punctual::{Backoff, Clock, Jitter, Keep, Leftover, TaskError};

use crate::bodies::{SECOND, seconds};
use crate::support::{Log, finish, manual};

#[test]
fn the_worker_is_free_between_two_attempts() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let fetch = move || {
        seen.add(("fetch", seconds(time.now())));
        if seen.entries().len() < 4 { Err("not yet") } else { Ok("page") }
    };
    let page = pool.task(fetch).retry(Backoff::between(2 * SECOND..=60 * SECOND)).start().unwrap();
    clock.wait_until_idle();
    assert_eq!((pool.stats().active, pool.stats().queued), (0, 1));
    pool.schedule(SECOND, log.body(("other", 1))).unwrap();
    clock.advance(6 * SECOND);
    assert_eq!(log.entries(), [("fetch", 0), ("other", 1), ("fetch", 2), ("fetch", 6)]);
    assert_eq!(page.join().unwrap(), Ok("page"));
    finish(&pool);
}

#[test]
fn the_last_error_comes_back_as_a_value() {
    let (pool, clock) = manual(1);
    let mut attempt = 0;
    let fetch = move || {
        attempt += 1;
        Err::<(), u32>(attempt)
    };
    let page = pool.task(fetch).retry(Backoff::constant(SECOND).give_up_after(3)).start().unwrap();
    clock.advance(10 * SECOND);
    assert_eq!((page.runs(), page.recent_failures().len()), (3, 3));
    assert_eq!(page.join().unwrap(), Err(3));
    finish(&pool);
}

#[test]
fn a_panic_is_tried_again_and_the_last_is_the_outcome() {
    let (pool, clock) = manual(1);
    let fetch = || -> Result<(), &str> { panic!("boom") };
    let page = pool.task(fetch).retry(Backoff::constant(SECOND).give_up_after(2)).start().unwrap();
    clock.advance(10 * SECOND);
    assert_eq!(page.runs(), 2);
    assert!(matches!(page.failure(), Some(TaskError::Panicked(_))));
    finish(&pool);
}

#[test]
fn a_retry_that_waits_is_cancelled_like_any_task_that_waits() {
    let (pool, clock) = manual(1);
    let (probe, captured) = crate::support::Probe::new();
    let fetch = move || {
        let _held = &captured;
        Err::<(), _>("no")
    };
    let page = pool.task(fetch).retry(Backoff::constant(SECOND)).start().unwrap();
    clock.wait_until_idle();
    assert!(page.cancel() && probe.is_dropped());
    assert_eq!(pool.stats().queued, 0);
    finish(&pool);
}

/// A task that is to be tried again is a delayed task to a shutdown, not a periodic one.
#[test]
fn a_shutdown_lets_retries_go_on_as_it_does_delayed_tasks() {
    for (keep, runs) in [(Keep::Run, 3), (Keep::Cancel, 1)] {
        let (pool, clock) = manual(1);
        pool.set_after_shutdown(Leftover::Delayed, keep);
        let page = pool
            .task(|| Err::<(), _>("no"))
            .retry(Backoff::constant(SECOND).give_up_after(3))
            .start()
            .unwrap();
        clock.wait_until_idle();
        pool.shutdown();
        clock.advance(10 * SECOND);
        assert_eq!(page.runs(), runs);
        assert!(page.is_done() && pool.is_terminated());
        finish(&pool);
    }
}

#[test]
fn jitter_is_added_to_the_pauses() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time) = (log.clone(), clock.clone());
    let fetch = move || {
        seen.add(time.now().as_nanos());
        Err::<(), _>("no")
    };
    let backoff = Backoff::constant(SECOND).jitter(Jitter::up_to(SECOND)).give_up_after(20);
    let _page = pool.task(fetch).retry(backoff).start().unwrap();
    clock.advance(60 * SECOND);
    let runs = log.entries();
    let pauses: Vec<u64> = runs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 19);
    assert!(pauses.iter().all(|pause| (1_000_000_000..=2_000_000_000).contains(pause)));
    assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    finish(&pool);
}
