//! Scheduling, running and stopping: all of an executor but its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{Schedule, Tick};

use crate::clock::Clock;
use crate::error::{Abandoned, InvokeAllError, InvokeAnyError, RejectReason, Rejected, TaskError, WaitError};
use crate::handle::{Remaining, TaskHandle};
use crate::invoke;
use crate::policy::{OnDrop, Rejection};
use crate::pool::Pool;
use crate::queue_view::QueuedTask;
use crate::stats::Stats;
use crate::task::{Body, Cell, Header, Many, Once, TaskId, TaskInfo, TaskRef};
use crate::task_builder::TaskBuilder;
use crate::timeout;
use crate::unrun::UnrunTask;

/// The part of an [`Executor`](crate::Executor) that runs tasks; what an executor derefs to.
///
/// Hand it to code that is to schedule work but not to change the pool. Clones share one pool, and the pool's
/// [`OnDrop`] policy acts when the last of them, and of its executors, is dropped.
///
/// There is no way back from it to the settings:
///
/// ```compile_fail,E0599
/// punctual::Executor::single().set_core_threads(2);
/// ```
///
/// ```compile_fail,E0277
/// punctual::Executor::from(punctual::Executor::single());
/// ```
///
/// # Coming from Java
/// `ScheduledExecutorService`, and what `Executors.unconfigurableScheduledExecutorService` returns.
#[derive(Clone)]
pub struct Scheduler {
    pub(crate) owner: Arc<Owner>,
}

/// Held by every executor and scheduler of a pool, and by nobody else.
pub(crate) struct Owner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) on_drop: OnDrop,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let pool = &self.pool;
        match self.on_drop {
            OnDrop::Detach => pool.shutdown(),
            OnDrop::Join => {
                pool.shutdown();
                if !pool.is_served_here() {
                    let _ = pool.await_termination(None, false);
                }
            }
            OnDrop::Abort => drop(stop(pool)),
        }
    }
}

/// Stops `pool`, interrupts what runs, and wraps what was queued.
fn stop(pool: &Arc<Pool>) -> Vec<UnrunTask> {
    let (queued, running) = pool.stop();
    for task in &running {
        task.interrupt();
    }
    pool.discard_all(running);
    let (over, unrun): (Vec<_>, Vec<_>) = queued.into_iter().partition(|task| task.state().is_done());
    pool.discard_all(over);
    unrun.into_iter().map(|task| UnrunTask::new(task, pool, Abandoned::Stopped)).collect()
}

impl Scheduler {
    pub(crate) fn new(pool: Arc<Pool>, on_drop: OnDrop) -> Self {
        Self { owner: Arc::new(Owner { pool, on_drop }) }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.owner.pool
    }

    /// The clock that this executor lives by.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.pool().clock)
    }

    // ---- submitting

    /// Runs `task` as soon as a worker is free.
    ///
    /// # Errors
    /// [`Rejected`] returns the closure if the executor is shut down or saturated, subject to the
    /// [`Rejection`] policy.
    ///
    /// # Coming from Java
    /// `execute`. A panic is told to the [observer](crate::Observer::after_run).
    pub fn execute<F>(&self, task: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.submit(task).map(drop)
    }

    /// Runs `task` as soon as a worker is free, and keeps its value for the handle.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn submit<F, T>(&self, task: F) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.schedule(Duration::ZERO, task)
    }

    /// Runs `task` once, after `delay`.
    ///
    /// It never runs early. Tasks that are due together start in the order of their deadlines, those with one
    /// deadline in the order in which they were submitted. A delay too long to count is as long as time.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    ///
    /// # Examples
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let answer = pool.schedule(Duration::from_secs(60), || 6 * 7)?;
    /// clock.advance(Duration::from_secs(59));
    /// assert!(!answer.is_done());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule<F, T>(&self, delay: Duration, task: F) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = Cell::new(Header::new(None, Schedule::Once), Once(Some(task)));
        self.enter(cell, When::After(delay)).map_err(unwrap_once)
    }

    /// Runs `task` every `period`, first after `initial_delay`.
    ///
    /// Deadlines stay on the grid `first + n × period` however late a run starts, so missed runs are caught up
    /// back to back. Runs of one task never overlap, and each sees what the one before it did. The series ends
    /// when the handle is cancelled, a run panics, or the shutdown policy says so.
    ///
    /// ```text
    /// deadline  1         2         3         4
    /// run       [==1==]   [======2======][=3=][=4=]
    /// ```
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and if `period` is zero.
    ///
    /// # Examples
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// pool.schedule_at_fixed_rate(minute, minute, move || sender.send(()).unwrap())?;
    /// clock.advance(3 * minute);
    /// assert_eq!(receiver.try_iter().count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn schedule_at_fixed_rate<F>(
        &self,
        initial_delay: Duration,
        period: Duration,
        task: F,
    ) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(None, When::After(initial_delay), Schedule::FixedRate(period), task)
    }

    /// Runs `task` again and again, first after `initial_delay`, then each time `delay` after it has ended.
    ///
    /// There is never a burst: what takes long simply comes later. Otherwise as
    /// [`schedule_at_fixed_rate`](Self::schedule_at_fixed_rate).
    ///
    /// ```text
    /// run       [==1==]-delay-[=====2=====]-delay-[=3=]
    /// ```
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and if `delay` is zero.
    pub fn schedule_with_fixed_delay<F>(
        &self,
        initial_delay: Duration,
        delay: Duration,
        task: F,
    ) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(None, When::After(initial_delay), Schedule::FixedDelay(delay), task)
    }

    /// Describes a task step by step; the other forms are shorthands of it.
    ///
    /// ```
    /// use punctual::{Executor, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let beat = pool.task(|| ()).name("heartbeat").every(Duration::from_secs(5)).start()?;
    /// clock.advance(Duration::from_secs(11));
    /// assert_eq!((beat.name(), beat.runs()), (Some("heartbeat"), 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task<F>(&self, body: F) -> TaskBuilder<'_, F> {
        TaskBuilder::new(self, body)
    }

    /// Runs `task` as [`submit`](Self::submit) does, but if it has not ended after `timeout` it is
    /// [interrupted](TaskHandle::interrupt), whether it has begun or not.
    ///
    /// The clock starts now. A task that ends in time takes its timeout with it. Timeouts have a thread of their
    /// own, so they come in time however busy the pool is.
    ///
    /// ```
    /// use punctual::{Executor, TaskContext};
    /// use std::time::Duration;
    ///
    /// let pool = Executor::new(1);
    /// let nap = || TaskContext::current().sleep(Duration::from_secs(3600));
    /// let late = pool.submit_with_timeout(Duration::from_millis(1), nap)?;
    /// assert!(late.join().unwrap_err().is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn submit_with_timeout<F, T>(&self, timeout: Duration, task: F) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        timeout::submit(self, timeout, task, |work| {
            work.interrupt();
        })
    }

    /// As [`submit_with_timeout`](Self::submit_with_timeout), but when the time is over the handle resolves to
    /// what `fallback` returns, or panics with. A body that has begun is interrupted after that.
    ///
    /// Fallbacks are called one after the other, in the thread for timeouts, so they should be short.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn submit_with_fallback<F, T>(
        &self,
        timeout: Duration,
        task: F,
        fallback: impl FnOnce() -> T + Send + 'static,
    ) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        timeout::submit(self, timeout, task, move |work| timeout::replace(work, fallback))
    }

    pub(crate) fn once<F, T>(
        &self,
        name: Option<Arc<str>>,
        when: When,
        task: F,
    ) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = Cell::new(Header::new(name, Schedule::Once), Once(Some(task)));
        self.enter(cell, when).map_err(unwrap_once)
    }

    pub(crate) fn repeat<F>(
        &self,
        name: Option<Arc<str>>,
        when: When,
        schedule: Schedule,
        task: F,
    ) -> Result<TaskHandle<()>, Rejected<F>>
    where
        F: FnMut() + Send + 'static,
    {
        if schedule.period().is_some_and(|period| period.is_zero()) {
            return Err(Rejected::new(task, RejectReason::ZeroPeriod));
        }
        let cell = Cell::new(Header::new(name, schedule), Many(task));
        self.enter(cell, when).map_err(|rejected| rejected.map(|Many(task)| task))
    }

    /// A task that is cancelled before it could be submitted.
    pub(crate) fn stillborn<F, T>(&self, task: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = self.pool();
        let cell = Arc::new(Cell::new(Header::new(None, Schedule::Once), Once(Some(task))));
        cell.header().set_number(pool.core.lock().next_number());
        pool.end(&*cell, TaskError::Cancelled);
        TaskHandle::new(cell, pool)
    }

    fn enter<T, B>(&self, cell: Cell<T, B>, when: When) -> Result<TaskHandle<T>, Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        self.place(Arc::new(cell), when)
    }

    /// Every task comes in here.
    pub(crate) fn place<T, B>(&self, cell: Arc<Cell<T, B>>, when: When) -> Result<TaskHandle<T>, Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        let pool = self.pool();
        let now = pool.clock.now();
        let deadline = when.tick(now);
        cell.header().set_deadline(deadline);
        if let Some(decorator) = &pool.decorator {
            cell.header().set_number(pool.core.lock().next_number());
            if let Some(decoration) = decorator.decorate(TaskInfo::new(cell.header(), None)) {
                cell.decorate(decoration);
            }
        }
        let task: TaskRef = Arc::clone(&cell) as TaskRef;
        if let Err(reason) = pool.submit(&task, deadline, now) {
            self.refuse(&cell, task, (deadline, now), reason)?;
        }
        Ok(TaskHandle::new(cell, pool))
    }

    /// `Ok` if the rejection policy took the task off our hands.
    #[cold]
    fn refuse<T, B>(
        &self,
        cell: &Arc<Cell<T, B>>,
        task: TaskRef,
        (deadline, now): (Tick, Tick),
        reason: RejectReason,
    ) -> Result<(), Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        let pool = self.pool();
        pool.count_rejected();
        let policy = pool.rejection.lock().clone();
        let unrun = |task| UnrunTask::new(task, pool, Abandoned::Rejected);
        match policy {
            Rejection::CallerRuns if reason != RejectReason::ShutDown && deadline <= now => {
                unrun(task).run();
            }
            Rejection::Abort | Rejection::CallerRuns => {
                let (body, decoration) = cell.take_back();
                pool.discard(decoration);
                // Without its body it has been ended by its time limit, and the handle says so.
                if let Some(body) = body {
                    return Err(Rejected::new(body, reason));
                }
            }
            Rejection::Discard => drop(unrun(task)),
            Rejection::DiscardOldest => {
                let mut refused = reason;
                while refused == RejectReason::Saturated && pool.displace() {
                    match pool.submit(&task, deadline, now) {
                        Ok(()) => return Ok(()),
                        Err(reason) => refused = reason,
                    }
                }
                drop(unrun(task));
            }
            Rejection::Custom(handler) => handler.rejected(unrun(task), reason, self),
        }
        Ok(())
    }

    // ---- many at once

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
        invoke::all(self, tasks, None)
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
        invoke::all(self, tasks, Some(timeout))
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
        invoke::any(self, tasks, None)
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
        invoke::any(self, tasks, Some(timeout))
    }

    // ---- stopping

    /// Accepts nothing new; what is queued follows the shutdown policy
    /// ([`set_after_shutdown`](crate::Executor::set_after_shutdown)). Returns at once; may be called again.
    pub fn shutdown(&self) {
        self.pool().shutdown();
    }

    /// Stops: running bodies are [asked to stop](crate::TaskContext::is_interrupted), and what was queued comes
    /// back, in order, unrun. Returns at once; may be called again.
    pub fn shutdown_now(&self) -> Vec<UnrunTask> {
        stop(self.pool())
    }

    /// Waits until the executor has been shut down, every task has ended and every thread is gone; false if
    /// `timeout` is over first, or the calling task is interrupted. `Duration::MAX` is for ever.
    ///
    /// In a task or hook of this very executor it cannot come true: there it is false after `timeout`, and at
    /// once where that would be never.
    #[must_use]
    pub fn await_termination(&self, timeout: Duration) -> bool {
        self.pool().await_termination(Some(timeout), true).unwrap_or(false)
    }

    /// Shuts down and waits for the end.
    ///
    /// If the calling task is interrupted meanwhile, the executor is stopped as by
    /// [`shutdown_now`](Self::shutdown_now), dropping what was queued; the wait goes on to the end.
    ///
    /// # Errors
    /// [`WaitError::WouldDeadlock`] in a task of this very executor, which is shut down all the same;
    /// [`WaitError::Interrupted`] after the end, if it came to that.
    pub fn close(&self) -> Result<(), WaitError> {
        let pool = self.pool();
        pool.shutdown();
        if pool.is_served_here() {
            return Err(WaitError::WouldDeadlock);
        }
        match pool.await_termination(None, true) {
            Ok(_) => Ok(()),
            Err(interrupted) => {
                drop(stop(pool));
                let _ = pool.await_termination(None, false);
                Err(interrupted.into())
            }
        }
    }

    /// Whether the executor accepts no more tasks.
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        self.stats_state() > punctual_engine::RunState::Running
    }

    /// Whether the executor has been shut down and has not terminated.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.is_shutdown() && !self.is_terminated()
    }

    /// Whether no task and no worker is left, for ever.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.stats_state() == punctual_engine::RunState::Terminated
    }

    fn stats_state(&self) -> punctual_engine::RunState {
        self.pool().core.lock().state
    }

    // ---- looking

    /// All numbers at one instant.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let pool = self.pool();
        let (now, timeouts) = (pool.clock.now(), pool.limits.len());
        pool.core.lock().stats(now, timeouts)
    }

    /// The waiting tasks, the next to run first. A picture: it does not change, and the queue does not wait.
    #[must_use]
    pub fn queue(&self) -> Vec<QueuedTask> {
        let pool = self.pool();
        let now = pool.clock.now();
        let view = |entry: punctual_engine::Entry<'_, TaskRef>| {
            let header = entry.value.header();
            QueuedTask {
                id: header.id(),
                name: header.name().cloned(),
                schedule: header.schedule(),
                deadline: entry.deadline,
                remaining: Remaining::between(now, entry.deadline),
                runs: header.runs(),
            }
        };
        let core = pool.core.lock();
        let mut queued: Vec<QueuedTask> = core.queue.iter().map(view).collect();
        drop(core);
        queued.sort_by_key(|task| (task.deadline, task.id));
        queued
    }

    /// Takes a waiting task out of the queue by its id, unrun. Looks through the whole queue: with a handle,
    /// [`TaskHandle::remove`] is quicker.
    pub fn remove(&self, id: TaskId) -> Option<UnrunTask> {
        let pool = self.pool();
        let core = pool.core.lock();
        let found = core.queue.iter().find(|entry| entry.value.header().id() == id);
        let task = found.map(|entry| Arc::clone(entry.value));
        drop(core);
        let task = task?;
        let unlinked = pool.remove(&*task);
        pool.discard(task);
        unlinked.map(|task| UnrunTask::new(task, pool, Abandoned::Removed))
    }
}

pub(crate) fn unwrap_once<F>(rejected: Rejected<Once<F>>) -> Rejected<F> {
    rejected.map(|Once(task)| task.expect("a task that was refused has not run"))
}

/// The first deadline of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So long after it is submitted.
    After(Duration),
    /// At an instant of the executor's clock; one that has passed means now, and is late.
    At(Tick),
}

impl When {
    pub(crate) fn tick(self, now: Tick) -> Tick {
        match self {
            Self::After(delay) => now.after(delay),
            Self::At(tick) => tick,
        }
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<Tick> for When {
    fn from(tick: Tick) -> Self {
        Self::At(tick)
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduler").field(&self.stats()).finish()
    }
}

impl fmt::Display for Scheduler {
    /// `running, pool size = 2, active = 1, queued = 3, completed = 7`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
