//! Every change of the file, as a function on the connection of the writer, inside its transaction.
//!
//! The guards and effects are those of the table in `store/mod.rs`; what becomes of a job is decided by the rules.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::lines::{Line, Lines};
use super::rows::{self, micros, on_lost_number};
use super::{Sql, failed};
use crate::error::{Error, Result};
use crate::job::{Due, JobId, JobRecord, JobState, NewJob, NodeId, OnConflict};
use crate::lane::share;
use crate::schedule::Happening;
use crate::store::{
    Cancelling, Enqueued, Exchange, Exchanged, Moved, Next, QueueChange, Recorded, Rescued, Ticket, Verdict,
    follow_ups, lost_together, settle,
};
use crate::time::Timestamp;

/// The connection, and the instant at which everything in this call happens.
pub(super) struct Write<'a> {
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) now: Timestamp,
}

/// Where a job comes from.
#[derive(Clone, Copy, Default)]
pub(super) struct Origin<'a> {
    /// The schedule and which occurrence of it, if it is one.
    pub(super) series: Option<(&'a str, Happening)>,
    /// The job that it follows.
    pub(super) parent: Option<JobId>,
}

impl Write<'_> {
    /// Turns what SQLite says into what we say.
    pub(super) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|error| failed("cannot write to", self.path, error))
    }

    // ---- for everybody

    pub(super) fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter().map(|job| self.accept(job, Origin::default())).collect()
    }

    pub(super) fn accept(&self, job: &NewJob, origin: Origin<'_>) -> Result<Enqueued> {
        if let Some(unique) = &job.unique
            && let Some(holder) = self.sql(self.holder(&unique.key))?
        {
            let key = &unique.key;
            return match unique.on_conflict {
                OnConflict::Keep => Ok(Enqueued::Existing(holder)),
                OnConflict::Reject => {
                    Err(Error::conflict(format!("the unique key {key:?} belongs to job {holder}")))
                }
                OnConflict::Replace => self.sql(self.replace(holder, job)),
            };
        }
        let id = self.sql(self.insert(job, origin))?;
        Ok(Enqueued::New(rows::ticket_of_new(id, job.due.instant(self.now), job)))
    }

    /// The living job that has this key.
    pub(super) fn holder(&self, key: &str) -> Sql<Option<JobId>> {
        let sql = "SELECT id FROM punctual_job WHERE uniq = ?1 AND uniq IS NOT NULL AND state < 2";
        self.connection
            .prepare_cached(sql)?
            .query_row([key], |row| row.get(0).map(JobId::from_i64))
            .optional()
    }

    pub(super) fn insert(&self, job: &NewJob, origin: Origin<'_>) -> Sql<JobId> {
        let line = self.line(job)?;
        let due = job.due.instant(self.now);
        let sql = "INSERT INTO punctual_job (line, state, due, version, attempt, crashes, max_attempts, max_crashes, \
                   on_lost, timeout, uniq, created, fence, cancel, payload, series, nominal, parent, follow, \
                   missed) \
                   VALUES (?1, 0, ?2, 1, 0, 0, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, ?9, ?10, ?11, ?12, ?13, ?14)";
        let limits = &job.limits;
        self.connection.prepare_cached(sql)?.execute(params![
            line,
            due.as_micros(),
            limits.max_attempts,
            limits.max_crashes,
            on_lost_number(limits.on_lost),
            limits.timeout.map(micros),
            job.unique.as_ref().map(|unique| &unique.key),
            self.now.as_micros(),
            job.payload,
            origin.series.map(|(name, _)| name),
            origin.series.map(|(_, it)| it.nominal.as_micros()),
            origin.parent.map(JobId::as_i64),
            rows::chain_text(&job.then)?,
            origin.series.and_then(|(_, it)| rows::some_count(it.missed)),
        ])?;
        Ok(JobId::from_i64(self.connection.last_insert_rowid()))
    }

    pub(super) fn line(&self, job: &NewJob) -> Sql<i64> {
        let lane = i64::try_from(job.lane.index()).unwrap_or(0);
        let key = params![job.queue, job.kind, lane];
        let sql = "SELECT id FROM punctual_line WHERE queue = ?1 AND kind = ?2 AND lane = ?3";
        let known = self.connection.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
        if let Some(line) = known {
            return Ok(line);
        }
        self.connection.execute("INSERT OR IGNORE INTO punctual_queue (name) VALUES (?1)", [&job.queue])?;
        self.connection.execute("INSERT INTO punctual_line (queue, kind, lane) VALUES (?1, ?2, ?3)", key)?;
        Ok(self.connection.last_insert_rowid())
    }

    fn replace(&self, id: JobId, job: &NewJob) -> Sql<Enqueued> {
        let sql = "UPDATE punctual_job SET due = ?2, payload = ?3, follow = ?4, version = version + 1 \
                   WHERE id = ?1 AND state = 0";
        let (due, follow) = (job.due.instant(self.now).as_micros(), rows::chain_text(&job.then)?);
        let row = params![id.as_i64(), due, job.payload, follow];
        let changed = self.connection.prepare_cached(sql)?.execute(row)?;
        let job = rows::find(self.connection, id)?;
        Ok(match job.filter(|_| changed == 1) {
            Some(job) => Enqueued::Replaced(rows::ticket(&job)),
            None => Enqueued::Existing(id),
        })
    }

    pub(super) fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        ids.into_iter().map(|id| self.sql(self.cancel_one(id))).collect()
    }

    fn cancel_one(&self, id: JobId) -> Sql<Cancelling> {
        let Some(job) = rows::find(self.connection, id)? else { return Ok(Cancelling::Unknown) };
        match job.state {
            JobState::Scheduled => {
                let sql = "UPDATE punctual_job SET state = 4, version = version + 1, finished = ?2, payload = NULL \
                           WHERE id = ?1";
                self.connection.prepare_cached(sql)?.execute([id.as_i64(), self.now.as_micros()])?;
                if let Some((schedule, _)) = &job.series {
                    self.after_occurrence(schedule, JobState::Cancelled)?;
                }
                Ok(Cancelling::Cancelled)
            }
            JobState::Claimed => {
                let sql = "UPDATE punctual_job SET cancel = 1 WHERE id = ?1";
                self.connection.prepare_cached(sql)?.execute([id.as_i64()])?;
                Ok(Cancelling::Requested)
            }
            over => Ok(Cancelling::Over(over)),
        }
    }

    pub(super) fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        let Some(job) = self.sql(rows::find(self.connection, id))? else { return Ok(Moved::Unknown) };
        if job.state != JobState::Scheduled {
            return Ok(Moved::Not(job.state));
        }
        self.sql(self.wait_again(job, due))
    }

    pub(super) fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        let Some(job) = self.sql(rows::find(self.connection, id))? else { return Ok(Moved::Unknown) };
        if job.state != JobState::Dead {
            return Ok(Moved::Not(job.state));
        }
        if let Some(key) = &job.unique
            && let Some(holder) = self.sql(self.holder(key))?
        {
            return Err(Error::conflict(format!(
                "the unique key {key:?} of job {id} belongs to job {holder}"
            )));
        }
        self.sql(self.wait_again(JobRecord { attempt: 0, crashes: 0, ..job }, due))
    }

    fn wait_again(&self, mut job: JobRecord, due: Due) -> Sql<Moved> {
        (job.due, job.version) = (due.instant(self.now), job.version.saturating_add(1));
        let sql = "UPDATE punctual_job SET state = 0, due = ?2, version = ?3, attempt = ?4, crashes = ?5, \
                   finished = NULL WHERE id = ?1";
        let (id, due) = (job.id.as_i64(), job.due.as_micros());
        self.connection.prepare_cached(sql)?.execute(params![
            id,
            due,
            job.version,
            job.attempt,
            job.crashes
        ])?;
        Ok(Moved::Waiting(rows::ticket(&job)))
    }

    pub(super) fn purge(&self, ids: &[JobId]) -> Result<usize> {
        let mut purged = 0;
        for id in ids {
            let sql = "DELETE FROM punctual_job WHERE id = ?1 AND state = 5";
            if self.sql(self.connection.execute(sql, [id.as_i64()]))? == 1 {
                purged += 1;
                self.sql(self.forget(*id))?;
            }
        }
        Ok(purged)
    }

    pub(super) fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        self.sql(self.trim_counts(before))?;
        let sql = "SELECT id FROM punctual_job WHERE state >= 2 AND state <= 4 AND finished < ?1 \
                   ORDER BY finished, id LIMIT ?2";
        let old = || -> Sql<Vec<i64>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            statement.query_map([before.as_micros(), limit], |row| row.get(0))?.collect()
        };
        let old = self.sql(old())?;
        for id in &old {
            let delete = self.connection.prepare_cached("DELETE FROM punctual_job WHERE id = ?1");
            self.sql(delete.and_then(|mut delete| delete.execute([id])))?;
            self.sql(self.forget(JobId::from_i64(*id)))?;
        }
        Ok(old.len())
    }

    /// Forgets what is kept beside a job.
    fn forget(&self, id: JobId) -> Sql<()> {
        for sql in [
            "DELETE FROM punctual_failure WHERE job = ?1",
            "DELETE FROM punctual_progress WHERE job = ?1",
            "DELETE FROM punctual_log WHERE job = ?1",
        ] {
            self.connection.prepare_cached(sql)?.execute([id.as_i64()])?;
        }
        Ok(())
    }

    pub(super) fn set_queue(&self, queue: &str, change: &QueueChange) -> Result<()> {
        let set = || -> Sql<usize> {
            self.connection.execute("INSERT OR IGNORE INTO punctual_queue (name) VALUES (?1)", [queue])?;
            match change {
                QueueChange::Pause(reason) => self.connection.execute(
                    "UPDATE punctual_queue SET paused_at = ?2, paused_for = ?3 WHERE name = ?1",
                    params![queue, self.now.as_micros(), reason],
                ),
                QueueChange::Resume => self.connection.execute(
                    "UPDATE punctual_queue SET paused_at = NULL, paused_for = NULL WHERE name = ?1",
                    [queue],
                ),
                QueueChange::Limit(most) => self
                    .connection
                    .execute("UPDATE punctual_queue SET most = ?2 WHERE name = ?1", params![queue, most]),
            }
        };
        self.sql(set()).map(drop)
    }

    // ---- for nodes

    /// `may_claim`: whether the node has the file.
    pub(super) fn exchange(&self, node: NodeId, exchange: &Exchange, may_claim: bool) -> Result<Exchanged> {
        self.sql(self.count(node, &exchange.tallies))?;
        for update in &exchange.updates {
            self.sql(self.update(node, update))?;
        }
        let mut followed = Vec::new();
        let record = |report| self.record(node, report, &mut followed);
        let recorded = exchange.reports.iter().map(record).collect::<Result<Vec<Recorded>>>()?;
        if let Some(holding) = &exchange.disown {
            self.disown(node, holding, &mut followed)?;
        }
        if !may_claim || (exchange.claims.is_empty() && exchange.sweep == 0) {
            let drained = exchange.sweep > 0 || !may_claim;
            return Ok(Exchanged::new(recorded, Vec::new(), drained).followed(followed));
        }
        let (claimed, drained, crowded) = self.sql(self.claim_all(node, exchange))?;
        Ok(Exchanged::new(recorded, claimed, drained).crowded(crowded).followed(followed))
    }

    /// The claimed jobs for which `wanted` holds, by id.
    fn claimed(&self, wanted: impl Fn(&JobRecord) -> bool) -> Sql<Vec<JobRecord>> {
        let sql = format!(
            "SELECT {} FROM punctual_job j INDEXED BY punctual_job_claimed \
             JOIN punctual_line l ON l.id = j.line WHERE j.state = 1 ORDER BY j.id",
            rows::COLUMNS
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let jobs = statement.query_map([], rows::read)?;
        jobs.filter(|job| job.as_ref().map_or(true, &wanted)).collect()
    }

    fn disown(&self, node: NodeId, holding: &[JobId], followed: &mut Vec<Ticket>) -> Result<()> {
        let forgotten = |job: &JobRecord| job.owner == Some(node) && !holding.contains(&job.id);
        for job in self.sql(self.claimed(forgotten))? {
            self.follow_and_accept(&job, settle(&job, &Verdict::Release, self.now), followed)?;
        }
        Ok(())
    }

    /// Moves on a claimed job on which nobody reports; one that is completed is done.
    fn follow_and_accept(&self, job: &JobRecord, next: Next, followed: &mut Vec<Ticket>) -> Result<()> {
        let follow_ups = follow_ups(job, &next, &[]);
        self.sql(self.follow(job, next))?;
        self.accept_follow_ups(job.id, &follow_ups, followed)
    }

    fn claim_all(&self, node: NodeId, exchange: &Exchange) -> Sql<(Vec<JobRecord>, bool, bool)> {
        let mut lines = Lines::eligible(self.connection, &exchange.kinds)?;
        let fence = "SELECT value FROM punctual_meta WHERE name = 'fence'";
        let last: i64 = self.connection.prepare_cached(fence)?.query_row([], |row| row.get(0))?;
        let mut fence = last;
        let mut claimed = Vec::new();
        for ticket in &exchange.claims {
            let sql = "SELECT line FROM punctual_job WHERE id = ?1 AND state = 0 AND version = ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let key = [ticket.id.as_i64(), ticket.version];
            let line: Option<i64> = statement.query_row(key, |row| row.get(0)).optional()?;
            if let Some(line) = line.and_then(|line| lines.admit(line)) {
                claimed.extend(self.claim(node, ticket.id, line, &mut fence)?);
            }
        }
        let mut swept = 0;
        if exchange.sweep > 0 {
            let lanes = lines.due(self.connection, None, self.now, exchange.sweep)?;
            let places = share(exchange.sweep, std::array::from_fn(|lane| lanes[lane].len()));
            for (jobs, places) in lanes.iter().zip(places) {
                for job in jobs.iter().take(places) {
                    claimed.extend(self.claim(node, job.id, lines.line_of(job), &mut fence)?);
                    swept += 1;
                }
            }
        }
        if fence != last {
            let sql = "UPDATE punctual_meta SET value = ?1 WHERE name = 'fence'";
            self.connection.prepare_cached(sql)?.execute([fence])?;
        }
        let crowded = lines.is_crowded(self.connection, self.now)?;
        Ok((claimed, swept < exchange.sweep, crowded))
    }

    /// Two statements: one that changes a row and returns it would keep a journal of its own, and costs more.
    fn claim(&self, node: NodeId, id: JobId, line: &Line, fence: &mut i64) -> Sql<Option<JobRecord>> {
        *fence += 1;
        let sql = "UPDATE punctual_job SET state = 1, owner = ?2, fence = ?3, claimed = ?4, attempt = attempt + 1, \
                   version = version + 1 WHERE id = ?1 AND state = 0";
        let (key, now) = (id.as_i64(), self.now.as_micros());
        let changed = self.connection.prepare_cached(sql)?.execute([key, node.as_i64(), *fence, now])?;
        if changed == 0 { Ok(None) } else { rows::find_in_line(self.connection, id, line) }
    }

    pub(super) fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        let mut rescued = Vec::new();
        let orphans = self.sql(self.claimed(|job| job.owner != Some(node)))?;
        for (job, next) in lost_together(orphans, most, self.now) {
            let from = job.owner.unwrap_or(NodeId::from_i64(0));
            rescued.push(Rescued::new(job.id, from, next.state));
            self.follow_and_accept(&job, next, &mut Vec::new())?;
            // A late report of the old owner must not pass for one that was heeded.
            let sql = "UPDATE punctual_job SET owner = NULL WHERE id = ?1";
            self.sql(self.connection.execute(sql, [job.id.as_i64()]))?;
        }
        Ok(rescued)
    }
}
