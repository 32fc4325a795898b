//! What the server's clock shows, without asking it.
//!
//! Database time is the only time that is compared; a node that waits for an instant must not believe that it has come
//! before the server does. Every answer carries the server's time, which was read after the question was sent and before
//! the answer arrived:
//!
//! ```text
//! here     sent ────────────────────── received ─────────────▶
//! server            S is read                 S + (local time since `received`) has certainly come
//! ```
//!
//! # Invariants
//! 1. *Never ahead.* From `received` on, the server's time is at least S plus what has passed here, as long as its clock
//!    is not set back and runs no more than one part in 2,048 slower than ours: that much is taken off. It is about what
//!    time synchronisation may slow a clock down by.
//! 2. *Set back is noticed.* If by an answer the server's time was less when it was sent for than we would have said, we
//!    were ahead; what we believed before is forgotten. If it was less by [`STEP`], then its clock has not only run slowly: it
//!    was set back, and that is counted for those who have drawn conclusions from what it showed (`low.rs`).
//!
//! Of several answers the one counts that says the latest: it took the shortest way back.
//!
//! What is taken off adds up: a second in half an hour without an answer. Nodes ask all the time; whoever does not, a program
//! that only enqueues or looks, learns from every answer that has a time in it, and asks when the last is older than
//! [`OLD`] before it reads anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::{Clock, SystemClock, Tick};

use crate::time::Timestamp;

/// One part in this many of the time that passes here is not believed.
const DRIFT: u64 = 2_048;

/// A clock that is behind by this much, in microseconds, has been set back. Some are slowed down by a twelfth: between two
/// looks that is less.
const STEP: i64 = 10_000;

/// After this long without an answer, five milliseconds have been taken off.
const OLD: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct ServerClock {
    local: SystemClock,
    /// Server time, and when it was received.
    best: Mutex<Option<(i64, Tick)>>,
    setbacks: AtomicU64,
}

impl ServerClock {
    pub(super) fn new() -> Self {
        Self { local: SystemClock::new(), best: Mutex::new(None), setbacks: AtomicU64::new(0) }
    }

    /// Local time, for [`learn`](Self::learn).
    pub(super) fn local(&self) -> Tick {
        self.local.now()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i64, Tick)>> {
        self.best.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's clock showed `server` at some time between `sent` and now.
    pub(super) fn learn(&self, sent: Tick, server: i64) {
        self.learn_at(sent, self.local(), server);
    }

    fn learn_at(&self, sent: Tick, received: Tick, server: i64) {
        let mut best = self.lock();
        let believed = |tick| best.map(|best| estimate(best, tick));
        // By 2. Otherwise the later one.
        let ahead = believed(sent).map_or(0, |believed| believed.saturating_sub(server));
        if ahead >= STEP {
            self.setbacks.fetch_add(1, Ordering::Relaxed);
        }
        if ahead > 0 || believed(received).is_none_or(|believed| believed <= server) {
            *best = Some((server, received));
        }
    }

    /// How often the server's clock has been set back. Who has [learnt](Self::learn) from an answer knows by this whether it
    /// had been when that was given.
    pub(super) fn setbacks(&self) -> u64 {
        // Relaxed: it was counted by ourselves, or by somebody else at about the same time.
        self.setbacks.load(Ordering::Relaxed)
    }

    /// By 1. The epoch if nothing is known yet.
    pub(super) fn now(&self) -> Timestamp {
        let best = *self.lock();
        let tick = self.local();
        best.map_or(Timestamp::EPOCH, |best| Timestamp::from_micros(estimate(best, tick)))
    }

    /// What the server's clock may show, if it is as much faster as it may be slower, but for the time of an answer's way.
    pub(super) fn latest(&self) -> Timestamp {
        let best = *self.lock();
        let tick = self.local();
        best.map_or(Timestamp::MAX, |best| Timestamp::from_micros(estimate_most(best, tick)))
    }

    /// Whether it is time to ask.
    pub(super) fn is_old(&self) -> bool {
        self.is_old_at(self.local())
    }

    fn is_old_at(&self, tick: Tick) -> bool {
        self.lock().is_none_or(|(_, received)| tick.since(received) >= OLD)
    }
}

/// What the server's clock showed at `tick`, at least. An answer that came after that may be of a time before it.
fn estimate((server, received): (i64, Tick), tick: Tick) -> i64 {
    if let Some(passed) = tick.as_nanos().checked_sub(received.as_nanos()) {
        server.saturating_add_unsigned((passed - passed.div_ceil(DRIFT)) / 1_000)
    } else {
        let before = received.as_nanos() - tick.as_nanos();
        server.saturating_sub_unsigned(before.saturating_add(before.div_ceil(DRIFT)).div_ceil(1_000))
    }
}

fn estimate_most((server, received): (i64, Tick), tick: Tick) -> i64 {
    let passed = tick.as_nanos().saturating_sub(received.as_nanos());
    server.saturating_add_unsigned(passed.saturating_add(passed.div_ceil(DRIFT)).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(micros: u64) -> Tick {
        Tick::from_nanos(micros * 1_000)
    }

    fn believed(clock: &ServerClock, micros: u64) -> i64 {
        estimate(clock.lock().unwrap(), tick(micros))
    }

    #[test]
    fn the_answer_with_the_shortest_way_back_counts() {
        let clock = ServerClock::new();
        clock.learn_at(tick(0), tick(900), 1_000_100);
        assert_eq!(believed(&clock, 900), 1_000_100, "not more: it may have been read last");
        clock.learn_at(tick(1_000), tick(1_100), 1_001_050);
        assert_eq!(believed(&clock, 1_100), 1_001_050);
        clock.learn_at(tick(2_000), tick(3_000), 1_002_000);
        assert!(believed(&clock, 3_000) > 1_002_900, "a slow answer takes nothing away");
    }

    #[test]
    fn a_server_that_runs_slower_is_not_overtaken() {
        let clock = ServerClock::new();
        clock.learn_at(tick(0), tick(0), 0);
        for second in 1..100 {
            let server = |micros: i64| micros - micros / 2_100;
            let local = second * 1_000_000;
            assert!(believed(&clock, local) <= server(i64::try_from(local).unwrap()));
        }
    }

    #[test]
    fn the_server_is_between_the_least_and_the_most_until_it_is_asked_again() {
        let clock = ServerClock::new();
        assert!(clock.is_old() && clock.now() == Timestamp::EPOCH && clock.latest() == Timestamp::MAX);
        clock.learn_at(tick(0), tick(0), 0);
        for second in 1..100 {
            let (local, most) =
                (second * 1_000_000, estimate_most(clock.lock().unwrap(), tick(second * 1_000_000)));
            let server = i64::try_from(local).unwrap();
            assert!(believed(&clock, local) <= server - server / 2_100 && server + server / 2_100 <= most);
            assert_eq!(clock.is_old_at(tick(local)), second >= 10);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed_at_once() {
        let clock = ServerClock::new();
        clock.learn_at(tick(0), tick(100), 5_000_000);
        clock.learn_at(tick(1_000), tick(1_100), 2_000_000);
        assert_eq!(believed(&clock, 1_100), 2_000_000);
        assert_eq!(clock.setbacks(), 1);
        clock.learn_at(tick(2_000), tick(2_100), 9_000_000);
        assert_eq!(believed(&clock, 2_100), 9_000_000, "and one that was set forward, too");
        assert_eq!(clock.setbacks(), 1);
    }

    /// Calls are made on several connections; one that waits for the disk has read the clock long before it is answered.
    #[test]
    fn an_answer_that_others_have_overtaken_is_not_taken_for_a_clock_set_back() {
        let clock = ServerClock::new();
        clock.learn_at(tick(0), tick(100), 1_000_050);
        clock.learn_at(tick(60_000), tick(60_200), 1_060_150);
        clock.learn_at(tick(10_000), tick(61_000), 1_010_100);
        assert_eq!((believed(&clock, 60_200), clock.setbacks()), (1_060_150, 0));
        clock.learn_at(tick(10_000), tick(20_000), 1_010_100);
        assert_eq!((believed(&clock, 60_200), clock.setbacks()), (1_060_150, 0));
        clock.learn_at(tick(60_100), tick(61_100), 1_040_000);
        assert_eq!((believed(&clock, 61_100), clock.setbacks()), (1_040_000, 1), "this one is");
    }

    #[test]
    fn a_clock_that_was_set_back_by_less_than_has_passed_is_noticed_and_a_slow_one_is_not() {
        let clock = ServerClock::new();
        clock.learn_at(tick(0), tick(100), 1_000_000);
        // A tenth of a second passes here, and less there.
        clock.learn_at(tick(100_100), tick(100_200), 1_100_000 - 100_000 / 12);
        assert_eq!((believed(&clock, 100_200), clock.setbacks()), (1_100_000 - 100_000 / 12, 0));
        clock.learn_at(tick(200_200), tick(200_300), 1_171_000);
        assert_eq!(
            (believed(&clock, 200_300), clock.setbacks()),
            (1_171_000, 1),
            "more than before, and yet"
        );
    }
}
