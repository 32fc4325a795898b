//! async-io's timers on async-executor's tasks; the workers drive the reactor themselves.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_executor::{Executor, Task};
use async_io::{Timer, block_on};

use super::{Peer, Producer};
use crate::{Trouble, clock};

pub(crate) struct AsyncIo(Arc<Executor<'static>>);

impl Peer for AsyncIo {
    type Producer<'a> = &'a Executor<'static>;

    fn start(workers: usize) -> Self {
        let executor = Arc::new(Executor::new());
        for _ in 0..workers {
            let executor = Arc::clone(&executor);
            thread::spawn(move || block_on(executor.run(std::future::pending::<()>())));
        }
        Self(executor)
    }

    fn producer(&self) -> &Executor<'static> {
        &self.0
    }

    /// The threads stay, idle: there is nothing in the executor to end them with.
    fn stop(self) {}
}

impl Producer for &Executor<'static> {
    type Handle = Task<()>;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> Task<()> {
        if delay.is_zero() {
            return self.spawn(async move { body() });
        }
        let timer = Timer::after(delay);
        self.spawn(async move {
            timer.await;
            body();
        })
    }

    #[inline]
    fn cancel(&mut self, handle: Task<()>) -> Result<Option<bool>, Trouble> {
        drop(handle);
        Ok(None)
    }

    #[inline]
    fn leave(&mut self, handle: Task<()>) {
        handle.detach();
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        mut body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        // Its intervals skip what was missed, so the grid is kept by hand.
        let mut next = clock::now() + first.as_nanos() as u64;
        let task = self.spawn(async move {
            loop {
                Timer::after(clock::left(next)).await;
                body();
                next += period.as_nanos() as u64;
            }
        });
        task.detach();
        Ok(())
    }

    fn ping(&mut self, value: u64) -> u64 {
        block_on(self.spawn(async move { value }))
    }
}
