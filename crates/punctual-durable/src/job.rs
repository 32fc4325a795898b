//! A job: what is asked for, and what the store knows of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lane::Lane;
use crate::time::Timestamp;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// From the number a store keeps.
            #[must_use]
            pub const fn from_i64(number: i64) -> Self {
                Self(number)
            }

            /// The number a store keeps.
            #[must_use]
            pub const fn as_i64(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number! {
    /// Names a job, for ever: a number is never given twice by one store.
    JobId, "job "
}

number! {
    /// Names a node: one life of one process. Random, so that neither a restart under the same name nor a store
    /// that has lost its last moments can mistake one for another.
    NodeId, "node "
}

number! {
    /// Names a store, for ever: random, so that two that were made apart never have the same. A copy of its files is
    /// the same store.
    StoreId, "store "
}

number! {
    /// Grows with every claim in a store. Whoever shows a smaller one to an external system comes from a claim
    /// that has been superseded.
    Fence, "fence "
}

impl NodeId {
    /// A new random one.
    #[must_use]
    pub fn random() -> Self {
        Self(fastrand::i64(1..))
    }
}

impl StoreId {
    /// A new random one.
    #[must_use]
    pub fn random() -> Self {
        Self(fastrand::i64(1..))
    }
}

/// When a job may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Due {
    /// At once. The default.
    #[default]
    Now,
    /// So long after the store has accepted it.
    After(Duration),
    /// At an instant of the store's clock; one that has passed means at once.
    At(Timestamp),
}

impl Due {
    /// The instant, for a store whose clock shows `now`.
    #[must_use]
    pub fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now.after(delay),
            Self::At(instant) => instant,
        }
    }
}

/// What becomes of a job whose node has died while it held it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnLost {
    /// It is run again, unless it has been lost [`max_crashes`](Limits::max_crashes) times in a row. The default: a
    /// job is run at least once.
    #[default]
    Rerun,
    /// It is dead. With one attempt, a job is run at most once. An attempt that a shutdown stopped counts.
    Fail,
}

/// How often a job may be tried, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Attempts before the job is dead, at least 1. Default 20.
    pub max_attempts: u32,
    /// How often in a row a node may die that holds the job before it is dead: the job may be what kills them. An attempt
    /// that ends, be it with a failure, begins the count anew. Default 3: a job that aborts its process dies of it, and
    /// those that were run beside it do not, for after two losses a job is not run beside others of which the same is
    /// true. With 0 or 1 the first loss is the end.
    pub max_crashes: u32,
    /// What becomes of it when its node dies.
    pub on_lost: OnLost,
    /// How long an attempt may run before it is asked to stop. Default: as long as it likes.
    pub timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_attempts: 20, max_crashes: 3, on_lost: OnLost::Rerun, timeout: None }
    }
}

/// What happens when the unique key of a new job belongs to one that is not over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OnConflict {
    /// The old job stays, and its id is returned. The default.
    #[default]
    Keep,
    /// The old job stays, and there is an [error](Error::is_conflict).
    Reject,
    /// The old job gets the payload and the due time of the new one. If it is already claimed it stays as it is.
    Replace,
}

/// A name that at most one job has at a time, from when it is accepted until it is over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UniqueKey {
    /// The key, up to 512 bytes, among all keys in the store.
    pub key: String,
    /// What if it is taken.
    pub on_conflict: OnConflict,
}

/// A job to be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewJob {
    /// Which handler is to run it.
    pub kind: String,
    /// What it is queued with. Default `default`.
    pub queue: String,
    /// How urgent it is.
    pub lane: Lane,
    /// When it may start.
    pub due: Due,
    /// What the handler is given: a JSON text.
    pub payload: String,
    /// Its unique key, if it has one.
    pub unique: Option<UniqueKey>,
    /// How often it may be tried.
    pub limits: Limits,
    /// What follows when it is done, one after the other; see [`then`](Self::then).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<NewJob>,
}

impl NewJob {
    /// The longest payload a store accepts, in bytes.
    pub const MAX_PAYLOAD: usize = 1 << 20;
    /// The longest name of a kind or queue, in bytes.
    pub const MAX_NAME: usize = 255;
    /// The longest unique key, in bytes.
    pub const MAX_KEY: usize = 512;
    /// The most jobs that may follow one. Their payloads count together, up to [`MAX_PAYLOAD`](Self::MAX_PAYLOAD).
    pub const MAX_CHAIN: usize = 100;

    /// A job of that kind, due now, with every option at its default.
    #[must_use]
    pub fn new(kind: impl Into<String>, payload: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            queue: "default".to_owned(),
            lane: Lane::default(),
            due: Due::Now,
            payload: payload.into(),
            unique: None,
            limits: Limits::default(),
            then: Vec::new(),
        }
    }

    /// The same job, due at another time.
    #[must_use]
    pub fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// The same job, in another queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// The same job, in another lane.
    #[must_use]
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// The same job, with a unique key.
    #[must_use]
    pub fn unique(mut self, key: impl Into<String>, on_conflict: OnConflict) -> Self {
        self.unique = Some(UniqueKey { key: key.into(), on_conflict });
        self
    }

    /// The same job, and `next` when it is done: after the last of those that follow already, with whatever follows
    /// `next`.
    ///
    /// A follow-up becomes a job in the very transaction in which the one before it is done, so it happens once. Its due
    /// time counts from then: [`Due::After`] is a pause between the two. If the job before it ends in any other way,
    /// it does not happen; it stays to be seen in [`JobRecord::then`], and if a dead job is tried again and is done at
    /// last, the chain goes on.
    ///
    /// If its unique key is taken at that moment, its policy decides: the job that has the key may get its payload and
    /// what follows it, or stays as it is. Then the chain ends, which is said in [`JobRecord::note`]; it never
    /// changes the outcome of the job before it.
    #[must_use]
    pub fn then(mut self, mut next: Self) -> Self {
        let rest = std::mem::take(&mut next.then);
        self.then.push(next);
        self.then.extend(rest);
        self
    }

    /// The first that follows, with the rest behind it.
    pub(crate) fn next_in(chain: &[Self]) -> Option<Self> {
        let (first, rest) = chain.split_first()?;
        Some(Self { then: rest.to_vec(), ..first.clone() })
    }

    /// Whether a store may accept it. Every store asks before it does anything.
    ///
    /// # Errors
    /// If a name is empty or too long or has control characters, the payload is too long, or no attempt is allowed; if
    /// too much follows it.
    pub fn check(&self) -> Result<()> {
        self.check_alone()?;
        if self.then.len() > Self::MAX_CHAIN {
            let (have, most) = (self.then.len(), Self::MAX_CHAIN);
            return Err(Error::invalid(format!(
                "a {:?} job is followed by {have}, the most is {most}",
                self.kind
            )));
        }
        let bytes: usize = self.then.iter().map(|next| next.payload.len()).sum();
        if bytes > Self::MAX_PAYLOAD {
            let most = Self::MAX_PAYLOAD;
            return Err(Error::invalid(format!(
                "the payloads of what follows a {:?} job have {bytes} bytes, the most is {most}",
                self.kind
            )));
        }
        self.then.iter().try_for_each(|next| {
            if !next.then.is_empty() {
                return Err(Error::invalid(format!(
                    "a {:?} job that follows another has a chain of its own: what follows it belongs behind it",
                    next.kind
                )));
            }
            next.check_alone()
        })
    }

    fn check_alone(&self) -> Result<()> {
        check_name("kind", &self.kind, Self::MAX_NAME)?;
        check_name("queue", &self.queue, Self::MAX_NAME)?;
        if let Some(unique) = &self.unique {
            check_name("unique key", &unique.key, Self::MAX_KEY)?;
        }
        if self.payload.len() > Self::MAX_PAYLOAD {
            let (have, most) = (self.payload.len(), Self::MAX_PAYLOAD);
            return Err(Error::invalid(format!(
                "the payload of a {:?} job has {have} bytes, the most is {most}",
                self.kind
            )));
        }
        if self.limits.max_attempts == 0 {
            return Err(Error::invalid(format!("a {:?} job with max_attempts 0 could never run", self.kind)));
        }
        Ok(())
    }
}

/// Refuses names that nobody could type, print or index.
pub(crate) fn check_name(what: &str, name: &str, most: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the {what} is empty")));
    }
    if name.len() > most {
        let start: String = name.chars().take(20).collect();
        return Err(Error::invalid(format!(
            "the {what} \"{start}…\" has {} bytes, the most is {most}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(format!("the {what} {name:?} contains a control character")));
    }
    Ok(())
}

/// Where a job is in its life.
///
/// ```text
///               claim                 report
/// Scheduled ────────────▶ Claimed ──────────────▶ Done
///  │  ▲  ▲                 │ │ └────────────────▶ Discarded
///  │  │  └─ retry, snooze, ┘ └── no more tries ─▶ Dead ──┐
///  │  │     release, lost                                │
///  │  └────────────────────── retry by hand ─────────────┘
///  └── cancel ──▶ Cancelled ◀── cancel asked for, and obeyed
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its time, or for room.
    Scheduled,
    /// A node holds it, and is about to run it, runs it, or has just run it.
    Claimed,
    /// Its handler was successful.
    Done,
    /// Its handler found that there is nothing to do any more.
    Discarded,
    /// Somebody took it back.
    Cancelled,
    /// It has failed for good, and is kept to be looked at, tried again or purged.
    Dead,
}

impl JobState {
    /// Whether nothing more will happen to the job by itself.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Claimed)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduled => "scheduled",
            Self::Claimed => "claimed",
            Self::Done => "done",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        })
    }
}

/// Everything a store knows of one job, at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRecord {
    /// Its name.
    pub id: JobId,
    /// Which handler runs it.
    pub kind: String,
    /// What it is queued with.
    pub queue: String,
    /// How urgent it is.
    pub lane: Lane,
    /// Where it is in its life.
    pub state: JobState,
    /// When it may start, or might have.
    pub due: Timestamp,
    /// Grows whenever the job changes while it waits: what was peeked under another version is out of date.
    pub version: i64,
    /// Attempts begun, the present one included.
    pub attempt: u32,
    /// How often in a row a node has died that held it.
    pub crashes: u32,
    /// How often it may be tried.
    pub limits: Limits,
    /// Its unique key.
    pub unique: Option<String>,
    /// What the handler is given. Gone once the job is over, unless it is dead.
    pub payload: Option<String>,
    /// When the store accepted it.
    pub created: Timestamp,
    /// Who holds it or held it last.
    pub owner: Option<NodeId>,
    /// The number of the claim by which the owner holds or held it.
    pub fence: Fence,
    /// When it was last claimed.
    pub claimed: Option<Timestamp>,
    /// Whether its owner has been asked to give it up.
    pub cancel_requested: bool,
    /// Whether its handler has completed it, in a transaction of its own that has been committed, and its node has not
    /// reported that yet: see [`JobContext`](crate::JobContext#exactly-once). Whatever is reported, it will be done.
    #[serde(default)]
    pub completed: bool,
    /// What its handler has asked to follow it, with [`JobContext::then`](crate::JobContext::then), and has completed it
    /// with. Empty unless it is [completed](Self::completed).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<NewJob>,
    /// When it was over.
    pub finished: Option<Timestamp>,
    /// Why it failed, was discarded or died, the last time; for one that is done, what kept its follow-ups from being
    /// accepted.
    pub note: Option<String>,
    /// The schedule that it is an occurrence of, and its nominal time.
    pub series: Option<(String, Timestamp)>,
    /// How many occurrences of that schedule have come to nothing since the one before: they were missed, or skipped
    /// because another one was alive.
    #[serde(default)]
    pub missed: u64,
    /// The job that this one follows.
    pub parent: Option<JobId>,
    /// What follows when it is done. Empty once it is: then these are jobs, of which it is the [parent](Self::parent).
    pub then: Vec<NewJob>,
}

impl JobRecord {
    /// The record of a job that has just been accepted.
    #[must_use]
    pub fn accepted(id: JobId, job: NewJob, now: Timestamp) -> Self {
        Self {
            id,
            kind: job.kind,
            queue: job.queue,
            lane: job.lane,
            state: JobState::Scheduled,
            due: job.due.instant(now),
            version: 1,
            attempt: 0,
            crashes: 0,
            limits: job.limits,
            unique: job.unique.map(|unique| unique.key),
            payload: Some(job.payload),
            created: now,
            owner: None,
            fence: Fence(0),
            claimed: None,
            cancel_requested: false,
            completed: false,
            asked: Vec::new(),
            finished: None,
            note: None,
            series: None,
            missed: 0,
            parent: None,
            then: job.then,
        }
    }
}

/// One failed attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The claim it belonged to.
    pub fence: Fence,
    /// Which attempt it was, counted from 1.
    pub attempt: u32,
    /// When it was recorded.
    pub at: Timestamp,
    /// What went wrong.
    pub message: String,
}

impl Failure {
    /// A failure as a store keeps it.
    #[must_use]
    pub fn new(fence: Fence, attempt: u32, at: Timestamp, message: impl Into<String>) -> Self {
        Self { fence, attempt, at, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_no_store_could_keep_is_refused_with_its_name() {
        let long = "x".repeat(600);
        let wrong = [
            (NewJob::new("", "{}"), "the kind is empty"),
            (NewJob::new("mail\n", "{}"), "the kind \"mail\\n\" contains a control character"),
            (NewJob::new("mail", "{}").queue(&long), "has 600 bytes, the most is 255"),
            (NewJob::new("mail", "{}").unique(&long, OnConflict::Keep), "has 600 bytes, the most is 512"),
            (NewJob::new("mail", "x".repeat(NewJob::MAX_PAYLOAD + 1)), "has 1048577 bytes"),
            (
                NewJob {
                    limits: Limits { max_attempts: 0, ..Limits::default() },
                    ..NewJob::new("mail", "{}")
                },
                "max_attempts 0",
            ),
            (NewJob::new("mail", "{}").then(NewJob::new("", "{}")), "the kind is empty"),
            (
                NewJob { then: vec![NewJob::new("a", "{}"); 101], ..NewJob::new("mail", "{}") },
                "followed by 101",
            ),
            (
                NewJob::new("mail", "{}")
                    .then(NewJob::new("a", "x".repeat(NewJob::MAX_PAYLOAD)))
                    .then(NewJob::new("a", "x")),
                "have 1048577 bytes",
            ),
            (
                NewJob {
                    then: vec![NewJob::new("a", "{}").then(NewJob::new("b", "{}"))],
                    ..NewJob::new("mail", "{}")
                },
                "\"a\" job that follows another has a chain",
            ),
        ];
        for (job, message) in wrong {
            let error = job.check().unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(message), "{error}");
        }
        NewJob::new("mail", "x".repeat(NewJob::MAX_PAYLOAD)).check().unwrap();
    }

    #[test]
    fn a_chain_is_flat_however_it_is_put_together() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|kind| NewJob::new(kind, "{}"));
        let chain = a.then(b.then(c)).then(d);
        let kinds: Vec<_> = chain.then.iter().map(|job| job.kind.as_str()).collect();
        assert_eq!(kinds, ["b", "c", "d"]);
        chain.check().unwrap();
        let next = NewJob::next_in(&chain.then).unwrap();
        assert_eq!((next.kind.as_str(), next.then.len()), ("b", 2));
        assert_eq!(NewJob::next_in(&[]), None);
    }
}
