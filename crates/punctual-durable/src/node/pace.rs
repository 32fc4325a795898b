//! How fast the store answers and how fast jobs end; from that, how early to claim and how many.
//!
//! A claimed job starts at its instant, from memory; one that is not claimed by then starts when the store has answered. So
//! a node claims early enough for a store on a bad day, and as many as end until it answers. No earlier and no more: what
//! it has claimed nobody else can have, and if it dies, these wait until its lease is over.
//!
//! # How early: the lead
//! When a job is to be claimed, the node may be waiting for an answer, and then it waits for that to the claim: two calls.
//! Twice the slowest call of late is enough, and so is four times what calls take at present, for what has yet to become
//! slow. A disk that takes long to be synchronised does so now and then, and may do so again: so the slowest call is
//! forgotten by time, half of it every [`HALF_LIFE`], and not by quick calls after it.
//!
//! # How many
//! *Of those that are due:* beyond the threads, twice as many as were finished during one of the last exchanges
//! ([`ahead`](Pace::ahead)). More would lie here while others have room. *Of those that are not due yet,* as many as end
//! within two leads, and a quarter more ([`early`](Pace::early)): they need no thread until then.

use std::time::Duration;

use punctual::Tick;

use super::{LEAD, MOST_AHEAD};

/// How long it takes to forget half of the slowest call.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// Over how long, at least, it is counted how many jobs end.
const WINDOW: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What exchanges take at present. Forgets a slow one within some dozen quick ones.
    usual: Duration,
    /// The slowest call, as far as it is remembered, and since when it is that much.
    slowest: (Duration, Tick),
    ahead: usize,
    /// How many jobs have ended since when.
    ended: (usize, Tick),
    /// How many ended in a second, when it was last known.
    rate: u64,
}

impl Pace {
    /// The store has answered after `took`, whatever it was asked for.
    pub(super) fn answered(&mut self, now: Tick, took: Duration) {
        let (slowest, since) = &mut self.slowest;
        while *slowest > Duration::ZERO && now.since(*since) >= HALF_LIFE {
            (*slowest, *since) = (*slowest / 2, since.after(HALF_LIFE));
        }
        if took >= *slowest {
            self.slowest = (took, now);
        }
    }

    /// An exchange has been answered after `took`, which said of `finished` jobs that they are.
    pub(super) fn exchanged(&mut self, now: Tick, took: Duration, finished: usize) {
        self.usual = took.max(self.usual - self.usual / 8);
        // Falls slowly: an exchange that only claims says nothing about how many are finished in its time.
        let faded = self.ahead - self.ahead.div_ceil(8);
        self.ahead = finished.saturating_mul(2).max(faded).min(MOST_AHEAD);
        let (ended, since) = (self.ended.0.saturating_add(finished), self.ended.1);
        let passed = now.since(since);
        self.ended = if passed < WINDOW {
            (ended, since)
        } else {
            let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
            self.rate = (ended as u64).saturating_mul(1_000) / millis;
            (0, now)
        };
    }

    /// Some found no thread in time: it was too many.
    pub(super) fn overreached(&mut self) {
        (self.ahead, self.rate) = (0, 0);
    }

    /// How long before its due time a job is claimed.
    pub(super) fn lead(&self) -> Duration {
        self.usual.saturating_mul(4).max(self.slowest.0.saturating_mul(2)).clamp(LEAD.0, LEAD.1)
    }

    /// How many that are due to claim beyond the number of threads.
    pub(super) fn ahead(&self) -> usize {
        self.ahead
    }

    /// The same of those that are not due yet.
    pub(super) fn early(&self) -> usize {
        let millis = u64::try_from(self.lead().as_millis()).unwrap_or(u64::MAX);
        // Two leads and a quarter more.
        let ending = self.rate.saturating_mul(millis) / 400;
        usize::try_from(ending).unwrap_or(usize::MAX).clamp(self.ahead, MOST_AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::ZERO.after(Duration::from_millis(millis))
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_is_claimed_ahead_rises_at_once_and_falls_slowly_to_nothing() {
        let mut pace = Pace::default();
        let mut after = |finished| {
            pace.exchanged(at(0), millis(1), finished);
            pace.ahead()
        };
        assert_eq!([after(10), after(40), after(usize::MAX)], [20, 80, MOST_AHEAD]);
        let falling: Vec<usize> = (0..80).map(|_| after(0)).collect();
        assert_eq!(falling[..2], [875, 765], "an exchange that only claims forgets an eighth");
        assert!(falling.is_sorted_by(|earlier, later| earlier > later || *later == 0));
        assert_eq!(falling[79], 0, "in the end only threads count");
    }

    #[test]
    fn a_slow_call_is_remembered_by_time_and_not_by_calls() {
        let mut pace = Pace::default();
        assert_eq!(pace.lead(), LEAD.0);
        pace.answered(at(0), millis(40));
        for _ in 0..1_000 {
            pace.answered(at(9_999), millis(1));
        }
        assert_eq!(pace.lead(), millis(80), "twice the slowest");
        pace.answered(at(10_000), millis(1));
        assert_eq!(pace.lead(), millis(40));
        pace.answered(at(10_500), millis(30));
        assert_eq!(pace.lead(), millis(60), "what is slower counts at once");
        pace.answered(at(600_000), millis(1));
        assert_eq!(pace.lead(), LEAD.0, "and is forgotten, however long nobody called");
        pace.answered(at(600_000), Duration::MAX);
        assert_eq!(pace.lead(), LEAD.1);
    }

    #[test]
    fn present_slowness_counts_fourfold() {
        let mut pace = Pace::default();
        pace.exchanged(at(0), millis(5), 0);
        assert_eq!(pace.lead(), millis(20));
        (0..100).for_each(|_| pace.exchanged(at(1), Duration::ZERO, 0));
        assert_eq!(pace.lead(), LEAD.0);
    }

    #[test]
    fn as_many_wait_for_their_instant_as_end_within_two_leads_and_a_quarter_more() {
        let mut pace = Pace::default();
        pace.answered(at(0), millis(40));
        for step in 1..=25 {
            assert_eq!(pace.early(), pace.ahead(), "nothing is known yet");
            pace.exchanged(at(step * 10), Duration::ZERO, 10);
        }
        // 1,000 in a second, and a lead of 80 ms.
        assert_eq!(pace.early(), 200);
        pace.overreached();
        assert_eq!((pace.early(), pace.ahead()), (0, 0));
        pace.exchanged(at(1_000_000), Duration::ZERO, usize::MAX);
        assert_eq!(pace.early(), MOST_AHEAD);
    }
}
