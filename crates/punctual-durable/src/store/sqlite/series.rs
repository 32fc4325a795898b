//! Schedules in the file: rows, and what they make of jobs. See `schedule.rs` for the rules.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sql;
use super::rows::{count, int, maybe_instant, small, text, ticket_of_new};
use super::writes::{Origin, Write};
use crate::error::Result;
use crate::job::{Due, JobState};
use crate::schedule::{Firing, Happening, NewSchedule, ScheduleRecord};
use crate::store::{Saved, ScheduleChange, Ticket};
use crate::time::Timestamp;

const COLUMNS: &str = "definition, next, last, owed, version, paused_at, paused_for, failures, missed";

/// A definition that cannot be read is of a later version, or damaged: it is left alone, and the others go on. Whoever
/// wants to change that very one is told.
fn read(row: &Row<'_>) -> Sql<Option<ScheduleRecord>> {
    let instant = |column| maybe_instant(row, column);
    let definition = text(row.get_ref(0)?).unwrap_or_default();
    let Ok(definition) = serde_json::from_str(&definition) else { return Ok(None) };
    let reason = text(row.get_ref(6)?).unwrap_or_default();
    Ok(Some(ScheduleRecord {
        definition,
        next: instant(1)?,
        last: instant(2)?,
        owed: instant(3)?,
        version: int(row, 4)?,
        paused: instant(5)?.map(|since| (since, reason)),
        failures: small(int(row, 7)?),
        missed: int(row, 8)?.max(0).cast_unsigned(),
    }))
}

fn all(connection: &Connection, condition: &str, until: Timestamp) -> Sql<Vec<ScheduleRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM punctual_schedule WHERE {condition} ORDER BY name");
    let mut statement = connection.prepare_cached(&sql)?;
    let records = statement.query_map([until.as_micros()], read)?.collect::<Sql<Vec<_>>>()?;
    Ok(records.into_iter().flatten().collect())
}

/// All schedules.
pub(super) fn list(connection: &Connection) -> Sql<Vec<ScheduleRecord>> {
    all(connection, "?1 = ?1", Timestamp::MAX)
}

/// Those that are not paused and have an occurrence due by `until`.
pub(super) fn due(connection: &Connection, kinds: &[String], until: Timestamp) -> Sql<Vec<ScheduleRecord>> {
    let mut due = all(connection, "paused_at IS NULL AND next IS NOT NULL AND next <= ?1", until)?;
    due.retain(|record| kinds.contains(&record.definition.job.kind));
    Ok(due)
}

impl Write<'_> {
    fn schedule(&self, name: &str) -> Sql<Option<ScheduleRecord>> {
        Ok(self.found(name)?.flatten())
    }

    /// `Some(None)` if there is one that cannot be read.
    fn found(&self, name: &str) -> Sql<Option<Option<ScheduleRecord>>> {
        let sql = format!("SELECT {COLUMNS} FROM punctual_schedule WHERE name = ?1");
        self.connection.prepare_cached(&sql)?.query_row([name], read).optional()
    }

    /// The schedule of that name, for somebody who wants to change it.
    fn changeable(&self, name: &str) -> Result<Option<ScheduleRecord>> {
        let record = |found: Option<_>| found.ok_or_else(|| ScheduleRecord::unreadable(name));
        self.sql(self.found(name))?.map(record).transpose()
    }

    pub(super) fn put_schedule(&self, record: &ScheduleRecord) -> Sql<()> {
        let sql = "INSERT OR REPLACE INTO punctual_schedule (name, kind, definition, next, last, owed, version, \
                   paused_at, paused_for, failures, missed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let definition = serde_json::to_string(&record.definition)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let micros = |instant: Option<Timestamp>| instant.map(Timestamp::as_micros);
        let (since, reason) =
            record.paused.as_ref().map(|(since, reason)| (since.as_micros(), reason)).unzip();
        self.connection.prepare_cached(sql)?.execute(params![
            record.definition.name,
            record.definition.job.kind,
            definition,
            micros(record.next),
            micros(record.last),
            micros(record.owed),
            record.version,
            since,
            reason,
            record.failures,
            count(record.missed),
        ])?;
        Ok(())
    }

    /// How many occurrences of a schedule are alive.
    fn living(&self, schedule: &str) -> Sql<usize> {
        let sql = "SELECT count(*) FROM punctual_job WHERE series = ?1 AND series IS NOT NULL AND state < 2";
        let count: i64 = self.connection.prepare_cached(sql)?.query_row([schedule], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Makes an occurrence an ordinary job.
    fn occur(&self, record: &ScheduleRecord, it: Happening, due: Timestamp) -> Sql<Ticket> {
        let job = record.definition.job.clone().due(Due::At(due));
        let id = self.insert(&job, Origin { series: Some((&record.definition.name, it)), parent: None })?;
        Ok(ticket_of_new(id, due, &job))
    }

    pub(super) fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        let mut record = self.changeable(&schedule.name)?;
        let saved = match &mut record {
            Some(old) => old.redefine(schedule.clone(), self.now),
            None => Saved::Created,
        };
        if saved != Saved::Unchanged {
            let record = record.unwrap_or_else(|| ScheduleRecord::saved(schedule, self.now));
            self.sql(self.put_schedule(&record))?;
        }
        Ok(saved)
    }

    pub(super) fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        if change == ScheduleChange::Remove {
            let sql = "DELETE FROM punctual_schedule WHERE name = ?1";
            return self.sql(self.connection.execute(sql, [name])).map(|count| count == 1);
        }
        let Some(mut record) = self.changeable(name)? else { return Ok(false) };
        let set = || -> Sql<bool> {
            match change {
                ScheduleChange::Pause(reason) => record.pause(reason, self.now),
                ScheduleChange::Resume => record.resume(self.living(name)?, self.now),
                ScheduleChange::Backfill(times) => {
                    for nominal in times {
                        self.occur(&record, Happening::asked_for(nominal), self.now)?;
                    }
                    return Ok(true);
                }
                ScheduleChange::Trigger | ScheduleChange::Remove => {
                    self.occur(&record, Happening::asked_for(self.now), self.now)?;
                    return Ok(true);
                }
            }
            self.put_schedule(&record)?;
            Ok(true)
        };
        self.sql(set())
    }

    pub(super) fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        let mut tickets = Vec::new();
        for firing in firings {
            tickets.extend(self.sql(self.fire_one(firing))?);
        }
        Ok(tickets)
    }

    fn fire_one(&self, firing: Firing) -> Sql<Vec<Ticket>> {
        let Some(mut record) = self.schedule(&firing.name)? else { return Ok(Vec::new()) };
        if record.version != firing.version || record.paused.is_some() {
            return Ok(Vec::new());
        }
        if firing.replaces {
            self.cancel_living(&firing.name)?;
        }
        let happening = record.fired(firing, self.living(&record.definition.name)?);
        self.put_schedule(&record)?;
        happening.into_iter().map(|it| self.occur(&record, it, record.due(it.nominal))).collect()
    }

    /// Cancels the occurrences of a schedule that wait, and asks for those that are claimed. The schedule does not go on
    /// by that: the caller sees to it.
    fn cancel_living(&self, schedule: &str) -> Sql<()> {
        // Both conditions on the state: the first is that of the index.
        let sql = "UPDATE punctual_job SET state = 4, version = version + 1, finished = ?2, payload = NULL \
                   WHERE series = ?1 AND series IS NOT NULL AND state < 2 AND state = 0";
        self.connection.prepare_cached(sql)?.execute(params![schedule, self.now.as_micros()])?;
        let sql = "UPDATE punctual_job SET cancel = 1 \
                   WHERE series = ?1 AND series IS NOT NULL AND state < 2 AND state = 1";
        self.connection.prepare_cached(sql)?.execute([schedule])?;
        Ok(())
    }

    /// An occurrence is over, and this is how.
    pub(super) fn after_occurrence(&self, schedule: &str, how: JobState) -> Sql<()> {
        let Some(mut record) = self.schedule(schedule)? else { return Ok(()) };
        let before = record.version;
        record.ended(how, self.now);
        let owed = if self.living(schedule)? == 0 { record.next_after_end(self.now) } else { None };
        if record.version != before {
            self.put_schedule(&record)?;
        }
        if let Some(owed) = owed {
            self.occur(&record, owed, record.due(owed.nominal).max(self.now))?;
        }
        Ok(())
    }
}
