//! One process with everything it starts: a process group of its own.
//!
//! The first process of a group is not reaped before the last signal has been sent: while it is there, if only
//! as a zombie, nobody else can be given the number of the group. So a signal never reaches a stranger.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::pump::Ends;
use crate::file::{Command, Work, reason};

/// A command that has been started.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    leader: Pid,
}

/// How a command ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
}

impl Group {
    /// Starts the command of `work`, with nothing to read and `ends` to write to. `variables` are set for it, too.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub(crate) fn start(work: &Work, variables: &[(&str, String)], ends: Ends) -> Result<Self, String> {
        let mut command = match &work.command {
            Command::Shell(line) => {
                let mut command = std::process::Command::new("/bin/sh");
                command.arg("-c").arg(line);
                command
            }
            Command::Program(words) => {
                let mut command = std::process::Command::new(words.first().map_or("", String::as_str));
                command.args(words.get(1..).unwrap_or_default());
                command
            }
        };
        command
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .envs(&work.environment)
            .current_dir(&work.directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdio(ends.out))
            .stderr(stdio(ends.err));
        let child = command.spawn().map_err(|error| why_not(work, &error))?;
        let leader = Pid::from_child(&child);
        Ok(Self { child, leader })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What waits for the end of the first process, on a thread of its own. Does not reap it.
    pub(crate) fn watch(&self) -> impl FnOnce() + Send + 'static {
        let leader = self.leader;
        move || {
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(leader), ended), Err(rustix::io::Errno::INTR)) {}
        }
    }

    /// Asks every process of the group to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
        // One that is stopped would not hear it before it is killed.
        self.signal(Signal::CONT);
    }

    /// Ends every process of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // There is nobody left to be told, or somebody who has changed their user: nothing to be done.
        let _ = kill_process_group(self.leader, signal);
    }

    /// How the first process ended. Waits for it; afterwards the group is out of reach.
    pub(crate) fn reap(mut self) -> End {
        self.child.wait().map_or(End::Exit(-1), End::from)
    }
}

fn stdio(end: OwnedFd) -> Stdio {
    Stdio::from(end)
}

/// The system says "no such file" of a missing program, interpreter or directory alike.
fn why_not(work: &Work, error: &io::Error) -> String {
    let directory = &work.directory;
    match std::fs::metadata(directory) {
        Err(error) => return format!("the directory {}: {}", shown(directory), reason(&error)),
        Ok(metadata) if !metadata.is_dir() => {
            return format!("the directory {}: not a directory", shown(directory));
        }
        Ok(_) => {}
    }
    let program = match &work.command {
        Command::Shell(_) => "/bin/sh",
        Command::Program(words) => words.first().map_or("", String::as_str),
    };
    match error.kind() {
        io::ErrorKind::NotFound => format!("no program `{program}`"),
        _ => format!("`{program}`: {}", reason(error)),
    }
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Exit(-1),
        }
    }
}

/// The name of a signal, as in `kill -l`.
pub(crate) fn signal_name(number: i32) -> String {
    let name = signal_hook::low_level::signal_name(number);
    name.map_or_else(|| format!("signal {number}"), str::to_owned)
}
