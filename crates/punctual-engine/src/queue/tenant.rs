//! What is in a slot.

use crate::Tick;

/// An entry as a [`TimerQueue`](crate::TimerQueue) keeps it: a value of type `T` that knows its place in the order.
///
/// Whoever queues values that know their place anyway, because they have it written down where they are, can make do with
/// less memory than [`Stored`] takes.
pub trait Tenant<T> {
    /// The entry of `value`. From now on it has this deadline and this number, until it has left the queue.
    fn new(deadline: Tick, number: u64, value: T) -> Self;
    /// When it is due.
    fn deadline(&self) -> Tick;
    /// Its number among entries of the same deadline.
    fn number(&self) -> u64;
    /// What is queued.
    fn value(&self) -> &T;
    /// What was queued.
    fn into_value(self) -> T;
    /// It is about to be asked for its place, and to leave: for whoever would have it in the cache by then.
    #[inline]
    fn fetch(&self) {}
}

/// A value with its place beside it: what a queue keeps unless it is told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<T> {
    deadline: Tick,
    number: u64,
    value: T,
}

impl<T> Tenant<T> for Stored<T> {
    #[inline]
    fn new(deadline: Tick, number: u64, value: T) -> Self {
        Self { deadline, number, value }
    }

    #[inline]
    fn deadline(&self) -> Tick {
        self.deadline
    }

    #[inline]
    fn number(&self) -> u64 {
        self.number
    }

    #[inline]
    fn value(&self) -> &T {
        &self.value
    }

    #[inline]
    fn into_value(self) -> T {
        self.value
    }
}
