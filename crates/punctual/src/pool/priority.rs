//! Tasks with a head start, found among those that are due.
//!
//! The queue stays as it is: one order, by (deadline, number), with every task in it. Beside it the tasks with a
//! [`Priority`] are indexed, by head start and deadline. Whoever takes a task compares the first of the queue with the
//! first due one of each head start, and takes whichever ranks first out of the queue. There are as many head starts as
//! the program has kinds of urgency: a few.
//!
//! # Invariants (guarded by the pool's lock)
//! 1. While `on`, every queued task with a priority is in the index, under the deadline it is queued for.
//! 2. The index holds keys and no tasks. A key goes stale when its task leaves the queue; such entries go when they are
//!    met, or when they are more than the others. A head start goes with its last entry, so one that is computed anew
//!    for each task costs nothing when the task is gone.
//!
//! # Cost
//! Nothing until the first task with a priority comes. From then on a comparison for each head start and task taken,
//! and the clock is read for each: what came due a moment ago may be the most urgent.
//!
//! # Paths not taken
//! The head start in the queue's order: then a task would reach the front before it is due. A second queue for what is
//! due: everything that looks through the queue (cancel, drain, list, count) would have to look through two.

use std::collections::{BTreeMap, BTreeSet};

use punctual_engine::{Fired, TaskKey, Tick, TimerQueue};

use super::core::Core;
use super::queued::Queued;
use crate::policy::Priority;
use crate::task::{Header, TaskRef};

/// Stale entries that are not worth looking for.
const TOLERATED: usize = 64;

#[derive(Default)]
pub(super) struct Priorities {
    on: bool,
    levels: BTreeMap<Priority, BTreeSet<Place>>,
    len: usize,
}

/// Where a task is in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    deadline: Tick,
    number: u64,
    key: u64,
}

impl Place {
    fn key(self) -> TaskKey {
        TaskKey::from_bits(self.key)
    }
}

impl Priorities {
    /// Whether any task has ever had a priority.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    fn add(&mut self, priority: Priority, place: Place, queue: &TimerQueue<TaskRef, Queued>) {
        if self.len > TOLERATED && self.len / 2 > queue.len() {
            self.weed(queue);
        }
        self.len += usize::from(self.levels.entry(priority).or_default().insert(place));
    }

    /// Takes out what is stale.
    fn weed(&mut self, queue: &TimerQueue<TaskRef, Queued>) {
        for places in self.levels.values_mut() {
            places.retain(|place| queue.contains(place.key()));
        }
        self.levels.retain(|_, places| !places.is_empty());
        self.len = self.levels.values().map(BTreeSet::len).sum();
    }

    /// The due task that ranks first, with its rank.
    fn first(&mut self, now: Tick, queue: &TimerQueue<TaskRef, Queued>) -> Option<(i128, Place)> {
        let mut best: Option<(i128, Place)> = None;
        let len = &mut self.len;
        self.levels.retain(|priority, places| {
            while let Some(place) = places.first().copied().filter(|place| place.deadline <= now) {
                if !queue.contains(place.key()) {
                    places.pop_first();
                    *len -= 1;
                    continue;
                }
                let ranked = (priority.rank(place.deadline), place);
                if best.is_none_or(|(rank, other)| (ranked.0, place.number) < (rank, other.number)) {
                    best = Some(ranked);
                }
                break;
            }
            !places.is_empty()
        });
        best
    }
}

impl Core {
    /// A task is about to be queued for the first time.
    pub(crate) fn note_priority(&mut self, header: &Header) {
        self.priorities.on |= header.priority().is_some();
    }

    /// A task has entered the queue: keeps invariant 1.
    #[cold]
    pub(super) fn index(&mut self, key: TaskKey, deadline: Tick, number: u64) {
        let priority = self.queue.get(key).and_then(|task| task.header().priority());
        if let Some(priority) = priority {
            let place = Place { deadline, number, key: key.to_bits() };
            self.priorities.add(priority, place, &self.queue);
        }
    }

    /// As the queue's `pop_due`, but a head start counts.
    pub(super) fn pop_urgent(&mut self, now: Tick) -> Option<Fired<TaskRef>> {
        let none = Priority::ahead(std::time::Duration::ZERO);
        let plain = self.queue.peek().map(|(_, deadline, number, _)| (none.rank(deadline), number));
        match self.priorities.first(now, &self.queue) {
            Some((rank, place)) if plain.is_none_or(|plain| (rank, place.number) < plain) => {
                let value = self.queue.cancel(place.key())?;
                Some(Fired { deadline: place.deadline, number: place.number, value })
            }
            _ => self.queue.pop_due(now),
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::time::Duration;

    use super::{Priority, TOLERATED};
    use crate::{Executor, ManualClock};

    /// A head start that is computed for each task is seldom met again: whoever takes a task looks at all there are.
    #[test]
    fn the_index_forgets_head_starts_that_nobody_has_any_more() {
        let pool = Executor::builder().clock(ManualClock::new()).build().unwrap();
        for nanos in 1..=10_000 {
            let task = pool.task(|| ()).priority(Priority::ahead(Duration::from_nanos(nanos)));
            task.start().unwrap().join().unwrap();
            let core = pool.pool().core.lock();
            assert!(core.priorities.levels.len() <= 2, "the last, and the one before it");
            assert!(core.priorities.len <= 2);
        }
        pool.close().unwrap();
    }

    /// A timeout that usually does not happen, with a priority: a million of them must not pile up.
    #[test]
    fn the_index_forgets_tasks_that_were_cancelled() {
        let pool = Executor::builder().clock(ManualClock::new()).build().unwrap();
        let hour = Duration::from_secs(3600);
        let task = || pool.task(|| ()).after(hour).priority(Priority::ahead(hour)).start().unwrap();
        let kept: Vec<_> = (0..10).map(|_| task()).collect();
        for _ in 0..1000 {
            assert!(task().cancel());
            assert!(pool.pool().core.lock().priorities.len <= TOLERATED + 2);
        }
        assert_eq!(pool.stats().queued, kept.len());
        drop(pool.shutdown_now());
        pool.close().unwrap();
    }
}
