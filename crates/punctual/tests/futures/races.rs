//! Wakes, polls and ends that meet. Real threads, no clock to tell them when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{future::Future, pin::Pin};

use punctual::Executor;

use crate::support::finish;

/// Ready when `count` has reached `goal`. Its polls must not overlap.
struct Reaches {
    shared: Arc<Shared>,
    goal: usize,
}

#[derive(Default)]
struct Shared {
    count: AtomicUsize,
    waker: Mutex<Option<Waker>>,
    is_polled: AtomicBool,
    drops: AtomicUsize,
}

impl Shared {
    fn count_up(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap().clone();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for Reaches {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        assert!(!self.shared.is_polled.swap(true, Ordering::SeqCst), "two polls at once");
        let old = self.shared.waker.lock().unwrap().replace(context.waker().clone());
        drop(old);
        // After the waker is there, as every future must: a change that is not seen here wakes.
        let count = self.shared.count.load(Ordering::SeqCst);
        self.shared.is_polled.store(false, Ordering::SeqCst);
        if count >= self.goal { Poll::Ready(count) } else { Poll::Pending }
    }
}

impl Drop for Reaches {
    fn drop(&mut self) {
        self.shared.drops.fetch_add(1, Ordering::SeqCst);
    }
}

fn reaches(goal: usize) -> (Reaches, Arc<Shared>) {
    let shared = Arc::new(Shared::default());
    (Reaches { shared: Arc::clone(&shared), goal }, shared)
}

/// One lost wake, and the join would never return.
#[test]
fn no_wake_from_any_thread_is_lost() {
    const WAKERS: usize = 4;
    const EACH: usize = 500;
    for threads in [1, 2] {
        let pool = Executor::new(threads);
        for _ in 0..10 {
            let (future, shared) = reaches(WAKERS * EACH);
            let handle = pool.spawn(future).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..WAKERS {
                    scope.spawn(|| (0..EACH).for_each(|_| shared.count_up()));
                }
            });
            assert_eq!(handle.join().unwrap(), WAKERS * EACH);
            assert_eq!(shared.drops.load(Ordering::SeqCst), 1);
        }
        pool.close().unwrap();
    }
}

/// However a cancel falls between wakes and polls: the handle resolves, and the future is dropped once.
#[test]
fn a_cancel_that_races_with_wakes_and_polls_ends_the_future_once() {
    let pool = Executor::new(2);
    for round in 0..500 {
        let (future, shared) = reaches(usize::MAX);
        let handle = pool.spawn(future).unwrap();
        let start = Barrier::new(3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                (0..20).for_each(|_| shared.count_up());
            });
            scope.spawn(|| {
                start.wait();
                (0..round % 40).for_each(|_| std::hint::spin_loop());
                assert!(handle.cancel());
            });
            start.wait();
            assert!(handle.join().unwrap_err().is_cancelled());
        });
        shared.count_up();
        // A poll that was under way drops it a moment later.
        crate::support::eventually("the future is dropped", || shared.drops.load(Ordering::SeqCst) == 1);
    }
    finish(&pool);
    assert_eq!(pool.stats().queued, 0);
}

/// Whether a stop finds it queued, idle or polled, the handle resolves and the pool ends.
#[test]
fn a_stop_that_races_with_wakes_resolves_every_handle() {
    for round in 0..100 {
        let pool = Executor::new(2);
        let (handles, shared): (Vec<_>, Vec<_>) = (0..8)
            .map(|_| {
                let (future, shared) = reaches(100);
                (pool.spawn(future).unwrap(), shared)
            })
            .unzip();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    shared.iter().for_each(|shared| shared.count_up());
                }
            });
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            drop(pool.shutdown_now());
        });
        assert!(pool.await_termination(Duration::MAX));
        for (handle, shared) in handles.iter().zip(&shared) {
            let _ = handle.join();
            assert_eq!(shared.drops.load(Ordering::SeqCst), 1);
        }
    }
}

/// The last waker is dropped while the future is polled, queued or idle: it ends, and nothing hangs.
#[test]
fn a_last_waker_dropped_at_any_moment_ends_the_future() {
    let pool = Executor::new(2);
    for round in 0..300 {
        let (future, shared) = reaches(usize::MAX);
        let handle = pool.spawn(future).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..round % 7).for_each(|_| shared.count_up()));
            while !handle.is_done() {
                let waker = shared.waker.lock().unwrap().take();
                drop(waker);
                std::thread::yield_now();
            }
        });
        assert_eq!(shared.drops.load(Ordering::SeqCst), 1);
    }
    pool.close().unwrap();
}

/// Two futures that pass a token to and fro, through wakes alone.
#[test]
fn a_ping_and_a_pong_never_miss_each_other() {
    const ROUNDS: usize = 2_000;
    let pool = Executor::new(2);
    let (to_ping, ping) = reaches_each();
    let (to_pong, pong) = reaches_each();
    let player = |own: Steps, other: Arc<Shared>| async move {
        for round in 1..=ROUNDS {
            own.at_least(round).await;
            other.count_up();
        }
    };
    let first = pool.spawn(player(to_ping, Arc::clone(&pong))).unwrap();
    let second = pool.spawn(player(to_pong, Arc::clone(&ping))).unwrap();
    ping.count_up();
    first.join().unwrap();
    second.join().unwrap();
    pool.close().unwrap();
}

struct Steps(Arc<Shared>);

fn reaches_each() -> (Steps, Arc<Shared>) {
    let shared = Arc::new(Shared::default());
    (Steps(Arc::clone(&shared)), shared)
}

impl Steps {
    fn at_least(&self, goal: usize) -> Reaches {
        Reaches { shared: Arc::clone(&self.0), goal }
    }
}
