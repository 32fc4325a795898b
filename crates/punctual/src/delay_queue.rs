//! A queue from which values can be taken only when their time has come.
//!
//! The same engine as the executor's and the same rules of waiting ([`Waiting`]), with values instead of tasks
//! and whatever threads call [`take`](DelayQueue::take) instead of workers.
//!
//! # Locks
//! One. Values are moved in and out under it, and dropped after it. The exceptions are
//! [`peek`](DelayQueue::peek) and [`snapshot`](DelayQueue::snapshot), which clone them under it, and
//! [`retain`](DelayQueue::retain), which shows them to its closure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{TaskKey, Tick, TimerQueue};

use crate::clock::{Clock, SystemClock};
use crate::context::Wait;
use crate::error::Interrupted;
use crate::handle::Remaining;
use crate::park::Parker;
use crate::pool::Waiting;
use crate::sync::{Mutex, MutexGuard};
use crate::when::When;

/// An unbounded queue of values that come out when they are due, in exact order of deadline and insertion.
///
/// ```
/// use punctual::DelayQueue;
/// use std::time::Duration;
///
/// let queue = DelayQueue::new();
/// queue.push(Duration::from_millis(2), "second");
/// queue.push(Duration::from_millis(1), "first");
/// let never = queue.push(Duration::MAX, "never");
/// assert_eq!(queue.take()?, "first");
/// assert_eq!(queue.take()?, "second");
/// assert_eq!(queue.try_take(), None);
/// assert_eq!(queue.remove(never), Some("never"));
/// # Ok::<(), punctual::Interrupted>(())
/// ```
///
/// # Coming from Java
/// `DelayQueue`. Elements need not know their delay: it is given when they are put in. An element is named by
/// the key that [`push`](Self::push) returns, and taking it out again is as cheap as putting it in.
pub struct DelayQueue<T> {
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: TimerQueue<T>,
    waiting: Waiting,
    /// Whether a thread is at the upkeep of the queue.
    tends: bool,
    next: u64,
}

/// Names one value in a [`DelayQueue`]; stale once the value has left.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DelayKey(TaskKey);

/// A value in a [`DelayQueue`], as it was when somebody looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delayed<T> {
    /// Names it.
    pub key: DelayKey,
    /// The instant from which it can be taken.
    pub deadline: Tick,
    /// How long until then, or since.
    pub remaining: Remaining,
    /// The value.
    pub value: T,
}

impl<T> DelayQueue<T> {
    /// An empty queue on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty queue on `clock`.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        let state = State { queue: TimerQueue::new(), waiting: Waiting::default(), tends: false, next: 0 };
        Self { clock: Arc::new(clock), state: Mutex::new(state) }
    }

    /// Puts `value` in, to come out after a `Duration` or at a [`Tick`] of the queue's clock. A `SystemTime` is
    /// translated once, by the wall clock as it is now.
    pub fn push(&self, when: impl Into<When>, value: T) -> DelayKey {
        let now = self.clock.now();
        let deadline = when.into().tick(now, &*self.clock);
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let is_first = state.queue.next_deadline().is_none_or(|first| deadline < first);
        let key = state.queue.insert(deadline, number, value);
        let wake = match (is_first, deadline <= now) {
            (true, true) => state.waiting.call_for_due(),
            (true, false) => state.waiting.call_to_lead(),
            (false, _) => None,
        };
        drop(state);
        unpark(wake);
        DelayKey(key)
    }

    /// [`push`](Self::push) with a delay.
    pub fn push_after(&self, delay: Duration, value: T) -> DelayKey {
        self.push(delay, value)
    }

    // ---- taking what is due

    /// Waits for the earliest value to be due and takes it.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling task is interrupted. Outside a task that cannot happen.
    pub fn take(&self) -> Result<T, Interrupted> {
        let value = self.take_until(None)?;
        Ok(value.expect("a wait without end has one result"))
    }

    /// As [`take`](Self::take), but `None` if nothing has become due within `timeout`.
    ///
    /// # Errors
    /// [`Interrupted`] if the calling task is interrupted.
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<T>, Interrupted> {
        self.take_until(Some(self.clock.now().after(timeout)))
    }

    /// The earliest value, if it is due.
    pub fn try_take(&self) -> Option<T> {
        let now = self.clock.now();
        self.pop(self.state.lock(), now)
    }

    pub(crate) fn take_until(&self, until: Option<Tick>) -> Result<Option<T>, Interrupted> {
        let wait = Wait::begin();
        if wait.is_interrupted() {
            return Err(Interrupted);
        }
        let mut state = self.state.lock();
        loop {
            let now = self.clock.now();
            let next = state.queue.next_deadline();
            let over = until.is_some_and(|until| until <= now);
            let interrupted = wait.is_interrupted();
            if interrupted || over || next.is_some_and(|next| next <= now) {
                if interrupted {
                    // Whatever this thread was called for is somebody else's now.
                    let wake = state.waiting.hand_on(next, now);
                    drop(state);
                    unpark(wake);
                    return Err(Interrupted);
                }
                return Ok(self.pop(state, now));
            }
            if state.queue.can_tend_ahead() && !state.tends {
                // As the workers of an executor do: see `pool/worker.rs`.
                state.tends = true;
                state.waiting.will_look();
                state.queue.tend_ahead();
                drop(state);
                state = self.state.lock();
                state.waiting.has_looked();
                state.tends = false;
                continue;
            }
            let lead = next.filter(|next| state.waiting.leads(*next));
            match lead {
                Some(next) => state.waiting.lead(&wait.parker, next),
                None => state.waiting.follow(&wait.parker),
            }
            drop(state);
            self.clock.wait(&wait.parker, lead.into_iter().chain(until).min());
            state = self.state.lock();
            state.waiting.leave(&wait.parker);
        }
    }

    /// Takes the earliest if it is due, and hands on what remains.
    fn pop(&self, mut state: MutexGuard<'_, State<T>>, now: Tick) -> Option<T> {
        let fired = state.queue.pop_due(now);
        let next = state.queue.next_deadline();
        let wake = state.waiting.hand_on(next, now);
        drop(state);
        unpark(wake);
        fired.map(|fired| fired.value)
    }

    /// Takes up to `most` values that are due, in order.
    pub fn drain_due(&self, most: usize) -> Vec<T> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while due.len() < most {
            let Some(fired) = state.queue.pop_due(now) else { break };
            due.push(fired.value);
        }
        let next = state.queue.next_deadline();
        let wake = state.waiting.hand_on(next, now);
        drop(state);
        unpark(wake);
        due
    }

    // ---- all values, due or not

    /// Takes everything, due or not, in order.
    pub fn drain(&self) -> Vec<T> {
        let drained = self.state.lock().queue.drain();
        drained.into_iter().map(|fired| fired.value).collect()
    }

    /// Drops everything.
    pub fn clear(&self) {
        drop(self.drain());
    }

    /// Takes one value out, due or not; `None` if it has left.
    pub fn remove(&self, key: DelayKey) -> Option<T> {
        self.state.lock().queue.cancel(key.0)
    }

    /// Drops every value, due or not, that `keep` refuses; says how many. The keys of the others stay good.
    ///
    /// The values are shown under the queue's lock: `keep` must not use the queue. If it panics, nothing has gone.
    ///
    /// ```
    /// use punctual::DelayQueue;
    /// use std::time::Duration;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let queue: DelayQueue<u32> = (1..=6).map(|n| (n * hour, n)).collect();
    /// assert_eq!(queue.retain(|n| n % 2 == 0), 3);
    /// assert_eq!(queue.drain(), [2, 4, 6]);
    /// ```
    ///
    /// # Coming from Java
    /// `removeIf`, `removeAll` and `retainAll`.
    pub fn retain(&self, mut keep: impl FnMut(&T) -> bool) -> usize {
        let mut state = self.state.lock();
        let refused: Vec<TaskKey> =
            state.queue.iter().filter(|entry| !keep(entry.value)).map(|entry| entry.key).collect();
        let gone: Vec<T> = refused.into_iter().filter_map(|key| state.queue.cancel(key)).collect();
        drop(state);
        gone.len()
    }

    /// Whether the value is still here.
    #[must_use]
    pub fn contains(&self, key: DelayKey) -> bool {
        self.state.lock().queue.contains(key.0)
    }

    /// How many values there are, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Whether there is no value, due or not.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long until the earliest value is due, or since; `None` if there is no value.
    #[must_use]
    pub fn next_in(&self) -> Option<Remaining> {
        let now = self.clock.now();
        let next = self.state.lock().queue.next_deadline()?;
        Some(Remaining::between(now, next))
    }

    /// A copy of the earliest value, due or not.
    ///
    /// The value is cloned under the queue's lock: its `Clone` must not use the queue.
    #[must_use]
    pub fn peek(&self) -> Option<Delayed<T>>
    where
        T: Clone,
    {
        let now = self.clock.now();
        let state = self.state.lock();
        let (key, deadline, _, value) = state.queue.peek()?;
        let value = value.clone();
        Some(Delayed { key: DelayKey(key), deadline, remaining: Remaining::between(now, deadline), value })
    }

    /// Copies of all values, in order. A picture: it does not change, and the queue does not wait.
    ///
    /// The values are cloned under the queue's lock: their `Clone` must not use the queue.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Delayed<T>>
    where
        T: Clone,
    {
        let now = self.clock.now();
        let state = self.state.lock();
        let mut all: Vec<(u64, Delayed<T>)> = Vec::with_capacity(state.queue.len());
        for entry in state.queue.iter() {
            let remaining = Remaining::between(now, entry.deadline);
            let (key, deadline, value) = (DelayKey(entry.key), entry.deadline, entry.value.clone());
            all.push((entry.number, Delayed { key, deadline, remaining, value }));
        }
        drop(state);
        all.sort_by_key(|(number, delayed)| (delayed.deadline, *number));
        all.into_iter().map(|(_, delayed)| delayed).collect()
    }
}

fn unpark(wake: Option<Arc<Parker>>) {
    if let Some(parker) = wake {
        parker.unpark();
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, W: Into<When>> FromIterator<(W, T)> for DelayQueue<T> {
    fn from_iter<I: IntoIterator<Item = (W, T)>>(items: I) -> Self {
        let queue = Self::new();
        (&queue).extend(items);
        queue
    }
}

impl<T, W: Into<When>> Extend<(W, T)> for DelayQueue<T> {
    fn extend<I: IntoIterator<Item = (W, T)>>(&mut self, items: I) {
        (&*self).extend(items);
    }
}

impl<T, W: Into<When>> Extend<(W, T)> for &DelayQueue<T> {
    fn extend<I: IntoIterator<Item = (W, T)>>(&mut self, items: I) {
        for (when, value) in items {
            self.push(when, value);
        }
    }
}

impl<T: fmt::Debug + Clone> fmt::Debug for DelayQueue<T> {
    /// The values, in order, as a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot().into_iter().map(|delayed| delayed.value)).finish()
    }
}
