//! A store that lives and dies with the process: for tests, and for jobs that need not survive.
//!
//! One lock round plain collections. It has everything that a database has but durability, several nodes with leases
//! included, so it is also the reference that other stores are compared with.
//!
//! # Invariants (guarded by `state`, checked by [`MemoryStore::verify`])
//! 1. `waiting` has an entry in the line of its (queue, kind, lane) for each scheduled job in `jobs`, and no other.
//! 2. `keys` has each unique key of a living job in `jobs`, and no other.
//! 3. `claimed` has each claimed job in `jobs`, and no other.
//! 4. `jobs` has the living and the dead, `history` the others that are over; none is in both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rules::{lost, settle};
use super::{
    Cancelling, Enqueued, Exchange, Exchanged, Filter, Moved, Next, Peek, Peeked, QueueChange, QueueRecord,
    Recorded, Renewal, Report, Rescued, Saved, ScheduleChange, Store, Tenure, Ticket, Verdict,
};
use crate::error::{Error, Result};
use crate::job::{
    Due, Failure, Fence, JobId, JobRecord, JobState, NewJob, NodeId, OnConflict, UniqueKey, check_name,
};
use crate::lane::{Lane, share};
use crate::schedule::{Firing, NewSchedule, ScheduleRecord};
use crate::time::{SystemTimeSource, TimeSource, Timestamp};

/// Jobs in memory. See [`Store`].
///
/// ```
/// use punctual_durable::{MemoryStore, NewJob, Store};
///
/// let store = MemoryStore::new();
/// let id = store.enqueue(vec![NewJob::new("mail", "{}")])?[0].id();
/// assert_eq!(store.job(id)?.unwrap().kind, "mail");
/// # Ok::<(), punctual_durable::Error>(())
/// ```
pub struct MemoryStore {
    time: Box<dyn TimeSource>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<JobId, JobRecord>,
    history: BTreeMap<JobId, JobRecord>,
    failures: BTreeMap<JobId, Vec<Failure>>,
    waiting: BTreeMap<Line, BTreeSet<(Timestamp, JobId)>>,
    claimed: BTreeSet<JobId>,
    keys: HashMap<String, JobId>,
    queues: BTreeMap<String, QueueRecord>,
    nodes: HashMap<NodeId, Timestamp>,
    schedules: BTreeMap<String, ScheduleRecord>,
    last_id: i64,
    last_fence: i64,
}

/// Jobs wait in lines: one for each queue, kind and lane.
type Line = (String, String, Lane);

fn line_of(job: &JobRecord) -> Line {
    (job.queue.clone(), job.kind.clone(), job.lane)
}

fn ticket_of(job: &JobRecord) -> Ticket {
    Ticket { id: job.id, version: job.version, due: job.due, lane: job.lane }
}

impl MemoryStore {
    /// An empty store on the machine's time of day.
    #[must_use]
    pub fn new() -> Self {
        Self::with_time(SystemTimeSource)
    }

    /// An empty store on another time of day, such as a [`ManualClock`](punctual::ManualClock).
    #[must_use]
    pub fn with_time(time: impl TimeSource) -> Self {
        Self { time: Box::new(time), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock; a panic under it would be a bug that `verify` finds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn verify(&self) {
        let state = self.lock();
        let in_lines: BTreeSet<(Line, Timestamp, JobId)> = (state.waiting.iter())
            .flat_map(|(line, jobs)| jobs.iter().map(|(due, id)| (line.clone(), *due, *id)))
            .collect();
        let is = |wanted: JobState| move |job: &&JobRecord| job.state == wanted;
        let scheduled = state.jobs.values().filter(is(JobState::Scheduled));
        assert_eq!(in_lines, scheduled.map(|job| (line_of(job), job.due, job.id)).collect(), "invariant 1");
        let living = state.jobs.values().filter(|job| !job.state.is_over());
        let keys: HashMap<String, JobId> =
            living.filter_map(|job| Some((job.unique.clone()?, job.id))).collect();
        assert_eq!(state.keys, keys, "invariant 2");
        let claimed: BTreeSet<JobId> =
            state.jobs.values().filter(is(JobState::Claimed)).map(|job| job.id).collect();
        assert_eq!(state.claimed, claimed, "invariant 3");
        let gone = |job: &JobRecord| job.state.is_over() && job.state != JobState::Dead;
        assert!(!state.jobs.values().any(gone) && state.history.values().all(gone), "invariant 4");
        assert!(!state.jobs.keys().any(|id| state.history.contains_key(id)), "invariant 4");
    }
}

impl State {
    fn accept(&mut self, job: NewJob, now: Timestamp) -> Result<Enqueued> {
        let holder = job.unique.as_ref().and_then(|unique| self.keys.get(&unique.key)).copied();
        if let (Some(id), Some(UniqueKey { key, on_conflict })) = (holder, &job.unique) {
            return match on_conflict {
                OnConflict::Keep => Ok(Enqueued::Existing(id)),
                OnConflict::Reject => {
                    Err(Error::conflict(format!("the unique key {key:?} belongs to job {id}")))
                }
                OnConflict::Replace => Ok(self.replace(id, job, now)),
            };
        }
        self.last_id += 1;
        let record = JobRecord::accepted(JobId::from_i64(self.last_id), job, now);
        self.queues.entry(record.queue.clone()).or_insert_with(|| plain_queue(&record.queue));
        let ticket = ticket_of(&record);
        self.put(record);
        Ok(Enqueued::New(ticket))
    }

    fn replace(&mut self, id: JobId, new: NewJob, now: Timestamp) -> Enqueued {
        if self.jobs[&id].state != JobState::Scheduled {
            return Enqueued::Existing(id);
        }
        let mut job = self.take(id);
        job.due = new.due.instant(now);
        job.payload = Some(new.payload);
        job.version += 1;
        let ticket = ticket_of(&job);
        self.put(job);
        Enqueued::Replaced(ticket)
    }

    /// Takes a job out of every collection, to be changed and [put](Self::put) back.
    fn take(&mut self, id: JobId) -> JobRecord {
        let job = self.jobs.remove(&id).expect("the caller has seen it");
        if let Some(line) = self.waiting.get_mut(&line_of(&job)) {
            line.remove(&(job.due, id));
        }
        self.claimed.remove(&id);
        if let Some(key) = job.unique.as_ref().filter(|_| !job.state.is_over()) {
            self.keys.remove(key);
        }
        job
    }

    fn put(&mut self, job: JobRecord) {
        if let Some(key) = job.unique.as_ref().filter(|_| !job.state.is_over()) {
            self.keys.insert(key.clone(), job.id);
        }
        match job.state {
            JobState::Scheduled => {
                self.waiting.entry(line_of(&job)).or_default().insert((job.due, job.id));
            }
            JobState::Claimed => {
                self.claimed.insert(job.id);
            }
            JobState::Dead => {}
            JobState::Done | JobState::Discarded | JobState::Cancelled => {
                self.history.insert(job.id, JobRecord { payload: None, ..job });
                return;
            }
        }
        self.jobs.insert(job.id, job);
    }

    /// How many occurrences of a schedule are alive.
    fn living(&self, schedule: &str) -> usize {
        let of_it = |job: &&JobRecord| !job.state.is_over() && is_of(job, schedule);
        self.jobs.values().filter(of_it).count()
    }

    /// Makes an occurrence an ordinary job.
    fn occur(
        &mut self,
        record: &ScheduleRecord,
        nominal: Timestamp,
        due: Timestamp,
        now: Timestamp,
    ) -> Ticket {
        self.last_id += 1;
        let job = record.definition.job.clone().due(Due::At(due));
        let mut job = JobRecord::accepted(JobId::from_i64(self.last_id), job, now);
        job.series = Some((record.definition.name.clone(), nominal));
        self.queues.entry(job.queue.clone()).or_insert_with(|| plain_queue(&job.queue));
        let ticket = ticket_of(&job);
        self.put(job);
        ticket
    }

    /// An occurrence is over: see `schedule.rs`.
    fn after_occurrence(&mut self, schedule: &str, now: Timestamp) {
        if self.living(schedule) > 0 {
            return;
        }
        let Some(record) = self.schedules.get_mut(schedule) else { return };
        let owed = record.next_after_end(now);
        if let Some(nominal) = owed {
            let record = record.clone();
            self.occur(&record, nominal, now, now);
        }
    }

    fn fire(&mut self, firing: Firing, now: Timestamp) -> Vec<Ticket> {
        let living = self.living(&firing.name);
        let seen = |record: &&mut ScheduleRecord| record.version == firing.version && record.paused.is_none();
        let Some(record) = self.schedules.get_mut(&firing.name).filter(seen) else { return Vec::new() };
        let happening = record.fired(firing, living);
        let record = record.clone();
        happening.into_iter().map(|nominal| self.occur(&record, nominal, nominal, now)).collect()
    }

    /// Moves a claimed job on, as the rules have decided.
    fn follow(&mut self, id: JobId, next: Next, now: Timestamp) {
        let mut job = self.take(id);
        if let Some(message) = next.failure {
            let failure = Failure::new(job.fence, job.attempt, now, message);
            self.failures.entry(id).or_default().push(failure);
        }
        job.state = next.state;
        job.due = next.due;
        job.attempt = next.attempt;
        job.crashes = next.crashes;
        job.note = next.note.or(job.note);
        job.version += 1;
        job.cancel_requested = false;
        job.finished = next.state.is_over().then_some(now);
        let over = job.series.clone().filter(|_| job.state.is_over());
        self.put(job);
        if let Some((schedule, _)) = over {
            self.after_occurrence(&schedule, now);
        }
    }

    fn record(&mut self, node: NodeId, report: &Report, now: Timestamp) -> Recorded {
        let held_by_it = |job: &JobRecord| job.owner == Some(node) && job.fence == report.fence;
        let Some(job) = self.jobs.get(&report.id) else {
            let was = self.history.get(&report.id).is_some_and(held_by_it);
            return if was { Recorded::Already } else { Recorded::Stale };
        };
        match (held_by_it(job), job.state) {
            (false, _) => Recorded::Stale,
            (true, JobState::Claimed) => {
                let next = settle(job, &report.verdict, now);
                let recorded = Recorded::next(&next);
                self.follow(report.id, next, now);
                recorded
            }
            (true, _) => Recorded::Already,
        }
    }

    /// How many more jobs of `queue` may be claimed.
    fn room(&self, queue: &str) -> usize {
        let Some(settings) = self.queues.get(queue) else { return usize::MAX };
        match (&settings.paused, settings.limit) {
            (Some(_), _) => 0,
            (None, None) => usize::MAX,
            (None, Some(limit)) => {
                let claimed = self.claimed.iter().filter(|id| self.jobs[id].queue == queue).count();
                (limit as usize).saturating_sub(claimed)
            }
        }
    }

    /// Whether only its limit keeps jobs of `queue` from being claimed.
    fn is_full(&self, queue: &str) -> bool {
        self.room(queue) == 0 && self.queues.get(queue).is_some_and(|settings| settings.paused.is_none())
    }

    fn claim(&mut self, node: NodeId, id: JobId, now: Timestamp) -> JobRecord {
        self.last_fence += 1;
        let mut job = self.take(id);
        job.state = JobState::Claimed;
        job.owner = Some(node);
        job.fence = Fence::from_i64(self.last_fence);
        job.attempt = job.attempt.saturating_add(1);
        job.claimed = Some(now);
        job.version += 1;
        self.put(job.clone());
        job
    }

    fn claim_seen(
        &mut self,
        node: NodeId,
        ticket: &Ticket,
        kinds: &[String],
        now: Timestamp,
    ) -> Option<JobRecord> {
        let job = self.jobs.get(&ticket.id)?;
        let as_seen = job.state == JobState::Scheduled && job.version == ticket.version;
        if !as_seen || !kinds.contains(&job.kind) || self.room(&job.queue) == 0 {
            return None;
        }
        Some(self.claim(node, ticket.id, now))
    }

    /// Waiting jobs due after `after` and by `until` in lines that are eligible, at most `most` of each lane and no more of a queue
    /// than it has room for, by lane and due time.
    fn due(
        &self,
        kinds: &[String],
        after: Option<Timestamp>,
        until: Timestamp,
        most: usize,
    ) -> [Vec<(Timestamp, JobId)>; 4] {
        let mut lanes: [Vec<(Timestamp, JobId, &str)>; 4] = Default::default();
        for ((queue, kind, lane), jobs) in &self.waiting {
            if kinds.contains(kind) && self.room(queue) > 0 {
                let from = after
                    .map_or(Bound::Unbounded, |after| Bound::Excluded((after, JobId::from_i64(i64::MAX))));
                let due =
                    jobs.range((from, Bound::Unbounded)).take_while(|(due, _)| *due <= until).take(most);
                lanes[lane.index()].extend(due.map(|(due, id)| (*due, *id, queue.as_str())));
            }
        }
        let mut room: HashMap<&str, usize> = HashMap::new();
        lanes.map(|mut jobs| {
            jobs.sort_unstable();
            jobs.retain(|(_, _, queue)| {
                let left = room.entry(queue).or_insert_with(|| self.room(queue));
                let fits = *left > 0;
                *left = left.saturating_sub(1);
                fits
            });
            jobs.into_iter().take(most).map(|(due, id, _)| (due, id)).collect()
        })
    }

    fn sweep(&mut self, node: NodeId, kinds: &[String], most: usize, now: Timestamp) -> Vec<JobRecord> {
        let lanes = self.due(kinds, None, now, most);
        let places = share(most, std::array::from_fn(|lane| lanes[lane].len()));
        let chosen: Vec<JobId> = (lanes.iter().zip(places))
            .flat_map(|(jobs, places)| jobs.iter().take(places).map(|(_, id)| *id))
            .collect();
        chosen.into_iter().map(|id| self.claim(node, id, now)).collect()
    }

    fn is_alive(&self, node: NodeId, now: Timestamp) -> bool {
        self.nodes.get(&node).is_some_and(|until| *until > now)
    }
}

fn is_of(job: &JobRecord, schedule: &str) -> bool {
    job.series.as_ref().is_some_and(|(name, _)| name == schedule)
}

fn plain_queue(name: &str) -> QueueRecord {
    QueueRecord { name: name.to_owned(), paused: None, limit: None }
}

impl Store for MemoryStore {
    fn now(&self) -> Timestamp {
        self.time.timestamp()
    }

    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        jobs.iter().try_for_each(NewJob::check)?;
        let now = self.now();
        let mut state = self.lock();
        // All or nothing: whether one is to be rejected is known before the first is accepted.
        let mut new = BTreeSet::new();
        for UniqueKey { key, on_conflict } in jobs.iter().filter_map(|job| job.unique.as_ref()) {
            let taken = state.keys.contains_key(key) || !new.insert(key);
            if taken && *on_conflict == OnConflict::Reject {
                return Err(Error::conflict(format!("the unique key {key:?} belongs to another job")));
            }
        }
        jobs.into_iter().map(|job| state.accept(job, now)).collect()
    }

    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        let now = self.now();
        let mut state = self.lock();
        let mut cancel = |id: JobId| {
            let Some(job) = state.jobs.get_mut(&id) else {
                return state.history.get(&id).map_or(Cancelling::Unknown, |job| Cancelling::Over(job.state));
            };
            match job.state {
                JobState::Scheduled => {
                    let job = state.take(id);
                    let (state_now, version) = (JobState::Cancelled, job.version + 1);
                    let series = job.series.clone();
                    state.put(JobRecord { state: state_now, version, finished: Some(now), ..job });
                    if let Some((schedule, _)) = series {
                        state.after_occurrence(&schedule, now);
                    }
                    Cancelling::Cancelled
                }
                JobState::Claimed => {
                    job.cancel_requested = true;
                    Cancelling::Requested
                }
                over => Cancelling::Over(over),
            }
        };
        Ok(ids.into_iter().map(&mut cancel).collect())
    }

    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        let now = self.now();
        let mut state = self.lock();
        let known = state.jobs.get(&id).or_else(|| state.history.get(&id)).map(|job| job.state);
        match known {
            None => Ok(Moved::Unknown),
            Some(JobState::Scheduled) => {
                let mut job = state.take(id);
                job.due = due.instant(now);
                job.version += 1;
                let ticket = ticket_of(&job);
                state.put(job);
                Ok(Moved::Waiting(ticket))
            }
            Some(other) => Ok(Moved::Not(other)),
        }
    }

    fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        let now = self.now();
        let mut state = self.lock();
        let Some(job) = state.jobs.get(&id) else {
            return Ok(state.history.get(&id).map_or(Moved::Unknown, |job| Moved::Not(job.state)));
        };
        if job.state != JobState::Dead {
            return Ok(Moved::Not(job.state));
        }
        if let Some((key, holder)) = job.unique.as_ref().and_then(|key| Some((key, state.keys.get(key)?))) {
            return Err(Error::conflict(format!(
                "the unique key {key:?} of job {id} belongs to job {holder}"
            )));
        }
        let mut job = state.take(id);
        job.state = JobState::Scheduled;
        job.due = due.instant(now);
        (job.attempt, job.crashes, job.finished) = (0, 0, None);
        job.version += 1;
        let ticket = ticket_of(&job);
        state.put(job);
        Ok(Moved::Waiting(ticket))
    }

    fn purge(&self, ids: Vec<JobId>) -> Result<usize> {
        let mut state = self.lock();
        let mut purged = 0;
        for id in ids {
            if state.jobs.get(&id).is_some_and(|job| job.state == JobState::Dead) {
                state.take(id);
                state.failures.remove(&id);
                purged += 1;
            }
        }
        Ok(purged)
    }

    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        let mut state = self.lock();
        let old = |job: &&JobRecord| job.finished.is_some_and(|finished| finished < before);
        let mut ids: Vec<_> = state.history.values().filter(old).map(|job| (job.finished, job.id)).collect();
        ids.sort_unstable();
        ids.truncate(most);
        for (_, id) in &ids {
            state.history.remove(id);
            state.failures.remove(id);
        }
        Ok(ids.len())
    }

    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        check_name("queue", queue, NewJob::MAX_NAME)?;
        let now = self.now();
        let mut state = self.lock();
        let settings = state.queues.entry(queue.to_owned()).or_insert_with(|| plain_queue(queue));
        match change {
            QueueChange::Pause(reason) => settings.paused = Some((now, reason)),
            QueueChange::Resume => settings.paused = None,
            QueueChange::Limit(limit) => settings.limit = limit,
        }
        Ok(())
    }

    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        schedule.check()?;
        let now = self.now();
        let mut state = self.lock();
        match state.schedules.get_mut(&schedule.name) {
            Some(old) => Ok(old.redefine(schedule, now)),
            None => {
                state.schedules.insert(schedule.name.clone(), ScheduleRecord::saved(schedule, now));
                Ok(Saved::Created)
            }
        }
    }

    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        let now = self.now();
        let mut state = self.lock();
        let living = state.living(name);
        let Some(record) = state.schedules.get_mut(name) else { return Ok(false) };
        match change {
            ScheduleChange::Pause(reason) => record.pause(reason, now),
            ScheduleChange::Resume => record.resume(living, now),
            ScheduleChange::Trigger => {
                let record = record.clone();
                state.occur(&record, now, now, now);
            }
            ScheduleChange::Remove => {
                state.schedules.remove(name);
            }
        }
        Ok(true)
    }

    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        Ok(self.lock().schedules.values().cloned().collect())
    }

    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        let state = self.lock();
        let due = |record: &&ScheduleRecord| {
            let soon = record.next.is_some_and(|next| next <= until);
            soon && record.paused.is_none() && kinds.contains(&record.definition.job.kind)
        };
        Ok(state.schedules.values().filter(due).cloned().collect())
    }

    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        let now = self.now();
        let mut state = self.lock();
        Ok(firings.into_iter().flat_map(|firing| state.fire(firing, now)).collect())
    }

    fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        let state = self.lock();
        Ok(state.jobs.get(&id).or_else(|| state.history.get(&id)).cloned())
    }

    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        let state = self.lock();
        let all: BTreeMap<JobId, &JobRecord> =
            state.jobs.iter().chain(&state.history).map(|(id, job)| (*id, job)).collect();
        let found = all.into_values().filter(|job| filter.matches(job)).take(filter.limit);
        Ok(found.cloned().collect())
    }

    fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        Ok(self.lock().failures.get(&id).cloned().unwrap_or_default())
    }

    fn queues(&self) -> Result<Vec<QueueRecord>> {
        Ok(self.lock().queues.values().cloned().collect())
    }

    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        let until = self.now().after(lease);
        let mut state = self.lock();
        state.nodes.insert(node, until);
        let asked = |job: &&JobRecord| job.owner == Some(node) && job.cancel_requested;
        let claimed = state.claimed.iter().map(|id| &state.jobs[id]);
        Ok(Renewal::new(Tenure::Active, claimed.filter(asked).map(|job| job.id).collect()))
    }

    fn leave(&self, node: NodeId) -> Result<()> {
        self.lock().nodes.remove(&node);
        Ok(())
    }

    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        let state = self.lock();
        let mut due: Vec<(Timestamp, JobId)> =
            state.due(&peek.kinds, peek.after, peek.until, peek.most.saturating_add(1)).concat();
        due.sort_unstable();
        let beyond = due.get(peek.most).map(|(due, _)| *due);
        due.truncate(peek.most);
        let tickets = due.iter().map(|(_, id)| ticket_of(&state.jobs[id])).collect();
        let next = beyond.or_else(|| {
            let eligible = (state.waiting.iter())
                .filter(|((queue, kind, _), _)| peek.kinds.contains(kind) && state.room(queue) > 0);
            let later = eligible.flat_map(|(_, jobs)| {
                jobs.range((peek.until, JobId::from_i64(i64::MAX))..).next().map(|(due, _)| *due)
            });
            later.min()
        });
        let before = |after| state.due(&peek.kinds, None, after, 1).iter().any(|lane| !lane.is_empty());
        Ok(Peeked::new(tickets, next).overdue(peek.after.is_some_and(before)))
    }

    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        let now = self.now();
        let mut state = self.lock();
        let recorded = exchange.reports.iter().map(|report| state.record(node, report, now)).collect();
        if let Some(holding) = exchange.disown {
            let held: Vec<JobId> = (state.claimed.iter().copied())
                .filter(|id| state.jobs[id].owner == Some(node) && !holding.contains(id))
                .collect();
            for id in held {
                let next = settle(&state.jobs[&id], &Verdict::Release, now);
                state.follow(id, next, now);
            }
        }
        if !state.is_alive(node, now) {
            return Ok(Exchanged::new(recorded, Vec::new(), true));
        }
        let mut claimed: Vec<JobRecord> = (exchange.claims.iter())
            .filter_map(|ticket| state.claim_seen(node, ticket, &exchange.kinds, now))
            .collect();
        let swept = state.sweep(node, &exchange.kinds, exchange.sweep, now);
        let drained = swept.len() < exchange.sweep;
        claimed.extend(swept);
        let full = |((queue, kind, _), jobs): (&Line, &BTreeSet<_>)| {
            let due = jobs.first().is_some_and(|(due, _)| *due <= now);
            due && exchange.kinds.contains(kind) && state.is_full(queue)
        };
        let crowded = state.waiting.iter().any(full);
        Ok(Exchanged::new(recorded, claimed, drained).crowded(crowded))
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        let now = self.now();
        let mut state = self.lock();
        if !state.is_alive(node, now) {
            return Ok(Vec::new());
        }
        let orphans: Vec<(JobId, NodeId)> = (state.claimed.iter())
            .filter_map(|id| Some((*id, state.jobs[id].owner?)))
            .filter(|(_, owner)| !state.is_alive(*owner, now))
            .take(most)
            .collect();
        let rescue = |(id, from): (JobId, NodeId)| {
            let next = lost(&state.jobs[&id], now);
            let rescued = Rescued::new(id, from, next.state);
            state.follow(id, next, now);
            // By 3: a late report of the old owner must not pass for one that was heeded.
            if let Some(job) = state.jobs.get_mut(&id) {
                job.owner = None;
            } else if let Some(job) = state.history.get_mut(&id) {
                job.owner = None;
            }
            rescued
        };
        Ok(orphans.into_iter().map(rescue).collect())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("MemoryStore")
            .field("jobs", &state.jobs.len())
            .field("claimed", &state.claimed.len())
            .field("history", &state.history.len())
            .field("nodes", &state.nodes.len())
            .finish_non_exhaustive()
    }
}
