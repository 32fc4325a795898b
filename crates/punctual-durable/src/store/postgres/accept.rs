//! Accepting jobs, many in one statement: `punctual.accept` is given a column at a time.

use postgres::Row;
use postgres::types::ToSql;

use super::rows::{chain_text, lane_number, micros, on_lost_number, policy_number, some_count};
use super::session::{Answer, Session};
use crate::job::{Due, JobId, NewJob};
use crate::lane::Lane;
use crate::schedule::Happening;
use crate::store::{Enqueued, Ticket};
use crate::time::Timestamp;

pub(super) const ACCEPT: &str = "SELECT id, how, version, due FROM punctual.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, \
     $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

/// For jobs without keys, with who rings.
const ACCEPT_AND_RING: &str = "CALL punctual.accept_and_ring($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
     $14, NULL, NULL, NULL)";

/// For one.
const ACCEPT_ONE_AND_RING: &str = "CALL punctual.accept_one_and_ring($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
     $13, NULL, NULL, NULL)";

/// Jobs, as columns. Columns that are empty are null: nobody has one.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    queues: Vec<&'a str>,
    kinds: Vec<&'a str>,
    line_lanes: Vec<i16>,
    places: Vec<i32>,
    relative: Vec<bool>,
    dues: Vec<i64>,
    payloads: Vec<&'a [u8]>,
    most_attempts: Vec<i64>,
    most_crashes: Vec<i64>,
    on_losts: Vec<i16>,
    timeouts: Option<Vec<Option<i64>>>,
    uniqs: Option<Vec<Option<&'a str>>>,
    policies: Option<Vec<i16>>,
    series: Option<Vec<Option<&'a str>>>,
    nominals: Option<Vec<Option<i64>>>,
    parents: Option<Vec<Option<i64>>>,
    follows: Option<Vec<Option<String>>>,
    missed: Option<Vec<Option<i64>>>,
    lanes: Vec<Lane>,
}

/// Where a job comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin<'a> {
    /// The schedule and which occurrence of it, if it is one.
    pub(super) series: Option<(&'a str, Happening)>,
    /// The job that it follows.
    pub(super) parent: Option<JobId>,
}

impl<'a> Columns<'a> {
    /// Jobs that come from outside.
    pub(super) fn of(jobs: &'a [NewJob]) -> Self {
        Self::with_origin(jobs.iter().map(|job| (job, Origin::default())))
    }

    pub(super) fn with_origin(jobs: impl IntoIterator<Item = (&'a NewJob, Origin<'a>)>) -> Self {
        let mut columns = Self::default();
        let mut origins = Vec::new();
        let mut wanted = Vec::new();
        let mut timeouts = Vec::new();
        let mut follows = Vec::new();
        for (job, origin) in jobs {
            columns.push(job);
            origins.push(origin);
            wanted.push(job.unique.as_ref());
            timeouts.push(job.limits.timeout.map(micros));
            follows.push(chain_text(&job.then));
        }
        columns.timeouts = some(timeouts);
        columns.series = some(origins.iter().map(|origin| origin.series.map(|(name, _)| name)).collect());
        columns.nominals =
            some(origins.iter().map(|origin| origin.series.map(|(_, it)| it.nominal.as_micros())).collect());
        columns.missed = some(
            origins.iter().map(|origin| some_count(origin.series.map_or(0, |(_, it)| it.missed))).collect(),
        );
        columns.parents = some(origins.iter().map(|origin| origin.parent.map(JobId::as_i64)).collect());
        columns.follows = some(follows);
        columns.uniqs = some(wanted.iter().map(|unique| unique.map(|unique| unique.key.as_str())).collect());
        if columns.uniqs.is_some() {
            let policy = |unique: &Option<&crate::job::UniqueKey>| {
                unique.map_or(0, |unique| policy_number(unique.on_conflict))
            };
            columns.policies = Some(wanted.iter().map(policy).collect());
        }
        columns
    }

    fn push(&mut self, job: &'a NewJob) {
        let lane = lane_number(job.lane);
        let lines = self.queues.iter().zip(&self.kinds).zip(&self.line_lanes);
        // Batches have few lines; the last one is the likeliest.
        let known =
            lines.rev().position(|((queue, kind), of)| (*queue, *kind, *of) == (&job.queue, &job.kind, lane));
        let place = if let Some(from_end) = known {
            self.queues.len() - from_end
        } else {
            self.queues.push(&job.queue);
            self.kinds.push(&job.kind);
            self.line_lanes.push(lane);
            self.queues.len()
        };
        self.places.push(i32::try_from(place).unwrap_or(i32::MAX));
        let (relative, due) = match job.due {
            Due::Now => (true, 0),
            // A part of a microsecond counts as a whole one.
            Due::After(delay) => (true, Timestamp::EPOCH.after(delay).as_micros()),
            Due::At(instant) => (false, instant.as_micros()),
        };
        self.relative.push(relative);
        self.dues.push(due);
        self.payloads.push(job.payload.as_bytes());
        self.most_attempts.push(job.limits.max_attempts.into());
        self.most_crashes.push(job.limits.max_crashes.into());
        self.on_losts.push(on_lost_number(job.limits.on_lost));
        self.lanes.push(job.lane);
    }

    /// The lines of these jobs.
    pub(super) fn lines(&self) -> Vec<LineName> {
        let lines = self.queues.iter().zip(&self.kinds).zip(&self.line_lanes);
        lines.map(|((queue, kind), lane)| ((*queue).to_owned(), (*kind).to_owned(), *lane)).collect()
    }

    /// For `ACCEPT`.
    pub(super) fn params<'b>(&'b self, moment: &'b Option<i64>) -> [&'b (dyn ToSql + Sync); 19] {
        [
            moment,
            &self.queues,
            &self.kinds,
            &self.line_lanes,
            &self.places,
            &self.relative,
            &self.dues,
            &self.payloads,
            &self.most_attempts,
            &self.most_crashes,
            &self.on_losts,
            &self.timeouts,
            &self.uniqs,
            &self.policies,
            &self.series,
            &self.nominals,
            &self.parents,
            &self.follows,
            &self.missed,
        ]
    }

    pub(super) fn answers(&self, rows: &[Row]) -> Vec<Enqueued> {
        let answer = |(row, lane): (&Row, &Lane)| {
            let id = JobId::from_i64(row.get(0));
            let ticket = || {
                let due = Timestamp::from_micros(row.get(3));
                Ticket { id, version: row.get(2), due, lane: *lane }
            };
            match row.get::<_, i16>(1) {
                0 => Enqueued::New(ticket()),
                1 => Enqueued::Existing(id),
                _ => Enqueued::Replaced(ticket()),
            }
        };
        rows.iter().zip(&self.lanes).map(answer).collect()
    }

    pub(super) fn accept(&self, session: &mut Session, moment: Option<i64>) -> Answer<Vec<Enqueued>> {
        let sent = session.server.clock.local();
        let rows = session.query(ACCEPT, &self.params(&moment))?;
        let answers = self.answers(&rows);
        if let Some(at) = self.moment_of(&answers).filter(|_| moment.is_none()) {
            session.server.clock.learn(sent, at);
        }
        Ok(answers)
    }

    /// When they were accepted, if that can be told: by a job whose due time was counted from then.
    fn moment_of(&self, answers: &[Enqueued]) -> Option<i64> {
        let mut jobs = self.relative.iter().zip(&self.dues).zip(answers);
        jobs.find_map(|((relative, delay), answer)| match answer {
            Enqueued::New(ticket) | Enqueued::Replaced(ticket)
                if *relative && ticket.due < Timestamp::MAX =>
            {
                Some(ticket.due.as_micros() - delay)
            }
            _ => None,
        })
    }

    /// Accepts jobs that callers have made, and that have no keys, in transactions of their own; and rings.
    pub(super) fn accept_and_ring(
        &self,
        session: &mut Session,
        moment: Option<i64>,
        origin: &str,
    ) -> Answer<Vec<Enqueued>> {
        let sent = session.server.clock.local();
        let answers = match self.lanes[..] {
            [_] => self.accept_one_and_ring(session, moment, origin)?,
            _ => self.accept_many_and_ring(session, moment, origin)?,
        };
        if let Some(at) = self.moment_of(&answers).filter(|_| moment.is_none()) {
            session.server.clock.learn(sent, at);
        }
        Ok(answers)
    }

    fn accept_many_and_ring(
        &self,
        session: &mut Session,
        moment: Option<i64>,
        origin: &str,
    ) -> Answer<Vec<Enqueued>> {
        let all = self.params(&moment);
        // Without those that only others have.
        let params: Vec<&(dyn ToSql + Sync)> =
            std::iter::once(&origin as _).chain(all[..12].iter().copied()).chain([all[17]]).collect();
        let row = session.one(ACCEPT_AND_RING, &params)?;
        let (ids, versions, dues): (Vec<i64>, Vec<i64>, Vec<i64>) = (row.get(0), row.get(1), row.get(2));
        let jobs = ids.into_iter().zip(versions).zip(dues).zip(&self.lanes);
        Ok(jobs.map(|(((id, version), due), lane)| accepted(id, version, due, *lane)).collect())
    }

    fn accept_one_and_ring(
        &self,
        session: &mut Session,
        moment: Option<i64>,
        origin: &str,
    ) -> Answer<Vec<Enqueued>> {
        let row = session.one(
            ACCEPT_ONE_AND_RING,
            &[
                &origin,
                &moment,
                &self.queues[0],
                &self.kinds[0],
                &self.line_lanes[0],
                &self.relative[0],
                &self.dues[0],
                &self.payloads[0],
                &self.most_attempts[0],
                &self.most_crashes[0],
                &self.on_losts[0],
                &self.timeouts.as_ref().and_then(|timeouts| timeouts[0]),
                &self.follows.as_ref().and_then(|follows| follows[0].as_deref()),
            ],
        )?;
        Ok(vec![accepted(row.get(0), row.get(1), row.get(2), self.lanes[0])])
    }
}

/// A new job.
fn accepted(id: i64, version: i64, due: i64, lane: Lane) -> Enqueued {
    let (id, due) = (JobId::from_i64(id), Timestamp::from_micros(due));
    Enqueued::New(Ticket { id, version, due, lane })
}

/// Queue, kind and lane.
pub(super) type LineName = (String, String, i16);

/// Makes lines that do not exist yet.
pub(super) fn make_lines(session: &mut Session, lines: &[LineName]) -> Answer<()> {
    for (queue, kind, lane) in lines {
        session.query("SELECT punctual.line_of($1, $2, $3)", &[queue, kind, lane])?;
    }
    Ok(())
}

fn some<T>(column: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
    column.iter().any(Option::is_some).then_some(column)
}
