//! What nodes have counted, in the database.

use postgres::Row;

use super::rows::text;
use super::session::{Answer, Session};
use crate::job::NodeId;
use crate::tally::{Ending, ErrorTally, RunTally, Spans, Tallies};
use crate::time::Timestamp;

fn spans(counts: &[i64]) -> Spans {
    let counts: Vec<u64> = counts.iter().map(|count| u64::try_from(*count).unwrap_or(0)).collect();
    Spans::from_counts(&counts)
}

fn counts(spans: &Spans) -> Vec<i64> {
    spans.counts().iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX)).collect()
}

pub(super) fn runs(session: &mut Session, from: Timestamp, until: Timestamp) -> Answer<Vec<RunTally>> {
    let sql = "SELECT minute, kind, ending, late, ran FROM punctual.run WHERE minute >= $1 AND minute < $2";
    let tally = |row: &Row| {
        // An ending that a later version knows is none to us.
        let ending = Ending::from_index(usize::try_from(row.get::<_, i16>(2)).ok()?)?;
        let (late, ran): (Vec<i64>, Vec<i64>) = (row.get(3), row.get(4));
        let minute = Timestamp::from_micros(row.get(0));
        Some(RunTally::new(minute, row.get::<_, &str>(1), ending, spans(&late), spans(&ran)))
    };
    Ok(session.query(sql, &[&from.as_micros(), &until.as_micros()])?.iter().filter_map(tally).collect())
}

pub(super) fn errors(session: &mut Session, since: Timestamp) -> Answer<Vec<ErrorTally>> {
    let sql =
        "SELECT hour, kind, fingerprint, example, first, last, count FROM punctual.error WHERE last >= $1";
    let tally = |row: &Row| {
        let last = Timestamp::from_micros(row.get(5));
        let example = text(row.get(3)).unwrap_or_default();
        let mut tally = ErrorTally::new(row.get::<_, &str>(1), row.get(2), example, last);
        (tally.hour, tally.first) = (Timestamp::from_micros(row.get(0)), Timestamp::from_micros(row.get(4)));
        tally.count = u64::try_from(row.get::<_, i64>(6)).unwrap_or(0);
        tally
    };
    Ok(session.query(sql, &[&since.as_micros()])?.iter().map(tally).collect())
}

/// Keeps totals, which replace those that the node sent before.
pub(super) fn write(session: &mut Session, node: NodeId, tallies: &Tallies) -> Answer<()> {
    for RunTally { minute, kind, ending, late, ran } in &tallies.runs {
        let sql = "INSERT INTO punctual.run (minute, node, kind, ending, late, ran) VALUES ($1, $2, $3, $4, $5, $6) \
                   ON CONFLICT (minute, node, kind, ending) DO UPDATE SET late = excluded.late, ran = excluded.ran";
        let ending = i16::try_from(ending.index()).unwrap_or(0);
        let (late, ran) = (counts(late), counts(ran));
        session.query(sql, &[&minute.as_micros(), &node.as_i64(), kind, &ending, &late, &ran])?;
    }
    for ErrorTally { hour, kind, fingerprint, example, first, last, count } in &tallies.errors {
        let sql = "INSERT INTO punctual.error (hour, node, kind, fingerprint, example, first, last, count) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hour, node, kind, fingerprint) DO UPDATE SET \
                   example = excluded.example, first = excluded.first, last = excluded.last, count = excluded.count";
        let (hour, first, last) = (hour.as_micros(), first.as_micros(), last.as_micros());
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let example = example.as_bytes();
        session.query(sql, &[&hour, &node.as_i64(), kind, fingerprint, &example, &first, &last, &count])?;
    }
    Ok(())
}

/// Forgets what was counted before then.
pub(super) fn trim(session: &mut Session, before: Timestamp) -> Answer<()> {
    session.query("DELETE FROM punctual.run WHERE minute < $1", &[&before.as_micros()])?;
    session.query("DELETE FROM punctual.error WHERE last < $1", &[&before.as_micros()]).map(drop)
}
