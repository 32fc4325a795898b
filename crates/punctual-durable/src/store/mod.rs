//! Where jobs are kept: what a store does, and what it must never do.
//!
//! A store holds the jobs, decides every race between nodes, and owns the clock. Everything else (waiting for the
//! exact instant, running handlers, backing off) is done by nodes, in memory, and may be lost at any moment.
//!
//! # States
//! See [`JobState`](crate::JobState). `Scheduled` and `Claimed` jobs are alive; the rest are over. All moves are decided by the
//! pure functions of [`rules`](self), which stores only obey.
//!
//! | Move | Guard, checked in the same transaction | Effect |
//! |---|---|---|
//! | enqueue | the unique key is free, or its policy | `Scheduled` |
//! | claim | `Scheduled`, version as peeked; queue neither paused nor full | `Claimed`: owner, new fence, attempt + 1 |
//! | sweep | `Scheduled`, due; kind known; queue neither paused nor full | the same |
//! | update | `Claimed`, **owner and fence** as claimed | progress and log lines are kept |
//! | report | `Claimed`, **owner and fence** as claimed | by the verdict: over, or `Scheduled` again |
//! | cancel | `Scheduled` | `Cancelled` |
//! | | `Claimed` | the owner is asked |
//! | reschedule | `Scheduled` | due changes, version + 1 |
//! | rescue | `Claimed`, owner not alive | `Scheduled` again with crashes + 1, or `Dead`; see `rules.rs` |
//! | retry | `Dead`, the unique key is free | `Scheduled`, attempt and crashes 0 |
//! | fire | the schedule has the version that was seen, and is not paused | its occurrences are `Scheduled`, its next time moves on |
//!
//! When a job is done, the same transaction accepts the jobs that follow it: the next of its chain, and what its handler
//! asked for ([`follow_ups`]). One whose unique key is taken is settled by its own policy; what comes to nothing is
//! noted on the job that is done, and changes nothing else.
//!
//! When an occurrence of a schedule is over, the same transaction counts whether it has failed, and makes the one that is
//! owed, or sets the next time of a fixed delay; see `schedule.rs`.
//!
//! # Invariants
//! 1. *Acknowledged is durable.* When a call has returned `Ok`, its effect survives the death of the process, and
//!    of the machine where the store promises it.
//! 2. *All or nothing.* A call that returns an error has had no effect, or (if the connection broke) all of it. An
//!    answer that concerns one item of a batch, such as [`Recorded::Stale`], is not an error.
//! 3. *One holder.* A claimed job has one owner and one fence; a report by any other is refused. Fences grow with
//!    every claim in the store; owners are random per life of a process. Both are compared: a store restored to an
//!    earlier state may give a fence a second time, but not to the same owner.
//! 4. *One outcome.* A job that is over has left the set of living jobs in the transaction that recorded its outcome.
//! 5. *Never early.* A sweep takes only what is due by the store's clock. A claim may come early, its start may not:
//!    the node waits until [`Store::now`] shows the due time.
//! 6. *One key.* Among living jobs a unique key occurs once. Only enqueue, retry and follow-ups add to the living, and
//!    a follow-up that finds its key taken is left out: no other move can ever fail because of a key.
//! 7. *A report may be repeated.* Sent again after a broken connection it changes nothing and is
//!    [`Recorded::Already`].
//! 8. *The dead do not hold.* Rescue takes jobs from owners that are not among the living nodes: a node that is
//!    missing from the list is dead.
//!
//! # Protocol of a node
//! Renew the lease; while it is valid, [`peek`](Store::peek) at what comes due soon, and shortly before the due time
//! [`exchange`](Store::exchange) claims for jobs. Wait for the due time, run, and put the verdict into the next
//! exchange. What was peeked is a hint: if it is out of date the claim fails, and nothing else needs to be done.
//! Overdue work is swept by whoever has room. A node that cannot renew starts nothing more, by its own monotonic
//! clock, before anybody may rescue what it holds.
//!
//! # Cost
//! A node calls once per batch, not once per job. Jobs of unknown kinds and of paused or full queues cost nothing
//! however many there are: jobs wait in *lines*, one for each (queue, kind, lane), and a line that is not eligible is
//! not looked at.
//!
//! # Paths not taken
//! *A lease per job:* its renewals would be most of the writes. *Rescue by age:* a slow job would be run twice while
//! its node is alive and well. *`attempt` as the fence:* a snooze gives the attempt back, and then two claims have
//! the same number.

mod density;
mod memory;
mod messages;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod news;
#[cfg(feature = "postgres")]
mod postgres;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::doctor::Finding;
use crate::error::Result;
use crate::job::{Due, Failure, JobId, JobRecord, NewJob, NodeId, StoreId};
use crate::journal::JobLog;
use crate::schedule::{Firing, NewSchedule, ScheduleRecord};
use crate::tally::{ErrorTally, RunTally};
use crate::time::Timestamp;
use crate::transfer::{Cargo, Imported};

pub use density::Density;
pub use memory::MemoryStore;
pub use messages::{
    Cancelling, Enqueued, Exchange, Exchanged, Filter, LineRecord, Moved, News, NodeRecord, Peek, Peeked,
    QueueChange, QueueRecord, Recorded, Renewal, Report, Rescued, Saved, ScheduleChange, Tenure, Ticket,
};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub(crate) use rules::is_suspect;
pub use rules::{Next, Verdict, follow_ups, lost, lost_together, refusal, settle};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// A place where jobs are kept. See the essay at the top of `store/mod.rs` for what every store must keep to; the
/// suite in `conformance` (feature `testing`) checks it.
///
/// Every method blocks, may be called from any thread, and takes effect as a whole or not at all.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The time by which everything here is due. Cheap, and never ahead of the clock that decides: a store on the
    /// far side of a network answers from the time in the last replies.
    fn now(&self) -> Timestamp;

    /// Asks to be told what other processes tell. A courtesy: stores need not, and everybody looks from time to time.
    /// `hear` does not block, may be called too often, and answers whether it wants to hear more.
    fn on_news(&self, hear: Arc<dyn Fn(&News) -> bool + Send + Sync>) {
        drop(hear);
    }

    /// Tells other processes. A courtesy, too; what goes through here is told without being asked for.
    fn tell_news(&self, news: News) {
        drop(news);
    }

    // ---- for everybody

    /// Accepts jobs, each for itself: the answers are in the order of the jobs.
    ///
    /// # Errors
    /// If one of the jobs makes no sense or finds its unique key taken and is to be
    /// [rejected](crate::OnConflict::Reject) then; none is accepted in that case.
    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>>;

    /// Takes jobs back: see [`Cancelling`].
    ///
    /// # Errors
    /// If the store fails.
    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>>;

    /// Changes when a waiting job is due; says where the job is now if it does not wait.
    ///
    /// # Errors
    /// If the store fails.
    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved>;

    /// Gives a dead job another life, with all its attempts.
    ///
    /// # Errors
    /// If its unique key is taken by another job now, or the store fails.
    fn retry(&self, id: JobId, due: Due) -> Result<Moved>;

    /// Forgets dead jobs; says how many of these were dead.
    ///
    /// # Errors
    /// If the store fails.
    fn purge(&self, ids: Vec<JobId>) -> Result<usize>;

    /// Forgets, oldest first, at most `most` jobs that were over before `before` (not dead ones); says how many. Forgets
    /// what nodes have counted before then, too.
    ///
    /// # Errors
    /// If the store fails.
    fn trim(&self, before: Timestamp, most: usize) -> Result<usize>;

    /// Changes a queue, which need not have any jobs yet.
    ///
    /// # Errors
    /// If the name makes no sense, or the store fails.
    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()>;

    // ---- schedules

    /// Saves a schedule under its name. The same definition again is a no-op; another one replaces it, and is counted
    /// from now if its cadence or start is another ([`ScheduleRecord::redefine`]). It stays paused if it was.
    ///
    /// # Errors
    /// If it makes no sense, or the store fails.
    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved>;

    /// Changes a schedule; says whether there is one of that name.
    ///
    /// # Errors
    /// If the store fails.
    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool>;

    /// All schedules, by name.
    ///
    /// # Errors
    /// If the store fails.
    fn schedules(&self) -> Result<Vec<ScheduleRecord>>;

    /// The schedules of these kinds that are not paused and have an occurrence whose nominal time is not after `until`.
    ///
    /// # Errors
    /// If the store fails.
    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>>;

    /// Moves schedules on, each for itself: those whose version has changed since are left alone. Says which jobs
    /// that made.
    ///
    /// # Errors
    /// If the store fails.
    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>>;

    // ---- looking

    /// What is known of one job, alive or over.
    ///
    /// # Errors
    /// If the store fails.
    fn job(&self, id: JobId) -> Result<Option<JobRecord>>;

    /// Jobs that match, by id, at most [`Filter::limit`].
    ///
    /// # Errors
    /// If the store fails.
    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>>;

    /// The failed attempts of one job, in order, as far as they are kept.
    ///
    /// # Errors
    /// If the store fails.
    fn failures(&self, id: JobId) -> Result<Vec<Failure>>;

    /// What the handlers of one job have said while they ran, as far as it is kept: as long as the job is.
    ///
    /// # Errors
    /// If the store fails.
    fn log(&self, id: JobId) -> Result<JobLog>;

    /// All queues that have or had jobs or settings, by name.
    ///
    /// # Errors
    /// If the store fails.
    fn queues(&self) -> Result<Vec<QueueRecord>>;

    /// All lines that have or had jobs, by queue, kind and lane. Costs a search in an index for each, however many jobs
    /// there are.
    ///
    /// # Errors
    /// If the store fails.
    fn lines(&self) -> Result<Vec<LineRecord>>;

    /// The nodes that are known, by id: those that are alive, and those that hold jobs although they are not.
    ///
    /// Unless a store says otherwise, it knows of none.
    ///
    /// # Errors
    /// If the store fails.
    fn nodes(&self) -> Result<Vec<NodeRecord>> {
        Ok(Vec::new())
    }

    /// How many waiting jobs come due in each of `steps` stretches of `width` from `from` on. No more than `most` are
    /// looked at, in the order of [`Density::windows`] or from the earliest on.
    ///
    /// # Errors
    /// If the store fails.
    fn upcoming(&self, from: Timestamp, width: Duration, steps: usize, most: usize) -> Result<Density>;

    /// What nodes have counted in minutes that began from `from` until before `until`: the [sum](RunTally::sum).
    ///
    /// # Errors
    /// If the store fails.
    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<RunTally>>;

    /// Errors of which the last was seen at `since` or later: the [sum](ErrorTally::sum).
    ///
    /// # Errors
    /// If the store fails.
    fn errors(&self, since: Timestamp) -> Result<Vec<ErrorTally>>;

    /// Looks for damage and for what is out of place. May take long.
    ///
    /// # Errors
    /// If the store fails: what is damaged is a finding.
    fn check(&self) -> Result<Vec<Finding>>;

    // ---- moving

    /// Which store this is.
    ///
    /// # Errors
    /// If the store fails.
    fn identity(&self) -> Result<StoreId>;

    /// Up to which id nobody will ever see a job that cannot be seen now: a copy by id that stops there misses nothing.
    ///
    /// Unless a store says otherwise, that is any: it gives ids in the order in which jobs can be seen. One in which
    /// transactions may end in another order waits for those that are in progress, for a while.
    ///
    /// # Errors
    /// If the store fails, or somebody does not end a transaction.
    fn complete_upto(&self) -> Result<JobId> {
        Ok(JobId::from_i64(i64::MAX))
    }

    /// Takes in a page from another store, all of it or nothing: jobs under new ids as
    /// [`MovingJob::arrive`](crate::MovingJob::arrive) says, but for those up to the last that was taken in from there;
    /// queues of which nothing has been set, and schedules whose name is free. After the jobs it accepts what
    /// [follows](crate::MovingJob::follow_ups) some of them. Remembers the last job. See [`transfer`](crate::transfer).
    ///
    /// # Errors
    /// If something [makes no sense](Cargo::check), the unique key of a living job is taken, or the store fails.
    fn import(&self, cargo: Cargo) -> Result<Imported>;

    // ---- for nodes

    /// Says that `node` is alive, and will be for `lease` if nothing more is heard of it.
    ///
    /// # Errors
    /// If the store fails; the lease is as it was.
    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal>;

    /// Says that `node` has gone. What it still holds is free to be rescued.
    ///
    /// # Errors
    /// If the store fails.
    fn leave(&self, node: NodeId) -> Result<()>;

    /// What comes due: at most `most` waiting jobs of the `kinds` that are due `after` that instant and by `until`,
    /// earliest first, leaving out queues that are paused or full; when the next one after these is due; and whether
    /// there are any before.
    ///
    /// # Errors
    /// If the store fails.
    fn peek(&self, peek: &Peek) -> Result<Peeked>;

    /// Keeps what attempts have said, records verdicts, with the follow-ups of what is done, then claims, in one
    /// transaction. Claims nothing for a node that is not active.
    ///
    /// # Errors
    /// If the store fails: then it is not known whether it took effect. The reports can be sent again; jobs that
    /// were claimed without the node knowing are rescued like those of a dead node, when it leaves or
    /// [disowns](Exchange::disown) them.
    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged>;

    /// Takes at most `most` jobs from owners that are dead, as [`lost_together`] says; `node` is the one who asks. See
    /// [`OnLost`](crate::OnLost).
    ///
    /// # Errors
    /// If the store fails.
    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>>;
}
