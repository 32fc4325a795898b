//! What may be wrong with a database.

use super::schema;
use super::session::{Answer, Session};
use crate::doctor::Finding;
use crate::job::NewJob;
use crate::schedule::{Cadence, NewSchedule};

/// Lines beyond which looking for jobs gets slow.
const MANY_LINES: i64 = 10_000;
/// Findings of one sort that are told one by one.
const MOST: usize = 10;

/// Everything that can be checked.
pub(super) fn all(session: &mut Session, given: Option<i64>) -> Answer<Vec<Finding>> {
    session.transaction(|session| {
        // However large the tables are.
        session.batch("SET LOCAL statement_timeout = 0")?;
        // Whoever wants to know what is wrong compares times, too.
        session.ask_time()?;
        let mut findings = tables(session)?;
        findings.extend(claims(session, given)?);
        findings.extend(lines(session)?);
        findings.extend(unreadable(session)?);
        findings.extend(snapshots(session)?);
        findings.extend(durability(session)?);
        Ok(findings)
    })
}

fn number(session: &mut Session, sql: &'static str) -> Answer<i64> {
    Ok(session.one(sql, &[])?.get(0))
}

/// A later program may have changed the tables while this one had them open.
fn tables(session: &mut Session) -> Answer<Vec<Finding>> {
    let known = schema::known();
    let found = number(session, "SELECT value FROM punctual.meta WHERE name = 'schema'")?;
    let server = session.one("SELECT current_setting('server_version')", &[])?;
    let server: &str = server.get(0);
    Ok(vec![if usize::try_from(found) == Ok(known) {
        Finding::info("schema", format!("the tables have version {found}, the server {server}"))
    } else {
        let message = format!("the tables have version {found}, and this program knows version {known}");
        Finding::error("schema", message)
    }])
}

/// Claims of nodes that are dead, which are rescued; and of nodes that nobody knows, which are not.
fn claims(session: &mut Session, given: Option<i64>) -> Answer<Vec<Finding>> {
    let sql = "SELECT count(*) FILTER (WHERE n.id IS NOT NULL), count(*) FILTER (WHERE n.id IS NULL) \
               FROM punctual.job j LEFT JOIN punctual.node n ON n.id = j.owner AND j.id = ANY (n.held) \
               WHERE j.state = 1 AND (n.id IS NULL OR n.until <= coalesce($1, punctual.clock()))";
    let row = session.one(sql, &[&given])?;
    let (dead, unknown): (i64, i64) = (row.get(0), row.get(1));
    let mut findings = Vec::new();
    if unknown > 0 {
        let message = format!("{unknown} jobs are claimed, and no node holds them: nobody rescues them");
        findings.push(Finding::error("lost claims", message));
    }
    if dead > 0 {
        let message = format!("{dead} jobs are held by nodes that are dead, and wait to be rescued");
        findings.push(Finding::warning("orphaned claims", message));
    }
    Ok(findings)
}

fn lines(session: &mut Session) -> Answer<Vec<Finding>> {
    let mut findings = Vec::new();
    let lost = "SELECT count(*) FROM (SELECT line FROM punctual.job UNION ALL SELECT line FROM punctual.past) j \
                WHERE NOT EXISTS (SELECT FROM punctual.line l WHERE l.id = j.line)";
    let lost = number(session, lost)?;
    if lost > 0 {
        let message = format!("{lost} jobs are in lines that do not exist: nobody sees them");
        findings.push(Finding::error("lines", message));
    }
    let unset = "SELECT count(*) FROM punctual.line l \
                 WHERE NOT EXISTS (SELECT FROM punctual.queue q WHERE q.name = l.queue)";
    let unset = number(session, unset)?;
    if unset > 0 {
        let message = format!("{unset} lines are of queues that do not exist: they stand still");
        findings.push(Finding::error("lines", message));
    }
    let all = number(session, "SELECT count(*) FROM punctual.line")?;
    if all > MANY_LINES {
        let message = format!("every look for jobs searches {all} lines");
        findings.push(Finding::warning("lines", message));
    }
    Ok(findings)
}

fn unreadable(session: &mut Session) -> Answer<Vec<Finding>> {
    let mut findings = Vec::new();
    let sql = "SELECT name, definition, next IS NULL AND paused_at IS NULL AND NOT EXISTS (\
               SELECT FROM punctual.job j WHERE j.series = s.name AND j.series IS NOT NULL) FROM punctual.schedule s";
    for row in session.query(sql, &[])? {
        let name: &str = row.get(0);
        match serde_json::from_str::<NewSchedule>(row.get(1)) {
            Ok(schedule) if row.get(2) && matches!(schedule.cadence, Cadence::Delay(_)) => {
                findings.push(Finding::stands_still(name));
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("the schedule {name:?} cannot be read: {error}");
                findings.push(Finding::error("schedules", message));
            }
        }
    }
    for row in session.query("SELECT id, follow FROM punctual.job WHERE follow IS NOT NULL", &[])? {
        if let Err(error) = serde_json::from_str::<Vec<NewJob>>(row.get(1)) {
            let id: i64 = row.get(0);
            findings.push(Finding::error("chains", format!("what follows job {id} cannot be read: {error}")));
        }
    }
    findings.truncate(MOST);
    Ok(findings)
}

/// Whoever keeps the server from cleaning up. Nodes bear it, tables grow.
fn snapshots(session: &mut Session) -> Answer<Vec<Finding>> {
    let sql = "SELECT pid, coalesce(usename, '?'), coalesce(application_name, ''), \
               extract(epoch FROM clock_timestamp() - xact_start)::bigint FROM pg_stat_activity \
               WHERE datname = current_database() AND backend_xmin IS NOT NULL \
               AND xact_start < clock_timestamp() - interval '10 minutes' ORDER BY xact_start LIMIT 3";
    let finding = |row: &postgres::Row| {
        let (pid, user, program): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let message = format!(
            "process {pid} of {user} ({program:?}) has held a snapshot for {} seconds: nothing is cleaned up",
            row.get::<_, i64>(3)
        );
        Finding::warning("held snapshot", message)
    };
    Ok(session.query(sql, &[])?.iter().map(finding).collect())
}

fn durability(session: &mut Session) -> Answer<Option<Finding>> {
    let fsync = session.one("SELECT current_setting('fsync')", &[])?;
    let off = fsync.get::<_, &str>(0) == "off";
    let message =
        "the server does not wait for its disk (fsync is off): what it accepted may be lost with the power";
    Ok(off.then(|| Finding::info("durability", message)))
}
