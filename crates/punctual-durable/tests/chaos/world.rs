//! One test's store, processes and side log, from outside: enqueues and looks, as any other process may.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use punctual::{Clock, SystemClock};
use punctual_durable::{
    Cadence, Due, Enqueued, Filter, JobId, JobRecord, JobState, Missed, NewJob, NewSchedule, Overlap,
    ScheduleChange, Store,
};

use punctual_testbed::Postgres;

use crate::PATIENCE;
use crate::books::Books;
use crate::checker::{self, Evidence, Leave, Row, Seen, Series, Violation};
use crate::folder::Folder;
use crate::fuse::Point;
use crate::node::Node;
use crate::place::Place;
use crate::program::{Act, Orders, Work};
use crate::side_log::{Entry, SideLog};

/// The schedule of a world, if it has one.
const SERIES: &str = "tick";
const PERIOD: Duration = Duration::from_millis(7);

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) folder: Folder,
    pub(crate) place: Place,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) leave: Leave,
    /// How long others wait before they take a node for dead.
    pub(crate) lease: Duration,
    /// How often nodes look.
    pub(crate) poll: Duration,
    log: SideLog,
    lines: Receiver<String>,
    pub(crate) sender: Sender<String>,
    series_start: Option<i64>,
    /// What must happen exactly once, if it has begun.
    books: Option<Books>,
}

impl World {
    pub(crate) fn sqlite() -> Self {
        let folder = Folder::new();
        let place = Place::Sqlite(folder.file("jobs.db"));
        Self::new(folder, place)
    }

    /// In that file; everything else is elsewhere.
    pub(crate) fn sqlite_at(file: PathBuf) -> Self {
        Self::new(Folder::new(), Place::Sqlite(file))
    }

    /// In a database of its own. A lease may always lapse where the machine is busy.
    pub(crate) fn postgres(server: &Postgres) -> Self {
        let mut world = Self::new(Folder::new(), Place::Postgres(server.fresh_database()));
        world.leave.leases_lapse = true;
        world.lease = Duration::from_millis(500);
        world
    }

    fn new(folder: Folder, place: Place) -> Self {
        let (store, log) = (place.open().unwrap(), SideLog::open(&folder.file("side.log")));
        let (sender, lines) = channel();
        let (leave, lease, poll) = (Leave::default(), Duration::from_secs(2), Duration::from_millis(5));
        Self { folder, place, store, leave, lease, poll, log, lines, sender, series_start: None, books: None }
    }

    pub(crate) fn orders(&self) -> Orders {
        Orders {
            place: self.place.clone(),
            log: self.log.path().to_owned(),
            fuse: None,
            lease: self.lease,
            poll: self.poll,
            ahead: 0,
            lies: false,
            file_size: None,
            shift: None,
            copy_to: None,
        }
    }

    pub(crate) fn spawn(&self) -> Node {
        Node::spawn(&self.orders(), &self.sender)
    }

    /// With a short lease, so that it soon comes by every point.
    pub(crate) fn spawn_fused(&self, point: Point, nth: u32) -> Node {
        let lease = Duration::from_millis(100);
        Node::spawn(&Orders { fuse: Some((point, nth)), lease, ..self.orders() }, &self.sender)
    }

    pub(crate) fn job(act: Act) -> NewJob {
        let mut job = NewJob::new("work", serde_json::to_string(&Work { act }).unwrap());
        (job.limits.max_crashes, job.limits.max_attempts) = (u32::MAX, u32::MAX);
        job
    }

    /// Three jobs, of which the last asks for one more.
    pub(crate) fn chain() -> NewJob {
        let pause = Due::After(Duration::from_millis(fastrand::u64(..5)));
        Self::job(Act::Plain).then(Self::job(Act::Plain).due(pause)).then(Self::job(Act::Then))
    }

    /// One that takes up room.
    pub(crate) fn bulky(act: Act) -> NewJob {
        let mut payload = serde_json::to_value(Work { act }).unwrap();
        payload["bulk"] = "x".repeat(20_000).into();
        let mut job = Self::job(act);
        job.payload = payload.to_string();
        job
    }

    pub(crate) fn enqueue(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        self.insist(|_| self.try_enqueue(jobs.clone()))
    }

    /// What the store acknowledges goes into the side log.
    pub(crate) fn try_enqueue(&self, jobs: Vec<NewJob>) -> punctual_durable::Result<Vec<JobId>> {
        let accepted = self.store.enqueue(jobs.clone())?;
        let ids: Vec<JobId> = accepted.into_iter().map(Enqueued::id).collect();
        for (id, job) in ids.iter().zip(&jobs) {
            self.log.write(&Entry::accepted(*id));
            let links = links(job);
            if links > 0 {
                self.log.write(&Entry::Owed { id: id.as_i64(), links });
            }
        }
        Ok(ids)
    }

    /// Jobs due within 20 ms, some of which enqueue others, and some of which others follow.
    pub(crate) fn enqueue_some(&self, count: usize) {
        let books = |n: usize| n % 7 == 2 && self.books.is_some();
        let job = |n: usize| {
            let job = match n % 7 {
                _ if books(n) => Self::job(Act::Book),
                1 => Self::job(Act::Then),
                3 => Self::job(Act::Spawn),
                5 => Self::chain(),
                _ => Self::job(Act::Plain),
            };
            job.due(Due::After(Duration::from_millis(fastrand::u64(..20))))
        };
        let ids = self.enqueue((0..count).map(job).collect());
        if let Some(open) = &self.books {
            open.expect(ids.into_iter().enumerate().filter(|(n, _)| books(*n)).map(|(_, id)| id));
        }
    }

    /// From now on some of the jobs book.
    pub(crate) fn start_books(&mut self) {
        self.books = Some(Books::open(&self.place));
    }

    /// Something that happens every few milliseconds, each time once and with what follows it, however long nobody was
    /// there.
    pub(crate) fn start_series(&mut self) {
        let job = Self::job(Act::Plain).then(Self::job(Act::Plain));
        let mut schedule = NewSchedule::new(SERIES, Cadence::Every(PERIOD), job);
        let start = self.store.now().after(PERIOD);
        (schedule.start, schedule.missed, schedule.overlap) =
            (Some(start), Missed::all(Missed::MOST), Overlap::Allow);
        self.store.save_schedule(schedule).unwrap();
        self.series_start = Some(start.as_micros());
    }

    /// Asks the store until it answers: a server may be away for a while, and a file locked by others for longer than
    /// SQLite waits, on a machine that is too busy. What was refused was not acknowledged.
    fn insist<T>(&self, ask: impl Fn(&dyn Store) -> punctual_durable::Result<T>) -> T {
        let clock = SystemClock::new();
        let begun = clock.now();
        loop {
            match ask(&*self.store) {
                Ok(answer) => return answer,
                Err(error) if error.is_transient() && clock.now().since(begun) < PATIENCE => {
                    std::thread::park_timeout(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    // ---- waiting

    /// The next line that any process says.
    pub(crate) fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the processes make progress")
    }

    pub(crate) fn await_line(&self, part: &str) -> String {
        loop {
            let line = self.hear();
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Starts nodes, and waits until they have opened the store.
    pub(crate) fn spawn_and_await(&self, count: usize) -> Vec<Node> {
        let nodes = (0..count).map(|_| self.spawn()).collect();
        let mut up = 0;
        while up < count {
            up += usize::from(self.hear() == "up");
        }
        nodes
    }

    /// Waits until so many jobs are over.
    pub(crate) fn await_records(&self, count: u32) {
        for _ in 0..count {
            self.await_line(" is done");
        }
    }

    /// Waits until each of these jobs is held by its handler.
    pub(crate) fn await_held(&self, ids: &[JobId]) {
        let mut awaited: Vec<String> = ids.iter().map(|id| format!("holding {id}")).collect();
        while !awaited.is_empty() {
            let line = self.hear();
            awaited.retain(|it| *it != line);
        }
    }

    /// Waits until this job is over.
    pub(crate) fn await_over(&self, id: JobId) {
        while !self.insist(|store| store.job(id)).is_some_and(|job| job.state.is_over()) {
            self.hear();
        }
    }

    /// Whether nobody says anything of the kind for `time`, by the clock of the machine.
    pub(crate) fn is_silent(&self, part: &str, time: Duration) -> bool {
        let clock = SystemClock::new();
        let end = clock.now().after(time);
        while clock.now() < end {
            if self.lines.recv_timeout(end.since(clock.now())).is_ok_and(|line| line.contains(part)) {
                return false;
            }
        }
        true
    }

    /// Waits until no job is alive.
    pub(crate) fn await_all(&mut self) {
        self.end_series();
        let some = |state| !self.insist(|store| store.find(&Filter::new().state(state).limit(1))).is_empty();
        // A job may move on, or another follow it, between two questions: the last one is about all of them at once.
        let alive = || self.records().iter().any(|job| !job.state.is_over());
        while some(JobState::Scheduled) || some(JobState::Claimed) || alive() {
            self.hear();
        }
    }

    fn end_series(&self) {
        if self.series_start.is_some() {
            let pause = || ScheduleChange::Pause("the end".to_owned());
            assert!(self.insist(|store| store.set_schedule(SERIES, pause())));
        }
    }

    // ---- the verdict

    fn series(&self) -> Option<Series> {
        let start = self.series_start?;
        let record = self.insist(Store::schedules).into_iter().find(|it| it.definition.name == SERIES)?;
        let next = record.next.expect("a fixed rate has a next time").as_micros();
        let period = i64::try_from(PERIOD.as_micros()).unwrap();
        Some(Series { name: SERIES.to_owned(), start, period, next, links: links(&record.definition.job) })
    }

    pub(crate) fn read_log(&self) -> Vec<Entry> {
        self.log.read()
    }

    pub(crate) fn records(&self) -> Vec<JobRecord> {
        self.insist(|store| store.find(&Filter::new().limit(usize::MAX)))
    }

    /// With all its losses: the record counts those in a row, and not those that another may be to blame for.
    fn row(&self, job: &JobRecord) -> Row {
        let row = Row::from(job);
        if job.crashes < 2 && job.attempt <= 1 {
            return row;
        }
        let failures = self.insist(|store| store.failures(job.id));
        let lost = failures.iter().filter(|failure| failure.message.contains(" died while it held ")).count();
        Row { crashes: row.crashes.max(u32::try_from(lost).unwrap()), ..row }
    }

    pub(crate) fn judge(&self) -> Result<Seen, Vec<Violation>> {
        checker::check(&Evidence {
            log: self.log.read(),
            rows: self.records().iter().map(|job| self.row(job)).collect(),
            series: self.series().into_iter().collect(),
            leave: self.leave,
        })
    }

    /// Fails with everything that is wrong.
    #[track_caller]
    pub(crate) fn verdict(&self) -> Seen {
        if let Some(books) = &self.books {
            println!("chaos: {} effects, each exactly once", books.audit());
        }
        self.judge().unwrap_or_else(|wrong| {
            let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            panic!("{} violations:\n{}", lines.len(), lines.join("\n"))
        })
    }
}

/// How many jobs follow it, one after the other: those of its chain, and what the last of them asks for.
fn links(job: &NewJob) -> usize {
    let act = |job: &NewJob| serde_json::from_str::<Work>(&job.payload).unwrap().act;
    let asks = |job: &NewJob| matches!(act(job), Act::Then | Act::Book);
    let (last, before) = match job.then.split_last() {
        Some((last, links)) => (last, std::iter::once(job).chain(links).any(asks)),
        None => (job, false),
    };
    assert!(!before, "two jobs would follow one");
    job.then.len() + usize::from(asks(last))
}
