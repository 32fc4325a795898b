//! When an expression fires, found by walking through real time and looking at the wall at every step.
//!
//! The walk knows nothing of offsets that change: it sees wall times, in the order in which the wall shows them, and
//! finds by looking at all of them which are missing and which come twice. Slow, and hard to get wrong.

use crate::naive::Naive;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use punctual::{Gap, WallOverlap};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 24 * HOUR;

/// How much of a walk at both ends only serves to know which dates and times exist.
pub(crate) const MARGIN: i64 = 27 * HOUR;

pub(crate) const GAPS: [Gap; 3] = [Gap::FirstValid, Gap::Skip, Gap::Shift];
pub(crate) const OVERLAPS: [WallOverlap; 3] = [WallOverlap::First, WallOverlap::Second, WallOverlap::Both];

/// What the wall shows at every step from one instant to another.
pub(crate) struct Walk {
    /// Instant and wall, both in seconds, in the order of instants.
    steps: Vec<(i64, i64)>,
    step: i64,
    /// Walls, sorted.
    shown: Vec<i64>,
    /// Days since 1970 of which the wall shows something.
    dates: BTreeSet<i64>,
}

impl Walk {
    /// Walks minute by minute, beginning and ending [`MARGIN`] outside of the span; second by second if the zone is not on
    /// the minute there.
    pub(crate) fn new(zone: &TimeZone, from: i64, to: i64) -> Self {
        let offset = |at: i64| i64::from(zone.to_offset(Timestamp::from_second(at).unwrap()).seconds());
        let (from, to) = ((from - MARGIN).div_euclid(60) * 60, (to + MARGIN).div_euclid(60) * 60);
        let changes = zone.following(Timestamp::from_second(from).unwrap());
        let mut odd = offset(from) % 60 != 0;
        for change in changes.take_while(|change| change.timestamp().as_second() <= to) {
            odd |= change.offset().seconds() % 60 != 0 || change.timestamp().as_second() % 60 != 0;
        }
        let step = if odd { 1 } else { 60 };
        let steps: Vec<_> = (from..to).step_by(step as usize).map(|at| (at, at + offset(at))).collect();
        let mut shown: Vec<_> = steps.iter().map(|&(_, wall)| wall).collect();
        shown.sort_unstable();
        let dates = shown.iter().map(|wall| wall.div_euclid(DAY)).collect();
        Self { steps, step, shown, dates }
    }

    /// Looks at the whole walk with the eyes of an expression.
    pub(crate) fn watch(&self, expression: &Matcher) -> Watched {
        let mut showings: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for &(at, wall) in self.steps.iter().filter(|&&(_, wall)| expression.admits(wall)) {
            showings.entry(wall).or_default().push(at);
        }
        let mut missing = Vec::new();
        for pair in self.steps.windows(2) {
            let [(before, last), (after, first)] = [pair[0], pair[1]];
            for wall in (last + self.step..first).step_by(self.step as usize) {
                let exists = self.shown.binary_search(&wall).is_ok();
                if !exists && self.dates.contains(&wall.div_euclid(DAY)) && expression.admits(wall) {
                    missing.push(Missing { at_the_change: after, shifted: before + (wall - last) });
                }
            }
        }
        Watched { showings, missing, follows_the_clock: expression.follows_the_clock }
    }
}

/// What an expression sees on a walk.
pub(crate) struct Watched {
    /// For each admitted wall time, the instants at which it is shown.
    showings: BTreeMap<i64, Vec<i64>>,
    missing: Vec<Missing>,
    follows_the_clock: bool,
}

/// An admitted wall time that is not shown, on a date that is: what may stand for it.
struct Missing {
    at_the_change: i64,
    shifted: i64,
}

impl Watched {
    /// The instants at which the expression fires, from one to another.
    pub(crate) fn runs(&self, gap: Gap, overlap: WallOverlap, from: i64, to: i64) -> Vec<i64> {
        let mut runs = BTreeSet::new();
        for instants in self.showings.values() {
            match overlap {
                _ if self.follows_the_clock => runs.extend(instants),
                WallOverlap::First => runs.extend(instants.first()),
                WallOverlap::Second => runs.extend(instants.last()),
                _ => runs.extend(instants),
            }
        }
        for missing in self.missing.iter().filter(|_| !self.follows_the_clock) {
            match gap {
                Gap::FirstValid => _ = runs.insert(missing.at_the_change),
                Gap::Shift => _ = runs.insert(missing.shifted),
                _ => {}
            }
        }
        runs.range(from..to).copied().collect()
    }
}

/// An expression, with the answers of the naive reading kept in tables.
pub(crate) struct Matcher {
    naive: Naive,
    /// Hours, minutes, seconds.
    times: [Vec<bool>; 3],
    dates: std::cell::RefCell<BTreeMap<i64, bool>>,
    pub(crate) follows_the_clock: bool,
}

impl Matcher {
    pub(crate) fn new(text: &str) -> Self {
        let naive = Naive::new(text);
        let table = |admits: &dyn Fn(i8) -> bool, size: i8| (0..size).map(admits).collect();
        let times = [
            table(&|hour| naive.matches_hour(hour), 24),
            table(&|minute| naive.matches_minute(minute), 60),
            table(&|second| naive.matches_second(second), 60),
        ];
        let follows_the_clock = naive.follows_the_clock();
        Self { naive, times, dates: Default::default(), follows_the_clock }
    }

    pub(crate) fn admits(&self, wall: i64) -> bool {
        let (day, second) = (wall.div_euclid(DAY), wall.rem_euclid(DAY) as usize);
        let [hours, minutes, seconds] = &self.times;
        hours[second / 3600]
            && minutes[second / 60 % 60]
            && seconds[second % 60]
            && *self
                .dates
                .borrow_mut()
                .entry(day)
                .or_insert_with(|| self.naive.matches_date(datetime(wall).date()))
    }
}

/// Date and time of so many seconds on the wall.
pub(crate) fn datetime(wall: i64) -> DateTime {
    Offset::UTC.to_datetime(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(wall))
}
