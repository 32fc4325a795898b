//! Jobs that survive the death of the process: run at least once, one outcome each, never early.
//!
//! A job is a payload with the name of its kind, kept in a [`Store`]: one file by default, or PostgreSQL (feature
//! `postgres`) by changing the URL. A program that knows how to
//! run some kinds starts a node, which claims what comes due and runs it on the workers of a
//! [`punctual::Executor`], at its very instant.
//!
#![cfg_attr(feature = "sqlite", doc = "```no_run")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use punctual_durable::{Done, Jobs};
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendInvoice { customer: u64 }
//!
//! let jobs = Jobs::open("sqlite:jobs.db")?
//!     .handle("send-invoice", |job: SendInvoice, cx| {
//!         println!("invoice for {}, attempt {}", job.customer, cx.attempt());
//!         Ok(Done)
//!     })
//!     .start()?;
//! jobs.enqueue(SendInvoice { customer: 7 }).after(Duration::from_secs(3600)).unique("invoice-7").send()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `cargo run -p punctual-durable --example survive` shows it: kill the program whenever you like, and start it again.
//! Further examples: `chain` (run B after A), `exactly_once` (money that is booked once, whatever is killed), `progress`
//! (async handlers that tell how far they are), `grow_up` (move to another store).
//!
//! # Features
//! `sqlite`, on by default; `postgres` (14 or later; not behind a pooler that gives each transaction another session);
//! `testing`, the suite for stores of your own.
//!
//! # What is promised
//! - A durable job that was acknowledged is started **at least once**, unless it is cancelled, or dead by its own
//!   [limits](Limits) before. One that takes its process down again and again dies by them; those beside it do not
//!   ([`Limits::max_crashes`]).
//! - At any moment at most one *lease holder* exists for a job; a holder that lost its lease cannot record an outcome.
//! - Each job gets **exactly one** recorded outcome.
//! - Effects that a handler writes to the same database, in a transaction in which it [completes](JobContext#exactly-once)
//!   the job, happen **exactly once**.
//! - [`OnLost::Fail`] with one attempt gives **at most once**.
//! - Every occurrence of a [schedule](Client::schedule) happens once.
//! - What [follows](NewJobBuilder::then) a job is accepted once, with its success, and not without it.
//! - Never early, by the clock of the store.
//!
//! Jobs that are over are kept for a week ([`JobsBuilder::retain`]), dead ones until they are retried or purged.
//!
//! Handlers may thus be called more than once for a job, and should bear it: [`JobContext::id`] is the same each time,
//! and [`JobContext::fence`] grows.
//!
//! Not promised: that a handler which has lost its lease notices, unless its kind is
//! [exclusive](KindOptions::exclusive), and heeds it; that a stopped process gives up its file; how
//! the store does on a network file system.
//!
//! # What is where
//! - [`Jobs`] opens a store and runs a node, with [sync](JobsBuilder::handle) and [async](JobsBuilder::handle_async)
//!   handlers; [`Client`] enqueues, cancels and looks; [`JobContext`] is what a handler knows, and how it tells
//!   [how far it is](JobContext::progress) and [what follows](JobContext::then).
//! - [`Outcome`] and [`JobError`] are what a handler answers, [`KindOptions`] what jobs of a kind have in common;
//!   [`JobOutcome`] is the wait for a job to be over.
//! - [`ScheduleBuilder`] describes jobs that come again; [`Client::backfill`] makes up for those that did not.
//! - [`Client::tallies`], [`Client::errors`] and [`Client::upcoming`] are the numbers, [`Client::nodes`] tells who is
//!   there, [`Client::doctor`] says what is wrong; [`transfer`], [`export`] and [`import`] copy a store.
//! - [`Store`] is where jobs are kept. [`MemoryStore`] lives and dies with the process.
#![cfg_attr(feature = "sqlite", doc = "  [`SqliteStore`] is one file.")]
#![cfg_attr(feature = "postgres", doc = "  [`PostgresStore`] is a database that any number of nodes share.")]
//!   With the feature `testing`, `conformance` has the suite that every store passes.
#![forbid(unsafe_code)]

mod client;
#[cfg(feature = "testing")]
pub mod conformance;
mod context;
mod doctor;
mod error;
mod event;
mod job;
mod jobs;
mod journal;
mod lane;
mod node;
mod outcome;
mod post;
mod promise;
mod registry;
mod retry;
mod schedule;
mod schedule_builder;
mod signal;
mod store;
mod tally;
mod time;
mod transfer;
mod watch;

pub use client::{Client, NewJobBuilder};
pub use context::JobContext;
pub use doctor::{Finding, Severity};
pub use error::{Error, Result};
pub use event::Event;
pub use job::{
    Due, Failure, Fence, JobId, JobRecord, JobState, Limits, NewJob, NodeId, OnConflict, OnLost, StoreId,
    UniqueKey,
};
pub use jobs::{Jobs, JobsBuilder};
pub use journal::{JobLog, LogLine, Progress, Update};
pub use lane::{Lane, share};
pub use outcome::JobError;
pub use outcome::Outcome::{self, Done};
pub use post::Receipt;
pub use registry::KindOptions;
pub use retry::Backoff;
pub use schedule::{Cadence, Firing, Happening, Missed, NewSchedule, OnFailure, Overlap, ScheduleRecord};
pub use schedule_builder::ScheduleBuilder;
pub use signal::{Stop, StopRequested};
#[cfg(feature = "postgres")]
pub use store::PostgresStore;
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{
    Cancelling, Density, Enqueued, Exchange, Exchanged, Filter, LineRecord, MemoryStore, Moved, News, Next,
    NodeRecord, Peek, Peeked, QueueChange, QueueRecord, Recorded, Renewal, Report, Rescued, Saved,
    ScheduleChange, Store, Tenure, Ticket, Verdict, follow_ups, lost, lost_together, refusal, settle,
};
pub use tally::{Ending, ErrorTally, RunTally, Spans, Tallies, fingerprint};
pub use time::{SystemTimeSource, TimeSource, Timestamp};
pub use transfer::{Cargo, Imported, MovingJob, export, import, transfer};
pub use watch::JobOutcome;
