//! The queue beside two others: a `BTreeMap` of (deadline, number), and the reference heap.
//!
//! Used twice: by `tests/model.rs` with the queue as it is, and inside the crate with leaves, groups and chunks so
//! small that a few hundred entries split, join and drop them all the time.

use std::collections::BTreeMap;
use std::prelude::v1::*;

use proptest::prelude::*;
use punctual_engine::{Fired, ReferenceHeap, TaskKey, Tick, TimerQueue};

/// Three queues that must agree.
#[derive(Default)]
pub(crate) struct Trio {
    pub(crate) queue: TimerQueue<u64>,
    heap: ReferenceHeap<u64>,
    model: BTreeMap<(Tick, u64), Keys>,
    /// Every pair of keys ever handed out, in order of insertion.
    pub(crate) keys: Vec<((Tick, u64), Keys)>,
    inserted: u64,
    gone: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Keys {
    queue: TaskKey,
    heap: TaskKey,
    value: u64,
}

impl Trio {
    pub(crate) fn insert(&mut self, deadline: u64, number: u64) {
        let deadline = Tick::from_nanos(deadline);
        if self.model.contains_key(&(deadline, number)) {
            return;
        }
        let value = self.inserted;
        self.inserted += 1;
        let keys = Keys {
            queue: self.queue.insert(deadline, number, value),
            heap: self.heap.insert(deadline, number, value),
            value,
        };
        self.model.insert((deadline, number), keys);
        self.keys.push(((deadline, number), keys));
    }

    /// Cancels the entry inserted as number `which`, which may be long gone.
    pub(crate) fn cancel(&mut self, which: usize) {
        let Some(&(order, keys)) = self.keys.get(which % self.keys.len().max(1)) else { return };
        let expected = self.model.get(&order).filter(|&&present| present == keys).map(|keys| keys.value);
        assert_eq!(self.queue.contains(keys.queue), expected.is_some());
        assert_eq!(self.queue.get(keys.queue).copied(), expected);
        assert_eq!(self.queue.cancel(keys.queue), expected);
        assert_eq!(self.heap.cancel(keys.heap), expected);
        assert_eq!(self.queue.cancel(keys.queue), None, "a key finds its entry once");
        if expected.is_some() {
            self.model.remove(&order);
            self.gone += 1;
        }
    }

    pub(crate) fn pop_due(&mut self, now: u64) -> bool {
        let now = Tick::from_nanos(now);
        let expected = self.model.first_key_value().filter(|((deadline, _), _)| *deadline <= now);
        let expected =
            expected.map(|(&(deadline, number), keys)| Fired { deadline, number, value: keys.value });
        assert_eq!(self.queue.pop_due(now), expected);
        assert_eq!(self.heap.pop_due(now), expected);
        if expected.is_some() {
            self.model.pop_first();
            self.gone += 1;
        }
        expected.is_some()
    }

    pub(crate) fn compare(&self, now: u64) {
        let now = Tick::from_nanos(now);
        let head = self.model.first_key_value();
        assert_eq!(self.queue.next_deadline(), head.map(|((deadline, _), _)| *deadline));
        assert_eq!(
            self.queue.peek().map(|(key, deadline, number, &value)| (key, deadline, number, value)),
            head.map(|(&(deadline, number), keys)| (keys.queue, deadline, number, keys.value))
        );
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        // Invariant 8, first half.
        assert_eq!(self.queue.len() as u64, self.inserted - self.gone);
        assert_eq!(self.queue.due_count(now), self.model.range(..=(now, u64::MAX)).count());
    }

    pub(crate) fn verify(&self) {
        self.queue.verify();
        self.heap.verify();
        let mut all: Vec<_> = self.queue.iter().collect();
        all.sort_unstable_by_key(|entry| (entry.deadline, entry.number));
        assert_eq!(all.len(), self.model.len());
        for (entry, (order, keys)) in all.iter().zip(&self.model) {
            assert_eq!((entry.deadline, entry.number), *order);
            assert_eq!((entry.key, *entry.value), (keys.queue, keys.value));
        }
    }

    /// The rest comes out in the model's order.
    pub(crate) fn finish(mut self) {
        let rest = self.queue.drain();
        self.queue.verify();
        assert!(self.queue.is_empty());
        assert_eq!(rest, self.heap.drain());
        let expected = self.model.iter().map(|(&(deadline, number), keys)| Fired {
            deadline,
            number,
            value: keys.value,
        });
        assert!(rest.into_iter().eq(expected));
        // Every key is stale now.
        for (_, keys) in &self.keys {
            assert!(!self.queue.contains(keys.queue));
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Insert {
        delay: u64,
        number: u64,
    },
    Cancel(usize),
    CancelHead,
    Pop,
    Advance(u64),
    /// Somebody has time.
    Tend,
}

pub(crate) fn op(horizon: u64) -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..=horizon, 0..4_u64).prop_map(|(delay, number)| Op::Insert { delay, number }),
        3 => any::<usize>().prop_map(Op::Cancel),
        1 => Just(Op::CancelHead),
        2 => Just(Op::Pop),
        1 => (0..=horizon / 4).prop_map(Op::Advance),
        1 => Just(Op::Tend),
    ]
}

pub(crate) fn run(ops: &[Op], start: u64, every_step: bool) {
    let mut trio = Trio::default();
    let mut now = start;
    for (step, &op) in ops.iter().enumerate() {
        match op {
            Op::Insert { delay, number } => {
                trio.insert(now.saturating_add(delay), number * 1_000_000 + step as u64)
            }
            Op::Cancel(which) => trio.cancel(which),
            Op::CancelHead => {
                if let Some((key, ..)) = trio.queue.peek() {
                    let which = trio.keys.iter().position(|(_, keys)| keys.queue == key).unwrap();
                    trio.cancel(which);
                }
            }
            Op::Pop => drop(trio.pop_due(now)),
            Op::Advance(by) => {
                now = now.saturating_add(by);
                while trio.pop_due(now) {}
            }
            Op::Tend => drop(trio.queue.tend_ahead()),
        }
        trio.compare(now);
        if every_step {
            trio.verify();
        }
    }
    trio.verify();
    trio.finish();
}

/// Deadlines as some user might make them: the shape of a long random run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Uniform(u64),
    Ascending,
    Descending,
    /// All at a few instants.
    Ties(u64),
    /// Horizons of every magnitude.
    Magnitudes,
    /// A few periods, as of fixed-rate tasks.
    Periods,
}

impl Shape {
    pub(crate) fn deadline(self, now: u64, step: u64) -> u64 {
        match self {
            Self::Uniform(horizon) => now.saturating_add(fastrand::u64(0..=horizon)),
            Self::Ascending => step * 3,
            Self::Descending => u64::MAX - step * 3,
            Self::Ties(instants) => now.saturating_add(fastrand::u64(0..instants) << 20),
            Self::Magnitudes => now.saturating_add(fastrand::u64(..) >> fastrand::u32(0..64)),
            Self::Periods => now.saturating_add(10_u64.pow(fastrand::u32(3..8))),
        }
    }
}

/// A queue that grows, holds and shrinks again, `steps` steps each.
pub(crate) fn grow_hold_shrink(shape: Shape, steps: u64) {
    let (mut trio, mut now) = (Trio::default(), 0_u64);
    for (phase, inserts) in [90, 50, 10].into_iter().enumerate() {
        for step in 0..steps {
            let number = phase as u64 * steps + step;
            match fastrand::u32(0..100) {
                dice if dice < inserts => trio.insert(shape.deadline(now, number), number),
                dice if dice % 3 == 0 => drop(trio.pop_due(u64::MAX)),
                dice if dice % 3 == 1 => trio.cancel(fastrand::usize(..)),
                _ => {
                    // A run of neighbours in time of arrival, so that whole leaves die.
                    let first = fastrand::usize(..trio.keys.len().max(1));
                    (first..first + fastrand::usize(..8)).for_each(|which| trio.cancel(which));
                    now = trio.queue.next_deadline().map_or(now, |tick| now.max(tick.as_nanos()));
                }
            }
            // In half of the run somebody has time now and then.
            if step % 3 == 0 && step / (steps / 4) % 2 == 0 {
                trio.queue.tend_ahead();
            }
            if step % (steps / 16) == 0 {
                trio.verify();
                trio.compare(now);
            }
        }
    }
    trio.finish();
}

pub(crate) const SHAPES: [Shape; 8] = [
    Shape::Uniform(1 << 30),
    Shape::Uniform(1 << 10),
    Shape::Ascending,
    Shape::Descending,
    Shape::Ties(1),
    Shape::Ties(5),
    Shape::Magnitudes,
    Shape::Periods,
];
