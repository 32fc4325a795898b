//! What programs and operators do with single jobs and queues.

use std::time::Duration;

use postgres::types::ToSql;

use super::follow::{self, Moves, moment};
use super::rows::{self, living, over, state_number, state_of};
use super::session::{Answer, Session};
use super::tally;
use crate::error::Error;
use crate::job::{Due, Failure, Fence, JobId, JobRecord, JobState};
use crate::store::density::Counting;
use crate::store::{Cancelling, Density, Filter, LineRecord, Moved, QueueChange, QueueRecord};
use crate::time::Timestamp;

pub(super) fn cancel(session: &mut Session, ids: &[JobId], given: Option<i64>) -> Answer<Vec<Cancelling>> {
    session.transaction(|session| {
        let now = moment(session, given)?;
        let mut jobs = follow::lock(session, ids)?;
        let mut moves = Moves::default();
        let mut asked = Vec::new();
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let Ok(place) = jobs.binary_search_by_key(id, |job| job.id) else {
                answers.push(state_of_past(session, *id)?.map_or(Cancelling::Unknown, Cancelling::Over));
                continue;
            };
            let job = &mut jobs[place];
            answers.push(match job.state {
                JobState::Scheduled => {
                    moves.cancel(job);
                    job.state = JobState::Cancelled;
                    Cancelling::Cancelled
                }
                JobState::Claimed => {
                    asked.push(id.as_i64());
                    Cancelling::Requested
                }
                state => Cancelling::Over(state),
            });
        }
        if !asked.is_empty() {
            session.query("UPDATE punctual.job SET cancel = true WHERE id = ANY ($1)", &[&asked])?;
        }
        moves.apply(session, now, false)?;
        Ok(answers)
    })
}

fn state_of_past(session: &mut Session, id: JobId) -> Answer<Option<JobState>> {
    let rows = session.query("SELECT state FROM punctual.past WHERE id = $1", &[&id.as_i64()])?;
    Ok(rows.first().map(|row| state_of(row.get(0))))
}

pub(super) fn reschedule(session: &mut Session, id: JobId, due: Due, given: Option<i64>) -> Answer<Moved> {
    session.transaction(|session| {
        let now = moment(session, given)?;
        let Some(mut job) = follow::lock(session, &[id])?.pop() else {
            return Ok(state_of_past(session, id)?.map_or(Moved::Unknown, Moved::Not));
        };
        if job.state != JobState::Scheduled {
            return Ok(Moved::Not(job.state));
        }
        job.due = due.instant(now);
        let sql = "UPDATE punctual.job SET due = $2, late = $3, version = punctual.next(version) WHERE id = $1 \
                   RETURNING version";
        job.version = session.one(sql, &[&id.as_i64(), &job.due.as_micros(), &(job.due < now)])?.get(0);
        Ok(Moved::Waiting(rows::ticket(&job)))
    })
}

pub(super) fn retry(session: &mut Session, id: JobId, due: Due, given: Option<i64>) -> Answer<Moved> {
    session.transaction(|session| {
        let now = moment(session, given)?;
        let sql = concat!(
            "SELECT ",
            over!(),
            " FROM punctual.past p JOIN punctual.line l ON l.id = p.line WHERE p.id = $1 FOR UPDATE OF p"
        );
        let Some(mut job) = session.query(sql, &[&id.as_i64()])?.first().map(rows::read) else {
            let alive = session.query("SELECT state FROM punctual.job WHERE id = $1", &[&id.as_i64()])?;
            return Ok(alive.first().map_or(Moved::Unknown, |row| Moved::Not(state_of(row.get(0)))));
        };
        if job.state != JobState::Dead {
            return Ok(Moved::Not(job.state));
        }
        if let Some(key) = &job.unique {
            let holder = session.query("SELECT id FROM punctual.job WHERE uniq = $1", &[key])?;
            if let Some(row) = holder.first() {
                let holder = JobId::from_i64(row.get(0));
                let message = format!("the unique key {key:?} of job {id} belongs to job {holder}");
                return Err(Error::conflict(message).into());
            }
        }
        job.due = due.instant(now);
        // One that takes the key at this moment is waited for; then it is a conflict, too.
        let sql = "WITH gone AS (DELETE FROM punctual.past WHERE id = $1 RETURNING *) \
                   INSERT INTO punctual.job (id, due, late, line, on_lost, version, fence, owner, claimed, created, \
                   max_attempts, max_crashes, timeout, nominal, missed, parent, uniq, series, follow, note, payload, \
                   traces) \
                   SELECT id, $2, $3, line, on_lost, punctual.next(version), fence, owner, claimed, created, max_attempts, max_crashes, timeout, \
                   nominal, missed, parent, uniq, series, follow, note, payload, true FROM gone RETURNING version";
        job.version = session.one(sql, &[&id.as_i64(), &job.due.as_micros(), &(job.due < now)])?.get(0);
        Ok(Moved::Waiting(rows::ticket(&job)))
    })
}

pub(super) fn purge(session: &mut Session, ids: &[JobId]) -> Answer<usize> {
    let ids: Vec<i64> = ids.iter().map(|id| id.as_i64()).collect();
    let sql = "WITH gone AS (DELETE FROM punctual.past WHERE id = ANY ($1) AND state = 5 RETURNING id), \
               failures AS (DELETE FROM punctual.failure f USING gone WHERE f.job = gone.id), \
               progress AS (DELETE FROM punctual.progress f USING gone WHERE f.job = gone.id), \
               lines AS (DELETE FROM punctual.log f USING gone WHERE f.job = gone.id) \
               SELECT count(*) FROM gone";
    let count: i64 = session.one(sql, &[&ids])?.get(0);
    Ok(usize::try_from(count).unwrap_or(0))
}

pub(super) fn trim(session: &mut Session, before: Timestamp, most: usize) -> Answer<usize> {
    let sql = "WITH old AS MATERIALIZED (SELECT id FROM punctual.past WHERE state < 5 AND finished < $1 \
                   ORDER BY finished, id LIMIT $2 FOR UPDATE SKIP LOCKED), \
               gone AS (DELETE FROM punctual.past p USING old WHERE p.id = old.id RETURNING p.id), \
               failures AS (DELETE FROM punctual.failure f USING gone WHERE f.job = gone.id), \
               progress AS (DELETE FROM punctual.progress f USING gone WHERE f.job = gone.id), \
               lines AS (DELETE FROM punctual.log f USING gone WHERE f.job = gone.id) \
               SELECT count(*) FROM gone";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    tally::trim(session, before)?;
    let count: i64 = session.one(sql, &[&before.as_micros(), &most])?.get(0);
    Ok(usize::try_from(count).unwrap_or(0))
}

pub(super) fn set_queue(
    session: &mut Session,
    queue: &str,
    change: &QueueChange,
    given: Option<i64>,
) -> Answer<()> {
    let rows = match change {
        QueueChange::Pause(reason) => session.query(
            "INSERT INTO punctual.queue (name, paused_at, paused_for) VALUES ($1, coalesce($2, punctual.clock()), $3) \
             ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at, paused_for = excluded.paused_for",
            &[&queue, &given, &reason.as_bytes()],
        ),
        QueueChange::Resume => session.query(
            "INSERT INTO punctual.queue (name) VALUES ($1) \
             ON CONFLICT (name) DO UPDATE SET paused_at = NULL, paused_for = NULL",
            &[&queue],
        ),
        QueueChange::Limit(most) => session.query(
            "INSERT INTO punctual.queue (name, most) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET most = excluded.most",
            &[&queue, &most.map(i64::from)],
        ),
    };
    rows.map(drop)
}

pub(super) fn queues(session: &mut Session) -> Answer<Vec<QueueRecord>> {
    let rows =
        session.query("SELECT name, paused_at, paused_for, most FROM punctual.queue ORDER BY name", &[])?;
    let record = |row: &postgres::Row| {
        let since = row.get::<_, Option<i64>>(1).map(Timestamp::from_micros);
        let reason = rows::text(row.get(2)).unwrap_or_default();
        let limit = row.get::<_, Option<i64>>(3).map(|most| u32::try_from(most.max(0)).unwrap_or(u32::MAX));
        QueueRecord { name: row.get(0), paused: since.map(|since| (since, reason)), limit }
    };
    Ok(rows.iter().map(record).collect())
}

pub(super) fn job(session: &mut Session, id: JobId) -> Answer<Option<JobRecord>> {
    let sql = concat!(
        "SELECT ",
        living!(),
        " FROM punctual.job j JOIN punctual.line l ON l.id = j.line WHERE j.id = $1 UNION ALL SELECT ",
        over!(),
        " FROM punctual.past p JOIN punctual.line l ON l.id = p.line WHERE p.id = $1"
    );
    Ok(session.query(sql, &[&id.as_i64()])?.first().map(rows::read))
}

pub(super) fn failures(session: &mut Session, id: JobId) -> Answer<Vec<Failure>> {
    let sql = "SELECT fence, attempt, at, message FROM punctual.failure WHERE job = $1 ORDER BY fence";
    let failure = |row: &postgres::Row| {
        let attempt = u32::try_from(row.get::<_, i32>(1)).unwrap_or(0);
        let message = rows::text(row.get(3)).unwrap_or_default();
        Failure::new(Fence::from_i64(row.get(0)), attempt, Timestamp::from_micros(row.get(2)), message)
    };
    Ok(session.query(sql, &[&id.as_i64()])?.iter().map(failure).collect())
}

pub(super) fn find(session: &mut Session, filter: &Filter) -> Answer<Vec<JobRecord>> {
    if [&filter.kind, &filter.queue, &filter.unique].into_iter().flatten().any(|name| is_impossible(name)) {
        return Ok(Vec::new());
    }
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let after = filter.after.map(JobId::as_i64);
    let parent = filter.parent.map(JobId::as_i64);
    let wanted: [(&str, Option<&(dyn ToSql + Sync)>); 5] = [
        ("x.id >", after.as_ref().map(|after| after as _)),
        ("x.parent IS NOT NULL AND x.parent =", parent.as_ref().map(|parent| parent as _)),
        ("l.kind =", filter.kind.as_ref().map(|kind| kind as _)),
        ("l.queue =", filter.queue.as_ref().map(|queue| queue as _)),
        ("x.uniq IS NOT NULL AND x.uniq =", filter.unique.as_ref().map(|key| key as _)),
    ];
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&limit];
    let mut conditions = String::new();
    for (condition, value) in wanted {
        if let Some(value) = value {
            params.push(value);
            conditions += &format!(" AND {condition} ${}", params.len());
        }
    }
    // Each side in order and no more than is wanted. A number in the text, so that the index of the dead can be used.
    let side = |columns: &str, table: &str, name: &str| {
        let state =
            filter.state.map(|state| format!(" AND x.state = {}", state_number(state))).unwrap_or_default();
        let conditions = format!("{state}{conditions}").replace("x.", &format!("{name}."));
        format!(
            "(SELECT {columns} FROM punctual.{table} {name} JOIN punctual.line l ON l.id = {name}.line \
             WHERE true{conditions} ORDER BY {name}.id LIMIT $1)"
        )
    };
    let sides: Vec<String> = [
        (filter.state.is_none_or(|state| !state.is_over()), side(living!(), "job", "j")),
        (filter.state.is_none_or(JobState::is_over), side(over!(), "past", "p")),
    ]
    .into_iter()
    .filter_map(|(wanted, side)| wanted.then_some(side))
    .collect();
    let sql = format!("SELECT * FROM ({}) s ORDER BY id LIMIT $1", sides.join(" UNION ALL "));
    Ok(session.query_once(&sql, &params)?.iter().map(rows::read).collect())
}

/// Whether the server would refuse even the question: nothing there is called so.
pub(super) fn is_impossible(name: &str) -> bool {
    name.contains('\0')
}

/// All lines, and when the first job that waits in each is due.
pub(super) fn lines(session: &mut Session) -> Answer<Vec<LineRecord>> {
    let sql = "SELECT l.queue, l.kind, l.lane, (SELECT j.due FROM punctual.job j WHERE j.line = l.id AND j.state = 0 \
               ORDER BY j.due LIMIT 1) FROM punctual.line l ORDER BY l.queue, l.kind, l.lane";
    let line = |row: &postgres::Row| {
        let first = row.get::<_, Option<i64>>(3).map(Timestamp::from_micros);
        LineRecord::new(row.get::<_, &str>(0), row.get::<_, &str>(1), rows::lane_of(row.get(2)), first)
    };
    Ok(session.query(sql, &[])?.iter().map(line).collect())
}

/// Counts the jobs that wait and come due in these windows: `most` at most, and one more to know whether there are any. The
/// server stops there, because nothing is sorted but the windows and lines.
pub(super) fn upcoming(
    session: &mut Session,
    windows: &[(Timestamp, Timestamp)],
    from: Timestamp,
    width: Duration,
    most: usize,
    mut counting: Counting,
) -> Answer<Density> {
    let sql = "SELECT s.step, count(*) FILTER (WHERE s.nth <= $5), bool_or(s.nth > $5) \
               FROM (SELECT div(j.due::numeric - $3::bigint, $4::bigint)::bigint AS step, row_number() OVER () AS nth \
                     FROM (SELECT w.since, w.until, l.id \
                           FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY w (since, until, place) \
                           CROSS JOIN punctual.line l ORDER BY w.place, l.queue, l.kind, l.lane) p \
                     CROSS JOIN LATERAL (SELECT j.due FROM punctual.job j WHERE j.line = p.id AND j.state = 0 \
                         AND j.due >= p.since AND j.due < p.until ORDER BY j.due) j \
                     LIMIT $6) s \
               GROUP BY s.step";
    let (since, until): (Vec<i64>, Vec<i64>) =
        windows.iter().map(|(since, until)| (since.as_micros(), until.as_micros())).unzip();
    let (width, most) = (rows::micros(width).max(1), i64::try_from(most).unwrap_or(i64::MAX));
    let limit = most.saturating_add(1);
    for row in session.query(sql, &[&since, &until, &from.as_micros(), &width, &most, &limit])? {
        counting.note_all(row.get(0), row.get(1), row.get(2));
    }
    Ok(counting.finish())
}

#[cfg(test)]
mod tests {
    use punctual_testbed::Postgres;

    use super::*;
    use crate::job::NewJob;
    use crate::{PostgresStore, Store};

    /// However many wait, in whichever lines, and whatever it thinks of them.
    #[test]
    fn the_server_looks_at_no_more_jobs_than_are_counted() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let url = Postgres::shared().fresh_database();
        let store = PostgresStore::open(&url).unwrap();
        let job =
            |n: u32| NewJob::new(format!("kind {}", n % 3), "{}").due(Due::After(HOUR + HOUR * (n % 50)));
        store.enqueue((0..3_000).map(job).collect()).unwrap();
        let (from, most) = (store.now(), 100);
        let windows = Density::windows(from, HOUR, 60);
        let work = move |session: &mut Session| {
            session.transaction(|session| {
                let counting = Counting::new(from, HOUR, 60, most);
                let density = upcoming(session, &windows, from, HOUR, most, counting)?;
                let sql = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables \
                           WHERE schemaname = 'punctual' AND relname = 'job'";
                Ok((density, session.one(sql, &[])?.get::<_, i64>(0)))
            })
        };
        let (density, looked_at) = store.read(work).unwrap();
        assert_eq!((density.counts.iter().sum::<u64>(), density.partial), (100, true));
        assert!((100..=101).contains(&looked_at), "{looked_at}");
        let whole = store.upcoming(from, HOUR, 60, 3_000).unwrap();
        assert_eq!((whole.counts.iter().sum::<u64>(), whole.partial), (3_000, false));
        drop(store);
        Postgres::shared().drop_database(&url);
    }
}
