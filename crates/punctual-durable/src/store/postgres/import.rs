//! Jobs that come from another store.

use super::follow::{self, moment};
use super::rows::{chain_text, count, lane_number, micros, on_lost_number, some_count, state_number};
use super::session::{Answer, Session};
use super::{journal, series};
use crate::error::Error;
use crate::job::{Failure, JobId, JobRecord};
use crate::store::QueueRecord;
use crate::time::Timestamp;
use crate::transfer::{Cargo, Imported, MovingJob};

/// The page has been checked.
pub(super) fn import(session: &mut Session, cargo: &Cargo, given: Option<i64>) -> Answer<Imported> {
    session.transaction(|session| {
        let source = format!("imported from {}", cargo.from);
        // Two copies from the same store take turns.
        session.query("SELECT pg_advisory_xact_lock(hashtextextended('punctual.' || $1, 0))", &[&source])?;
        let now = moment(session, given)?;
        let known = session.query("SELECT value FROM punctual.meta WHERE name = $1", &[&source])?;
        let known = JobId::from_i64(known.first().map_or(i64::MIN, |row| row.get(0)));
        let (mut upto, mut jobs, mut schedules) = (known, 0, 0);
        let mut following = Vec::new();
        for job in cargo.jobs.iter().filter(|job| job.record.id > known) {
            upto = job.record.id;
            jobs += 1;
            let id = take_in(session, job.clone(), now)?;
            following.extend(job.follow_ups(now).into_iter().map(|follow_up| (id, follow_up)));
        }
        follow::accept(session, following, now)?;
        for schedule in &cargo.schedules {
            let name = &schedule.definition.name;
            // Whether it can be read or not.
            if session.query("SELECT FROM punctual.schedule WHERE name = $1", &[name])?.is_empty() {
                let living = living(session, name)?;
                series::put(session, &schedule.clone().arrive(living, now))?;
                schedules += 1;
            }
        }
        for queue in &cargo.queues {
            take_in_queue(session, queue)?;
        }
        let sql = "INSERT INTO punctual.meta (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        session.query(sql, &[&source, &upto.as_i64()])?;
        Ok(Imported::new(jobs, schedules, upto))
    })
}

fn take_in(session: &mut Session, job: MovingJob, now: Timestamp) -> Answer<JobId> {
    // The database gives it its id.
    let MovingJob { record, failures, log } = job.arrive(JobId::from_i64(0), now);
    if let Some(key) = record.unique.as_ref().filter(|_| !record.state.is_over()) {
        let holder = session.query("SELECT id FROM punctual.job WHERE uniq = $1", &[key])?;
        if let Some(row) = holder.first() {
            let holder = JobId::from_i64(row.get(0));
            return Err(
                Error::conflict(format!("the unique key {key:?} belongs to job {holder} here")).into()
            );
        }
    }
    let id = insert(session, &record)?;
    journal::write(session, std::iter::once((id, log.progress.as_ref(), log.lines.as_slice())))?;
    for Failure { fence, attempt, at, message } in failures {
        let sql = "INSERT INTO punctual.failure (job, fence, attempt, at, message) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (job, fence) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, \
                   message = excluded.message";
        let row = (id.as_i64(), fence.as_i64(), count(attempt), at.as_micros());
        session.query(sql, &[&row.0, &row.1, &row.2, &row.3, &message.as_bytes()])?;
    }
    Ok(id)
}

/// A job as it is, among the living or the past. When it is due has nothing to do with now: it may be late.
fn insert(session: &mut Session, job: &JobRecord) -> Answer<JobId> {
    let line: i32 = session
        .one("SELECT punctual.line_of($1, $2, $3)", &[&job.queue, &job.kind, &lane_number(job.lane)])?
        .get(0);
    let sql = if job.state.is_over() {
        "INSERT INTO punctual.past (id, line, state, due, version, attempt, crashes, max_attempts, max_crashes, on_lost, \
         timeout, uniq, created, fence, claimed, finished, note, series, nominal, follow, payload, missed) \
         VALUES (nextval('punctual.job_id'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
         coalesce($15::bigint, 0), $16, $17, $18, $19, $20, $21) RETURNING id"
    } else {
        "INSERT INTO punctual.job (late, traces, line, state, due, version, attempt, crashes, max_attempts, max_crashes, on_lost, \
         timeout, uniq, created, fence, claimed, note, series, nominal, follow, payload, missed) \
         SELECT true, true, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $16, $17, $18, $19, $20, $21 \
         WHERE $15::bigint IS NULL RETURNING id"
    };
    let micros_of = |instant: Option<Timestamp>| instant.map(Timestamp::as_micros);
    let limits = &job.limits;
    let row = session.one(
        sql,
        &[
            &line,
            &state_number(job.state),
            &job.due.as_micros(),
            &job.version,
            &count(job.attempt),
            &count(job.crashes),
            &i64::from(limits.max_attempts),
            &i64::from(limits.max_crashes),
            &on_lost_number(limits.on_lost),
            &limits.timeout.map(micros),
            &job.unique,
            &job.created.as_micros(),
            &job.fence.as_i64(),
            &micros_of(job.claimed),
            &micros_of(job.finished),
            &job.note.as_deref().map(str::as_bytes),
            &job.series.as_ref().map(|(name, _)| name),
            &job.series.as_ref().map(|(_, nominal)| nominal.as_micros()),
            &chain_text(&job.then),
            &job.payload.as_deref().map(str::as_bytes),
            &some_count(job.missed),
        ],
    )?;
    // Fences go on from there. Well beyond: what is drawn between a look at the sequence and its setting must be less, or it
    // would be drawn again.
    let sql = "SELECT setval('punctual.fence', $1 + 65536::bigint * 4096) FROM punctual.fence WHERE last_value < $1";
    session.query(sql, &[&job.fence.as_i64()])?;
    Ok(JobId::from_i64(row.get(0)))
}

/// How many occurrences of a schedule are alive. Locked: who ends one at this moment does not see the schedule, so we wait
/// for that; who ends one later sees it.
fn living(session: &mut Session, schedule: &str) -> Answer<usize> {
    let sql = "SELECT id FROM punctual.job WHERE series = $1 AND series IS NOT NULL ORDER BY id FOR UPDATE";
    Ok(session.query(sql, &[&schedule])?.len())
}

fn take_in_queue(session: &mut Session, queue: &QueueRecord) -> Answer<()> {
    let (since, reason) =
        queue.paused.as_ref().map(|(since, reason)| (since.as_micros(), reason.as_bytes())).unzip();
    let sql = "INSERT INTO punctual.queue AS q (name, paused_at, paused_for, most) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, paused_for = excluded.paused_for, \
               most = excluded.most WHERE q.paused_at IS NULL AND q.most IS NULL";
    session.query(sql, &[&queue.name, &since, &reason, &queue.limit.map(i64::from)]).map(drop)
}
