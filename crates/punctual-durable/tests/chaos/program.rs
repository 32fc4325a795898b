//! The program under test: a node on a shared store, in a process of its own.
//!
//! The test binary starts itself again as this program, with its orders in the environment. It tells its story twice: on
//! standard output for the parent, who waits for certain lines, and in the side log for the checker. It obeys lines
//! on standard input:
//!
//! | line | |
//! |---|---|
//! | `go` | handlers that hold their job go on |
//! | `clock 3600000000` | its clock is that many microseconds ahead, from now on |
//! | end of input | shuts down in order |

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use punctual_durable::{
    Backoff, Done, Event, JobContext, JobError, JobState, Jobs, KindOptions, Outcome, Result,
    SystemTimeSource, TimeSource, Timestamp, transfer,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::PATIENCE;
use crate::books::Clerk;
use crate::fuse::{Fuse, Fused, Point};
use crate::place::Place;
use crate::shift::{Shift, TrueTime};
use crate::side_log::{Entry, Run, SideLog};

/// The name of the variable with the orders.
pub(crate) const ORDERS: &str = "PUNCTUAL_CHAOS_ORDERS";
/// How many handlers run at once.
pub(crate) const THREADS: usize = 3;
/// What it ends with if the store cannot be opened.
pub(crate) const CANNOT_OPEN: i32 = 3;

/// How the program is to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) place: Place,
    pub(crate) log: PathBuf,
    /// Where it takes its own life, and which time it comes by there.
    pub(crate) fuse: Option<(Point, u32)>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// How many microseconds its clock is ahead.
    pub(crate) ahead: i64,
    /// Whether it says in the log what the clock of the machine shows, not its own: a seeded fault.
    pub(crate) lies: bool,
    /// The largest file that it may write, in bytes.
    pub(crate) file_size: Option<u64>,
    /// The clock of its machine, if that is not right.
    pub(crate) shift: Option<Shift>,
    /// Where it copies everything to, instead of running anything.
    pub(crate) copy_to: Option<Place>,
}

/// The payload of every job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) act: Act,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    Plain,
    /// Enqueues another job, due within 20 ms.
    Spawn,
    /// Asks for a job to follow when it is done.
    Then,
    /// Asks for a job to follow, writes a row in the transaction in which it completes the job, and then, half of the
    /// time, fails.
    Book,
    /// Waits for `go`.
    Hold,
    /// Kills its process.
    Abort,
}

/// A clock that can be set, as that of a machine can.
#[derive(Clone, Debug, Default)]
struct Shifted(Arc<AtomicI64>);

impl TimeSource for Shifted {
    fn timestamp(&self) -> Timestamp {
        let now = SystemTimeSource::default().timestamp().as_micros();
        Timestamp::from_micros(now.saturating_add(self.0.load(Ordering::SeqCst)))
    }
}

/// What holds handlers until it is opened.
#[derive(Debug, Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

/// Runs until standard input ends.
pub(crate) fn run(orders: &Orders) {
    if let Some(most) = orders.file_size {
        setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: None }).unwrap();
    }
    if let Some(to) = &orders.copy_to {
        transfer(&*orders.place.open().unwrap(), &*to.open().unwrap()).unwrap();
        return;
    }
    let clock = Shifted(Arc::new(AtomicI64::new(orders.ahead)));
    let fuse = Arc::new(Fuse::new(orders.fuse));
    let store = match orders.place.open_with_time(clock.clone()) {
        Ok(store) => Arc::new(Fused { store, fuse: Arc::clone(&fuse) }),
        Err(error) => {
            say(&format!("cannot open: {error}"));
            std::process::exit(CANNOT_OPEN);
        }
    };
    let (log, gate) = (Arc::new(SideLog::open(&orders.log)), Arc::new(Gate::default()));
    let observer = Arc::clone(&log);
    let handler = {
        let (lies, shifted) = (orders.lies, orders.shift.is_some());
        let (gate, clock) = (Arc::clone(&gate), clock.clone());
        let clerk = Clerk::new(&orders.place);
        move |job: Work, cx: &JobContext| {
            let shown: &dyn TimeSource = match (lies, shifted) {
                (true, _) => &SystemTimeSource::default(),
                (false, true) => &TrueTime,
                (false, false) => &clock,
            };
            let run = Run::of(cx, shown);
            handle(job, cx, &log, run, &fuse, &gate, &clerk)
        }
    };
    let options = KindOptions::new()
        .max_crashes(u32::MAX)
        .max_attempts(u32::MAX)
        .backoff(Backoff::fixed(Duration::from_millis(10)));
    let jobs = Jobs::on(store)
        .handle_with("work", options, handler)
        .concurrency(THREADS)
        .poll_interval(orders.poll)
        .lease(orders.lease)
        .observe(move |event| tell(event, &observer))
        .start()
        .unwrap();
    if orders.shift.is_some() {
        say(&format!("the clock is {} s off", TrueTime::shift()));
    }
    say("up");
    obey(&clock, &gate);
    gate.open();
    assert_eq!(jobs.shutdown(PATIENCE).unwrap(), 0);
}

fn handle(
    job: Work,
    cx: &JobContext,
    log: &SideLog,
    run: Run,
    fuse: &Fuse,
    gate: &Gate,
    clerk: &Clerk,
) -> Result<Outcome, JobError> {
    log.write(&Entry::Started(run));
    fuse.pass(Point::BeforeEffect);
    match job.act {
        Act::Abort => std::process::abort(),
        Act::Hold => {
            say(&format!("holding {}", cx.id()));
            gate.pass();
        }
        Act::Spawn => {
            let soon = Duration::from_millis(fastrand::u64(..20));
            let next = cx.client().enqueue(Work { act: Act::Plain }).after(soon).send()?;
            log.write(&Entry::accepted(next.id()));
        }
        Act::Then | Act::Book => cx.then(cx.client().enqueue(Work { act: Act::Plain }))?,
        Act::Plain => {}
    }
    log.write(&Entry::Effect(run));
    if job.act == Act::Book {
        clerk.book(cx)?;
    }
    fuse.pass(Point::AfterEffect);
    if job.act == Act::Book && fastrand::bool() { Err("it is done all the same".into()) } else { Ok(Done) }
}

/// To the checker first: the parent may kill us for what it hears.
fn tell(event: &Event<'_>, log: &SideLog) {
    match event {
        Event::Recorded { id, state, .. } if *state != JobState::Scheduled => {
            log.write(&Entry::over(*id, *state))
        }
        Event::Stale { id } => log.write(&Entry::refused(*id)),
        _ => {}
    }
    say(&event.to_string());
}

fn obey(clock: &Shifted, gate: &Gate) {
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("go", _) => gate.open(),
            ("clock", ahead) => clock.0.store(ahead.parse().unwrap(), Ordering::SeqCst),
            _ => panic!("{line:?} is no order"),
        }
    }
}

/// One line to the parent, whole.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("\n> {line}\n").as_bytes()).and_then(|()| out.flush());
}
