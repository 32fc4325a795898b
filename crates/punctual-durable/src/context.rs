//! What a handler knows of its job.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use punctual::TaskContext;

use crate::client::{Client, NewJobBuilder};
use crate::error::{Error, Result};
use crate::job::{Fence, JobId, JobRecord, NewJob};
use crate::journal::{self, Pen, Update};
use crate::signal::{Signal, Stop, StopRequested};
use crate::time::Timestamp;

/// One attempt, as its handler sees it. Clones are cheap, and speak of the same attempt; when that is over they have no
/// effect any more.
///
/// # Exactly once
/// A handler may be called more than once for a job. What it writes to the database in which the job is kept can happen
/// exactly once all the same, if it completes the job in the same transaction: with
/// `complete_in` of `PostgresStore` or `SqliteStore`, or in any language with the SQL function `punctual.complete`.
#[derive(Clone)]
pub struct JobContext(Arc<Inner>);

struct Inner {
    job: Arc<JobRecord>,
    signal: Arc<Signal>,
    client: Client,
    follow_ups: Mutex<FollowUps>,
    pen: Pen,
}

/// What is to follow if the attempt is successful.
#[derive(Default)]
struct FollowUps {
    jobs: Vec<NewJob>,
    /// Whether they have been written into a transaction of the handler. Nobody knows whether that is committed: so they
    /// stay here, for the report or for another transaction, and are the same for ever.
    sealed: bool,
}

impl JobContext {
    pub(crate) fn new(job: Arc<JobRecord>, signal: Arc<Signal>, client: Client) -> Self {
        let (follow_ups, pen) = (Mutex::default(), Pen::default());
        Self(Arc::new(Inner { job, signal, client, follow_ups, pen }))
    }

    fn follow_ups(&self) -> MutexGuard<'_, FollowUps> {
        self.0.follow_ups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_follow_ups(&self) -> Vec<NewJob> {
        std::mem::take(&mut self.follow_ups().jobs)
    }

    /// What is to follow, to which nothing is added any more.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn seal(&self) -> Vec<NewJob> {
        let mut follow_ups = self.follow_ups();
        follow_ups.sealed = true;
        follow_ups.jobs.clone()
    }

    pub(crate) fn job(&self) -> &JobRecord {
        &self.0.job
    }

    /// Id, fence and owner, as stores keep them.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn holding(&self) -> (i64, i64, i64) {
        let JobRecord { id, fence, owner, .. } = self.job();
        (id.as_i64(), fence.as_i64(), owner.map_or(0, |owner| owner.as_i64()))
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.0.signal
    }

    /// The id of the job: the same for every attempt, so it can serve as a key to do things once.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// Which attempt this is, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Whether the job is dead if this attempt fails.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.0.job.attempt >= self.0.job.limits.max_attempts
    }

    /// The number of this claim. It is greater than that of every claim before it: an external system that
    /// remembers the greatest it has seen can refuse a handler that has been superseded.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.job.fence
    }

    /// When the job was due.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.0.job.due
    }

    /// The schedule that this is an occurrence of, and its nominal time, which is the same for every attempt.
    #[must_use]
    pub fn series(&self) -> Option<(&str, Timestamp)> {
        self.0.job.series.as_ref().map(|(name, nominal)| (name.as_str(), *nominal))
    }

    /// How many occurrences of the schedule have come to nothing since the one before this: nobody was there to make them,
    /// or they were skipped because another one was alive. 0 for one that somebody has asked for. Times of a cron
    /// expression are counted up to a thousand for each absence.
    ///
    /// ```
    /// # use punctual::ManualClock;
    /// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore};
    /// # use std::{sync::Arc, sync::mpsc, time::Duration};
    /// # let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
    /// # let (sender, receiver) = mpsc::channel();
    /// let jobs = builder
    ///     .handle("sum-up", move |_: (), cx: &JobContext| {
    ///         sender.send(format!("{} hours", 1 + cx.missed()))?;
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// jobs.schedule("hourly").every(hour).job(()).save()?;
    /// clock.advance(hour);
    /// clock.jump(5 * hour); // the machine was asleep
    /// clock.advance(hour);
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["1 hours", "5 hours", "1 hours"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.0.job.missed
    }

    /// Everything the store knew of the job when it was claimed.
    #[must_use]
    pub fn record(&self) -> &JobRecord {
        &self.0.job
    }

    /// Whether and why the handler is asked to stop. Handlers that take long look from time to time.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        self.0.signal.raised()
    }

    /// The request to stop as an error, for use with `?`.
    ///
    /// # Errors
    /// [`Stop`] if the handler is asked to stop.
    pub fn check(&self) -> std::result::Result<(), Stop> {
        self.stopped().map_or(Ok(()), Err)
    }

    /// Waits for `time` on the clock of the node. For sync handlers; see [`sleep_async`](Self::sleep_async).
    ///
    /// # Errors
    /// [`Stop`], at once, if the handler is asked to stop.
    pub fn sleep(&self, time: Duration) -> std::result::Result<(), Stop> {
        self.check()?;
        match TaskContext::current().sleep(time) {
            Ok(()) => self.check(),
            Err(_) => Err(self.stopped().unwrap_or(Stop::Shutdown)),
        }
    }

    /// Ready when the handler is asked to stop. Handlers of [cooperative](crate::KindOptions::cooperative) kinds wait for it
    /// beside whatever else they wait for; others are dropped then.
    pub fn stop_requested(&self) -> StopRequested {
        StopRequested::new(Arc::clone(&self.0.signal))
    }

    /// Waits for `time` on the clock of the node, in an async handler: no thread is held meanwhile.
    ///
    /// # Errors
    /// [`Stop`], at once, if the handler is asked to stop.
    pub async fn sleep_async(&self, time: Duration) -> std::result::Result<(), Stop> {
        let Some(sleep) = self.0.client.timer(time) else { return Err(Stop::Shutdown) };
        let (mut sleep, mut stop) = (pin!(sleep), pin!(self.stop_requested()));
        poll_fn(|context| match stop.as_mut().poll(context) {
            Poll::Ready(stop) => Poll::Ready(Err(stop)),
            Poll::Pending => sleep.as_mut().poll(context).map_err(|_| Stop::Shutdown),
        })
        .await
    }

    /// Says how far the job has come, from 0 to 1, and what it is doing. The newest counts.
    ///
    /// It is kept in the store soon, not at once: so it costs little, and may be said often. See
    /// [`Client::log`](crate::Client::log).
    ///
    /// ```
    /// # use punctual::ManualClock;
    /// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore};
    /// # use std::{sync::Arc, time::Duration};
    /// # let clock = ManualClock::new();
    /// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
    /// let jobs = builder
    ///     .handle("copy", |files: Vec<String>, cx: &JobContext| {
    ///         for (done, file) in files.iter().enumerate() {
    ///             cx.progress(done as f64 / files.len() as f64, format!("copying {file}"));
    ///             cx.sleep(Duration::from_secs(60))?;
    ///             cx.log(format!("copied {file}"));
    ///         }
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// let id = jobs.enqueue(vec!["a".to_owned(), "b".to_owned()]).send()?.id();
    /// clock.advance(Duration::from_secs(90));
    /// let log = jobs.log(id)?;
    /// assert_eq!(log.progress.unwrap().to_string(), "50% copying b");
    /// assert_eq!(log.lines[0].text, "copied a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn progress(&self, fraction: f64, message: impl Into<String>) {
        let at = self.0.client.store().now();
        let progress = Some(journal::progress(self.0.job.fence, at, fraction, message.into()));
        self.0.client.tell(Update { progress, ..Update::new(self.0.job.id, self.0.job.fence) });
    }

    /// Writes a line into the log of the job, which is kept as long as the job is. Of one attempt the first thousand
    /// lines are kept, and no more than 64 KiB.
    pub fn log(&self, line: impl Into<String>) {
        let at = self.0.client.store().now();
        if let Some(line) = self.0.pen.line(self.0.job.fence, at, line.into()) {
            let lines = vec![line];
            self.0.client.tell(Update { lines, ..Update::new(self.0.job.id, self.0.job.fence) });
        }
    }

    /// Has `next` follow if this attempt is successful: it is accepted in the very transaction that records the job as
    /// done, so it happens once, however often the handler is called. If the attempt ends in any other way, it is
    /// forgotten. See [`NewJob::then`] for due times and unique keys.
    ///
    /// It is beside whatever the job was enqueued with, and may be said several times: the jobs do not wait for each
    /// other.
    ///
    /// ```
    /// # use punctual_durable::{Done, JobContext, Jobs};
    /// # use std::{sync::mpsc, time::Duration};
    /// # let (sender, receiver) = mpsc::channel();
    /// let jobs = Jobs::open("memory:")?
    ///     .handle("count-down", move |number: u32, cx: &JobContext| {
    ///         if number > 0 {
    ///             cx.then(cx.client().enqueue(number - 1).after(Duration::from_millis(1)))?;
    ///         }
    ///         sender.send(number)?;
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// jobs.enqueue(2_u32).send()?;
    /// assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [2, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A handler that completes its job [in a transaction](Self#exactly-once) says this before: `complete_in` keeps what
    /// is to follow in the same transaction.
    ///
    /// # Errors
    /// If `next` makes no sense, this is more than [`NewJob::MAX_CHAIN`], or `complete_in` has been called, whatever became
    /// of its transaction.
    pub fn then(&self, next: NewJobBuilder<'_>) -> Result<()> {
        let next = next.into_job()?;
        let mut follow_ups = self.follow_ups();
        if follow_ups.sealed {
            let kind = &self.0.job.kind;
            return Err(Error::invalid(format!(
                "what follows a {kind:?} job is to be said before it is completed in a transaction"
            )));
        }
        if follow_ups.jobs.len() >= NewJob::MAX_CHAIN {
            let most = NewJob::MAX_CHAIN;
            return Err(Error::invalid(format!(
                "a {:?} job is to be followed by more than {most}",
                self.0.job.kind
            )));
        }
        follow_ups.jobs.push(next);
        Ok(())
    }

    /// For jobs that have nothing to do with the success of this one: they are accepted when they are sent.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job", &self.0.job)
            .field("stopped", &self.stopped())
            .finish_non_exhaustive()
    }
}
