//! One attempt at a job: a process is started, watched, and if need be stopped.
//!
//! # States
//! ```text
//!            exited: no need of the rest
//! Running ──────────────────────────────────────▶ over
//!    │ timeout, or the task is interrupted (in haste: as Killed)
//!    ▼ SIGTERM to the group
//! Stopping ── first process gone and pipes closed ▶ over
//!    │ grace over, or interrupted again in haste
//!    ▼ SIGKILL to the group
//! Killed ──── first process gone ───────────────▶ over
//! ```
//!
//! Everything that can happen reaches the worker as a [`Wake`] in one delay queue: the end of the process at once,
//! the time-out and the end of the grace when their time has come; and an interrupt of the task ends the wait for
//! them. So there is one wait, no polling, and no clock but the library's.
//!
//! # Invariants
//! 1. No attempt ends before its process: a job that is said to be over is over.
//! 2. A process that an attempt has begun to stop leaves nothing behind in its group.
//! 3. A process that ends by itself may leave others in the background. They are let be, and nobody listens to
//!    them any more.
//!
//! # Threads
//! The worker decides; the [pump](Pump) reads; a third thread waits for the end of the process, because a thread
//! that does so can do nothing else. (A file descriptor for a process would save it, on Linux alone.)

mod child;
mod lines;
mod pump;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual::{DelayQueue, TaskContext};

use crate::file::{Work, show};
use child::Group;
pub(crate) use child::signal_name;
use pump::Pump;
pub(crate) use pump::{Sink, Stream};

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// With exit status 0.
    Succeeded,
    /// With another.
    Exited(i32),
    /// By a signal that was not ours.
    Signalled(i32),
    /// It was stopped, because it took longer than this.
    TimedOut(Duration),
    /// It was stopped, because somebody wanted it.
    Stopped,
    /// There never was a process.
    NotStarted(String),
}

impl Outcome {
    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Succeeded
    }

    /// Whether something went wrong, so that another attempt may go better. One that was stopped was not wanted
    /// any more: that is neither a success nor a failure.
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self, Self::Succeeded | Self::Stopped)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("ok"),
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signalled(signal) => write!(f, "killed by {}", signal_name(*signal)),
            Self::TimedOut(limit) => write!(f, "timed out after {}", show(*limit)),
            Self::Stopped => f.write_str("stopped"),
            Self::NotStarted(why) => write!(f, "cannot start: {why}"),
        }
    }
}

/// What the worker is woken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wake {
    /// The first process has ended.
    Exited,
    /// Nobody holds the pipes any more.
    Closed,
    Timeout,
    GraceOver,
}

/// Why and how far a process is being stopped.
enum Phase {
    Running,
    Stopping(Outcome),
    Killed(Outcome),
}

/// Whether nobody has the time for a grace any more. Clones are the same.
#[derive(Clone, Default, Debug)]
pub(crate) struct Haste(Arc<AtomicBool>);

impl Haste {
    /// From now on an interrupt kills what is being stopped.
    pub(crate) fn make(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_made(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Runs `work` once, to its end. `started` is told the number of the process.
///
/// An interrupt of the current task stops the process; one that comes in haste kills it.
pub(crate) fn attempt(
    work: &Work,
    variables: &[(&str, String)],
    sink: Box<dyn Sink>,
    haste: &Haste,
    started: impl FnOnce(u32),
) -> Outcome {
    let wakes = Arc::new(DelayQueue::new());
    let closed = Arc::clone(&wakes);
    let tell = move || {
        closed.push(Duration::ZERO, Wake::Closed);
    };
    let (pump, ends) = match Pump::start(sink, tell) {
        Ok(pair) => pair,
        Err(error) => return Outcome::NotStarted(error.to_string()),
    };
    let group = match Group::start(work, variables, ends) {
        Ok(group) => group,
        Err(why) => {
            pump.finish();
            return Outcome::NotStarted(why);
        }
    };
    started(group.id());
    pump.begin();
    let (watch, exited) = (group.watch(), Arc::clone(&wakes));
    let watcher = std::thread::Builder::new().name("exit".to_owned()).spawn(move || {
        watch();
        exited.push(Duration::ZERO, Wake::Exited);
    });
    let watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            group.kill();
            pump.finish();
            group.reap();
            return Outcome::NotStarted(error.to_string());
        }
    };
    let stopped = attend(work, &group, &wakes, haste);
    if stopped.is_some() {
        group.kill(); // by 2
    }
    pump.finish();
    // It has seen the end, and must be gone before the process is reaped: it waits for its number.
    let _ = watcher.join();
    let end = group.reap();
    stopped.unwrap_or(match end {
        child::End::Exit(0) => Outcome::Succeeded,
        child::End::Exit(code) => Outcome::Exited(code),
        child::End::Signal(signal) => Outcome::Signalled(signal),
    })
}

/// Waits for the end of the first process, and brings it about if need be: then says why.
fn attend(work: &Work, group: &Group, wakes: &DelayQueue<Wake>, haste: &Haste) -> Option<Outcome> {
    if let Some(limit) = work.timeout {
        wakes.push(limit, Wake::Timeout);
    }
    let context = TaskContext::current();
    let mut phase = Phase::Running;
    let (mut is_exited, mut is_closed) = (false, false);
    loop {
        let wake = wakes.take();
        // Taken before `haste` is looked at: what is made of it after that comes with an interrupt of its own. Two that
        // come at once are one, and then the haste is there already.
        let is_in_haste = wake.is_err() && {
            let _ = context.take_interrupt();
            haste.is_made()
        };
        phase = match (wake, phase) {
            (Ok(Wake::Exited), phase) => {
                is_exited = true;
                phase
            }
            (Ok(Wake::Closed), phase) => {
                is_closed = true;
                phase
            }
            (Ok(Wake::Timeout), Phase::Running) => {
                stop(work, group, wakes, Outcome::TimedOut(work.timeout.unwrap_or_default()))
            }
            (Err(_), Phase::Running) if is_in_haste => {
                group.kill();
                Phase::Killed(Outcome::Stopped)
            }
            (Err(_), Phase::Running) => stop(work, group, wakes, Outcome::Stopped),
            (Ok(Wake::GraceOver), Phase::Stopping(why)) => {
                group.kill();
                Phase::Killed(why)
            }
            (Err(_), Phase::Stopping(why)) if is_in_haste => {
                group.kill();
                Phase::Killed(why)
            }
            (Err(_) | Ok(Wake::Timeout | Wake::GraceOver), phase) => phase,
        };
        match phase {
            Phase::Running if is_exited => return None,
            Phase::Stopping(why) if is_exited && is_closed => return Some(why),
            Phase::Killed(why) if is_exited => return Some(why),
            _ => {}
        }
    }
}

fn stop(work: &Work, group: &Group, wakes: &DelayQueue<Wake>, why: Outcome) -> Phase {
    group.terminate();
    wakes.push(work.grace, Wake::GraceOver);
    Phase::Stopping(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells of the first line.
    struct Ear(Sender<()>);

    impl Sink for Ear {
        fn line(&mut self, _: Stream, _: &[u8]) {
            let _ = self.0.send(());
        }
    }

    /// The request to end and the haste may come so close together that there is one interrupt for both.
    #[test]
    fn an_interrupt_in_haste_kills_although_it_is_the_first() {
        let text = "[job.a]\ncommand = \"trap '' TERM; echo ready; while :; do sleep 0.01; done\"\n\
                    every = \"1h\"\ngrace = \"40s\"\n";
        let work = crate::file::parse(text, std::path::Path::new(".")).unwrap().jobs[0].work.clone();
        let pool = punctual::Executor::new(1);
        let (haste, (teller, ready)) = (Haste::default(), channel());
        let (in_task, (result, outcome)) = (haste.clone(), channel());
        pool.execute(move || {
            let _ = result.send(attempt(&work, &[], Box::new(Ear(teller)), &in_task, |_| {}));
        })
        .unwrap();
        ready.recv().unwrap();
        haste.make();
        drop(pool.shutdown_now());
        assert_eq!(outcome.recv_timeout(Duration::from_secs(30)), Ok(Outcome::Stopped));
    }
}
