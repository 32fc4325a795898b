//! From wall times to instants.
//!
//! A zone is a row of stretches, each with one offset (`zone.rs`). Where the offset grows, the wall skips times: a
//! *gap*. Where it shrinks, the wall shows times again: an *overlap*.
//!
//! ```text
//! New York, 8 March 2026 (gap)                        1 November 2026 (overlap)
//!
//! instant   06:00Z    07:00Z    08:00Z                instant   05:00Z    06:00Z    07:00Z
//! stretch   ── EST ────┤├──── EDT ──                  stretch   ── EDT ────┤├──── EST ──
//! wall      01:00  (02:00)03:00     04:00             wall      01:00  (02:00)01:00     02:00
//!                  └ p     └ g                                  └ shown first  └ shown again
//! ```
//!
//! # Rules
//!
//! A pattern that *follows the clock* (its hour is a wildcard, or a step through several hours) fires at every
//! instant at which the wall shows an admitted time. Nothing is moved, nothing left out: `*/30 * * * *` keeps its
//! distance of thirty real minutes through both kinds of change, and `15 * * * *` does not run at 03:00 because there
//! was no 02:15. Policies do not concern it.
//!
//! Any other pattern names times of the day, and each is owed one run:
//! 1. A time that the wall shows once fires then.
//! 2. A time shown more than once fires at its first showing, its last, or each (`WallOverlap`).
//! 3. A time that is never shown, because it lies in the gap from `p` to `g`: at the instant of the change
//!    (`FirstValid`), never (`Skip`), or as long after the change as it lies after `p` (`Shift`).
//! 4. A date that is never shown at all (Apia, 30 December 2011) is owed nothing, whatever the policy.
//! 5. One instant is one run, however many wall times led to it.
//!
//! # The search
//!
//! `Resolver::next` looks at one stretch at a time, from an instant on. The runs within the stretch are admitted wall
//! times that it shows, less those that 2 gives to another stretch (skipped a whole stretch at a time, not one by one),
//! and those that 3 moves into it. If there are none it goes on to the next stretch; but if the next admitted wall
//! time is far ahead, straight to [`REACH`] before it.
//!
//! Why a jump skips nothing: offsets differ by less than `REACH`. So the stretches after one that ends more than
//! `REACH` from here show, and skip, only wall times later than what the wall shows here; and an instant more than
//! `REACH` before the next admitted wall time shows only earlier ones. Between the two nothing is admitted.
//!
//! # Invariants
//! 1. `next(from)` is not before `from`, and is the least such instant.
//! 2. Each turn of the search begins at a later stretch, and it ends where the pattern does. So it ends.
//!
//! # Cost
//! Typically one look at the pattern and one at the zone. A pattern whose every time falls into gaps that a policy
//! skips costs one turn or two a year up to the year 9999, some tens of milliseconds, and then there is no next.
//!
//! # Paths not taken
//! - *Asking the zone for the instant of a wall time* (earlier, later, compatible) answers for one time, but a
//!   search needs the *order* of instants: in an overlap, 01:30 may come before 01:00, and a shifted time after one
//!   that was not. Searching in wall time and sorting afterwards is where others lose runs or run backwards.
//! - *Searching instant by instant* is right by construction and too slow; it is how the tests check this file.

use super::calendar::DAY;
use super::pattern::Pattern;
use super::schedule::{Gap, WallOverlap};
use super::zone::{Stretch, Zone};

/// More than any two offsets can differ: they are less than 26 hours, both ways.
const REACH: i64 = 3 * DAY;

/// Where no search begins and from where none goes on: outside of the years 1 to 9999, in any zone.
const EARLIEST: i64 = -719_164 * DAY;
const LATEST: i64 = 2_932_900 * DAY;

/// All that decides when a pattern fires.
#[derive(Clone, Copy)]
pub(super) struct Resolver<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) zone: &'a Zone,
    pub(super) gap: Gap,
    pub(super) overlap: WallOverlap,
}

/// An instant to fire at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) at: i64,
    /// The wall time that a gap skipped, if this is its replacement.
    pub(super) skipped: Option<i64>,
}

impl Resolver<'_> {
    /// The first run that is not before the instant `from`.
    pub(super) fn next(&self, from: i64) -> Option<Hit> {
        let mut from = from.max(EARLIEST);
        while from < LATEST {
            let stretch = self.zone.stretch(from);
            let shown = self.shown(stretch, from).map(|at| Hit { at, skipped: None });
            let moved = self.moved(stretch, from);
            // If both are the same instant, it is the one that needed no moving.
            if let Some(hit) = shown.into_iter().chain(moved).min_by_key(|hit| hit.at) {
                return Some(hit);
            }
            from = self.onward(stretch, from)?;
        }
        None
    }

    /// Where to look next, if there is nothing from `from` to the end of the stretch.
    fn onward(&self, stretch: Stretch, from: i64) -> Option<i64> {
        if stretch.end - from <= REACH {
            return Some(stretch.end);
        }
        let wall = self.pattern.next(from + stretch.offset)?;
        Some(stretch.end.max(wall - stretch.offset - REACH))
    }

    /// The first run within the stretch at a time that the wall really shows.
    fn shown(&self, stretch: Stretch, from: i64) -> Option<i64> {
        let mut wall = self.pattern.next(from + stretch.offset)?;
        while wall < stretch.end_wall() {
            let elsewhere = match self.overlap {
                _ if self.pattern.follows_the_clock() => None,
                WallOverlap::First => shown_before(self.zone, stretch, wall),
                WallOverlap::Second => shown_after(self.zone, stretch, wall),
                WallOverlap::Both => None,
            };
            match elsewhere {
                None => return Some(wall - stretch.offset),
                // Everything up to the end of the other stretch is the other's.
                Some(other) => wall = self.pattern.next(other.end_wall())?,
            }
        }
        None
    }

    /// The first run within the stretch for a time that a gap skipped.
    fn moved(&self, stretch: Stretch, from: i64) -> Option<Hit> {
        if self.pattern.follows_the_clock() {
            return None;
        }
        match self.gap {
            Gap::Skip => None,
            Gap::FirstValid if from > stretch.start => None,
            Gap::FirstValid => {
                let before = self.zone.before(stretch)?;
                let skipped = self.skipped(before, stretch, before.end_wall())?;
                Some(Hit { at: stretch.start, skipped: Some(skipped) })
            }
            Gap::Shift => {
                // Usually there is no change so near, and hardly ever more than one.
                let mut best: Option<Hit> = None;
                let mut after = stretch;
                while from - after.start <= REACH {
                    let Some(before) = self.zone.before(after) else { break };
                    let skipped = self.skipped(before, after, from + before.offset);
                    let hit = skipped.map(|wall| Hit { at: wall - before.offset, skipped });
                    let hit = hit.filter(|hit| hit.at < stretch.end);
                    best = best.into_iter().chain(hit).min_by_key(|hit| hit.at);
                    after = before;
                }
                best
            }
        }
    }

    /// The first admitted time, not before `from`, that is never shown because of the change between two
    /// neighbouring stretches, on a date that is.
    fn skipped(&self, before: Stretch, after: Stretch, from: i64) -> Option<i64> {
        let (p, g) = (before.end_wall(), after.first_wall());
        let mut wall = from.max(p);
        loop {
            // Most changes are no gap, or hold nothing that is admitted.
            if wall >= g {
                return None;
            }
            wall = self.pattern.next(wall)?;
            let midnight = wall.div_euclid(DAY) * DAY;
            let other = [shown_before(self.zone, before, wall), shown_after(self.zone, after, wall)];
            match other.into_iter().flatten().next() {
                _ if wall >= g => return None,
                Some(other) => wall = other.end_wall(),
                None if p <= midnight && midnight + DAY <= g => wall = midnight + DAY,
                None => return Some(wall),
            }
        }
    }
}

/// The earlier stretch that shows this wall time, too. Only one within reach can.
pub(super) fn shown_before(zone: &Zone, stretch: Stretch, wall: i64) -> Option<Stretch> {
    let at = wall.saturating_sub(stretch.offset);
    let mut earlier = stretch;
    while at.saturating_sub(earlier.start) <= REACH {
        earlier = zone.before(earlier)?;
        if earlier.shows(wall) {
            return Some(earlier);
        }
    }
    None
}

/// The later stretch that shows this wall time, too.
pub(super) fn shown_after(zone: &Zone, stretch: Stretch, wall: i64) -> Option<Stretch> {
    let at = wall.saturating_sub(stretch.offset);
    let mut later = stretch;
    while later.end.saturating_sub(at) <= REACH {
        later = zone.after(later)?;
        if later.shows(wall) {
            return Some(later);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::expression::{Cron, Meaning};
    use super::*;

    /// Forward by two hours at 01:00 on 10 April 2026, and back after half an hour:
    ///
    /// ```text
    /// instant   00:00Z   01:00Z          01:30Z   02:00Z
    /// wall      00:00    03:00 … 03:30   01:30    02:00
    /// ```
    const HASTY: &str = "AAA0BBB-2,J100/1,J100/3:30";
    const MIDNIGHT: i64 = 1_775_779_200;

    /// The minutes of that day at which an expression fires.
    fn minutes(text: &str, gap: Gap, overlap: WallOverlap) -> Vec<i64> {
        let (cron, zone) = (Cron::parse(text).unwrap(), Zone::posix(HASTY));
        let Meaning::Pattern { pattern, .. } = &cron.meaning else { panic!("{text} is a period") };
        let resolver = Resolver { pattern, zone: &zone, gap, overlap };
        let runs = std::iter::successors(resolver.next(MIDNIGHT), |hit| resolver.next(hit.at + 1));
        runs.map(|hit| (hit.at - MIDNIGHT) / 60).take_while(|minute| *minute < 720).collect()
    }

    #[test]
    fn a_time_that_is_skipped_and_then_shown_after_all_is_not_moved() {
        for gap in [Gap::FirstValid, Gap::Skip, Gap::Shift] {
            assert_eq!(minutes("45 1 * * *", gap, WallOverlap::First), [105], "{gap:?}");
            assert_eq!(minutes("15 2 * * *", gap, WallOverlap::First), [135], "{gap:?}");
        }
        // 01:15 is never shown.
        assert_eq!(minutes("15,45 1 * * *", Gap::FirstValid, WallOverlap::First), [60, 105]);
        assert_eq!(minutes("15,45 1 * * *", Gap::Shift, WallOverlap::First), [75, 105]);
        assert_eq!(minutes("15,45 1 * * *", Gap::Skip, WallOverlap::First), [105]);
    }

    #[test]
    fn passes_are_told_apart_by_what_the_wall_shows_not_by_how_the_offset_changed() {
        assert_eq!(minutes("15 3 * * *", Gap::FirstValid, WallOverlap::First), [75]);
        assert_eq!(minutes("15 3 * * *", Gap::FirstValid, WallOverlap::Second), [195]);
        assert_eq!(minutes("15 3 * * *", Gap::FirstValid, WallOverlap::Both), [75, 195]);
        assert_eq!(minutes("45 3 * * *", Gap::FirstValid, WallOverlap::Second), [225]);
    }
}
