//! Jobs in PostgreSQL, shared by any number of nodes without a leader.
//!
//! # Tables
//! In a schema of their own, `punctual`. `job` has the living, `past` those that are over; `line`, `queue`, `failure` and
//! `schedule` are as in a file, see `sqlite/`. `node` has a row for each life of a process: how long its lease is, and
//! which jobs it holds.
//!
//! # Invariants
//! 1. *Claims are cheap.* No index speaks of what a claim changes, so it is an update in place: neither an index nor another
//!    page is written. Who holds what is in the row of the node, in the same transaction: `held` has every claimed job of
//!    the node, and perhaps more.
//! 2. *Nobody waits for claims.* What another transaction has locked is passed over.
//! 3. *Fences grow.* They are drawn when the rows are locked: whoever locks them later draws a greater one.
//! 4. *One clock.* Everything is compared with the server's time; see `clock.rs` for what [`Store::now`] is.
//! 5. *What was due before is not forgotten,* although nobody looks from the beginning: see `low.rs`.
//!
//! # Several nodes
//! All are active at once. What one has claimed the others do not see; overdue jobs are taken by whoever has room. A queue
//! with a limit is locked by whoever claims from it, so the limit holds over all nodes. A node whose lease is over is
//! dead, unless the server itself was away: then everybody gets one more lease (`rescue.rs`).
//!
//! # Connections and threads
//! One connection for the node, whose calls come one after the other, up to four for everybody else, and one that listens:
//! see `pool.rs`, `bell.rs`.
//!
//! # Cost
//! An exchange is one round trip and one commit. A look and a sweep cost a search in an index for each line. With a
//! snapshot held by somebody else they cost the same: see `low.rs`.
//!
//! # Paths not taken
//! *A table of claimed jobs:* moving a row is a delete and two inserts where an update in place does. *Claiming in the rows
//! that are locked first, without skipping:* nodes would wait for each other's disks. *Advisory locks:* they are gone with
//! the connection, which says nothing of the node. *NOTIFY in a transaction that waits for the disk:* such commits would
//! wait for each other, see `bell.rs`.

mod accept;
mod bell;
mod check;
mod claim;
mod clock;
mod complete;
mod exchange;
mod follow;
mod import;
mod jobs;
mod journal;
mod low;
mod nodes;
mod pool;
mod replace;
mod rescue;
mod rows;
mod schema;
mod series;
mod session;
mod tally;
mod timeline;
mod tls;
mod url;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::accept::{ACCEPT, Columns, LineName, make_lines};
use self::bell::Bell;
use self::pool::{Pool, Repeat};
use self::session::{Answer, Fault, Server, Session};
use self::url::Address;
use super::density::Counting;
use super::{
    Cancelling, Density, Enqueued, Exchange, Exchanged, Filter, LineRecord, Moved, News, NodeRecord, Peek,
    Peeked, QueueChange, QueueRecord, Renewal, Rescued, Saved, ScheduleChange, Store, Ticket,
};
use crate::context::JobContext;
use crate::doctor::Finding;
use crate::error::{Error, Result};
use crate::job::{Due, Failure, JobId, JobRecord, NewJob, NodeId, StoreId, check_name};
use crate::journal::JobLog;
use crate::schedule::{Firing, NewSchedule, ScheduleRecord};
use crate::tally::{ErrorTally, RunTally};
use crate::time::{TimeSource, Timestamp};
use crate::transfer::{Cargo, Imported};

/// Connections for those who are no nodes.
const CONNECTIONS: usize = 4;

/// How long a node waits for a lock, which nobody should hold for long: less than its lease; and how long others do.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(20));

/// Lines that are remembered.
const MOST_LINES: usize = 10_000;

const COMPLETE: &str = "SELECT punctual.complete($1, $2, $3, $4)";

/// Who enqueues something that is due within this time lets others know.
const SOON: Duration = Duration::from_secs(1);

/// Jobs in a PostgreSQL database. See [`Store`], and the essay at the top of `store/postgres/mod.rs`.
///
/// ```no_run
/// use punctual_durable::{NewJob, PostgresStore, Store};
///
/// let store = PostgresStore::open("postgres://me:secret@db.example/shop?sslmode=verify-full")?;
/// let id = store.enqueue(vec![NewJob::new("mail", "{}")])?[0].id();
/// assert_eq!(store.job(id)?.unwrap().kind, "mail");
/// # Ok::<(), punctual_durable::Error>(())
/// ```
///
/// # From other languages
/// Any program can enqueue, cancel and reschedule by SQL, in transactions of its own, and read the view `punctual.jobs`:
///
/// ```sql
/// SELECT punctual.enqueue('send-invoice', '{"customer": 7}', delay => '1 hour', unique_key => 'invoice-7');
/// SELECT punctual.reschedule(4711, now() + interval '5 minutes'), punctual.cancel(4712);
/// SELECT punctual.complete(4713, 65537); -- by its handler, with its fence: see `complete_in`
/// ```
///
/// `punctual.enqueue` also takes `queue`, `lane`, `due` (instead of `delay`), `on_conflict`, `max_attempts`, `max_crashes`,
/// `on_lost` and `timeout`. Nodes are told when such a transaction commits; where very many do so at once,
/// `SET punctual.notify = 'off'` leaves that to the nodes, which look ten times a second.
///
/// # Who may do what
/// Whoever opens a store first makes the tables, in a schema of their own, and owns them. Where programs are not to own
/// tables, somebody else runs [`migrations`](Self::migrations), later [`migrations_from`](Self::migrations_from) the
/// version that is there, and after each [`grants`](Self::grants) for the role of the programs.
pub struct PostgresStore {
    server: Arc<Server>,
    /// Instead of the server's clock, in tests.
    time: Option<Arc<dyn TimeSource>>,
    node: Pool,
    others: Pool,
    bell: Bell,
    /// Lines that exist: those to which callers have enqueued in transactions of their own.
    lines: Mutex<HashSet<LineName>>,
}

impl PostgresStore {
    /// Opens the database that the URL names, and makes or updates the tables there.
    ///
    /// The URL is as for other programs: `postgres://user:password@host:port/database`, with `sslmode` (`disable`, `prefer`,
    /// `require`, `verify-ca`, `verify-full`), `sslrootcert`, `connect_timeout` and the like as parameters. PostgreSQL 14 or
    /// later is needed, and sessions: behind a pooler that gives each transaction another one it does not work.
    ///
    /// # Errors
    /// If the URL makes no sense; the server cannot be reached, does not let us in, or does not show a certificate that is
    /// asked for; or its tables are of a later version of this crate.
    pub fn open(url: &str) -> Result<Self> {
        Self::start(url, None)
    }

    /// As [`open`](Self::open), on another time of day, such as a [`ManualClock`](punctual::ManualClock): for tests. All who
    /// use the same database must use the same.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_time(url: &str, time: impl TimeSource) -> Result<Self> {
        Self::start(url, Some(Arc::new(time)))
    }

    fn start(url: &str, time: Option<Arc<dyn TimeSource>>) -> Result<Self> {
        let server = Arc::new(Server::new(Address::parse(url)?)?);
        let node = Pool::new(Arc::clone(&server), 1, PATIENCE.0);
        let others = Pool::new(Arc::clone(&server), CONNECTIONS, PATIENCE.1);
        let (bell, lines) = (Bell::new(Arc::clone(&server)), Mutex::default());
        let store = Self { server, time, node, others, bell, lines };
        store.others.call("cannot set up", Repeat::Yes, |session| {
            schema::open(session)?;
            session.ask_time()
        })?;
        Ok(store)
    }

    /// From now on, jobs that this store's nodes have done are forgotten at once, as if they had been
    /// [trimmed](Store::trim): the server writes less, about half as much to its log for a job that is claimed and done.
    /// Those that fail are kept.
    ///
    /// A report that is sent again after a broken connection then finds no trace of the job, and is taken for
    /// [heeded before](crate::Recorded::Already).
    #[must_use]
    pub fn forget_done(self) -> Self {
        self.server.forget_done();
        self
    }

    /// The SQL that makes the tables and functions in a database that has none: for those who do not let programs do that.
    /// As [`migrations_from`](Self::migrations_from) of version 0.
    #[must_use]
    pub fn migrations() -> String {
        schema::script(0, schema::known())
    }

    /// The SQL that brings tables of an older version up to date: one transaction, for `psql -v ON_ERROR_STOP=1` or any other
    /// client.
    ///
    /// Which version a database has is in `punctual.meta`, and in what [`open`](Self::open) says when it may not change it:
    ///
    /// ```sql
    /// SELECT value FROM punctual.meta WHERE name = 'schema';
    /// ```
    ///
    /// Whoever applies migrations at the same time, by hand or by opening a store, is waited for. Where the tables have
    /// any other version, the script fails with a message that says which, and nothing has changed; that of the newest
    /// version changes nothing. Roles that are not the owner get no access to what is new: run
    /// [`grants`](Self::grants) again.
    ///
    /// ```
    /// use punctual_durable::PostgresStore;
    ///
    /// let script = PostgresStore::migrations_from(1)?;
    /// assert!(!script.contains("CREATE TABLE punctual.job (")); // version 1 has it
    /// assert!(PostgresStore::migrations_from(99).unwrap_err().is_invalid());
    /// # Ok::<(), punctual_durable::Error>(())
    /// ```
    ///
    /// # Errors
    /// If this program does not know that version.
    pub fn migrations_from(version: usize) -> Result<String> {
        let known = schema::known();
        if version > known {
            let message = format!("there is no version {version} of the tables: the newest is {known}");
            return Err(Error::invalid(message));
        }
        Ok(schema::script(version, known))
    }

    /// The SQL that lets `role` use the tables, and no more: run nodes, and call `punctual.enqueue`, `cancel`,
    /// `reschedule` and `complete`. For those whose programs do not own the tables; to be run by the owner, and again
    /// after each migration.
    ///
    /// The name is quoted, so it must be written as the server has it, as a rule in lower case. The functions act with the
    /// rights of their caller: who may enqueue may write to the tables.
    ///
    /// ```
    /// use punctual_durable::PostgresStore;
    ///
    /// assert!(PostgresStore::grants("shop").contains("GRANT USAGE ON SCHEMA punctual TO \"shop\";"));
    /// ```
    #[must_use]
    pub fn grants(role: &str) -> String {
        schema::grants(role)
    }

    /// Accepts jobs in a transaction of the caller's: they are kept if and only if it commits, together with whatever else
    /// it did.
    ///
    /// Nodes find them when they next look; [`Client::look`](crate::Client::look) after the commit makes that now.
    ///
    /// ```no_run
    /// # use punctual_durable::{NewJob, PostgresStore};
    /// # let url = "postgres://localhost/shop";
    /// let store = PostgresStore::open(url)?;
    /// let mut mine = postgres::Client::connect(url, postgres::NoTls)?;
    ///
    /// let mut transaction = mine.transaction()?;
    /// transaction.execute("INSERT INTO sale (customer) VALUES (7)", &[])?;
    /// store.enqueue_in(&mut transaction, vec![NewJob::new("send-invoice", "7")])?;
    /// transaction.commit()?; // both, or neither
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`enqueue`](Store::enqueue); and if the connection is to a database without the tables. None of the jobs is
    /// accepted then, and the transaction goes on.
    pub fn enqueue_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        let (columns, moment) = (Columns::of(&jobs), self.moment());
        if let Some(lines) = self.new_lines(&columns) {
            let made = lines.clone();
            self.write(move |session| make_lines(session, &lines))?;
            self.remember(made);
        }
        let mut accept = || {
            let mut inner = transaction.savepoint("punctual_enqueue")?;
            let rows = inner.query(ACCEPT, &columns.params(&moment))?;
            inner.commit().map(|()| rows)
        };
        let rows = accept().map_err(|error| self.refused(error))?;
        Ok(columns.answers(&rows))
    }

    /// As [`enqueue_in`](Self::enqueue_in), for the asynchronous driver.
    ///
    /// ```no_run
    /// # use punctual_durable::{NewJob, PostgresStore};
    /// # async fn sell(store: &PostgresStore, mine: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = mine.transaction().await?;
    /// transaction.execute("INSERT INTO sale (customer) VALUES (7)", &[]).await?;
    /// store.enqueue_in_async(&mut transaction, vec![NewJob::new("send-invoice", "7")]).await?;
    /// transaction.commit().await?; // both, or neither
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`enqueue_in`](Self::enqueue_in).
    pub async fn enqueue_in_async(
        &self,
        transaction: &mut tokio_postgres::Transaction<'_>,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        let (columns, moment) = (Columns::of(&jobs), self.moment());
        if let Some(lines) = self.new_lines(&columns) {
            let made = lines.clone();
            let make = move |session: &mut Session| make_lines(session, &lines);
            self.others.call_async("cannot write to", Repeat::Yes, make).await?;
            self.remember(made);
        }
        let accept = async {
            let inner = transaction.savepoint("punctual_enqueue").await?;
            let rows = inner.query(ACCEPT, &columns.params(&moment)).await?;
            inner.commit().await.map(|()| rows)
        };
        let rows = accept.await.map_err(|error| self.refused(error))?;
        Ok(columns.answers(&rows))
    }

    /// Completes a job in a transaction of its handler: once that is committed the job is done, and whatever else the
    /// transaction did has happened **exactly once**. Whatever the handler answers after that, and whatever becomes of it
    /// and its node, it is not called again.
    ///
    /// Nobody waits for the transaction, however long it takes. Whether the job is still ours is asked at the call and, for
    /// good, at the commit: if somebody else has it by then, that is what fails, with the code `PU003`. In a transaction that
    /// is more than `READ COMMITTED` it may also fail because the job has [said](JobContext::log) something meanwhile: as
    /// such transactions do, and the next one succeeds.
    ///
    /// ```no_run
    /// # use punctual_durable::{Done, JobContext, Jobs, PostgresStore};
    /// # use std::sync::Arc;
    /// # let url = "postgres://localhost/shop";
    /// let store = Arc::new(PostgresStore::open(url)?);
    /// let jobs = Jobs::on(store.clone())
    ///     .handle("book", move |sale: i64, cx: &JobContext| {
    ///         let mut mine = postgres::Client::connect(url, postgres::NoTls)?;
    ///         let mut transaction = mine.transaction()?;
    ///         transaction.execute("UPDATE account SET balance = balance + 1 WHERE sale = $1", &[&sale])?;
    ///         store.complete_in(&mut transaction, cx)?;
    ///         transaction.commit()?; // both, or neither
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What was to follow it by [`JobContext::then`] is kept with it, and follows even if its node dies now. If the
    /// transaction is rolled back, all is as before: the job may be completed in another one, or reported as usual.
    ///
    /// # Errors
    /// A [conflict](crate::Error::is_conflict) if somebody else holds the job by now, or it is over or has been completed
    /// before; or if the transaction has failed before. It cannot be committed any more.
    pub fn complete_in(&self, transaction: &mut postgres::Transaction<'_>, job: &JobContext) -> Result<()> {
        let ((id, fence, owner), asked) = (job.holding(), rows::chain_text(&job.seal()));
        let completed = transaction.query(COMPLETE, &[&id, &fence, &owner, &asked]);
        completed.map(drop).map_err(|error| self.not_completed(error))
    }

    /// As [`complete_in`](Self::complete_in), for the asynchronous driver.
    ///
    /// # Errors
    /// As [`complete_in`](Self::complete_in).
    pub async fn complete_in_async(
        &self,
        transaction: &mut tokio_postgres::Transaction<'_>,
        job: &JobContext,
    ) -> Result<()> {
        let ((id, fence, owner), asked) = (job.holding(), rows::chain_text(&job.seal()));
        let completed = transaction.query(COMPLETE, &[&id, &fence, &owner, &asked]).await;
        completed.map(drop).map_err(|error| self.not_completed(error))
    }

    fn not_completed(&self, error: postgres::Error) -> Error {
        Fault::from(error).tell("cannot complete a job in a transaction, as in", &self.server)
    }

    /// Lines that may not exist yet. If the transaction of a caller made one, all others who want it would wait until that
    /// ends: so they are made before.
    fn new_lines(&self, columns: &Columns<'_>) -> Option<Vec<LineName>> {
        let known = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<LineName> = columns.lines().into_iter().filter(|line| !known.contains(line)).collect();
        (!new.is_empty()).then_some(new)
    }

    fn remember(&self, lines: Vec<LineName>) {
        let mut known = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST_LINES {
            known.clear();
        }
        known.extend(lines);
    }

    fn refused(&self, error: postgres::Error) -> Error {
        Fault::from(error).tell("cannot enqueue in a transaction, as in", &self.server)
    }

    /// The time, if it is not the server's.
    fn moment(&self) -> Option<i64> {
        self.time.as_ref().map(|time| time.timestamp().as_micros())
    }

    /// Who reads compares what there is with the time: it is not to be an old one.
    fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        self.others.call("cannot read from", Repeat::Yes, move |session| {
            if session.server.clock.is_old() {
                session.ask_time()?;
            }
            work(session)
        })
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        self.others.call("cannot write to", Repeat::No, work)
    }

    /// As [`write`](Self::write), for what nodes in other processes may be waiting for.
    fn write_news<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        let result = self.write(work)?;
        self.bell.ring(News::Jobs);
        Ok(result)
    }

    /// What may be the time, for those who rather ring once too often.
    fn latest(&self) -> Timestamp {
        self.time.as_ref().map_or_else(|| self.server.clock.latest(), |time| time.timestamp())
    }

    fn ring_if_soon(&self, dues: impl IntoIterator<Item = Timestamp>) {
        let soon = self.latest().after(SOON);
        if dues.into_iter().any(|due| due <= soon) {
            self.bell.ring(News::Jobs);
        }
    }

    fn moved(&self, moved: Result<Moved>) -> Result<Moved> {
        if let Ok(Moved::Waiting(ticket)) = &moved {
            self.ring_if_soon([ticket.due]);
        }
        moved
    }
}

impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        self.time.as_ref().map_or_else(|| self.server.clock.now(), |time| time.timestamp())
    }

    fn on_news(&self, hear: Arc<dyn Fn(&News) -> bool + Send + Sync>) {
        self.bell.listen(hear);
    }

    fn tell_news(&self, news: News) {
        self.bell.ring(news);
    }

    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (moment, now) = (self.moment(), self.latest());
        let soon = jobs.iter().any(|job| job.due.instant(now) <= now.after(SOON));
        let keyless = jobs.iter().all(|job| job.unique.is_none());
        if let Some(along) = (soon && keyless).then(|| self.bell.along()).flatten() {
            let origin = along.origin();
            return self.write(move |session| Columns::of(&jobs).accept_and_ring(session, moment, &origin));
        }
        let accepted = self.write(move |session| Columns::of(&jobs).accept(session, moment))?;
        self.ring_if_soon(accepted.iter().filter_map(|accepted| match accepted {
            Enqueued::New(ticket) | Enqueued::Replaced(ticket) => Some(ticket.due),
            Enqueued::Existing(_) => None,
        }));
        Ok(accepted)
    }

    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        let moment = self.moment();
        self.write(move |session| jobs::cancel(session, &ids, moment))
    }

    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        let moment = self.moment();
        self.moved(self.write(move |session| jobs::reschedule(session, id, due, moment)))
    }

    fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        let moment = self.moment();
        self.moved(self.write(move |session| jobs::retry(session, id, due, moment)))
    }

    fn purge(&self, ids: Vec<JobId>) -> Result<usize> {
        self.write(move |session| jobs::purge(session, &ids))
    }

    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        self.write(move |session| jobs::trim(session, before, most))
    }

    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        check_name("queue", queue, NewJob::MAX_NAME)?;
        let (queue, moment) = (queue.to_owned(), self.moment());
        self.write_news(move |session| jobs::set_queue(session, &queue, &change, moment))
    }

    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        schedule.check()?;
        let moment = self.moment();
        self.write_news(move |session| series::save(session, &schedule, moment))
    }

    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        if jobs::is_impossible(name) {
            return Ok(false);
        }
        let (name, moment) = (name.to_owned(), self.moment());
        self.write_news(move |session| series::set(session, &name, &change, moment))
    }

    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.read(series::list)
    }

    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        let kinds = kinds.to_vec();
        self.node.call("cannot read from", Repeat::Yes, move |session| series::due(session, &kinds, until))
    }

    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        let moment = self.moment();
        // By the version of the schedule, the same again does nothing.
        self.node.call("cannot write to", Repeat::No, move |session| series::fire(session, &firings, moment))
    }

    fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.read(move |session| jobs::job(session, id))
    }

    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        let filter = filter.clone();
        self.read(move |session| jobs::find(session, &filter))
    }

    fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        self.read(move |session| jobs::failures(session, id))
    }

    fn log(&self, id: JobId) -> Result<JobLog> {
        self.read(move |session| journal::read(session, id))
    }

    fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.read(jobs::queues)
    }

    fn lines(&self) -> Result<Vec<LineRecord>> {
        self.read(jobs::lines)
    }

    fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let moment = self.moment();
        self.read(move |session| nodes::all(session, moment))
    }

    fn upcoming(&self, from: Timestamp, width: Duration, steps: usize, most: usize) -> Result<Density> {
        let windows = Density::windows(from, width, steps);
        self.read(move |session| {
            let counting = Counting::new(from, width, steps, most);
            jobs::upcoming(session, &windows, from, width, most, counting)
        })
    }

    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<RunTally>> {
        self.read(move |session| tally::runs(session, from, until)).map(RunTally::sum)
    }

    fn errors(&self, since: Timestamp) -> Result<Vec<ErrorTally>> {
        self.read(move |session| tally::errors(session, since)).map(ErrorTally::sum)
    }

    fn check(&self) -> Result<Vec<Finding>> {
        let moment = self.moment();
        // Not with a question for the time: if the function for that is missing, it is a finding.
        self.others.call("cannot read from", Repeat::Yes, move |session| check::all(session, moment))
    }

    fn identity(&self) -> Result<StoreId> {
        self.read(|session| {
            let row = session.one("SELECT value FROM punctual.meta WHERE name = 'store'", &[])?;
            Ok(StoreId::from_i64(row.get(0)))
        })
    }

    fn complete_upto(&self) -> Result<JobId> {
        self.read(complete::upto)
    }

    fn import(&self, cargo: Cargo) -> Result<Imported> {
        cargo.check()?;
        let moment = self.moment();
        self.write_news(move |session| import::import(session, &cargo, moment))
    }

    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        let moment = self.moment();
        self.node.call("cannot write to", Repeat::Yes, move |session| {
            exchange::renew(session, node, lease, moment)
        })
    }

    fn leave(&self, node: NodeId) -> Result<()> {
        let moment = self.moment();
        self.node.call("cannot write to", Repeat::Yes, move |session| exchange::leave(session, node, moment))
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        let (peek, moment) = (peek.clone(), self.moment());
        self.node.call("cannot read from", Repeat::Yes, move |session| exchange::peek(session, &peek, moment))
    }

    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        let moment = self.moment();
        self.node.call("cannot write to", Repeat::No, move |session| {
            exchange::exchange(session, node, &exchange, moment)
        })
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        let moment = self.moment();
        self.node
            .call("cannot write to", Repeat::No, move |session| rescue::rescue(session, node, most, moment))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("server", &self.server.address.name)
            .field("node", &self.node)
            .field("others", &self.others)
            .finish_non_exhaustive()
    }
}
