//! How tasks come in.
//!
//! Every form ends in [`Scheduler::place`], which reads the clock once, lets the decorator wrap the task and asks the
//! pool; what the pool refuses meets the rejection policy in [`Scheduler::refuse`], and either somebody has the task
//! or the caller has the closure back.

use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{Schedule, Tick};

use super::Scheduler;
use crate::error::{Abandoned, RejectReason, Rejected, TaskError};
use crate::handle::TaskHandle;
use crate::policy::Rejection;
use crate::pool::Offer;
use crate::series::{Now, Series};
use crate::task::{
    Body, Header, Large, LargeOnce, Many, Marked, Once, Owner, Task, TaskInfo, TaskRef, Traits, Turn,
    allocate, allocate_plain, is_large,
};
use crate::task_builder::TaskBuilder;
use crate::timeout;
use crate::unrun::UnrunTask;
use crate::when::When;

/// A task that is due so many nanoseconds later goes by its mark, if it can ([`Owner::go_by_mark`]): it is as likely to be
/// cancelled as to run, and what it takes longer if it runs is nothing beside that time.
const FAR: u64 = 1_000_000_000;

impl Scheduler {
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
        if is_large::<F>() {
            return self.enter_once(Traits::default(), task, When::After(delay));
        }
        let (cell, task) = allocate_plain(Once(task));
        self.place(cell, task, When::After(delay)).map_err(|rejected| rejected.map(|Once(task)| task))
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
        timeout::submit(self, timeout, task, move |work| work.replace(fallback))
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
        let traits = Traits { name, series: Series::for_wall(when, Schedule::Once), ..Traits::default() };
        self.enter_once(traits, task, when)
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
        let traits = Traits { name, schedule, series: Series::for_wall(when, schedule), ..Traits::default() };
        self.enter(traits, Many(task), when).map_err(|rejected| rejected.map(|Many(task)| task))
    }

    /// A task that is cancelled before it could be submitted.
    pub(crate) fn stillborn<F, T>(&self, task: F) -> TaskHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let pool = self.pool();
        let (cell, _) = allocate_plain(Once(task));
        let id = pool.core.lock().next_id();
        pool.end(&*cell, TaskError::Cancelled);
        cell.header().set_place(Turn { deadline: Tick::ZERO, id });
        TaskHandle::new(cell.into_grip(Arc::clone(self.tether())))
    }

    pub(crate) fn enter_once<F, T>(
        &self,
        traits: Traits,
        body: F,
        when: When,
    ) -> Result<TaskHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if is_large::<F>() {
            let boxed = self.enter(traits, LargeOnce(Box::new(body)), when);
            return boxed.map_err(|rejected| rejected.map(|LargeOnce(body)| *body));
        }
        self.enter(traits, Once(body), when).map_err(|rejected| rejected.map(|Once(body)| body))
    }

    pub(crate) fn enter<T, B>(
        &self,
        traits: Traits,
        body: B,
        when: When,
    ) -> Result<TaskHandle<T>, Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        if is_large::<B>() {
            let (cell, task) = allocate(traits, Large::new(body));
            return self.place(cell, task, when).map_err(|rejected| rejected.map(Large::into_inner));
        }
        let (cell, task) = allocate(traits, body);
        self.place(cell, task, when)
    }

    /// Every task comes in here.
    pub(crate) fn place<T, B>(
        &self,
        cell: Owner<T, B>,
        task: TaskRef,
        when: When,
    ) -> Result<TaskHandle<T>, Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        let pool = self.pool();
        let now = pool.clock.now();
        let is_special = cell.header().is_special();
        let deadline = match is_special {
            true => self.first_deadline(cell.header(), when, now),
            false => Some(when.tick(now, &*pool.clock)),
        };
        let Some(deadline) = deadline else {
            let (body, _) = cell.take_back().expect("nobody else knows the task");
            return Err(Rejected::new(body, RejectReason::NeverDue));
        };
        // Before anybody else sees it.
        let may_go_by_mark = Owner::<T, B>::HAS_MARK && !is_special && pool.decorator.is_none();
        let is_far = deadline.as_nanos().saturating_sub(now.as_nanos()) >= FAR;
        let mut by_mark = if may_go_by_mark && is_far { cell.go_by_mark(self.tethers()) } else { None };
        let mut offer = Offer::new(deadline, now, None);
        offer.tether = by_mark.as_ref().map(Marked::tether);
        if let Some(decorator) = &pool.decorator {
            let id = pool.core.lock().next_id();
            offer.id = Some(id);
            let turn = Turn { deadline, id };
            let unplaced = Unplaced(&task);
            if let Some(decoration) = decorator.decorate(TaskInfo::new(cell.header(), turn, None)) {
                cell.decorate(decoration);
            }
            std::mem::forget(unplaced);
        }
        if is_special {
            self.introduce(&task, &mut offer);
        }
        if let Err((task, reason)) = pool.submit(task, &mut offer) {
            self.refuse(&cell, task, &mut offer, reason)?;
            cell.header().set_refused_place(offer.turn());
            // It may never have been in the queue, where whoever settles it would wait for it to come.
            by_mark = None;
        }
        if is_special {
            self.look_after(&*cell);
        }
        Ok(TaskHandle::new(match by_mark {
            Some(marked) => cell.into_grip_by_mark(&marked, offer.left),
            None => cell.into_grip(Arc::clone(self.tether())),
        }))
    }

    /// Tells a task that is more than plain who it is, and the pool of it, before it is queued.
    #[cold]
    fn introduce(&self, task: &TaskRef, offer: &mut Offer<'_>) {
        let (pool, header) = (self.pool(), task.header());
        let mut core = pool.core.lock();
        let id = *offer.id.get_or_insert_with(|| core.next_id());
        header.set_place(Turn { deadline: offer.deadline, id });
        header.learn();
        core.note_priority(header);
        drop(core);
        pool.registry.enter(task);
        if let Some(wakes) = header.wakes() {
            wakes.attach(task.clone());
        }
    }

    /// What happened to a task that is more than plain while it was being queued.
    #[cold]
    fn look_after(&self, task: &dyn Task) {
        let pool = self.pool();
        if task.state().is_done() {
            // Whoever found it by its name may have cancelled it before it was queued.
            pool.discard(pool.remove(task));
        } else if task.header().series().is_some() {
            pool.core.lock().note_wall(task.header());
        }
    }

    /// The first look at a task; `None` if it would never run.
    #[cold]
    fn first_deadline(&self, header: &Header, when: When, now: Tick) -> Option<Tick> {
        let clock = &*self.pool().clock;
        match header.series() {
            None => Some(when.tick(now, clock)),
            Some(series) => series.first(when.point(now), Now::of(clock)).map(|due| due.look),
        }
    }

    /// `Ok` if the rejection policy took the task off our hands.
    #[cold]
    fn refuse<T, B>(
        &self,
        cell: &Owner<T, B>,
        mut task: TaskRef,
        offer: &mut Offer<'_>,
        reason: RejectReason,
    ) -> Result<(), Rejected<B>>
    where
        T: Send + 'static,
        B: Body<T> + 'static,
    {
        let pool = self.pool();
        pool.count_rejected();
        let policy = pool.rejection.lock().clone();
        let turn = offer.turn();
        let unrun = |task| UnrunTask::new(task, turn, pool, Abandoned::Rejected);
        match policy {
            Rejection::CallerRuns
                if reason != RejectReason::ShutDown && offer.deadline <= offer.now && is_one_run(&task) =>
            {
                unrun(task).run();
            }
            Rejection::Abort | Rejection::CallerRuns => {
                // Without its body it has been ended by its time limit, and the handle says so.
                if let Some((body, clung)) = cell.take_back() {
                    pool.discard(clung);
                    return Err(Rejected::new(body, reason));
                }
            }
            Rejection::Discard => drop(unrun(task)),
            Rejection::DiscardOldest => {
                let mut refused = reason;
                while refused == RejectReason::Saturated && pool.displace() {
                    match pool.submit(task, offer) {
                        Ok(()) => return Ok(()),
                        Err((back, reason)) => (task, refused) = (back, reason),
                    }
                }
                drop(unrun(task));
            }
            Rejection::Custom(handler) => handler.rejected(unrun(task), reason, self),
        }
        Ok(())
    }
}

/// Whether a task is over with its first run, however that ends: more the caller cannot give it.
fn is_one_run(task: &TaskRef) -> bool {
    let header = task.header();
    !header.schedule().is_periodic() && header.series().is_none_or(|series| !series.rules().returns_errors)
}

/// Ends a task that a decorator keeps from being queued by panicking: others may refer to it already, its time limit
/// say, and only its end lets them go.
struct Unplaced<'a>(&'a TaskRef);

impl Drop for Unplaced<'_> {
    fn drop(&mut self) {
        let _ = self.0.end(TaskError::Abandoned(Abandoned::Dropped), &mut |_| ());
    }
}
