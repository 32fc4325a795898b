//! Random programs, run on the store under test and on the memory store: every answer is the same.
//!
//! Ids and fences may differ between stores, so answers are compared by the order in which jobs were accepted and
//! claimed. A failing program is named by its seed.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, ManualClock};

use super::{KIND, LEASE, Subject};
use crate::job::{Due, Fence, JobId, JobRecord, Limits, NewJob, NodeId, OnConflict, OnLost};
use crate::lane::Lane;
use crate::schedule::{Cadence, Missed, NewSchedule, OnFailure, Overlap};
use crate::store::{
    Cancelling, Enqueued, Exchange, Filter, MemoryStore, Moved, Peek, QueueChange, Report, ScheduleChange,
    Store, Ticket, Verdict,
};

/// Steps of one program. Long enough that queues fill, keys clash, jobs die and live again.
const STEPS: usize = 400;

/// Differential: see the top of the file.
pub fn every_answer_is_that_of_the_memory_store(subject: &mut dyn Subject) {
    for seed in [1, 2, 3] {
        program(subject, seed);
    }
}

fn program(subject: &mut dyn Subject, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let clock = ManualClock::new();
    clock.advance(Duration::from_nanos(subject.clock().now().as_nanos()));
    let reference = Arc::new(MemoryStore::with_time(clock.clone()));
    let prefix = format!("{seed}-");
    let mut ours = Side::new(subject.store(), &prefix);
    let mut theirs = Side::new(reference.clone(), &prefix);
    for step in 0..STEPS {
        let tell = || format!("seed {seed} step {step}");
        match random.u32(0..100) {
            0..25 => {
                let jobs: Vec<NewJob> =
                    (0..random.usize(1..5)).map(|_| new_job(&mut random, &prefix)).collect();
                same(ours.enqueue(jobs.clone()), theirs.enqueue(jobs), tell);
            }
            25..50 => {
                let (choice, verdict) = (random.u64(..), verdict(&mut random));
                let (hints, sweep) = (random.bool(), random.usize(0..4));
                let disown = random.u32(0..20) == 0;
                let asked: Vec<NewJob> =
                    (0..random.usize(0..3) / 2).map(|_| new_job(&mut random, &prefix)).collect();
                let said = (verdict, asked);
                let go = |side: &mut Side| side.exchange(choice, said.clone(), hints, sweep, disown);
                same(go(&mut ours), go(&mut theirs), tell);
            }
            50..60 => {
                let (most, ahead) = (random.usize(0..20), Duration::from_secs(random.u64(0..20)));
                same(ours.peek(most, ahead), theirs.peek(most, ahead), tell);
            }
            60..66 => {
                let nth = random.usize(..);
                same(ours.cancel(nth), theirs.cancel(nth), tell);
            }
            66..71 => {
                let (nth, due) = (random.usize(..), due(&mut random));
                same(ours.reschedule(nth, due), theirs.reschedule(nth, due), tell);
            }
            71..75 => {
                let (nth, due) = (random.usize(..), due(&mut random));
                same(ours.retry(nth, due), theirs.retry(nth, due), tell);
            }
            75..78 => {
                let nth = random.usize(..);
                same(ours.purge(nth), theirs.purge(nth), tell);
            }
            78..84 => {
                let queue = format!("{prefix}q{}", random.u32(0..3));
                let change = match random.u32(0..4) {
                    0 => QueueChange::Pause("busy".to_owned()),
                    1 => QueueChange::Resume,
                    2 => QueueChange::Limit(Some(random.u32(0..4))),
                    _ => QueueChange::Limit(None),
                };
                same(
                    ours.store.set_queue(&queue, change.clone()).is_ok(),
                    theirs.store.set_queue(&queue, change).is_ok(),
                    tell,
                );
            }
            84..87 => {
                let schedule = new_schedule(&mut random, &prefix);
                same(
                    ours.store.save_schedule(schedule.clone()).unwrap(),
                    theirs.store.save_schedule(schedule).unwrap(),
                    tell,
                );
            }
            87..89 => {
                let name = format!("{prefix}s{}", random.u32(0..2));
                let change = match random.u32(0..5) {
                    0 => ScheduleChange::Pause("busy".to_owned()),
                    1 => ScheduleChange::Resume,
                    2 => ScheduleChange::Trigger,
                    3 => ScheduleChange::Backfill(vec![ours.store.now(); random.usize(0..3)]),
                    _ => ScheduleChange::Remove,
                };
                let set = |side: &Side| side.store.set_schedule(&name, change.clone()).unwrap();
                same(set(&ours), set(&theirs), tell);
            }
            89..96 => {
                let time = Duration::from_millis(random.u64(0..3_000));
                subject.clock().advance(time);
                clock.advance(time);
                ours.renew();
                theirs.renew();
                same(ours.fire(), theirs.fire(), tell);
            }
            96..98 => {
                let kind = random.bool().then(|| KIND.to_owned());
                let filter = Filter { kind, limit: random.usize(0..50), ..Filter::new() };
                same(ours.find(filter.clone()), theirs.find(filter), tell);
            }
            _ => {
                ours.close();
                let before = subject.clock().now();
                subject.crash();
                clock.advance(LEASE);
                let passed = subject.clock().now().since(before);
                subject.clock().advance(LEASE - passed.min(LEASE));
                ours.reopen(subject.store());
                theirs.reopen(reference.clone());
                same(ours.rescue(), theirs.rescue(), tell);
            }
        }
        ours.learn_ids();
        theirs.learn_ids();
        same(ours.store.schedules().unwrap(), theirs.store.schedules().unwrap(), tell);
        reference.verify();
        subject.verify();
    }
    same(ours.all(), theirs.all(), || format!("seed {seed} at the end"));
    // The next program finds nothing to run.
    ours.end();
}

fn same<T: PartialEq + Debug>(ours: T, theirs: T, tell: impl Fn() -> String) {
    assert_eq!(ours, theirs, "{}: the store's answer, and that of the memory store", tell());
}

/// A job, and now and then some that follow it.
fn new_job(random: &mut fastrand::Rng, prefix: &str) -> NewJob {
    let mut job = one_job(random, prefix);
    while random.u32(0..4) == 0 {
        job = job.then(one_job(random, prefix));
    }
    job
}

fn one_job(random: &mut fastrand::Rng, prefix: &str) -> NewJob {
    let kind = if random.u32(0..10) == 0 { "foreign" } else { KIND };
    let mut job = NewJob::new(kind, format!("{}", random.u32(..)))
        .queue(format!("{prefix}q{}", random.u32(0..3)))
        .lane(Lane::from_index(random.usize(0..4)))
        .due(due(random));
    if random.bool() {
        let policy = [OnConflict::Keep, OnConflict::Reject, OnConflict::Replace][random.usize(0..3)];
        job = job.unique(format!("{prefix}k{}", random.u32(0..6)), policy);
    }
    job.limits = Limits {
        max_attempts: random.u32(1..4),
        max_crashes: random.u32(0..3),
        on_lost: if random.u32(0..4) == 0 { OnLost::Fail } else { OnLost::Rerun },
        timeout: random.bool().then(|| Duration::from_micros(random.u64(0..1 << 40))),
    };
    job
}

fn new_schedule(random: &mut fastrand::Rng, prefix: &str) -> NewSchedule {
    let job = NewJob { unique: None, ..new_job(random, prefix) };
    let period = Duration::from_secs(random.u64(1..5));
    let cadence = if random.bool() { Cadence::Every(period) } else { Cadence::Delay(period) };
    let spreads = matches!(cadence, Cadence::Every(_)) && random.bool();
    NewSchedule {
        overlap: [Overlap::Wait, Overlap::Skip, Overlap::Allow, Overlap::AtMost(2), Overlap::Replace]
            [random.usize(0..5)],
        missed: Missed::all(random.u32(0..3)),
        on_failure: [OnFailure::Continue, OnFailure::StopAfter(1), OnFailure::StopAfter(2)]
            [random.usize(0..3)],
        spread: if spreads { Duration::from_millis(random.u64(0..3_000)) } else { Duration::ZERO },
        jitter: Duration::from_millis(random.u64(0..2) * random.u64(0..3_000)),
        ..NewSchedule::new(format!("{prefix}s{}", random.u32(0..2)), cadence, job)
    }
}

fn due(random: &mut fastrand::Rng) -> Due {
    if random.bool() { Due::Now } else { Due::After(Duration::from_millis(random.u64(0..10_000))) }
}

fn verdict(random: &mut fastrand::Rng) -> Verdict {
    let after = Duration::from_millis(random.u64(0..3_000));
    match random.u32(0..11) {
        0..3 => Verdict::Done,
        3 => Verdict::Discard { reason: "moot".to_owned() },
        4..7 => Verdict::Retry { after, error: "no".to_owned() },
        7 => Verdict::Fail { error: "never".to_owned() },
        8 => Verdict::Snooze { after },
        9 => Verdict::Defer { after },
        _ => Verdict::Release,
    }
}

/// One of the two stores, and what the node on it knows.
struct Side {
    store: Arc<dyn Store>,
    prefix: String,
    node: NodeId,
    /// The last job of the program before.
    before: JobId,
    /// In order of acceptance: what answers call them by.
    jobs: Vec<JobId>,
    names: HashMap<JobId, usize>,
    held: Vec<JobRecord>,
    /// Old reports and tickets, to be sent again.
    told: Vec<Report>,
    seen: Vec<Ticket>,
}

impl Side {
    fn new(store: Arc<dyn Store>, prefix: &str) -> Self {
        let (jobs, names) = (Vec::new(), HashMap::new());
        let (held, told, seen) = (Vec::new(), Vec::new(), Vec::new());
        let known = store.find(&Filter::new().limit(usize::MAX)).unwrap();
        let before = known.last().map_or(JobId::from_i64(0), |job| job.id);
        let side = Self {
            store,
            before,
            prefix: prefix.to_owned(),
            node: NodeId::random(),
            jobs,
            names,
            held,
            told,
            seen,
        };
        side.renew();
        side
    }

    fn renew(&self) {
        self.store.renew(self.node, LEASE).unwrap();
    }

    /// Lets go of the store, so that its process can die.
    fn close(&mut self) {
        self.store = Arc::new(MemoryStore::new());
    }

    fn reopen(&mut self, store: Arc<dyn Store>) {
        self.store = store;
        self.node = NodeId::random();
        self.held.clear();
        self.renew();
    }

    fn pick(&self, nth: usize) -> JobId {
        if self.jobs.is_empty() { JobId::from_i64(i64::MAX) } else { self.jobs[nth % self.jobs.len()] }
    }

    fn kinds() -> Arc<[String]> {
        super::kinds()
    }

    fn enqueue(&mut self, jobs: Vec<NewJob>) -> Option<Vec<(u8, usize)>> {
        let answers = self.store.enqueue(jobs).ok()?;
        self.learn_ids();
        let mut named = Vec::new();
        for answer in answers {
            let id = answer.id();
            let how = match answer {
                Enqueued::New(_) => 0,
                Enqueued::Existing(_) => 1,
                Enqueued::Replaced(_) => 2,
            };
            named.push((how, self.names[&id]));
        }
        Some(named)
    }

    /// Names jobs that have been made since, by whatever made them.
    fn learn_ids(&mut self) {
        let last = self.jobs.last().copied().unwrap_or(self.before);
        let new = self.store.find(&Filter::new().after(last).limit(usize::MAX)).unwrap();
        for id in new.into_iter().map(|job| job.id) {
            self.names.insert(id, self.jobs.len());
            self.jobs.push(id);
        }
    }

    /// Fires what is due, as a node does.
    fn fire(&mut self) -> usize {
        let now = self.store.now();
        let due = self.store.due_schedules(&Self::kinds(), now).unwrap();
        let firings = due.iter().filter_map(|record| record.firing(now, now)).collect();
        self.store.fire(firings).unwrap().len()
    }

    fn exchange(
        &mut self,
        choice: u64,
        (verdict, asked): (Verdict, Vec<NewJob>),
        hints: bool,
        sweep: usize,
        disown: bool,
    ) -> (String, Vec<(usize, JobRecord)>, bool, Vec<usize>) {
        let mut reports = Vec::new();
        if !self.held.is_empty() && !choice.is_multiple_of(3) {
            let job = self.held.remove(usize::try_from(choice % 1_000).unwrap() % self.held.len());
            reports.push(Report::new(job.id, job.fence, verdict.clone()).follow_ups(asked));
        }
        if !self.told.is_empty() && choice.is_multiple_of(5) {
            // Sent twice, or very late: the answer depends on what has happened since.
            reports.push(self.told[usize::try_from(choice % 997).unwrap() % self.told.len()].clone());
        }
        if choice.is_multiple_of(7) && !self.held.is_empty() {
            reports.push(Report::new(self.held[0].id, Fence::from_i64(-1), verdict));
        }
        self.told.extend(reports.iter().cloned());
        let claims = if hints { std::mem::take(&mut self.seen) } else { Vec::new() };
        let mut exchange = Exchange::new(Self::kinds()).reports(reports).claims(claims).sweep(sweep);
        if disown {
            self.held.truncate(1);
            exchange = exchange.disown_all_but(self.held.iter().map(|job| job.id).collect());
        }
        let answer = self.store.exchange(self.node, exchange).unwrap();
        self.learn_ids();
        self.held.extend(answer.claimed.iter().cloned());
        let claimed = answer.claimed.into_iter().map(|job| self.named(job)).collect();
        let followed = answer.followed.iter().map(|ticket| self.names[&ticket.id]).collect();
        (format!("{:?}", answer.recorded), claimed, answer.drained, followed)
    }

    /// The record without what may differ between stores.
    fn named(&self, job: JobRecord) -> (usize, JobRecord) {
        let owner = job.owner.map(|_| NodeId::from_i64(0));
        let parent = job.parent.map(|parent| JobId::from_i64(i64::try_from(self.names[&parent]).unwrap()));
        let plain = JobRecord { id: JobId::from_i64(0), fence: Fence::from_i64(0), owner, parent, ..job };
        // A node is named in what is said of its death.
        let note =
            plain.note.clone().map(|note| if note.contains(" died ") { "died".to_owned() } else { note });
        // And a job in what is said of a key.
        let note = note.map(|note| if note.contains("follow-up") { "taken".to_owned() } else { note });
        (self.names[&job.id], JobRecord { note, ..plain })
    }

    fn peek(&mut self, most: usize, ahead: Duration) -> (Vec<usize>, Option<Duration>) {
        let now = self.store.now();
        let peeked = self.store.peek(&Peek::new(Self::kinds(), now.after(ahead), most)).unwrap();
        self.seen = peeked.tickets;
        (
            self.seen.iter().map(|ticket| self.names[&ticket.id]).collect(),
            peeked.next.map(|next| next.since(now)),
        )
    }

    fn cancel(&self, nth: usize) -> Vec<Cancelling> {
        self.store.cancel(vec![self.pick(nth)]).unwrap()
    }

    fn moved(moved: Moved) -> String {
        match moved {
            Moved::Waiting(ticket) => format!("waiting {} {}", ticket.due, ticket.version),
            other => format!("{other:?}"),
        }
    }

    fn reschedule(&self, nth: usize, due: Due) -> String {
        Self::moved(self.store.reschedule(self.pick(nth), due).unwrap())
    }

    fn retry(&self, nth: usize, due: Due) -> Option<String> {
        self.store.retry(self.pick(nth), due).ok().map(Self::moved)
    }

    fn purge(&self, nth: usize) -> usize {
        self.store.purge(vec![self.pick(nth), self.pick(nth / 2)]).unwrap()
    }

    fn rescue(&self) -> Vec<(usize, String)> {
        let rescued = self.store.rescue(self.node, 1_000).unwrap();
        rescued.iter().map(|rescue| (self.names[&rescue.id], rescue.state.to_string())).collect()
    }

    fn find(&self, filter: Filter) -> Vec<(usize, JobRecord)> {
        // Jobs of earlier programs do not count.
        let filter = filter.after(self.before);
        self.store.find(&filter).unwrap().into_iter().map(|job| self.named(job)).collect()
    }

    fn all(&self) -> Vec<(Option<(usize, JobRecord)>, usize)> {
        let look = |id: &JobId| {
            let job = self.store.job(*id).unwrap();
            (job.map(|job| self.named(job)), self.store.failures(*id).unwrap().len())
        };
        self.jobs.iter().map(look).collect()
    }

    fn end(&self) {
        for schedule in self.store.schedules().unwrap() {
            self.store.set_schedule(&schedule.definition.name, ScheduleChange::Remove).unwrap();
        }
        self.store.cancel(self.jobs.clone()).unwrap();
        let exchange = Exchange::new(Self::kinds()).disown_all_but(Vec::new());
        self.store.exchange(self.node, exchange).unwrap();
        self.store.leave(self.node).unwrap();
        for queue in self.store.queues().unwrap() {
            assert!(queue.name.starts_with(|first: char| first.is_ascii_digit()), "{}", self.prefix);
        }
    }
}
