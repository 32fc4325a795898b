//! Real processes, really killed.
//!
//! The test starts itself again as a *child*: a process with a node on a shared file. Handlers write to a side log
//! that knows nothing of the store; when all is over, a checker compares the two. Children are killed with SIGKILL
//! after a random number of events, or abort at named points between claim, effect and commit.
//!
//! `PUNCTUAL_CRASH_CYCLES` sets the number of kills (default 30).
#![cfg(all(feature = "sqlite", unix))]

mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use folder::Folder;
use punctual_durable::{
    Cancelling, Done, Due, Enqueued, Exchange, Exchanged, Failure, Filter, Firing, JobContext, JobError,
    JobId, JobRecord, JobState, Jobs, KindOptions, Moved, NewJob, NewSchedule, NodeId, Outcome, Peek, Peeked,
    QueueChange, QueueRecord, Renewal, Rescued, Result, Saved, ScheduleChange, ScheduleRecord, SqliteStore,
    Store, SystemTimeSource, Ticket, TimeSource, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Real time after which a child that does nothing is taken for a failure.
const PATIENCE: Duration = Duration::from_secs(60);

const DATABASE: &str = "PUNCTUAL_CRASH_DATABASE";
const ABORT: &str = "PUNCTUAL_CRASH_ABORT";

#[derive(Serialize, Deserialize)]
struct Work {
    number: u64,
}

// ---- the child

/// Where a child takes its own life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Point {
    /// Before anything of the exchange is in the file.
    BeforeExchange,
    /// The exchange is on the disk, and nobody knows.
    AfterExchange,
    /// The handler has been called, and has done nothing.
    BeforeEffect,
    /// The effect has happened, and is not recorded.
    AfterEffect,
}

const POINTS: [Point; 4] =
    [Point::BeforeExchange, Point::AfterExchange, Point::BeforeEffect, Point::AfterEffect];

/// Aborts the process the `nth` time it comes by.
#[derive(Debug)]
struct Fuse {
    point: Option<Point>,
    left: AtomicU32,
}

impl Fuse {
    fn from_environment() -> Self {
        let text = std::env::var(ABORT).unwrap_or_default();
        let (name, nth) = text.split_once(':').unwrap_or(("", "0"));
        let point = POINTS.into_iter().find(|point| format!("{point:?}") == name);
        Self { point, left: AtomicU32::new(nth.parse().unwrap()) }
    }

    fn pass(&self, point: Point) {
        if self.point == Some(point) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // No destructor runs, nothing is flushed: as good as SIGKILL.
            std::process::abort();
        }
    }
}

/// Does nothing unless it is run as a child.
#[test]
fn child_process() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let fuse = Arc::new(Fuse::from_environment());
    let store = Fused { store: SqliteStore::open(&database).unwrap(), fuse: fuse.clone() };
    let side = SideLog::open(Path::new(&database));
    let handler = move |job: Work, cx: &JobContext| -> Result<Outcome, JobError> {
        side.write("start", cx);
        fuse.pass(Point::BeforeEffect);
        if job.number == u64::MAX {
            std::process::abort();
        }
        side.write("effect", cx);
        fuse.pass(Point::AfterEffect);
        if job.number.is_multiple_of(7) {
            let next = cx.client().enqueue(Work { number: job.number + 1 }).send()?;
            say(&format!("accepted {}", next.id()));
        }
        Ok(Done)
    };
    let jobs = Jobs::on(Arc::new(store))
        .handle_with("work", KindOptions::new().max_crashes(u32::MAX), handler)
        .concurrency(3)
        .poll_interval(Duration::from_millis(5))
        .observe(|event| say(&event.to_string()))
        .start()
        .unwrap();
    say("up");
    // Until the parent lets go.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    assert_eq!(jobs.shutdown(PATIENCE).unwrap(), 0);
}

/// One line to the parent, whole.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("\n> {line}\n").as_bytes()).and_then(|()| out.flush());
}

/// Lines that are appended whole, outside the store.
struct SideLog(std::fs::File);

impl SideLog {
    fn path(database: &Path) -> PathBuf {
        database.with_extension("log")
    }

    fn open(database: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(Self::path(database)).unwrap())
    }

    fn write(&self, what: &str, cx: &JobContext) {
        let (now, process) = (SystemTimeSource::default().timestamp().as_micros(), std::process::id());
        let line = format!("{what} {} {} {} {now} {process}\n", cx.id(), cx.fence(), cx.due().as_micros());
        (&self.0).write_all(line.as_bytes()).unwrap();
    }
}

/// A store with fuses in it.
#[derive(Debug)]
struct Fused {
    store: SqliteStore,
    fuse: Arc<Fuse>,
}

impl Store for Fused {
    fn now(&self) -> Timestamp {
        self.store.now()
    }
    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.store.enqueue(jobs)
    }
    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        self.store.cancel(ids)
    }
    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        self.store.reschedule(id, due)
    }
    fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        self.store.retry(id, due)
    }
    fn purge(&self, ids: Vec<JobId>) -> Result<usize> {
        self.store.purge(ids)
    }
    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        self.store.trim(before, most)
    }
    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        self.store.set_queue(queue, change)
    }
    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        self.store.save_schedule(schedule)
    }
    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        self.store.set_schedule(name, change)
    }
    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.store.schedules()
    }
    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        self.store.due_schedules(kinds, until)
    }
    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        self.store.fire(firings)
    }
    fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id)
    }
    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        self.store.find(filter)
    }
    fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        self.store.failures(id)
    }
    fn log(&self, id: JobId) -> Result<punctual_durable::JobLog> {
        self.store.log(id)
    }
    fn lines(&self) -> Result<Vec<punctual_durable::LineRecord>> {
        self.store.lines()
    }
    fn upcoming(
        &self,
        from: Timestamp,
        width: Duration,
        steps: usize,
        most: usize,
    ) -> Result<punctual_durable::Density> {
        self.store.upcoming(from, width, steps, most)
    }
    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<punctual_durable::RunTally>> {
        self.store.tallies(from, until)
    }
    fn errors(&self, since: Timestamp) -> Result<Vec<punctual_durable::ErrorTally>> {
        self.store.errors(since)
    }
    fn check(&self) -> Result<Vec<punctual_durable::Finding>> {
        self.store.check()
    }
    fn identity(&self) -> Result<punctual_durable::StoreId> {
        self.store.identity()
    }
    fn import(&self, cargo: punctual_durable::Cargo) -> Result<punctual_durable::Imported> {
        self.store.import(cargo)
    }
    fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.store.queues()
    }
    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        self.store.renew(node, lease)
    }
    fn leave(&self, node: NodeId) -> Result<()> {
        self.store.leave(node)
    }
    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.store.peek(peek)
    }
    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        self.fuse.pass(Point::BeforeExchange);
        let answer = self.store.exchange(node, exchange);
        self.fuse.pass(Point::AfterExchange);
        answer
    }
    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        self.store.rescue(node, most)
    }
}

// ---- the parent

/// A child, and a thread that passes on what it says.
struct Node {
    process: Child,
}

impl Node {
    fn spawn(database: &Path, abort: Option<(Point, u32)>, lines: &Sender<String>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_process", "--nocapture", "--test-threads=1"]);
        command.env(DATABASE, database).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some((point, nth)) = abort {
            command.env(ABORT, format!("{point:?}:{nth}"));
        }
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let lines = lines.clone();
        std::thread::spawn(move || {
            for line in out.lines().map_while(std::result::Result::ok) {
                if let Some(line) = line.strip_prefix("> ") {
                    let _ = lines.send(line.to_owned());
                }
            }
        });
        Self { process }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it has ended by its own fault.
    fn die(mut self) {
        // Held open: a child that can read its end shuts down.
        let stdin = self.process.stdin.take();
        assert!(!self.process.wait().unwrap().success());
        drop(stdin);
    }

    /// Lets it end in order.
    fn end(mut self) -> ExitStatus {
        drop(self.process.stdin.take());
        self.process.wait().unwrap()
    }
}

/// The parent's own view of the file: it enqueues and looks, as any other process may.
struct Parent {
    folder: Folder,
    store: SqliteStore,
    lines: Receiver<String>,
    sender: Sender<String>,
    accepted: BTreeSet<JobId>,
}

impl Parent {
    fn new() -> Self {
        let folder = Folder::new();
        let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
        let (sender, lines) = channel();
        Self { folder, store, lines, sender, accepted: BTreeSet::new() }
    }

    fn spawn(&self, abort: Option<(Point, u32)>) -> Node {
        Node::spawn(&self.folder.file("jobs.db"), abort, &self.sender)
    }

    fn enqueue(&mut self, count: u64) {
        let base = fastrand::u64(..1 << 40) * 7 + 1;
        let job = |n: u64| {
            let mut job = NewJob::new("work", format!("{{\"number\":{}}}", base + n));
            job.limits.max_crashes = u32::MAX;
            job.due(Due::After(Duration::from_millis(fastrand::u64(..20))))
        };
        let answers = self.store.enqueue((0..count).map(job).collect()).unwrap();
        self.accepted.extend(answers.into_iter().map(Enqueued::id));
    }

    /// Waits until children have recorded so many jobs.
    fn await_records(&mut self, count: u32) {
        let mut seen = 0;
        while seen < count {
            let line = self.lines.recv_timeout(PATIENCE).expect("the children make progress");
            seen += u32::from(line.contains(" is done"));
            self.note(&line);
        }
    }

    fn note(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix("accepted ") {
            self.accepted.insert(JobId::from_i64(id.parse().unwrap()));
        }
    }

    fn await_all(&mut self) {
        let count = |state| Filter::new().state(state).limit(1);
        loop {
            let living = [JobState::Scheduled, JobState::Claimed].map(count);
            if living.iter().all(|filter| self.store.find(filter).unwrap().is_empty()) {
                break;
            }
            let line = self.lines.recv_timeout(PATIENCE).expect("the children make progress");
            self.note(&line);
        }
        while let Ok(line) = self.lines.try_recv() {
            self.note(&line);
        }
    }

    /// Compares the store with the side log.
    fn check(&self) {
        let log = std::fs::read_to_string(SideLog::path(&self.folder.file("jobs.db"))).unwrap();
        let mut starts: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        let mut effects: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for line in log.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let number = |field: usize| fields[field].parse::<i64>().unwrap();
            let (id, fence, due, now, process) = (number(1), number(2), number(3), number(4), number(5));
            match fields[0] {
                "start" => {
                    assert!(now >= due, "job {id} was started {} µs early", due - now);
                    starts.entry(id).or_default().push((fence, process));
                }
                "effect" => {
                    assert!(effects.entry(id).or_default().insert(fence), "one effect for each claim")
                }
                other => panic!("{other}"),
            }
        }
        for id in &self.accepted {
            let record = self.store.job(*id).unwrap().expect("acknowledged is durable");
            assert_eq!(record.state, JobState::Done, "{record:?}");
            assert_eq!(record.attempt, 1, "a crash is not charged as an attempt: {record:?}");
            let starts = starts.get(&id.as_i64()).expect("started at least once");
            for pair in starts.windows(2) {
                let ((earlier, first), (later, second)) = (pair[0], pair[1]);
                assert!(earlier < later, "fences grow: {starts:?}");
                assert_ne!(first, second, "nobody starts again what it holds or has finished: {starts:?}");
            }
            let effects = effects.get(&id.as_i64()).expect("done means that it was done");
            let last = record.fence.as_i64();
            assert!(effects.contains(&last), "the recorded outcome is that of claim {last}: {effects:?}");
            assert_eq!(starts.last().unwrap().0, last, "nothing started after the outcome");
            assert!(usize::try_from(record.crashes).unwrap() >= starts.len() - 1, "{record:?} {starts:?}");
        }
        let done = self.store.find(&Filter::new().limit(usize::MAX)).unwrap();
        assert!(done.iter().all(|job| job.state == JobState::Done), "nothing is left over");
    }
}

fn cycles() -> u32 {
    std::env::var("PUNCTUAL_CRASH_CYCLES").map_or(30, |text| text.parse().unwrap())
}

#[test]
fn nodes_killed_at_random_lose_nothing_and_record_everything_once() {
    let mut parent = Parent::new();
    // Two at a time: when the one that has the file is killed, the other takes over.
    let mut nodes = vec![parent.spawn(None), parent.spawn(None)];
    for _ in 0..cycles() {
        parent.enqueue(20);
        parent.await_records(fastrand::u32(0..20));
        nodes.swap_remove(fastrand::usize(0..2)).kill();
        nodes.push(parent.spawn(None));
    }
    parent.await_all();
    for node in nodes {
        assert!(node.end().success());
    }
    parent.check();
}

#[test]
fn a_node_that_dies_between_any_two_steps_loses_nothing() {
    let mut parent = Parent::new();
    for point in POINTS {
        for nth in 1..=3 {
            parent.enqueue(10);
            parent.spawn(Some((point, nth))).die();
        }
    }
    let node = parent.spawn(None);
    parent.await_all();
    assert!(node.end().success());
    parent.check();
}

#[test]
fn a_job_that_kills_its_process_dies_and_the_others_live() {
    let mut parent = Parent::new();
    let mut poison = NewJob::new("work", format!("{{\"number\":{}}}", u64::MAX));
    poison.limits.max_crashes = 2;
    let poison = parent.store.enqueue(vec![poison]).unwrap()[0].id();
    parent.enqueue(10);
    parent.spawn(None).die();
    parent.spawn(None).die();
    let node = parent.spawn(None);
    parent.await_all();
    let record = parent.store.job(poison).unwrap().unwrap();
    assert_eq!((record.state, record.crashes), (JobState::Dead, 2));
    assert!(node.end().success());
    assert_eq!(parent.store.purge(vec![poison]).unwrap(), 1);
    parent.check();
}
