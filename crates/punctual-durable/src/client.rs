//! The side that asks for jobs: enqueue, cancel, look.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::doctor::{self, Finding};
use crate::error::{Error, Result};
use crate::job::{Due, Failure, JobId, JobRecord, NewJob, OnConflict, OnLost};
use crate::journal::{JobLog, Update};
use crate::lane::Lane;
use crate::node::Node;
use crate::post::{PostBox, Receipt};
use crate::registry::Registry;
use crate::schedule::{NewSchedule, ScheduleRecord};
use crate::schedule_builder::ScheduleBuilder;
use crate::store::{
    Cancelling, Density, Enqueued, Filter, Moved, News, NodeRecord, QueueChange, QueueRecord, Saved,
    ScheduleChange, Store, Ticket,
};
use crate::tally::{ErrorTally, RunTally};
use crate::time::Timestamp;
use crate::watch::{JobOutcome, Watch};

/// Talks to the store. Clones are cheap, and keep nothing running.
///
/// A [`Jobs`](crate::Jobs) is one, too; a handler has one in its [context](crate::JobContext::client).
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    post: Arc<PostBox>,
    watch: Arc<Watch>,
    /// The node in this process, if there is one: it is told at once what others find by looking.
    node: Weak<Node>,
}

impl Client {
    /// The most occurrences that one [`backfill`](Self::backfill) makes.
    pub const MAX_BACKFILL: usize = 1_000;

    pub(crate) fn new(
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        post: Arc<PostBox>,
        watch: Arc<Watch>,
        node: Weak<Node>,
    ) -> Self {
        Self { store, registry, post, watch, node }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Describes a job by its payload, whose type says which kind it is. Nothing happens before
    /// [`send`](NewJobBuilder::send).
    pub fn enqueue<J: Serialize + 'static>(&self, payload: J) -> NewJobBuilder<'_> {
        NewJobBuilder { client: self, job: self.registry.new_job(&payload) }
    }

    /// Describes a job by the name of its kind, which need not be known here, and its payload.
    pub fn enqueue_as<J: Serialize>(&self, kind: &str, payload: J) -> NewJobBuilder<'_> {
        NewJobBuilder { client: self, job: self.registry.new_job_of(kind, &payload) }
    }

    /// Accepts many jobs at once, for the price of one commit: all of them or none.
    ///
    /// # Errors
    /// As [`NewJobBuilder::send`].
    pub fn enqueue_many<J: Serialize + 'static>(
        &self,
        payloads: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Enqueued>> {
        let jobs = payloads.into_iter().map(|payload| self.registry.new_job(&payload));
        self.send(jobs.collect::<Result<_>>()?)
    }

    /// Accepts jobs as they are: all of them or none.
    ///
    /// # Errors
    /// As [`Store::enqueue`].
    pub fn send(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        let runnable: Vec<bool> = jobs.iter().map(|job| self.is_run_here(&job.kind)).collect();
        let answers = self.store.enqueue(jobs)?;
        let tickets =
            answers.iter().zip(runnable).filter(|(_, here)| *here).filter_map(|(answer, _)| match answer {
                Enqueued::New(ticket) | Enqueued::Replaced(ticket) => Some(*ticket),
                Enqueued::Existing(_) => None,
            });
        self.hint(tickets.collect());
        Ok(answers)
    }

    pub(crate) fn is_run_here(&self, kind: &str) -> bool {
        self.registry.kind(kind).is_some_and(|kind| kind.run.is_some())
    }

    fn hint(&self, tickets: Vec<Ticket>) {
        if let Some(node) = self.node.upgrade().filter(|_| !tickets.is_empty()) {
            node.hint(tickets);
        }
    }

    /// Takes a job back; see [`Cancelling`].
    ///
    /// # Errors
    /// If the store fails.
    pub fn cancel(&self, id: JobId) -> Result<Cancelling> {
        let answer = self.store.cancel(vec![id])?.pop().unwrap_or(Cancelling::Unknown);
        if answer == Cancelling::Requested
            && let Some(node) = self.node.upgrade()
        {
            node.cancel(id);
        }
        if answer == Cancelling::Cancelled {
            self.watch.cancelled(id);
        }
        Ok(answer)
    }

    /// Changes when a waiting job is due.
    ///
    /// # Errors
    /// If the store fails.
    pub fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        let moved = self.store.reschedule(id, due)?;
        self.hint_moved(moved);
        Ok(moved)
    }

    /// Lets a waiting job run at once.
    ///
    /// # Errors
    /// If the store fails.
    pub fn run_now(&self, id: JobId) -> Result<Moved> {
        self.reschedule(id, Due::Now)
    }

    /// Gives a dead job another life, at once.
    ///
    /// # Errors
    /// If its unique key is taken by another job now, or the store fails.
    pub fn retry(&self, id: JobId) -> Result<Moved> {
        let moved = self.store.retry(id, Due::Now)?;
        self.hint_moved(moved);
        Ok(moved)
    }

    fn hint_moved(&self, moved: Moved) {
        // Its kind is not known here; a ticket of a foreign kind claims nothing.
        if let Moved::Waiting(ticket) = moved {
            self.hint(vec![ticket]);
        }
    }

    /// Forgets a dead job; says whether it was one.
    ///
    /// # Errors
    /// If the store fails.
    pub fn purge(&self, id: JobId) -> Result<bool> {
        Ok(self.store.purge(vec![id])? == 1)
    }

    /// What is known of a job.
    ///
    /// # Errors
    /// If the store fails.
    pub fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id)
    }

    /// Waits for a job to be over, as a thread or as a future: then it is done, discarded, cancelled or dead, and here is
    /// its record.
    ///
    /// The node in this process tells at once, and so do those in other processes where the store can pass it on: in
    /// PostgreSQL, and in one file on Linux. In any case the store is looked at every
    /// [`poll_interval`](crate::JobsBuilder::poll_interval). A job that is over already is told of at once, too.
    ///
    /// ```
    /// # use punctual_durable::{Done, JobContext, JobState, Jobs};
    /// let jobs = Jobs::open("memory:")?.handle("greet", |_: String, _: &JobContext| Ok(Done)).start()?;
    /// let id = jobs.enqueue("Anna".to_owned()).send()?.id();
    /// assert_eq!(jobs.outcome(id).join()?.state, JobState::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outcome(&self, id: JobId) -> JobOutcome {
        self.watch.wait_for(id)
    }

    /// Tells everybody who waits for an outcome that the end has come before.
    pub(crate) fn stop_waiting(&self) {
        self.watch.close();
    }

    /// The failed attempts of a job.
    ///
    /// # Errors
    /// If the store fails.
    pub fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        self.store.failures(id)
    }

    /// How far a job has come, and what its handlers have written; see [`JobContext::log`](crate::JobContext::log).
    ///
    /// # Errors
    /// If the store fails.
    pub fn log(&self, id: JobId) -> Result<JobLog> {
        self.store.log(id)
    }

    /// A timer on the clock of this node; `None` when it is gone.
    pub(crate) fn timer(&self, time: Duration) -> Option<punctual::Sleep> {
        Some(self.node.upgrade()?.timer(time))
    }

    /// An attempt on this node has something to say.
    pub(crate) fn tell(&self, update: Update) {
        if let Some(node) = self.node.upgrade() {
            node.hear(update);
        }
    }

    /// Jobs that match.
    ///
    /// # Errors
    /// If the store fails.
    pub fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        self.store.find(filter)
    }

    /// Describes a schedule by its name; see [`ScheduleBuilder`]. Nothing happens before it is saved.
    pub fn schedule(&self, name: &str) -> ScheduleBuilder<'_> {
        ScheduleBuilder::new(self, name)
    }

    pub(crate) fn save(&self, schedule: NewSchedule) -> Result<Saved> {
        let saved = self.store.save_schedule(schedule)?;
        self.look_again();
        Ok(saved)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All schedules.
    ///
    /// # Errors
    /// If the store fails.
    pub fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.store.schedules()
    }

    /// Lets a schedule make no more jobs until it is [resumed](Self::resume_schedule); says whether there is one of
    /// that name.
    ///
    /// # Errors
    /// If the store fails.
    pub fn pause_schedule(&self, name: &str, reason: impl Into<String>) -> Result<bool> {
        self.change_schedule(name, ScheduleChange::Pause(reason.into()))
    }

    /// Ends a [pause](Self::pause_schedule).
    ///
    /// # Errors
    /// If the store fails.
    pub fn resume_schedule(&self, name: &str) -> Result<bool> {
        self.change_schedule(name, ScheduleChange::Resume)
    }

    /// Lets one more occurrence of a schedule happen, now.
    ///
    /// # Errors
    /// If the store fails.
    pub fn trigger(&self, name: &str) -> Result<bool> {
        self.change_schedule(name, ScheduleChange::Trigger)
    }

    /// The nominal times of a schedule in a range, its end left out, whether they happened or not: what
    /// [`backfill`](Self::backfill) would make of it.
    ///
    /// # Errors
    /// If there is no such schedule, it has no times of its own (a fixed delay), its time zone is not known here (any
    /// more), there are more than [`MAX_BACKFILL`](Self::MAX_BACKFILL), or the store fails.
    pub fn occurrences(&self, name: &str, range: Range<SystemTime>) -> Result<Vec<Timestamp>> {
        let all = self.store.schedules()?;
        let Some(record) = all.iter().find(|record| record.definition.name == name) else {
            return Err(Error::invalid(format!("no schedule is called {name:?}")));
        };
        // It was sound when it was saved, perhaps on another machine.
        record.definition.check().map_err(|error| {
            let message = format!(
                "the times of the schedule {name:?} cannot be told here: install the zone, or save the schedule \
                 with one that is known"
            );
            Error::invalid(message).with_source(error)
        })?;
        let (from, until) = (range.start.into(), range.end.into());
        let most = Self::MAX_BACKFILL;
        match record.times(from, until, most + 1) {
            None => Err(Error::invalid(format!(
                "the schedule {name:?} has no times of its own: it is {}",
                record.definition.cadence
            ))),
            Some(times) if times.len() > most => Err(Error::invalid(format!(
                "the schedule {name:?} has more than {most} times between {from} and {until}"
            ))),
            Some(times) => Ok(times),
        }
    }

    /// Lets the occurrences of a schedule in a range of the past happen now, all of them or none, each with its nominal
    /// time; says which. It does not matter whether they happened before, whether the schedule is paused, or what is
    /// alive: see [`occurrences`](Self::occurrences) first. While they are alive, they count as occurrences of the
    /// schedule; the [limit](Self::limit) of their queue says how many run at once.
    ///
    /// ```
    /// # use punctual::ManualClock;
    /// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore, Store, TimeSource};
    /// # use std::{sync::Arc, sync::mpsc, time::Duration};
    /// # let (clock, day) = (ManualClock::new(), Duration::from_secs(86_400));
    /// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
    /// # let (sender, receiver) = mpsc::channel();
    /// let jobs = builder
    ///     .handle("report", move |_: (), cx: &JobContext| {
    ///         sender.send(cx.series().unwrap().1)?;
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// jobs.schedule("daily").every(day).job(()).save()?;
    /// // The report has to be made again for the two days before.
    /// let today = jobs.store().now().to_system_time().unwrap();
    /// assert_eq!(jobs.backfill("daily", today - 2 * day..today)?.len(), 2);
    /// assert_eq!(receiver.iter().take(2).count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`occurrences`](Self::occurrences), and if the range is not over yet.
    pub fn backfill(&self, name: &str, range: Range<SystemTime>) -> Result<Vec<Timestamp>> {
        let times = self.occurrences(name, range)?;
        let now = self.store.now();
        if let Some(last) = times.last().filter(|last| **last > now) {
            return Err(Error::invalid(format!(
                "{last} has not come yet: the schedule {name:?} will see to it"
            )));
        }
        if !times.is_empty() && !self.change_schedule(name, ScheduleChange::Backfill(times.clone()))? {
            return Err(Error::invalid(format!("no schedule is called {name:?}")));
        }
        Ok(times)
    }

    /// Forgets a schedule. Jobs that it has made go on.
    ///
    /// # Errors
    /// If the store fails.
    pub fn remove_schedule(&self, name: &str) -> Result<bool> {
        self.change_schedule(name, ScheduleChange::Remove)
    }

    fn change_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        let found = self.store.set_schedule(name, change)?;
        self.look_again();
        Ok(found)
    }

    /// Lets nodes look for jobs now, this one and those that the store can reach: for jobs that were enqueued by other
    /// means, such as a transaction of one's own.
    pub fn look(&self) {
        self.look_again();
        self.store.tell_news(News::Jobs);
    }

    fn look_again(&self) {
        if let Some(node) = self.node.upgrade() {
            node.look_again();
        }
    }

    /// How many jobs come due in each of the next `steps` stretches of `width`: where a herd is seen before it comes.
    ///
    /// Up to a hundred thousand jobs are looked at, the next ones first. If there are more, the answer says so
    /// ([`Density::partial`]): then its counts are at least what there is.
    ///
    /// ```
    /// # use punctual_durable::Jobs;
    /// # use std::time::Duration;
    /// let jobs = Jobs::open("memory:")?.start()?;
    /// let minute = Duration::from_secs(60);
    /// for minutes in [1, 2, 2] {
    ///     jobs.enqueue_as("mail", 7).after(minutes * minute + minute / 2).send()?;
    /// }
    /// let density = jobs.upcoming(minute, 4)?;
    /// assert_eq!((density.counts, density.partial), (vec![0, 1, 2, 0], false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub fn upcoming(&self, width: Duration, steps: usize) -> Result<Density> {
        self.store.upcoming(self.store.now(), width, steps, 100_000)
    }

    /// What nodes have counted since `since`: attempts by minute, kind and ending, with how late they began and how long
    /// they ran. The last few seconds are not in it yet.
    ///
    /// # Errors
    /// If the store fails.
    pub fn tallies(&self, since: SystemTime) -> Result<Vec<RunTally>> {
        self.store.tallies(since.into(), Timestamp::MAX)
    }

    /// Which errors there were since `since`: those that are the same but for numbers are counted together.
    ///
    /// # Errors
    /// If the store fails.
    pub fn errors(&self, since: SystemTime) -> Result<Vec<ErrorTally>> {
        self.store.errors(since.into())
    }

    /// Looks for what is wrong, or may soon be: with the store itself, with queues, kinds and clocks. The worst comes
    /// first. It may take long, and disturbs nobody.
    ///
    /// ```
    /// # use punctual_durable::{Jobs, Severity};
    /// let jobs = Jobs::open("memory:")?.start()?;
    /// jobs.enqueue_as("mail", 7).send()?;
    /// jobs.pause("default", "the server is down")?;
    /// let worst = jobs.doctor()?.remove(0);
    /// assert_eq!((worst.severity, worst.check), (Severity::Warning, "paused queue"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(self)
    }

    /// The nodes that are known: whether they live, how long their leases are, and how many jobs they hold.
    ///
    /// Those of a file have no lease: the one that has the file has it as long as its process lives. Others who wait for it
    /// are not known there.
    ///
    /// ```
    /// # use punctual_durable::{Done, JobContext, Jobs};
    /// let jobs = Jobs::open("memory:")?.handle("mail", |_: u8, _: &JobContext| Ok(Done)).start()?;
    /// // Once it has done something it is known.
    /// jobs.outcome(jobs.enqueue(7_u8).send()?.id()).join()?;
    /// let nodes = jobs.nodes()?;
    /// assert_eq!((nodes.len(), nodes[0].alive), (1, true));
    /// assert_eq!(Some(nodes[0].id), jobs.node_id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub fn nodes(&self) -> Result<Vec<NodeRecord>> {
        self.store.nodes()
    }

    /// All queues and their settings.
    ///
    /// # Errors
    /// If the store fails.
    pub fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.store.queues()
    }

    /// Lets nothing more of a queue start, on any node, until it is [resumed](Self::resume).
    ///
    /// # Errors
    /// If the name makes no sense, or the store fails.
    pub fn pause(&self, queue: &str, reason: impl Into<String>) -> Result<()> {
        self.store.set_queue(queue, QueueChange::Pause(reason.into()))
    }

    /// Ends a [pause](Self::pause).
    ///
    /// # Errors
    /// If the name makes no sense, or the store fails.
    pub fn resume(&self, queue: &str) -> Result<()> {
        self.change(queue, QueueChange::Resume)
    }

    /// Lets at most so many jobs of a queue run at once, over all nodes; `None` is without limit.
    ///
    /// # Errors
    /// If the name makes no sense, or the store fails.
    pub fn limit(&self, queue: &str, most: Option<u32>) -> Result<()> {
        self.change(queue, QueueChange::Limit(most))
    }

    fn change(&self, queue: &str, change: QueueChange) -> Result<()> {
        self.store.set_queue(queue, change)?;
        self.look_again();
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &self.store)
            .field("kinds", &self.registry)
            .finish_non_exhaustive()
    }
}

/// A job that is being described; see [`Client::enqueue`].
#[derive(Debug)]
#[must_use = "a job is accepted only when it is sent"]
pub struct NewJobBuilder<'a> {
    client: &'a Client,
    /// What is wrong with it is told when it is sent.
    job: Result<NewJob>,
}

impl NewJobBuilder<'_> {
    fn with(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    /// Due so long after it is accepted. By default at once.
    pub fn after(self, delay: Duration) -> Self {
        self.with(|job| job.due = Due::After(delay))
    }

    /// Due at that time of day.
    pub fn at(self, time: SystemTime) -> Self {
        self.at_timestamp(time.into())
    }

    /// Due at an instant of the store's clock.
    pub fn at_timestamp(self, instant: Timestamp) -> Self {
        self.with(|job| job.due = Due::At(instant))
    }

    /// Gives it a key that no other living job has. If the key is taken, the old job stays.
    pub fn unique(self, key: impl Into<String>) -> Self {
        self.unique_or(key, OnConflict::Keep)
    }

    /// Gives it a key that no other living job has, and says what if it is taken.
    pub fn unique_or(self, key: impl Into<String>, on_conflict: OnConflict) -> Self {
        self.with(|job| *job = std::mem::replace(job, NewJob::new("", "")).unique(key, on_conflict))
    }

    /// Puts it into another queue than its kind's.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with(|job| job.queue = queue.into())
    }

    /// Puts it into another lane than its kind's.
    pub fn lane(self, lane: Lane) -> Self {
        self.with(|job| job.lane = lane)
    }

    /// Gives it another number of attempts than its kind's.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|job| job.limits.max_attempts = attempts)
    }

    /// Gives it another timeout than its kind's.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|job| job.limits.timeout = Some(timeout))
    }

    /// Says what becomes of it if its node dies, if not what its kind says.
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        self.with(|job| job.limits.on_lost = on_lost)
    }

    /// Has `next` follow when this job is done, after whatever follows already; see [`NewJob::then`].
    ///
    /// ```
    /// # use punctual_durable::{Done, JobContext, Jobs};
    /// # use std::{sync::mpsc, time::Duration};
    /// # let (sender, receiver) = mpsc::channel();
    /// # let handler = move |text: String, _: &JobContext| { sender.send(text)?; Ok(Done) };
    /// # let copy = handler.clone();
    /// let jobs = Jobs::open("memory:")?.handle("pack", handler).handle("ship", copy).start()?;
    /// jobs.enqueue_as("pack", "order 7")
    ///     .then(jobs.enqueue_as("ship", "parcel 7").after(Duration::from_millis(2)))
    ///     .send()?;
    /// assert_eq!(receiver.iter().take(2).collect::<Vec<_>>(), ["order 7", "parcel 7"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn then(mut self, next: NewJobBuilder<'_>) -> Self {
        self.job = self.job.and_then(|job| Ok(job.then(next.job?)));
        self
    }

    /// The job as it is, for a store; whether a store would accept it is known.
    ///
    /// # Errors
    /// If the job makes no sense.
    pub fn into_job(self) -> Result<NewJob> {
        let job = self.job?;
        job.check().map(|()| job)
    }

    /// Sends it to the store. When this returns, the job is kept: it survives the death of the process.
    ///
    /// Calls from several threads share commits.
    ///
    /// # Errors
    /// If the job makes no sense, its unique key is taken and that is to be an error, or the store fails.
    pub fn send(self) -> Result<Enqueued> {
        let mut answers = self.client.send(vec![self.job?])?;
        answers.pop().ok_or_else(|| Error::broken("the store gave no answer"))
    }

    /// Sends it to the store without waiting: the receipt can be joined or awaited. What is posted while a commit is
    /// under way goes into the next one together.
    ///
    /// ```
    /// # use punctual_durable::{Done, Jobs};
    /// let jobs = Jobs::open("memory:")?.handle("greet", |_: String, _| Ok(Done)).start()?;
    /// let receipts: Vec<_> = ["Anna", "Bob"].map(|name| jobs.enqueue(name.to_owned()).post()).into();
    /// for receipt in receipts {
    ///     receipt.join()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn post(self) -> Receipt {
        self.client.post.post(self.job, self.client)
    }
}
