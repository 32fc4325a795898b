//! Rows and what they mean.
//!
//! Numbers in a table may have been written by anybody: what makes no sense is read as the nearest thing that does, so that
//! one odd row cannot keep all others from being read.

use std::time::Duration;

use postgres::Row;

use super::low::Lows;
use crate::job::{Fence, JobId, JobRecord, JobState, Limits, NewJob, NodeId, OnConflict, OnLost};
use crate::lane::Lane;
use crate::store::Ticket;
use crate::time::Timestamp;

/// What [`read`] expects of a living job, from `punctual.job j JOIN punctual.line l ON l.id = j.line`.
macro_rules! living {
    () => {
        "j.id, l.queue, l.kind, l.lane, j.state, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes, \
         j.on_lost, j.timeout, j.uniq, j.created, j.owner, j.fence, j.claimed, j.cancel, NULL::bigint AS finished, j.note, \
         j.payload, j.series, j.nominal, j.parent, j.follow, \
         j.state = 1 AND j.complete IS NOT DISTINCT FROM j.fence AS completed, j.asked, j.missed"
    };
}

/// The same of one that is over, from `punctual.past p JOIN punctual.line l ON l.id = p.line`.
macro_rules! over {
    () => {
        "p.id, l.queue, l.kind, l.lane, p.state, p.due, p.version, p.attempt, p.crashes, p.max_attempts, p.max_crashes, \
         p.on_lost, p.timeout, p.uniq, p.created, p.owner, p.fence, p.claimed, false AS cancel, p.finished, p.note, \
         p.payload, p.series, p.nominal, p.parent, p.follow, false AS completed, \
         NULL::text AS asked, p.missed"
    };
}

pub(super) use {living, over};

pub(super) fn state_number(state: JobState) -> i16 {
    match state {
        JobState::Scheduled => 0,
        JobState::Claimed => 1,
        JobState::Done => 2,
        JobState::Discarded => 3,
        JobState::Cancelled => 4,
        JobState::Dead => 5,
    }
}

pub(super) fn state_of(number: i16) -> JobState {
    match number {
        0 => JobState::Scheduled,
        1 => JobState::Claimed,
        2 => JobState::Done,
        3 => JobState::Discarded,
        4 => JobState::Cancelled,
        _ => JobState::Dead,
    }
}

pub(super) fn on_lost_number(on_lost: OnLost) -> i16 {
    match on_lost {
        OnLost::Rerun => 0,
        OnLost::Fail => 1,
    }
}

pub(super) fn policy_number(policy: OnConflict) -> i16 {
    match policy {
        OnConflict::Keep => 0,
        OnConflict::Reject => 1,
        OnConflict::Replace => 2,
    }
}

pub(super) fn lane_number(lane: Lane) -> i16 {
    i16::try_from(lane.index()).unwrap_or(0)
}

pub(super) fn lane_of(number: i16) -> Lane {
    Lane::from_index(usize::try_from(number).unwrap_or(0))
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A count as it is stored.
pub(super) fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A count as it is stored where it is mostly nothing.
pub(super) fn some_count(number: u64) -> Option<i64> {
    (number > 0).then(|| i64::try_from(number).unwrap_or(i64::MAX))
}

fn missed(number: Option<i64>) -> u64 {
    number.unwrap_or(0).max(0).cast_unsigned()
}

fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// Text as it is, also where somebody has stored bytes that are none.
pub(super) fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn instant(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

/// One job, of the columns `living!` or `over!`.
pub(super) fn read(row: &Row) -> JobRecord {
    JobRecord {
        id: JobId::from_i64(row.get(0)),
        queue: row.get(1),
        kind: row.get(2),
        lane: lane_of(row.get(3)),
        state: state_of(row.get(4)),
        due: Timestamp::from_micros(row.get(5)),
        version: row.get(6),
        attempt: small(row.get::<_, i32>(7).into()),
        crashes: small(row.get::<_, i32>(8).into()),
        limits: limits(row.get(9), row.get(10), row.get(11), row.get(12)),
        unique: row.get(13),
        created: Timestamp::from_micros(row.get(14)),
        owner: row.get::<_, Option<i64>>(15).map(NodeId::from_i64),
        fence: Fence::from_i64(row.get(16)),
        claimed: instant(row.get(17)),
        cancel_requested: row.get(18),
        finished: instant(row.get(19)),
        note: text(row.get(20)),
        payload: text(row.get(21)),
        series: row.get::<_, Option<String>>(22).zip(instant(row.get(23))),
        parent: row.get::<_, Option<i64>>(24).map(JobId::from_i64),
        then: chain(row.get(25)),
        completed: row.get(26),
        asked: chain(row.get(27)),
        missed: missed(row.get(28)),
    }
}

/// A chain as it is stored.
pub(super) fn chain_text(then: &[NewJob]) -> Option<String> {
    // It consists of text and numbers, and can be written.
    if then.is_empty() { None } else { serde_json::to_string(then).ok() }
}

/// A chain that cannot be read is one job that nobody can accept: it is seen, and noted when its time comes.
fn chain(text: Option<&str>) -> Vec<NewJob> {
    let Some(text) = text else { return Vec::new() };
    serde_json::from_str(text).unwrap_or_else(|_| vec![NewJob::new("", text)])
}

fn limits(attempts: i64, crashes: i64, on_lost: i16, timeout: Option<i64>) -> Limits {
    Limits {
        max_attempts: small(attempts),
        max_crashes: small(crashes),
        on_lost: if on_lost == 0 { OnLost::Rerun } else { OnLost::Fail },
        timeout: timeout.map(|timeout| Duration::from_micros(timeout.max(0).cast_unsigned())),
    }
}

/// One job that `punctual.exchange` or `claim.rs` has claimed for `node`. `None` if its line has no name.
pub(super) fn read_claimed(row: &Row, id: i64, node: NodeId, lows: &Lows) -> Option<JobRecord> {
    let line = lows.line(row.get(1))?;
    Some(JobRecord {
        id: JobId::from_i64(id),
        queue: line.queue.clone(),
        kind: line.kind.clone(),
        lane: line.lane,
        state: JobState::Claimed,
        due: Timestamp::from_micros(row.get(2)),
        version: row.get(3),
        attempt: small(row.get::<_, i32>(4).into()),
        crashes: small(row.get::<_, i32>(5).into()),
        limits: limits(row.get(6), row.get(7), row.get(8), row.get(9)),
        unique: row.get(10),
        created: Timestamp::from_micros(row.get(11)),
        owner: Some(node),
        fence: Fence::from_i64(row.get(12)),
        claimed: instant(row.get(13)),
        cancel_requested: row.get(14),
        completed: false,
        asked: Vec::new(),
        finished: None,
        note: text(row.get(15)),
        payload: text(row.get(16)),
        series: row.get::<_, Option<String>>(17).zip(instant(row.get(18))),
        parent: row.get::<_, Option<i64>>(19).map(JobId::from_i64),
        then: chain(row.get(20)),
        missed: missed(row.get(21)),
    })
}

pub(super) fn ticket(job: &JobRecord) -> Ticket {
    Ticket { id: job.id, version: job.version, due: job.due, lane: job.lane }
}
