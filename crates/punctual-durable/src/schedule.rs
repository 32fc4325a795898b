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
//! 2. Unless overlap is allowed, firing leaves at most one occurrence of a schedule alive. What would be a second is
//!    skipped, or *owed*: it becomes a job in the transaction in which the first is over. If the new one is to replace the
//!    old, that is cancelled in the transaction of the firing: at once while it waits, and otherwise its owner is asked,
//!    and the new one is owed.
//! 3. A fixed delay has no next time while an occurrence is alive; it gets one in the transaction in which that is over.
//! 4. The cost of firing does not depend on how long nobody did.
//! 5. A job may be due later than its occurrence, by a delay that follows from the name of the schedule and the nominal
//!    time alone: whoever computes it, it is the same. The nominal time stays what the occurrence is known by.
//! 6. A change of what is run, or how, changes nothing about when: by that no occurrence is lost or happens again.

mod cadence;
mod policy;

use std::time::Duration;

use punctual::{CronSchedule, Spread};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{JobState, NewJob, check_name};
use crate::store::Saved;
use crate::time::Timestamp;

pub use cadence::Cadence;
use cadence::{count, is_default, latest, next_after};
pub use policy::{Missed, OnFailure, Overlap};

/// How late an occurrence may be and not count as missed.
const GRACE: Duration = Duration::from_secs(1);

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
    /// What if they fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_failure: OnFailure,
    /// Each occurrence comes later, by a part of this that the name of the schedule decides, always the same. Zero, the
    /// default, is not at all. See [`ScheduleBuilder::spread`](crate::ScheduleBuilder::spread).
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread: Duration,
    /// The job of each occurrence is due later, by a part of this that is different each time. Zero, the default, is not at
    /// all. See [`ScheduleBuilder::jitter`](crate::ScheduleBuilder::jitter).
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter: Duration,
}

impl NewSchedule {
    /// The most that occurrences are [spread](Self::spread) or [jittered](Self::jitter) over: a leap year.
    pub const MAX_SPREAD: Duration = Duration::from_secs(366 * 86_400);

    /// A schedule with every option at its default.
    #[must_use]
    pub fn new(name: impl Into<String>, cadence: Cadence, job: NewJob) -> Self {
        let (missed, overlap) = (Missed::default(), Overlap::default());
        let (on_failure, spread, jitter) = (OnFailure::default(), Duration::ZERO, Duration::ZERO);
        Self { name: name.into(), cadence, start: None, job, missed, overlap, on_failure, spread, jitter }
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
        if self.missed.shifts && !matches!(self.cadence, Cadence::Every(_)) {
            return Err(Error::invalid(format!(
                "the schedule {:?} comes {}: it has no grid that could be shifted",
                self.name, self.cadence
            )));
        }
        if self.overlap == Overlap::AtMost(0) {
            return Err(Error::invalid(format!(
                "the schedule {:?} allows 0 occurrences at once, which is none",
                self.name
            )));
        }
        if self.on_failure == OnFailure::StopAfter(0) {
            return Err(Error::invalid(format!(
                "the schedule {:?} stops after 0 failures, which is at once",
                self.name
            )));
        }
        self.check_delays()?;
        self.cadence.check(&self.name)
    }

    fn check_delays(&self) -> Result<()> {
        let (name, most) = (&self.name, Self::MAX_SPREAD);
        for (how, delay) in [("spread", self.spread), ("jittered", self.jitter)] {
            if delay > most {
                let message = format!("the schedule {name:?} is {how} over {delay:?}, the most is {most:?}");
                return Err(Error::invalid(message));
            }
        }
        match self.cadence {
            Cadence::Delay(_) if !self.spread.is_zero() => Err(Error::invalid(format!(
                "the schedule {name:?} comes {}: it has no times that could be spread",
                self.cadence
            ))),
            _ => Ok(()),
        }
    }

    /// By how much all of its occurrences come later. Whole microseconds, as stores count.
    fn shift(&self) -> Duration {
        whole(Spread::over(self.spread).delay(&self.name))
    }

    /// By how much the job of this occurrence is due later still. By 5 there is no luck in it.
    fn luck(&self, nominal: Timestamp) -> Duration {
        if self.jitter.is_zero() {
            return Duration::ZERO;
        }
        whole(Spread::over(self.jitter).delay(&format!("{}\0{}", self.name, nominal.as_micros())))
    }

    /// When a schedule that is saved at `now` begins; `None` if it never does.
    #[must_use]
    pub fn first(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.start, &self.cadence) {
            (None, cadence) => cadence.first(&self.name, now),
            (Some(start), Cadence::Every(_) | Cadence::Delay(_)) => Some(start),
            // The first time that is not before it.
            (Some(start), cron @ Cadence::Cron { .. }) => {
                cron.first(&self.name, Timestamp::from_micros(start.as_micros().saturating_sub(1)))
            }
        }
    }

    fn on_the_wall(&self) -> Option<CronSchedule> {
        self.cadence.on_the_wall(&self.name)
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
                cron.first(&self.name, Timestamp::from_micros(from.as_micros().saturating_sub(1)))
            }
        }
    }
}

fn whole(delay: Duration) -> Duration {
    Duration::from_micros(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
}

/// What a store knows of a schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// What was saved.
    pub definition: NewSchedule,
    /// The nominal time of the next occurrence, see [`due`](Self::due) for when its job is; `None` while a fixed delay
    /// waits for the last one to be over.
    pub next: Option<Timestamp>,
    /// The nominal time of the last occurrence that happened.
    pub last: Option<Timestamp>,
    /// An occurrence that becomes a job when the one that is alive is over.
    pub owed: Option<Timestamp>,
    /// Grows with every change.
    pub version: i64,
    /// Since when and why it is paused.
    pub paused: Option<(Timestamp, String)>,
    /// How many occurrences in a row have failed; counted if the schedule is to [stop](OnFailure::StopAfter) after some.
    #[serde(default)]
    pub failures: u32,
    /// How many occurrences have come to nothing since the last that happened. The next one to happen is told, see
    /// [`JobContext::missed`](crate::JobContext::missed).
    #[serde(default)]
    pub missed: u64,
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
        Self { definition, next, last: None, owed: None, version: 1, paused: None, failures: 0, missed: 0 }
    }

    /// What to do about it at `now`, for occurrences due by `until`; `None` if it is not time.
    #[must_use]
    pub fn firing(&self, now: Timestamp, until: Timestamp) -> Option<Firing> {
        let replaces = self.definition.overlap == Overlap::Replace;
        // Nobody is asked to stop before it is time.
        let until = if replaces { now } else { until };
        // Where on the grid we are: all of it comes so much later.
        let shift = self.definition.shift();
        let (now, until) = (now.before(shift), until.before(shift));
        let next = self.next.filter(|next| *next <= until && self.paused.is_none())?;
        let (occurrences, missed, next) = match &self.definition.cadence {
            Cadence::Every(period) => self.on_grid(next, *period, now, until),
            Cadence::Delay(_) if self.is_wanted(next, now, 1) => (vec![next], 0, None),
            Cadence::Delay(delay) => (Vec::new(), 1, Some(now.after(*delay))),
            Cadence::Cron { .. } => {
                // Where the zone is not known, it waits.
                let cron = self.definition.on_the_wall()?;
                let (occurrences, after) =
                    (self.by_the_clock(&cron, next, now, until), next_after(&cron, until));
                let end = occurrences.first().copied().or(after).unwrap_or(Timestamp::MAX);
                (occurrences, count(&cron, next, end), after)
            }
        };
        let replaces = replaces && !occurrences.is_empty();
        let (name, version) = (self.definition.name.clone(), self.version);
        Some(Firing { name, version, occurrences, missed, replaces, next })
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

    /// Whether its times can be told here: the zone of a cron expression may be known on some machines only.
    pub(crate) fn can_be_told(&self) -> bool {
        !matches!(self.definition.cadence, Cadence::Cron { .. }) || self.definition.on_the_wall().is_some()
    }

    /// From when on it is to be fired, by somebody who needs so much time for it.
    pub(crate) fn fire_from(&self, lead: Duration) -> Option<Timestamp> {
        let lead = if self.definition.overlap == Overlap::Replace { Duration::ZERO } else { lead };
        self.next.map(|next| next.after(self.definition.shift()).before(lead))
    }

    /// When the job of the occurrence at `nominal` is due, if it happens in time: later than that by what the schedule is
    /// [spread](NewSchedule::spread) and [jittered](NewSchedule::jitter).
    ///
    /// ```
    /// use punctual_durable::{Cadence, NewJob, NewSchedule, ScheduleRecord, Timestamp};
    /// use std::time::Duration;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let mut hourly = NewSchedule::new("report", Cadence::Every(hour), NewJob::new("report", "{}"));
    /// hourly.spread = hour;
    /// let record = ScheduleRecord::saved(hourly, Timestamp::EPOCH);
    /// let next = record.next.unwrap();
    /// assert_eq!(next.to_string(), "1970-01-01T01:00:00.000000Z");
    /// assert_eq!(record.due(next).to_string()[..16], *"1970-01-01T01:11");
    /// ```
    #[must_use]
    pub fn due(&self, nominal: Timestamp) -> Timestamp {
        nominal.after(self.definition.shift()).after(self.definition.luck(nominal))
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
            Cadence::Cron { .. } => {
                let cron = self.definition.on_the_wall()?;
                let before = Timestamp::from_micros(from.as_micros().saturating_sub(1));
                let walk = std::iter::successors(next_after(&cron, before), |time| next_after(&cron, *time));
                Some(walk.take_while(|time| *time < until).take(most).collect())
            }
        }
    }

    // ---- what a store does to it, in its transactions

    /// Applies a firing that was decided on this version; says which occurrences happen, given how many are alive. If it
    /// [replaces](Firing::replaces) others, those that waited are not alive any more.
    #[must_use]
    pub fn fired(&mut self, firing: Firing, living: usize) -> Vec<Happening> {
        self.version += 1;
        self.next = firing.next;
        let mut times = firing.occurrences;
        let overlap = self.definition.overlap;
        self.miss(firing.missed);
        if overlap == Overlap::Replace {
            // Each would replace the one before it.
            self.miss(times.drain(..times.len().saturating_sub(1)).count() as u64);
        }
        // By 2. The first that may happen, happen; of the others the latest is owed.
        let room = overlap.most().saturating_sub(living);
        let mut late = times.split_off(times.len().min(room));
        let happening = times.into_iter().map(|nominal| self.happens(nominal)).collect();
        if matches!(overlap, Overlap::Wait | Overlap::Replace)
            && let Some(latest) = late.pop()
        {
            let overtaken = self.owed.replace(latest).is_some();
            self.miss(u64::from(overtaken));
        }
        self.miss(late.len() as u64);
        happening
    }

    fn miss(&mut self, count: u64) {
        self.missed = self.missed.saturating_add(count);
    }

    /// The one that happens next: it is told of those before it.
    fn happens(&mut self, nominal: Timestamp) -> Happening {
        self.last = Some(nominal);
        Happening { nominal, missed: std::mem::take(&mut self.missed) }
    }

    /// One of its occurrences is over, and this is how. What follows, says [`next_after_end`](Self::next_after_end).
    pub fn ended(&mut self, how: JobState, now: Timestamp) {
        let OnFailure::StopAfter(most) = self.definition.on_failure else { return };
        let failures = match how {
            JobState::Dead => self.failures.saturating_add(1),
            JobState::Done | JobState::Discarded => 0,
            JobState::Scheduled | JobState::Claimed | JobState::Cancelled => self.failures,
        };
        if failures != self.failures {
            self.failures = failures;
            self.version += 1;
        }
        if how == JobState::Dead && failures >= most {
            self.pause(format!("{failures} occurrences in a row have failed"), now);
        }
    }

    /// The last living occurrence is over: says which one is owed and happens now, or when its job is [due](Self::due).
    #[must_use]
    pub fn next_after_end(&mut self, now: Timestamp) -> Option<Happening> {
        if self.paused.is_some() {
            return None;
        }
        if let Some(owed) = self.owed.take() {
            self.version += 1;
            return Some(self.happens(owed));
        }
        if let (Cadence::Delay(delay), None) = (&self.definition.cadence, self.next) {
            self.next = Some(now.after(*delay));
            self.version += 1;
        }
        None
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
        if definition.on_failure == OnFailure::Continue {
            self.failures = 0;
        }
        self.definition = definition;
        self.version += 1;
        Saved::Updated
    }

    /// Makes no more occurrences. What was owed is forgotten. Paused already, it stays as it is.
    pub fn pause(&mut self, reason: String, now: Timestamp) {
        if self.paused.is_none() {
            self.paused = Some((now, reason));
            let forgotten = self.owed.take().is_some();
            self.miss(u64::from(forgotten));
            self.version += 1;
        }
    }

    /// Goes on, given how many occurrences are alive.
    pub fn resume(&mut self, living: usize, now: Timestamp) {
        if self.paused.take().is_some() {
            self.failures = 0;
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
    ) -> (Vec<Timestamp>, u64, Option<Timestamp>) {
        let (origin, period) = (i128::from(next.as_micros()), period.as_micros().max(1).cast_signed());
        let last = (i128::from(until.as_micros()) - origin) / period;
        let point =
            |n: i128| i64::try_from(origin + n * period).map_or(Timestamp::MAX, Timestamp::from_micros);
        let come = (i128::from(now.as_micros()) - origin).div_euclid(period);
        let is_missed = come >= 0 && now.since(point(come)) > GRACE;
        if self.definition.missed.shifts && is_missed && self.is_wanted(point(come), now, 1) {
            let from_now = i64::try_from(i128::from(now.as_micros()) + period);
            let next = from_now.map_or(Timestamp::MAX, Timestamp::from_micros);
            return (vec![now], u64::try_from(come).unwrap_or(u64::MAX), Some(next));
        }
        // Those that are on time, and as many of the others as are wanted.
        let on_time = i128::try_from((GRACE + until.since(now)).as_micros()).unwrap_or(0) / period + 1;
        let first = (last + 1 - on_time - i128::from(self.definition.missed.most())).max(0);
        let wanted = (first..=last).filter(|n| *n > come || self.is_wanted(point(*n), now, come - n + 1));
        let wanted: Vec<Timestamp> = wanted.map(point).collect();
        let missed = u64::try_from(last + 1).unwrap_or(u64::MAX).saturating_sub(wanted.len() as u64);
        (wanted, missed, Some(point(last + 1)))
    }
}

/// An occurrence that becomes a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Happening {
    /// Its nominal time.
    pub nominal: Timestamp,
    /// How many have come to nothing since the one before.
    pub missed: u64,
}

impl Happening {
    /// One that somebody has asked for.
    #[must_use]
    pub fn asked_for(nominal: Timestamp) -> Self {
        Self { nominal, missed: 0 }
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
    /// How many before them come to nothing. Times of a cron expression are counted up to a thousand.
    pub missed: u64,
    /// Whether those that are alive are cancelled first, in the same transaction: those that wait, at once, and the
    /// owners of the others are asked.
    pub replaces: bool,
    /// The nominal time of the one after them.
    pub next: Option<Timestamp>,
}

#[cfg(test)]
mod tests;
