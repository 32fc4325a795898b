//! Shutdown, stop, termination, and changes of size while running.
//!
//! ```text
//! Running ── shutdown ──▶ Shutdown ── queue empty, workers gone ──▶ Tidying ──▶ Terminated
//!    └──── shutdown_now ────▶ Stop ── workers gone ────────────────────┘
//! ```
//!
//! The rules (what may still run, when it is over) are the engine's: [`punctual_engine::may_run`] and
//! [`punctual_engine::is_finished`]. This file obeys them.
//!
//! # Protocol
//! - *Who ends the pool:* whichever call finds under the lock that nothing is left ([`Core::begin_tidying`],
//!   true once): the last worker to go, the call that shut down a pool without workers, or the last call to
//!   end tasks that it took out of the queue. It runs the terminated hook unlocked, and only then are waiters
//!   released.
//! - *Stop and a task just taken:* a worker notes the task in the step in which it takes it ([`ready`](super::ready)), so a
//!   stop, which has seen to it that there is nothing more to take and then reads the notes, interrupts it however little of
//!   it has begun.
//! - *Shutdown and a submission:* one lock, so a submission is accepted before the shutdown, and then treated
//!   as its policy says, or refused. The clock is read under it, too: what was accepted as due is due.

use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{Fired, Keep, Leftover, RunState, Tick};

use super::{Core, Held, Pool, join_all};
use crate::context::{self, Serve, Wait};
use crate::error::{Abandoned, Interrupted, InvalidArgument, TaskError};
use crate::observe::Place;
use crate::park::Parker;
use crate::pool::Sizes;
use crate::task::{TaskId, TaskRef, Turn};

impl Pool {
    pub(crate) fn shutdown(self: &Arc<Self>) {
        let mut core = self.core.lock();
        if core.state == RunState::Running {
            core.state = RunState::Shutdown;
        }
        // Read under the lock: a task that was queued as due must be due here, too.
        let forbidden = core.enforce_policy(self.clock.now());
        self.end_all(core, forbidden, &TaskError::Cancelled);
        self.rescue();
    }

    /// If tasks are queued and no worker lives, tries once to get one; failing that they end here. If others are
    /// asking, the last of them sees to it.
    pub(super) fn rescue(self: &Arc<Self>) {
        let mut core = self.core.lock();
        if core.live > 0 || core.asking > 0 || core.queue.is_empty() {
            return;
        }
        let index = core.add_worker();
        drop(core);
        self.spawn(index);
        self.give_up();
    }

    /// If no worker lives although one was asked for, and nobody is still asking, what is left ends here: nobody
    /// will ever run it.
    pub(super) fn give_up(&self) {
        let mut core = self.core.lock();
        if core.live > 0 || core.asking > 0 || core.queue.is_empty() {
            return;
        }
        let stranded = core.queue.drain().into_iter().map(|fired| fired.value).collect();
        self.end_all(core, stranded, &TaskError::Abandoned(Abandoned::NoWorker));
    }

    /// Stops: returns what was queued, and what runs, for the caller to interrupt or leave.
    pub(crate) fn stop(&self) -> (Vec<(TaskRef, Turn)>, Vec<TaskRef>) {
        let mut core = self.core.lock();
        core.state = core.state.max(RunState::Stop);
        let queued = core.queue.drain();
        let running = core.ready.hands(|hands| hands.map(|(task, _)| TaskRef::clone(task)).collect());
        self.after_removal(core);
        (queued.into_iter().map(with_turn).collect(), running)
    }

    /// To be called whenever the queue may have become empty, or the state has changed: releases whoever waits
    /// for nothing any more, and ends the pool if that was the last of it.
    pub(super) fn after_removal(&self, mut core: impl DerefMut<Target = Core>) {
        let wake = if core.has_run_dry() { core.release() } else { Vec::new() };
        let over = core.begin_tidying();
        drop(core);
        wake_all(&wake);
        if over {
            self.tidy();
        }
    }

    /// Ends tasks that were taken out of the queue under this lock. The pool is not over before they are.
    pub(super) fn end_all(&self, mut core: Held<'_>, tasks: Vec<TaskRef>, error: &TaskError) {
        if tasks.is_empty() {
            return self.after_removal(core);
        }
        core.ending += 1;
        self.after_removal(core);
        let serve = Serve::new(self);
        for task in &tasks {
            self.end(&**task, error.clone());
        }
        self.discard_all(tasks);
        drop(serve);
        let mut core = self.core.lock();
        core.ending -= 1;
        self.after_removal(core);
    }

    /// The one call for which `begin_tidying` was true comes here.
    pub(super) fn tidy(&self) {
        let _serve = Serve::new(self);
        self.limits.close();
        self.tell(Place::Terminated, |observer| observer.terminated());
        let mut core = self.core.lock();
        core.state = RunState::Terminated;
        let waiters = std::mem::take(&mut core.termination);
        drop(core);
        for waker in waiters {
            waker.wake();
        }
    }

    /// Waits for termination and for the threads, at most `timeout`; false if the time was over first. `heed` says
    /// whether an interrupt of the calling task ends the wait.
    pub(crate) fn await_termination(
        &self,
        timeout: Option<Duration>,
        heed: bool,
    ) -> Result<bool, Interrupted> {
        let deadline = timeout.map_or(Tick::MAX, |timeout| self.clock.now().after(timeout));
        if deadline == Tick::MAX && self.is_served_here() {
            return Ok(false);
        }
        // The end of time does not come, not even for a clock that stands there.
        self.await_end(Some(deadline).filter(|deadline| *deadline < Tick::MAX), heed)
    }

    /// [`await_termination`](Self::await_termination), for a thread that may: first for this pool, and in what is left
    /// of the time for its limits, which may still be running a fallback.
    pub(crate) fn await_end(&self, deadline: Option<Tick>, heed: bool) -> Result<bool, Interrupted> {
        let wait = Wait::begin();
        let mut listening = false;
        let terminated = loop {
            let mut core = self.core.lock();
            if core.state == RunState::Terminated {
                break Ok(true);
            }
            if !listening {
                core.termination.push(wait.waker().clone());
                listening = true;
            }
            drop(core);
            if heed && wait.is_interrupted() {
                break Err(Interrupted);
            }
            if deadline.is_some_and(|deadline| deadline <= self.clock.now()) {
                break Ok(false);
            }
            self.clock.wait(&wait.parker, deadline);
        };
        if !matches!(terminated, Ok(true)) {
            let mut core = self.core.lock();
            core.termination.retain(|waker| !waker.will_wake(wait.waker()));
        }
        drop(wait);
        if terminated == Ok(true) {
            self.join_threads();
            return self.limits.join(deadline, heed);
        }
        terminated
    }

    /// Whether the calling thread works for the pool, or for its limits, and so must not wait for its end.
    pub(crate) fn is_served_here(&self) -> bool {
        context::serves(self) || self.limits.is_here()
    }

    /// The workers have left the pool; their threads have a few instructions to go.
    fn join_threads(&self) {
        // One of them, on its way out: it cannot join itself, and others may be joining it.
        if context::belongs_to(self) {
            return;
        }
        // Held while joining, so that a second caller returns no sooner than the threads are gone.
        let mut threads = self.threads.lock();
        threads.append(&mut self.core.lock().threads);
        join_all(threads.drain(..).collect());
    }

    pub(crate) fn set_policy(self: &Arc<Self>, kind: Leftover, keep: Keep) {
        let mut core = self.core.lock();
        core.policy = core.policy.with(kind, keep);
        let concerns = core.state != RunState::Running && keep == Keep::Cancel;
        let forbidden = if concerns { core.enforce_policy(self.clock.now()) } else { Vec::new() };
        self.end_all(core, forbidden, &TaskError::Cancelled);
    }

    /// Changes the sizes if the result makes sense, and lets every worker look at them anew.
    pub(crate) fn resize(self: &Arc<Self>, change: impl FnOnce(&mut Sizes)) -> Result<(), InvalidArgument> {
        let mut core = self.core.lock();
        let before = core.sizes;
        let mut sizes = before;
        change(&mut sizes);
        core.sizes = sizes.check()?;
        // Workers for what is queued, as many as the core has grown by; the rest come with later tasks.
        let room = sizes.core.saturating_sub(before.core).min(sizes.core.saturating_sub(core.live));
        let wanted = room.min(core.queue.len());
        let spawn: Vec<usize> = (0..wanted).map(|_| core.add_worker()).collect();
        let wake = core.waiting.call_all();
        drop(core);
        wake_all(&wake);
        for index in spawn {
            let _ = self.spawn(index);
        }
        self.give_up();
        Ok(())
    }

    /// Starts up to `most` workers below the core size; says how many.
    pub(crate) fn prestart(self: &Arc<Self>, most: usize) -> usize {
        let mut started = 0;
        while started < most {
            let mut core = self.core.lock();
            if core.state != RunState::Running || core.live >= core.sizes.core {
                break;
            }
            let index = core.add_worker();
            drop(core);
            if !self.spawn(index) {
                break;
            }
            started += 1;
        }
        self.give_up();
        started
    }
}

impl Drop for Pool {
    /// Every worker and every executor is gone, so nothing can be queued, unless threads were lost in a way we
    /// do not know. No handle may hang for it.
    fn drop(&mut self) {
        let stranded = self.core.lock().queue.drain();
        for fired in stranded {
            self.end(&*fired.value, TaskError::Abandoned(Abandoned::Dropped));
            self.discard(fired.value);
        }
    }
}

/// What has left the queue, with its place in the order. A task that knows better was queued for another instant.
#[inline]
pub(super) fn with_turn(Fired { deadline, number, value }: Fired<TaskRef>) -> (TaskRef, Turn) {
    let turn = value.header().planned().unwrap_or(Turn { deadline, id: TaskId(number) });
    (value, turn)
}

fn wake_all(parkers: &[Arc<Parker>]) {
    for parker in parkers {
        parker.unpark();
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Executor, ManualClock, OnCancel, Steered, TaskContext, TaskHandle};

    const KEEP_ALIVE: Duration = Duration::from_secs(3);
    const HOUR: Duration = Duration::from_secs(3600);

    /// A worker that watches over the only deadline has no keep-alive. When that task was taken out, the worker
    /// stayed until the deadline all the same.
    #[test]
    fn a_thread_goes_when_what_it_waited_for_was_cancelled() {
        for (core, on_cancel) in [(0, OnCancel::Remove), (0, OnCancel::KeepUntilDue), (2, OnCancel::Remove)] {
            let clock = ManualClock::new();
            let builder = Executor::builder().core_threads(core).core_threads_time_out();
            let pool =
                builder.on_cancel(on_cancel).keep_alive(KEEP_ALIVE).clock(clock.clone()).build().unwrap();
            let tasks = [HOUR, 2 * HOUR].map(|delay| {
                let task = pool.schedule(delay, || ()).unwrap();
                clock.wait_until_idle();
                task
            });
            clock.advance(2 * KEEP_ALIVE);
            assert_eq!(pool.stats().pool_size, 1);
            tasks.iter().for_each(|task| assert!(task.cancel()));
            pool.purge();
            clock.advance(KEEP_ALIVE);
            assert_eq!(pool.stats().pool_size, 0);
            pool.close().unwrap();
        }
    }

    /// A pool of two threads that may go, and two tasks: the first thread came alone, is kept for the tasks and waits for
    /// the first of them; the second waits for being called, or for the end of its time.
    fn kept_and_follower(clock: &ManualClock) -> (Executor, [TaskHandle<()>; 2]) {
        let builder = Executor::builder().core_threads(2).core_threads_time_out().keep_alive(KEEP_ALIVE);
        let pool = builder.clock(clock.clone()).build().unwrap();
        let tasks = [HOUR, 2 * HOUR].map(|delay| {
            let task = pool.schedule(delay, || _ = TaskContext::current().sleep(10 * HOUR)).unwrap();
            clock.wait_until_idle();
            task
        });
        assert_eq!(pool.stats().pool_size, 2);
        (pool, tasks)
    }

    #[test]
    fn all_threads_go_when_what_they_waited_for_was_cancelled() {
        let clock = ManualClock::new();
        let (pool, tasks) = kept_and_follower(&clock);
        clock.advance(KEEP_ALIVE / 3);
        assert!(tasks.iter().rev().all(TaskHandle::cancel));
        clock.advance(KEEP_ALIVE - KEEP_ALIVE / 3);
        assert_eq!(pool.stats().pool_size, 1, "the one that was kept has its own time from then on");
        clock.advance(KEEP_ALIVE / 3);
        assert_eq!(pool.stats().pool_size, 0);
        pool.close().unwrap();
    }

    /// A worker that was kept for what is queued waited for a deadline that was dead, as long as the other had work.
    #[test]
    fn a_thread_that_was_kept_goes_while_another_is_busy() {
        let clock = ManualClock::new();
        let (pool, tasks) = kept_and_follower(&clock);
        let busy = pool.submit(|| _ = TaskContext::current().sleep(10 * HOUR)).unwrap();
        clock.wait_until_idle();
        assert!(tasks.iter().all(TaskHandle::cancel));
        clock.advance(KEEP_ALIVE - Duration::from_nanos(1));
        assert_eq!(pool.stats().pool_size, 2, "not before its time");
        clock.advance(Duration::from_nanos(1));
        assert_eq!((pool.stats().pool_size, pool.stats().active), (1, 1));
        assert!(busy.interrupt());
        pool.close().unwrap();
    }

    /// The same when the last task does not leave the queue for nothing, but is taken by the other.
    #[test]
    fn a_thread_that_was_kept_goes_when_another_has_taken_the_last_task() {
        let clock = ManualClock::new();
        let (pool, [first, second]) = kept_and_follower(&clock);
        assert!(second.cancel());
        assert_eq!(first.trigger_now(), Steered::Now);
        clock.wait_until_idle();
        assert_eq!((pool.stats().pool_size, pool.stats().active, pool.stats().queued), (2, 1, 0));
        clock.advance(KEEP_ALIVE);
        assert_eq!(pool.stats().pool_size, 1);
        assert!(first.interrupt());
        pool.close().unwrap();
    }
}
