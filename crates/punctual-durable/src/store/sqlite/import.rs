//! Jobs that come from another store.

use rusqlite::{OptionalExtension, params};

use super::Sql;
use super::rows::{self, micros, on_lost_number, some_count, state_number};
use super::writes::Write;
use crate::error::{Error, Result};
use crate::job::{Failure, JobId, JobRecord, NewJob};
use crate::store::QueueRecord;
use crate::time::Timestamp;
use crate::transfer::{Cargo, Imported, MovingJob};

impl Write<'_> {
    /// The page has been checked.
    pub(super) fn import(&self, cargo: Cargo) -> Result<Imported> {
        let source = format!("imported from {}", cargo.from);
        let known = self.sql(self.number(&source))?.map_or(JobId::from_i64(i64::MIN), JobId::from_i64);
        let (mut upto, mut jobs, mut schedules) = (known, 0, 0);
        let mut following = Vec::new();
        for job in cargo.jobs.into_iter().filter(|job| job.record.id > known) {
            upto = job.record.id;
            jobs += 1;
            let follow_ups = job.follow_ups(self.now);
            following.push((self.take_in(job)?, follow_ups));
        }
        for (id, follow_ups) in following {
            self.accept_follow_ups(id, &follow_ups, &mut Vec::new())?;
        }
        for queue in &cargo.queues {
            self.sql(self.take_in_queue(queue))?;
        }
        for schedule in cargo.schedules {
            let name = &schedule.definition.name;
            if self.sql(self.is_free(name))? {
                let living = self.sql(self.occurrences(name))?;
                self.sql(self.put_schedule(&schedule.arrive(living, self.now)))?;
                schedules += 1;
            }
        }
        let sql = "INSERT OR REPLACE INTO punctual_meta (name, value) VALUES (?1, ?2)";
        self.sql(self.connection.execute(sql, params![source, upto.as_i64()]))?;
        Ok(Imported::new(jobs, schedules, upto))
    }

    fn number(&self, name: &str) -> Sql<Option<i64>> {
        let sql = "SELECT value FROM punctual_meta WHERE name = ?1";
        self.connection.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()
    }

    /// Whether no schedule is called so, be it one that cannot be read.
    fn is_free(&self, name: &str) -> Sql<bool> {
        let sql = "SELECT 1 FROM punctual_schedule WHERE name = ?1";
        Ok(!self.connection.prepare_cached(sql)?.exists([name])?)
    }

    /// How many occurrences of a schedule are alive.
    fn occurrences(&self, schedule: &str) -> Sql<usize> {
        let sql = "SELECT count(*) FROM punctual_job WHERE series = ?1 AND series IS NOT NULL AND state < 2";
        let count: i64 = self.connection.prepare_cached(sql)?.query_row([schedule], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn take_in(&self, job: MovingJob) -> Result<JobId> {
        // The database gives it its id.
        let MovingJob { record, failures, log } = job.arrive(JobId::from_i64(0), self.now);
        if let Some(key) = record.unique.as_ref().filter(|_| !record.state.is_over())
            && let Some(holder) = self.sql(self.holder(key))?
        {
            return Err(Error::conflict(format!("the unique key {key:?} belongs to job {holder} here")));
        }
        let id = self.sql(self.insert_as_it_is(&record))?;
        self.sql(self.write_log(id, log.progress.as_ref(), &log.lines))?;
        for Failure { fence, attempt, at, message } in failures {
            let sql = "INSERT OR REPLACE INTO punctual_failure (job, fence, attempt, at, message) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = params![id.as_i64(), fence.as_i64(), attempt, at.as_micros(), message];
            self.sql(self.connection.prepare_cached(sql).and_then(|mut insert| insert.execute(row)))?;
        }
        Ok(id)
    }

    fn insert_as_it_is(&self, job: &JobRecord) -> Sql<JobId> {
        let place = NewJob::new(job.kind.as_str(), "").queue(job.queue.as_str()).lane(job.lane);
        let micros_of = |instant: Option<Timestamp>| instant.map(Timestamp::as_micros);
        let sql = "INSERT INTO punctual_job (line, state, due, version, attempt, crashes, max_attempts, max_crashes, \
                   on_lost, timeout, uniq, created, fence, claimed, cancel, finished, note, series, nominal, follow, \
                   payload, missed) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, ?15, ?16, ?17, ?18, ?19, ?20, \
                   ?21)";
        self.connection.prepare_cached(sql)?.execute(params![
            self.line(&place)?,
            state_number(job.state),
            job.due.as_micros(),
            job.version,
            job.attempt,
            job.crashes,
            job.limits.max_attempts,
            job.limits.max_crashes,
            on_lost_number(job.limits.on_lost),
            job.limits.timeout.map(micros),
            job.unique,
            job.created.as_micros(),
            job.fence.as_i64(),
            micros_of(job.claimed),
            micros_of(job.finished),
            job.note,
            job.series.as_ref().map(|(name, _)| name),
            job.series.as_ref().map(|(_, nominal)| nominal.as_micros()),
            rows::chain_text(&job.then)?,
            job.payload,
            some_count(job.missed),
        ])?;
        let id = JobId::from_i64(self.connection.last_insert_rowid());
        let sql = "UPDATE punctual_meta SET value = max(value, ?1) WHERE name = 'fence'";
        self.connection.prepare_cached(sql)?.execute([job.fence.as_i64()])?;
        Ok(id)
    }

    fn take_in_queue(&self, queue: &QueueRecord) -> Sql<()> {
        self.connection.execute("INSERT OR IGNORE INTO punctual_queue (name) VALUES (?1)", [&queue.name])?;
        let (since, reason) =
            queue.paused.as_ref().map(|(since, reason)| (since.as_micros(), reason)).unzip();
        let sql = "UPDATE punctual_queue SET paused_at = ?2, paused_for = ?3, most = ?4 \
                   WHERE name = ?1 AND paused_at IS NULL AND most IS NULL";
        self.connection.execute(sql, params![queue.name, since, reason, queue.limit]).map(drop)
    }
}
