//! What nodes report, and what follows from it.

use rusqlite::params;

use super::Sql;
use super::rows::{self, state_number};
use super::writes::{Origin, Write};
use crate::error::Result;
use crate::job::{JobId, JobRecord, JobState, NewJob, NodeId};
use crate::store::{Enqueued, Next, Recorded, Report, Ticket, Verdict, follow_ups, refusal, settle};

impl Write<'_> {
    /// `followed` gets the tickets of what follows.
    pub(super) fn record(
        &self,
        node: NodeId,
        report: &Report,
        followed: &mut Vec<Ticket>,
    ) -> Result<Recorded> {
        if let Some(recorded) = self.sql(self.record_done(node, report))? {
            return Ok(recorded);
        }
        let Some(job) = self.sql(rows::find(self.connection, report.id))? else { return Ok(Recorded::Stale) };
        match (job.owner == Some(node) && job.fence == report.fence, job.state) {
            (false, _) => Ok(Recorded::Stale),
            (true, JobState::Claimed) => {
                let next = settle(&job, &report.verdict, self.now);
                let recorded = Recorded::next(&next);
                let follow_ups = follow_ups(&job, &next, &report.follow_ups);
                self.sql(self.follow(&job, next))?;
                self.accept_follow_ups(job.id, &follow_ups, followed)?;
                Ok(recorded)
            }
            (true, _) => Ok(Recorded::Already),
        }
    }

    /// The way of most reports, in one statement: the job is done, belongs to no schedule, and nothing follows it. What the rules say of
    /// that depends on nothing else in the row.
    fn record_done(&self, node: NodeId, report: &Report) -> Sql<Option<Recorded>> {
        if report.verdict != Verdict::Done || !report.follow_ups.is_empty() {
            return Ok(None);
        }
        let sql = "UPDATE punctual_job SET state = 2, version = version + 1, cancel = 0, finished = ?4, payload = NULL \
                   WHERE id = ?1 AND state = 1 AND owner = ?2 AND fence = ?3 AND series IS NULL AND follow IS NULL \
                   AND asked IS NULL";
        let key = [report.id.as_i64(), node.as_i64(), report.fence.as_i64(), self.now.as_micros()];
        let changed = self.connection.prepare_cached(sql)?.execute(key)?;
        Ok((changed == 1).then_some(Recorded::Over(JobState::Done)))
    }

    /// Moves a claimed job on, as the rules have decided.
    pub(super) fn follow(&self, job: &JobRecord, next: Next) -> Sql<()> {
        if let Some(message) = &next.failure {
            let sql = "INSERT OR REPLACE INTO punctual_failure (job, fence, attempt, at, message) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let (id, fence, now) = (job.id.as_i64(), job.fence.as_i64(), self.now.as_micros());
            self.connection.prepare_cached(sql)?.execute(params![id, fence, job.attempt, now, message])?;
        }
        let sql = "UPDATE punctual_job SET state = ?2, due = ?3, attempt = ?4, crashes = ?5, \
                   note = coalesce(?6, note), version = version + 1, cancel = 0, finished = ?7, \
                   payload = iif(?8, payload, NULL), follow = iif(?2 = 2, NULL, follow), asked = NULL WHERE id = ?1";
        let finished = next.state.is_over().then_some(self.now.as_micros());
        let keeps_payload = !next.state.is_over() || next.state == JobState::Dead;
        let row = params![
            job.id.as_i64(),
            state_number(next.state),
            next.due.as_micros(),
            next.attempt,
            next.crashes,
            next.note,
            finished,
            keeps_payload
        ];
        self.connection.prepare_cached(sql)?.execute(row)?;
        match &job.series {
            Some((schedule, _)) if next.state.is_over() => self.after_occurrence(schedule, next.state),
            _ => Ok(()),
        }
    }

    /// Accepts what follows a job that is done, and notes what came to nothing.
    pub(super) fn accept_follow_ups(
        &self,
        parent: JobId,
        jobs: &[NewJob],
        followed: &mut Vec<Ticket>,
    ) -> Result<()> {
        let mut notes = Vec::new();
        for job in jobs {
            let origin = Origin { series: None, parent: Some(parent) };
            match job.check().and_then(|()| self.accept(job, origin)) {
                Ok(Enqueued::New(ticket) | Enqueued::Replaced(ticket)) => followed.push(ticket),
                Ok(Enqueued::Existing(holder)) => notes.push(refusal(job, Ok(holder))),
                Err(error) if error.is_conflict() || error.is_invalid() => {
                    notes.push(refusal(job, Err(&error)))
                }
                Err(error) => return Err(error),
            }
        }
        if notes.is_empty() {
            return Ok(());
        }
        let sql = "UPDATE punctual_job SET note = ?2 WHERE id = ?1";
        self.sql(self.connection.execute(sql, params![parent.as_i64(), notes.join("; ")])).map(drop)
    }
}
