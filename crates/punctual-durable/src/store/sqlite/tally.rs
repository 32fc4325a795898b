//! What nodes have counted, in the file.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::Sql;
use super::rows::{instant, int, text};
use super::writes::Write;
use crate::job::NodeId;
use crate::tally::{Ending, ErrorTally, RunTally, Spans, Tallies};
use crate::time::Timestamp;

/// Counts that cannot be read are none.
fn spans(value: ValueRef<'_>) -> Spans {
    let counts: Option<Vec<u64>> = text(value).and_then(|text| serde_json::from_str(&text).ok());
    Spans::from_counts(&counts.unwrap_or_default())
}

pub(super) fn runs(connection: &Connection, from: Timestamp, until: Timestamp) -> Sql<Vec<RunTally>> {
    let sql = "SELECT minute, kind, ending, late, ran FROM punctual_run WHERE minute >= ?1 AND minute < ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([from.as_micros(), until.as_micros()], |row| {
        let ending = usize::try_from(int(row, 2)?).ok().and_then(Ending::from_index);
        let (minute, kind) = (instant(row, 0)?, text(row.get_ref(1)?).unwrap_or_default());
        let (late, ran) = (spans(row.get_ref(3)?), spans(row.get_ref(4)?));
        // An ending that a later version knows.
        Ok(ending.map(|ending| RunTally::new(minute, kind, ending, late, ran)))
    })?;
    Ok(rows.collect::<Sql<Vec<_>>>()?.into_iter().flatten().collect())
}

pub(super) fn errors(connection: &Connection, since: Timestamp) -> Sql<Vec<ErrorTally>> {
    let sql =
        "SELECT hour, kind, fingerprint, example, first, last, count FROM punctual_error WHERE last >= ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([since.as_micros()], |row| {
        let name = |column| Ok::<_, rusqlite::Error>(text(row.get_ref(column)?).unwrap_or_default());
        let mut tally = ErrorTally::new(name(1)?, int(row, 2)?, name(3)?, instant(row, 5)?);
        (tally.hour, tally.first) = (instant(row, 0)?, instant(row, 4)?);
        tally.count = u64::try_from(int(row, 6)?).unwrap_or(0);
        Ok(tally)
    })?;
    rows.collect()
}

impl Write<'_> {
    pub(super) fn count(&self, node: NodeId, tallies: &Tallies) -> Sql<()> {
        for RunTally { minute, kind, ending, late, ran } in &tallies.runs {
            let sql = "INSERT OR REPLACE INTO punctual_run (minute, node, kind, ending, late, ran) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let ending = i64::try_from(ending.index()).unwrap_or(0);
            let json = |spans: &Spans| {
                serde_json::to_string(spans.counts())
                    .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
            };
            let row = params![minute.as_micros(), node.as_i64(), kind, ending, json(late)?, json(ran)?];
            self.connection.prepare_cached(sql)?.execute(row)?;
        }
        for ErrorTally { hour, kind, fingerprint, example, first, last, count } in &tallies.errors {
            let sql = "INSERT OR REPLACE INTO punctual_error \
                       (hour, node, kind, fingerprint, example, first, last, count) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let (hour, first, last) = (hour.as_micros(), first.as_micros(), last.as_micros());
            let row = params![hour, node.as_i64(), kind, fingerprint, example, first, last, count];
            self.connection.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }

    /// Forgets what was counted before then.
    pub(super) fn trim_counts(&self, before: Timestamp) -> Sql<()> {
        self.connection.execute("DELETE FROM punctual_run WHERE minute < ?1", [before.as_micros()])?;
        self.connection.execute("DELETE FROM punctual_error WHERE last < ?1", [before.as_micros()]).map(drop)
    }
}
