//! How the tables come to be what this version expects.
//!
//! Migrations are numbered from 1 and applied in order, those that lack in one transaction, under an advisory lock: of
//! several programs that open a database at once one applies them, and the others find them applied. A database from a
//! later version is refused before anything is touched.
//!
//! # By hand
//! Who does not let programs change tables runs what [`PostgresStore::migrations_from`](super::PostgresStore) says: the
//! same migrations, under the same lock, in one transaction, too. It begins with the question whether the tables have the
//! version that it is for, and comes to nothing if they have not. Programs then need no more than what [`grants`] says.

use std::collections::BTreeSet;

use postgres::error::SqlState;

use super::session::{Answer, Fault, Session};
use super::timeline;
use crate::error::Error;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tables.sql"),
    include_str!("migrations/0002_functions.sql"),
    include_str!("migrations/0003_for_everybody.sql"),
];

/// Everything that is there when all migrations have been applied, a line for each.
const NAMES: &str = include_str!("migrations/names.txt");

/// What of it is there, and in use: not indexes that were never finished, nor triggers that are switched off.
const FOUND: &str = "
    SELECT CASE c.relkind WHEN 'r' THEN 'table ' WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'index ' END
        || c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE n.nspname = 'punctual' AND c.relkind IN ('r', 'v', 'S', 'i') AND coalesce(i.indisvalid, true)
    UNION
    SELECT 'function ' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'punctual'
    UNION
    SELECT 'trigger ' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'punctual' AND NOT t.tgisinternal AND t.tgenabled <> 'D'";

/// The oldest server that has what we need.
const OLDEST: i32 = 140_000;

/// Waits for others who apply migrations, however long it takes them.
const ALONE: &str = concat!(
    "SET LOCAL lock_timeout = 0;\n",
    "SET LOCAL statement_timeout = 0;\n",
    // "punctual" in ASCII.
    "SELECT pg_advisory_xact_lock(x'70756e637475616c'::bigint)"
);

/// The version that this program knows.
pub(super) fn known() -> usize {
    MIGRATIONS.len()
}

/// What is missing of all that there should be: its sort and its name.
pub(super) fn missing(session: &mut Session) -> Answer<Vec<&'static str>> {
    let found: BTreeSet<String> = session.query(FOUND, &[])?.iter().map(|row| row.get(0)).collect();
    Ok(NAMES.lines().filter(|name| !found.contains(*name)).collect())
}

/// The migrations that lead from one version to another, as a script. It fails, and changes nothing, where the tables have
/// any other version than `from`.
pub(super) fn script(from: usize, to: usize) -> String {
    let mut script = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;\n{ALONE};\n\
         DO $guard$\n\
         DECLARE\n    found bigint := 0;\n\
         BEGIN\n    \
             IF to_regclass('punctual.meta') IS NOT NULL THEN\n        \
                 found := coalesce((SELECT value FROM punctual.meta WHERE name = 'schema'), 0);\n    \
             END IF;\n    \
             IF found <> {from} THEN\n        \
                 RAISE EXCEPTION 'the tables have version %, and this script leads from version {from} to {to}', found\n            \
                     USING ERRCODE = 'object_not_in_prerequisite_state';\n    \
             END IF;\n\
         END $guard$;\n"
    );
    for (number, migration) in (1..).zip(MIGRATIONS).take(to).skip(from) {
        script += &format!("\n-- Version {number}\n\n{migration}\n{};\n", remember(number));
    }
    script + "COMMIT;\n"
}

/// What a role must be allowed to run nodes, and to enqueue by SQL.
pub(super) fn grants(role: &str) -> String {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    format!(
        "GRANT USAGE ON SCHEMA punctual TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA punctual TO {role};\n\
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA punctual TO {role};\n\
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA punctual TO {role};\n"
    )
}

fn remember(version: usize) -> String {
    format!(
        "INSERT INTO punctual.meta (name, value) VALUES ('schema', {version}) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
}

/// Brings the database up to date, or says why not.
pub(super) fn open(session: &mut Session) -> Answer<()> {
    let facts = "SELECT current_setting('server_version_num')::integer, current_setting('server_version'), \
                 current_setting('server_encoding')";
    let facts = session.one(facts, &[])?;
    let name = session.server.address.name.clone();
    if facts.get::<_, i32>(0) < OLDEST {
        let version: &str = facts.get(1);
        return Err(
            Error::broken(format!("{name} is PostgreSQL {version}, and 14 or later is needed")).into()
        );
    }
    let encoding: &str = facts.get(2);
    if encoding != "UTF8" {
        return Err(Error::broken(format!("{name} has the encoding {encoding}, and UTF8 is needed")).into());
    }
    if version(session)? < MIGRATIONS.len() {
        migrate(session, &name)?;
    }
    timeline::begin(session)
}

fn migrate(session: &mut Session, name: &str) -> Answer<()> {
    session.transaction(|session| {
        session.batch(ALONE)?;
        let have = version(session)?;
        for (number, migration) in (1..).zip(MIGRATIONS).skip(have) {
            session.batch(migration).map_err(|fault| not_allowed(fault, name, have))?;
            session.batch(&remember(number))?;
        }
        Ok(())
    })
}

fn not_allowed(fault: Fault, name: &str, have: usize) -> Fault {
    explain(fault, || {
        format!(
            "the tables in {name} are not up to date, and this user may not change them: \
             let somebody who may run what PostgresStore::migrations_from({have}) says"
        )
    })
}

/// Says what to do about it if something is not allowed.
fn explain(fault: Fault, what: impl FnOnce() -> String) -> Fault {
    match fault {
        Fault::Sql(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Error::invalid(what()).with_source(error).into()
        }
        other => other,
    }
}

fn not_granted(fault: Fault, name: &str) -> Fault {
    explain(fault, || {
        format!(
            "this user may not use the tables in {name}: \
             let somebody who may run what PostgresStore::grants() says"
        )
    })
}

/// How many migrations have been applied.
pub(super) fn version(session: &mut Session) -> Answer<usize> {
    // In the catalogue itself: what a session remembers of names may be from before the lock was taken.
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                  ON n.oid = c.relnamespace WHERE n.nspname = 'punctual' AND c.relname = 'meta')";
    if !session.one(exists, &[])?.get::<_, bool>(0) {
        return Ok(0);
    }
    let found = session.query_once("SELECT value FROM punctual.meta WHERE name = 'schema'", &[]);
    let found = found.map_err(|fault| not_granted(fault, &session.server.address.name))?;
    let found: i64 = found.first().map_or(0, |row| row.get(0));
    match usize::try_from(found) {
        Ok(found) if found <= MIGRATIONS.len() => Ok(found),
        _ => Err(Error::broken(format!(
            "{} has tables of version {found}, and this program knows them up to version {}",
            session.server.address.name,
            MIGRATIONS.len()
        ))
        .into()),
    }
}

#[cfg(test)]
mod tests;
