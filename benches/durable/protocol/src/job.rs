//! What every job carries.

use serde::{Deserialize, Serialize};

/// The bytes of a payload, as JSON.
const SIZE: usize = 64;

/// A job with 64 bytes of payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Which one it is; [`Job::WAITS`] for those that are not due while we measure.
    pub n: u64,
    /// When it is due, in microseconds since 1970. If that is not positive it is due at once, and was sent at that
    /// instant after 1970, if it matters.
    pub due: i64,
    /// So that all payloads have the same length.
    pub fill: String,
}

impl Job {
    /// The number of jobs that only wait.
    pub const WAITS: u64 = u64::MAX;

    /// Due at once.
    #[must_use]
    pub fn now(n: u64) -> Self {
        Self::at(n, 0)
    }

    /// Due at that instant.
    #[must_use]
    pub fn at(n: u64, due: i64) -> Self {
        let bare = format!("{{\"n\":{n},\"due\":{due},\"fill\":\"\"}}").len();
        Self { n, due, fill: "x".repeat(SIZE.saturating_sub(bare)) }
    }
}
