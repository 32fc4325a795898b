//! Jobs that move from one store to another: to grow up, to make a backup, to look at a copy.
//!
//! Everything goes in pages, by id: a job with its failures and its log, then queues and schedules. The store that takes
//! a page in remembers, in the same transaction, up to which id it has taken jobs from that store. So a copy that was
//! interrupted anywhere, or is simply made again, goes on where it was: no job is lost, and none comes twice, even if it
//! has long been run and forgotten there.
//!
//! For that, no id may be passed over that a job is seen under later: a copy goes up to where
//! [everything can be seen](Store::complete_upto) when it begins. What is added after that is for the next one.
//!
//! # What is carried over
//! Jobs, alive and over, with payload, unique key, due time, attempts, what follows them, failures and log; queues with
//! their settings, schedules with their next time and pauses, where the name is not known yet. Jobs get new ids; the link
//! from a job to the one it follows is not kept, nor are statistics. Fences go on from the greatest that was carried
//! over, so that external systems can go on comparing them.
//!
//! # What was claimed
//! The nodes of the old store should have left before: what changes there behind the copy is not copied. A job that is
//! claimed all the same is carried over as if its node had died (see [`OnLost`](crate::OnLost)): it is run again
//! by the new store, or dead there. One that its handler has completed is done there, and followed: what follows it is
//! accepted after the jobs of its page, and has no more right to a unique key than after any other job.
//!
//! # Keys
//! A living job whose unique key belongs to a living job of the new store stops the copy with a
//! [conflict](Error::is_conflict); nothing of its page is taken. When one of the two is over, the copy can go on.
//!
//! # Paths not taken
//! *Ids that stay:* the new store may have jobs already. *A table of all ids that were taken in:* it would have to be
//! kept for ever, where one number does.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{Failure, Fence, JobId, JobRecord, NewJob, StoreId, UniqueKey, check_name};
use crate::journal::JobLog;
use crate::schedule::{Cadence, ScheduleRecord};
use crate::store::{Filter, QueueRecord, Store, follow_ups, lost};
use crate::time::Timestamp;
use crate::{JobState, OnConflict};

/// Jobs in one page.
const PAGE: usize = 100;

/// A fence that no store reaches, so that what is carried over leaves room to go on counting.
const MOST_FENCE: Fence = Fence::from_i64(1 << 62);
/// The same for versions.
const MOST_VERSION: i64 = 1 << 62;
/// And for attempts and crashes, which some stores count in 31 bits.
const MOST_COUNT: u32 = 1 << 30;

/// The form of exported files.
const FORMAT: u32 = 1;

/// A job on its way, with everything that is kept of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MovingJob {
    /// The job as the old store had it.
    pub record: JobRecord,
    /// Its failed attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What its handlers have said.
    #[serde(default)]
    pub log: JobLog,
}

impl MovingJob {
    /// Whether a store may take it in. Every store asks before it does anything.
    ///
    /// # Errors
    /// As [`NewJob::check`], with the id of the job.
    pub fn check(&self) -> Result<()> {
        let JobRecord { kind, queue, limits, then, .. } = self.record.clone();
        let unique = self.record.unique.clone().map(|key| UniqueKey { key, on_conflict: OnConflict::Reject });
        let payload = self.record.payload.clone().unwrap_or_default();
        let job = NewJob { queue, unique, limits, then, ..NewJob::new(kind, payload) };
        let wrong = |error: Error| {
            Error::invalid(format!("job {} cannot be taken in", self.record.id)).with_source(error)
        };
        if self.record.fence > MOST_FENCE {
            return Err(wrong(Error::invalid(format!(
                "{:?} is more than any store has given",
                self.record.fence
            ))));
        }
        if let Some((schedule, _)) = &self.record.series {
            check_name("name of a schedule", schedule, NewJob::MAX_NAME).map_err(wrong)?;
        }
        job.check().map_err(wrong)
    }

    /// What follows the job as it arrives, because it was [completed](JobRecord::completed). The new store accepts these
    /// when it has taken in all jobs of the page, as it does after any job that is done.
    #[must_use]
    pub fn follow_ups(&self, now: Timestamp) -> Vec<NewJob> {
        match self.record.state {
            JobState::Claimed => follow_ups(&self.record, &lost(&self.record, now), &[]),
            _ => Vec::new(),
        }
    }

    /// The job as the new store keeps it under its `id`: nobody holds it.
    #[must_use]
    pub fn arrive(self, id: JobId, now: Timestamp) -> Self {
        let Self { mut record, mut failures, log } = self;
        if record.state == JobState::Claimed {
            let next = lost(&record, now);
            if let Some(error) = next.failure {
                failures.push(Failure::new(record.fence, record.attempt, now, error.clone()));
                record.note = Some(error);
            }
            (record.state, record.due) = (next.state, next.due);
            (record.attempt, record.crashes) = (next.attempt, next.crashes);
            record.finished = next.state.is_over().then_some(now);
            if record.completed {
                record.then.clear();
            }
        }
        (record.completed, record.asked) = (false, Vec::new());
        (record.id, record.owner, record.parent, record.cancel_requested) = (id, None, None, false);
        record.version = record.version.clamp(1, MOST_VERSION);
        (record.attempt, record.crashes) = (record.attempt.min(MOST_COUNT), record.crashes.min(MOST_COUNT));
        if record.state.is_over() {
            record.finished = record.finished.or(Some(now));
            record.payload = record.payload.filter(|_| record.state == JobState::Dead);
        } else {
            record.payload = Some(record.payload.unwrap_or_default());
            record.finished = None;
        }
        Self { record, failures, log }
    }
}

impl ScheduleRecord {
    /// The schedule as the new store keeps it, given how many of its occurrences are alive there.
    ///
    /// A fixed delay goes on when its last occurrence is over. If that has arrived as lost, or was run before the schedule
    /// came, nobody would notice: so it is over now.
    #[must_use]
    pub fn arrive(mut self, living: usize, now: Timestamp) -> Self {
        if self.stands_still(living)
            && let Cadence::Delay(delay) = self.definition.cadence
        {
            self.next = Some(now.after(delay));
        }
        self
    }

    /// Whether it waits for the end of an occurrence, and there is none.
    pub(crate) fn stands_still(&self, living: usize) -> bool {
        let delay = matches!(self.definition.cadence, Cadence::Delay(_));
        delay && self.next.is_none() && self.paused.is_none() && living == 0
    }
}

/// A page on its way to a store.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Cargo {
    /// Where it comes from.
    pub from: StoreId,
    /// Jobs, by id. Those up to the last that was taken in from there are passed over.
    pub jobs: Vec<MovingJob>,
    /// Queues; those whose settings are known are passed over.
    pub queues: Vec<QueueRecord>,
    /// Schedules; those whose name is taken are passed over.
    pub schedules: Vec<ScheduleRecord>,
}

impl Cargo {
    /// An empty page.
    #[must_use]
    pub fn new(from: StoreId) -> Self {
        Self { from, jobs: Vec::new(), queues: Vec::new(), schedules: Vec::new() }
    }

    /// Whether a store may take it in.
    ///
    /// # Errors
    /// If something of it makes no sense, or the jobs are not in order.
    pub fn check(&self) -> Result<()> {
        if !self.jobs.is_sorted_by(|a, b| a.record.id < b.record.id) {
            return Err(Error::invalid("jobs to be taken in are not in the order of their ids"));
        }
        self.jobs.iter().try_for_each(MovingJob::check)?;
        self.queues.iter().try_for_each(|queue| check_name("queue", &queue.name, NewJob::MAX_NAME))?;
        self.schedules.iter().try_for_each(|schedule| {
            if schedule.version > MOST_VERSION {
                let (name, version) = (&schedule.definition.name, schedule.version);
                return Err(Error::invalid(format!("the schedule {name:?} cannot have version {version}")));
            }
            schedule.definition.check()
        })
    }
}

/// What became of a [`Cargo`], or of all of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// Jobs taken in.
    pub jobs: usize,
    /// Schedules taken in.
    pub schedules: usize,
    /// The last job of that store that has ever been taken in.
    pub upto: JobId,
}

impl Imported {
    /// An answer.
    #[must_use]
    pub fn new(jobs: usize, schedules: usize, upto: JobId) -> Self {
        Self { jobs, schedules, upto }
    }

    fn add(&mut self, page: Self) {
        self.jobs += page.jobs;
        self.schedules += page.schedules;
        self.upto = page.upto;
    }
}

/// One page of jobs of a store, those after `after` and up to `upto`.
fn page(from: &dyn Store, after: Option<JobId>, upto: JobId) -> Result<Vec<MovingJob>> {
    let filter = Filter { after, ..Filter::new().limit(PAGE) };
    let with = |record: JobRecord| {
        let (failures, log) = (from.failures(record.id)?, from.log(record.id)?);
        Ok(MovingJob { record, failures, log })
    };
    from.find(&filter)?.into_iter().take_while(|record| record.id <= upto).map(with).collect()
}

/// Copies everything from one store to another that is not there yet; see the top of `transfer.rs` for what that means.
///
/// Stop the nodes of the old store first. If it is interrupted, call it again; also if jobs have been added there since it
/// was called, which are not copied otherwise.
///
/// ```
/// use punctual_durable::{MemoryStore, NewJob, Store, transfer};
///
/// let (old, new) = (MemoryStore::new(), MemoryStore::new());
/// old.enqueue(vec![NewJob::new("mail", "{}").unique("m-1", Default::default())])?;
/// assert_eq!(transfer(&old, &new)?.jobs, 1);
/// assert_eq!(transfer(&old, &new)?.jobs, 0, "it is there already");
/// # Ok::<(), punctual_durable::Error>(())
/// ```
///
/// # Errors
/// If both are the same store, a unique key is taken in the new one, or one of them fails. What was copied before is
/// there, and is not copied again. [Transient](Error::is_transient) if somebody has added jobs to the old store in a
/// transaction that does not end: without those, nothing after them is copied.
pub fn transfer(from: &dyn Store, to: &dyn Store) -> Result<Imported> {
    let source = from.identity()?;
    if source == to.identity()? {
        return Err(Error::invalid(format!("{source:?} cannot be copied to itself")));
    }
    let upto = from.complete_upto()?;
    let mut all = to.import(Cargo::new(source))?;
    loop {
        let jobs = page(from, Some(all.upto), upto)?;
        if jobs.is_empty() {
            break;
        }
        all.add(to.import(Cargo { jobs, ..Cargo::new(source) })?);
    }
    // Schedules last: nodes that run already find the occurrences that are alive.
    all.add(to.import(Cargo {
        queues: from.queues()?,
        schedules: from.schedules()?,
        ..Cargo::new(source)
    })?);
    Ok(all)
}

/// One line of an exported file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// The first.
    Punctual {
        format: u32,
        store: StoreId,
    },
    Job(Box<MovingJob>),
    Queue(QueueRecord),
    Schedule(Box<ScheduleRecord>),
    /// The last: without it something is missing.
    End {
        jobs: u64,
    },
}

/// Writes everything in a store as lines of JSON: first one that says what it is, then one for each job, queue and
/// schedule, and one that says that it was all. Says how many jobs there were.
///
/// Payloads and keys are in it as they are.
///
/// # Errors
/// If the store fails, or `to` does; and as [`transfer`] if a transaction does not end.
pub fn export(from: &dyn Store, mut to: impl Write) -> Result<u64> {
    let mut write = |line: &Line| {
        let cannot =
            |error: std::io::Error| Error::transient("cannot write what is exported").with_source(error);
        let text = serde_json::to_string(line)
            .map_err(|error| Error::broken("a record cannot be written as JSON").with_source(error))?;
        writeln!(to, "{text}").map_err(cannot)
    };
    write(&Line::Punctual { format: FORMAT, store: from.identity()? })?;
    let upto = from.complete_upto()?;
    let (mut after, mut count) = (None, 0);
    loop {
        let jobs = page(from, after, upto)?;
        if jobs.is_empty() {
            break;
        }
        for job in jobs {
            (after, count) = (Some(job.record.id), count + 1);
            write(&Line::Job(Box::new(job)))?;
        }
    }
    from.queues()?.into_iter().try_for_each(|queue| write(&Line::Queue(queue)))?;
    from.schedules()?.into_iter().try_for_each(|schedule| write(&Line::Schedule(Box::new(schedule))))?;
    write(&Line::End { jobs: count })?;
    to.flush().map_err(|error| Error::transient("cannot write what is exported").with_source(error))?;
    Ok(count)
}

/// Takes in what [`export`] has written, as [`transfer`] does.
///
/// ```
/// use punctual_durable::{MemoryStore, NewJob, Store, export, import};
///
/// let (old, new) = (MemoryStore::new(), MemoryStore::new());
/// old.enqueue(vec![NewJob::new("mail", "{}")])?;
/// let mut file = Vec::new();
/// export(&old, &mut file)?;
/// assert_eq!(import(file.as_slice(), &new)?.jobs, 1);
/// # Ok::<(), punctual_durable::Error>(())
/// ```
///
/// # Errors
/// If a line makes no sense, which is said with its number; if the last line is missing; and as [`transfer`].
pub fn import(from: impl BufRead, to: &dyn Store) -> Result<Imported> {
    let mut lines = (1_u64..).zip(from.lines()).map(|(number, line)| {
        let line = line.map_err(|e| Error::transient(format!("cannot read line {number}")).with_source(e))?;
        let line: Line = serde_json::from_str(&line)
            .map_err(|error| Error::invalid(format!("line {number} makes no sense")).with_source(error))?;
        Ok::<_, Error>((number, line))
    });
    let source = match lines.next().transpose()? {
        Some((_, Line::Punctual { format: FORMAT, store })) => store,
        Some((_, Line::Punctual { format, .. })) => {
            return Err(Error::broken(format!(
                "the file has format {format}, and this program knows {FORMAT}"
            )));
        }
        _ => return Err(Error::invalid("the first line does not say that this is an export of punctual")),
    };
    if source == to.identity()? {
        return Err(Error::invalid(format!("{source:?} cannot be copied to itself")));
    }
    let mut all = to.import(Cargo::new(source))?;
    let mut cargo = Cargo::new(source);
    let mut count = 0;
    for line in lines {
        match line? {
            (_, Line::Job(job)) => {
                count += 1;
                cargo.jobs.push(*job);
                if cargo.jobs.len() >= PAGE {
                    let jobs = std::mem::take(&mut cargo.jobs);
                    all.add(to.import(Cargo { jobs, ..Cargo::new(source) })?);
                }
            }
            (_, Line::Queue(queue)) => cargo.queues.push(queue),
            (_, Line::Schedule(schedule)) => cargo.schedules.push(*schedule),
            (_, Line::End { jobs }) if jobs == count => {
                all.add(to.import(cargo)?);
                return Ok(all);
            }
            (number, Line::End { jobs }) => {
                return Err(Error::invalid(format!(
                    "line {number} speaks of {jobs} jobs, and there were {count}"
                )));
            }
            (number, Line::Punctual { .. }) => {
                return Err(Error::invalid(format!("line {number} begins another export")));
            }
        }
    }
    Err(Error::invalid(format!("the file ends in the middle, after {count} jobs")))
}
