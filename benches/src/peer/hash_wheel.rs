//! The crate `hierarchical_hash_wheel_timer`: a wheel on a thread of its own, told by messages. Its ticks are
//! milliseconds, and a task may run one or two of them early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{
    ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer, TimerReturn,
};

use super::{Peer, Producer};
use crate::Trouble;

type Wheel<I> = TimerWithThread<I, OneShotClosureState<I>, PeriodicClosureState<I>>;
type WheelRef<I> = TimerRef<I, OneShotClosureState<I>, PeriodicClosureState<I>>;

pub(crate) struct HashWheel(Wheel<u64>);

impl Peer for HashWheel {
    const EARLY: Duration = Duration::from_millis(5);
    const WORKERS: bool = false;
    type Producer<'a> = Sender;

    fn start(_workers: usize) -> Self {
        Self(TimerWithThread::new().expect("a thread"))
    }

    fn producer(&self) -> Sender {
        static PRODUCERS: AtomicU64 = AtomicU64::new(1);
        Sender { timer: self.0.timer_ref(), next: PRODUCERS.fetch_add(1, Ordering::Relaxed) << 40 }
    }

    fn stop(self) {
        let _ = self.0.shutdown_async();
    }
}

/// Ids are the user's to choose; each producer counts in a range of its own.
pub(crate) struct Sender {
    timer: WheelRef<u64>,
    next: u64,
}

impl Producer for Sender {
    type Handle = u64;

    #[inline]
    fn schedule(&mut self, delay: Duration, body: impl FnOnce() + Send + 'static) -> u64 {
        self.next += 1;
        self.timer.schedule_action_once(self.next, delay, move |_| body());
        self.next
    }

    #[inline]
    fn cancel(&mut self, handle: u64) -> Result<Option<bool>, Trouble> {
        self.timer.cancel(&handle);
        Ok(None)
    }

    fn every(
        &mut self,
        first: Duration,
        period: Duration,
        mut body: impl FnMut() + Send + 'static,
    ) -> Result<(), Trouble> {
        self.next += 1;
        self.timer.schedule_action_periodic(self.next, first, period, move |_| {
            body();
            TimerReturn::Reschedule(())
        });
        Ok(())
    }
}
