//! A clock that moves only when told, and drives real threads deterministically.
//!
//! # How it knows that nothing is going on
//! Every timed or untimed wait of this crate goes through [`Clock::wait`], so a worker that has nothing to do
//! is *parked here*, with the instant it waits for. The clock counts the worker threads attached to it. When
//! all of them are parked, none has a permit waiting and none waits for an instant that has come, then no body
//! runs, nothing is due, no thread is on its way in or out: the clock is *settled*. It needs no knowledge of
//! executors, queues or tasks, and the next instant at which anything can happen is the earliest one that
//! somebody waits for.
//!
//! # Invariants (guarded by `state`)
//! 1. A thread is in `parked` from before it blocks until it has taken its permit or was released by the clock;
//!    both happen under the lock, so a thread that has been told to go on is never counted as parked.
//! 2. `now` never decreases, and is at most the earliest instant that was waited for when it was set, unless
//!    [`jump`](ManualClock::jump) was asked for. It never reaches the end of time, for which those wait who wait for
//!    something else: paused tasks, futures that nobody has woken.
//!
//! # Protocol of `advance`
//! Settle; find the earliest instant waited for; if it is not after the target, set `now` to it, release whoever
//! waits for it, and begin again; otherwise set `now` to the target. So each body sees `now` exactly at its own
//! deadline, however far the clock is advanced in one call.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use super::Clock;
use crate::park::Parker;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Real time after which a clock that does not settle is taken for a mistake in the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// As far as a clock goes.
const LAST: Tick = Tick::from_nanos(u64::MAX - 1);

/// A clock for tests: time stands still until it is advanced.
///
/// Clones share one clock. Executors on it run their tasks on real threads; [`advance`](Self::advance) returns
/// when everything that came due has run.
///
/// ```
/// use punctual::{Executor, ManualClock};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::{sync::Arc, time::Duration};
///
/// let hour = Duration::from_secs(3600);
/// let clock = ManualClock::new();
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let runs = Arc::new(AtomicU32::new(0));
/// let count = Arc::clone(&runs);
/// pool.schedule_at_fixed_rate(hour, hour, move || { count.fetch_add(1, Ordering::Relaxed); })?;
/// clock.advance(24 * hour);
/// assert_eq!(runs.load(Ordering::Relaxed), 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified whenever a worker parks, starts or stops.
    changed: Condvar,
}

struct State {
    now: Tick,
    /// What the wall clock showed at some instant; it goes on from there.
    wall: (Tick, SystemTime),
    parked: Vec<Parked>,
    /// Worker threads that exist or are being started.
    workers: usize,
    /// Those of them that run, by their parkers. A worker of an executor on another clock may wait here, too.
    crew: Vec<Arc<Parker>>,
    next_ticket: u64,
}

struct Parked {
    ticket: u64,
    until: Option<Tick>,
    parker: Arc<Parker>,
}

impl Parked {
    /// To be called for one that has been taken out of the list.
    fn release(self) {
        self.parker.unpark();
    }
}

impl State {
    /// Invariant 1 makes this exact.
    fn is_settled(&self) -> bool {
        let resting = |p: &&Parked| self.is_crew(&p.parker) && !p.parker.has_permit();
        self.parked.iter().filter(resting).count() == self.workers
    }

    fn is_crew(&self, parker: &Arc<Parker>) -> bool {
        self.crew.iter().any(|other| Arc::ptr_eq(other, parker))
    }

    fn next_instant(&self) -> Option<Tick> {
        self.parked.iter().filter_map(|p| p.until).min()
    }

    /// Takes out everybody whose instant has come.
    fn take_due(&mut self) -> Vec<Parked> {
        let now = self.now;
        let (due, rest) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|p| p.until.is_some_and(|until| until <= now));
        self.parked = rest;
        due
    }
}

impl ManualClock {
    /// A clock that stands at its epoch, and whose wall clock stands at the beginning of 1970.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            now: Tick::ZERO,
            wall: (Tick::ZERO, SystemTime::UNIX_EPOCH),
            parked: Vec::new(),
            workers: 0,
            crew: Vec::new(),
            next_ticket: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Moves the clock by `step`, stopping at every instant that somebody waits for on the way, and returns
    /// when everything due has run.
    ///
    /// However far it is moved, it stops short of [`Tick::MAX`]: the end of time does not come, and what is planned for
    /// it does not run.
    ///
    /// # Panics
    /// If work does not come to rest within a minute of real time: a body blocked on something that only the
    /// caller can give must be driven with [`jump`](Self::jump) instead. Also when called from a task that runs
    /// on this clock, which could never come to rest.
    #[track_caller]
    pub fn advance(&self, step: Duration) {
        let target = self.now().after(step).min(LAST);
        let mut state = self.settle();
        while let Some(next) = state.next_instant().filter(|next| *next <= target) {
            self.move_to(state, next);
            state = self.settle();
        }
        self.move_to(state, target);
        drop(self.settle());
    }

    /// Moves the clock to the next instant that anybody waits for, returns when everything due then has run,
    /// and says how far it moved; `None` if nobody waits for an instant. The end of time is none: it does not come.
    /// A pool in which some thousand tasks wait may also look round a tenth of a second before the first of them is due.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    #[track_caller]
    pub fn advance_to_next(&self) -> Option<Duration> {
        let state = self.refresh();
        let next = state.next_instant().filter(|next| *next <= LAST)?;
        let moved = next.since(state.now);
        self.move_to(state, next);
        drop(self.settle());
        Some(moved)
    }

    /// Moves the clock by `step` at once and returns without waiting for anybody.
    ///
    /// Time does not stop on the way, so what comes due meanwhile is seen to be late. This is how a test makes
    /// a task late, or moves time while a body is blocked.
    pub fn jump(&self, step: Duration) {
        let state = self.shared.state.lock();
        let target = state.now.after(step).min(LAST);
        self.move_to(state, target);
    }

    /// Sets the wall clock, as an administrator does, or a machine that has slept: time itself does not move. The
    /// wall clock goes on from there with the clock.
    ///
    /// ```
    /// use punctual::{Clock, ManualClock};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let (clock, noon) = (ManualClock::new(), SystemTime::UNIX_EPOCH + Duration::from_secs(12 * 3600));
    /// clock.set_wall(noon);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(clock.wall(), noon + Duration::from_secs(60));
    /// ```
    pub fn set_wall(&self, wall: SystemTime) {
        let mut state = self.shared.state.lock();
        state.wall = (state.now, wall);
    }

    /// Waits until every worker on this clock has nothing to do at the present instant.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    #[track_caller]
    pub fn wait_until_idle(&self) {
        drop(self.settle());
    }

    /// Settles, and lets every worker say anew what it waits for: one that waits for a task that has been
    /// cancelled is not woken for that, and would name an instant at which nothing happens.
    #[track_caller]
    fn refresh(&self) -> MutexGuard<'_, State> {
        let mut state = self.settle();
        let parked = std::mem::take(&mut state.parked);
        let (workers, others) = parked.into_iter().partition(|p| state.is_crew(&p.parker));
        state.parked = others;
        drop(state);
        for worker in Vec::into_iter(workers) {
            Parked::release(worker);
        }
        self.settle()
    }

    fn move_to(&self, mut state: MutexGuard<'_, State>, target: Tick) {
        state.now = state.now.max(target);
        let due = state.take_due();
        drop(state);
        due.into_iter().for_each(Parked::release);
    }

    #[track_caller]
    fn settle(&self) -> MutexGuard<'_, State> {
        let mut state = self.shared.state.lock();
        assert!(
            !state.is_crew(&Parker::current()),
            "a task cannot wait for the manual clock to come to rest: it runs on it"
        );
        while !state.is_settled() {
            let (guard, timed_out) = self.shared.changed.wait_timeout(state, PATIENCE);
            state = guard;
            assert!(
                !timed_out || state.is_settled(),
                "the manual clock did not come to rest: a task is still running after {PATIENCE:?} of real time \
                 (use `jump` where a body waits for the test itself)"
            );
        }
        state
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        self.shared.state.lock().now
    }

    fn wall(&self) -> SystemTime {
        let state = self.shared.state.lock();
        let (then, wall) = state.wall;
        wall.checked_add(state.now.since(then)).unwrap_or(wall)
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        let mut state = self.shared.state.lock();
        if parker.take_permit() || until.is_some_and(|until| until <= state.now) {
            return;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.parked.push(Parked { ticket, until, parker: Arc::clone(parker) });
        self.shared.changed.notify_all();
        loop {
            drop(state);
            parker.block();
            state = self.shared.state.lock();
            let position = state.parked.iter().position(|p| p.ticket == ticket);
            let Some(position) = position else {
                // Released by the clock, which left a permit: take it, lest the next wait return for nothing.
                parker.take_permit();
                return;
            };
            if parker.take_permit() {
                state.parked.swap_remove(position);
                return;
            }
        }
    }

    fn worker_started(&self) {
        self.shared.state.lock().workers += 1;
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        self.shared.state.lock().crew.push(Arc::clone(parker));
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        let mut state = self.shared.state.lock();
        state.workers -= 1;
        let place = parker.and_then(|parker| state.crew.iter().position(|other| Arc::ptr_eq(other, parker)));
        if let Some(place) = place {
            state.crew.swap_remove(place);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("ManualClock")
            .field("now", &state.now)
            .field("workers", &state.workers)
            .field("parked", &state.parked.len())
            .finish()
    }
}
