//! What may be wrong with a database.

use std::time::Duration;

use super::session::{Answer, Session};
use super::{rows, schema};
use crate::doctor::Finding;
use crate::job::NewJob;
use crate::schedule::{Cadence, NewSchedule};

/// Lines beyond which looking for jobs gets slow.
const MANY_LINES: i64 = 10_000;
/// Findings of one sort that are told one by one.
const MOST: usize = 10;

/// A snapshot that is held for longer is worth telling.
const LONG: Duration = Duration::from_secs(600);

/// Everything that can be checked.
pub(super) fn all(session: &mut Session, given: Option<i64>) -> Answer<Vec<Finding>> {
    session.transaction(|session| {
        // However large the tables are.
        session.batch("SET LOCAL statement_timeout = 0")?;
        let missing = schema::missing(session)?;
        let mut findings: Vec<Finding> = missing.iter().take(MOST).map(lacks).collect();
        // The rest asks for these.
        if !missing.iter().any(|name| name.starts_with("table") || name.starts_with("function")) {
            findings.extend(contents(session, given)?);
        }
        findings.extend(snapshots(session, LONG)?);
        findings.extend(durability(session)?);
        Ok(findings)
    })
}

fn lacks(name: &&'static str) -> Finding {
    let or_off =
        if name.starts_with("trigger") || name.starts_with("index") { ", or not in use" } else { "" };
    Finding::error("schema", format!("the {name} is missing{or_off}"))
}

fn contents(session: &mut Session, given: Option<i64>) -> Answer<Vec<Finding>> {
    // Whoever wants to know what is wrong compares times, too.
    session.ask_time()?;
    let mut findings = tables(session)?;
    findings.extend(claims(session, given)?);
    findings.extend(lines(session)?);
    findings.extend(unreadable(session)?);
    Ok(findings)
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
fn snapshots(session: &mut Session, long: Duration) -> Answer<Vec<Finding>> {
    let sql = "SELECT pid, coalesce(usename, '?'), coalesce(application_name, ''), \
               extract(epoch FROM clock_timestamp() - xact_start)::bigint FROM pg_stat_activity \
               WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid() \
               AND backend_type <> 'autovacuum worker' \
               AND xact_start < clock_timestamp() - $1 * interval '1 microsecond' ORDER BY xact_start LIMIT 3";
    let finding = |row: &postgres::Row| {
        let (pid, user, program): (i32, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let message = format!(
            "process {pid} of {user} ({program:?}) has held a snapshot for {} seconds: nothing is cleaned up",
            row.get::<_, i64>(3)
        );
        Finding::warning("held snapshot", message)
    };
    #[expect(clippy::cast_precision_loss, reason = "the server counts so")]
    let long = rows::micros(long) as f64;
    Ok(session.query(sql, &[&long])?.iter().map(finding).collect())
}

/// What may be lost or torn with the power. Sessions of ours wait for the disk, but only if the server does.
fn durability(session: &mut Session) -> Answer<Vec<Finding>> {
    let settings = session
        .one("SELECT current_setting('fsync') = 'off', current_setting('full_page_writes') = 'off'", &[])?;
    let dangers = [
        "the server does not wait for its disk (fsync is off): what it accepted may be lost with the power",
        "the server cannot mend torn pages (full_page_writes is off): the tables may be damaged with the power",
    ];
    let off = dangers.into_iter().enumerate().filter(|(place, _)| settings.get(*place));
    Ok(off.map(|(_, danger)| Finding::warning("durability", danger)).collect())
}

#[cfg(test)]
mod tests {
    use punctual_testbed::Postgres;

    use super::*;
    use crate::PostgresStore;

    /// A minute of patience would be one in the test, too.
    #[test]
    fn whoever_holds_a_snapshot_for_long_is_told() {
        let url = Postgres::shared().fresh_database();
        let store = PostgresStore::open(&url).unwrap();
        let told = |long| store.read(move |session| snapshots(session, long)).unwrap();
        assert_eq!(told(Duration::ZERO), []);
        let mut holder = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        let hold = "SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
        holder.batch_execute(hold).unwrap();
        let said = told(Duration::ZERO);
        assert_eq!((said.len(), said[0].check), (1, "held snapshot"), "{said:?}");
        assert!(
            said[0].message.contains("of punctual (\"report\") has held a snapshot for 0 seconds"),
            "{said:?}"
        );
        assert_eq!(told(LONG), [], "not yet for long");
        holder.batch_execute("COMMIT").unwrap();
        assert_eq!(told(Duration::ZERO), []);
        drop((holder, store));
        Postgres::shared().drop_database(&url);
    }
}
