//! A task without an executor: run by whatever thread has it.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use punctual_engine::Tick;

use crate::clock::{Clock, SystemClock};
use crate::context::{Enter, Host};
use crate::error::{Panic, TaskError, WaitError};
use crate::sync::Mutex;
use crate::task::{
    Body, Ended, EndedEarly, Large, LargeOnce, Many, Once, Owner, Run, TaskRef, TaskState, Turn, TypedRef,
    allocate_plain, is_large, join, wait_for,
};

/// A computation that any thread may run, cancel, complete by hand or wait for.
///
/// ```
/// use punctual::FutureTask;
/// use std::sync::Arc;
///
/// let task = Arc::new(FutureTask::new(|| 6 * 7));
/// let runner = Arc::clone(&task);
/// std::thread::spawn(move || runner.run());
/// assert_eq!(task.join()?, 42);
/// # Ok::<(), punctual::WaitError>(())
/// ```
///
/// # Coming from Java
/// `FutureTask`; `done` is the hook given to [`on_done`](Self::on_done). The value is taken by move, so one of
/// several waiters gets it; [`wait`](Self::wait) is for the others.
pub struct FutureTask<T> {
    task: TypedRef<T>,
    erased: TaskRef,
    repeatable: bool,
    clock: Arc<dyn Clock>,
    hook: Mutex<Option<Hook>>,
}

type Hook = Box<dyn FnOnce(TaskState) + Send>;

fn typed<T, B>((owner, task): (Owner<T, B>, TaskRef)) -> (TypedRef<T>, TaskRef)
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    (owner.into_typed(), task)
}

impl<T: Send + 'static> FutureTask<T> {
    /// A task that runs `body` once.
    pub fn new(body: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::of_once(body)
    }

    fn of_once<F: FnOnce() -> T + Send + 'static>(body: F) -> Self {
        match is_large::<F>() {
            true => Self::of(LargeOnce(Box::new(body)), false),
            false => Self::of(Once(body), false),
        }
    }

    /// A task that may be [run and reset](Self::run_and_reset) any number of times.
    pub fn repeatable(body: impl FnMut() -> T + Send + 'static) -> Self {
        Self::of(Many(body), true)
    }

    fn of<B: Body<T> + 'static>(body: B, repeatable: bool) -> Self {
        let (task, erased) = match is_large::<B>() {
            true => typed(allocate_plain(Large::new(body))),
            false => typed(allocate_plain(body)),
        };
        Self { task, erased, repeatable, clock: Arc::new(SystemClock::new()), hook: Mutex::new(None) }
    }

    /// Calls `hook` once, when the task is done, in the thread that got it there and after waiters have been
    /// released. If it panics, the panic reaches whoever ended the task; the outcome stands. A task that is
    /// dropped without having ended drops the hook uncalled.
    #[must_use]
    pub fn on_done(self, hook: impl FnOnce(TaskState) + Send + 'static) -> Self {
        *self.hook.lock() = Some(Box::new(hook));
        self
    }

    /// Lets timed waits, and the body's [sleep](crate::TaskContext::sleep), go by `clock`. By default they go by the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Runs the body and keeps its value, unless the task is running or done; says whether it ran.
    ///
    /// A panic of the body is kept as the outcome.
    pub fn run(&self) -> bool {
        match self.perform(false) {
            Ended::Skipped => false,
            Ended::Late => true,
            Ended::Finished | Ended::Again => {
                self.call_hook();
                true
            }
        }
    }

    /// Runs the body of a [`repeatable`](Self::repeatable) task, drops its value and leaves the task as it was;
    /// says whether it may be run again.
    ///
    /// False if the task is running or done, if the body panicked (which ends the task), or if it was cancelled
    /// meanwhile. For a task made by [`new`](Self::new) it is always false, and nothing is run.
    pub fn run_and_reset(&self) -> bool {
        if !self.repeatable {
            return false;
        }
        match self.perform(true) {
            Ended::Again => self.task.re_arm(),
            Ended::Skipped | Ended::Late => false,
            Ended::Finished => {
                self.call_hook();
                false
            }
        }
    }

    fn perform(&self, again: bool) -> Ended {
        let _enter = Enter::new(self.erased.clone(), Turn::NONE, Host::Nobody(Arc::clone(&self.clock)));
        let (turn, started) = (Turn::NONE, Tick::ZERO);
        let run = Run { observer: None, reporter: None, turn, started, again, count: &|| (), judge: None };
        self.erased.perform(&run)
    }

    /// Completes the task with `value`, whether it has been run or not.
    ///
    /// # Errors
    /// Returns `value` if the task is done.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.task.complete(Ok(value)) {
            Ok(()) => {
                self.call_hook();
                Ok(())
            }
            Err(Ok(value)) => Err(value),
            Err(Err(_)) => unreachable!("a value was offered"),
        }
    }

    /// Completes the task with a failure, whether it has been run or not; false if it is done.
    pub fn fail(&self, panic: Panic) -> bool {
        let failed = self.task.complete(Err(TaskError::Panicked(panic))).is_ok();
        if failed {
            self.call_hook();
        }
        failed
    }

    /// Cancels the task; false if it is done. A running body goes on, and its value is dropped.
    pub fn cancel(&self) -> bool {
        let cancelled = self.end_cancelled();
        if cancelled {
            self.call_hook();
        }
        cancelled
    }

    /// Cancels the task and asks a running body to stop; false if it is done.
    pub fn interrupt(&self) -> bool {
        let cancelled = self.end_cancelled();
        if cancelled {
            self.task.interrupt();
            self.call_hook();
        }
        cancelled
    }

    fn end_cancelled(&self) -> bool {
        matches!(self.task.end(TaskError::Cancelled, &mut |_| ()), EndedEarly::Yes(_))
    }

    /// To be called by the one call that ended the task, and by no other: the hook is its thread's.
    fn call_hook(&self) {
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook(self.state());
        }
    }

    // ---- looking and waiting: as on a handle

    /// Where the task is in its life.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.task.state()
    }

    /// Whether the task is over, in whatever way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }

    /// Whether the task was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state() == TaskState::Cancelled
    }

    /// Why the task has no value, if it is over and has none. May be asked any number of times.
    #[must_use]
    pub fn failure(&self) -> Option<TaskError> {
        self.task.failure()
    }

    /// As [`TaskHandle::join`](crate::TaskHandle::join).
    ///
    /// # Errors
    /// As there.
    pub fn join(&self) -> Result<T, WaitError> {
        join(&*self.task, None, &*self.clock, None)
    }

    /// As [`TaskHandle::join_timeout`](crate::TaskHandle::join_timeout).
    ///
    /// # Errors
    /// As there.
    pub fn join_timeout(&self, timeout: Duration) -> Result<T, WaitError> {
        join(&*self.task, None, &*self.clock, Some(self.clock.now().after(timeout)))
    }

    /// Takes the outcome if the task is over; never blocks.
    #[must_use]
    pub fn try_join(&self) -> Option<Result<T, TaskError>> {
        self.task.take()
    }

    /// As [`TaskHandle::wait`](crate::TaskHandle::wait).
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<(), WaitError> {
        wait_for(&*self.erased, None, &*self.clock, None)
    }

    /// As [`TaskHandle::wait_timeout`](crate::TaskHandle::wait_timeout).
    ///
    /// # Errors
    /// As there.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        let until = self.clock.now().after(timeout);
        wait_for(&*self.erased, None, &*self.clock, Some(until))
    }

    /// Wakes `waker` when the task is done; false, and nothing kept, if it is done already.
    pub fn notify(&self, waker: &Waker) -> bool {
        self.task.listen(waker)
    }
}

impl<T> Drop for FutureTask<T> {
    /// Whoever waits has borrowed it, so nobody does; what is left are wakers.
    fn drop(&mut self) {
        let dropped = TaskError::Abandoned(crate::error::Abandoned::Dropped);
        let _ = self.erased.end(dropped, &mut |_| ());
    }
}

impl<T: Send + 'static> fmt::Debug for FutureTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("FutureTask");
        out.field("state", &self.state());
        if let Some(panic) = self.failure().as_ref().and_then(TaskError::panic) {
            out.field("panic", &panic.message());
        }
        out.finish()
    }
}
