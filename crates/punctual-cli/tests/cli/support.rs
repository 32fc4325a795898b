//! What the tests share.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for something that must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) const TERM: &str = "TERM";
pub(crate) const INT: &str = "INT";
pub(crate) const HUP: &str = "HUP";

/// The program, ready to be given arguments.
pub(crate) fn punctual() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.stdin(Stdio::null()).env("TZ", "UTC").env_remove("RUST_BACKTRACE");
    command
}

/// What a call that ends by itself said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn call(args: &[&str]) -> Said {
    let output = punctual().args(args).output().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A directory with a schedule in it.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new(schedule: &str) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        place.write("schedule.toml", schedule);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a file there, whole at once.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn schedule(&self) -> String {
        self.path("schedule.toml").to_str().unwrap().to_owned()
    }

    pub(crate) fn check(&self) -> Said {
        let mut said = call(&["check", &self.schedule()]);
        said.err = said.err.replace(&self.schedule(), "F");
        said
    }

    /// `punctual run --json`, with what it says as events.
    pub(crate) fn run(&self) -> Run {
        self.run_with(&[])
    }

    pub(crate) fn run_with(&self, args: &[&str]) -> Run {
        let mut command = punctual();
        command.args(["run", "--json"]).args(args).arg(self.schedule());
        Run::start(command)
    }
}

/// A program that is going on. A test that fails leaves nothing behind: the third signal kills every job.
pub(crate) struct Program(Child);

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().unwrap()
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// The exit status, when it has ended.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        until("its end", || self.is_over());
        let status = self.0.wait().unwrap();
        status.code().unwrap_or_else(|| panic!("it was killed: {status}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_over() {
            return;
        }
        for _ in 0..3 {
            send(TERM, self.id());
            pause();
        }
        let _ = try_until(|| self.is_over());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `punctual run` that is going on, and its events.
pub(crate) struct Run {
    program: Program,
    events: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
    /// Everything seen so far, for messages.
    seen: RefCell<Vec<Value>>,
}

impl Run {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut program = Program::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let (sender, events) = mpsc::channel();
        let out = BufReader::new(program.stdout());
        let reader = std::thread::spawn(move || {
            for line in out.lines() {
                let line = line.unwrap();
                let event = serde_json::from_str(&line);
                let event = event.unwrap_or_else(|error| panic!("{error} in {line:?}"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let mut err = program.0.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        let run =
            Self { program, events, reader: Some(reader), errors: Some(errors), seen: RefCell::default() };
        run.event("ready");
        run
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.id()
    }

    /// The next event that satisfies `wanted`; those before it are passed over.
    #[track_caller]
    pub(crate) fn find(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.events.recv_timeout(LIMIT) {
                Ok(event) => {
                    self.seen.borrow_mut().push(event.clone());
                    if wanted(&event) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no {what} in time; seen: {:#?}", self.tail()),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended without {what}; seen: {:#?}", self.tail())
                }
            }
        }
    }

    fn tail(&self) -> Vec<String> {
        let seen = self.seen.borrow();
        seen[seen.len().saturating_sub(40)..].iter().map(ToString::to_string).collect()
    }

    /// The next event of that name.
    #[track_caller]
    pub(crate) fn event(&self, name: &str) -> Value {
        self.find(name, |event| event["event"] == name)
    }

    /// The next event of that name about that job.
    #[track_caller]
    pub(crate) fn job(&self, job: &str, name: &str) -> Value {
        self.find(&format!("{name} of {job}"), |event| event["event"] == name && event["job"] == job)
    }

    /// The next line that the job writes.
    #[track_caller]
    pub(crate) fn line(&self, job: &str) -> String {
        self.job(job, "output")["line"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) {
        send(signal, self.pid());
    }

    /// Waits for the end; every event that is left, and the exit status.
    #[track_caller]
    pub(crate) fn end(mut self) -> (i32, Vec<Value>) {
        let mut rest = Vec::new();
        loop {
            match self.events.recv_timeout(LIMIT) {
                Ok(event) => rest.push(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; rest: {rest:#?}"),
            }
        }
        self.reader.take().unwrap().join().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        assert_eq!(errors, "", "nothing goes to standard error");
        (self.program.code(), rest)
    }

    /// Asks it to end and expects that it drains.
    #[track_caller]
    pub(crate) fn drain(self) -> Vec<Value> {
        self.signal(TERM);
        let (code, rest) = self.end();
        assert_eq!(code, 0, "{rest:#?}");
        rest
    }
}

/// What `attempt` gives with an instant that it met. A program that a busy machine starts too late finds that the time has
/// passed; then a later one is tried.
#[track_caller]
pub(crate) fn in_time<T>(attempt: impl Fn(jiff::Timestamp) -> Option<T>) -> T {
    let leads = [300, 3_000, 30_000].map(jiff::SignedDuration::from_millis);
    let met = leads.into_iter().find_map(|lead| attempt(jiff::Timestamp::now() + lead));
    met.expect("a program that starts within half a minute")
}

/// Sends a signal to a process. One that is gone already is no error.
#[track_caller]
pub(crate) fn send(signal: &str, pid: impl std::fmt::Display) {
    let signal = match signal {
        TERM => Signal::TERM,
        INT => Signal::INT,
        HUP => Signal::HUP,
        "KILL" => Signal::KILL,
        other => panic!("no signal {other} is needed here"),
    };
    let pid = pid.to_string().trim().parse().ok().and_then(Pid::from_raw);
    let _ = kill_process(pid.expect("the number of a process"), signal);
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())) else { return false };
    !status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(try_until(is_so), "{what}: not in time");
}

fn try_until(mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..LIMIT.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return true;
        }
        pause();
    }
    false
}

const PAUSE: Duration = Duration::from_millis(10);

/// Between two looks at something outside of this process.
fn pause() {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(PAUSE);
}

pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}
