//! tokio's multi-threaded runtime: a task that sleeps and then acts. Its timers are whole milliseconds, rounded up.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep_until};

use super::{Peer, Producer};
use crate::Trouble;

pub(crate) struct Tokio(Runtime);

impl Peer for Tokio {
    type Producer<'a> = &'a Handle;

    fn start(workers: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
        Self(runtime.expect("threads"))
    }

    fn producer(&self) -> &Handle {
        self.0.handle()
    }

    fn stop(self) {
        self.0.shutdown_background();
    }
}

impl Producer for &Handle {
    type Handle = JoinHandle<()>;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        // Nobody would sleep for no time: it takes a millisecond.
        if delay.is_zero() {
            return self.spawn(async move { body() });
        }
        // The delay begins now, not when the task is first polled.
        let until = Instant::now() + delay;
        self.spawn(async move {
            sleep_until(until).await;
            body();
        })
    }

    #[inline]
    fn cancel(&mut self, handle: JoinHandle<()>) -> Result<Option<bool>, Trouble> {
        handle.abort();
        Ok(None)
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        mut body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        let first = Instant::now() + first;
        drop(self.spawn(async move {
            let mut ticks = interval_at(first, period);
            loop {
                ticks.tick().await;
                body();
            }
        }));
        Ok(())
    }

    fn ping(&mut self, value: u64) -> u64 {
        self.block_on(self.spawn(async move { value })).expect("a value")
    }
}
