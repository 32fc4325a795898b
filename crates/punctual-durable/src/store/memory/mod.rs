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
//! 5. `failures` and `logs` are of jobs in these two.

mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use self::state::{Line, State, line_of, plain_queue, ticket_of};
use super::density::Counting;
use super::rules::{lost_together, settle};
use super::{
    Cancelling, Density, Enqueued, Exchange, Exchanged, Filter, LineRecord, Moved, Next, NodeRecord, Peek,
    Peeked, QueueChange, QueueRecord, Renewal, Rescued, Saved, ScheduleChange, Store, Tenure, Ticket,
    Verdict,
};
use crate::doctor::Finding;
use crate::error::{Error, Result};
use crate::job::{
    Due, Failure, JobId, JobRecord, JobState, NewJob, NodeId, OnConflict, StoreId, UniqueKey, check_name,
};
use crate::journal::JobLog;
use crate::schedule::{Firing, Happening, NewSchedule, ScheduleRecord};
use crate::tally::{ErrorTally, RunTally};
use crate::time::{SystemTimeSource, TimeSource, Timestamp};
use crate::transfer::{Cargo, Imported};

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
    identity: StoreId,
    time: Box<dyn TimeSource>,
    state: Mutex<State>,
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
        Self { identity: StoreId::random(), time: Box::new(time), state: Mutex::default() }
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
        let known = |id: &JobId| state.jobs.contains_key(id) || state.history.contains_key(id);
        assert!(state.failures.keys().chain(state.logs.keys()).all(known), "invariant 5");
    }
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
            let holder = match state.keys.get(key) {
                Some(holder) => format!("job {holder}"),
                None if new.insert(key) => continue,
                None => "another job of the batch".to_owned(),
            };
            if *on_conflict == OnConflict::Reject {
                return Err(Error::conflict(format!("the unique key {key:?} belongs to {holder}")));
            }
        }
        jobs.into_iter().map(|job| state.accept(job, None, now)).collect()
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
                        state.after_occurrence(&schedule, state_now, now);
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
                state.forget(id);
                purged += 1;
            }
        }
        Ok(purged)
    }

    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        let mut state = self.lock();
        state.runs.retain(|_, tally| tally.minute >= before);
        state.errors.retain(|_, tally| tally.last >= before);
        let old = |job: &&JobRecord| job.finished.is_some_and(|finished| finished < before);
        let mut ids: Vec<_> = state.history.values().filter(old).map(|job| (job.finished, job.id)).collect();
        ids.sort_unstable();
        ids.truncate(most);
        for (_, id) in &ids {
            state.history.remove(id);
            state.forget(*id);
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
                state.occur(&record, Happening::asked_for(now), now, now);
            }
            ScheduleChange::Backfill(times) => {
                let record = record.clone();
                for nominal in times {
                    state.occur(&record, Happening::asked_for(nominal), now, now);
                }
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

    fn log(&self, id: JobId) -> Result<JobLog> {
        Ok(self.lock().logs.get(&id).cloned().unwrap_or_default())
    }

    fn queues(&self) -> Result<Vec<QueueRecord>> {
        Ok(self.lock().queues.values().cloned().collect())
    }

    fn lines(&self) -> Result<Vec<LineRecord>> {
        let state = self.lock();
        let line = |((queue, kind, lane), jobs): (&Line, &BTreeSet<(Timestamp, JobId)>)| {
            LineRecord::new(queue.as_str(), kind.as_str(), *lane, jobs.first().map(|(due, _)| *due))
        };
        Ok(state.waiting.iter().map(line).collect())
    }

    fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let (now, state) = (self.now(), self.lock());
        let mut nodes: BTreeMap<NodeId, NodeRecord> = (state.nodes.iter())
            .map(|(id, until)| (*id, NodeRecord::new(*id, state.is_alive(*id, now), Some(*until), 0)))
            .collect();
        for owner in state.claimed.iter().filter_map(|id| state.jobs[id].owner) {
            nodes.entry(owner).or_insert_with(|| NodeRecord::new(owner, false, None, 0)).held += 1;
        }
        nodes.retain(|_, node| node.alive || node.held > 0);
        Ok(nodes.into_values().collect())
    }

    fn upcoming(&self, from: Timestamp, width: Duration, steps: usize, most: usize) -> Result<Density> {
        let mut counting = Counting::new(from, width, steps, most);
        let state = self.lock();
        for (since, until) in Density::windows(from, width, steps) {
            for jobs in state.waiting.values() {
                let mut window = jobs
                    .range((since, JobId::from_i64(i64::MIN))..)
                    .map(|(due, _)| *due)
                    .take_while(|due| *due < until);
                if window.any(|due| counting.note(due)) {
                    return Ok(counting.finish());
                }
            }
        }
        Ok(counting.finish())
    }

    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<RunTally>> {
        let state = self.lock();
        let within = |tally: &&RunTally| tally.minute >= from && tally.minute < until;
        Ok(RunTally::sum(state.runs.values().filter(within).cloned()))
    }

    fn errors(&self, since: Timestamp) -> Result<Vec<ErrorTally>> {
        let state = self.lock();
        Ok(ErrorTally::sum(state.errors.values().filter(|tally| tally.last >= since).cloned()))
    }

    fn check(&self) -> Result<Vec<Finding>> {
        let now = self.now();
        let state = self.lock();
        let orphan = |id: &&JobId| !state.jobs[id].owner.is_some_and(|owner| state.is_alive(owner, now));
        let orphans = state.claimed.iter().filter(orphan).count();
        let found = |count| format!("{count} jobs are held by nodes that are dead, and wait to be rescued");
        let orphaned = (orphans > 0).then(|| Finding::warning("orphaned claims", found(orphans)));
        let still = (state.schedules.iter())
            .filter(|(name, record)| record.stands_still(state.living(name.as_str())));
        Ok(orphaned.into_iter().chain(still.map(|(name, _)| Finding::stands_still(name))).collect())
    }

    fn identity(&self) -> Result<StoreId> {
        Ok(self.identity)
    }

    fn import(&self, cargo: Cargo) -> Result<Imported> {
        cargo.check()?;
        let now = self.now();
        self.lock().import(cargo, now)
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
        state.count(node, exchange.tallies);
        exchange.updates.into_iter().for_each(|update| state.update(node, update));
        let mut followed = Vec::new();
        let record = |report| state.record(node, report, now, &mut followed);
        let recorded = exchange.reports.iter().map(record).collect();
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
            return Ok(Exchanged::new(recorded, Vec::new(), true).followed(followed));
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
        Ok(Exchanged::new(recorded, claimed, drained).crowded(crowded).followed(followed))
    }

    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        let now = self.now();
        let mut state = self.lock();
        if !state.is_alive(node, now) {
            return Ok(Vec::new());
        }
        let orphans: Vec<JobRecord> = (state.claimed.iter().map(|id| &state.jobs[id]))
            .filter(|job| job.owner.is_some_and(|owner| !state.is_alive(owner, now)))
            .cloned()
            .collect();
        let rescue = |(job, next): (JobRecord, Next)| {
            let (id, from) = (job.id, job.owner.unwrap_or(NodeId::from_i64(0)));
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
        Ok(lost_together(orphans, most, now).into_iter().map(rescue).collect())
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
