//! Jobs that may be poison pills, one at a time.
//!
//! A job that was lost several times in a row is a *suspect*; why, and what that is good for, is told in `store/rules.rs`.
//! If a node dies that holds one suspect, by what the store knows, it is charged with that; if there are several, nobody
//! knows. So a node begins a suspect only when the store knows that it holds no other.
//!
//! # Protocol
//! - Of the suspects that a claim brings, one is kept, unless there is one here already or in the outbox. The others are
//!   deferred: given back for a while, unbegun.
//! - If any were, the one that was kept is in *custody* until an exchange has recorded these reports and brought no other
//!   suspect. The reports are on their way, so there is such an exchange.
//! - While it runs, another may come, and is the node's until its report is recorded. If the node dies meanwhile, neither is
//!   charged, and both have another chance.
//!
//! # How long the others wait
//! As long as the one that is here has been here already, within [`DEFERRAL`], and longer if they are many; and as long
//! again at most, by chance: so they come one by one, and not often while one that is long keeps them waiting.

use std::time::Duration;

use punctual::Tick;

use super::attempt::Attempt;
use super::state::State;

/// How long a suspect waits for another, at least and at most; and how long for each of those that wait with it.
const DEFERRAL: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));
const DEFERRAL_EACH: Duration = Duration::from_millis(20);

impl State {
    /// Whether the store takes us for the holder of a suspect.
    pub(super) fn has_suspect(&self) -> bool {
        self.held.values().any(|held| held.suspect) || self.outbox.has_suspect()
    }

    /// How long `count` suspects are to wait.
    pub(super) fn deferral(&self, now: Tick, count: usize) -> Duration {
        if count == 0 {
            return Duration::ZERO;
        }
        let here = self.held.values().filter(|held| held.suspect).map(|held| now.since(held.since)).max();
        let many = DEFERRAL_EACH.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        here.unwrap_or_default().max(many).clamp(DEFERRAL.0, DEFERRAL.1)
    }

    /// The one in custody, if the store has heard of all others that they are not here any more.
    pub(super) fn leave_custody(&mut self) -> Option<Attempt> {
        if self.custody.is_some() && !self.outbox.has_suspect() { self.custody.take() } else { None }
    }
}

/// That long, and as long again at most.
pub(super) fn spread(wait: Duration) -> Duration {
    wait + wait.mul_f64(fastrand::f64())
}
