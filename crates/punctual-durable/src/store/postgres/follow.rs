//! Jobs that are moved on one by one, by the rules, in a transaction of several statements: reports of anything but plain
//! success, jobs that are disowned, cancelled or rescued.
//!
//! # Lock order
//! The row of a node, then rows of jobs by id, then rows of schedules by name, then rows of queues by name. What is claimed
//! is taken only if nobody has it.

use std::collections::BTreeMap;

use super::accept::{Columns, Origin};
use super::rows::{self, count, living, state_number};
use super::series;
use super::session::{Answer, Session};
use crate::error::Error;
use crate::job::{JobId, JobRecord, JobState, NewJob, OnConflict};
use crate::store::{Enqueued, Next, Ticket, refusal};
use crate::time::Timestamp;

/// The instant at which everything in a transaction happens.
pub(super) fn moment(session: &mut Session, given: Option<i64>) -> Answer<Timestamp> {
    let sent = session.server.clock.local();
    let now: i64 = session.one("SELECT coalesce($1, punctual.moment())", &[&given])?.get(0);
    if given.is_none() {
        session.server.clock.learn(sent, now);
    }
    Ok(Timestamp::from_micros(now))
}

/// Living jobs of these ids, by id, locked.
pub(super) fn lock(session: &mut Session, ids: &[JobId]) -> Answer<Vec<JobRecord>> {
    let ids: Vec<i64> = ids.iter().map(|id| id.as_i64()).collect();
    let sql = concat!(
        "SELECT ",
        living!(),
        " FROM punctual.job j JOIN punctual.line l ON l.id = j.line WHERE j.id = ANY ($1) ORDER BY j.id FOR UPDATE OF j"
    );
    Ok(session.query(sql, &[&ids])?.iter().map(rows::read).collect())
}

/// Living occurrences of these schedules, by id, locked.
pub(super) fn lock_occurrences(session: &mut Session, schedules: &[&str]) -> Answer<Vec<JobRecord>> {
    let sql = concat!(
        "SELECT ",
        living!(),
        " FROM punctual.job j JOIN punctual.line l ON l.id = j.line \
         WHERE j.series = ANY ($1) AND j.series IS NOT NULL ORDER BY j.id FOR UPDATE OF j"
    );
    Ok(session.query(sql, &[&schedules])?.iter().map(rows::read).collect())
}

/// Moves that have been decided on.
#[derive(Debug, Default)]
pub(super) struct Moves {
    ids: Vec<i64>,
    states: Vec<i16>,
    dues: Vec<i64>,
    attempts: Vec<i32>,
    crashes: Vec<i32>,
    notes: Vec<Option<Vec<u8>>>,
    failures: Vec<Option<Vec<u8>>>,
    /// How occurrences of schedules have ended, by schedule.
    over: BTreeMap<String, Vec<JobState>>,
}

impl Moves {
    pub(super) fn push(&mut self, job: &JobRecord, next: Next) {
        self.ids.push(job.id.as_i64());
        self.states.push(state_number(next.state));
        self.dues.push(next.due.as_micros());
        self.attempts.push(count(next.attempt));
        self.crashes.push(count(next.crashes));
        self.notes.push(next.note.map(String::into_bytes));
        self.failures.push(next.failure.map(String::into_bytes));
        if let Some((schedule, _)) = job.series.as_ref().filter(|_| next.state.is_over()) {
            self.over.entry(schedule.clone()).or_default().push(next.state);
        }
    }

    /// A job that waited and never will again.
    pub(super) fn cancel(&mut self, job: &JobRecord) {
        let (state, due, attempt, crashes) = (JobState::Cancelled, job.due, job.attempt, job.crashes);
        self.push(job, Next { state, due, attempt, crashes, failure: None, note: None });
    }

    /// An occurrence that waited, and is replaced: its schedule goes on already.
    pub(super) fn replace(&mut self, job: &JobRecord) {
        let series = None;
        self.cancel(&JobRecord { series, ..job.clone() });
    }

    /// Carries them out. `forget_owner`: a late report of the old owner must not pass for one that was heeded.
    pub(super) fn apply(self, session: &mut Session, now: Timestamp, forget_owner: bool) -> Answer<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let sql = "SELECT punctual.follow($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let Self { ids, states, dues, attempts, crashes, notes, failures, over } = self;
        let now_micros = now.as_micros();
        session.query(
            sql,
            &[&now_micros, &ids, &states, &dues, &attempts, &crashes, &notes, &failures, &forget_owner],
        )?;
        series::after_occurrences(session, &over, now)
    }
}

/// Accepts what follows jobs that are done, and notes what came to nothing.
pub(super) fn accept(
    session: &mut Session,
    jobs: Vec<(JobId, NewJob)>,
    now: Timestamp,
) -> Answer<Vec<Ticket>> {
    let mut notes: BTreeMap<JobId, Vec<String>> = BTreeMap::new();
    let mut sound = Vec::new();
    for (parent, job) in jobs {
        match job.check() {
            // None may be refused with an error, which would end the transaction.
            Ok(()) => sound.push((parent, unrefused(&job), job)),
            Err(error) => notes.entry(parent).or_default().push(refusal(&job, Err(&error))),
        }
    }
    let mut followed = Vec::new();
    if !sound.is_empty() {
        let origin = |parent: &JobId| Origin { series: None, parent: Some(*parent) };
        let columns = Columns::with_origin(sound.iter().map(|(parent, job, _)| (job, origin(parent))));
        let accepted = columns.accept(session, Some(now.as_micros()))?;
        for ((parent, _, job), accepted) in sound.iter().zip(accepted) {
            match accepted {
                Enqueued::New(ticket) | Enqueued::Replaced(ticket) => followed.push(ticket),
                Enqueued::Existing(holder) => notes.entry(*parent).or_default().push(taken(job, holder)),
            }
        }
    }
    let ids: Vec<i64> = notes.keys().map(|id| id.as_i64()).collect();
    if !ids.is_empty() {
        let texts: Vec<Vec<u8>> = notes.into_values().map(|notes| notes.join("; ").into_bytes()).collect();
        let sql = "UPDATE punctual.past p SET note = n.note FROM unnest($1::bigint[], $2::bytea[]) n (id, note) \
                   WHERE p.id = n.id";
        session.query(sql, &[&ids, &texts])?;
    }
    Ok(followed)
}

fn unrefused(job: &NewJob) -> NewJob {
    let mut job = job.clone();
    if let Some(unique) = job.unique.as_mut().filter(|unique| unique.on_conflict == OnConflict::Reject) {
        unique.on_conflict = OnConflict::Keep;
    }
    job
}

/// What is noted when another job has the key and stays as it is.
fn taken(job: &NewJob, holder: JobId) -> String {
    match &job.unique {
        Some(unique) if unique.on_conflict == OnConflict::Reject => {
            let key = &unique.key;
            let error = Error::conflict(format!("the unique key {key:?} belongs to job {holder}"));
            refusal(job, Err(&error))
        }
        _ => refusal(job, Ok(holder)),
    }
}
