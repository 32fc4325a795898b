//! The reference: an indexed 4-ary heap.
//!
//! The plain way to keep timers in exact order, with the same interface as the queue and not a line in common
//! with it: differential tests compare the two, and benchmarks have it for a yardstick.
//!
//! # Invariants
//! 1. No node is below its parent in order; the parent of node `i` is `(i − 1) / 4`.
//! 2. `positions[slot]` is the index of that slot's node.

use alloc::vec::Vec;

use super::{Entry, Fired};
use crate::{TaskKey, Tick};

const ARITY: usize = 4;

/// An indexed 4-ary heap with the interface of [`TimerQueue`](crate::TimerQueue): for tests and benchmarks.
#[derive(Debug)]
pub struct ReferenceHeap<T> {
    nodes: Vec<Node>,
    homes: Vec<Home<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: Tick,
    number: u64,
    slot: u32,
}

#[derive(Debug)]
struct Home<T> {
    value: Option<T>,
    generation: u32,
    position: u32,
}

impl Node {
    fn is_before(&self, other: &Self) -> bool {
        (self.deadline, self.number) < (other.deadline, other.number)
    }
}

impl<T> ReferenceHeap<T> {
    /// An empty heap.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new(), homes: Vec::new(), free: Vec::new() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Queues `value`.
    pub fn insert(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.homes.push(Home { value: None, generation: 0, position: 0 });
            self.homes.len() as u32 - 1
        });
        let home = &mut self.homes[slot as usize];
        home.value = Some(value);
        let key = TaskKey { slot, generation: home.generation };
        self.nodes.push(Node { deadline, number, slot });
        self.sift_up(self.nodes.len() - 1);
        key
    }

    /// Takes an entry out.
    pub fn cancel(&mut self, key: TaskKey) -> Option<T> {
        self.get(key)?;
        let position = self.homes[key.slot as usize].position as usize;
        self.remove(position).map(|fired| fired.value)
    }

    /// Whether the entry is in the heap.
    #[must_use]
    pub fn contains(&self, key: TaskKey) -> bool {
        self.get(key).is_some()
    }

    /// The value of an entry that is in the heap.
    #[must_use]
    pub fn get(&self, key: TaskKey) -> Option<&T> {
        let home = self.homes.get(key.slot as usize)?;
        home.value.as_ref().filter(|_| home.generation == key.generation)
    }

    /// When the earliest entry is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.nodes.first().map(|node| node.deadline)
    }

    /// The earliest entry.
    #[must_use]
    pub fn peek(&self) -> Option<(TaskKey, Tick, u64, &T)> {
        let Entry { key, deadline, number, value } = self.iter().next()?;
        Some((key, deadline, number, value))
    }

    /// Takes out the earliest entry, if it is due at `now`.
    pub fn pop_due(&mut self, now: Tick) -> Option<Fired<T>> {
        if self.next_deadline()? <= now { self.pop() } else { None }
    }

    /// Takes out the earliest entry, due or not.
    pub fn pop(&mut self) -> Option<Fired<T>> {
        self.remove(0)
    }

    /// Takes out all entries, the earliest first.
    pub fn drain(&mut self) -> Vec<Fired<T>> {
        core::iter::from_fn(|| self.pop()).collect()
    }

    /// All entries, in no particular order (but the earliest first).
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, T>> {
        self.nodes.iter().filter_map(|&Node { deadline, number, slot }| {
            let home = &self.homes[slot as usize];
            let key = TaskKey { slot, generation: home.generation };
            Some(Entry { key, deadline, number, value: home.value.as_ref()? })
        })
    }

    /// How many entries are due at `now`.
    #[must_use]
    pub fn due_count(&self, now: Tick) -> usize {
        self.nodes.iter().filter(|node| node.deadline <= now).count()
    }

    /// Checks the heap, for tests.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub fn verify(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let parent = &self.nodes[at.saturating_sub(1) / ARITY];
            assert!(!node.is_before(parent), "heap invariant 1: node {at} is before its parent");
            let home = &self.homes[node.slot as usize];
            assert!(home.position as usize == at, "heap invariant 2: node {at} is not where it should be");
            assert!(home.value.is_some(), "node {at} has no value");
        }
        assert!(self.nodes.len() + self.free.len() == self.homes.len(), "a slot is lost");
    }

    /// Takes out the node at this position.
    fn remove(&mut self, position: usize) -> Option<Fired<T>> {
        if position >= self.nodes.len() {
            return None;
        }
        let Node { deadline, number, slot } = self.nodes.swap_remove(position);
        if position < self.nodes.len() {
            // The node that fills the hole came from another branch: it may belong above as well as below.
            let position = self.sift_up(position);
            self.sift_down(position);
        }
        let home = &mut self.homes[slot as usize];
        home.generation = home.generation.checked_add(1).expect("a generation for each tenant");
        self.free.push(slot);
        home.value.take().map(|value| Fired { deadline, number, value })
    }

    fn sift_up(&mut self, mut at: usize) -> usize {
        let node = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !node.is_before(&self.nodes[parent]) {
                break;
            }
            self.put(at, self.nodes[parent]);
            at = parent;
        }
        self.put(at, node);
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let node = self.nodes[at];
        loop {
            let first = at * ARITY + 1;
            let Some(&head) = self.nodes.get(first) else { break };
            let (mut child, mut least) = (first, head);
            for other in first + 1..(first + ARITY).min(self.nodes.len()) {
                if self.nodes[other].is_before(&least) {
                    (child, least) = (other, self.nodes[other]);
                }
            }
            if !least.is_before(&node) {
                break;
            }
            self.put(at, least);
            at = child;
        }
        self.put(at, node);
    }

    fn put(&mut self, at: usize, node: Node) {
        self.nodes[at] = node;
        self.homes[node.slot as usize].position = at as u32;
    }
}

impl<T> Default for ReferenceHeap<T> {
    fn default() -> Self {
        Self::new()
    }
}
