//! How long a node may believe that it is alive in the eyes of others.
//!
//! A lease is granted by the store, by the store's clock, when the request arrives there. The node counts from when it
//! *sent* the request, by its own monotonic clock: so its belief ends before the store's does, however long the answer
//! took, and without comparing clocks. When the belief ends the node claims and starts nothing more, and what it holds
//! unstarted it gives back. What runs goes on: if nobody has rescued it meanwhile, its outcome still counts, and
//! otherwise the fence refuses it.

use std::time::Duration;

use punctual::Tick;

/// Renewals within one lease.
const RENEWALS: u32 = 3;

/// How soon a renewal that failed is tried again, at least and at most.
const SOON: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

#[derive(Debug)]
pub(super) struct Lease {
    length: Duration,
    valid_until: Option<Tick>,
    next_renewal: Tick,
}

impl Lease {
    /// A lease that has never been granted, to be asked for at once.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, valid_until: None, next_renewal: Tick::ZERO }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The store has granted what was asked for at `sent`.
    pub(super) fn granted(&mut self, sent: Tick) {
        self.valid_until = Some(sent.after(self.length));
        // Whole microseconds, as stores count: a node that steps between them would find everything a little late.
        let third = u64::try_from((self.length / RENEWALS).as_micros()).unwrap_or(u64::MAX);
        self.next_renewal = sent.after(Duration::from_micros(third));
    }

    /// The store has answered that somebody else has it: ask again after `wait`.
    pub(super) fn refused(&mut self, sent: Tick, wait: Duration) {
        self.valid_until = None;
        self.next_renewal = sent.after(wait);
    }

    /// The store did not answer: what was granted stays granted. Ask again soon.
    pub(super) fn failed(&mut self, sent: Tick) {
        self.next_renewal = sent.after((self.length / 30).clamp(SOON.0, SOON.1));
    }

    pub(super) fn is_valid(&self, now: Tick) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    pub(super) fn next_renewal(&self) -> Tick {
        self.next_renewal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for() {
        let second = Duration::from_secs(1);
        let mut lease = Lease::new(9 * second);
        assert!(!lease.is_valid(Tick::ZERO));
        lease.granted(Tick::ZERO.after(second));
        assert!(lease.is_valid(Tick::from_nanos(9_999_999_999)));
        assert!(!lease.is_valid(Tick::from_nanos(10_000_000_000)));
        assert_eq!(lease.next_renewal(), Tick::ZERO.after(4 * second));
        let mut odd = Lease::new(10 * second);
        odd.granted(Tick::ZERO);
        assert_eq!(odd.next_renewal(), Tick::from_nanos(3_333_333_000));
        lease.failed(Tick::ZERO.after(4 * second));
        assert!(lease.is_valid(Tick::from_nanos(9_999_999_999)), "a renewal that fails takes nothing away");
        assert_eq!(lease.next_renewal(), Tick::from_nanos(4_300_000_000));
        lease.refused(Tick::ZERO.after(5 * second), second);
        assert!(!lease.is_valid(Tick::ZERO.after(5 * second)));
    }
}
