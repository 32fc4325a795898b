//! Bodies that take time, and note when they ran.

use std::collections::VecDeque;
use std::time::Duration;

use punctual::{Clock, ManualClock, TaskContext, Tick};

use crate::support::Log;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn at(seconds: u64) -> Tick {
    Tick::ZERO.after(SECOND * u32::try_from(seconds).unwrap())
}

pub(crate) fn seconds(tick: Tick) -> u64 {
    tick.since(Tick::ZERO).as_secs()
}

/// When a run began, which deadline it was for, and how many were left out before it; all in seconds.
pub(crate) type Seen = (u64, u64, u64);

/// A body whose `n`th run takes as many seconds as the `n`th of `lengths`, and the others none.
pub(crate) fn busy(clock: &ManualClock, log: &Log<Seen>, lengths: &[u64]) -> impl FnMut() + Send + 'static {
    let (clock, log) = (clock.clone(), log.clone());
    let mut lengths = VecDeque::from(lengths.to_vec());
    move || {
        let context = TaskContext::current();
        let deadline = context.deadline().unwrap();
        log.add((seconds(clock.now()), seconds(deadline), context.missed()));
        clock.jump(SECOND * u32::try_from(lengths.pop_front().unwrap_or(0)).unwrap());
    }
}

/// A body that notes when it began and fails as often as `script` says.
pub(crate) fn failing(
    clock: &ManualClock,
    log: &Log<u64>,
    script: &[bool],
) -> impl FnMut() -> Result<(), &'static str> + Send + 'static {
    let (clock, log) = (clock.clone(), log.clone());
    let mut script = VecDeque::from(script.to_vec());
    move || {
        log.add(seconds(clock.now()));
        if script.pop_front().unwrap_or(false) { Err("as told") } else { Ok(()) }
    }
}
