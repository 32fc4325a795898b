//! The front door: open a store, say what can be run, start.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual::{Clock, SystemClock};
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::context::JobContext;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::NodeId;
use crate::node::{Node, Observe, Settings};
use crate::outcome::{JobError, Outcome};
use crate::post::PostBox;
use crate::registry::{KindOptions, Registry};
use crate::store::{MemoryStore, Store};
use crate::watch::Watch;

/// Durable jobs: a store, and a node that runs what is in it.
///
/// It derefs to [`Client`], which has everything about single jobs. Dropping it is a [`shutdown`](Self::shutdown)
/// without patience.
///
/// ```
/// use punctual_durable::{Done, JobState, Jobs};
/// use serde::{Deserialize, Serialize};
/// use std::{sync::mpsc, time::Duration};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendInvoice { customer: u64 }
///
/// let (sent, invoices) = mpsc::channel();
/// let jobs = Jobs::open("memory:")? // or "sqlite:jobs.db"
///     .handle("send-invoice", move |job: SendInvoice, _| {
///         sent.send(job.customer)?;
///         Ok(Done)
///     })
///     .start()?;
/// jobs.enqueue(SendInvoice { customer: 7 }).after(Duration::from_millis(5)).unique("invoice-7").send()?;
/// assert_eq!(invoices.recv()?, 7);
/// jobs.shutdown(Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Jobs {
    client: Client,
    /// `None` if nothing can be run here.
    node: Option<Arc<Node>>,
}

impl Jobs {
    /// Opens the store that `url` names: `sqlite:` and the path of a file (feature `sqlite`), `postgres://` and a database
    /// that any number of nodes share (feature `postgres`), or `memory:` for one that lives and dies with this value.
    ///
    /// # Errors
    /// If the url makes no sense or the store cannot be opened.
    pub fn open(url: &str) -> Result<JobsBuilder> {
        Ok(Self::on(open(url)?))
    }

    /// On a store that is open already.
    pub fn on(store: Arc<dyn Store>) -> JobsBuilder {
        JobsBuilder {
            store,
            registry: Ok(Registry::default()),
            settings: Settings {
                concurrency: std::thread::available_parallelism().map_or(4, usize::from).saturating_mul(2),
                async_limit: 1_000,
                poll: Duration::from_millis(100),
                lease: Duration::from_secs(10),
                retain: Duration::from_secs(7 * 86_400),
                clock: Arc::new(SystemClock::new()),
                observe: None,
            },
        }
    }

    /// The client alone: it outlives the node, and keeps nothing running.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The name of the node, if anything can be run here.
    #[must_use]
    pub fn node_id(&self) -> Option<NodeId> {
        self.node.as_ref().map(|node| node.id())
    }

    /// Stops running jobs.
    ///
    /// Nothing more is claimed; jobs that were claimed and have not begun are given back. Handlers that run have
    /// `patience` to end; then they are [asked to stop](JobContext::stopped), and have as long again. What fails
    /// because it was asked to stop is given back, and the attempt does not count, except for jobs that must not be run
    /// again when they are [lost](crate::OnLost::Fail). Everything that has ended is recorded. Whoever still waits for an
    /// [outcome](Client::outcome) is told that it did not come. Says how many handlers heeded none of it: as long as the
    /// process lives they go on, and when they end they are recorded; if it ends before, their jobs count as lost.
    ///
    /// If the store fails, it is tried again for as long as there is patience left. If it does not answer, it is waited for
    /// as long, or ten seconds if that is more.
    ///
    /// # Errors
    /// If the store fails to the last, or does not answer; that is [transient](Error::is_transient). What could not be
    /// recorded is recorded when the store is back, if the process lives to see it; otherwise those jobs count as lost when
    /// the lease of the node is over.
    pub fn shutdown(mut self, patience: Duration) -> Result<usize> {
        self.node.take().map_or(Ok(0), |node| node.shut_down(patience))
    }
}

fn open(url: &str) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) => {
            Ok(Arc::new(crate::store::SqliteStore::open(path.strip_prefix("//").unwrap_or(path))?))
        }
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(crate::store::PostgresStore::open(url)?)),
        #[cfg(not(feature = "sqlite"))]
        Some(("sqlite", _)) => {
            Err(Error::invalid("jobs in a file need the feature \"sqlite\" of punctual-durable"))
        }
        #[cfg(not(feature = "postgres"))]
        Some(("postgres" | "postgresql", _)) => {
            Err(Error::invalid("jobs in PostgreSQL need the feature \"postgres\" of punctual-durable"))
        }
        Some((scheme, _)) => Err(Error::invalid(format!(
            "no store is called {scheme:?}: there are memory, sqlite and postgres"
        ))),
        None => Err(Error::invalid(format!("{url:?} names no store: sqlite:jobs.db would"))),
    }
}

impl Deref for Jobs {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if let Some(node) = &self.node {
            // What could not be recorded is recorded later, or rescued by another node.
            let _ = node.shut_down(Duration::ZERO);
        }
        self.client.stop_waiting();
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("client", &self.client).field("node", &self.node).finish()
    }
}

/// Puts a [`Jobs`] together; see [`Jobs::open`]. Everything is checked in [`start`](Self::start).
#[must_use = "nothing runs before it is started"]
pub struct JobsBuilder {
    store: Arc<dyn Store>,
    /// What is wrong is told at the start.
    registry: Result<Registry>,
    settings: Settings,
}

impl JobsBuilder {
    fn register(mut self, add: impl FnOnce(&mut Registry) -> Result<()>) -> Self {
        self.registry = self.registry.and_then(|mut registry| add(&mut registry).map(|()| registry));
        self
    }

    /// Runs jobs of this kind with `handler`, with every option at its default.
    ///
    /// The handler is given the payload and its [context](JobContext). It may be called again for the same job, on this
    /// node or another: what it does should bear being done twice.
    pub fn handle<J, F>(self, kind: &str, handler: F) -> Self
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, &JobContext) -> Result<Outcome, JobError> + Send + Sync + 'static,
    {
        self.handle_with(kind, KindOptions::new(), handler)
    }

    /// Runs jobs of this kind with `handler`, with these options.
    pub fn handle_with<J, F>(self, kind: &str, options: KindOptions, handler: F) -> Self
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, &JobContext) -> Result<Outcome, JobError> + Send + Sync + 'static,
    {
        self.register(|registry| registry.handle(kind, options, handler))
    }

    /// Runs jobs of this kind with an async handler, with every option at its default.
    ///
    /// Its future is polled by the workers of the node; no runtime is needed. While it waits it holds no thread: see
    /// [`async_limit`](Self::async_limit). What needs a runtime of its own (`tokio`'s sockets and timers, say) runs
    /// there through [`punctual::run_on`], which is a future like others.
    ///
    /// When it is asked to stop (cancelled, timed out, the node shuts down) it is dropped where it waits, unless its kind
    /// is [cooperative](KindOptions::cooperative). One that can never be woken again fails.
    ///
    /// ```
    /// use punctual::ManualClock;
    /// use punctual_durable::{Done, JobContext, JobState, Jobs, MemoryStore};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = ManualClock::new();
    /// let jobs = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone())))
    ///     .clock(clock.clone())
    ///     .concurrency(1)
    ///     .handle_async("ping", |host: String, cx: JobContext| async move {
    ///         cx.sleep_async(Duration::from_secs(1)).await?;
    ///         cx.log(format!("{host} is there"));
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// // A hundred at once, on one thread.
    /// let ids: Vec<_> = jobs.enqueue_many((0..100).map(|n| format!("host {n}")))?;
    /// clock.advance(Duration::from_secs(1));
    /// for id in ids {
    ///     assert_eq!(jobs.job(id.id())?.unwrap().state, JobState::Done);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handle_async<J, F, A>(self, kind: &str, handler: F) -> Self
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, JobContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Outcome, JobError>> + Send + 'static,
    {
        self.handle_async_with(kind, KindOptions::new(), handler)
    }

    /// Runs jobs of this kind with an async handler, with these options.
    pub fn handle_async_with<J, F, A>(self, kind: &str, options: KindOptions, handler: F) -> Self
    where
        J: DeserializeOwned + 'static,
        F: Fn(J, JobContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Outcome, JobError>> + Send + 'static,
    {
        self.register(|registry| registry.handle_async(kind, options, handler))
    }

    /// Declares a kind that is enqueued here and run elsewhere.
    pub fn declare<J: 'static>(self, kind: &str, options: KindOptions) -> Self {
        self.register(|registry| registry.declare::<J>(kind, options))
    }

    /// How many handlers may run at once, at least 1. Default: twice the number of processors.
    pub fn concurrency(mut self, threads: usize) -> Self {
        self.settings.concurrency = threads;
        self
    }

    /// How many async handlers may be under way beyond [`concurrency`](Self::concurrency), because they hold no thread
    /// while they wait. Default 1,000. With 0 they count like others.
    pub fn async_limit(mut self, most: usize) -> Self {
        self.settings.async_limit = most;
        self
    }

    /// How often the node looks for jobs that others have enqueued. Default 100 ms. Jobs that were enqueued through this
    /// value, and those seen before, start on time however long this is.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll = interval;
        self
    }

    /// How long others wait before they take this node for dead, where the store has no better means to know. Default
    /// 10 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long jobs that are over are kept, to be looked at. Default a week. Dead ones stay until they are
    /// [retried](Client::retry) or [purged](Client::purge).
    pub fn retain(mut self, time: Duration) -> Self {
        self.settings.retain = time;
        self
    }

    /// The clock that the node waits by. Default: the machine's. It should run at the pace of the store's time.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.settings.clock = Arc::new(clock);
        self
    }

    /// Is told what happens on the node, by the thread that talks to the store: it should be brief. It may call back;
    /// no lock is held. By default nobody is told.
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        let observe: Observe = Arc::new(observer);
        self.settings.observe = Some(observe);
        self
    }

    /// Starts the node, if any kind has a handler; otherwise the result can only enqueue and look.
    ///
    /// # Errors
    /// If a kind was given twice or makes no sense, or a setting is zero.
    pub fn start(self) -> Result<Jobs> {
        let registry = Arc::new(self.registry?);
        let settings = &self.settings;
        if settings.concurrency == 0 {
            return Err(Error::invalid("with a concurrency of 0 nothing could run"));
        }
        for (what, time) in [("poll interval", settings.poll), ("lease", settings.lease)] {
            if time < Duration::from_millis(1) {
                return Err(Error::invalid(format!("a {what} of {time:?} is less than a millisecond")));
            }
        }
        if registry.runnable().is_empty() {
            let post = PostBox::new(Arc::clone(&self.settings.clock))?;
            let watch = Watch::new(Arc::clone(&self.store), self.settings.clock, self.settings.poll)?;
            return Ok(Jobs {
                client: Client::new(self.store, registry, post, watch, Weak::new()),
                node: None,
            });
        }
        let node = Node::start(self.store, registry, self.settings)?;
        Ok(Jobs { client: node.client(), node: Some(node) })
    }
}

impl fmt::Debug for JobsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobsBuilder")
            .field("store", &self.store)
            .field("kinds", &self.registry)
            .field("concurrency", &self.settings.concurrency)
            .field("poll_interval", &self.settings.poll)
            .field("lease", &self.settings.lease)
            .finish_non_exhaustive()
    }
}
