//! How long the jobs of a node that is killed wait for another: the one it was running, and those that come due.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::start::spawn;
use crate::{Args, Job, Line, Peer, Trouble, failed, micros};

/// The workload of the other processes.
pub(crate) const WORKER: &str = "restart-worker";
/// Longer than any lease that is used here.
const PATIENCE: Duration = Duration::from_secs(120);

/// A worker is killed while it runs one job; meanwhile another waits, and `n` jobs come due within a second.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let count: u64 = args.get("n", 100)?;
    let peer = P::open(args)?;
    let mut first = spawn(args, WORKER)?;
    let first_says = listen(first.stdout.take().expect("it is piped"));
    expect(&first_says, "ready")?;
    peer.enqueue(&Job::now(0))?;
    expect(&first_says, "0 ")?;
    let mut second = spawn(args, WORKER)?;
    let second_says = listen(second.stdout.take().expect("it is piped"));
    expect(&second_says, "ready")?;
    let begin = micros() + 300_000;
    let due: Vec<Job> =
        (1..=count).map(|n| Job::at(n, begin + n as i64 * 1_000_000 / count as i64)).collect();
    peer.enqueue_many(&due)?;
    std::thread::sleep(Duration::from_millis(100));
    first.kill()?;
    let killed = micros();
    first.wait()?;
    let (mut running, mut lateness) = (None, Vec::new());
    while running.is_none() || lateness.len() < due.len() {
        let line = expect(&second_says, "")?;
        let mut words = line.split(' ').map(str::parse::<i64>);
        let (Some(Ok(n)), Some(Ok(now))) = (words.next(), words.next()) else {
            return failed(format!("the worker says {line:?}"));
        };
        match usize::try_from(n - 1).ok().and_then(|place| due.get(place)) {
            None => running = Some(now - killed),
            Some(job) => lateness.push(now - job.due),
        }
    }
    second.kill()?;
    second.wait()?;
    let running = running.unwrap_or_default() as f64 / 1e3;
    Ok(Line::new().put("running_ms", running).put_times(lateness))
}

/// Says `ready`, then the number of every job and when it started. Number 0 is not over before the process is.
pub(crate) fn work<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let peer = P::open(args)?;
    let on_run = |job: &Job| {
        println!("{} {}", job.n, micros());
        if job.n == 0 {
            std::thread::sleep(2 * PATIENCE);
        }
    };
    let _working = peer.work(args, Arc::new(on_run))?;
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0)
}

fn listen(out: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

fn expect(lines: &Receiver<String>, start: &str) -> Result<String, Trouble> {
    match lines.recv_timeout(PATIENCE) {
        Ok(line) if line.starts_with(start) => Ok(line),
        Ok(line) => failed(format!("a worker says {line:?} instead of {start:?}")),
        Err(_) => failed(format!("a worker does not say {start:?}")),
    }
}
