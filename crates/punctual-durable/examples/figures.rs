//! What durable jobs cost on this machine, in one SQLite file or in a PostgreSQL of its own, fully synchronous.
//!
//! ```text
//! cargo run --release -p punctual-durable --example figures [postgres] [jobs] [waiting] [seconds]
//! ```
//! Defaults: 100,000 jobs to enqueue and burn down; 100,000 waiting far in the future; 10 seconds of 1,000 due jobs
//! each. Every figure is checked: all jobs must be done, none early.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Clock, SystemClock};
use punctual_durable::{
    Done, Due, JobContext, JobState, Jobs, KindOptions, NewJob, PostgresStore, SqliteStore, Store,
    SystemTimeSource, TimeSource,
};
use punctual_testbed::{Postgres, Settings};
use serde::{Deserialize, Serialize};

/// 64 bytes of payload.
#[derive(Serialize, Deserialize, Clone)]
struct Nothing {
    filler: String,
}

fn nothing() -> Nothing {
    Nothing { filler: "x".repeat(64 - "{\"filler\":\"\"}".len()) }
}

fn new_job() -> NewJob {
    NewJob::new("nothing", serde_json::to_string(&nothing()).unwrap_or_default())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let postgres = args.next_if_eq("postgres").is_some();
    let mut args = args.map(|arg| arg.parse::<usize>());
    let mut next = |default| args.next().unwrap_or(Ok(default));
    let (jobs, waiting, seconds) = (next(100_000)?, next(100_000)?, next(10)?);
    if postgres {
        let server = Postgres::start(Settings::durable());
        return run(Arc::new(PostgresStore::open(&server.fresh_database())?), jobs, waiting, seconds);
    }
    let folder = std::env::temp_dir().join(format!("punctual-figures-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = run(Arc::new(SqliteStore::open(folder.join("jobs.db"))?), jobs, waiting, seconds);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn run(store: Arc<dyn Store>, jobs: usize, waiting: usize, seconds: usize) -> Result<(), Box<dyn Error>> {
    let clock = SystemClock::new();

    let (began, cpu) = (clock.now(), cpu_seconds());
    for _ in 0..jobs / 1_000 {
        store.enqueue(vec![new_job(); 1_000])?;
    }
    rate("enqueue, 1,000 at a time", jobs, clock.now().since(began), cpu_seconds() - cpu);

    let done = Arc::new(AtomicU64::new(0));
    let (all, finished) = channel();
    let (count, total) = (Arc::clone(&done), jobs as u64);
    let (began, cpu) = (clock.now(), cpu_seconds());
    let node = Jobs::on(store.clone())
        .concurrency(2)
        .handle("nothing", |_: Nothing, _: &JobContext| Ok(Done))
        .observe(move |event| {
            if let punctual_durable::Event::Recorded { state: JobState::Done, .. } = event
                && count.fetch_add(1, Ordering::Relaxed) + 1 == total
            {
                let _ = all.send(());
            }
        })
        .start()?;
    finished.recv()?;
    rate("claim, run and record", jobs, clock.now().since(began), cpu_seconds() - cpu);
    node.shutdown(Duration::from_secs(10))?;

    let far = Due::After(Duration::from_secs(86_400));
    for _ in 0..waiting / 1_000 {
        store.enqueue(vec![new_job().due(far); 1_000])?;
    }
    let lateness = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = channel();
    let late = Arc::clone(&lateness);
    let node = Jobs::on(store.clone())
        .concurrency(4)
        .handle_with("timed", KindOptions::new(), move |_: Nothing, cx: &JobContext| {
            let now = SystemTimeSource::default().timestamp();
            assert!(now >= cx.due(), "never early");
            late.lock().unwrap_or_else(|poison| poison.into_inner()).push(now.since(cx.due()));
            sender.send(())?;
            Ok(Done)
        })
        .handle("nothing", |_: Nothing, _: &JobContext| Ok(Done))
        .start()?;
    let begin = store.now().after(Duration::from_secs(2));
    let timed = |n: usize| {
        let due = begin.after(Duration::from_millis(n as u64));
        NewJob::new("timed", new_job().payload).due(Due::At(due))
    };
    for second in 0..seconds {
        store.enqueue((second * 1_000..(second + 1) * 1_000).map(timed).collect())?;
    }
    let cpu = cpu_seconds();
    for _ in 0..seconds * 1_000 {
        receiver.recv()?;
    }
    let cpu = cpu_seconds() - cpu;
    percentiles(&format!("lateness at 1,000 due/s, {waiting} waiting ({cpu:.1} CPU s)"), &lateness);

    let (single, start) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    lateness.lock().unwrap_or_else(|poison| poison.into_inner()).clear();
    for _ in 0..1_000 {
        let began = clock.now();
        node.enqueue_as("timed", nothing()).send()?;
        single.lock().unwrap_or_else(|poison| poison.into_inner()).push(clock.now().since(began));
        receiver.recv()?;
        start.lock().unwrap_or_else(|poison| poison.into_inner()).push(clock.now().since(began));
    }
    percentiles("one enqueue, until it is on the disk", &single);
    percentiles("from the call of enqueue to the handler", &start);
    node.shutdown(Duration::from_secs(10))?;
    Ok(())
}

fn rate(what: &str, count: usize, time: Duration, cpu: f64) {
    let (rate, each) = (count as f64 / time.as_secs_f64(), cpu / count as f64 * 1e6);
    println!("{what:<60} {rate:.0} /s, {each:.1} µs of processor time each");
}

fn percentiles(what: &str, times: &Mutex<Vec<Duration>>) {
    let mut times = times.lock().unwrap_or_else(|poison| poison.into_inner()).clone();
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1_000.0;
    println!(
        "{what:<60} p50 {:.3} p99 {:.3} p99.9 {:.3} max {:.3} ms",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Processor time of this process so far; zero where `/proc` does not tell.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
