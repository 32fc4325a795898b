//! A timer as a future.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual_engine::{RunState, Tick};

use crate::error::{RejectReason, TaskError};
use crate::handle::TaskHandle;
use crate::pool::{Offer, Tether};
use crate::scheduler::Scheduler;
use crate::task::{Once, allocate_plain};
use crate::when::When;

/// Waits for an instant of an executor's clock, under any async runtime or none; see [`Scheduler::sleep`].
///
/// Nothing is queued before the first poll; dropping the future takes its timer out of the queue at once. The
/// timer is a task of the executor: it is seen in [`queue`](Scheduler::queue) and in statistics, it fires when a
/// worker is free, and a shutdown treats it as it treats [delayed](crate::Leftover::Delayed) tasks. It does not keep
/// the executor from being dropped.
///
/// Once ready it stays so: polled again, it says the same again, until it is [`reset`](Self::reset).
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep {
    pool: Arc<Tether>,
    deadline: Tick,
    stage: Stage,
}

enum Stage {
    Unset,
    Set(Armed),
    Over(Result<(), TimerError>),
}

/// A timer in the queue, which leaves it when this is dropped.
struct Armed(TaskHandle<()>);

impl Drop for Armed {
    fn drop(&mut self) {
        // Whoever drops it knows: nobody is to be woken by the cancel.
        let _ = Pin::new(&mut self.0).poll(&mut Context::from_waker(Waker::noop()));
        self.0.cancel();
    }
}

/// Why a timer did not fire.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TimerError {
    /// The executor refused it: it is [shut down](RejectReason::ShutDown), say.
    Rejected(RejectReason),
    /// The executor had it and gave it up: cancelled by a shutdown, drained, or removed.
    Lost(TaskError),
}

impl fmt::Display for TimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(reason) => write!(f, "timer refused: {reason}"),
            Self::Lost(error) => write!(f, "timer lost: {error}"),
        }
    }
}

impl Error for TimerError {}

impl Sleep {
    pub(super) fn new(scheduler: &Scheduler, when: When) -> Self {
        let pool = Arc::clone(scheduler.tether());
        let deadline = when.tick(pool.clock.now(), &*pool.clock);
        Self { pool, deadline, stage: Stage::Unset }
    }

    /// The instant it waits for.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Whether the instant has come, by the clock. It need not have been polled since.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.deadline <= self.pool.clock.now()
    }

    pub(super) fn now(&self) -> Tick {
        self.pool.clock.now()
    }

    /// Waits for another instant instead: so long from now, or at that tick. The old timer is gone at once.
    ///
    /// Whoever awaits it learns of the new instant by polling it again; no waker is called here.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock, Tick};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let pool = Executor::builder().clock(clock).build()?;
    /// let mut idle = pool.sleep(Duration::from_secs(30));
    /// idle.reset(Duration::from_secs(60)); // there was a sign of life
    /// assert_eq!(idle.deadline(), Tick::ZERO.after(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&mut self, when: impl Into<When>) {
        self.deadline = when.into().tick(self.pool.clock.now(), &*self.pool.clock);
        self.stage = Stage::Unset;
    }

    /// Begins to wait, if there is anything to wait for.
    fn begin(&self) -> Stage {
        let now = self.pool.clock.now();
        if self.deadline <= now {
            let running = self.pool.core.lock().state == RunState::Running;
            // Not even a loop that is always late goes on for ever.
            return Stage::Over(running.then_some(()).ok_or(TimerError::Rejected(RejectReason::ShutDown)));
        }
        let (cell, task) = allocate_plain(Once(|| ()));
        let mut offer = Offer::new(self.deadline, now, None);
        match self.pool.submit(task, &mut offer) {
            Ok(()) => Stage::Set(Armed(TaskHandle::new(cell.into_grip(Arc::clone(&self.pool))))),
            Err((_, reason)) => {
                self.pool.count_rejected();
                Stage::Over(Err(TimerError::Rejected(reason)))
            }
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), TimerError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::Unset = this.stage {
            this.stage = this.begin();
        }
        if let Stage::Set(Armed(timer)) = &mut this.stage {
            let Poll::Ready(outcome) = Pin::new(timer).poll(context) else { return Poll::Pending };
            this.stage = Stage::Over(outcome.map_err(TimerError::Lost));
        }
        match &this.stage {
            Stage::Over(outcome) => Poll::Ready(outcome.clone()),
            Stage::Unset | Stage::Set(_) => unreachable!("it has begun, and is over"),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Unset => "not polled",
            Stage::Set(_) => "waiting",
            Stage::Over(Ok(())) => "elapsed",
            Stage::Over(Err(_)) => "failed",
        };
        f.debug_struct("Sleep").field("deadline", &self.deadline).field("stage", &stage).finish()
    }
}

impl Scheduler {
    /// A future that is ready `delay` from now, on the executor's clock, never early.
    ///
    /// It works under any async runtime: the executor's workers are the timer. See [`Sleep`].
    ///
    /// # Errors
    /// Awaiting it ends with [`TimerError`] if the executor refuses the timer (it is shut down or full), or gives
    /// it up because it is stopped. After a shutdown no sleep waits any more, not even for an instant that has
    /// come: a loop of sleeps ends there.
    ///
    /// # Examples
    /// ```
    /// use punctual::Executor;
    /// use std::time::Duration;
    ///
    /// let pool = Executor::new(1);
    /// let nap = pool.sleep(Duration::from_millis(1));
    /// # let block_on = |future| pool.spawn(future).unwrap().join().unwrap();
    /// block_on(async move { nap.await })?; // whatever runs your futures
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::new(self, When::After(delay))
    }

    /// A future that is ready at `instant` of the executor's clock; otherwise as [`sleep`](Self::sleep).
    ///
    /// # Errors
    /// As [`sleep`](Self::sleep).
    pub fn sleep_until(&self, instant: Tick) -> Sleep {
        Sleep::new(self, When::At(instant))
    }
}
