//! The jobs of a schedule on one executor, and how they follow the file.
//!
//! # When the file changes
//! Jobs are the same when their names are. For each name:
//!
//! | before | now | what happens |
//! |---|---|---|
//! | – | there | it is scheduled as at the start |
//! | there | the same | nothing |
//! | there | other work, same timing | the next attempt does the new work; the schedule does not move |
//! | there | other timing | the old schedule ends, the new one begins, `every` with a full period |
//! | there | – | its schedule ends |
//! | gone, its command runs | there | it is scheduled as at the start, as the same job: its command is in the way |
//!
//! In no case is a command that runs disturbed: cancelling a task leaves its body alone. So a job that goes keeps its
//! seat, among those that are *leaving*, until its command has ended: were it to come back as another, nobody would
//! know that it runs already. What has left is only remembered in the numbers of the last line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Executor, Keep, Leftover, Scheduler, TaskRemote};

use crate::board::{Board, Track};
use crate::file::{Job, Schedule};
use crate::plan::{self, Begin};
use crate::process::Haste;
use crate::report::{JobWhat, Reporter, What};
use crate::runner::Runner;

/// Threads beyond the first go when they have had nothing to do for so long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A schedule that runs.
#[derive(Debug)]
pub(crate) struct Driver {
    pool: Executor,
    board: Arc<Board>,
    reporter: Reporter,
    haste: Haste,
    seats: BTreeMap<Arc<str>, Seat>,
    /// Jobs that have gone from the file while their commands ran. They are retired, and in no other map.
    leaving: BTreeMap<Arc<str>, Seat>,
    /// What those that have left had done.
    left: Totals,
}

/// How much was done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) failures: u64,
}

/// One job in its place.
#[derive(Debug)]
struct Seat {
    job: Job,
    track: Arc<Track>,
    runner: Arc<Runner>,
    /// `None` if it could not be scheduled, or will not run again.
    task: Option<TaskRemote>,
}

impl Driver {
    /// Puts every job on an executor of its own.
    ///
    /// # Errors
    /// If there is no executor to be had.
    pub(crate) fn start(
        schedule: &Schedule,
        board: &Arc<Board>,
        reporter: &Reporter,
    ) -> Result<Self, String> {
        let pool = Executor::builder()
            .core_threads(1)
            .max_threads(schedule.settings.max_running)
            .keep_alive(KEEP_ALIVE)
            .thread_name("job")
            .after_shutdown(Leftover::Delayed, Keep::Cancel)
            .after_shutdown(Leftover::Periodic, Keep::Cancel)
            .build()
            .map_err(|error| error.to_string())?;
        let mut driver = Self {
            pool,
            board: Arc::clone(board),
            reporter: reporter.clone(),
            haste: Haste::default(),
            seats: BTreeMap::new(),
            leaving: BTreeMap::new(),
            left: Totals::default(),
        };
        for job in &schedule.jobs {
            let seat = driver.seat(job, Begin::Fresh);
            driver.seats.insert(Arc::clone(&job.name), seat);
        }
        driver.show(schedule);
        Ok(driver)
    }

    fn seat(&self, job: &Job, begin: Begin) -> Seat {
        let track = Track::new(Arc::clone(&job.name));
        let (overlap, clock) = (job.timing.overlap, self.pool.clock());
        let runner = Runner::new(&track, &job.work, overlap, &self.reporter, &self.haste, clock);
        let mut seat = Seat { job: job.clone(), track, runner, task: None };
        self.schedule(&mut seat, begin);
        seat
    }

    fn schedule(&self, seat: &mut Seat, begin: Begin) {
        let ended = match plan::schedule(&self.pool, &seat.job, &seat.runner, begin) {
            Ok(plan::Planned::Task(task)) => {
                seat.task = Some(task);
                None
            }
            Ok(plan::Planned::Never(why)) => {
                self.reporter.tell_of(&seat.job.name, JobWhat::Ended { why });
                Some(why)
            }
            Err(error) => {
                self.reporter.tell_of(&seat.job.name, JobWhat::Refused { error });
                Some("refused")
            }
        };
        let when = seat.job.timing.trigger.to_string();
        seat.track.with(|progress| (progress.when, progress.ended) = (when, ended));
        let task = seat.task.clone();
        let is_waiting = |task: &&TaskRemote| !task.state().is_done();
        seat.track.set_next(move || {
            task.as_ref().filter(is_waiting).map(|task| task.info().remaining().duration())
        });
    }

    /// Follows a file that was read again.
    pub(crate) fn reload(&mut self, schedule: &Schedule) {
        let (mut added, mut changed, mut unchanged) = (0, 0, 0);
        self.part();
        let mut old = std::mem::take(&mut self.seats);
        for job in &schedule.jobs {
            let seat = match old.remove(&job.name) {
                None => {
                    added += 1;
                    match self.leaving.remove(&job.name) {
                        Some(seat) => self.change(seat, job, Begin::Fresh),
                        None => self.seat(job, Begin::Fresh),
                    }
                }
                Some(seat) if seat.job == *job => {
                    unchanged += 1;
                    seat
                }
                Some(seat) => {
                    changed += 1;
                    self.change(seat, job, Begin::Changed)
                }
            };
            self.seats.insert(Arc::clone(&job.name), seat);
        }
        let removed = old.len();
        for (name, mut seat) in old {
            seat.retire();
            self.leaving.insert(name, seat);
        }
        self.part();
        // Refused only below the one core thread, and the reader lets no 0 through.
        let _ = self.pool.set_max_threads(schedule.settings.max_running);
        self.show(schedule);
        self.reporter.tell(What::Reloaded { added, changed, removed, unchanged });
    }

    /// Lets those go whose last command has ended.
    fn part(&mut self) {
        let left = &mut self.left;
        self.leaving.retain(|_, seat| {
            let stays = seat.runner.is_busy();
            if !stays {
                left.add(&seat.track);
            }
            stays
        });
    }

    /// Gives a seat to the job of the same name. A task that a retired seat does not have is planned in any case.
    fn change(&self, mut seat: Seat, job: &Job, begin: Begin) -> Seat {
        seat.runner.change(&job.work, job.timing.overlap);
        let pauses = |job: &Job| (job.work.retries.delay, job.work.retries.max_delay);
        let same_timing = seat.job.timing == job.timing && pauses(&seat.job) == pauses(job);
        seat.job = job.clone();
        if begin == Begin::Fresh || !same_timing {
            seat.retire();
            self.schedule(&mut seat, begin);
        }
        seat
    }

    /// Shows the jobs in the order of the file.
    fn show(&self, schedule: &Schedule) {
        let seats = schedule.jobs.iter().filter_map(|job| self.seats.get(&job.name));
        self.board.set(seats.map(|seat| Arc::clone(&seat.track)).collect());
    }

    /// Whether no job will ever run again, and none runs.
    pub(crate) fn is_over(&self) -> bool {
        let is_over = |seat: &Seat| seat.task.as_ref().is_none_or(|task| task.state().is_done());
        self.seats.values().all(is_over) && self.pool.stats().active == 0
    }

    /// Commands that run.
    pub(crate) fn running(&self) -> usize {
        self.pool.stats().active
    }

    /// Begins nothing new, retries included.
    pub(crate) fn drain(&self) {
        self.seats.values().for_each(|seat| seat.runner.retire());
        self.pool.shutdown();
    }

    /// What all jobs have done that there were. Complete when nothing runs.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.left;
        self.seats.values().chain(self.leaving.values()).for_each(|seat| totals.add(&seat.track));
        totals
    }

    /// Asks every command that runs to end, and ends it when its grace is over.
    pub(crate) fn stop(&self) {
        drop(self.pool.shutdown_now());
    }

    /// Ends every command that runs, without grace.
    pub(crate) fn kill(&self) {
        self.haste.make();
        drop(self.pool.shutdown_now());
    }

    /// A handle with which another thread can wait for the end.
    pub(crate) fn scheduler(&self) -> Scheduler {
        self.pool.scheduler()
    }
}

impl Seat {
    /// Ends the schedule of the job. A command that runs is let be.
    fn retire(&mut self) {
        self.runner.retire();
        if let Some(task) = self.task.take() {
            task.cancel();
        }
    }
}

impl Totals {
    fn add(&mut self, track: &Track) {
        track.with(|progress| {
            self.runs += progress.runs;
            self.failures += progress.failures;
        });
    }
}
