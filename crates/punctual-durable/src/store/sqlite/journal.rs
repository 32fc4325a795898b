//! What handlers have said, in the file. See `journal.rs` at the top of the crate.

use rusqlite::{Connection, OptionalExtension, params};

use super::Sql;
use super::rows::{instant, int, text};
use super::writes::Write;
use crate::job::{Fence, JobId, NodeId};
use crate::journal::{JobLog, LogLine, Progress, Update};

/// All that is kept of one job.
pub(super) fn read(connection: &Connection, id: JobId) -> Sql<JobLog> {
    let sql = "SELECT fence, at, millionths, message FROM punctual_progress WHERE job = ?1";
    let progress = connection.prepare_cached(sql)?.query_row([id.as_i64()], |row| {
        let (fence, at) = (Fence::from_i64(int(row, 0)?), instant(row, 1)?);
        let millionths = u32::try_from(int(row, 2)?).unwrap_or(0);
        Ok(Progress::new(fence, at, millionths, text(row.get_ref(3)?).unwrap_or_default()))
    });
    let sql = "SELECT fence, number, at, line FROM punctual_log WHERE job = ?1 ORDER BY fence, number";
    let mut statement = connection.prepare_cached(sql)?;
    let lines = statement.query_map([id.as_i64()], |row| {
        let (fence, at) = (Fence::from_i64(int(row, 0)?), instant(row, 2)?);
        let number = u32::try_from(int(row, 1)?).unwrap_or(0);
        Ok(LogLine::new(fence, number, at, text(row.get_ref(3)?).unwrap_or_default()))
    })?;
    Ok(JobLog::new(progress.optional()?, lines.collect::<Sql<_>>()?))
}

impl Write<'_> {
    /// Keeps what an attempt has said, if it may still say something.
    pub(super) fn update(&self, node: NodeId, update: &Update) -> Sql<()> {
        let sql = "SELECT 1 FROM punctual_job WHERE id = ?1 AND state = 1 AND owner = ?2 AND fence = ?3";
        let key = [update.id.as_i64(), node.as_i64(), update.fence.as_i64()];
        if self.connection.prepare_cached(sql)?.exists(key)? {
            self.write_log(update.id, update.progress.as_ref(), &update.lines)?;
        }
        Ok(())
    }

    pub(super) fn write_log(&self, id: JobId, progress: Option<&Progress>, lines: &[LogLine]) -> Sql<()> {
        if let Some(Progress { fence, at, millionths, message }) = progress {
            let sql = "INSERT OR REPLACE INTO punctual_progress (job, fence, at, millionths, message) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = params![id.as_i64(), fence.as_i64(), at.as_micros(), millionths, message];
            self.connection.prepare_cached(sql)?.execute(row)?;
        }
        for LogLine { fence, number, at, text } in lines {
            let sql = "INSERT OR IGNORE INTO punctual_log (job, fence, number, at, line) \
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            let row = params![id.as_i64(), fence.as_i64(), number, at.as_micros(), text];
            self.connection.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }
}
