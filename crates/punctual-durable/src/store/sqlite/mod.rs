//! Jobs in one file.
//!
//! SQLite with a write-ahead log, synchronised to the disk at every commit: what was acknowledged is there after
//! `kill -9` and after a power cut. Any number of processes may have the file open, to enqueue, cancel and look; one
//! node at a time claims from it.
//!
//! # Threads and connections
//! One thread writes, see `writer.rs`; calls that read take one of a few further connections, and never wait for the
//! writer. Other processes are kept apart by SQLite's own lock.
//!
//! # Ownership
//! See `owner.rs`. [`renew`](Store::renew) answers `Active` to the node that has the file and `Standby` to every
//! other. The lease that a node asks for does not matter: the system knows whether its process lives.
//!
//! # News
//! A node hears of what its own process enqueues directly, and of what others do through a bell, see `bell.rs`; through
//! the same, others hear of the end of jobs that they wait for.
//!
//! # Cost
//! A look and a sweep cost a search in an index for each line, that is for each (queue, kind, lane) that jobs have ever
//! been in: hundreds are nothing, a queue for each of a hundred thousand customers is not what queues are for. A claim
//! is two statements, a completion one.
//!
//! # Paths not taken
//! *A table of finished jobs:* moving a row is a delete and an insert where an update does; the living are told from
//! the dead by partial indexes. *Asynchronous commits:* they would lose the last jobs in a power cut, silently.

mod bell;
mod check;
mod import;
mod journal;
mod lines;
mod owner;
mod reports;
mod rows;
mod schema;
mod series;
mod tally;
mod writer;
mod writes;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use self::lines::{Lines, Waiting};
use self::owner::Ownership;
use self::rows::{instant, int, maybe_instant, maybe_int, text};
use self::writer::Writer;
use self::writes::Write;
use super::density::Counting;
use super::{
    Cancelling, Density, Enqueued, Exchange, Exchanged, Filter, LineRecord, Moved, News, NodeRecord, Peek,
    Peeked, QueueChange, QueueRecord, Renewal, Rescued, Saved, ScheduleChange, Store, Tenure, Ticket,
};
use crate::context::JobContext;
use crate::doctor::Finding;
use crate::error::{Error, Result};
use crate::job::{Due, Failure, Fence, JobId, JobRecord, NewJob, NodeId, StoreId, check_name};
use crate::journal::JobLog;
use crate::schedule::{Firing, NewSchedule, ScheduleRecord};
use crate::tally::{ErrorTally, RunTally};
use crate::time::{SystemTimeSource, TimeSource, Timestamp};
use crate::transfer::{Cargo, Imported};

/// What SQLite answers.
type Sql<T> = rusqlite::Result<T>;

/// Connections kept for the next reader.
const READERS: usize = 4;

/// Jobs in a file. See [`Store`], and the essay at the top of `store/sqlite/mod.rs`.
///
/// ```
/// use punctual_durable::{NewJob, SqliteStore, Store};
///
/// let folder = std::env::temp_dir().join(format!("punctual-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let id = {
///     let store = SqliteStore::open(folder.join("jobs.db"))?;
///     store.enqueue(vec![NewJob::new("mail", "{}")])?[0].id()
/// };
/// let store = SqliteStore::open(folder.join("jobs.db"))?;
/// assert_eq!(store.job(id)?.unwrap().kind, "mail");
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    path: Arc<Path>,
    time: Arc<dyn TimeSource>,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    ownership: Ownership,
}

impl SqliteStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// If it cannot be opened, is not a database, or was made by a later version of this crate.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        Self::open_with_time(path, SystemTimeSource)
    }

    /// As [`open`](Self::open), on another time of day, such as a [`ManualClock`](punctual::ManualClock).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_time(path: impl Into<PathBuf>, time: impl TimeSource) -> Result<Self> {
        let path = path.into();
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(Error::invalid(format!("{:?} is not the name of a file", path.display())));
        }
        let connection = schema::open(&path)?;
        // One file, one lock beside it, by whatever name and from whatever folder it is opened.
        let path: Arc<Path> = std::fs::canonicalize(&path)
            .map_err(|error| {
                Error::invalid(format!("cannot find {} again", path.display())).with_source(error)
            })?
            .into();
        let writer = Writer::start(connection, &path)?;
        let (readers, ownership) = (Mutex::default(), Ownership::of(&path));
        Ok(Self { path, time: Arc::new(time), writer, readers, ownership })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts jobs in a transaction of the caller's, on a connection of the caller's to the same file: they are kept
    /// if and only if it commits, together with whatever else it did.
    ///
    /// Nodes in this and other processes find them when they next look; [`Client::look`](crate::Client::look) after the
    /// commit makes that now.
    ///
    /// ```
    /// # use punctual_durable::{NewJob, SqliteStore, Store};
    /// # let folder = std::env::temp_dir().join(format!("punctual-doc-tx-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("shop.db");
    /// let store = SqliteStore::open(&path)?;
    /// let mut mine = rusqlite::Connection::open(&path)?;
    /// mine.execute_batch("CREATE TABLE sale (customer INTEGER)")?;
    ///
    /// let transaction = mine.transaction()?;
    /// transaction.execute("INSERT INTO sale (customer) VALUES (7)", [])?;
    /// let accepted = store.enqueue_in(&transaction, vec![NewJob::new("send-invoice", "7")])?;
    /// assert_eq!(store.job(accepted[0].id())?, None, "not yet");
    /// transaction.commit()?; // both, or neither
    /// assert_eq!(store.job(accepted[0].id())?.unwrap().kind, "send-invoice");
    /// # drop((store, mine));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`enqueue`](Store::enqueue); and if the connection is to another file or has no transaction open. None of the
    /// jobs is accepted then, and the transaction goes on.
    pub fn enqueue_in(&self, transaction: &Connection, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        self.check_transaction(transaction)?;
        let cannot = |error| failed("cannot write to", &self.path, error);
        transaction.execute_batch("SAVEPOINT punctual_enqueue").map_err(cannot)?;
        let write = Write { connection: transaction, path: &self.path, now: self.now() };
        let accepted = write.enqueue(jobs);
        if accepted.is_err() && !transaction.is_autocommit() {
            transaction.execute_batch("ROLLBACK TO punctual_enqueue").map_err(cannot)?;
        }
        if !transaction.is_autocommit() {
            transaction.execute_batch("RELEASE punctual_enqueue").map_err(cannot)?;
        }
        accepted
    }

    /// Completes a job in a transaction of its handler, on a connection of the caller's to the same file: once that is
    /// committed the job is done, and whatever else the transaction did has happened **exactly once**. Whatever the handler
    /// answers after that, and whatever becomes of it and its node, it is not called again.
    ///
    /// ```
    /// # use punctual_durable::{Done, JobContext, Jobs, SqliteStore, Store};
    /// # use std::{path::PathBuf, sync::Arc};
    /// # let folder = std::env::temp_dir().join(format!("punctual-doc-once-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path: PathBuf = folder.join("shop.db");
    /// let store = Arc::new(SqliteStore::open(&path)?);
    /// let mine = rusqlite::Connection::open(&path)?;
    /// mine.execute_batch("CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)")?;
    /// let (file, completes) = (path.clone(), store.clone());
    /// let jobs = Jobs::on(store)
    ///     .handle("book", move |amount: i64, cx: &JobContext| {
    ///         let mut mine = rusqlite::Connection::open(&file)?;
    ///         let transaction = mine.transaction()?;
    ///         transaction.execute("UPDATE account SET balance = balance + ?1", [amount])?;
    ///         completes.complete_in(&transaction, cx)?;
    ///         transaction.commit()?; // both, or neither
    ///         Err("what happens now does not matter any more".into())
    ///     })
    ///     .start()?;
    /// let id = jobs.enqueue(7_i64).send()?.id();
    /// assert_eq!(jobs.outcome(id).join()?.state, punctual_durable::JobState::Done);
    /// let balance: i64 = mine.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    /// assert_eq!(balance, 7);
    /// # drop((jobs, mine));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What was to follow it by [`JobContext::then`] is kept with it, and follows even if its node dies now. If the
    /// transaction is rolled back, all is as before: the job may be completed in another one, or reported as usual.
    ///
    /// # Errors
    /// A [conflict](Error::is_conflict) if somebody else holds the job by now, or it is over or has been completed before:
    /// then the transaction must not be committed. Or if the connection is to another file or has no transaction open.
    pub fn complete_in(&self, transaction: &Connection, job: &JobContext) -> Result<()> {
        self.check_transaction(transaction)?;
        let (id, fence, owner) = job.holding();
        let complete = || -> Sql<bool> {
            let sql = "UPDATE punctual_job SET complete = ?2, asked = ?4 WHERE id = ?1 AND fence = ?2 AND owner = ?3 \
                       AND state = 1 AND complete IS NOT ?2";
            Ok(transaction.execute(sql, (id, fence, owner, rows::chain_text(&job.seal())?))? == 1)
        };
        if complete().map_err(|error| failed("cannot write to", &self.path, error))? {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "job {id} is not held under fence {fence} any more, or has been completed"
        )))
    }

    /// Whether it is one, on our file.
    fn check_transaction(&self, transaction: &Connection) -> Result<()> {
        let theirs = transaction.path().map(std::fs::canonicalize).and_then(std::result::Result::ok);
        if theirs.as_deref() != Some(&*self.path) {
            let theirs = transaction.path().unwrap_or("memory");
            return Err(Error::invalid(format!(
                "a connection to {theirs:?} is none to {}",
                self.path.display()
            )));
        }
        if transaction.is_autocommit() {
            return Err(Error::invalid("the connection has no transaction open"));
        }
        Ok(())
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (path, time) = (Arc::clone(&self.path), Arc::clone(&self.time));
        self.writer.call(move |connection| work(&Write { connection, path: &path, now: time.timestamp() }))
    }

    /// As [`write`](Self::write), for what a node in another process may be waiting for.
    fn write_news<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let result = self.write(work)?;
        self.ownership.tell(&News::Jobs);
        Ok(result)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Sql<T>) -> Result<T> {
        let lock = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let connection = idle.map_or_else(|| schema::open_reader(&self.path), Ok)?;
        let result = work(&connection).map_err(|error| failed("cannot read", &self.path, error));
        let mut readers = lock();
        if readers.len() < READERS {
            readers.push(connection);
        }
        result
    }
}

impl SqliteStore {
    /// A look costs nothing to those who write.
    fn has_orphans(&self, node: NodeId) -> Result<bool> {
        self.read(|connection| {
            let sql = "SELECT 1 FROM punctual_job INDEXED BY punctual_job_claimed \
                       WHERE state = 1 AND owner IS NOT ?1 LIMIT 1";
            connection.prepare_cached(sql)?.exists([node.as_i64()])
        })
    }
}

/// Says what could not be done with which file, and whether to try again.
fn failed(what: &str, path: &Path, error: rusqlite::Error) -> Error {
    let message = format!("{what} {}", path.display());
    let ours = match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::ReadOnly,
        ) => Error::transient(message),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Error::invalid(message),
        _ => Error::broken(message),
    };
    ours.with_source(error)
}

impl Store for SqliteStore {
    fn now(&self) -> Timestamp {
        self.time.timestamp()
    }

    fn tell_news(&self, news: News) {
        self.ownership.tell(&news);
    }

    fn on_news(&self, hear: Arc<dyn Fn(&News) -> bool + Send + Sync>) {
        self.ownership.listen(hear);
    }

    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let news = News::of(&jobs);
        let accepted = self.write(|write| write.enqueue(jobs))?;
        self.ownership.tell(&news(&accepted));
        Ok(accepted)
    }

    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        self.write(|write| write.cancel(ids))
    }

    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        self.write_news(move |write| write.reschedule(id, due))
    }

    fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        self.write_news(move |write| write.retry(id, due))
    }

    fn purge(&self, ids: Vec<JobId>) -> Result<usize> {
        self.write(move |write| write.purge(&ids))
    }

    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        self.write(move |write| write.trim(before, most))
    }

    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        check_name("queue", queue, NewJob::MAX_NAME)?;
        let queue = queue.to_owned();
        self.write_news(move |write| write.set_queue(&queue, &change))
    }

    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        schedule.check()?;
        self.write_news(|write| write.save_schedule(schedule))
    }

    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        let name = name.to_owned();
        self.write_news(move |write| write.set_schedule(&name, change))
    }

    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.read(series::list)
    }

    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        self.read(|connection| series::due(connection, kinds, until))
    }

    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        self.write(|write| write.fire(firings))
    }

    fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.read(|connection| rows::find(connection, id))
    }

    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        let (sql, values) = query(filter);
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map(params_from_iter(values), rows::read)?.collect()
        })
    }

    fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        self.read(|connection| {
            let sql =
                "SELECT fence, attempt, at, message FROM punctual_failure WHERE job = ?1 ORDER BY fence";
            let mut statement = connection.prepare_cached(sql)?;
            let failures = statement.query_map([id.as_i64()], |row| {
                let (fence, at) = (Fence::from_i64(int(row, 0)?), instant(row, 2)?);
                let attempt = u32::try_from(int(row, 1)?).unwrap_or(0);
                Ok(Failure::new(fence, attempt, at, text(row.get_ref(3)?).unwrap_or_default()))
            })?;
            failures.collect()
        })
    }

    fn log(&self, id: JobId) -> Result<JobLog> {
        self.read(|connection| journal::read(connection, id))
    }

    fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.read(|connection| {
            let sql = "SELECT name, paused_at, paused_for, most FROM punctual_queue ORDER BY name";
            let mut statement = connection.prepare_cached(sql)?;
            let queues = statement.query_map([], |row| {
                let reason = text(row.get_ref(2)?).unwrap_or_default();
                let paused = maybe_instant(row, 1)?.map(|since| (since, reason));
                let limit = maybe_int(row, 3)?.map(|most| u32::try_from(most.max(0)).unwrap_or(u32::MAX));
                Ok(QueueRecord { name: text(row.get_ref(0)?).unwrap_or_default(), paused, limit })
            })?;
            queues.collect()
        })
    }

    fn lines(&self) -> Result<Vec<LineRecord>> {
        self.read(lines::all)
    }

    fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let owner = self.ownership.holder();
        self.read(|connection| lines::nodes(connection, owner))
    }

    fn upcoming(&self, from: Timestamp, width: Duration, steps: usize, most: usize) -> Result<Density> {
        self.read(|connection| {
            let counting = Counting::new(from, width, steps, most);
            lines::upcoming(connection, &Density::windows(from, width, steps), counting)
        })
    }

    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<RunTally>> {
        self.read(|connection| tally::runs(connection, from, until)).map(RunTally::sum)
    }

    fn errors(&self, since: Timestamp) -> Result<Vec<ErrorTally>> {
        self.read(|connection| tally::errors(connection, since)).map(ErrorTally::sum)
    }

    fn check(&self) -> Result<Vec<Finding>> {
        let owner = self.ownership.node();
        self.read(|connection| check::all(connection, owner))
    }

    fn identity(&self) -> Result<StoreId> {
        self.read(|connection| {
            let sql = "SELECT value FROM punctual_meta WHERE name = 'store'";
            connection.prepare_cached(sql)?.query_row([], |row| row.get(0).map(StoreId::from_i64))
        })
    }

    fn import(&self, cargo: Cargo) -> Result<Imported> {
        cargo.check()?;
        self.write_news(|write| write.import(cargo))
    }

    fn renew(&self, node: NodeId, _lease: Duration) -> Result<Renewal> {
        if !self.ownership.take(node)? {
            return Ok(Renewal::new(Tenure::Standby, Vec::new()));
        }
        let cancels = self.read(|connection| {
            let sql = "SELECT id FROM punctual_job INDEXED BY punctual_job_claimed \
                       WHERE state = 1 AND cancel = 1 AND owner = ?1 ORDER BY id";
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_map([node.as_i64()], |row| row.get(0).map(JobId::from_i64))?.collect()
        })?;
        Ok(Renewal::new(Tenure::Active, cancels))
    }

    fn leave(&self, node: NodeId) -> Result<()> {
        self.ownership.give_up(node);
        Ok(())
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.read(|connection| {
            // One snapshot for all lines.
            let snapshot = connection.unchecked_transaction()?;
            let lines = Lines::eligible(&snapshot, &peek.kinds)?;
            let mut due = lines.due(&snapshot, peek.after, peek.until, peek.most.saturating_add(1))?.concat();
            due.sort_unstable();
            let next = match due.get(peek.most) {
                Some(job) => Some(job.due),
                None => lines.next(&snapshot, peek.until)?,
            };
            due.truncate(peek.most);
            let ticket = |job: Waiting| {
                let Waiting { id, version, due, .. } = job;
                Ticket { id, version, due, lane: lines.line_of(&job).lane }
            };
            let overdue = match peek.after {
                Some(after) => lines.is_overdue(&snapshot, after)?,
                None => false,
            };
            Ok(Peeked::new(due.into_iter().map(ticket).collect(), next).overdue(overdue))
        })
    }

    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        let may_claim = self.ownership.is(node);
        self.write(move |write| write.exchange(node, &exchange, may_claim))
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        // Whoever has the file is the only one alive.
        if !self.ownership.is(node) || !self.has_orphans(node)? {
            return Ok(Vec::new());
        }
        self.write(move |write| write.rescue(node, most))
    }
}

/// The query of a filter and its values.
fn query(filter: &Filter) -> (String, Vec<Value>) {
    let mut sql =
        format!("SELECT {} FROM punctual_job j JOIN punctual_line l ON l.id = j.line WHERE 1", rows::COLUMNS);
    let mut values = Vec::new();
    let mut and = |condition: &str, value: Value| {
        values.push(value);
        sql += &format!(" AND {condition} ?{}", values.len());
    };
    if let Some(after) = filter.after {
        and("j.id >", after.as_i64().into());
    }
    if let Some(kind) = &filter.kind {
        and("l.kind =", kind.clone().into());
    }
    if let Some(queue) = &filter.queue {
        and("l.queue =", queue.clone().into());
    }
    if let Some(key) = &filter.unique {
        and("j.uniq IS NOT NULL AND j.uniq =", key.clone().into());
    }
    if let Some(parent) = filter.parent {
        and("j.parent IS NOT NULL AND j.parent =", parent.as_i64().into());
    }
    if let Some(state) = filter.state {
        // A number in the text, so that the partial index of the state can be used.
        sql += &format!(" AND j.state = {}", rows::state_number(state));
    }
    values.push(i64::try_from(filter.limit).unwrap_or(i64::MAX).into());
    sql += &format!(" ORDER BY j.id LIMIT ?{}", values.len());
    (sql, values)
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .field("ownership", &self.ownership)
            .finish_non_exhaustive()
    }
}
