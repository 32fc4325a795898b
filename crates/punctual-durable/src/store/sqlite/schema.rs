//! How a file is opened, and how its tables come to be what this version expects.
//!
//! Migrations are numbered from 1, applied in order, each file with all that lack in one transaction under SQLite's
//! write lock: of several processes that open a file at once one applies them, and the others find them applied. A
//! file from a later version is refused before anything is touched.
//!
//! There is no script to run by hand: whoever may write to a file may make tables in it, too.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::{Sql, failed};
use crate::error::{Error, Result};

const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_jobs.sql")];

/// The version that this program knows.
pub(super) fn known() -> usize {
    MIGRATIONS.len()
}

/// What is missing of all that the migrations make: its sort and its name.
pub(super) fn missing(connection: &Connection) -> Sql<Vec<(String, String)>> {
    let ideal = Connection::open_in_memory()?;
    MIGRATIONS.iter().try_for_each(|migration| ideal.execute_batch(migration))?;
    let found = names(connection)?;
    Ok(names(&ideal)?.into_iter().filter(|name| !found.contains(name)).collect())
}

fn names(connection: &Connection) -> Sql<Vec<(String, String)>> {
    let mut statement = connection
        .prepare("SELECT type, name FROM sqlite_schema WHERE name LIKE 'punctual%' ORDER BY name")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// How often a statement asks for a lock that another process has, and how long it waits in between.
///
/// SQLite itself waits longer each time, up to 100 ms: a process that writes now and then would hardly ever ask in the
/// moment between two commits of a node that has much to do.
const BUSY: (i32, Duration) = (5_000, Duration::from_millis(1));

/// Whether to ask again.
fn wait_for_others(asked: i32) -> bool {
    std::thread::park_timeout(BUSY.1);
    asked < BUSY.0
}

/// Opens a connection that writes, and brings the tables up to date.
pub(super) fn open(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // SQLite opens what it may only read for reading, and would fail at the first write.
    if connection.is_readonly(rusqlite::MAIN_DB).map_err(|error| failed("cannot open", path, error))? {
        return Err(Error::invalid(format!(
            "cannot open {}: it may be read, but not written",
            path.display()
        )));
    }
    switch_to_wal(&connection, path)?;
    migrate(&connection, path)?;
    Ok(connection)
}

/// Opens another connection to a file that has been opened before, for reading.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true).map_err(|e| failed("cannot read", path, e))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let cannot = |error| failed("cannot open", path, error);
    let mut connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(cannot)?;
    connection.busy_handler(Some(wait_for_others)).map_err(cannot)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A commit is on the disk when it returns, also if the power goes the next moment.
    connection.pragma_update(None, "synchronous", "FULL").map_err(cannot)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(cannot)?;
    connection.pragma_update(None, "cache_size", -16_000).map_err(cannot)?;
    Ok(connection)
}

/// Readers then never wait for the writer, nor it for them. The file remembers it.
fn switch_to_wal(connection: &Connection, path: &Path) -> Result<()> {
    let cannot = |error| failed("cannot use", path, error);
    let mode = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    if mode("PRAGMA journal_mode").map_err(cannot)? == "wal" {
        return Ok(());
    }
    // The switch does not wait for others as statements do, so it is tried again while they do the same.
    let mut tries = 0;
    loop {
        match mode("PRAGMA journal_mode = WAL") {
            Ok(now) if now == "wal" => return Ok(()),
            Ok(now) => {
                return Err(Error::broken(format!(
                    "{} cannot have a write-ahead log: its journal mode stays {now:?}",
                    path.display()
                )));
            }
            Err(error) if failed("", path, error_copy(&error)).is_transient() && tries < 500 => {
                tries += 1;
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Err(error) => return Err(cannot(error)),
        }
    }
}

fn error_copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(*code, message.clone())
        }
        _ => rusqlite::Error::InvalidQuery,
    }
}

fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    if version(connection, path)? == MIGRATIONS.len() {
        return Ok(());
    }
    let cannot = |error| failed("cannot create the tables in", path, error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(cannot)?;
    let applied = version(connection, path).and_then(|have| {
        for migration in MIGRATIONS.iter().skip(have) {
            connection.execute_batch(migration).map_err(cannot)?;
        }
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        connection
            .execute("INSERT OR REPLACE INTO punctual_meta (name, value) VALUES ('schema', ?1)", [known])
            .map_err(cannot)?;
        connection.execute_batch("COMMIT").map_err(cannot)
    });
    if applied.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").map_err(cannot)?;
    }
    applied
}

/// How many migrations have been applied.
fn version(connection: &Connection, path: &Path) -> Result<usize> {
    let cannot = |error| failed("cannot read", path, error);
    let exists = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'punctual_meta'";
    if connection.query_row(exists, [], |row| row.get::<_, i64>(0)).map_err(cannot)? == 0 {
        return Ok(0);
    }
    let found = "SELECT value FROM punctual_meta WHERE name = 'schema'";
    let found: i64 = connection.query_row(found, [], |row| row.get(0)).map_err(cannot)?;
    match usize::try_from(found) {
        Ok(found) if found <= MIGRATIONS.len() => Ok(found),
        _ => Err(Error::broken(format!(
            "{} has tables of version {found}, and this program knows them up to version {}",
            path.display(),
            MIGRATIONS.len()
        ))),
    }
}
