//! How futures come in.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::Schedule;

use super::{Polled, Wakes};
use crate::error::Rejected;
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::series::Series;
use crate::task::{Body, Traits};
use crate::when::When;

impl Scheduler {
    /// Runs `future` on the pool's own workers, as soon as one is free. No async runtime is needed.
    ///
    /// While the future waits it holds no worker. Whoever wakes it makes it due at that instant, behind what was
    /// due or submitted before, and the next free worker polls it. A panic of a poll is the outcome of the task, as
    /// for every other body.
    ///
    /// A future that waits is a task in the queue whose deadline is [`Tick::MAX`](crate::Tick::MAX), and all that
    /// holds for such tasks holds for it:
    ///
    /// - [`cancel`](TaskHandle::cancel) drops it before it returns; one that is being polled is dropped right
    ///   after that poll.
    /// - After a [`shutdown`](Self::shutdown) it goes on, and the executor terminates after it, unless the policy
    ///   for [delayed](crate::Leftover::Delayed) tasks is to cancel them: then those that wait are cancelled.
    /// - [`shutdown_now`](Self::shutdown_now) returns it. Dropped, it resolves its handle as abandoned.
    /// - It counts towards the [`capacity`](crate::Builder::capacity) of the executor. To be accepted it needs
    ///   room; to be woken it does not.
    ///
    /// A future that can no longer be woken, because every waker it was given has been dropped, ends as
    /// [`Abandoned`](crate::Abandoned::Dropped): this handle resolves like every other.
    ///
    /// [Hooks](crate::Observer::before_run) are called round every poll, and statistics count every poll as a run;
    /// [`runs`](TaskHandle::runs) is 1 from the first poll on.
    ///
    /// # Errors
    /// [`Rejected`] returns the future, as [`submit`](Self::submit) does the closure.
    ///
    /// # Examples
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let inner = pool.clone();
    /// let answer = pool.spawn(async move {
    ///     let seven = inner.submit(|| 7).unwrap();
    ///     inner.sleep(Duration::from_secs(60)).await.unwrap();
    ///     6 * seven.await.unwrap()
    /// })?;
    /// clock.advance(Duration::from_secs(59));
    /// assert!(!answer.is_done());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn<F>(&self, future: F) -> Result<TaskHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.enter_future(When::After(Duration::ZERO), future)
    }

    /// Runs `future` as [`spawn`](Self::spawn) does, first polled after a `Duration`, at a [`Tick`](crate::Tick) of the
    /// executor's clock, or at a `SystemTime` of its wall clock.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_after<F>(
        &self,
        when: impl Into<When>,
        future: F,
    ) -> Result<TaskHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.enter_future(when.into(), future)
    }

    fn enter_future<F>(&self, when: When, future: F) -> Result<TaskHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let traits = Traits { series: Series::for_wall(when, Schedule::Once), ..Traits::default() };
        self.enter_polled(traits, when, |wakes| Polled::new(wakes, future))
            .map_err(|rejected| rejected.map(Polled::into_future))
    }

    /// A task whose body is made of futures, and needs to know when they are woken.
    pub(crate) fn enter_polled<T, B>(
        &self,
        traits: Traits,
        when: When,
        body: impl FnOnce(Arc<Wakes>) -> B,
    ) -> Result<TaskHandle<T>, Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        let wakes = Wakes::new(self.pool());
        let traits = Traits { wakes: Some(Arc::clone(&wakes)), ..traits };
        self.enter(traits, body(wakes), when)
    }
}
