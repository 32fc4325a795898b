//! How long it takes from the call that accepts a job in one process until it starts in another.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::peer::Working;
use crate::{Args, Job, Line, Peer, Trouble, failed, micros};

/// The workload of the other process.
pub(crate) const WORKER: &str = "start-worker";

/// Jobs one by one, each when the worker is idle again; they carry when they were sent.
pub(crate) fn run<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let count: u64 = args.get("n", 300)?;
    let peer = P::open(args)?;
    let mut worker = spawn(args, WORKER)?;
    let mut lines = BufReader::new(worker.stdout.take().expect("it is piped")).lines();
    if lines.next().transpose()?.as_deref() != Some("ready") {
        return failed("the worker does not start");
    }
    for n in 0..count {
        std::thread::sleep(Duration::from_micros(4_000 + n % 7 * 700));
        peer.enqueue(&Job::at(n, -micros()))?;
        let started = lines.next().transpose()?;
        if started.as_deref() != Some(&n.to_string()) {
            return failed(format!("job {n} was sent, and {started:?} started"));
        }
    }
    drop(worker.stdin.take());
    let times: Result<Vec<i64>, _> = lines.map_while(Result::ok).map(|line| line.parse()).collect();
    worker.wait()?;
    let times = times?;
    if times.len() as u64 != count {
        return failed(format!("{} of {count} jobs have started", times.len()));
    }
    Ok(Line::new().put_times(times))
}

/// Says `ready`, then the number of every job, and when it is let go how long each took.
pub(crate) fn work<P: Peer>(args: &Args) -> Result<Line, Trouble> {
    let peer = P::open(args)?;
    let times = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&times);
    let working = peer.work(
        args,
        Arc::new(move |job| {
            let took = micros() + job.due;
            sink.lock().unwrap().push(took);
            println!("{}", job.n);
        }),
    )?;
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    working.stop()?;
    for time in times.lock().unwrap().iter() {
        println!("{time}");
    }
    std::process::exit(0)
}

/// Another process of this program, for the same peer and store.
pub(super) fn spawn(args: &Args, workload: &str) -> Result<Child, Trouble> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args.words_for(workload)).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}
