//! One connection, and what its errors mean.

use std::collections::{HashMap, HashSet};
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, NoTls, Row, Statement};
use punctual::Tick;

use super::clock::ServerClock;
use super::low::Lows;
use super::tls::Tls;
use super::url::{Address, why};
use crate::error::{Error, Result};
use crate::job::{JobId, JobRecord, NodeId};

/// Where the server is and how to talk to it. Shared by all connections of a store.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    pub(super) tls: Option<Tls>,
    pub(super) clock: ServerClock,
    /// Whether jobs that are done are forgotten at once.
    forgets: AtomicBool,
}

impl Server {
    pub(super) fn new(address: Address) -> Result<Self> {
        let tls = Tls::new(&address.trust)?;
        Ok(Self { address, tls, clock: ServerClock::new(), forgets: AtomicBool::new(false) })
    }

    pub(super) fn forget_done(&self) {
        self.forgets.store(true, Ordering::Relaxed);
    }

    pub(super) fn keeps_done(&self) -> bool {
        !self.forgets.load(Ordering::Relaxed)
    }
}

/// How sessions of ours are set up. Plans must not depend on statistics, which know nothing of a table that was empty a
/// minute ago: everything here is found by an index.
const SET_UP: &str = "
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET statement_timeout = '60s';
    SET idle_in_transaction_session_timeout = '60s';
    SET client_min_messages = 'warning';
    SET plan_cache_mode = 'force_generic_plan';
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
        AND current_setting('fsync') = 'on'";

/// What the row of a node says, and which version of it: by its place and the transaction that wrote it, which no other
/// version has both.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) node: NodeId,
    pub(super) place: String,
    pub(super) wrote: i64,
    pub(super) ids: HashSet<i64>,
}

/// A connection.
pub(super) struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// What the node on this connection knows of lines: forgotten with the connection.
    pub(super) lows: Lows,
    /// Jobs that the node on this connection has claimed, and that have more to them than success.
    pub(super) special: HashSet<JobId>,
    /// The row of the node on this connection, as it was last written here.
    pub(super) holding: Option<Holding>,
    /// When `claim.rs` is worth a try again.
    pub(super) no_claim_before: Tick,
    pub(super) server: Arc<Server>,
}

/// What went wrong in a call: something that the server or the driver says, or something that we do.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(postgres::Error),
    Ours(Error),
}

impl From<postgres::Error> for Fault {
    fn from(error: postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// What calls answer.
pub(super) type Answer<T> = std::result::Result<T, Fault>;

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Session {
    /// `patience`: how long it waits for a lock.
    pub(super) fn connect(server: &Arc<Server>, patience: Duration) -> Result<Self, postgres::Error> {
        let config = postgres::Config::from(server.address.config.clone());
        let mut client = match &server.tls {
            Some(tls) => config.connect(tls.clone())?,
            None => config.connect(NoTls)?,
        };
        client.batch_execute(&format!("{SET_UP}; SET lock_timeout = {}", patience.as_millis()))?;
        Ok(Self {
            client,
            statements: HashMap::new(),
            lows: Lows::default(),
            special: HashSet::new(),
            holding: None,
            no_claim_before: Tick::ZERO,
            server: Arc::clone(server),
        })
    }

    /// These have been claimed here: remembers which of them have more to them than success.
    pub(super) fn mark_special(&mut self, claimed: &[JobRecord]) {
        let special = claimed.iter().filter(|job| job.series.is_some() || !job.then.is_empty());
        self.special.extend(special.map(|job| job.id));
    }

    /// Whether the other side is still there, as far as a short question can tell.
    pub(super) fn answers(&mut self) -> bool {
        self.client.is_valid(Duration::from_secs(5)).is_ok()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Asks what the server's clock shows.
    pub(super) fn ask_time(&mut self) -> Answer<()> {
        let sent = self.server.clock.local();
        let now = self.one("SELECT punctual.clock()", &[])?.get(0);
        self.server.clock.learn(sent, now);
        Ok(())
    }

    /// Runs a statement that is kept prepared.
    pub(super) fn query(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Vec<Row>> {
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.client.prepare(sql)?;
                self.statements.insert(sql, statement.clone());
                statement
            }
        };
        Ok(self.client.query(&statement, params)?)
    }

    /// The same for one that has exactly one row.
    pub(super) fn one(&mut self, sql: &'static str, params: Params<'_>) -> Answer<Row> {
        let rows = self.query(sql, params)?;
        rows.into_iter().next().ok_or_else(|| Error::broken(format!("no answer to {sql:?}")).into())
    }

    /// Runs a statement that is made for this one call.
    pub(super) fn query_once(&mut self, sql: &str, params: Params<'_>) -> Answer<Vec<Row>> {
        Ok(self.client.query(sql, params)?)
    }

    pub(super) fn batch(&mut self, sql: &str) -> Answer<()> {
        Ok(self.client.batch_execute(sql)?)
    }

    /// Runs `work` in a transaction: all of it, or nothing.
    pub(super) fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Answer<T>) -> Answer<T> {
        self.batch("BEGIN")?;
        match work(self) {
            Ok(value) => self.batch("COMMIT").map(|()| value),
            Err(fault) => {
                // A connection that is broken has rolled back, too.
                if !self.is_closed() {
                    let _ = self.client.batch_execute("ROLLBACK");
                }
                Err(fault)
            }
        }
    }
}

impl Fault {
    pub(super) fn is_code(&self, code: &str) -> bool {
        matches!(self, Self::Sql(error) if error.code().is_some_and(|found| found.code() == code))
    }

    /// Whether the server gave up on a transaction only because of others that ran at the same time.
    pub(super) fn is_collision(&self) -> bool {
        self.is_code("40001") || self.is_code("40P01")
    }

    /// Turns it into what callers see; `what` could not be done.
    pub(super) fn tell(self, what: &str, server: &Server) -> Error {
        match self {
            Self::Ours(error) => error,
            Self::Sql(error) => told(what, server, &error),
        }
    }
}

fn told(what: &str, server: &Server, error: &postgres::Error) -> Error {
    let message = format!("{what} {}", server.address.name);
    let Some(database) = error.as_db_error() else {
        // The connection broke; or what was said on it made no sense to the driver.
        let broke = error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
        let ours = if broke { Error::transient(message) } else { Error::broken(message) };
        return ours.with_source(why(error));
    };
    let code = database.code();
    if ["PU001", "PU003"].contains(&code.code()) {
        return Error::conflict(database.message());
    }
    if *code == SqlState::UNIQUE_VIOLATION {
        return Error::conflict(message).with_source(why(error));
    }
    let ours = match &code.code()[..2] {
        "08" | "40" | "53" | "57" | "58" | "25" => Error::transient(message),
        "55" if *code == SqlState::LOCK_NOT_AVAILABLE => Error::transient(message),
        "42" if *code == SqlState::INSUFFICIENT_PRIVILEGE => Error::invalid(message),
        // Text that this database cannot hold.
        "22" if [SqlState::CHARACTER_NOT_IN_REPERTOIRE, SqlState::UNTRANSLATABLE_CHARACTER]
            .contains(code) =>
        {
            Error::invalid(message)
        }
        _ => Error::broken(message),
    };
    ours.with_source(why(error))
}

/// What is wrong when a connection cannot be made. `first`: when the store is opened, a wrong password is the caller's
/// mistake; later, it is something that may pass.
pub(super) fn unreachable(server: &Server, error: &postgres::Error, first: bool) -> Error {
    let message = format!("cannot connect to {}", server.address.name);
    let class = error.code().map(|code| code.code()[..2].to_owned());
    let refused = matches!(class.as_deref(), Some("28" | "3D" | "42"));
    let tls = error.code().is_none() && why(error).contains("certificate") || why(error).contains("TLS");
    let ours = if first && (refused || tls) { Error::invalid(message) } else { Error::transient(message) };
    ours.with_source(why(error))
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("server", &self.server.address).finish_non_exhaustive()
    }
}
