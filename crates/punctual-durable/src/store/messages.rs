//! What is said between nodes, programs and stores: requests and answers, plain data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Next, Verdict};
use crate::job::{Fence, JobId, JobRecord, JobState, NewJob, NodeId};
use crate::journal::Update;
use crate::lane::Lane;
use crate::tally::Tallies;
use crate::time::Timestamp;

/// What one process tells the others; see [`Store::tell_news`](crate::Store::tell_news).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum News {
    /// There may be jobs to run that were not there before.
    Jobs,
    /// These are new, and all of that kind.
    New(String, Vec<Ticket>),
    /// Somebody waits for these jobs to be over, and would like to be told.
    Waiting(Vec<JobId>),
    /// These jobs are over.
    Over(Vec<JobId>),
}

/// What became of a job that was to be accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Enqueued {
    /// It is a new job.
    New(Ticket),
    /// Its unique key belonged to this one, which stays as it is.
    Existing(JobId),
    /// Its unique key belonged to this one, which has got its payload and due time.
    Replaced(Ticket),
}

impl Enqueued {
    /// The id of the job that has the payload or the key.
    #[must_use]
    pub fn id(self) -> JobId {
        match self {
            Self::New(ticket) | Self::Replaced(ticket) => ticket.id,
            Self::Existing(id) => id,
        }
    }
}

/// A waiting job as it was seen: a hint, by which it can be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The job.
    pub id: JobId,
    /// The version under which it was seen.
    pub version: i64,
    /// When it may start.
    pub due: Timestamp,
    /// How urgent it is.
    pub lane: Lane,
}

/// The answer to a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cancelling {
    /// It had not begun, and never will.
    Cancelled,
    /// A node holds it: it has been asked to stop. If it does not succeed before it heeds that, it is cancelled.
    Requested,
    /// It was over already.
    Over(JobState),
    /// No such job is known.
    Unknown,
}

/// The answer to a change of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Moved {
    /// It waits, with this due time and version.
    Waiting(Ticket),
    /// It was in another state, and has not been touched.
    Not(JobState),
    /// No such job is known.
    Unknown,
}

/// A change of a queue's settings.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QueueChange {
    /// Nothing is claimed from it any more; what runs goes on. With a reason.
    Pause(String),
    /// Things are claimed again.
    Resume,
    /// At most so many of its jobs are claimed at once, over all nodes; `None` is without limit.
    Limit(Option<u32>),
}

/// A queue and its settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueRecord {
    /// Its name.
    pub name: String,
    /// Since when and why it is paused.
    pub paused: Option<(Timestamp, String)>,
    /// How many of its jobs may be claimed at once.
    pub limit: Option<u32>,
}

/// A line in which jobs wait: those of one queue, kind and lane.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LineRecord {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// How urgent its jobs are.
    pub lane: Lane,
    /// When the first of those that wait is or was due; `None` if none waits.
    pub first_due: Option<Timestamp>,
}

impl LineRecord {
    /// A line as a store knows it.
    #[must_use]
    pub fn new(
        queue: impl Into<String>,
        kind: impl Into<String>,
        lane: Lane,
        first_due: Option<Timestamp>,
    ) -> Self {
        Self { queue: queue.into(), kind: kind.into(), lane, first_due }
    }
}

/// A node, as a store knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeRecord {
    /// Which one.
    pub id: NodeId,
    /// Whether it is alive, by the clock of the store. What a dead node holds is rescued.
    pub alive: bool,
    /// Until when it is, if nothing more is heard of it; `None` if that is not a question of time, or not known any more.
    pub until: Option<Timestamp>,
    /// How many jobs it holds.
    pub held: usize,
}

impl NodeRecord {
    /// A node as a store knows it.
    #[must_use]
    pub fn new(id: NodeId, alive: bool, until: Option<Timestamp>, held: usize) -> Self {
        Self { id, alive, until, held }
    }
}

/// What became of a schedule that was saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Saved {
    /// It is a new one.
    Created,
    /// There was one of that name, with the same definition.
    Unchanged,
    /// There was one of that name, with another definition.
    Updated,
}

/// A change of a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScheduleChange {
    /// It makes no more jobs; those that it made go on. What was owed is forgotten. With a reason.
    Pause(String),
    /// It makes jobs again; what it missed meanwhile follows its policy.
    Resume,
    /// One occurrence happens now, whatever else is alive.
    Trigger,
    /// These occurrences happen now, in one transaction, whatever else is alive.
    Backfill(Vec<Timestamp>),
    /// There is no such schedule any more; the jobs it made go on.
    Remove,
}

/// Which jobs to look for; an absent condition always holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Filter {
    /// Only in this state.
    pub state: Option<JobState>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only with this unique key.
    pub unique: Option<String>,
    /// Only those that follow this one.
    pub parent: Option<JobId>,
    /// Only with a greater id: the last one of the page before.
    pub after: Option<JobId>,
    /// At most so many. Default 100.
    pub limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self { state: None, kind: None, queue: None, unique: None, parent: None, after: None, limit: 100 }
    }
}

impl Filter {
    /// Everything, a hundred at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only jobs in this state.
    #[must_use]
    pub fn state(mut self, state: JobState) -> Self {
        self.state = Some(state);
        self
    }

    /// Only jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only jobs in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Only the jobs with this unique key: at most one of them is alive.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// Only the jobs that follow this one.
    #[must_use]
    pub fn parent(mut self, id: JobId) -> Self {
        self.parent = Some(id);
        self
    }

    /// Only jobs with a greater id.
    #[must_use]
    pub fn after(mut self, id: JobId) -> Self {
        self.after = Some(id);
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether `job` is one of them, but for the limit.
    #[must_use]
    pub fn matches(&self, job: &JobRecord) -> bool {
        self.state.is_none_or(|state| state == job.state)
            && self.kind.as_ref().is_none_or(|kind| *kind == job.kind)
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.unique.as_ref().is_none_or(|key| job.unique.as_ref() == Some(key))
            && self.parent.is_none_or(|parent| job.parent == Some(parent))
            && self.after.is_none_or(|after| job.id > after)
    }
}

/// The answer to a renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Renewal {
    /// Whether the node may claim.
    pub tenure: Tenure,
    /// Jobs held by the node that somebody has asked to be cancelled.
    pub cancels: Vec<JobId>,
}

impl Renewal {
    /// An answer.
    #[must_use]
    pub fn new(tenure: Tenure, cancels: Vec<JobId>) -> Self {
        Self { tenure, cancels }
    }
}

/// Whether a node may claim jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Tenure {
    /// It may, until its lease is over.
    Active,
    /// Another node has the store to itself; this one takes over when that is gone.
    Standby,
}

/// What a node wants to know of the near future.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peek {
    /// The kinds it can run.
    pub kinds: Arc<[String]>,
    /// From when on it looks: overdue jobs are swept, not peeked at. `None` is from the beginning.
    pub after: Option<Timestamp>,
    /// How far it looks.
    pub until: Timestamp,
    /// How many it can remember.
    pub most: usize,
}

impl Peek {
    /// A look at the jobs of `kinds` due by `until`, at most `most`.
    #[must_use]
    pub fn new(kinds: Arc<[String]>, until: Timestamp, most: usize) -> Self {
        Self { kinds, after: None, until, most }
    }

    /// The same look, at what is due after that instant.
    #[must_use]
    pub fn after(mut self, after: Timestamp) -> Self {
        self.after = Some(after);
        self
    }
}

/// The answer to a [`Peek`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Peeked {
    /// Jobs, earliest first.
    pub tickets: Vec<Ticket>,
    /// When the earliest job that is not among them is due.
    pub next: Option<Timestamp>,
    /// Whether a job is due at or before the instant from which it looked.
    pub overdue: bool,
}

impl Peeked {
    /// An answer.
    #[must_use]
    pub fn new(tickets: Vec<Ticket>, next: Option<Timestamp>) -> Self {
        Self { tickets, next, overdue: false }
    }

    /// The same answer, and whether a job is due before.
    #[must_use]
    pub fn overdue(mut self, overdue: bool) -> Self {
        self.overdue = overdue;
        self
    }
}

/// One transaction of a node: verdicts in, jobs out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// What attempts have said while they run. Heeded before the reports, as far as the node still holds the jobs; the
    /// others are passed over. The same again changes nothing.
    pub updates: Vec<Update>,
    /// What the node has counted: totals, which replace those it sent before.
    pub tallies: Tallies,
    /// What became of jobs it holds.
    pub reports: Vec<Report>,
    /// Whether whatever else it holds according to the store, beyond `holding`, is to be given back: asked for after
    /// an exchange whose answer was lost.
    pub disown: Option<Vec<JobId>>,
    /// Jobs to claim as they were seen.
    pub claims: Vec<Ticket>,
    /// How many more to claim of whatever is overdue.
    pub sweep: usize,
    /// The kinds it can run.
    pub kinds: Arc<[String]>,
}

impl Exchange {
    /// An exchange that asks for nothing.
    #[must_use]
    pub fn new(kinds: Arc<[String]>) -> Self {
        Self {
            updates: Vec::new(),
            tallies: Tallies::default(),
            reports: Vec::new(),
            disown: None,
            claims: Vec::new(),
            sweep: 0,
            kinds,
        }
    }

    /// Keeps what these attempts have said.
    #[must_use]
    pub fn updates(mut self, updates: Vec<Update>) -> Self {
        self.updates = updates;
        self
    }

    /// Keeps these counts.
    #[must_use]
    pub fn tallies(mut self, tallies: Tallies) -> Self {
        self.tallies = tallies;
        self
    }

    /// Records these verdicts.
    #[must_use]
    pub fn reports(mut self, reports: Vec<Report>) -> Self {
        self.reports = reports;
        self
    }

    /// Gives back everything but `holding`.
    #[must_use]
    pub fn disown_all_but(mut self, holding: Vec<JobId>) -> Self {
        self.disown = Some(holding);
        self
    }

    /// Claims these.
    #[must_use]
    pub fn claims(mut self, claims: Vec<Ticket>) -> Self {
        self.claims = claims;
        self
    }

    /// Claims so many more that are overdue.
    #[must_use]
    pub fn sweep(mut self, most: usize) -> Self {
        self.sweep = most;
        self
    }
}

/// What a node says of one attempt.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The job.
    pub id: JobId,
    /// The claim by which the node held it.
    pub fence: Fence,
    /// What became of it.
    pub verdict: Verdict,
    /// Jobs to be accepted with it, if it is done.
    pub follow_ups: Vec<NewJob>,
}

impl Report {
    /// A report.
    #[must_use]
    pub fn new(id: JobId, fence: Fence, verdict: Verdict) -> Self {
        Self { id, fence, verdict, follow_ups: Vec::new() }
    }

    /// The same report, with jobs to be accepted if it makes the job done.
    #[must_use]
    pub fn follow_ups(mut self, follow_ups: Vec<NewJob>) -> Self {
        self.follow_ups = follow_ups;
        self
    }
}

/// The answer to an [`Exchange`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Exchanged {
    /// What became of the reports, in their order.
    pub recorded: Vec<Recorded>,
    /// The jobs that are the node's now: those claimed, then those swept.
    pub claimed: Vec<JobRecord>,
    /// Whether the sweep found less than it was to take.
    pub drained: bool,
    /// Whether something was left out because its queue is full: worth another look when a job is over.
    pub crowded: bool,
    /// The jobs that follow those that are done, as far as there was something new.
    pub followed: Vec<Ticket>,
}

impl Exchanged {
    /// An answer.
    #[must_use]
    pub fn new(recorded: Vec<Recorded>, claimed: Vec<JobRecord>, drained: bool) -> Self {
        Self { recorded, claimed, drained, crowded: false, followed: Vec::new() }
    }

    /// The same answer, when something was left out because its queue is full.
    #[must_use]
    pub fn crowded(mut self, crowded: bool) -> Self {
        self.crowded = crowded;
        self
    }

    /// The same answer, with the jobs that follow.
    #[must_use]
    pub fn followed(mut self, followed: Vec<Ticket>) -> Self {
        self.followed = followed;
        self
    }
}

/// What became of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Recorded {
    /// It was heeded: the job is over, in this way.
    Over(JobState),
    /// It was heeded: the job waits again, until then.
    Waits(Timestamp),
    /// It had been heeded before, and has been sent a second time.
    Already,
    /// The node does not hold the job any more: it was taken for dead, and somebody else decides. Nothing has
    /// changed.
    Stale,
}

impl Recorded {
    /// The answer for a job that the rules have moved on.
    #[must_use]
    pub fn next(next: &Next) -> Self {
        if next.state.is_over() { Self::Over(next.state) } else { Self::Waits(next.due) }
    }
}

/// A job that was taken from a dead node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rescued {
    /// The job.
    pub id: JobId,
    /// Who held it.
    pub from: NodeId,
    /// `Scheduled`, `Dead` or `Cancelled`.
    pub state: JobState,
}

impl Rescued {
    /// A rescue.
    #[must_use]
    pub fn new(id: JobId, from: NodeId, state: JobState) -> Self {
        Self { id, from, state }
    }
}
