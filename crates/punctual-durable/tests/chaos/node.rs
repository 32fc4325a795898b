//! A process that runs the program under test, and everything that can be done to it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, prlimit, waitpid};

use crate::program::{ORDERS, Orders};

/// Ended by whoever has it; one that is dropped is killed.
#[derive(Debug)]
pub(crate) struct Node {
    process: Child,
    /// Passes on what it says, until it is gone.
    ears: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn spawn(orders: &Orders, lines: &Sender<String>) -> Self {
        let program = std::env::current_exe().unwrap();
        // A write beyond the limit of file sizes is an error, as on a full disk, and not a signal.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(program);
        Self::start(command, orders, lines)
    }

    /// As a user who may write only what everybody may; `program` is a copy that everybody may read.
    pub(crate) fn spawn_unprivileged(program: &Path, orders: &Orders, lines: &Sender<String>) -> Self {
        let mut command = Command::new(program);
        if rustix::process::geteuid().is_root() {
            use std::os::unix::process::CommandExt;
            command.uid(65_534).gid(65_534);
        }
        Self::start(command, orders, lines)
    }

    fn start(mut command: Command, orders: &Orders, lines: &Sender<String>) -> Self {
        command.args(["--exact", "child_process", "--nocapture", "--test-threads=1"]);
        command.env(ORDERS, serde_json::to_string(orders).unwrap());
        if let Some(shift) = &orders.shift {
            shift.apply(&mut command);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let lines = lines.clone();
        let ears = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix("> ") {
                    let _ = lines.send(line.to_owned());
                }
            }
        });
        Self { process, ears: Some(ears) }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn order(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Returns when it does nothing any more.
    pub(crate) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// There is room on its disk again.
    pub(crate) fn lift_file_size(&self) {
        prlimit(Some(self.pid()), Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    }

    /// Waits until it has ended by its own fault.
    pub(crate) fn die(mut self) -> ExitStatus {
        // Held open: a program that can read its end shuts down.
        let stdin = self.process.stdin.take();
        let status = self.wait();
        assert!(!status.success());
        drop(stdin);
        status
    }

    /// Lets it end in order.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        let status = self.wait();
        assert!(status.success(), "{status}");
    }

    /// Returns when it is gone, and everything it said has been passed on.
    fn wait(&mut self) -> ExitStatus {
        let status = self.process.wait().unwrap();
        if let Some(ears) = self.ears.take() {
            ears.join().unwrap();
        }
        status
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        self.wait();
    }
}
