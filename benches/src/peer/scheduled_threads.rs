//! The crate `scheduled-thread-pool`: a binary heap under one lock. Cancelled jobs stay in it until they are due.

use std::time::Duration;

use scheduled_thread_pool::{JobHandle, OnPoolDropBehavior, ScheduledThreadPool};

use super::{Peer, Producer};
use crate::Trouble;

pub(crate) struct ScheduledThreads(ScheduledThreadPool);

impl Peer for ScheduledThreads {
    type Producer<'a> = &'a ScheduledThreadPool;

    fn start(workers: usize) -> Self {
        let builder = ScheduledThreadPool::builder().num_threads(workers);
        Self(builder.on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled).build())
    }

    fn producer(&self) -> &ScheduledThreadPool {
        &self.0
    }

    fn stop(self) {}
}

impl Producer for &ScheduledThreadPool {
    type Handle = JobHandle;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> JobHandle {
        self.execute_after(delay, body)
    }

    #[inline]
    fn cancel(&mut self, handle: JobHandle) -> Result<Option<bool>, Trouble> {
        handle.cancel();
        Ok(None)
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        self.execute_at_fixed_rate(first, period, body);
        Ok(())
    }
}
