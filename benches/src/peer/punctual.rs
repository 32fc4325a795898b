//! Ourselves, with a timer slack of so many nanoseconds.

use std::time::Duration;

use punctual::{Executor, TaskHandle};

use super::{Peer, Producer};
use crate::Trouble;

pub(crate) struct Punctual<const SLACK: u64>(Executor);

impl<const SLACK: u64> Peer for Punctual<SLACK> {
    const EXACT: bool = true;
    type Producer<'a> = &'a Executor;

    fn start(workers: usize) -> Self {
        let slack = Duration::from_nanos(SLACK);
        let pool = Executor::builder().core_threads(workers).timer_slack(slack).build();
        let pool = pool.expect("sound settings");
        pool.prestart_all_core_threads();
        Self(pool)
    }

    fn producer(&self) -> &Executor {
        &self.0
    }

    fn pending(&self) -> Option<usize> {
        Some(self.0.stats().queued)
    }

    fn stop(self) {
        drop(self.0.shutdown_now());
    }
}

impl Producer for &Executor {
    type Handle = TaskHandle<()>;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> TaskHandle<()> {
        (**self).schedule(delay, body).expect("running")
    }

    #[inline]
    fn cancel(&mut self, handle: TaskHandle<()>) -> Result<Option<bool>, Trouble> {
        Ok(Some(handle.cancel()))
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        self.schedule_at_fixed_rate(first, period, body).expect("running");
        Ok(())
    }

    fn ping(&mut self, value: u64) -> u64 {
        (**self).schedule(Duration::ZERO, move || value).expect("running").join().expect("a value")
    }
}
