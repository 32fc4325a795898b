//! tokio-util's `DelayQueue`: a queue of values, not of tasks. One task of a runtime polls it and runs what is due.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{Peer, Producer};
use crate::Trouble;

enum Body {
    Once(Box<dyn FnOnce() + Send>),
    Every(Box<dyn FnMut() + Send>, Instant, Duration),
}

struct Shared {
    queue: Mutex<DelayQueue<Body>>,
    /// An empty queue has nobody to wake when it is given something.
    filled: Notify,
}

pub(crate) struct TokioDelayQueue {
    runtime: Runtime,
    shared: Arc<Shared>,
}

impl Peer for TokioDelayQueue {
    const WORKERS: bool = false;
    type Producer<'a> = Entered<'a>;

    fn start(_workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a thread");
        let entered = runtime.enter();
        let shared = Arc::new(Shared { queue: Mutex::new(DelayQueue::new()), filled: Notify::new() });
        drop(entered);
        runtime.spawn(drive(Arc::clone(&shared)));
        Self { runtime, shared }
    }

    fn producer(&self) -> Entered<'_> {
        Entered { shared: &self.shared, _guard: self.runtime.enter() }
    }

    fn stop(self) {
        self.runtime.shutdown_background();
    }
}

async fn drive(shared: Arc<Shared>) {
    let lock = || shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let fired = poll_fn(|context| match lock().poll_expired(context) {
            Poll::Ready(fired) => Poll::Ready(fired),
            Poll::Pending => Poll::Pending,
        });
        match fired.await.map(|fired| fired.into_inner()) {
            None => shared.filled.notified().await,
            Some(Body::Once(body)) => body(),
            Some(Body::Every(mut body, deadline, period)) => {
                body();
                let next = deadline + period;
                lock().insert_at(Body::Every(body, next, period), next);
            }
        }
    }
}

pub(crate) struct Entered<'a> {
    shared: &'a Shared,
    /// The queue makes a timer now and then, which needs to know its runtime.
    _guard: EnterGuard<'a>,
}

impl Entered<'_> {
    fn insert(&self, body: Body, at: Instant) -> Key {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        let key = queue.insert_at(body, at);
        drop(queue);
        if was_empty {
            self.shared.filled.notify_one();
        }
        key
    }
}

impl Producer for Entered<'_> {
    type Handle = Key;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> Key {
        self.insert(Body::Once(Box::new(body)), Instant::now() + delay)
    }

    #[inline]
    fn cancel(&mut self, handle: Key) -> Result<Option<bool>, Trouble> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(queue.try_remove(&handle).is_some()))
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        let at = Instant::now() + first;
        self.insert(Body::Every(Box::new(body), at, period), at);
        Ok(())
    }
}
