//! Waiting for jobs to be over, wherever they run.
//!
//! Whoever waits leaves a promise under the id of the job. A task on a thread that is there only while somebody waits
//! looks at the jobs in the store: at once when somebody has something to say of one, and every so often in any case.
//!
//! # News
//! The node in this process says what it has ended. Others are asked, where the store can ([`News`]): what is waited for is
//! told when it has been looked at and is not over, and again every half [`ASKED`]. Who is asked remembers it that long, and
//! says so when it ends one of these jobs. It may have ended it a moment before it was asked, too: so it also remembers the
//! last [`ENDED`] that it ended, whether or not anybody asked. A job that nobody waits for costs no more than that.
//!
//! # Invariants
//! 1. While there are promises, a look has been asked for (`stirred`), runs, or the alarm is set for one: whoever adds a
//!    promise stirs, and a look that leaves some sets the alarm. Looks follow each other on one thread.
//! 2. Every wait ends: when the job is over, is not known, the store fails for good, or the node shuts down. A store that
//!    is out of reach is asked again.
//! 3. A look reads at most [`MOST`] jobs, in turn: many who wait cost no more than that.
//!
//! # Locks
//! The list, or what others wait for; never both. Under them neither the store nor a pool is called, and no promise is kept
//! or dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use punctual::{CancelOnDrop, Clock, Executor, TaskHandle, Tick};

use crate::error::{Error, Result};
use crate::job::{JobId, JobRecord};
use crate::promise::{Promise, Promised, lock, promise};
use crate::store::{News, Store};

/// Jobs in one look.
const MOST: usize = 200;
/// How long others remember that they were asked.
const ASKED: Duration = Duration::from_secs(60);
/// Jobs that others wait for, and jobs that have ended, as far as they are remembered.
const MOST_WANTED: usize = 10_000;
const ENDED: usize = 2_000;

pub(crate) struct Watch {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    list: Mutex<List>,
    elsewhere: Mutex<Elsewhere>,
    /// A thread that comes when somebody waits, and goes when nobody has for a while.
    eyes: Executor,
}

#[derive(Default)]
struct List {
    awaited: BTreeMap<JobId, Vec<Promise<JobRecord>>>,
    /// Those of which something has been heard.
    hot: BTreeSet<JobId>,
    /// When others were last asked.
    asked: BTreeMap<JobId, Tick>,
    /// Whether we hear what others say.
    listening: bool,
    /// Where the last look ended.
    last: Option<JobId>,
    /// Whether a look has been asked for and has not begun.
    stirred: bool,
    alarm: Option<CancelOnDrop<()>>,
}

/// What others wait for, and what has ended here of late.
#[derive(Default)]
struct Elsewhere {
    /// And until when.
    wanted: HashMap<JobId, Tick>,
    ended: VecDeque<JobId>,
}

impl Elsewhere {
    /// These are over; says of which others are to be told.
    fn end(&mut self, ids: &[JobId], now: Tick) -> Vec<JobId> {
        self.ended.extend(&ids[ids.len().saturating_sub(ENDED)..]);
        self.ended.drain(..self.ended.len().saturating_sub(ENDED));
        if self.wanted.is_empty() {
            return Vec::new();
        }
        ids.iter().copied().filter(|id| self.wanted.remove(id).is_some_and(|until| now < until)).collect()
    }

    /// Others wait for these; says which of them are over already.
    fn want(&mut self, ids: &[JobId], now: Tick) -> Vec<JobId> {
        if self.wanted.len() + ids.len() > MOST_WANTED {
            self.wanted.retain(|_, until| now < *until);
        }
        let (over, open): (Vec<JobId>, Vec<JobId>) = ids.iter().partition(|id| self.ended.contains(id));
        let room = MOST_WANTED.saturating_sub(self.wanted.len());
        self.wanted.extend(open.into_iter().take(room).map(|id| (id, now.after(ASKED))));
        over
    }
}

impl Watch {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, interval: Duration) -> Result<Arc<Self>> {
        let builder = Executor::builder().core_threads(0).max_threads(1).keep_alive(Duration::from_secs(10));
        let eyes = builder.clock(Arc::clone(&clock)).thread_name("punctual-watch").build();
        let eyes = eyes.map_err(|error| Error::invalid(error.to_string()))?;
        let (list, elsewhere) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { store, clock, interval, list, elsewhere, eyes }))
    }

    pub(crate) fn wait_for(self: &Arc<Self>, id: JobId) -> JobOutcome {
        let (promise, promised) = promise("nobody can look: no thread could be started");
        let mut list = lock(&self.list);
        list.awaited.entry(id).or_default().push(promise);
        list.hot.insert(id);
        let deaf = !std::mem::replace(&mut list.listening, true);
        drop(list);
        if deaf {
            self.listen();
        }
        self.stir();
        JobOutcome { id, promised, watch: Arc::clone(self) }
    }

    /// Hears what others say; a node does that for its watch.
    fn listen(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.store.on_news(Arc::new(move |news| {
            let watch = weak.upgrade();
            watch.as_ref().inspect(|watch| watch.hear(news)).is_some()
        }));
    }

    /// Somebody else calls [`hear`](Self::hear).
    pub(crate) fn is_told(&self) {
        lock(&self.list).listening = true;
    }

    pub(crate) fn hear(self: &Arc<Self>, news: &News) {
        match news {
            News::Jobs | News::New(..) => {}
            News::Over(ids) => {
                // Whoever waits has been told, but for those who are just about to ask.
                drop(lock(&self.elsewhere).end(ids, self.clock.now()));
                self.look_at(ids);
            }
            News::Waiting(ids) => {
                let over = lock(&self.elsewhere).want(ids, self.clock.now());
                self.tell_over(over);
            }
        }
    }

    fn tell_over(&self, over: Vec<JobId>) {
        if !over.is_empty() {
            self.store.tell_news(News::Over(over));
        }
    }

    /// This job has been taken back here. Others are told in any case: who does not run jobs was not asked.
    pub(crate) fn cancelled(self: &Arc<Self>, id: JobId) {
        drop(lock(&self.elsewhere).end(&[id], self.clock.now()));
        self.tell_over(vec![id]);
        self.look_at(&[id]);
    }

    /// These jobs are over, by what has been done here.
    pub(crate) fn hint(self: &Arc<Self>, ids: impl Iterator<Item = JobId>) {
        let ids: Vec<JobId> = ids.collect();
        if ids.is_empty() {
            return;
        }
        let over = lock(&self.elsewhere).end(&ids, self.clock.now());
        self.tell_over(over);
        self.look_at(&ids);
    }

    /// Something has become of these jobs.
    fn look_at(self: &Arc<Self>, ids: &[JobId]) {
        let mut list = lock(&self.list);
        if list.awaited.is_empty() {
            return;
        }
        let heard: Vec<JobId> = ids.iter().copied().filter(|id| list.awaited.contains_key(id)).collect();
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
        let mut list = lock(&self.list);
        let (some, ask) = (!list.awaited.is_empty(), list.ask(self.clock.now()));
        drop(list);
        if !ask.is_empty() {
            self.store.tell_news(News::Waiting(ask));
        }
        if some {
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

impl List {
    /// Those of which others are to be asked now.
    fn ask(&mut self, now: Tick) -> Vec<JobId> {
        let Self { awaited, asked, .. } = self;
        asked.retain(|id, _| awaited.contains_key(id));
        let due = |id: &&JobId| asked.get(id).is_none_or(|last| now.since(*last) >= ASKED / 2);
        let ids: Vec<JobId> = awaited.keys().filter(due).take(MOST).copied().collect();
        asked.extend(ids.iter().map(|id| (*id, now)));
        ids
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<i64>) -> Vec<JobId> {
        range.map(JobId::from_i64).collect()
    }

    #[test]
    fn what_ends_is_told_to_those_who_asked_before_or_just_after() {
        let mut elsewhere = Elsewhere::default();
        let now = Tick::ZERO.after(ASKED);
        assert_eq!(elsewhere.end(&ids(0..3), now), [], "nobody asked");
        assert_eq!(elsewhere.want(&ids(2..5), now), ids(2..3), "this one was over already");
        assert_eq!(elsewhere.end(&ids(3..9), now), ids(3..5));
        assert_eq!(elsewhere.end(&ids(3..9), now), [], "once");
        assert_eq!(elsewhere.want(&ids(9..10), now), []);
        assert_eq!(elsewhere.end(&ids(9..10), now.after(ASKED)), [], "that was long ago");
    }

    #[test]
    fn what_is_remembered_for_others_is_bounded() {
        let mut elsewhere = Elsewhere::default();
        let most = i64::try_from(MOST_WANTED).unwrap();
        assert_eq!(elsewhere.want(&ids(0..2 * most), Tick::ZERO), []);
        assert_eq!(elsewhere.wanted.len(), MOST_WANTED);
        assert_eq!(elsewhere.want(&ids(-5..0), Tick::ZERO.after(ASKED)), []);
        assert_eq!(elsewhere.wanted.len(), 5, "those of whom nothing was heard for long are forgotten");
        for _ in 0..3 {
            elsewhere.end(&ids(0..most), Tick::ZERO);
            assert_eq!(elsewhere.ended.len(), ENDED);
        }
        assert_eq!(elsewhere.want(&ids(most - 1..most), Tick::ZERO), ids(most - 1..most), "the last stay");
    }

    #[test]
    fn others_are_asked_once_for_each_job_and_again_when_they_may_have_forgotten() {
        let mut list = List::default();
        for id in ids(0..3) {
            list.awaited.insert(id, Vec::new());
        }
        let now = Tick::ZERO.after(ASKED);
        assert_eq!(list.ask(now), ids(0..3));
        assert_eq!(list.ask(now), []);
        list.awaited.remove(&JobId::from_i64(0));
        list.awaited.insert(JobId::from_i64(7), Vec::new());
        assert_eq!(list.ask(now), ids(7..8));
        assert_eq!(list.asked.len(), 3, "and forgotten with the job");
        assert_eq!(list.ask(now.after(ASKED / 2)), [1, 2, 7].map(JobId::from_i64));
    }
}
