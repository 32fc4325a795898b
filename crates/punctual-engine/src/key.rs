//! A name for one queued entry that goes stale when the entry leaves.

/// Names one entry of a [`TimerQueue`](crate::TimerQueue).
///
/// A key is a slot and the generation of its tenant. When the entry leaves the queue (fired, cancelled or
/// drained) the slot's generation moves on, so an old key finds nothing, even after the slot has been reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskKey {
    /// A key that no queue ever hands out: it finds nothing anywhere.
    pub const NONE: Self = Self { slot: u32::MAX, generation: 0 };

    /// The key as one word, for storing it in an atomic. Bit 31 is never set.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    /// The inverse of [`to_bits`](Self::to_bits).
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { slot: (bits >> 32) as u32, generation: bits as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::TaskKey;

    #[test]
    fn bits_are_a_faithful_copy() {
        for (slot, generation) in [(0, 1), (7, u32::MAX >> 1), (u32::MAX, 0), (u32::MAX - 1, 0x4000_0001)] {
            let key = TaskKey { slot, generation };
            assert_eq!(TaskKey::from_bits(key.to_bits()), key);
        }
    }
}
