//! Schedules in the database: rows, and what they make of jobs. See `schedule.rs` for the rules.
//!
//! The row of a schedule is locked before its living occurrences are counted, and whoever ends an occurrence locks it
//! afterwards: of two that end the last two, the second sees that none is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use postgres::Row;

use super::accept::{Columns, Origin};
use super::follow::moment;
use super::replace::Rivals;
use super::rows::text;
use super::session::{Answer, Session};
use crate::error::Error;
use crate::job::{Due, JobState, NewJob};
use crate::schedule::{Firing, Happening, NewSchedule, ScheduleRecord};
use crate::store::{Enqueued, Saved, ScheduleChange, Ticket};
use crate::time::Timestamp;

macro_rules! columns {
    () => {
        "SELECT definition, next, last, owed, version, paused_at, paused_for, failures, missed FROM punctual.schedule"
    };
}

/// A definition that cannot be read is of a later version, or damaged: it is left alone, and the others go on. Whoever
/// wants to change that very one is told.
fn read(row: &Row) -> Option<ScheduleRecord> {
    let instant = |column| row.get::<_, Option<i64>>(column).map(Timestamp::from_micros);
    let definition = serde_json::from_str(row.get(0)).ok()?;
    let reason = text(row.get(6)).unwrap_or_default();
    Some(ScheduleRecord {
        definition,
        next: instant(1),
        last: instant(2),
        owed: instant(3),
        version: row.get(4),
        paused: instant(5).map(|since| (since, reason)),
        failures: u32::try_from(row.get::<_, i64>(7).max(0)).unwrap_or(u32::MAX),
        missed: row.get::<_, i64>(8).max(0).cast_unsigned(),
    })
}

/// All schedules.
pub(super) fn list(session: &mut Session) -> Answer<Vec<ScheduleRecord>> {
    let rows = session.query(concat!(columns!(), " ORDER BY name"), &[])?;
    Ok(rows.iter().filter_map(read).collect())
}

/// Those that are not paused and have an occurrence due by `until`.
pub(super) fn due(session: &mut Session, kinds: &[String], until: Timestamp) -> Answer<Vec<ScheduleRecord>> {
    let sql = concat!(
        columns!(),
        " WHERE paused_at IS NULL AND next IS NOT NULL AND next <= $1 AND kind = ANY ($2) ORDER BY name"
    );
    let rows = session.query(sql, &[&until.as_micros(), &kinds])?;
    Ok(rows.iter().filter_map(read).collect())
}

/// Schedules of these names, locked, by name.
fn lock<'a>(
    session: &mut Session,
    names: impl IntoIterator<Item = &'a String>,
) -> Answer<Vec<ScheduleRecord>> {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    let rows =
        session.query(concat!(columns!(), " WHERE name = ANY ($1) ORDER BY name FOR UPDATE"), &[&names])?;
    Ok(rows.iter().filter_map(read).collect())
}

/// The schedule of that name, locked, for somebody who wants to change it.
fn lock_one(session: &mut Session, name: &str) -> Answer<Option<ScheduleRecord>> {
    let rows = session.query(concat!(columns!(), " WHERE name = $1 FOR UPDATE"), &[&name])?;
    let record = |row| read(row).ok_or_else(|| ScheduleRecord::unreadable(name).into());
    rows.first().map(record).transpose()
}

pub(super) fn put(session: &mut Session, record: &ScheduleRecord) -> Answer<()> {
    let sql = "INSERT INTO punctual.schedule (name, kind, definition, next, last, owed, version, paused_at, paused_for, \
               failures, missed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, \
               definition = excluded.definition, next = excluded.next, last = excluded.last, owed = excluded.owed, \
               version = excluded.version, paused_at = excluded.paused_at, paused_for = excluded.paused_for, \
               failures = excluded.failures, missed = excluded.missed";
    let definition = serde_json::to_string(&record.definition).map_err(|error| {
        Error::invalid("the definition of a schedule cannot be written").with_source(error)
    })?;
    let micros = |instant: Option<Timestamp>| instant.map(Timestamp::as_micros);
    let (since, reason) =
        record.paused.as_ref().map(|(since, reason)| (since.as_micros(), reason.as_bytes())).unzip();
    let (next, last, owed) = (micros(record.next), micros(record.last), micros(record.owed));
    let (name, kind) = (&record.definition.name, &record.definition.job.kind);
    let (version, failures) = (record.version, i64::from(record.failures));
    let missed = i64::try_from(record.missed).unwrap_or(i64::MAX);
    session
        .query(
            sql,
            &[name, kind, &definition, &next, &last, &owed, &version, &since, &reason, &failures, &missed],
        )
        .map(drop)
}

/// How many occurrences of each schedule are alive.
fn living(session: &mut Session, names: &[&str]) -> Answer<HashMap<String, usize>> {
    let sql = "SELECT series, count(*) FROM punctual.job WHERE series = ANY ($1) AND series IS NOT NULL GROUP BY series";
    let rows = session.query(sql, &[&names])?;
    Ok(rows.iter().map(|row| (row.get(0), usize::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
}

/// An occurrence to be: of which schedule, which one, and its job.
struct Occurrence {
    schedule: String,
    it: Happening,
    job: NewJob,
}

impl Occurrence {
    fn of(record: &ScheduleRecord, it: Happening, due: Timestamp) -> Self {
        let job = record.definition.job.clone().due(Due::At(due));
        Self { schedule: record.definition.name.clone(), it, job }
    }
}

/// Makes occurrences ordinary jobs.
fn occur(session: &mut Session, occurrences: &[Occurrence], now: Timestamp) -> Answer<Vec<Ticket>> {
    if occurrences.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = occurrences
        .iter()
        .map(|one| (&one.job, Origin { series: Some((one.schedule.as_str(), one.it)), parent: None }));
    let accepted = Columns::with_origin(jobs).accept(session, Some(now.as_micros()))?;
    let ticket = |accepted| match accepted {
        Enqueued::New(ticket) | Enqueued::Replaced(ticket) => Some(ticket),
        Enqueued::Existing(_) => None,
    };
    Ok(accepted.into_iter().filter_map(ticket).collect())
}

pub(super) fn save(session: &mut Session, schedule: &NewSchedule, given: Option<i64>) -> Answer<Saved> {
    session.transaction(|session| {
        // Two that save a new one under the same name do so one after the other.
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended('punctual.schedule ' || $1, 0))";
        session.query(sql, &[&schedule.name])?;
        let now = moment(session, given)?;
        let mut record = lock_one(session, &schedule.name)?;
        let saved = match &mut record {
            Some(old) => old.redefine(schedule.clone(), now),
            None => Saved::Created,
        };
        if saved != Saved::Unchanged {
            put(session, &record.unwrap_or_else(|| ScheduleRecord::saved(schedule.clone(), now)))?;
        }
        Ok(saved)
    })
}

pub(super) fn set(
    session: &mut Session,
    name: &str,
    change: &ScheduleChange,
    given: Option<i64>,
) -> Answer<bool> {
    session.transaction(|session| {
        if *change == ScheduleChange::Remove {
            let sql = "DELETE FROM punctual.schedule WHERE name = $1 RETURNING name";
            return Ok(!session.query(sql, &[&name])?.is_empty());
        }
        let now = moment(session, given)?;
        let Some(mut record) = lock_one(session, name)? else { return Ok(false) };
        match change {
            ScheduleChange::Pause(reason) => record.pause(reason.clone(), now),
            ScheduleChange::Resume => {
                let living = living(session, &[name])?.get(name).copied().unwrap_or(0);
                record.resume(living, now);
            }
            ScheduleChange::Backfill(times) => {
                let occurrences: Vec<Occurrence> = times
                    .iter()
                    .map(|nominal| Occurrence::of(&record, Happening::asked_for(*nominal), now))
                    .collect();
                return occur(session, &occurrences, now).map(|_| true);
            }
            ScheduleChange::Trigger | ScheduleChange::Remove => {
                return occur(session, &[Occurrence::of(&record, Happening::asked_for(now), now)], now)
                    .map(|_| true);
            }
        }
        put(session, &record)?;
        Ok(true)
    })
}

pub(super) fn fire(session: &mut Session, firings: &[Firing], given: Option<i64>) -> Answer<Vec<Ticket>> {
    if firings.is_empty() {
        return Ok(Vec::new());
    }
    session.transaction(|session| {
        let now = moment(session, given)?;
        // Jobs are locked before schedules.
        let mut rivals = Rivals::lock(session, firings)?;
        let names: BTreeSet<String> = firings.iter().map(|firing| firing.name.clone()).collect();
        let mut records: HashMap<String, ScheduleRecord> = (lock(session, &names)?.into_iter())
            .map(|record| (record.definition.name.clone(), record))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut living = living(session, &names)?;
        let mut occurrences = Vec::new();
        let mut changed = BTreeSet::new();
        for firing in firings {
            let Some(record) = records.get_mut(&firing.name) else { continue };
            if record.version != firing.version || record.paused.is_some() {
                continue;
            }
            let alive = living.entry(firing.name.clone()).or_default();
            if firing.replaces {
                // If others have come meanwhile: whoever looks again, fires again.
                let Some(left) = rivals.give_way(&firing.name, *alive) else { continue };
                *alive = left;
            }
            let happening = record.fired(firing.clone(), *alive);
            *alive += happening.len();
            let occurrence = |it: Happening| Occurrence::of(record, it, record.due(it.nominal));
            occurrences.extend(happening.into_iter().map(occurrence));
            changed.insert(firing.name.clone());
        }
        for name in &changed {
            put(session, &records[name])?;
        }
        rivals.apply(session, now)?;
        occur(session, &occurrences, now)
    })
}

/// Occurrences of these schedules are over, and this is how, in their order.
pub(super) fn after_occurrences(
    session: &mut Session,
    over: &BTreeMap<String, Vec<JobState>>,
    now: Timestamp,
) -> Answer<()> {
    if over.is_empty() {
        return Ok(());
    }
    let records = lock(session, over.keys())?;
    let of: Vec<&str> = records.iter().map(|record| record.definition.name.as_str()).collect();
    let living = living(session, &of)?;
    let mut owed = Vec::new();
    for mut record in records {
        let name = &record.definition.name;
        let is_last = living.get(name).is_none_or(|living| *living == 0);
        let endings = over.get(name).map_or(&[][..], Vec::as_slice);
        let before = record.version;
        endings.iter().for_each(|how| record.ended(*how, now));
        let next = if is_last { record.next_after_end(now) } else { None };
        if record.version != before {
            put(session, &record)?;
        }
        owed.extend(next.map(|it| Occurrence::of(&record, it, record.due(it.nominal).max(now))));
    }
    occur(session, &owed, now).map(drop)
}
