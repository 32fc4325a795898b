//! One job as the executor calls it: what is done each time it is due.
//!
//! The library decides *when*: the schedule, overlap, missed runs, jitter, the pauses before retries. The runner
//! does one attempt at a time and says whether it wants another: it fails, for the library, exactly when a retry
//! is due, and the library's back-off does the rest. A run that has failed for good is a success to the library,
//! which goes on with the schedule, and a failure to everybody else.
//!
//! A runner outlives changes of its job: a new [`Work`] is put in its place, and is used from the next attempt on.
//!
//! # Eras
//! It also outlives its schedules: a job gets a new one when its timing changes, and none any more when it leaves the
//! file or the program drains. Each has an *era*, a number that its task hands to [`perform`](Runner::perform).
//! 1. An attempt begins only in the era of its task. What an ended schedule had made due is let go.
//! 2. A retry is wanted, and promised, only if the era has not changed since the attempt began: otherwise the task that
//!    would make it is cancelled, and the failure is final.
//! 3. A run that waits for its retry when its era ends has failed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use punctual::{Clock, TaskContext};

use crate::board::{Last, Track};
use crate::file::{Overlap, Work};
use crate::log_file::LogFile;
use crate::process::{self, Haste, Outcome};
use crate::report::{JobWhat, Reporter};
use crate::sink::Outlet;

/// What one job does when it is due.
pub(crate) struct Runner {
    name: Arc<str>,
    track: Arc<Track>,
    reporter: Reporter,
    haste: Haste,
    /// The executor's.
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    work: Arc<Work>,
    log: Arc<LogFile>,
    /// How many may run at once.
    most: usize,
    /// Attempts that are going on.
    busy: usize,
    /// The number of the last run.
    run: u64,
    /// The attempt that is due next; more than 1 only while a run waits for its retry.
    attempt: u32,
    /// The schedule that counts.
    era: u64,
}

/// What becomes of a task that is due.
enum Start {
    Begin(Turn),
    /// As many run as may.
    Busy,
    /// Its schedule has ended.
    Over,
}

/// The last attempt failed, and another is wanted.
#[derive(Debug)]
pub(crate) struct WantsRetry(Outcome);

impl fmt::Display for WantsRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One attempt, as it was when it began.
struct Turn {
    work: Arc<Work>,
    log: Arc<LogFile>,
    run: u64,
    attempt: u32,
    era: u64,
}

impl Runner {
    pub(crate) fn new(
        track: &Arc<Track>,
        work: &Arc<Work>,
        overlap: Overlap,
        reporter: &Reporter,
        haste: &Haste,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let state = State {
            work: Arc::clone(work),
            log: Arc::new(LogFile::new(&track.name, work.log.clone())),
            most: at_once(overlap),
            busy: 0,
            run: 0,
            attempt: 1,
            era: 0,
        };
        Arc::new(Self {
            name: Arc::clone(&track.name),
            track: Arc::clone(track),
            reporter: reporter.clone(),
            haste: haste.clone(),
            clock,
            state: Mutex::new(state),
        })
    }

    /// From now on the job does this.
    pub(crate) fn change(&self, work: &Arc<Work>, overlap: Overlap) {
        self.with(|state| {
            if state.work.log != work.log {
                state.log = Arc::new(LogFile::new(&self.name, work.log.clone()));
            }
            state.work = Arc::clone(work);
            state.most = at_once(overlap);
        });
    }

    /// The schedule that counts now.
    pub(crate) fn era(&self) -> u64 {
        self.with(|state| state.era)
    }

    /// Ends the era: nothing more begins in it, and what has failed is not tried again.
    pub(crate) fn retire(&self) {
        let is_waiting = self.with(|state| {
            state.era += 1;
            std::mem::replace(&mut state.attempt, 1) > 1
        });
        if is_waiting {
            self.track.with(|progress| progress.failures += 1); // by 3
        }
    }

    /// Whether an attempt is going on. When it is not, the numbers of the track are complete.
    pub(crate) fn is_busy(&self) -> bool {
        self.with(|state| state.busy > 0)
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does one attempt, for a task of the schedule of `era`.
    ///
    /// # Errors
    /// If another one is wanted, after a pause.
    pub(crate) fn perform(&self, era: u64) -> Result<(), WantsRetry> {
        let context = TaskContext::current();
        let start = self.clock.now();
        let lateness = context.deadline().map_or(Duration::ZERO, |deadline| start.since(deadline));
        self.miss(context.missed());
        let turn = match self.begin(era) {
            Start::Begin(turn) => turn,
            Start::Busy => {
                // The run of an earlier schedule of this job is still on.
                self.miss(1);
                return Ok(());
            }
            Start::Over => return Ok(()),
        };
        let busy = Busy(self);
        let outcome = self.attempt(&turn, lateness);
        let took = self.clock.now().since(start);
        let retry = self.conclude(&turn, &outcome, took);
        drop(busy);
        let (run, attempt) = (turn.run, turn.attempt);
        let finished = JobWhat::Finished { run, attempt, outcome: outcome.clone(), took, retry };
        self.reporter.tell_of(&self.name, finished);
        if retry { Err(WantsRetry(outcome)) } else { Ok(()) }
    }

    /// Notes runs that were left out.
    pub(crate) fn miss(&self, count: u64) {
        if count > 0 {
            self.track.with(|progress| progress.missed += count);
            self.reporter.tell_of(&self.name, JobWhat::Missed { count });
        }
    }

    fn begin(&self, era: u64) -> Start {
        self.with(|state| {
            if era != state.era {
                return Start::Over; // by 1
            }
            if state.busy >= state.most {
                return Start::Busy;
            }
            state.busy += 1;
            let attempt = std::mem::replace(&mut state.attempt, 1);
            if attempt == 1 {
                state.run += 1;
            }
            let (work, log) = (Arc::clone(&state.work), Arc::clone(&state.log));
            Start::Begin(Turn { work, log, run: state.run, attempt, era })
        })
    }

    fn attempt(&self, turn: &Turn, lateness: Duration) -> Outcome {
        let Turn { work, log, run, attempt, .. } = turn;
        let (run, attempt) = (*run, *attempt);
        self.track.with(|progress| {
            progress.runs += u64::from(attempt == 1);
            progress.lateness = Some(lateness);
            progress.max_lateness = progress.max_lateness.max(lateness);
        });
        let title = format!("{} run {run}, attempt {attempt}", crate::report::stamp(SystemTime::now()));
        let sink = Outlet::new(&self.name, &self.reporter, work.output, log, &title);
        let variables = [
            ("PUNCTUAL_JOB", self.name.to_string()),
            ("PUNCTUAL_RUN", run.to_string()),
            ("PUNCTUAL_ATTEMPT", attempt.to_string()),
        ];
        let mut process = None;
        let outcome = process::attempt(work, &variables, Box::new(sink), &self.haste, |pid| {
            process = Some(pid);
            self.track.with(|progress| progress.running.insert(pid, SystemTime::now()));
            self.reporter.tell_of(&self.name, JobWhat::Started { run, attempt, pid, lateness });
        });
        if let Some(pid) = process {
            self.track.with(|progress| progress.running.remove(&pid));
        }
        outcome
    }

    /// Notes how an attempt ended, and says whether another is wanted.
    fn conclude(&self, turn: &Turn, outcome: &Outcome, took: Duration) -> bool {
        let may_retry = outcome.is_failure() && turn.attempt <= turn.work.retries.count;
        let retry = self.with(|state| {
            let retry = may_retry && turn.era == state.era; // by 2
            if retry {
                state.attempt = turn.attempt + 1;
            }
            retry
        });
        self.track.with(|progress| {
            progress.failures += u64::from(!retry && outcome.is_failure());
            progress.last = Some(Last { outcome: outcome.clone(), took });
        });
        retry
    }
}

/// An attempt that is going on; it ends also by a panic.
struct Busy<'a>(&'a Runner);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.with(|state| state.busy -= 1);
    }
}

fn at_once(overlap: Overlap) -> usize {
    match overlap {
        Overlap::Allow(most) => most,
        Overlap::Never | Overlap::Queue | Overlap::Replace => 1,
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("name", &self.name).finish_non_exhaustive()
    }
}
