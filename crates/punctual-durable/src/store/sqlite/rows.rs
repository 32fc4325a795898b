//! Rows and what they mean.
//!
//! Numbers in a file may have been written by anybody: what makes no sense is read as the nearest thing that does,
//! so that one odd row cannot keep all others from being read.

use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::lines::Line;
use crate::job::{Fence, JobId, JobRecord, JobState, Limits, NewJob, NodeId, OnLost};
use crate::lane::Lane;
use crate::store::Ticket;
use crate::time::Timestamp;

/// What [`read`] expects, from `punctual_job j JOIN punctual_line l ON l.id = j.line`.
macro_rules! columns {
    () => {
        "j.id, l.queue, l.kind, l.lane, j.state, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes, \
         j.on_lost, j.timeout, j.uniq, j.created, j.owner, j.fence, j.claimed, j.cancel, j.finished, j.note, j.payload, \
         j.series, j.nominal, j.parent, j.follow, j.state = 1 AND j.complete IS j.fence, j.asked, j.missed"
    };
}

pub(super) const COLUMNS: &str = columns!();

pub(super) fn state_number(state: JobState) -> i64 {
    match state {
        JobState::Scheduled => 0,
        JobState::Claimed => 1,
        JobState::Done => 2,
        JobState::Discarded => 3,
        JobState::Cancelled => 4,
        JobState::Dead => 5,
    }
}

fn state_of(number: i64) -> JobState {
    match number {
        0 => JobState::Scheduled,
        1 => JobState::Claimed,
        2 => JobState::Done,
        3 => JobState::Discarded,
        4 => JobState::Cancelled,
        _ => JobState::Dead,
    }
}

pub(super) fn on_lost_number(on_lost: OnLost) -> i64 {
    match on_lost {
        OnLost::Rerun => 0,
        OnLost::Fail => 1,
    }
}

/// A count as it is stored.
pub(super) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A count as it is stored where it is mostly nothing.
pub(super) fn some_count(number: u64) -> Option<i64> {
    (number > 0).then(|| count(number))
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// One job.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<JobRecord> {
    let limits = Limits {
        max_attempts: small(int(row, 9)?),
        max_crashes: small(int(row, 10)?),
        on_lost: if int(row, 11)? == 0 { OnLost::Rerun } else { OnLost::Fail },
        timeout: maybe_int(row, 12)?.map(|timeout| Duration::from_micros(timeout.max(0).cast_unsigned())),
    };
    Ok(JobRecord {
        id: JobId::from_i64(int(row, 0)?),
        queue: text(row.get_ref(1)?).unwrap_or_default(),
        kind: text(row.get_ref(2)?).unwrap_or_default(),
        lane: lane(int(row, 3)?),
        state: state_of(int(row, 4)?),
        due: instant(row, 5)?,
        version: int(row, 6)?,
        attempt: small(int(row, 7)?),
        crashes: small(int(row, 8)?),
        limits,
        unique: text(row.get_ref(13)?),
        created: instant(row, 14)?,
        owner: maybe_int(row, 15)?.map(NodeId::from_i64),
        fence: Fence::from_i64(int(row, 16)?),
        claimed: maybe_instant(row, 17)?,
        cancel_requested: int(row, 18)? != 0,
        finished: maybe_instant(row, 19)?,
        note: text(row.get_ref(20)?),
        payload: text(row.get_ref(21)?),
        series: text(row.get_ref(22)?).zip(maybe_instant(row, 23)?),
        parent: maybe_int(row, 24)?.map(JobId::from_i64),
        then: text(row.get_ref(25)?).map(chain).unwrap_or_default(),
        completed: int(row, 26)? != 0,
        asked: text(row.get_ref(27)?).map(chain).unwrap_or_default(),
        missed: int(row, 28)?.max(0).cast_unsigned(),
    })
}

/// A number, also where somebody has stored something that is none: then it is 0.
pub(super) fn int(row: &Row<'_>, column: usize) -> rusqlite::Result<i64> {
    Ok(maybe_int(row, column)?.unwrap_or(0))
}

/// A number, if there is anything.
pub(super) fn maybe_int(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number),
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        ValueRef::Real(number) => Some(number as i64),
        ValueRef::Text(_) | ValueRef::Blob(_) => Some(0),
    })
}

pub(super) fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    int(row, column).map(Timestamp::from_micros)
}

pub(super) fn maybe_instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(maybe_int(row, column)?.map(Timestamp::from_micros))
}

pub(super) fn lane(number: i64) -> Lane {
    Lane::from_index(usize::try_from(number).unwrap_or(0))
}

/// A chain as it is stored.
pub(super) fn chain_text(then: &[NewJob]) -> rusqlite::Result<Option<String>> {
    let text = || serde_json::to_string(then).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()));
    if then.is_empty() { Ok(None) } else { text().map(Some) }
}

/// A chain that cannot be read is one job that nobody can accept: it is seen, and noted when its time comes.
fn chain(text: String) -> Vec<NewJob> {
    serde_json::from_str(&text).unwrap_or_else(|_| vec![NewJob::new("", text)])
}

pub(super) fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// Text as it is, also where somebody has stored bytes that are none.
pub(super) fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    }
}

/// The job of that id.
pub(super) fn find(connection: &Connection, id: JobId) -> rusqlite::Result<Option<JobRecord>> {
    const SQL: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM punctual_job j JOIN punctual_line l ON l.id = j.line WHERE j.id = ?1"
    );
    connection.prepare_cached(SQL)?.query_row([id.as_i64()], read).optional()
}

/// The job of that id, which has just been claimed, and whose line is known.
pub(super) fn find_in_line(
    connection: &Connection,
    id: JobId,
    line: &Line,
) -> rusqlite::Result<Option<JobRecord>> {
    const SQL: &str = "SELECT id, ?2, ?3, ?4, state, due, version, attempt, crashes, max_attempts, max_crashes, \
        on_lost, timeout, uniq, created, owner, fence, claimed, cancel, finished, note, payload, series, nominal, \
        parent, follow, 0, NULL, missed FROM punctual_job WHERE id = ?1";
    let lane = i64::try_from(line.lane.index()).unwrap_or(0);
    let values = params![id.as_i64(), line.queue, line.kind, lane];
    connection.prepare_cached(SQL)?.query_row(values, read).optional()
}

pub(super) fn ticket(job: &JobRecord) -> Ticket {
    Ticket { id: job.id, version: job.version, due: job.due, lane: job.lane }
}

/// The ticket of a job that has just been accepted.
pub(super) fn ticket_of_new(id: JobId, due: Timestamp, job: &NewJob) -> Ticket {
    Ticket { id, version: 1, due, lane: job.lane }
}
