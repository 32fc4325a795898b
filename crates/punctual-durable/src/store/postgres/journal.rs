//! What handlers have said, in the database. See `journal.rs` at the top of the crate.

use postgres::Row;

use super::rows::text;
use super::session::{Answer, Session};
use crate::job::{Fence, JobId, NodeId};
use crate::journal::{JobLog, LogLine, Progress, Update};
use crate::time::Timestamp;

/// All that is kept of one job.
pub(super) fn read(session: &mut Session, id: JobId) -> Answer<JobLog> {
    let sql = "SELECT fence, at, millionths, message FROM punctual.progress WHERE job = $1";
    let progress = |row: &Row| {
        let (fence, at) = (Fence::from_i64(row.get(0)), Timestamp::from_micros(row.get(1)));
        let millionths = u32::try_from(row.get::<_, i32>(2)).unwrap_or(0);
        Progress::new(fence, at, millionths, text(row.get(3)).unwrap_or_default())
    };
    let progress = session.query(sql, &[&id.as_i64()])?.first().map(progress);
    let sql = "SELECT fence, number, at, line FROM punctual.log WHERE job = $1 ORDER BY fence, number";
    let line = |row: &Row| {
        let (fence, at) = (Fence::from_i64(row.get(0)), Timestamp::from_micros(row.get(2)));
        let number = u32::try_from(row.get::<_, i64>(1)).unwrap_or(0);
        LogLine::new(fence, number, at, text(row.get(3)).unwrap_or_default())
    };
    let lines = session.query(sql, &[&id.as_i64()])?.iter().map(line).collect();
    Ok(JobLog::new(progress, lines))
}

/// Keeps what attempts have said, as far as they may still say something.
pub(super) fn update(session: &mut Session, node: NodeId, updates: &[Update]) -> Answer<()> {
    if updates.is_empty() {
        return Ok(());
    }
    let (ids, fences): (Vec<i64>, Vec<i64>) =
        updates.iter().map(|update| (update.id.as_i64(), update.fence.as_i64())).unzip();
    // Locked until the end, so that nobody takes a job over between what is said and what is reported.
    let sql = "SELECT j.id, j.fence, j.traces FROM unnest($2::bigint[], $3::bigint[]) u (id, fence) \
               JOIN punctual.job j ON j.id = u.id AND j.fence = u.fence AND j.owner = $1 AND j.state = 1 \
               ORDER BY j.id FOR UPDATE OF j";
    let held = session.query(sql, &[&node.as_i64(), &ids, &fences])?;
    // Whoever forgets a job then knows that there is more to forget.
    let first: Vec<i64> = held.iter().filter(|row| !row.get::<_, bool>(2)).map(|row| row.get(0)).collect();
    if !first.is_empty() {
        session.query("UPDATE punctual.job SET traces = true WHERE id = ANY ($1)", &[&first])?;
    }
    let held: std::collections::HashSet<(i64, i64)> =
        held.iter().map(|row| (row.get(0), row.get(1))).collect();
    let heeded = updates.iter().filter(|update| held.contains(&(update.id.as_i64(), update.fence.as_i64())));
    write(session, heeded.map(|update| (update.id, update.progress.as_ref(), update.lines.as_slice())))
}

/// Keeps what is said of jobs.
pub(super) fn write<'a>(
    session: &mut Session,
    said: impl Iterator<Item = (JobId, Option<&'a Progress>, &'a [LogLine])>,
) -> Answer<()> {
    let (mut jobs, mut fences, mut ats, mut parts, mut messages) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut log_jobs, mut log_fences, mut numbers) =
        (Vec::<i64>::new(), Vec::<i64>::new(), Vec::<i64>::new());
    let (mut log_ats, mut lines) = (Vec::<i64>::new(), Vec::<&[u8]>::new());
    for (id, progress, said) in said {
        if let Some(Progress { fence, at, millionths, message }) = progress {
            jobs.push(id.as_i64());
            fences.push(fence.as_i64());
            ats.push(at.as_micros());
            parts.push(i32::try_from(*millionths).unwrap_or(i32::MAX));
            messages.push(message.as_bytes());
        }
        for LogLine { fence, number, at, text } in said {
            log_jobs.push(id.as_i64());
            log_fences.push(fence.as_i64());
            numbers.push(i64::from(*number));
            log_ats.push(at.as_micros());
            lines.push(text.as_bytes());
        }
    }
    if !jobs.is_empty() {
        let sql = "INSERT INTO punctual.progress (job, fence, at, millionths, message) SELECT * FROM \
                   unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[]) \
                   ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, at = excluded.at, \
                   millionths = excluded.millionths, message = excluded.message";
        session.query(sql, &[&jobs, &fences, &ats, &parts, &messages])?;
    }
    if !log_jobs.is_empty() {
        let sql = "INSERT INTO punctual.log (job, fence, number, at, line) SELECT * FROM \
                   unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[]) ON CONFLICT DO NOTHING";
        session.query(sql, &[&log_jobs, &log_fences, &numbers, &log_ats, &lines])?;
    }
    Ok(())
}
