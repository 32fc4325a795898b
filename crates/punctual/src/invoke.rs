//! Many tasks at once: all of them, or the first that succeeds.
//!
//! Whatever way out is taken (an error, a panic of the caller's iterator), the tasks that were submitted and are
//! not done are interrupted: [`Batch`] sees to it when it is dropped. The last is interrupted first, so that a
//! worker which is set free that way finds none of the others to begin.

use std::time::Duration;

use crate::completion::CompletionQueue;
use crate::error::{InvokeAllError, InvokeAnyError, TaskError, WaitError};
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Runs all tasks and waits until each is done; the handles come back in the order of the tasks.
    ///
    /// A task that fails does not disturb the others: its handle has the failure.
    ///
    /// # Errors
    /// If a task is refused or the calling task is interrupted; every task submitted so far is interrupted.
    ///
    /// # Examples
    /// ```
    /// let pool = punctual::Executor::new(2);
    /// let squares = pool.invoke_all((1..=3).map(|n| move || n * n))?;
    /// let squares: Vec<i32> = squares.iter().map(|handle| handle.join()).collect::<Result<_, _>>()?;
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invoke_all<F, T>(
        &self,
        tasks: impl IntoIterator<Item = F>,
    ) -> Result<Vec<TaskHandle<T>>, InvokeAllError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        all(self, tasks, None)
    }

    /// As [`invoke_all`](Self::invoke_all), but when `timeout` is over every task that has not ended is
    /// interrupted. A timeout of zero starts nothing.
    ///
    /// # Errors
    /// As [`invoke_all`](Self::invoke_all). That time was up is not an error: the handles tell.
    pub fn invoke_all_timeout<F, T>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<Vec<TaskHandle<T>>, InvokeAllError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        all(self, tasks, Some(timeout))
    }

    /// Runs tasks until one of them returns `Ok`, and returns that value; the others are interrupted.
    ///
    /// Tasks are started one by one as long as none has ended. A panic counts as a failure.
    ///
    /// # Errors
    /// If there is no task, all fail, one is refused before any has succeeded, or the calling task is
    /// interrupted.
    ///
    /// # Examples
    /// ```
    /// let pool = punctual::Executor::new(2);
    /// let parsed = pool.invoke_any(["x", "7", "y"].map(|text| move || text.parse::<u32>()))?;
    /// assert_eq!(parsed, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invoke_any<F, T, E>(&self, tasks: impl IntoIterator<Item = F>) -> Result<T, InvokeAnyError<E>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        any(self, tasks, None)
    }

    /// As [`invoke_any`](Self::invoke_any), but gives up after `timeout`.
    ///
    /// # Errors
    /// As [`invoke_any`](Self::invoke_any), and [`InvokeAnyError::Timeout`].
    pub fn invoke_any_timeout<F, T, E>(
        &self,
        tasks: impl IntoIterator<Item = F>,
        timeout: Duration,
    ) -> Result<T, InvokeAnyError<E>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        any(self, tasks, Some(timeout))
    }
}

/// Interrupts what is not done when it is dropped.
struct Batch<T>(Vec<TaskHandle<T>>);

impl<T> Batch<T> {
    fn call_off(&self) {
        for handle in self.0.iter().rev() {
            handle.interrupt();
        }
    }
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        self.call_off();
    }
}

fn all<F, T>(
    scheduler: &Scheduler,
    tasks: impl IntoIterator<Item = F>,
    timeout: Option<Duration>,
) -> Result<Vec<TaskHandle<T>>, InvokeAllError>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let clock = &*scheduler.pool().clock;
    let until = timeout.map(|timeout| clock.now().after(timeout));
    let is_over = || until.is_some_and(|until| until <= clock.now());
    let mut batch = Batch(Vec::new());
    for task in tasks {
        if is_over() {
            batch.0.push(scheduler.stillborn(task));
        } else {
            let handle =
                scheduler.submit(task).map_err(|rejected| InvokeAllError::Rejected(rejected.reason()))?;
            batch.0.push(handle);
        }
    }
    for handle in &batch.0 {
        match handle.wait_until(until) {
            Ok(()) => {}
            Err(WaitError::Timeout) => {
                batch.call_off();
                break;
            }
            Err(_) => return Err(InvokeAllError::Interrupted),
        }
    }
    Ok(std::mem::take(&mut batch.0))
}

fn any<F, T, E>(
    scheduler: &Scheduler,
    tasks: impl IntoIterator<Item = F>,
    timeout: Option<Duration>,
) -> Result<T, InvokeAnyError<E>>
where
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let clock = scheduler.clock();
    let until = timeout.map(|timeout| clock.now().after(timeout));
    let race = Race(CompletionQueue::with_clock(clock));
    let mut failure = None;
    for task in tasks {
        race.0.submit(scheduler, task).map_err(|rejected| InvokeAnyError::Rejected(rejected.reason()))?;
        while let Some(handle) = race.0.try_take() {
            match judge(&handle) {
                Ok(value) => return Ok(value),
                Err(error) => failure = Some(error),
            }
        }
    }
    while let Some(handle) = race.0.take_until(until).map_err(|_| InvokeAnyError::Interrupted)? {
        match judge(&handle) {
            Ok(value) => return Ok(value),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        _ if !race.0.is_empty() => Err(InvokeAnyError::Timeout),
        Some(failure) => Err(failure),
        None => Err(InvokeAnyError::Empty),
    }
}

/// Interrupts the losers when it is dropped.
struct Race<T: Send + 'static>(CompletionQueue<T>);

impl<T: Send + 'static> Drop for Race<T> {
    fn drop(&mut self) {
        self.0.interrupt_all();
    }
}

fn judge<T, E>(handle: &TaskHandle<Result<T, E>>) -> Result<T, InvokeAnyError<E>> {
    match handle.try_join() {
        Some(Ok(Ok(value))) => Ok(value),
        Some(Ok(Err(error))) => Err(InvokeAnyError::Failed(error)),
        Some(Err(error)) => Err(InvokeAnyError::Died(error)),
        None => Err(InvokeAnyError::Died(TaskError::Cancelled)),
    }
}
