//! Results in the order in which they are ready.
//!
//! Every handle that is put in gets a number and leaves a waker with its task. The waker puts the number into
//! `ready` and wakes one taker. A handle is in `pending` from the moment it is put in until somebody takes it,
//! so a number in `ready` always has its handle.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use punctual_engine::Tick;

use crate::clock::{Clock, SystemClock};
use crate::context::Wait;
use crate::error::{Interrupted, Rejected};
use crate::handle::TaskHandle;
use crate::scheduler::Scheduler;
use crate::sync::Mutex;

/// Collects handles and gives them back in the order in which their tasks end.
///
/// ```
/// use punctual::{CompletionQueue, Executor};
///
/// let pool = Executor::new(2);
/// let queue = CompletionQueue::new();
/// for n in 1..=3 {
///     queue.submit(&pool, move || n * n)?;
/// }
/// let mut sum = 0;
/// while let Some(handle) = queue.take()? {
///     sum += handle.join()?;
/// }
/// assert_eq!(sum, 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Coming from Java
/// `ExecutorCompletionService`. [`take`](Self::take) does not block when nothing is outstanding.
pub struct CompletionQueue<T> {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    next: u64,
    pending: BTreeMap<u64, TaskHandle<T>>,
    ready: VecDeque<u64>,
    takers: Vec<Waker>,
}

/// Tells the queue that the task with this number is done.
struct Done<T> {
    number: u64,
    shared: Arc<Shared<T>>,
}

impl<T: Send + 'static> Wake for Done<T> {
    fn wake(self: Arc<Self>) {
        let mut state = self.shared.state.lock();
        state.ready.push_back(self.number);
        // All of them: the one it is for may be about to give up.
        let takers = std::mem::take(&mut state.takers);
        drop(state);
        takers.into_iter().for_each(Waker::wake);
    }
}

impl<T: Send + 'static> CompletionQueue<T> {
    /// An empty queue whose timed waits go by the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty queue whose timed waits go by `clock`.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        let state = State { next: 0, pending: BTreeMap::new(), ready: VecDeque::new(), takers: Vec::new() };
        Self { clock: Arc::new(clock), shared: Arc::new(Shared { state: Mutex::new(state) }) }
    }

    /// Puts a handle in.
    pub fn push(&self, handle: TaskHandle<T>) {
        let task = handle.typed();
        let mut state = self.shared.state.lock();
        let number = state.next;
        state.next += 1;
        state.pending.insert(number, handle);
        drop(state);
        let done = Waker::from(Arc::new(Done { number, shared: Arc::clone(&self.shared) }));
        if !task.listen(&done) {
            done.wake();
        }
    }

    /// Submits `task` to `scheduler` and puts its handle in.
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    pub fn submit<F>(&self, scheduler: &Scheduler, task: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.push(scheduler.submit(task)?);
        Ok(())
    }

    /// How many handles are in the queue, done or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().pending.len()
    }

    /// Whether nothing is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next handle whose task is done, if there is one now.
    pub fn try_take(&self) -> Option<TaskHandle<T>> {
        let mut state = self.shared.state.lock();
        let number = state.ready.pop_front()?;
        state.pending.remove(&number)
    }

    /// Waits for the next task to be done; `None` if nothing is outstanding.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling task is interrupted.
    pub fn take(&self) -> Result<Option<TaskHandle<T>>, Interrupted> {
        self.take_until(None)
    }

    /// As [`take`](Self::take), but `None` also when `timeout` is over.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling task is interrupted.
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<TaskHandle<T>>, Interrupted> {
        self.take_until(Some(self.clock.now().after(timeout)))
    }

    pub(crate) fn take_until(&self, until: Option<Tick>) -> Result<Option<TaskHandle<T>>, Interrupted> {
        let wait = Wait::begin();
        loop {
            let mut state = self.shared.state.lock();
            if let Some(number) = state.ready.pop_front() {
                return Ok(state.pending.remove(&number));
            }
            if state.pending.is_empty() {
                return Ok(None);
            }
            state.takers.push(wait.waker().clone());
            drop(state);
            let interrupted = wait.is_interrupted();
            let over = until.is_some_and(|until| until <= self.clock.now());
            if !interrupted && !over {
                self.clock.wait(&wait.parker, until);
            }
            self.shared.state.lock().takers.retain(|taker| !taker.will_wake(wait.waker()));
            if interrupted {
                return Err(Interrupted);
            }
            if over {
                return Ok(self.try_take());
            }
        }
    }

    /// Interrupts every task that is not done, the one put in last first; says how many. Their handles come out
    /// as cancelled.
    pub fn interrupt_all(&self) -> usize {
        // Interrupting wakes us, and needs no lock of ours.
        let state = self.shared.state.lock();
        let tasks: Vec<_> = state.pending.values().rev().map(TaskHandle::another).collect();
        drop(state);
        tasks.iter().filter(|handle| handle.interrupt()).count()
    }
}

impl<T: Send + 'static> Default for CompletionQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for CompletionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("CompletionQueue")
            .field("outstanding", &state.pending.len())
            .field("ready", &state.ready.len())
            .finish_non_exhaustive()
    }
}
