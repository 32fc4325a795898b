//! Programs on punctual, with a manual clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::{
    Clock, Executor, Keep, Leftover, ManualClock, OnCancel, RejectReason, Rejected, Remaining, TaskContext,
    TaskError, TaskHandle, TaskId, TaskState, Tick, UnrunTask,
};

use crate::program::{Action, KEEP_ALIVE, Kind, Program};

/// The unit of the programs' time.
const TICK: Duration = Duration::from_millis(1);
/// More than any program lasts.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What happened, line by line.
pub(crate) fn trace(program: &Program) -> Vec<String> {
    let clock = ManualClock::new();
    let pool = Executor::builder()
        .core_threads(program.threads)
        .keep_alive(KEEP_ALIVE * TICK)
        .on_cancel(OnCancel::KeepUntilDue)
        .clock(clock.clone())
        // What went wrong is in the trace.
        .unobserved(|_| ())
        .build()
        .unwrap();
    let handles = program.tasks.iter().map(|_| None).collect();
    let record = Mutex::new(Record { trace: Vec::new(), handles, unrun: Vec::new() });
    let world = Arc::new(World { program: program.clone(), pool, clock, record });
    for action in &program.main {
        world.step(*action);
    }
    world.step(Action::Stop);
    assert!(world.pool.await_termination(Duration::MAX));
    for number in 0..program.tasks.len() {
        let outcome = world.record().handles[number].as_ref().map(|handle| handle.outcome());
        world.say(&format!("outcome {number} {}", outcome.as_deref().unwrap_or("unknown")));
    }
    world.resolve_the_rest();
    std::mem::take(&mut world.record().trace)
}

struct World {
    program: Program,
    pool: Executor,
    clock: ManualClock,
    record: Mutex<Record>,
}

struct Record {
    trace: Vec<String>,
    handles: Vec<Option<Arc<dyn Grip>>>,
    /// What was removed or drained: kept, as Java's futures are.
    unrun: Vec<UnrunTask>,
}

impl World {
    fn record(&self) -> MutexGuard<'_, Record> {
        // A body that fails by intention never holds it.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, what: &str) -> String {
        format!("@{} {what}", self.clock.now().since(Tick::ZERO).as_nanos() / TICK.as_nanos())
    }

    fn say(&self, what: &str) {
        let line = self.line(what);
        self.record().trace.push(line);
    }

    fn step(self: &Arc<Self>, action: Action) {
        self.act("main", action);
        self.clock.wait_until_idle();
        self.act("main", Action::Look);
    }

    fn act(self: &Arc<Self>, who: &str, action: Action) {
        let text = format!("{who} {action}");
        let pool = &self.pool;
        let keep = |keep| if keep { Keep::Run } else { Keep::Cancel };
        match action {
            Action::Advance(ticks) => {
                self.say(&text);
                self.clock.advance(ticks as u32 * TICK);
                return;
            }
            Action::Start(task) => return self.start(&text, task),
            Action::Cancel(task) => return self.ask(&text, task, |handle| handle.cancel()),
            Action::Interrupt(task) => return self.ask(&text, task, |handle| handle.interrupt()),
            Action::Remove(task) => return self.ask(&text, task, |handle| self.remove(handle)),
            Action::Look => return self.say(&format!("{text}: {}", self.look())),
            Action::Stop => return self.say(&format!("{text}: {}", self.stop())),
            Action::Fail => {
                self.say(&text);
                // As a panic, but without a word on standard error.
                std::panic::resume_unwind(Box::new(who.to_owned()));
            }
            Action::Last(ticks) => self.clock.jump(ticks as u32 * TICK),
            Action::Purge => drop(pool.purge()),
            Action::RemoveOnCancel(true) => pool.set_on_cancel(OnCancel::Remove),
            Action::RemoveOnCancel(false) => pool.set_on_cancel(OnCancel::KeepUntilDue),
            Action::KeepDelayed(yes) => pool.set_after_shutdown(Leftover::Delayed, keep(yes)),
            Action::KeepPeriodic(yes) => pool.set_after_shutdown(Leftover::Periodic, keep(yes)),
            Action::Shutdown => pool.shutdown(),
        }
        self.say(&text);
    }

    /// A task that is due at once begins to speak only when this has been said.
    fn start(self: &Arc<Self>, text: &str, number: usize) {
        let mut record = self.record();
        let answer = match self.submit(number) {
            Ok(handle) => {
                record.handles[number] = handle;
                "accepted"
            }
            Err(RejectReason::ShutDown) => "rejected",
            Err(RejectReason::ZeroPeriod) => "invalid",
            Err(_) => "refused for a reason that Java does not know",
        };
        let line = self.line(&format!("{text}: {answer}"));
        record.trace.push(line);
    }

    fn submit(self: &Arc<Self>, number: usize) -> Result<Option<Arc<dyn Grip>>, RejectReason> {
        let ticks = |n: u64| n as u32 * TICK;
        let world = Arc::clone(self);
        let mut runs = 0;
        let mut body = move || {
            runs += 1;
            world.run_body(number, runs);
        };
        let pool = &self.pool;
        match self.program.tasks[number].kind {
            Kind::Execute => pool.execute(body).map(|()| None).map_err(|rejected| rejected.reason()),
            Kind::Rate { initial, period } => {
                grip(pool.schedule_at_fixed_rate(ticks(initial), ticks(period), body))
            }
            Kind::Delay { initial, delay } => {
                grip(pool.schedule_with_fixed_delay(ticks(initial), ticks(delay), body))
            }
            kind => {
                let body = move || {
                    body();
                    number
                };
                match kind {
                    Kind::Once { delay } => grip(pool.schedule(ticks(delay), body)),
                    Kind::Never => grip(pool.schedule(Duration::MAX, body)),
                    _ => grip(pool.submit(body)),
                }
            }
        }
    }

    fn run_body(self: &Arc<Self>, number: usize, run: u64) {
        /// Speaks also when the body fails.
        struct Ends<'a>(&'a World, &'a str);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.say(&format!("{} ends{}", self.1, interrupted()));
            }
        }
        let me = format!("{number}#{run}");
        self.say(&format!("{me} begins{}", interrupted()));
        let _ends = Ends(self, &me);
        for (of, action) in &self.program.tasks[number].body {
            if *of == run {
                self.act(&me, *action);
            }
        }
    }

    fn ask(&self, text: &str, number: usize, question: impl FnOnce(&dyn Grip) -> bool) {
        let handle = self.record().handles[number].clone();
        let answer = handle.map_or("no handle".to_owned(), |handle| question(&*handle).to_string());
        self.say(&format!("{text}: {answer}"));
    }

    fn remove(&self, handle: &dyn Grip) -> bool {
        let unrun = handle.remove();
        let removed = unrun.is_some();
        self.record().unrun.extend(unrun);
        removed
    }

    /// Stops the pool. Returns the numbers of the tasks that were drained, those without a handle as `?`.
    fn stop(&self) -> String {
        let drained = self.pool.shutdown_now();
        let mut record = self.record();
        let name = |task: &UnrunTask| {
            let is_it = |handle: &Option<Arc<dyn Grip>>| handle.as_ref().is_some_and(|h| h.id() == task.id());
            record.handles.iter().position(is_it).map_or("?".to_owned(), |number| number.to_string())
        };
        let mut names: Vec<String> = drained.iter().map(name).collect();
        names.sort_unstable();
        record.unrun.extend(drained);
        names.join(" ")
    }

    fn look(&self) -> String {
        let (pool, stats) = (&self.pool, self.pool.stats());
        let state = match (pool.is_terminated(), pool.is_terminating()) {
            (true, _) => "terminated",
            (false, true) => "terminating",
            (false, false) => "running",
        };
        let mut line = format!(
            "{state} {} queued={} active={} completed={} threads={} most-threads={}",
            if pool.is_shutdown() { "closed" } else { "open" },
            stats.queued,
            stats.active,
            stats.completed,
            stats.pool_size,
            stats.largest_pool_size
        );
        for (number, handle) in self.record().handles.iter().enumerate() {
            if let Some(handle) = handle {
                line += &format!(" {number}:{}", handle.look());
            }
        }
        line
    }

    /// Every handle resolves: those of tasks that were taken out as soon as the tasks are dropped.
    fn resolve_the_rest(&self) {
        let unrun = std::mem::take(&mut self.record().unrun);
        drop(unrun);
        for handle in self.record().handles.iter().flatten() {
            assert_ne!(handle.outcome(), "pending", "a handle outlives its task\n{}", self.program);
        }
    }
}

fn interrupted() -> &'static str {
    if TaskContext::current().is_interrupted() { " interrupted" } else { "" }
}

/// A handle, whatever the value of its task.
trait Grip: Send + Sync {
    fn id(&self) -> TaskId;
    fn cancel(&self) -> bool;
    fn interrupt(&self) -> bool;
    fn remove(&self) -> Option<UnrunTask>;
    fn look(&self) -> String;
    fn outcome(&self) -> String;
}

fn grip<T: fmt::Debug + 'static, F>(
    submitted: Result<TaskHandle<T>, Rejected<F>>,
) -> Result<Option<Arc<dyn Grip>>, RejectReason>
where
    TaskHandle<T>: Send + Sync,
{
    match submitted {
        Ok(handle) => Ok(Some(Arc::new(handle))),
        Err(rejected) => Err(rejected.reason()),
    }
}

impl<T: fmt::Debug> Grip for TaskHandle<T>
where
    TaskHandle<T>: Send + Sync,
{
    fn id(&self) -> TaskId {
        self.id()
    }

    fn cancel(&self) -> bool {
        self.cancel()
    }

    fn interrupt(&self) -> bool {
        self.interrupt()
    }

    fn remove(&self) -> Option<UnrunTask> {
        self.remove()
    }

    fn look(&self) -> String {
        let queued = if self.is_queued() { "+queued" } else { "" };
        let remaining = match self.remaining() {
            Remaining::In(time) if time > FAR => "far".to_owned(),
            Remaining::In(time) => (time.as_nanos() / TICK.as_nanos()).to_string(),
            Remaining::Overdue(Duration::ZERO) => "0".to_owned(),
            Remaining::Overdue(time) => format!("-{}", time.as_nanos() / TICK.as_nanos()),
        };
        match self.state() {
            TaskState::Cancelled => format!("cancelled{queued}"),
            state if state.is_done() => format!("done{queued}"),
            _ => format!("pending{queued}@{remaining}"),
        }
    }

    fn outcome(&self) -> String {
        match self.try_join() {
            None => "pending".to_owned(),
            Some(Ok(value)) => format!("value {value:?}"),
            Some(Err(TaskError::Cancelled)) => "cancelled".to_owned(),
            Some(Err(TaskError::Panicked(panic))) => format!("failed {panic}"),
            Some(Err(other)) => other.to_string(),
        }
    }
}
