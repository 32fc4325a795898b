//! What may be wrong with a file.

use rusqlite::Connection;

use super::rows::text;
use super::{Sql, schema};
use crate::doctor::Finding;
use crate::job::{NewJob, NodeId};
use crate::schedule::{Cadence, NewSchedule};

/// Lines beyond which looking for jobs gets slow.
const MANY_LINES: i64 = 10_000;
/// Findings of one sort that are told one by one.
const MOST: usize = 10;

/// Everything that can be checked. `owner`: the node of this process that has the file.
pub(super) fn all(connection: &Connection, owner: Option<NodeId>) -> Sql<Vec<Finding>> {
    let missing = schema::missing(connection)?;
    let lacks =
        |(sort, name): &(String, String)| Finding::error("schema", format!("the {sort} {name} is missing"));
    let mut findings: Vec<Finding> = missing.iter().take(MOST).map(lacks).collect();
    findings.extend(pages(connection)?);
    // The rest asks for these.
    if !missing.iter().any(|(sort, _)| sort == "table") {
        findings.extend(version(connection)?);
        findings.extend(claims(connection, owner)?);
        findings.extend(lines(connection)?);
        findings.extend(unreadable(connection)?);
    }
    Ok(findings)
}

fn number(connection: &Connection, sql: &str) -> Sql<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

/// A later program may have changed the tables while this one had them open.
fn version(connection: &Connection) -> Sql<Vec<Finding>> {
    let known = schema::known();
    let found = number(connection, "SELECT value FROM punctual_meta WHERE name = 'schema'")?;
    Ok(vec![if usize::try_from(found) == Ok(known) {
        Finding::info("schema", format!("the tables have version {found}"))
    } else {
        Finding::error(
            "schema",
            format!("the tables have version {found}, and this program knows version {known}"),
        )
    }])
}

fn pages(connection: &Connection) -> Sql<Vec<Finding>> {
    let mut statement = connection.prepare("PRAGMA quick_check(10)")?;
    let said = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Sql<Vec<_>>>()?;
    Ok(said.into_iter().filter(|line| line != "ok").map(|line| Finding::error("integrity", line)).collect())
}

/// One node at a time has the file: the claims of any other are orphans, until they are rescued.
fn claims(connection: &Connection, owner: Option<NodeId>) -> Sql<Option<Finding>> {
    let sql = "SELECT count(*), count(DISTINCT owner), coalesce(sum(owner IS ?1), 0) \
               FROM punctual_job WHERE state = 1";
    let row = connection.query_row(sql, [owner.map(NodeId::as_i64)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    let message = match (row, owner) {
        ((claimed, _, ours), Some(owner)) if claimed > ours => {
            format!("{} jobs are not held by {owner:?}, which has the file", claimed - ours)
        }
        ((claimed, owners, _), None) if owners > 1 => {
            format!("{claimed} jobs are held by {owners} nodes, and only one can be alive")
        }
        _ => return Ok(None),
    };
    Ok(Some(Finding::warning("orphaned claims", message)))
}

fn lines(connection: &Connection) -> Sql<Vec<Finding>> {
    let mut findings = Vec::new();
    let lost = "SELECT count(*) FROM punctual_job WHERE line NOT IN (SELECT id FROM punctual_line)";
    let lost = number(connection, lost)?;
    if lost > 0 {
        findings.push(Finding::error(
            "lines",
            format!("{lost} jobs are in lines that do not exist: nobody sees them"),
        ));
    }
    let unset = "SELECT count(*) FROM punctual_line WHERE queue NOT IN (SELECT name FROM punctual_queue)";
    let unset = number(connection, unset)?;
    if unset > 0 {
        findings.push(Finding::error(
            "lines",
            format!("{unset} lines are of queues that do not exist: they stand still"),
        ));
    }
    let (all, empty) = (
        number(connection, "SELECT count(*) FROM punctual_line")?,
        number(
            connection,
            "SELECT count(*) FROM punctual_line l \
             WHERE NOT EXISTS (SELECT 1 FROM punctual_job WHERE line = l.id AND state = 0)",
        )?,
    );
    if all > MANY_LINES {
        findings.push(Finding::warning(
            "lines",
            format!("every look for jobs searches {all} lines, {empty} of them without jobs that wait"),
        ));
    }
    Ok(findings)
}

fn unreadable(connection: &Connection) -> Sql<Vec<Finding>> {
    let mut findings = Vec::new();
    let sql = "SELECT name, definition, next IS NULL AND paused_at IS NULL AND NOT EXISTS (SELECT 1 \
               FROM punctual_job WHERE series = s.name AND series IS NOT NULL AND state < 2) FROM punctual_schedule s";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name = text(row.get_ref(0)?).unwrap_or_default();
        let definition = text(row.get_ref(1)?).unwrap_or_default();
        match serde_json::from_str::<NewSchedule>(&definition) {
            Ok(schedule) if row.get(2)? && matches!(schedule.cadence, Cadence::Delay(_)) => {
                findings.push(Finding::stands_still(&name));
            }
            Ok(_) => {}
            Err(error) => findings
                .push(Finding::error("schedules", format!("the schedule {name:?} cannot be read: {error}"))),
        }
    }
    let sql = "SELECT id, follow FROM punctual_job WHERE follow IS NOT NULL";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, follow) = (row.get::<_, i64>(0)?, text(row.get_ref(1)?).unwrap_or_default());
        if let Err(error) = serde_json::from_str::<Vec<NewJob>>(&follow) {
            findings.push(Finding::error("chains", format!("what follows job {id} cannot be read: {error}")));
        }
    }
    findings.truncate(MOST);
    Ok(findings)
}
