//! Which lines a node may take from, and what waits there.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, params};

use super::Sql;
use super::rows::{instant, int, lane, maybe_instant, maybe_int, text};
use crate::job::{JobId, NodeId};
use crate::lane::Lane;
use crate::store::density::{Counting, Density};
use crate::store::{LineRecord, NodeRecord};
use crate::time::Timestamp;

/// The lines that a node may take from now.
pub(super) struct Lines {
    lines: Vec<Line>,
    /// How many more may be claimed of each queue that has a limit.
    room: HashMap<String, usize>,
    /// Lines that are left out because their queue is full.
    full: Vec<i64>,
}

pub(super) struct Line {
    id: i64,
    pub(super) queue: String,
    pub(super) kind: String,
    pub(super) lane: Lane,
}

/// A waiting job, as the index shows it. Ordered by due time, then id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub(super) due: Timestamp,
    pub(super) id: JobId,
    pub(super) version: i64,
    /// The place of its line among the eligible.
    line: usize,
}

impl Lines {
    /// The lines of these kinds in queues that are neither paused nor full.
    pub(super) fn eligible(connection: &Connection, kinds: &[String]) -> Sql<Self> {
        let mut statement = connection.prepare_cached(
            "SELECT l.id, l.queue, l.kind, l.lane, q.most FROM punctual_line l
             JOIN punctual_queue q ON q.name = l.queue WHERE q.paused_at IS NULL",
        )?;
        let mut rows = statement.query([])?;
        let (mut lines, mut room) = (Vec::new(), HashMap::new());
        while let Some(row) = rows.next()? {
            let kind = row.get_ref(2)?.as_str().ok();
            let Some(kind) = kind.and_then(|kind| kinds.iter().find(|known| *known == kind)).cloned() else {
                continue;
            };
            let queue = text(row.get_ref(1)?).unwrap_or_default();
            if let Some(most) = maybe_int(row, 4)?
                && !room.contains_key(&queue)
            {
                let claimed = claimed(connection, &queue)?;
                room.insert(queue.clone(), usize::try_from(most).unwrap_or(0).saturating_sub(claimed));
            }
            lines.push(Line { id: row.get(0)?, queue, kind, lane: lane(int(row, 3)?) });
        }
        let (lines, full): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| room.get(&line.queue).is_none_or(|room| *room > 0));
        Ok(Self { lines, room, full: full.into_iter().map(|line| line.id).collect() })
    }

    /// Waiting jobs due after `after` and by `until`, at most `most` of each lane and no more of a queue than it has
    /// room for, by lane and then in order.
    pub(super) fn due(
        &self,
        connection: &Connection,
        after: Option<Timestamp>,
        until: Timestamp,
        most: usize,
    ) -> Sql<[Vec<Waiting>; 4]> {
        let mut lanes: [Vec<Waiting>; 4] = Default::default();
        let mut statement = connection.prepare_cached(
            "SELECT due, id, version FROM punctual_job INDEXED BY punctual_job_waiting
             WHERE line = ?1 AND state = 0 AND due >= ?2 AND due <= ?3 ORDER BY due, id LIMIT ?4",
        )?;
        let from = after.map_or(i64::MIN, |after| after.as_micros().saturating_add(1));
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        for (place, line) in self.lines.iter().enumerate() {
            let mut rows = statement.query(params![line.id, from, until.as_micros(), limit])?;
            while let Some(row) = rows.next()? {
                let (due, id) = (instant(row, 0)?, JobId::from_i64(int(row, 1)?));
                lanes[line.lane.index()].push(Waiting { due, id, version: int(row, 2)?, line: place });
            }
        }
        let mut room = self.room.clone();
        for jobs in &mut lanes {
            jobs.sort_unstable();
            jobs.retain(|job| take_place(&mut room, &self.line_of(job).queue));
            jobs.truncate(most);
        }
        Ok(lanes)
    }

    pub(super) fn line_of(&self, job: &Waiting) -> &Line {
        &self.lines[job.line]
    }

    /// When the first job after `after` is due.
    pub(super) fn next(&self, connection: &Connection, after: Timestamp) -> Sql<Option<Timestamp>> {
        let mut statement = connection
            .prepare_cached("SELECT min(due) FROM punctual_job WHERE line = ?1 AND state = 0 AND due > ?2")?;
        let mut first: Option<i64> = None;
        for line in &self.lines {
            let key = params![line.id, after.as_micros()];
            let due: Option<i64> = statement.query_row(key, |row| maybe_int(row, 0))?;
            first = first.into_iter().chain(due).min();
        }
        Ok(first.map(Timestamp::from_micros))
    }

    /// Whether something is due that is left out because its queue is full.
    ///
    /// A queue with a limit that has room left may be counted, too: one look too many, and no harm.
    pub(super) fn is_crowded(&self, connection: &Connection, now: Timestamp) -> Sql<bool> {
        let limited = self.lines.iter().filter(|line| self.room.contains_key(&line.queue));
        any_due(connection, self.full.iter().copied().chain(limited.map(|line| line.id)), now)
    }

    /// Whether a job is due by `now`.
    pub(super) fn is_overdue(&self, connection: &Connection, now: Timestamp) -> Sql<bool> {
        any_due(connection, self.lines.iter().map(|line| line.id), now)
    }

    /// The line of that number, if a job of it may be claimed; then its place is taken.
    pub(super) fn admit(&mut self, line: i64) -> Option<&Line> {
        let line = self.lines.iter().find(|eligible| eligible.id == line)?;
        take_place(&mut self.room, &line.queue).then_some(line)
    }
}

fn any_due(connection: &Connection, lines: impl Iterator<Item = i64>, now: Timestamp) -> Sql<bool> {
    let sql = "SELECT 1 FROM punctual_job WHERE line = ?1 AND state = 0 AND due <= ?2 LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    for line in lines {
        if statement.exists(params![line, now.as_micros()])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A place in a queue, if it has a limit.
fn take_place(room: &mut HashMap<String, usize>, queue: &str) -> bool {
    match room.get_mut(queue) {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}

/// How many jobs of a queue are claimed. Claimed jobs are few: they have an index of their own.
fn claimed(connection: &Connection, queue: &str) -> Sql<usize> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM punctual_job j INDEXED BY punctual_job_claimed
         JOIN punctual_line l ON l.id = j.line WHERE j.state = 1 AND l.queue = ?1",
    )?;
    let count: i64 = statement.query_row([queue], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The node that has the file, and those that hold jobs of it although they have not.
pub(super) fn nodes(connection: &Connection, owner: Option<NodeId>) -> Sql<Vec<NodeRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT owner, count(*) FROM punctual_job INDEXED BY punctual_job_claimed
         WHERE state = 1 AND owner IS NOT NULL GROUP BY owner",
    )?;
    let mut rows = statement.query([])?;
    let mut held: BTreeMap<NodeId, usize> = owner.iter().map(|owner| (*owner, 0)).collect();
    while let Some(row) = rows.next()? {
        *held.entry(NodeId::from_i64(int(row, 0)?)).or_default() +=
            usize::try_from(int(row, 1)?).unwrap_or(0);
    }
    let record = |(id, held)| NodeRecord::new(id, Some(id) == owner, None, held);
    Ok(held.into_iter().map(record).collect())
}

/// All lines, and when the first job that waits in each is due.
pub(super) fn all(connection: &Connection) -> Sql<Vec<LineRecord>> {
    let mut statement = connection.prepare_cached(
        "SELECT l.queue, l.kind, l.lane, (SELECT min(due) FROM punctual_job WHERE line = l.id AND state = 0)
         FROM punctual_line l ORDER BY l.queue, l.kind, l.lane",
    )?;
    let lines = statement.query_map([], |row| {
        let (lane, first) = (lane(int(row, 2)?), maybe_instant(row, 3)?);
        let name = |column| Ok::<_, rusqlite::Error>(text(row.get_ref(column)?).unwrap_or_default());
        Ok(LineRecord::new(name(0)?, name(1)?, lane, first))
    })?;
    lines.collect()
}

/// Counts the jobs that wait and come due in these windows.
pub(super) fn upcoming(
    connection: &Connection,
    windows: &[(Timestamp, Timestamp)],
    mut counting: Counting,
) -> Sql<Density> {
    let lines: Vec<i64> = connection
        .prepare_cached("SELECT id FROM punctual_line ORDER BY queue, kind, lane")?
        .query_map([], |row| row.get(0))?
        .collect::<Sql<_>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT due FROM punctual_job INDEXED BY punctual_job_waiting
         WHERE line = ?1 AND state = 0 AND due >= ?2 AND due < ?3 ORDER BY due",
    )?;
    for (since, until) in windows {
        for line in &lines {
            let mut rows = statement.query(params![line, since.as_micros(), until.as_micros()])?;
            while let Some(row) = rows.next()? {
                if counting.note(instant(row, 0)?) {
                    return Ok(counting.finish());
                }
            }
        }
    }
    Ok(counting.finish())
}
