//! What the queue keeps of an entry to put it in order.

use crate::{TaskKey, Tick};

/// The place of an entry in the order, and where its value is: 24 bytes that are compared and moved without
/// a look at anything else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) deadline: Tick,
    pub(super) number: u64,
    pub(super) key: TaskKey,
}

/// Deadline above, number below: one comparison without a branch decides both.
pub(super) type Order = u128;

/// The order of an entry that is due at `deadline` and has this number.
pub(super) const fn order(deadline: Tick, number: u64) -> Order {
    (deadline.as_nanos() as u128) << 64 | number as u128
}

/// The deadline in an order.
pub(super) const fn deadline(order: Order) -> Tick {
    Tick::from_nanos((order >> 64) as u64)
}

impl Stamp {
    pub(super) const fn order(&self) -> Order {
        order(self.deadline, self.number)
    }
}
