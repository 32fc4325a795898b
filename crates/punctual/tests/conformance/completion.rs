//! Results in the order in which they are ready.

use std::thread;
use std::time::Duration;

use punctual::{CompletionQueue, Interrupted, TaskContext};

use crate::support::{Gate, HOUR, SHORT, STEP, block_worker, elapsed, eventually, finish, manual};

/// CS-002: what is taken is done, and is the very task that was put in; the order is that of their ends.
#[test]
fn what_is_taken_is_done_and_is_what_was_put_in() {
    let (pool, clock) = manual(1);
    let queue = CompletionQueue::with_clock(clock.clone());
    let late = pool.schedule(2 * STEP, || "late").unwrap();
    let early = pool.schedule(STEP, || "early").unwrap();
    let ids = [early.id(), late.id()];
    queue.push(late);
    queue.push(early);
    clock.advance(2 * STEP);
    // One that is over when it is put in comes out as well.
    let over = pool.submit(|| "over").unwrap();
    over.wait().unwrap();
    queue.push(over);
    let first = queue.take().unwrap().unwrap();
    let second = queue.take().unwrap().unwrap();
    assert!(first.is_done() && second.is_done());
    assert_eq!([first.id(), second.id()], ids);
    assert_eq!((first.join().unwrap(), second.join().unwrap()), ("early", "late"));
    assert_eq!(queue.take().unwrap().unwrap().join().unwrap(), "over");
    finish(&pool);
}

/// CS-003: before a task is done there is nothing to take, at once or within a time, and that time is waited out;
/// afterwards there is.
#[test]
fn nothing_comes_out_before_it_is_done() {
    let (pool, _) = manual(1);
    let (queue, gate) = (CompletionQueue::new(), Gate::new());
    queue.push(block_worker(&pool, &gate));
    assert!(queue.try_take().is_none());
    assert!(queue.take_timeout(Duration::ZERO).unwrap().is_none());
    let (waited, taken) = elapsed(|| queue.take_timeout(SHORT).unwrap());
    assert!(taken.is_none());
    assert!(waited >= SHORT, "{waited:?}");
    assert_eq!(queue.len(), 1);
    gate.open();
    let taken = queue.take_timeout(Duration::MAX).unwrap().unwrap();
    assert!(taken.is_done());
    assert!(queue.take_timeout(Duration::ZERO).unwrap().is_none());
    finish(&pool);
}

/// CS-004: values, panics and cancellations all come out, each once; then nothing is outstanding, and a take says
/// so instead of waiting for ever.
#[test]
fn every_outcome_comes_out_once() {
    let (pool, _) = manual(2);
    let queue = CompletionQueue::new();
    for n in 0..20 {
        queue.submit(&pool, move || if n % 2 == 0 { n } else { panic!("odd") }).unwrap();
    }
    let cancelled = pool.schedule(HOUR, || 0).unwrap();
    cancelled.cancel();
    queue.push(cancelled);
    let (mut values, mut panics, mut cancellations) = (Vec::new(), 0, 0);
    while let Some(handle) = queue.take().unwrap() {
        match handle.try_join().unwrap() {
            Ok(value) => values.push(value),
            Err(error) if error.is_cancelled() => cancellations += 1,
            Err(error) => {
                assert_eq!(error.panic().unwrap().message(), "odd");
                panics += 1;
            }
        }
    }
    values.sort_unstable();
    assert_eq!(values, (0..20).step_by(2).collect::<Vec<_>>());
    assert_eq!((panics, cancellations), (10, 1));
    assert!(queue.is_empty() && queue.try_take().is_none());
    finish(&pool);
}

/// CS-005: collecting all gives every value.
#[test]
fn collecting_all_gives_every_value() {
    let (pool, _) = manual(3);
    let queue = CompletionQueue::new();
    for n in 1..=100_u64 {
        queue.submit(&pool, move || n).unwrap();
    }
    let mut sum = 0;
    while let Some(handle) = queue.take().unwrap() {
        sum += handle.join().unwrap();
    }
    assert_eq!(sum, 5050);
    finish(&pool);
}

/// CS-005: taking the first good one and cancelling the rest gives one value; the rest come out cancelled, without
/// their bodies having had to end.
#[test]
fn the_first_good_one_leaves_only_cancelled_ones() {
    let (pool, clock) = manual(1);
    let queue = CompletionQueue::with_clock(clock);
    queue.submit(&pool, || Err("refused")).unwrap();
    queue.submit(&pool, || Ok(7)).unwrap();
    for _ in 0..3 {
        queue.submit(&pool, || TaskContext::current().sleep(HOUR).map(|()| 0).map_err(|_| "late")).unwrap();
    }
    let mut good = None;
    while let Some(handle) = queue.take().unwrap() {
        match handle.join() {
            Ok(Ok(value)) => {
                assert_eq!(good.replace(value), None);
                assert_eq!(queue.interrupt_all(), 3);
            }
            Ok(Err(why)) => assert_eq!(why, "refused"),
            Err(error) => assert!(error.is_cancelled()),
        }
    }
    assert_eq!(good, Some(7));
    finish(&pool);
}

/// CS-003: a wait inside a task ends when that task is interrupted, and a second taker of the one task that is
/// outstanding is told that there is nothing left.
#[test]
fn a_waiting_taker_is_released() {
    let (pool, _) = manual(1);
    let (taker, _) = manual(1);
    let (queue, gate) = (std::sync::Arc::new(CompletionQueue::new()), Gate::new());
    queue.push(block_worker(&pool, &gate));
    let (sender, receiver) = std::sync::mpsc::channel();
    let waits = std::sync::Arc::clone(&queue);
    let waiting =
        taker.submit(move || sender.send(waits.take().map(|handle| handle.is_some())).unwrap()).unwrap();
    eventually("the taker runs", || waiting.runs() == 1);
    waiting.interrupt();
    assert_eq!(receiver.recv().unwrap(), Err(Interrupted));

    let taken: Vec<bool> = thread::scope(|scope| {
        let takers = [(); 2].map(|()| scope.spawn(|| queue.take().unwrap().is_some()));
        gate.open();
        takers.map(|taker| taker.join().unwrap()).into()
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    finish(&taker);
    finish(&pool);
}
