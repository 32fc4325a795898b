//! Kinds of jobs: their names, their options, their handlers, and the Rust types of their payloads.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::JobContext;
use crate::error::{Error, Result};
use crate::job::{Limits, NewJob, OnLost, check_name};
use crate::lane::Lane;
use crate::outcome::{JobError, Outcome};
use crate::retry::Backoff;

/// What jobs of one kind have in common. Each job may still differ.
///
/// ```
/// use punctual_durable::{Backoff, KindOptions, Lane};
/// use std::time::Duration;
///
/// let options = KindOptions::new()
///     .queue("mail")
///     .lane(Lane::Low)
///     .max_attempts(5)
///     .timeout(Duration::from_secs(30))
///     .backoff(Backoff::fixed(Duration::from_secs(60)));
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do something only when a kind is given them"]
pub struct KindOptions {
    pub(crate) queue: String,
    pub(crate) lane: Lane,
    pub(crate) limits: Limits,
    pub(crate) backoff: Backoff,
    pub(crate) cooperative: bool,
    pub(crate) exclusive: bool,
}

impl KindOptions {
    /// Every option at its default.
    pub fn new() -> Self {
        Self {
            queue: "default".to_owned(),
            lane: Lane::default(),
            limits: Limits::default(),
            backoff: Backoff::default(),
            cooperative: false,
            exclusive: false,
        }
    }

    /// What its jobs are queued with. Default `default`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// How urgent its jobs are. Default [`Lane::Normal`].
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// Attempts before a job is dead, at least 1. Default 20.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.limits.max_attempts = attempts;
        self
    }

    /// How often in a row a node may die that holds a job before the job is dead. Default 3; see
    /// [`Limits::max_crashes`].
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.limits.max_crashes = crashes;
        self
    }

    /// What becomes of a job whose node died. Default: it is run again.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.limits.on_lost = on_lost;
        self
    }

    /// At most once: one attempt, and no other, be it that the node dies or is shut down meanwhile.
    pub fn at_most_once(self) -> Self {
        self.max_attempts(1).on_lost(OnLost::Fail)
    }

    /// How long an attempt may run before it is asked to stop. Default: as long as it likes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// Its async handlers take care of themselves when they are [asked to stop](JobContext::stop_requested). By default
    /// they are dropped where they wait. (Sync handlers cannot be dropped, and are always asked.)
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Its handlers are asked to stop when the node has not been able to renew its lease, and a sixth of it is left: for
    /// that long they can count on it that no other node has begun the same job. By default they go on: if nobody has taken
    /// the job by the time they end, what they did counts, and otherwise it does not.
    ///
    /// What fails because of that is given back, as at a [shutdown](crate::Jobs::shutdown). A handler that does not heed
    /// it goes on all the same: [`JobContext::fence`] is what others can refuse it by.
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// How long to wait after a failure. Default: a second, doubled each time, at most an hour.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

impl Default for KindOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What a handler answers.
pub(crate) type Answer = Result<Outcome, JobError>;

/// An answer that is on its way.
pub(crate) type Coming = Pin<Box<dyn Future<Output = Answer> + Send>>;

type RunSync = dyn Fn(&str, &JobContext) -> Answer + Send + Sync;
type RunAsync = dyn Fn(&str, JobContext) -> Coming + Send + Sync;

/// A handler that has forgotten the type of its payload.
#[derive(Clone)]
pub(crate) enum Run {
    Sync(Arc<RunSync>),
    Async(Arc<RunAsync>),
}

/// What cannot be read today cannot be read tomorrow: it is kept with the dead, and looked at.
fn decode<J: DeserializeOwned>(payload: &str) -> Result<J, JobError> {
    serde_json::from_str(payload)
        .map_err(|error| JobError::permanent(format!("the payload cannot be read: {error}")))
}

/// One kind.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) options: KindOptions,
    /// `None` if this process only enqueues it.
    pub(crate) run: Option<Run>,
}

/// All kinds that a process knows. Immutable after the builder is done.
#[derive(Default)]
pub(crate) struct Registry {
    kinds: HashMap<String, Kind>,
    /// The kinds of each payload type: a type may serve several.
    types: HashMap<TypeId, Vec<String>>,
}

impl Registry {
    pub(crate) fn declare<J: 'static>(&mut self, name: &str, options: KindOptions) -> Result<()> {
        self.insert::<J>(name, Kind { options, run: None })
    }

    pub(crate) fn handle<J, F>(&mut self, name: &str, options: KindOptions, handler: F) -> Result<()>
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, &JobContext) -> Result<Outcome, JobError> + Send + Sync + 'static,
    {
        let run = Run::Sync(Arc::new(move |payload, context| handler(decode(payload)?, context)));
        self.insert::<J>(name, Kind { options, run: Some(run) })
    }

    pub(crate) fn handle_async<J, F, A>(&mut self, name: &str, options: KindOptions, handler: F) -> Result<()>
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, JobContext) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let run = Run::Async(Arc::new(move |payload, context| match decode(payload) {
            Ok(job) => Box::pin(handler(job, context)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }));
        self.insert::<J>(name, Kind { options, run: Some(run) })
    }

    fn insert<J: 'static>(&mut self, name: &str, kind: Kind) -> Result<()> {
        check_name("kind", name, NewJob::MAX_NAME)?;
        check_name("queue", &kind.options.queue, NewJob::MAX_NAME)?;
        if kind.options.limits.max_attempts == 0 {
            return Err(Error::invalid(format!("a {name:?} job with max_attempts 0 could never run")));
        }
        if self.kinds.contains_key(name) {
            return Err(Error::invalid(format!("the kind {name:?} is given twice")));
        }
        self.kinds.insert(name.to_owned(), kind);
        self.types.entry(TypeId::of::<J>()).or_default().push(name.to_owned());
        Ok(())
    }

    pub(crate) fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// Whether a kind that can be run here is exclusive.
    pub(crate) fn has_exclusive(&self) -> bool {
        self.kinds.values().any(|kind| kind.run.is_some() && kind.options.exclusive)
    }

    /// The names of the kinds that can be run here, in order.
    pub(crate) fn runnable(&self) -> Arc<[String]> {
        let mut names: Vec<String> =
            self.kinds.iter().filter(|(_, kind)| kind.run.is_some()).map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.into()
    }

    /// The job for a payload whose type belongs to one kind.
    pub(crate) fn new_job<J: Serialize + 'static>(&self, payload: &J) -> Result<NewJob> {
        match self.types.get(&TypeId::of::<J>()).map(Vec::as_slice) {
            Some([kind]) => self.new_job_of(kind, payload),
            Some(kinds) => Err(Error::invalid(format!(
                "a {} may be any of the kinds {kinds:?}: say which with enqueue_as",
                type_name::<J>()
            ))),
            None => Err(Error::invalid(format!(
                "no kind has been declared for payloads of type {}",
                type_name::<J>()
            ))),
        }
    }

    /// The job for a payload of that kind. A kind that nobody declared here has the default options.
    pub(crate) fn new_job_of<J: Serialize>(&self, kind: &str, payload: &J) -> Result<NewJob> {
        let payload = serde_json::to_string(payload).map_err(|error| {
            Error::invalid(format!("the payload of a {kind:?} job cannot be written")).with_source(error)
        })?;
        let mut job = NewJob::new(kind, payload);
        if let Some(Kind { options, .. }) = self.kind(kind) {
            job.queue.clone_from(&options.queue);
            job.lane = options.lane;
            job.limits = options.limits;
        }
        Ok(job)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}
