//! So many operations on an executor with so many tasks waiting, and nothing else: for a tool that counts instructions.
//!
//! ```text
//! count_executor <operation> <waiting> <operations>
//! ```
//!
//! `cargo xtask count` runs it twice with different numbers of operations; the difference is what the operations cost,
//! on all threads together, whatever start, filling and end did. There is one worker and time moves by hand, so that
//! what the worker does, and when, depends on the machine as little as it can. Handing a result to a thread that waits
//! for it is not here: what that costs is when who sleeps, and no two runs agree.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use punctual::{Executor, ManualClock, TaskHandle};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
/// How many tasks come due together where tasks are run; `operations` are whole batches there.
const BATCH: usize = 1_000;

/// An executor with tasks that wait, and what is needed to go on with it.
struct Filled {
    pool: Executor,
    clock: ManualClock,
    handles: Vec<TaskHandle<()>>,
    random: fastrand::Rng,
    runs: Arc<AtomicUsize>,
}

impl Filled {
    fn new(waiting: usize) -> Result<Self, String> {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(1).clock(clock.clone()).build();
        let mut filled = Self {
            pool: pool.map_err(|error| error.to_string())?,
            clock,
            handles: Vec::with_capacity(waiting),
            random: fastrand::Rng::with_seed(1),
            runs: Arc::default(),
        };
        filled.pool.prestart_all_core_threads();
        filled.clock.wait_until_idle();
        // What the worker waits for. Nothing that is counted comes before it and calls the worker, which would look round
        // when its turn comes: sooner in one run, later in another.
        drop(filled.schedule_within(HOUR - SECOND, 1)?);
        filled.clock.wait_until_idle();
        for _ in 0..waiting {
            let handle = filled.schedule_within(HOUR, HOUR)?;
            filled.handles.push(handle);
        }
        Ok(filled)
    }

    fn schedule_within(&mut self, from: u64, length: u64) -> Result<TaskHandle<()>, String> {
        let delay = Duration::from_nanos(from + self.random.u64(..length));
        let runs = Arc::clone(&self.runs);
        let body = move || {
            runs.fetch_add(1, Relaxed);
        };
        self.pool.schedule(delay, body).map_err(|error| error.to_string())
    }

    /// The same with a body that has nothing to be dropped.
    fn schedule_plain(&mut self) -> Result<TaskHandle<()>, String> {
        let delay = Duration::from_nanos(HOUR + self.random.u64(..HOUR));
        self.pool.schedule(delay, || ()).map_err(|error| error.to_string())
    }

    /// Cancels one at random and puts another in its place, again and again.
    fn replace(
        &mut self,
        operations: usize,
        schedule: impl Fn(&mut Self) -> Result<TaskHandle<()>, String>,
    ) -> Result<(), String> {
        for _ in 0..operations {
            let at = self.random.usize(..self.handles.len());
            let new = schedule(self)?;
            if !std::mem::replace(&mut self.handles[at], new).cancel() {
                return Err("a task that waits could not be cancelled".to_owned());
            }
        }
        Ok(())
    }

    /// Schedules a batch and passes, again and again.
    fn batches(&mut self, operations: usize, delay: (u64, u64), step: Duration) -> Result<(), String> {
        for batch in 1..=operations / BATCH {
            for _ in 0..BATCH {
                drop(self.schedule_within(delay.0, delay.1)?);
            }
            self.pass(step, batch * BATCH)?;
        }
        Ok(())
    }

    /// Has a batch of periodic tasks run again and again.
    fn periods(&mut self, operations: usize) -> Result<(), String> {
        let period = Duration::from_micros(10);
        for task in 0..BATCH as u64 {
            let runs = Arc::clone(&self.runs);
            let body = move || {
                runs.fetch_add(1, Relaxed);
            };
            let phase = period + Duration::from_nanos(task);
            let series = self.pool.schedule_at_fixed_rate(phase, period, body);
            drop(series.map_err(|error| error.to_string())?);
        }
        // Half a period on, every later step runs each of them once.
        self.pass(period / 2, 0)?;
        (1..=operations / BATCH).try_for_each(|round| self.pass(period, round * BATCH))
    }

    /// Moves time by `step`, waits for what comes due, and checks that `expected` tasks have run since the start.
    fn pass(&self, step: Duration, expected: usize) -> Result<(), String> {
        self.clock.jump(step);
        self.clock.wait_until_idle();
        match self.runs.load(Relaxed) {
            runs if runs == expected => Ok(()),
            runs => Err(format!("{runs} tasks have run, not {expected}")),
        }
    }
}

fn run(operation: &str, waiting: usize, operations: usize) -> Result<(), String> {
    let mut filled = Filled::new(waiting)?;
    match operation {
        "schedule" => {
            for _ in 0..operations {
                drop(black_box(filled.schedule_within(HOUR, HOUR)?));
            }
        }
        "schedule+cancel" => filled.replace(operations, |filled| filled.schedule_within(HOUR, HOUR))?,
        "schedule+cancel-plain" => {
            // All of the same kind.
            for at in 0..waiting {
                filled.handles[at] = filled.schedule_plain()?;
            }
            filled.replace(operations, Filled::schedule_plain)?;
        }
        // In random order, all of them due when time has moved.
        "schedule+run" => filled.batches(operations, (1, 1000), Duration::from_micros(2))?,
        // Due at once: the worker runs while more come in.
        "schedule-now+run" => filled.batches(operations, (0, 1), Duration::ZERO)?,
        "periodic" => filled.periods(operations)?,
        other => return Err(format!("there is no operation `{other}`")),
    }
    // Without dropping it task by task: that would be counted, too.
    std::mem::forget(black_box(filled));
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let numbers = |words: &[String]| Some((words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?));
    let outcome = match (words.first(), numbers(&words)) {
        (Some(operation), Some((waiting, operations))) => run(operation, waiting, operations),
        _ => Err("usage: count_executor <operation> <waiting> <operations>".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("count_executor: {why}");
            ExitCode::FAILURE
        }
    }
}
