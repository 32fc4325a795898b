//! What happens to occurrences that were missed, or would overlap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What becomes of occurrences whose time has passed while nobody could fire them. One that is at most a second late is
/// not missed: it happens, and counts among the latest.
///
/// ```text
/// nominal   1    2    3    4    5         nobody was there from 1 to 4½
/// skip                          5
/// once                       4  5         the latest of them, late
/// all(2)                   3 4  5         the latest two
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Missed {
    pub(super) most: u32,
    pub(super) within: Option<Duration>,
}

impl Missed {
    /// The most occurrences that are made up for: they become jobs in one transaction.
    pub const MOST: u32 = 100_000;

    /// None of them happens.
    #[must_use]
    pub const fn skip() -> Self {
        Self::all(0)
    }

    /// The latest of them happens. The default.
    #[must_use]
    pub const fn once() -> Self {
        Self::all(1)
    }

    /// The latest `most` of them happen. No schedule is saved with more than [`MOST`](Self::MOST).
    #[must_use]
    pub const fn all(most: u32) -> Self {
        Self { most, within: None }
    }

    /// Only those that are not later than this.
    #[must_use]
    pub const fn within(mut self, lateness: Duration) -> Self {
        self.within = Some(lateness);
        self
    }

    /// Whatever it says, it may have been saved by somebody who did not check.
    pub(super) fn most(self) -> u32 {
        self.most.min(Self::MOST)
    }
}

impl Default for Missed {
    fn default() -> Self {
        Self::once()
    }
}

/// What happens when it is time for an occurrence and the one before is not over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Overlap {
    /// It waits until that one is over; if another one waits already, it is skipped. The default.
    #[default]
    Wait,
    /// It is skipped.
    Skip,
    /// It happens all the same.
    Allow,
}
