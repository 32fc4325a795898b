//! When a task is due first.

use std::time::Duration;

use punctual_engine::Tick;

/// The first deadline of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// So long after it is submitted.
    After(Duration),
    /// At an instant of the executor's clock; one that has passed means now, and is late.
    At(Tick),
}

impl When {
    pub(crate) fn tick(self, now: Tick) -> Tick {
        match self {
            Self::After(delay) => now.after(delay),
            Self::At(tick) => tick,
        }
    }
}

impl From<Duration> for When {
    fn from(delay: Duration) -> Self {
        Self::After(delay)
    }
}

impl From<Tick> for When {
    fn from(tick: Tick) -> Self {
        Self::At(tick)
    }
}
