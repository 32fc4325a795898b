//! Which lines a node may take from, and what waits there.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::job::JobId;
use crate::lane::Lane;
use crate::time::Timestamp;

/// The lines that a node may take from now.
pub(super) struct Lines {
    lines: Vec<Line>,
    /// How many more may be claimed of each queue that has a limit.
    room: HashMap<String, usize>,
    /// Lines that are left out because their queue is full.
    full: Vec<i64>,
}

struct Line {
    id: i64,
    queue: String,
    lane: Lane,
}

/// A waiting job: when it is due, and its id.
pub(super) type Waiting = (Timestamp, JobId);

impl Lines {
    /// The lines of these kinds in queues that are neither paused nor full.
    pub(super) fn eligible(connection: &Connection, kinds: &[String]) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(
            "SELECT l.id, l.queue, l.kind, l.lane, q.most FROM punctual_line l
             JOIN punctual_queue q ON q.name = l.queue WHERE q.paused_at IS NULL",
        )?;
        let mut rows = statement.query([])?;
        let (mut lines, mut room) = (Vec::new(), HashMap::new());
        while let Some(row) = rows.next()? {
            let known = row.get_ref(2)?.as_str().is_ok_and(|kind| kinds.iter().any(|known| known == kind));
            if !known {
                continue;
            }
            let queue: String = row.get(1)?;
            if let Some(most) = row.get::<_, Option<i64>>(4)?
                && !room.contains_key(&queue)
            {
                let claimed = claimed(connection, &queue)?;
                room.insert(queue.clone(), usize::try_from(most).unwrap_or(0).saturating_sub(claimed));
            }
            let lane = Lane::from_index(usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0));
            lines.push(Line { id: row.get(0)?, queue, lane });
        }
        let (lines, full): (Vec<Line>, Vec<Line>) =
            lines.into_iter().partition(|line| room.get(&line.queue).is_none_or(|room| *room > 0));
        Ok(Self { lines, room, full: full.into_iter().map(|line| line.id).collect() })
    }

    /// Waiting jobs due by `until`, at most `most` of each lane and no more of a queue than it has room for, by
    /// lane and then in order.
    pub(super) fn due(
        &self,
        connection: &Connection,
        until: Timestamp,
        most: usize,
    ) -> rusqlite::Result<[Vec<Waiting>; 4]> {
        let mut lanes: [Vec<(Timestamp, JobId, &str)>; 4] = Default::default();
        let mut statement = connection.prepare_cached(
            "SELECT due, id FROM punctual_job WHERE line = ?1 AND state = 0 AND due <= ?2
             ORDER BY due, id LIMIT ?3",
        )?;
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        for line in &self.lines {
            let mut rows = statement.query(params![line.id, until.as_micros(), limit])?;
            while let Some(row) = rows.next()? {
                let (due, id) = (Timestamp::from_micros(row.get(0)?), JobId::from_i64(row.get(1)?));
                lanes[line.lane.index()].push((due, id, line.queue.as_str()));
            }
        }
        let mut room = self.room.clone();
        Ok(lanes.map(|mut jobs| {
            jobs.sort_unstable();
            jobs.retain(|(_, _, queue)| take_place(&mut room, queue));
            jobs.into_iter().take(most).map(|(due, id, _)| (due, id)).collect()
        }))
    }

    /// When the first job after `after` is due.
    pub(super) fn next(
        &self,
        connection: &Connection,
        after: Timestamp,
    ) -> rusqlite::Result<Option<Timestamp>> {
        let mut statement = connection
            .prepare_cached("SELECT min(due) FROM punctual_job WHERE line = ?1 AND state = 0 AND due > ?2")?;
        let mut first: Option<i64> = None;
        for line in &self.lines {
            let due: Option<i64> =
                statement.query_row(params![line.id, after.as_micros()], |row| row.get(0))?;
            first = first.into_iter().chain(due).min();
        }
        Ok(first.map(Timestamp::from_micros))
    }

    /// Whether something is due that is left out because its queue is full.
    ///
    /// A queue with a limit that has room left may be counted, too: one look too many, and no harm.
    pub(super) fn is_crowded(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
        let limited =
            self.lines.iter().filter(|line| self.room.contains_key(&line.queue)).map(|line| line.id);
        let sql = "SELECT 1 FROM punctual_job WHERE line = ?1 AND state = 0 AND due <= ?2 LIMIT 1";
        let mut statement = connection.prepare_cached(sql)?;
        for line in self.full.iter().copied().chain(limited) {
            if statement.exists(params![line, now.as_micros()])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a job of that line may be claimed; if so, its place is taken.
    pub(super) fn admit(&mut self, line: i64) -> bool {
        let Some(line) = self.lines.iter().find(|eligible| eligible.id == line) else { return false };
        take_place(&mut self.room, &line.queue)
    }
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
fn claimed(connection: &Connection, queue: &str) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM punctual_job j INDEXED BY punctual_job_claimed
         JOIN punctual_line l ON l.id = j.line WHERE j.state = 1 AND l.queue = ?1",
    )?;
    let count: i64 = statement.query_row([queue], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}
