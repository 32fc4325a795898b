//! How many threads and how many waiting tasks, and which combinations make sense.

use std::time::Duration;

use crate::error::InvalidArgument;

/// The sizes of a pool. Guarded by the pool's lock; every value in it has passed [`Sizes::check`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) core: usize,
    /// `None`: as many as `core`, and never fewer than one.
    pub(crate) max: Option<usize>,
    /// `None`: no bound.
    pub(crate) capacity: Option<usize>,
    pub(crate) keep_alive: Duration,
    pub(crate) core_times_out: bool,
}

impl Sizes {
    pub(crate) fn max(&self) -> usize {
        self.max.unwrap_or(self.core).max(1)
    }

    pub(crate) fn check(self) -> Result<Self, InvalidArgument> {
        match self.max {
            Some(0) => Err(InvalidArgument::new("max_threads must be at least 1")),
            Some(max) if max < self.core => Err(InvalidArgument::new(format!(
                "core_threads ({}) must not exceed max_threads ({max})",
                self.core
            ))),
            _ if self.core_times_out && self.keep_alive.is_zero() => {
                Err(InvalidArgument::new("core threads cannot time out with a keep_alive of zero"))
            }
            _ => Ok(self),
        }
    }
}
