//! Waiting for jobs to be over, wherever they run.
//!
//! Whoever waits leaves a promise under the id of the job. A task on a thread that is there only while somebody waits
//! looks at the jobs in the store: at once when the node in this process has something to say of one, and every so often
//! for those that others run. Nothing is asked of the store, and nothing of the other nodes.
//!
//! # Invariants
//! 1. While there are promises, a look has been asked for (`stirred`), runs, or the alarm is set for one: whoever adds a
//!    promise stirs, and a look that leaves some sets the alarm. Looks follow each other on one thread.
//! 2. Every wait ends: when the job is over, is not known, the store fails for good, or the node shuts down. A store that
//!    is out of reach is asked again.
//! 3. A look reads at most [`MOST`] jobs, in turn: many who wait cost no more than that.
//!
//! # Locks
//! The list alone. Under it neither the store nor a pool is called, and no promise is kept or dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use punctual::{CancelOnDrop, Clock, Executor, TaskHandle};

use crate::error::{Error, Result};
use crate::job::{JobId, JobRecord};
use crate::promise::{Promise, Promised, lock, promise};
use crate::store::Store;

/// Jobs in one look.
const MOST: usize = 200;

pub(crate) struct Watch {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    list: Mutex<List>,
    /// A thread that comes when somebody waits, and goes when nobody has for a while.
    eyes: Executor,
}

#[derive(Default)]
struct List {
    awaited: BTreeMap<JobId, Vec<Promise<JobRecord>>>,
    /// Those of which something has been heard.
    hot: BTreeSet<JobId>,
    /// Where the last look ended.
    last: Option<JobId>,
    /// Whether a look has been asked for and has not begun.
    stirred: bool,
    alarm: Option<CancelOnDrop<()>>,
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, interval: Duration) -> Result<Arc<Self>> {
        let builder = Executor::builder().core_threads(0).max_threads(1).keep_alive(Duration::from_secs(10));
        let eyes = builder.clock(Arc::clone(&clock)).thread_name("punctual-watch").build();
        let eyes = eyes.map_err(|error| Error::invalid(error.to_string()))?;
        Ok(Arc::new(Self { store, clock, interval, list: Mutex::default(), eyes }))
    }

    pub(crate) fn wait_for(self: &Arc<Self>, id: JobId) -> JobOutcome {
        let (promise, promised) = promise("nobody can look: no thread could be started");
        let mut list = lock(&self.list);
        list.awaited.entry(id).or_default().push(promise);
        list.hot.insert(id);
        drop(list);
        self.stir();
        JobOutcome { id, promised, watch: Arc::clone(self) }
    }

    /// Something has become of these jobs.
    pub(crate) fn hint(self: &Arc<Self>, ids: impl Iterator<Item = JobId>) {
        let mut list = lock(&self.list);
        if list.awaited.is_empty() {
            return;
        }
        let heard: Vec<JobId> = ids.filter(|id| list.awaited.contains_key(id)).collect();
        let any = !heard.is_empty();
        list.hot.extend(heard);
        drop(list);
        if any {
            self.stir();
        }
    }

    /// By 2.
    pub(crate) fn close(&self) {
        let mut list = lock(&self.list);
        let (awaited, alarm) = (std::mem::take(&mut list.awaited), list.alarm.take());
        list.hot.clear();
        drop(list);
        drop(alarm);
        for (id, promises) in awaited {
            let answer = || Err(Error::closed(format!("the node shut down before job {id} was over")));
            promises.into_iter().for_each(|promise| promise.keep(answer()));
        }
    }

    /// Has a look run soon.
    fn stir(self: &Arc<Self>) {
        if std::mem::replace(&mut lock(&self.list).stirred, true) {
            return;
        }
        let weak = Arc::downgrade(self);
        if self.eyes.execute(move || look(&weak)).is_err() {
            self.give_up();
        }
    }

    /// No thread can be had: those who wait are told as their promises are dropped.
    fn give_up(&self) {
        let mut list = lock(&self.list);
        list.stirred = false;
        let given_up = std::mem::take(&mut list.awaited);
        drop(list);
        drop(given_up);
    }

    fn set_alarm(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        match self.eyes.schedule(self.interval, move || look(&weak)) {
            Ok(task) => {
                let old = lock(&self.list).alarm.replace(TaskHandle::cancel_on_drop(task));
                drop(old);
            }
            Err(_) => self.give_up(),
        }
    }

    fn look(self: &Arc<Self>) {
        let mut list = lock(&self.list);
        list.stirred = false;
        let (ids, unwanted) = choose(&mut list);
        drop(list);
        drop(unwanted);
        for id in ids {
            if let Some(answer) = self.ask(id) {
                self.answer(id, answer);
            }
        }
        if !lock(&self.list).awaited.is_empty() {
            self.set_alarm(); // by 1
        }
    }

    /// What there is to tell those who wait for a job, if it is time.
    fn ask(&self, id: JobId) -> Option<Result<JobRecord>> {
        match catch_unwind(AssertUnwindSafe(|| self.store.job(id))) {
            Ok(Ok(Some(job))) => job.state.is_over().then_some(Ok(job)),
            Ok(Ok(None)) => Some(Err(Error::invalid(format!("no job {id} is known")))),
            Ok(Err(error)) => (!error.is_transient()).then_some(Err(error)),
            Err(panic) => {
                let said = crate::node::panic_message(panic);
                Some(Err(Error::broken(format!("the store panicked: {said}"))))
            }
        }
    }

    fn answer(&self, id: JobId, answer: Result<JobRecord>) {
        let promises = lock(&self.list).awaited.remove(&id).unwrap_or_default();
        let copy = || match &answer {
            Ok(job) => Ok(job.clone()),
            Err(error) => Err(error.copy()),
        };
        promises.into_iter().for_each(|promise| promise.keep(copy()));
    }
}

/// The jobs to look at now: those of which something was heard, and some others in turn.
fn choose(list: &mut List) -> (Vec<JobId>, Vec<Promise<JobRecord>>) {
    let mut unwanted = Vec::new();
    list.awaited.retain(|_, promises| {
        let (stay, go): (Vec<_>, Vec<_>) = promises.drain(..).partition(Promise::is_wanted);
        *promises = stay;
        unwanted.extend(go);
        !promises.is_empty()
    });
    let List { awaited, hot, last, .. } = list;
    let mut ids: Vec<JobId> = std::mem::take(hot).into_iter().filter(|id| awaited.contains_key(id)).collect();
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    let turn = awaited.range((after, Bound::Unbounded)).chain(awaited.range(..));
    let turn: Vec<JobId> = turn.map(|(id, _)| *id).take(MOST.min(awaited.len())).collect();
    *last = turn.last().copied();
    ids.extend(turn);
    ids.sort_unstable();
    ids.dedup();
    (ids, unwanted)
}

fn look(watch: &Weak<Watch>) {
    if let Some(watch) = watch.upgrade() {
        watch.look();
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("awaited", &lock(&self.list).awaited.len()).finish_non_exhaustive()
    }
}

/// Tells when a job is over; see [`Client::outcome`](crate::Client::outcome).
///
/// Wait for it with [`join`](Self::join), or await it, under any runtime or none. Dropping it changes nothing.
#[must_use = "nobody is told unless it is joined or awaited"]
pub struct JobOutcome {
    id: JobId,
    promised: Promised<JobRecord>,
    watch: Arc<Watch>,
}

impl JobOutcome {
    /// The job that is waited for.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Waits until the job is over.
    ///
    /// # Errors
    /// If no such job is known (any more), the node in this process shuts down before, or the store fails for good.
    pub fn join(self) -> Result<JobRecord> {
        let answer = self.promised.wait(|parker| {
            self.watch.clock.wait(parker, None);
            true
        });
        answer.unwrap_or_else(|| Err(Error::closed("nobody waits any more")))
    }

    /// Waits until the job is over, at most for `timeout` on the clock of the node; `None` if that was not enough. Then
    /// it can be waited for again.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_timeout(&self, timeout: Duration) -> Result<Option<JobRecord>> {
        let clock = &self.watch.clock;
        let until = clock.now().after(timeout);
        let answer = self.promised.wait(|parker| {
            let in_time = clock.now() < until;
            if in_time {
                clock.wait(parker, Some(until));
            }
            in_time
        });
        answer.transpose()
    }
}

impl Future for JobOutcome {
    type Output = Result<JobRecord>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.promised.look(context.waker())
    }
}

impl fmt::Debug for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobOutcome").field("id", &self.id).field("state", &self.promised.state()).finish()
    }
}
