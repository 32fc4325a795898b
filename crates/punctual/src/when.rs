//! When a task is due first.

use std::time::{Duration, SystemTime};

use punctual_engine::Tick;

use crate::clock::Clock;
use crate::series::{Now, Point};

/// An instant, on one clock or the other: the first deadline of a task, or the end of its schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum When {
    /// So long after the task is submitted.
    After(Duration),
    /// At an instant of the executor's clock; one that has passed means now, and is late.
    At(Tick),
    /// At an instant of wall time. The task follows the wall clock when that is set.
    Wall(SystemTime),
}

impl When {
    /// The instant on `clock`, as things are now.
    #[inline]
    pub(crate) fn tick(self, now: Tick, clock: &dyn Clock) -> Tick {
        match self {
            Self::After(delay) => now.after(delay),
            Self::At(tick) => tick,
            Self::Wall(_) => Now::of(clock).tick_of(self.point(now)),
        }
    }

    pub(crate) fn point(self, now: Tick) -> Point {
        match self {
            Self::After(delay) => Point::Tick(now.after(delay)),
            Self::At(tick) => Point::Tick(tick),
            Self::Wall(wall) => Point::Wall(wall),
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

impl From<SystemTime> for When {
    fn from(wall: SystemTime) -> Self {
        Self::Wall(wall)
    }
}
