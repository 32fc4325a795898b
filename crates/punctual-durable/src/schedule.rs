//! Jobs that come again: when, and what if one was missed or is still running.
//!
//! A schedule is a row in the store: a definition, and the nominal time of its next occurrence. Whoever sees that time
//! come near *fires* it, in one transaction: the time moves on, and the occurrence becomes an ordinary job. The version
//! of the row is compared, so of several nodes one wins, and a crash leaves both or neither: every occurrence happens
//! once, and nobody is elected.
//!
//! Deciding is pure and is done here ([`ScheduleRecord::firing`]); the store only obeys.
//!
//! # Invariants
//! 1. Nominal times of one schedule strictly increase, and those of a fixed rate lie on the grid `start + n × period`.
//! 2. Unless overlap is allowed, at most one occurrence of a schedule is alive. What would be a second is skipped, or
//!    *owed*: it becomes a job in the transaction in which the first is over.
//! 3. A fixed delay has no next time while an occurrence is alive; it gets one in the transaction in which that is over.
//! 4. The cost of firing does not depend on how long nobody did.
//! 5. A change of what is run, or how, changes nothing about when: by that no occurrence is lost or happens again.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use punctual::CronSchedule;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{NewJob, check_name};
use crate::store::Saved;
use crate::time::Timestamp;

/// How late an occurrence may be and not count as missed.
const GRACE: Duration = Duration::from_secs(1);

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

    fn check(&self) -> Result<()> {
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
    fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(period) | Self::Delay(period) => Some(now.after(*period)),
            Self::Cron { expression, zone } => next_after(&CronSchedule::parse(expression, zone).ok()?, now),
        }
    }
}

fn next_after(cron: &CronSchedule, instant: Timestamp) -> Option<Timestamp> {
    cron.next_after(instant.to_system_time()?).map(Timestamp::from)
}

/// The latest `most` times of `cron` from `first`, which is one, to `until`; in order.
///
/// By 4 it does not walk along from `first`: it walks through a window at the end. One that has too few times in it is
/// made longer; one that has far too many, because a dense stretch lies before a long silence, shorter again.
fn latest(cron: &CronSchedule, first: Timestamp, until: Timestamp, most: usize) -> VecDeque<Timestamp> {
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
    most: u32,
    within: Option<Duration>,
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
    fn most(self) -> u32 {
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

/// A schedule to be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewSchedule {
    /// Its name: who saves another definition under the same name changes the schedule.
    pub name: String,
    /// When occurrences come.
    pub cadence: Cadence,
    /// The nominal time of the first one. By default, one period after the schedule is saved.
    pub start: Option<Timestamp>,
    /// What each occurrence is. Its due time and unique key do not matter.
    pub job: NewJob,
    /// What if some were missed.
    pub missed: Missed,
    /// What if the last one is not over.
    pub overlap: Overlap,
}

impl NewSchedule {
    /// A schedule with every option at its default.
    #[must_use]
    pub fn new(name: impl Into<String>, cadence: Cadence, job: NewJob) -> Self {
        let (missed, overlap) = (Missed::default(), Overlap::default());
        Self { name: name.into(), cadence, start: None, job, missed, overlap }
    }

    /// Whether a store may accept it. Every store asks before it does anything.
    ///
    /// # Errors
    /// If the name, the job or the period makes no sense.
    pub fn check(&self) -> Result<()> {
        check_name("name of a schedule", &self.name, NewJob::MAX_NAME)?;
        self.job.check()?;
        if self.job.unique.is_some() {
            return Err(Error::invalid(format!("the job of the schedule {:?} has a unique key", self.name)));
        }
        let most = self.missed.most;
        if most > Missed::MOST {
            return Err(Error::invalid(format!(
                "the schedule {:?} makes up for {most} occurrences at once, the most is {}",
                self.name,
                Missed::MOST
            )));
        }
        self.cadence.check()
    }

    /// When a schedule that is saved at `now` begins; `None` if it never does.
    #[must_use]
    pub fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.start, &self.cadence) {
            (None, cadence) => cadence.first(now),
            (Some(start), Cadence::Every(_) | Cadence::Delay(_)) => Some(start),
            // The first time that is not before it.
            (Some(start), cron @ Cadence::Cron { .. }) => {
                cron.first(Timestamp::from_micros(start.as_micros().saturating_sub(1)))
            }
        }
    }

    /// When a schedule that becomes this one at `now` goes on: the first of its times that is not before `from`.
    fn first_from(&self, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let first = self.first(now)?;
        if first >= from {
            return Some(first);
        }
        match &self.cadence {
            Cadence::Every(period) => {
                let period = period.as_micros().max(1);
                let short = (period - from.since(first).as_micros() % period) % period;
                Some(from.after(Duration::from_micros(u64::try_from(short).unwrap_or(u64::MAX))))
            }
            Cadence::Delay(delay) => Some(from.max(now.after(*delay))),
            cron @ Cadence::Cron { .. } => {
                cron.first(Timestamp::from_micros(from.as_micros().saturating_sub(1)))
            }
        }
    }
}

/// What a store knows of a schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// What was saved.
    pub definition: NewSchedule,
    /// The nominal time of the next occurrence; `None` while a fixed delay waits for the last one to be over.
    pub next: Option<Timestamp>,
    /// The nominal time of the last occurrence that happened.
    pub last: Option<Timestamp>,
    /// An occurrence that becomes a job when the one that is alive is over.
    pub owed: Option<Timestamp>,
    /// Grows with every change.
    pub version: i64,
    /// Since when and why it is paused.
    pub paused: Option<(Timestamp, String)>,
}

impl ScheduleRecord {
    /// Why a record that cannot be read is not changed: whoever wrote it knows more than we do.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn unreadable(name: &str) -> Error {
        Error::broken(format!("the schedule {name:?} cannot be read: it is of a later version, or damaged"))
    }

    /// The record of a schedule that has just been saved.
    #[must_use]
    pub fn saved(definition: NewSchedule, now: Timestamp) -> Self {
        let next = definition.first(now);
        Self { definition, next, last: None, owed: None, version: 1, paused: None }
    }

    /// What to do about it at `now`, for occurrences due by `until`; `None` if it is not time.
    #[must_use]
    pub fn firing(&self, now: Timestamp, until: Timestamp) -> Option<Firing> {
        let next = self.next.filter(|next| *next <= until && self.paused.is_none())?;
        let (occurrences, next) = match &self.definition.cadence {
            Cadence::Every(period) => self.on_grid(next, *period, now, until),
            Cadence::Delay(_) if self.is_wanted(next, now, 1) => (vec![next], None),
            Cadence::Delay(delay) => (Vec::new(), Some(now.after(*delay))),
            Cadence::Cron { expression, zone } => {
                // What could be read when it was saved can be read now, unless the zone is gone. Then it waits.
                let cron = CronSchedule::parse(expression, zone).ok()?;
                (self.by_the_clock(&cron, next, now, until), next_after(&cron, until))
            }
        };
        Some(Firing { name: self.definition.name.clone(), version: self.version, occurrences, next })
    }

    /// Whether an occurrence happens, if it is the `nth` latest of those whose time has come.
    fn is_wanted(&self, nominal: Timestamp, now: Timestamp, nth: i128) -> bool {
        let lateness = now.since(nominal);
        let (most, within) = (self.definition.missed.most(), self.definition.missed.within);
        lateness <= GRACE || (nth <= i128::from(most) && within.is_none_or(|within| lateness <= within))
    }

    fn by_the_clock(
        &self,
        cron: &CronSchedule,
        next: Timestamp,
        now: Timestamp,
        until: Timestamp,
    ) -> Vec<Timestamp> {
        // Expressions count in seconds: no more are on time than there are seconds.
        let on_time =
            usize::try_from((GRACE + until.since(now)).as_secs()).unwrap_or(usize::MAX).saturating_add(2);
        let most = on_time.saturating_add(self.definition.missed.most() as usize);
        let times = latest(cron, next, until, most);
        let come = times.iter().filter(|time| **time <= now).count();
        let nth = |place: usize| i128::try_from(come - place).unwrap_or(i128::MAX);
        let wanted = |(place, time): (usize, Timestamp)| {
            (place >= come || self.is_wanted(time, now, nth(place))).then_some(time)
        };
        times.into_iter().enumerate().filter_map(wanted).collect()
    }

    /// The nominal times from `from` until before `until`, at most `most`, whether they happened or not. `None` for a
    /// fixed delay, which has no times of its own.
    ///
    /// ```
    /// use punctual_durable::{Cadence, NewJob, NewSchedule, ScheduleRecord, Timestamp};
    ///
    /// let noon = NewSchedule::new("noon", Cadence::cron("0 12 * * *", "UTC")?, NewJob::new("lunch", "{}"));
    /// let record = ScheduleRecord::saved(noon, Timestamp::EPOCH);
    /// let days = record.times(Timestamp::EPOCH, Timestamp::from_micros(2 * 86_400_000_000), 100).unwrap();
    /// assert_eq!(days[1].to_string(), "1970-01-02T12:00:00.000000Z");
    /// assert_eq!(days.len(), 2);
    /// # Ok::<(), punctual_durable::Error>(())
    /// ```
    #[must_use]
    pub fn times(&self, from: Timestamp, until: Timestamp, most: usize) -> Option<Vec<Timestamp>> {
        match &self.definition.cadence {
            Cadence::Delay(_) => None,
            Cadence::Every(period) => {
                // By 1 any of them tells the grid.
                let known = self.next.or(self.last).or(self.definition.start)?;
                let (origin, period) =
                    (i128::from(known.as_micros()), period.as_micros().max(1).cast_signed());
                // Rounded up; the origin itself may lie on either side.
                let first = -(origin - i128::from(from.as_micros())).div_euclid(period);
                let point = |n: i128| i64::try_from(origin + n * period).ok().map(Timestamp::from_micros);
                let grid = (first..).map_while(point).take_while(|time| *time < until);
                Some(grid.take(most).collect())
            }
            Cadence::Cron { expression, zone } => {
                let cron = CronSchedule::parse(expression, zone).ok()?;
                let before = Timestamp::from_micros(from.as_micros().saturating_sub(1));
                let walk = std::iter::successors(next_after(&cron, before), |time| next_after(&cron, *time));
                Some(walk.take_while(|time| *time < until).take(most).collect())
            }
        }
    }

    // ---- what a store does to it, in its transactions

    /// Applies a firing that was decided on this version; says which occurrences happen, given how many are alive.
    #[must_use]
    pub fn fired(&mut self, firing: Firing, living: usize) -> Vec<Timestamp> {
        self.version += 1;
        self.next = firing.next;
        let mut happening = firing.occurrences;
        if self.definition.overlap != Overlap::Allow {
            // By 2. The first that may happen, happens; of the others the latest is owed.
            let late = happening.split_off(happening.len().min(usize::from(living == 0)));
            if self.definition.overlap == Overlap::Wait {
                self.owed = late.last().copied().or(self.owed);
            }
        }
        self.last = happening.last().copied().or(self.last);
        happening
    }

    /// The last living occurrence is over: says which one is owed and happens now.
    #[must_use]
    pub fn next_after_end(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.paused.is_some() {
            return None;
        }
        let owed = self.owed.take();
        if owed.is_some() {
            self.last = owed;
            self.version += 1;
        } else if let (Cadence::Delay(delay), None) = (&self.definition.cadence, self.next) {
            self.next = Some(now.after(*delay));
            self.version += 1;
        }
        owed
    }

    /// Takes on another definition, if it is another. If it says the same about when, it goes on where it was: an
    /// occurrence whose time has come and that nobody has fired is not lost. Otherwise it begins anew, after whatever has
    /// happened. What is owed happens in any case.
    pub fn redefine(&mut self, definition: NewSchedule, now: Timestamp) -> Saved {
        let old = &self.definition;
        if *old == definition {
            return Saved::Unchanged;
        }
        let same_times = old.cadence == definition.cadence && old.start == definition.start;
        let waits_for_end = matches!(
            (&old.cadence, &definition.cadence, self.next),
            (Cadence::Delay(_), Cadence::Delay(_), None)
        );
        // By 1, and by 3.
        if !same_times && !waits_for_end {
            let happened = self.last.max(self.owed);
            let after = |time: Timestamp| Timestamp::from_micros(time.as_micros().saturating_add(1));
            self.next = definition.first_from(happened.map_or(now, |last| now.max(after(last))), now);
        }
        self.definition = definition;
        self.version += 1;
        Saved::Updated
    }

    /// Makes no more occurrences. What was owed is forgotten. Paused already, it stays as it is.
    pub fn pause(&mut self, reason: String, now: Timestamp) {
        if self.paused.is_none() {
            self.paused = Some((now, reason));
            self.owed = None;
            self.version += 1;
        }
    }

    /// Goes on, given how many occurrences are alive.
    pub fn resume(&mut self, living: usize, now: Timestamp) {
        if self.paused.take().is_some() {
            self.version += 1;
            // A fixed delay whose last occurrence was over during the pause.
            if self.next.is_none() && living == 0 {
                self.next = Some(now);
            }
        }
    }

    /// By 4 the grid is computed with, not walked along.
    fn on_grid(
        &self,
        next: Timestamp,
        period: Duration,
        now: Timestamp,
        until: Timestamp,
    ) -> (Vec<Timestamp>, Option<Timestamp>) {
        let (origin, period) = (i128::from(next.as_micros()), period.as_micros().max(1).cast_signed());
        let last = (i128::from(until.as_micros()) - origin) / period;
        let point =
            |n: i128| i64::try_from(origin + n * period).map_or(Timestamp::MAX, Timestamp::from_micros);
        // Those that are on time, and as many of the others as are wanted.
        let on_time = i128::try_from((GRACE + until.since(now)).as_micros()).unwrap_or(0) / period + 1;
        let first = (last + 1 - on_time - i128::from(self.definition.missed.most())).max(0);
        let come = (i128::from(now.as_micros()) - origin).div_euclid(period);
        let wanted = (first..=last).filter(|n| *n > come || self.is_wanted(point(*n), now, come - n + 1));
        (wanted.map(point).collect(), Some(point(last + 1)))
    }
}

/// One step of a schedule, decided on what was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Firing {
    /// The schedule.
    pub name: String,
    /// The version that was seen: if it is another by now, nothing happens.
    pub version: i64,
    /// Nominal times of the occurrences that happen now.
    pub occurrences: Vec<Timestamp>,
    /// The nominal time of the one after them.
    pub next: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn every(seconds: u64, missed: Missed) -> ScheduleRecord {
        let cadence = Cadence::Every(Duration::from_secs(seconds));
        let schedule = NewSchedule { missed, ..NewSchedule::new("s", cadence, NewJob::new("k", "{}")) };
        ScheduleRecord::saved(schedule, second(0))
    }

    fn fired(record: &ScheduleRecord, now: i64) -> (Vec<Timestamp>, Option<Timestamp>) {
        let firing = record.firing(second(now), second(now)).expect("it is time");
        (firing.occurrences, firing.next)
    }

    #[test]
    fn a_grid_is_kept_and_what_was_missed_follows_the_policy() {
        let at = |seconds: &[i64]| seconds.iter().map(|s| second(*s)).collect::<Vec<_>>();
        let late = 47; // the points 10, 20, 30 and 40 have passed
        assert_eq!(every(10, Missed::once()).firing(second(9), second(9)), None);
        assert_eq!(
            fired(&every(10, Missed::skip()), 10),
            (at(&[10]), Some(second(20))),
            "on time is not missed"
        );
        assert_eq!(fired(&every(10, Missed::skip()), late), (vec![], Some(second(50))));
        assert_eq!(fired(&every(10, Missed::once()), late), (at(&[40]), Some(second(50))));
        assert_eq!(fired(&every(10, Missed::all(3)), late), (at(&[20, 30, 40]), Some(second(50))));
        assert_eq!(fired(&every(10, Missed::all(9)), late).0, at(&[10, 20, 30, 40]));
        let within = Missed::all(9).within(Duration::from_secs(20));
        assert_eq!(fired(&every(10, within), late).0, at(&[30, 40]));
        assert_eq!(fired(&every(10, Missed::once()), 50).0, at(&[50]), "what is on time is one of them");
    }

    #[test]
    fn what_comes_soon_is_fired_ahead() {
        let firing = every(10, Missed::once()).firing(second(8), second(21)).unwrap();
        assert_eq!((firing.occurrences, firing.next), (vec![second(10), second(20)], Some(second(30))));
    }

    #[test]
    fn a_thousand_years_of_absence_cost_nothing() {
        let record = every(1, Missed::all(5));
        let now = 1_000 * 365 * 86_400;
        let (occurrences, next) = fired(&record, now);
        assert_eq!((occurrences.len(), next), (5, Some(second(now + 1))));
        let end = record.firing(Timestamp::MAX, Timestamp::MAX).unwrap();
        assert_eq!(end.next, Some(Timestamp::MAX));
        let ages = every(1 << 60, Missed::once());
        assert_eq!(ages.firing(Timestamp::MAX, Timestamp::MAX).unwrap().next, Some(Timestamp::MAX));
    }

    #[test]
    fn a_fixed_delay_waits_for_the_end() {
        let delay = NewSchedule::new("s", Cadence::Delay(Duration::from_secs(10)), NewJob::new("k", "{}"));
        let record = ScheduleRecord::saved(delay.clone(), second(0));
        assert_eq!(fired(&record, 10), (vec![second(10)], None));
        let skip = ScheduleRecord::saved(NewSchedule { missed: Missed::skip(), ..delay }, second(0));
        assert_eq!(fired(&skip, 20), (vec![], Some(second(30))));
    }

    fn cron(expression: &str, zone: &str, missed: Missed) -> ScheduleRecord {
        let cadence = Cadence::cron(expression, zone).unwrap();
        let schedule = NewSchedule { missed, ..NewSchedule::new("s", cadence, NewJob::new("k", "{}")) };
        ScheduleRecord::saved(schedule, second(0))
    }

    #[test]
    fn a_cron_schedule_follows_the_wall_and_the_policy() {
        let day = 86_400;
        let nine = cron("0 9 * * *", "UTC", Missed::once());
        assert_eq!(nine.next, Some(second(9 * 3_600)));
        assert_eq!(fired(&nine, 9 * 3_600), (vec![second(9 * 3_600)], Some(second(day + 9 * 3_600))));
        let late = 400 * day;
        assert_eq!(fired(&nine, late), (vec![second(399 * day + 9 * 3_600)], Some(second(late + 9 * 3_600))));
        let all = cron("0 9 * * *", "UTC", Missed::all(3));
        let expected: Vec<_> = [397, 398, 399].map(|n| second(n * day + 9 * 3_600)).into();
        assert_eq!(fired(&all, late).0, expected);
        assert_eq!(fired(&cron("0 9 * * *", "UTC", Missed::skip()), late).0, []);
        let started = NewSchedule { start: Some(second(9 * 3_600)), ..nine.definition.clone() };
        assert_eq!(started.first(second(0)), Some(second(9 * 3_600)), "the start itself is a time");
    }

    #[test]
    fn a_dense_expression_after_a_thousand_years_costs_little() {
        let record = cron("* * * * * *", "Europe/Berlin", Missed::all(5));
        let now = 1_000 * 365 * 86_400;
        let (occurrences, next) = fired(&record, now);
        let expected: Vec<_> = (now - 4..=now).map(second).collect();
        assert_eq!((occurrences, next), (expected, Some(second(now + 1))));
        let ended = cron("0 0 0 1 1 * 2000", "UTC", Missed::once());
        let last = second(946_684_800);
        let firing = ended.firing(last, last).unwrap();
        assert_eq!((firing.occurrences, firing.next), (vec![last], None), "there is no more");
    }

    /// The second before the silence, not some second long before it.
    #[test]
    fn what_was_missed_before_a_long_silence_is_the_latest_of_it() {
        let day = 86_400;
        // Every second of January; and then it is December.
        let record = cron("* * * * 1 *", "UTC", Missed::all(5));
        let (occurrences, _) = fired(&record, 340 * day);
        let end = 31 * day;
        assert_eq!(occurrences, (end - 5..end).map(second).collect::<Vec<_>>());
    }

    #[test]
    fn as_many_as_may_be_missed_are_the_latest() {
        let most = i64::from(Missed::MOST);
        let record = cron("* * * * * *", "UTC", Missed::all(Missed::MOST));
        let now = most + most / 2;
        let (occurrences, _) = fired(&record, now);
        assert_eq!(occurrences.len(), Missed::MOST as usize);
        assert_eq!((occurrences[0], occurrences.last()), (second(now - most + 1), Some(&second(now))));
        record.definition.check().unwrap();
        let more = NewSchedule { missed: Missed::all(Missed::MOST + 1), ..record.definition };
        let error = more.check().unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("100001"), "{error}");
    }

    #[test]
    fn an_expression_that_makes_no_sense_is_refused_with_its_text() {
        let error = Cadence::cron("0 9 * * FUNDAY", "UTC").unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains("FUNDAY"), "{error}");
        let error = Cadence::cron("0 9 * * *", "Europe/Belrin").unwrap_err();
        assert!(error.to_string().contains("Belrin"), "{error}");
    }

    #[test]
    fn times_lie_on_the_grid_in_both_directions_and_are_bounded() {
        let record = every(10, Missed::once());
        let origin = record.next.unwrap();
        let seconds = |from: i64, until: i64, most| {
            let shift = |seconds: i64| Timestamp::from_micros(origin.as_micros() + seconds * 1_000_000);
            let times = record.times(shift(from), shift(until), most).unwrap();
            times.iter().map(|time| (time.as_micros() - origin.as_micros()) / 1_000_000).collect::<Vec<_>>()
        };
        assert_eq!(seconds(-20, 20, 99), [-20, -10, 0, 10], "the end is not part of it");
        assert_eq!(seconds(-19, 11, 99), [-10, 0, 10]);
        assert!(seconds(1, 10, 99).is_empty());
        assert!(seconds(5, -5, 99).is_empty());
        assert_eq!(seconds(-1_000_000, 20, 2), [-1_000_000, -999_990]);
        let all = record.times(Timestamp::from_micros(i64::MIN), Timestamp::MAX, 3).unwrap();
        assert_eq!(all.len(), 3);
        assert!(record.times(Timestamp::MAX, Timestamp::MAX, 3).unwrap().is_empty());
        let delay =
            NewSchedule { cadence: Cadence::Delay(Duration::from_secs(1)), ..record.definition.clone() };
        assert_eq!(ScheduleRecord::saved(delay, origin).times(origin, Timestamp::MAX, 3), None);
    }

    /// What is run may be changed as often as one likes.
    #[test]
    fn another_job_or_policy_changes_nothing_about_when() {
        for record in [every(10, Missed::once()), cron("0 9 * * *", "UTC", Missed::once())] {
            let started = NewSchedule { start: record.next, ..record.definition.clone() };
            for record in [record, ScheduleRecord::saved(started, second(0))] {
                let mut record = ScheduleRecord { last: Some(second(3)), owed: Some(second(4)), ..record };
                let before = record.clone();
                let definition = NewSchedule { missed: Missed::all(7), ..before.definition.clone() };
                let definition = NewSchedule { job: NewJob::new("k", "[]"), ..definition };
                // The next one has come, and nobody has fired it yet.
                assert_eq!(record.redefine(definition.clone(), second(40_000)), Saved::Updated);
                assert_eq!(record, ScheduleRecord { definition, version: 2, ..before });
            }
        }
    }

    #[test]
    fn other_times_begin_after_now_and_after_what_has_happened() {
        let every = |seconds| Cadence::Every(Duration::from_secs(seconds));
        let nine = Cadence::cron("0 9 * * *", "UTC").unwrap();
        let hour = 3_600;
        let after = |cadence: &Cadence, start: Option<i64>, (last, owed): (i64, i64), now| {
            let old = self::every(7, Missed::once());
            let mut record = ScheduleRecord { last: Some(second(last)), owed: Some(second(owed)), ..old };
            let start = start.map(second);
            let definition = NewSchedule { cadence: cadence.clone(), start, ..record.definition.clone() };
            assert_eq!(record.redefine(definition, second(now)), Saved::Updated);
            assert_eq!(record.owed, Some(second(owed)), "what is owed is owed");
            record.next.unwrap().as_micros() / 1_000_000
        };
        assert_eq!(after(&every(10), None, (1, 2), 100), 110);
        assert_eq!(after(&every(10), Some(7), (1, 2), 100), 107, "on the grid of its start");
        assert_eq!(after(&every(10), Some(7), (1, 2), 107), 107, "now is not too late");
        assert_eq!(after(&every(10), Some(7), (107, 2), 107), 117, "once it has happened, it has");
        assert_eq!(after(&every(10), Some(7), (1, 107), 107), 117, "or will");
        assert_eq!(after(&every(10), Some(500), (1, 2), 100), 500);
        assert_eq!(after(&every(1), None, (105, 2), 100), 106, "the last one was fired ahead");
        assert_eq!(after(&nine, None, (1, 2), 8 * hour), 9 * hour);
        assert_eq!(after(&nine, Some(1), (1, 2), 80 * hour), 81 * hour);
        assert_eq!(after(&nine, Some(1), (1, 2), 81 * hour), 81 * hour);
        assert_eq!(after(&nine, None, (9 * hour, 2), 9 * hour - 1), 33 * hour, "fired ahead");
        let delay = Cadence::Delay(Duration::from_secs(10));
        assert_eq!(after(&delay, Some(7), (1, 2), 100), 110);
        assert_eq!(after(&delay, Some(200), (1, 2), 100), 200);
    }

    #[test]
    fn another_delay_waits_for_the_end_as_well() {
        let delay = |seconds| Cadence::Delay(Duration::from_secs(seconds));
        let schedule = NewSchedule::new("s", delay(10), NewJob::new("k", "{}"));
        let mut record = ScheduleRecord { next: None, ..ScheduleRecord::saved(schedule.clone(), second(0)) };
        let _ = record.redefine(NewSchedule { cadence: delay(20), ..schedule }, second(5));
        assert_eq!(record.next, None, "by 3");
        assert_eq!((record.next_after_end(second(6)), record.next), (None, Some(second(26))));
    }

    #[test]
    fn a_paused_schedule_does_not_fire() {
        let paused = ScheduleRecord { paused: Some((second(1), String::new())), ..every(10, Missed::once()) };
        assert_eq!(paused.firing(second(99), second(99)), None);
    }

    #[test]
    fn schedules_that_make_no_sense_are_refused() {
        let with =
            |name: &str, period| NewSchedule::new(name, Cadence::Every(period), NewJob::new("k", "{}"));
        assert!(with("", Duration::from_secs(1)).check().is_err());
        assert!(with("s", Duration::from_micros(999)).check().unwrap_err().to_string().contains("999µs"));
        with("s", Duration::from_millis(1)).check().unwrap();
        let keyed = NewJob::new("k", "{}").unique("u", crate::OnConflict::Keep);
        let schedule = NewSchedule { job: keyed, ..with("s", Duration::from_secs(1)) };
        assert!(schedule.check().unwrap_err().to_string().contains("unique key"));
    }
}
