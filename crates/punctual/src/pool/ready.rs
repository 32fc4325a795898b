//! Due tasks that are laid out for the workers, and what each of them has in hand.
//!
//! Where tasks fall due faster than they are run, a worker that comes for the next would take the pool's lock for each of
//! them, and so would whoever brings more: they would be in each other's way all the time, and one of them asleep. So a
//! worker that finds several due lays out some of them here, behind a lock of its own that is held for a few instructions.
//! Whoever is next takes the first. Meanwhile the pool's lock is free for sorting in what comes.
//!
//! It is no batch of anybody's: every worker takes from it, one task at a time, so a body that blocks holds nothing back.
//!
//! # Invariants
//! 1. What is laid out is in order, was due when it was laid out, and comes before all that is in the queue. Whoever queues
//!    something that does not come after it takes it back first ([`Core::collect`](super::core::Core::collect)).
//! 2. Tasks are laid out under the pool's lock, and only while no worker is idle, none can be added, and submissions need not
//!    be decided there. So nobody waits while something is laid out, and nothing has to be decided when it is taken.
//! 3. Whoever holds both the pool's lock and the inbox has taken back what was laid out, so for him everything that waits is
//!    in the queue, and nobody takes anything.
//! 4. A worker takes what is laid out only if nothing in the inbox is due before it; so the order is exact.
//! 5. What a worker has in hand is noted in the same step in which it is taken.
//!
//! # Protocol
//! - *A worker* takes the first, if 4 allows it; otherwise it takes the pool's lock. If nothing is laid out there, it takes
//!   the first task of the queue, and if more are due and 2 allows it, it lays out a portion.
//! - *A cancel* of a task that is laid out takes it from here, if it takes the pool's lock; otherwise whoever comes to take it,
//!   or takes back what is left, finds that it is cancelled, and has nothing of anybody's any more.
//! - *How many:* one, then twice as many each time, up to [`MOST`]; one again if some had to be taken back: where others hold
//!   both locks all the time, hardly anything is.
//!
//! # Lock order
//! This lock is taken after the pool's and that of the inbox, and before a task's own.
//!
//! # Cost
//! The lock of a worker costs what the pool's did; what is gained is that nobody else wants it, and that the memory of a whole
//! portion is on its way to the worker's cache before the first of it runs. A million tasks due within 100 ms, one worker: 3.1
//! to 3.4 million a second.
//!
//! # Paths not taken
//! *Submissions that sort in what they bring while workers run,* since the pool's lock is free for that: a submission takes 190
//! ns instead of 160, and the whole is slower; whoever submits is what the end waits for. *An inbox of 2,048:* nothing more.

use std::iter::Flatten;
use std::slice;

use punctual_engine::{Fired, Tick};

use super::control::with_turn;
use super::tally::Tally;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::task::{Half, TaskRef, Turn};

/// How many are laid out at most.
pub(super) const MOST: usize = if cfg!(punctual_loom) { 2 } else { 64 };

/// On lines of its own: workers write to it for every task.
#[repr(align(128))]
pub(super) struct Ready {
    /// How many are laid out, written under the lock: nobody takes it for nothing.
    count: AtomicUsize,
    table: Mutex<Table>,
}

struct Table {
    /// The last first, so that the first is at the end.
    laid: Vec<Fired<TaskRef>>,
    /// What each worker has taken, so that a stop can interrupt it.
    hands: Vec<Option<(Half, Turn)>>,
}

/// What workers have in hand, one after the other.
type Hands<'a> = Flatten<slice::Iter<'a, Option<(Half, Turn)>>>;

/// A task that a worker has taken, and the note of the one before it, unless that was struck out.
pub(super) struct Taken {
    pub(super) task: Half,
    pub(super) turn: Turn,
    /// When it was due in the queue.
    pub(super) due: Tick,
    pub(super) before: Option<Half>,
}

impl Ready {
    pub(super) fn new() -> Self {
        let table = Table { laid: Vec::with_capacity(MOST), hands: Vec::new() };
        Self { count: AtomicUsize::new(0), table: Mutex::new(table) }
    }

    /// The first of what is laid out, for the worker at this place, if the inbox is `clear` so far.
    #[inline]
    pub(super) fn take(
        &self,
        index: usize,
        tally: &Tally,
        clear: impl FnOnce() -> Option<Tick>,
    ) -> Option<Taken> {
        // Relaxed: if there is more than it says, that is found under the pool's lock.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut table = self.table.lock();
        let first = table.laid.last()?;
        if clear().is_none_or(|clear| first.deadline > clear) {
            return None;
        }
        let fired = table.laid.pop()?;
        self.count.store(table.laid.len(), Ordering::Relaxed);
        Some(table.hand(index, tally, fired))
    }

    /// Notes what the worker at this place has taken from the queue.
    pub(super) fn note(&self, index: usize, tally: &Tally, fired: Fired<TaskRef>) -> Taken {
        self.table.lock().hand(index, tally, fired)
    }

    /// Lays out what `next` gives, so many at most. Nothing is laid out.
    pub(super) fn lay_out(&self, most: usize, mut next: impl FnMut() -> Option<Fired<TaskRef>>) {
        let mut table = self.table.lock();
        while table.laid.len() < most {
            let Some(fired) = next() else { break };
            table.laid.push(fired);
        }
        table.laid.reverse();
        self.count.store(table.laid.len(), Ordering::Relaxed);
    }

    /// Takes back what is left, the last first.
    pub(super) fn collect(&self, taken: impl FnMut(Fired<TaskRef>)) {
        let mut table = self.table.lock();
        table.laid.drain(..).for_each(taken);
        self.count.store(0, Ordering::Relaxed);
    }

    /// Takes back one task, if it is laid out.
    pub(super) fn remove(&self, is_it: impl Fn(&TaskRef) -> bool) -> Option<TaskRef> {
        let mut table = self.table.lock();
        let place = table.laid.iter().position(|fired| is_it(&fired.value))?;
        let fired = table.laid.remove(place);
        self.count.store(table.laid.len(), Ordering::Relaxed);
        Some(fired.value)
    }

    // ---- what workers have in hand

    /// There is a worker at this place, with nothing in hand.
    pub(super) fn add(&self, index: usize) {
        let mut table = self.table.lock();
        if table.hands.len() <= index {
            table.hands.resize_with(index + 1, || None);
        }
    }

    /// Strikes out what the worker at this place has in hand.
    pub(super) fn strike_out(&self, index: usize) -> Option<Half> {
        self.table.lock().hands[index].take().map(|(noted, _)| noted)
    }

    /// What the worker at this place has in hand.
    pub(super) fn in_hand(&self, index: usize) -> Option<(TaskRef, Turn)> {
        let table = self.table.lock();
        table.hands[index].as_ref().map(|(task, turn)| (TaskRef::clone(task), *turn))
    }

    /// What the worker at this place has in hand is for another instant than it was queued for.
    pub(super) fn replan(&self, index: usize, planned: Tick) {
        if let Some((_, turn)) = self.table.lock().hands[index].as_mut() {
            turn.deadline = planned;
        }
    }

    /// Looks at all that workers have in hand.
    pub(super) fn hands<R>(&self, look: impl FnOnce(Hands<'_>) -> R) -> R {
        look(self.table.lock().hands.iter().flatten())
    }
}

impl Table {
    #[inline]
    fn hand(&mut self, index: usize, tally: &Tally, fired: Fired<TaskRef>) -> Taken {
        let due = fired.deadline;
        let (task, turn) = with_turn(fired);
        let (task, noted) = task.halve();
        tally.begin();
        let before = self.hands[index].replace((noted, turn)).map(|(before, _)| before);
        Taken { task, turn, due, before }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::MOST;
    use crate::{Executor, ManualClock, TaskHandle, TaskState, Tick};

    const STEP: Duration = Duration::from_secs(1);
    const MANY: usize = 5 * MOST;
    /// The one that blocks: enough have been taken before it for more than a few to be laid out.
    const BLOCKS: usize = 3 * MOST;

    type Log = Arc<Mutex<Vec<usize>>>;

    /// A pool that runs `MANY` tasks, one due after the other and all of them due now; the worker is at the one that blocks.
    struct Blocked {
        pool: Executor,
        clock: ManualClock,
        ran: Log,
        tasks: Vec<TaskHandle<usize>>,
        go_on: Sender<()>,
    }

    impl Blocked {
        fn new(workers: usize) -> Self {
            let clock = ManualClock::new();
            let pool = Executor::builder().core_threads(workers).clock(clock.clone()).build().unwrap();
            pool.prestart_all_core_threads();
            clock.wait_until_idle();
            let ran = Log::default();
            let ((go_on, gate), (at_gate, arrived)) = (mpsc::channel(), mpsc::channel());
            let mut gate = Some((at_gate, gate));
            let mut schedule = |number: usize| {
                let (ran, gate) = (Arc::clone(&ran), (number == BLOCKS).then(|| gate.take()).flatten());
                let body = move || {
                    ran.lock().unwrap().push(number);
                    pass(gate);
                    number
                };
                pool.schedule(STEP * number as u32, body).unwrap()
            };
            let tasks = (1..=MANY).map(&mut schedule).collect();
            clock.jump(STEP * MANY as u32);
            arrived.recv().unwrap();
            Self { pool, clock, ran, tasks, go_on }
        }

        fn laid_out(&self) -> usize {
            self.pool.pool().core.lock_alone().ready.count.load(Relaxed)
        }

        /// What has run when all of it has, with one worker.
        fn end(self) -> Vec<usize> {
            self.go_on.send(()).unwrap();
            self.clock.wait_until_idle();
            self.pool.close().unwrap();
            let ran = self.ran.lock().unwrap();
            ran.clone()
        }
    }

    fn pass(gate: Option<(Sender<()>, Receiver<()>)>) {
        if let Some((at_gate, gate)) = gate {
            at_gate.send(()).unwrap();
            gate.recv().unwrap();
        }
    }

    #[test]
    fn what_is_laid_out_is_run_in_order() {
        let blocked = Blocked::new(1);
        assert!((1..=MOST).contains(&blocked.laid_out()), "{} are laid out", blocked.laid_out());
        assert_eq!(blocked.end(), Vec::from_iter(1..=MANY));
    }

    #[test]
    fn whoever_looks_sees_what_is_laid_out_and_nobody_misses_it_after() {
        let blocked = Blocked::new(1);
        assert!(blocked.laid_out() > 0);
        assert_eq!(blocked.pool.stats().queued, MANY - BLOCKS);
        assert_eq!(blocked.laid_out(), 0, "it is in the queue");
        assert_eq!(blocked.pool.tasks().len(), MANY - BLOCKS + 1);
        assert_eq!(blocked.end(), Vec::from_iter(1..=MANY));
    }

    #[test]
    fn what_is_cancelled_while_it_is_laid_out_is_gone() {
        let blocked = Blocked::new(1);
        assert!(blocked.laid_out() > 2);
        for task in &blocked.tasks[BLOCKS..BLOCKS + 2] {
            assert!(task.cancel());
            assert!(!task.is_queued());
        }
        let stats = blocked.pool.stats();
        assert_eq!((stats.queued, stats.cancelled), (MANY - BLOCKS - 2, 2));
        assert_eq!(blocked.end(), Vec::from_iter((1..=BLOCKS).chain(BLOCKS + 3..=MANY)));
    }

    #[test]
    fn a_stop_returns_what_is_laid_out_in_order() {
        let blocked = Blocked::new(1);
        assert!(blocked.laid_out() > 0);
        let unrun = blocked.pool.shutdown_now();
        let ids: Vec<_> = unrun.iter().map(|task| task.id()).collect();
        let expected: Vec<_> = blocked.tasks[BLOCKS..].iter().map(TaskHandle::id).collect();
        assert_eq!(ids, expected);
        drop(unrun);
        assert!(blocked.tasks[BLOCKS..].iter().all(|task| task.state() == TaskState::Abandoned));
        assert_eq!(blocked.end(), Vec::from_iter(1..=BLOCKS));
    }

    /// No batch of the worker's own: a body that blocks holds nothing back.
    #[test]
    fn another_worker_takes_what_is_laid_out() {
        let blocked = Blocked::new(2);
        blocked.tasks.iter().filter(|task| task.id() != blocked.tasks[BLOCKS - 1].id()).for_each(|task| {
            task.wait().unwrap();
        });
        assert_eq!(blocked.tasks[BLOCKS - 1].state(), TaskState::Running);
        let mut ran = blocked.end();
        ran.sort_unstable();
        assert_eq!(ran, Vec::from_iter(1..=MANY));
    }

    /// Invariant 4.
    #[test]
    fn what_is_in_the_inbox_and_due_before_comes_first() {
        let blocked = Blocked::new(1);
        assert!(blocked.laid_out() > 0);
        let ran = Arc::clone(&blocked.ran);
        let long_ago = Tick::ZERO.after(STEP);
        drop(blocked.pool.task(move || ran.lock().unwrap().push(0)).first(long_ago).start().unwrap());
        assert!(blocked.laid_out() > 0, "it is in the inbox");
        assert_eq!(blocked.end(), Vec::from_iter((1..=BLOCKS).chain([0]).chain(BLOCKS + 1..=MANY)));
    }

    /// Invariant 1: each run of the periodic task comes between two others that are laid out before it is queued.
    #[test]
    fn what_is_queued_late_comes_before_what_is_laid_out() {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
        pool.prestart_all_core_threads();
        let ran = Log::default();
        let log = |number: usize| {
            let ran = Arc::clone(&ran);
            move || ran.lock().unwrap().push(number)
        };
        // With odd numbers. In the first half it is not due, so there is something laid out when it is.
        let (mut number, noted) = (MANY - 1, Arc::clone(&ran));
        let beat = pool.schedule_at_fixed_rate(STEP * MANY as u32, 2 * STEP, move || {
            number += 2;
            noted.lock().unwrap().push(number - 1);
        });
        let beat = beat.unwrap();
        for number in (1..=2 * MANY).filter(|number| *number < MANY || number % 2 == 1) {
            drop(pool.schedule(STEP * number as u32, log(number)).unwrap());
        }
        clock.jump(STEP * 2 * MANY as u32);
        clock.wait_until_idle();
        beat.cancel();
        pool.close().unwrap();
        assert_eq!(*ran.lock().unwrap(), Vec::from_iter(1..=2 * MANY));
    }
}
