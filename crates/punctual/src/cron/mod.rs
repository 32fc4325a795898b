//! Schedules by the clock on the wall: cron expressions, in any time zone.
//!
//! ```text
//!  text ──parse──▶ Fields ──▶ Pattern            wall times that are admitted      pattern.rs, days.rs
//!                    │           │ next(wall)
//!                describe        ▼
//!                    ▼       Resolver ◀── Zone   instants to fire at               resolve.rs, zone.rs
//!                  text          │ next(instant)
//!                                ▼
//!                          CronSchedule          expression, zone, policies        schedule.rs
//! ```
//!
//! Wall time and real time meet in one file, `resolve.rs`; its essay has the rules for days on which the clocks
//! change. A pattern knows no zone, a zone no pattern.
//!
//! # Invariants
//! 1. Nothing here reads a clock. A schedule is a function from an instant to the next, so asking again after a
//!    restart, or on another machine, gives the same answer.
//! 2. Fire times strictly increase, and the search for the next one is bounded: an expression that no date can
//!    match is refused when it is read.
//! 3. No type of `jiff` is public: it has not reached its version 1.
//!
//! # Paths not taken
//! - *`croner`*, searching in wall time. Its parser takes most of the language (not `H`, `@every`, ranges that wrap), but its search
//!   works in a zone and decides for itself what a gap means, so that two wall times in one gap are lost and a date
//!   that does not exist ends the search. Given a zone without changes it would be sound, and what
//!   then remains of it is finding the next set bit: less code here than the adapter to it would be, with the
//!   impossible dates known beforehand, the items kept for the description and for errors with their place.
//! - *One table of transitions of our own*, computed when a schedule is made: faster by some tens of nanoseconds, and
//!   wrong for years beyond the table.
//! - *`@every` relative to the time of asking*, as elsewhere: then asking twice gives two answers, and a schedule that
//!   is asked anew after each step of the clock never fires. Hence a grid with an anchor.

mod calendar;
mod days;
mod describe;
mod error;
mod every;
mod expression;
mod field;
mod occurrence;
mod parse;
mod pattern;
mod resolve;
mod schedule;
mod spread;
mod zone;

pub use days::DayRule;
pub use error::{CronError, CronErrorKind};
pub use expression::{Cron, CronOptions};
pub use occurrence::{ClockChange, Occurrence};
pub use schedule::{CronSchedule, Gap, Occurrences, Upcoming, WallOverlap};
