//! How the tables come to be what this version expects.
//!
//! Migrations are numbered from 1 and applied in order, those that lack in one transaction, under an advisory lock: of
//! several programs that open a database at once one applies them, and the others find them applied. A database from a
//! later version is refused before anything is touched. Who does not let programs change tables runs
//! [`PostgresStore::migrations`](super::PostgresStore::migrations) by hand.

use postgres::error::SqlState;

use super::session::{Answer, Fault, Session};
use super::timeline;
use crate::error::Error;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tables.sql"),
    include_str!("migrations/0002_functions.sql"),
    include_str!("migrations/0003_for_everybody.sql"),
];

/// The oldest server that has what we need.
const OLDEST: i32 = 140_000;

/// Held while migrations are applied: "punctual" in ASCII.
const LOCK: i64 = 0x70_75_6e_63_74_75_61_6c;

/// The version that this program knows.
pub(super) fn known() -> usize {
    MIGRATIONS.len()
}

/// All migrations, as one script.
pub(super) fn script() -> String {
    let mut script = "BEGIN;\n".to_owned();
    for migration in MIGRATIONS {
        script += migration;
        script += "\n";
    }
    script + &remember() + ";\nCOMMIT;\n"
}

fn remember() -> String {
    let version = MIGRATIONS.len();
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
        // Of others that do the same, however long it takes them.
        session.batch(&format!("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})"))?;
        for migration in MIGRATIONS.iter().skip(version(session)?) {
            session.batch(migration).map_err(|fault| not_allowed(fault, name))?;
        }
        session.batch(&remember())
    })
}

fn not_allowed(fault: Fault, name: &str) -> Fault {
    match fault {
        Fault::Sql(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Error::invalid(format!(
                "the tables in {name} are not up to date, and this user may not change them: \
             let somebody who may run what PostgresStore::migrations() says"
            ))
            .with_source(error)
            .into()
        }
        other => other,
    }
}

/// How many migrations have been applied.
pub(super) fn version(session: &mut Session) -> Answer<usize> {
    // In the catalogue itself: what a session remembers of names may be from before the lock was taken.
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                  ON n.oid = c.relnamespace WHERE n.nspname = 'punctual' AND c.relname = 'meta')";
    if !session.one(exists, &[])?.get::<_, bool>(0) {
        return Ok(0);
    }
    let found = session.query_once("SELECT value FROM punctual.meta WHERE name = 'schema'", &[])?;
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
