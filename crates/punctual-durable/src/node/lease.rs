//! How long a node may believe that it is alive in the eyes of others.
//!
//! A lease is granted by the store, by the store's clock, when the request arrives there. The node counts from when it
//! *sent* the request, by its own monotonic clock: so its belief ends before the store's does, however long the answer
//! took, and without comparing clocks. When the belief ends the node claims and starts nothing more, and what it holds
//! unstarted it gives back. What runs goes on, unless its kind is exclusive (`guard.rs`): if nobody has rescued it
//! meanwhile, its outcome still counts, and otherwise the fence refuses it.
//!
//! A lease that is granted again after the belief had ended is another one, of a later *term*: others may have taken what
//! was claimed in the term before. So a claim is good for a start only in the term that it was made in.

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
    /// From when on it is so nearly over that exclusive handlers had better stop.
    runs_out_at: Tick,
    /// How often it has been granted anew.
    term: u64,
    next_renewal: Tick,
}

impl Lease {
    /// A lease that has never been granted, to be asked for at once.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, valid_until: None, runs_out_at: Tick::ZERO, term: 0, next_renewal: Tick::ZERO }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The store has granted what was asked for at `sent`, as is known at `now`.
    pub(super) fn granted(&mut self, sent: Tick, now: Tick) {
        // Where the answer came in time, so did the request.
        if !self.is_valid(now) {
            self.term += 1;
        }
        self.valid_until = Some(sent.after(self.length));
        self.runs_out_at = sent.after(self.length - self.length / 6);
        // Whole microseconds, as stores count: a node that steps between them would find everything a little late.
        let third = u64::try_from((self.length / RENEWALS).as_micros()).unwrap_or(u64::MAX);
        self.next_renewal = sent.after(Duration::from_micros(third));
    }

    /// The store has answered that somebody else has it: ask again after `wait`.
    pub(super) fn refused(&mut self, sent: Tick, wait: Duration) {
        self.valid_until = None;
        self.runs_out_at = sent;
        self.next_renewal = sent.after(wait);
    }

    /// The store did not answer: what was granted stays granted. Ask again soon.
    pub(super) fn failed(&mut self, sent: Tick) {
        self.next_renewal = sent.after((self.length / 30).clamp(SOON.0, SOON.1));
    }

    /// There is a reason not to wait longer than this with the next renewal.
    pub(super) fn renew_by(&mut self, tick: Tick) {
        self.next_renewal = self.next_renewal.min(tick);
    }

    pub(super) fn is_valid(&self, now: Tick) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    pub(super) fn runs_out_at(&self) -> Tick {
        self.runs_out_at
    }

    /// Which lease it is, of those that followed each other with gaps.
    pub(super) fn term(&self) -> u64 {
        self.term
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
        lease.granted(Tick::ZERO.after(second), Tick::ZERO.after(second));
        assert!(lease.is_valid(Tick::from_nanos(9_999_999_999)));
        assert!(!lease.is_valid(Tick::from_nanos(10_000_000_000)));
        assert_eq!(lease.next_renewal(), Tick::ZERO.after(4 * second));
        let mut odd = Lease::new(10 * second);
        odd.granted(Tick::ZERO, Tick::ZERO);
        assert_eq!(odd.next_renewal(), Tick::from_nanos(3_333_333_000));
        lease.failed(Tick::ZERO.after(4 * second));
        assert!(lease.is_valid(Tick::from_nanos(9_999_999_999)), "a renewal that fails takes nothing away");
        assert_eq!(lease.next_renewal(), Tick::from_nanos(4_300_000_000));
        lease.refused(Tick::ZERO.after(5 * second), second);
        assert!(!lease.is_valid(Tick::ZERO.after(5 * second)));
    }
    #[test]
    fn a_lease_granted_anew_after_a_gap_is_another_one() {
        let at = |seconds| Tick::ZERO.after(Duration::from_secs(seconds));
        let mut lease = Lease::new(Duration::from_secs(9));
        let mut terms = Vec::new();
        for (sent, answered) in [(0, 8), (3, 8), (6, 11), (14, 15), (23, 23), (30, 32)] {
            lease.granted(at(sent), at(answered));
            terms.push(lease.term());
        }
        assert_eq!(terms, [1, 1, 1, 2, 3, 4], "sent in time is not enough: who knows when it arrived");
        lease.refused(at(33), Duration::from_secs(1));
        lease.granted(at(34), at(34));
        assert_eq!(lease.term(), 5);
    }
}
