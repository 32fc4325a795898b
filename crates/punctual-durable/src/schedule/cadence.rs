//! When occurrences come.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use punctual::CronSchedule;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::Timestamp;

/// When occurrences come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cadence {
    /// On the grid `start + n × period`, however late one is.
    Every(Duration),
    /// This long after the occurrence before it was over.
    Delay(Duration),
    /// By the clock on the wall; see [`punctual::CronSchedule`], whose default policies decide what happens when the
    /// clocks are changed.
    Cron {
        /// Such as `0 9 * * MON-FRI`.
        expression: String,
        /// Such as `Europe/Berlin`.
        zone: String,
    },
}

impl Cadence {
    /// By the clock on the wall.
    ///
    /// # Errors
    /// If the expression or the zone makes no sense.
    pub fn cron(expression: &str, zone: &str) -> Result<Self> {
        let cadence = Self::Cron { expression: expression.to_owned(), zone: zone.to_owned() };
        cadence.check().map(|()| cadence)
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Every(period) | Self::Delay(period) if *period < Duration::from_millis(1) => {
                Err(Error::invalid(format!("a period of {period:?} is less than a millisecond")))
            }
            Self::Every(_) | Self::Delay(_) => Ok(()),
            Self::Cron { expression, zone } => {
                match CronSchedule::parse(expression, zone) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Error::invalid(format!("{expression:?} in {zone:?} is no schedule"))
                        .with_source(error)),
                }
            }
        }
    }

    /// The first time after `now`, for a schedule that begins then. A cron expression that cannot be read any more has
    /// none.
    pub(super) fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(period) | Self::Delay(period) => Some(now.after(*period)),
            Self::Cron { expression, zone } => next_after(&CronSchedule::parse(expression, zone).ok()?, now),
        }
    }
}

pub(super) fn next_after(cron: &CronSchedule, instant: Timestamp) -> Option<Timestamp> {
    cron.next_after(instant.to_system_time()?).map(Timestamp::from)
}

/// The latest `most` times of `cron` from `first`, which is one, to `until`; in order.
///
/// By 4 of `schedule.rs` it does not walk along from `first`: it walks through a window at the end. One that has too few times in it is
/// made longer; one that has far too many, because a dense stretch lies before a long silence, shorter again.
pub(super) fn latest(
    cron: &CronSchedule,
    first: Timestamp,
    until: Timestamp,
    most: usize,
) -> VecDeque<Timestamp> {
    // A window that is made longer has hardly more than this, if the times lie evenly.
    let steps = most.saturating_mul(10).max(1_000);
    let (mut too_short, mut too_long) = (Duration::ZERO, None);
    let mut window = Duration::from_secs(2);
    loop {
        let from = first.max(until.before(window));
        let before = Timestamp::from_micros(from.as_micros().saturating_sub(1));
        let walk = std::iter::successors(next_after(cron, before), |time| next_after(cron, *time));
        let mut found = VecDeque::new();
        let mut walked = 0;
        for time in walk.take_while(|time| *time <= until).take(steps) {
            walked += 1;
            found.push_back(time);
            if found.len() > most {
                found.pop_front();
            }
        }
        if walked < steps && (found.len() == most || from == first) {
            return found;
        }
        if walked < steps {
            too_short = window;
        } else {
            too_long = Some(window);
        }
        // Times lie a second apart or more, so between the two there is a window with enough of them and no more.
        window = too_long.map_or(window.saturating_mul(8), |too_long| too_short + (too_long - too_short) / 2);
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(period) => write!(f, "every {period:?}"),
            Self::Delay(delay) => write!(f, "{delay:?} after the last"),
            Self::Cron { expression, zone } => write!(f, "{expression} ({zone})"),
        }
    }
}
