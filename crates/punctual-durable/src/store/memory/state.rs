//! What a memory store holds, and every change of it. Invariants: see `mod.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::error::{Error, Result};
use crate::job::{
    Due, Failure, Fence, JobId, JobRecord, JobState, NewJob, NodeId, OnConflict, StoreId, UniqueKey,
};
use crate::journal::{JobLog, LogLine, Update};
use crate::lane::{Lane, share};
use crate::schedule::{Firing, Happening, ScheduleRecord};
use crate::store::{Enqueued, Next, QueueRecord, Recorded, Report, Ticket, follow_ups, refusal, settle};
use crate::tally::{Ending, ErrorTally, RunTally, Tallies};
use crate::time::Timestamp;
use crate::transfer::{Cargo, Imported, MovingJob};

#[derive(Default)]
pub(super) struct State {
    pub(super) jobs: BTreeMap<JobId, JobRecord>,
    pub(super) history: BTreeMap<JobId, JobRecord>,
    pub(super) failures: BTreeMap<JobId, Vec<Failure>>,
    pub(super) logs: BTreeMap<JobId, JobLog>,
    pub(super) waiting: BTreeMap<Line, BTreeSet<(Timestamp, JobId)>>,
    pub(super) claimed: BTreeSet<JobId>,
    pub(super) keys: HashMap<String, JobId>,
    pub(super) queues: BTreeMap<String, QueueRecord>,
    pub(super) nodes: HashMap<NodeId, Timestamp>,
    pub(super) schedules: BTreeMap<String, ScheduleRecord>,
    pub(super) runs: BTreeMap<(Timestamp, NodeId, String, Ending), RunTally>,
    pub(super) errors: BTreeMap<(Timestamp, NodeId, String, i64), ErrorTally>,
    /// The last job that was taken in from each store.
    pub(super) imported: BTreeMap<StoreId, JobId>,
    pub(super) last_id: i64,
    pub(super) last_fence: i64,
}

/// Jobs wait in lines: one for each queue, kind and lane.
pub(super) type Line = (String, String, Lane);

pub(super) fn line_of(job: &JobRecord) -> Line {
    (job.queue.clone(), job.kind.clone(), job.lane)
}

pub(super) fn ticket_of(job: &JobRecord) -> Ticket {
    Ticket { id: job.id, version: job.version, due: job.due, lane: job.lane }
}

impl State {
    pub(super) fn accept(&mut self, job: NewJob, parent: Option<JobId>, now: Timestamp) -> Result<Enqueued> {
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
        let record = JobRecord { parent, ..JobRecord::accepted(JobId::from_i64(self.last_id), job, now) };
        self.queues.entry(record.queue.clone()).or_insert_with(|| plain_queue(&record.queue));
        let ticket = ticket_of(&record);
        self.put(record);
        Ok(Enqueued::New(ticket))
    }

    pub(super) fn replace(&mut self, id: JobId, new: NewJob, now: Timestamp) -> Enqueued {
        if self.jobs[&id].state != JobState::Scheduled {
            return Enqueued::Existing(id);
        }
        let mut job = self.take(id);
        job.due = new.due.instant(now);
        job.payload = Some(new.payload);
        job.then = new.then;
        job.version += 1;
        let ticket = ticket_of(&job);
        self.put(job);
        Enqueued::Replaced(ticket)
    }

    /// Takes a job out of every collection, to be changed and [put](Self::put) back.
    pub(super) fn take(&mut self, id: JobId) -> JobRecord {
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

    pub(super) fn put(&mut self, job: JobRecord) {
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
    pub(super) fn living(&self, schedule: &str) -> usize {
        let of_it = |job: &&JobRecord| !job.state.is_over() && is_of(job, schedule);
        self.jobs.values().filter(of_it).count()
    }

    /// Makes an occurrence an ordinary job.
    pub(super) fn occur(
        &mut self,
        record: &ScheduleRecord,
        it: Happening,
        due: Timestamp,
        now: Timestamp,
    ) -> Ticket {
        self.last_id += 1;
        let job = record.definition.job.clone().due(Due::At(due));
        let mut job = JobRecord::accepted(JobId::from_i64(self.last_id), job, now);
        job.series = Some((record.definition.name.clone(), it.nominal));
        job.missed = it.missed;
        self.queues.entry(job.queue.clone()).or_insert_with(|| plain_queue(&job.queue));
        let ticket = ticket_of(&job);
        self.put(job);
        ticket
    }

    /// An occurrence is over: see `schedule.rs`.
    pub(super) fn after_occurrence(&mut self, schedule: &str, how: JobState, now: Timestamp) {
        let living = self.living(schedule);
        let Some(record) = self.schedules.get_mut(schedule) else { return };
        record.ended(how, now);
        if living > 0 {
            return;
        }
        let owed = record.next_after_end(now);
        if let Some(owed) = owed {
            let record = record.clone();
            self.occur(&record, owed, record.due(owed.nominal).max(now), now);
        }
    }

    pub(super) fn fire(&mut self, firing: Firing, now: Timestamp) -> Vec<Ticket> {
        let seen = |record: &&ScheduleRecord| record.version == firing.version && record.paused.is_none();
        let Some(mut record) = self.schedules.get(&firing.name).filter(seen).cloned() else {
            return Vec::new();
        };
        if firing.replaces {
            self.cancel_living(&firing.name, now);
        }
        let living = self.living(&firing.name);
        let happening = record.fired(firing, living);
        self.schedules.insert(record.definition.name.clone(), record.clone());
        happening.into_iter().map(|it| self.occur(&record, it, record.due(it.nominal), now)).collect()
    }

    /// Cancels the occurrences of a schedule that wait, and asks for those that are claimed. The schedule does not go on
    /// by that: the caller sees to it.
    fn cancel_living(&mut self, schedule: &str, now: Timestamp) {
        let of_it = |job: &&JobRecord| !job.state.is_over() && is_of(job, schedule);
        let ids: Vec<JobId> = self.jobs.values().filter(of_it).map(|job| job.id).collect();
        for id in ids {
            let mut job = self.take(id);
            if job.state == JobState::Claimed {
                job.cancel_requested = true;
            } else {
                (job.state, job.finished) = (JobState::Cancelled, Some(now));
                job.version += 1;
            }
            self.put(job);
        }
    }

    /// Moves a claimed job on, as the rules have decided.
    pub(super) fn follow(&mut self, id: JobId, next: Next, now: Timestamp) {
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
        if job.state == JobState::Done {
            job.then.clear();
        }
        let over = job.series.clone().filter(|_| job.state.is_over());
        self.put(job);
        if let Some((schedule, _)) = over {
            self.after_occurrence(&schedule, next.state, now);
        }
    }

    /// Keeps what an attempt has said, if it may still say something.
    pub(super) fn update(&mut self, node: NodeId, update: Update) {
        let holds = |job: &JobRecord| {
            job.state == JobState::Claimed && job.owner == Some(node) && job.fence == update.fence
        };
        if !self.jobs.get(&update.id).is_some_and(holds) {
            return;
        }
        let log = self.logs.entry(update.id).or_default();
        log.progress = update.progress.or(log.progress.take());
        for line in update.lines {
            let known = |old: &LogLine| (old.fence, old.number) == (line.fence, line.number);
            if !log.lines.iter().rev().any(known) {
                log.lines.push(line);
            }
        }
    }

    pub(super) fn count(&mut self, node: NodeId, tallies: Tallies) {
        for run in tallies.runs {
            self.runs.insert((run.minute, node, run.kind.clone(), run.ending), run);
        }
        for error in tallies.errors {
            self.errors.insert((error.hour, node, error.kind.clone(), error.fingerprint), error);
        }
    }

    /// Forgets what is kept beside a job.
    pub(super) fn forget(&mut self, id: JobId) {
        self.failures.remove(&id);
        self.logs.remove(&id);
    }

    /// Accepts what follows a job that is done, and notes what came to nothing.
    fn accept_follow_ups(
        &mut self,
        parent: JobId,
        jobs: Vec<NewJob>,
        now: Timestamp,
        followed: &mut Vec<Ticket>,
    ) {
        let mut notes = Vec::new();
        for job in jobs {
            let accepted = job.check().and_then(|()| self.accept(job.clone(), Some(parent), now));
            match accepted {
                Ok(Enqueued::New(ticket) | Enqueued::Replaced(ticket)) => followed.push(ticket),
                Ok(Enqueued::Existing(holder)) => notes.push(refusal(&job, Ok(holder))),
                Err(error) => notes.push(refusal(&job, Err(&error))),
            }
        }
        if let Some(job) = self.history.get_mut(&parent).filter(|_| !notes.is_empty()) {
            job.note = Some(notes.join("; "));
        }
    }

    /// `followed` gets the tickets of what follows.
    pub(super) fn record(
        &mut self,
        node: NodeId,
        report: &Report,
        now: Timestamp,
        followed: &mut Vec<Ticket>,
    ) -> Recorded {
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
                let follow_ups = follow_ups(job, &next, &report.follow_ups);
                self.follow(report.id, next, now);
                self.accept_follow_ups(report.id, follow_ups, now, followed);
                recorded
            }
            (true, _) => Recorded::Already,
        }
    }

    /// Takes in a page from another store; it has been checked.
    pub(super) fn import(&mut self, cargo: Cargo, now: Timestamp) -> Result<Imported> {
        let known = self.imported.get(&cargo.from).copied().unwrap_or(JobId::from_i64(i64::MIN));
        let new: Vec<MovingJob> = cargo.jobs.into_iter().filter(|job| job.record.id > known).collect();
        let upto = new.last().map_or(known, |job| job.record.id);
        let new = new.into_iter().zip((self.last_id + 1..).map(JobId::from_i64));
        let (following, arrived): (Vec<_>, Vec<MovingJob>) =
            new.map(|(job, id)| ((id, job.follow_ups(now)), job.arrive(id, now))).unzip();
        // All or nothing: whether a key is taken is known before the first is taken in.
        let mut keys = BTreeSet::new();
        for job in arrived.iter().map(|job| &job.record).filter(|job| !job.state.is_over()) {
            if let Some(key) = &job.unique
                && (self.keys.contains_key(key) || !keys.insert(key))
            {
                return Err(Error::conflict(format!("the unique key {key:?} belongs to another job here")));
            }
        }
        let jobs = arrived.len();
        for MovingJob { record, failures, log } in arrived {
            self.last_id = record.id.as_i64();
            self.last_fence = self.last_fence.max(record.fence.as_i64());
            self.queues.entry(record.queue.clone()).or_insert_with(|| plain_queue(&record.queue));
            if !failures.is_empty() {
                self.failures.insert(record.id, failures);
            }
            if log != JobLog::default() {
                self.logs.insert(record.id, log);
            }
            self.put(record);
        }
        for (id, follow_ups) in following {
            self.accept_follow_ups(id, follow_ups, now, &mut Vec::new());
        }
        for queue in cargo.queues {
            let here = self.queues.entry(queue.name.clone()).or_insert_with(|| plain_queue(&queue.name));
            if here.paused.is_none() && here.limit.is_none() {
                *here = queue;
            }
        }
        let before = self.schedules.len();
        for schedule in cargo.schedules {
            let living = self.living(&schedule.definition.name);
            let name = schedule.definition.name.clone();
            self.schedules.entry(name).or_insert_with(|| schedule.arrive(living, now));
        }
        self.imported.insert(cargo.from, upto);
        Ok(Imported::new(jobs, self.schedules.len() - before, upto))
    }

    /// How many more jobs of `queue` may be claimed.
    pub(super) fn room(&self, queue: &str) -> usize {
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
    pub(super) fn is_full(&self, queue: &str) -> bool {
        self.room(queue) == 0 && self.queues.get(queue).is_some_and(|settings| settings.paused.is_none())
    }

    pub(super) fn claim(&mut self, node: NodeId, id: JobId, now: Timestamp) -> JobRecord {
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

    pub(super) fn claim_seen(
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
    pub(super) fn due(
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

    pub(super) fn sweep(
        &mut self,
        node: NodeId,
        kinds: &[String],
        most: usize,
        now: Timestamp,
    ) -> Vec<JobRecord> {
        let lanes = self.due(kinds, None, now, most);
        let places = share(most, std::array::from_fn(|lane| lanes[lane].len()));
        let chosen: Vec<JobId> = (lanes.iter().zip(places))
            .flat_map(|(jobs, places)| jobs.iter().take(places).map(|(_, id)| *id))
            .collect();
        chosen.into_iter().map(|id| self.claim(node, id, now)).collect()
    }

    pub(super) fn is_alive(&self, node: NodeId, now: Timestamp) -> bool {
        self.nodes.get(&node).is_some_and(|until| *until > now)
    }
}

pub(super) fn is_of(job: &JobRecord, schedule: &str) -> bool {
    job.series.as_ref().is_some_and(|(name, _)| name == schedule)
}

pub(super) fn plain_queue(name: &str) -> QueueRecord {
    QueueRecord { name: name.to_owned(), paused: None, limit: None }
}
