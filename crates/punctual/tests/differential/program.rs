//! The language of the programs, and where random ones come from.
//!
//! A program is a list of tasks and a main script. What a body does is said for each of its runs; it can do
//! whatever the main script can, except wait. Every task is started in at most one place and every run has a
//! finite script, so every program ends.

use std::fmt;

use fastrand::Rng;

/// One program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The core size. With 0 there is at most one thread, and it comes and goes.
    pub(crate) threads: usize,
    pub(crate) tasks: Vec<Task>,
    pub(crate) main: Vec<Action>,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// What the body does, and in which run of it, in this order. The first run is 1.
    pub(crate) body: Vec<(u64, Action)>,
}

/// How a task is submitted. Times are in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Execute,
    Submit,
    Once {
        delay: u64,
    },
    /// After the longest delay there is.
    Never,
    Rate {
        initial: u64,
        period: u64,
    },
    Delay {
        initial: u64,
        delay: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Main only: lets time pass, and everything run that comes due.
    Advance(u64),
    /// Bodies only: time passes while the body runs.
    Last(u64),
    /// Bodies only: panics.
    Fail,
    Start(usize),
    Cancel(usize),
    Interrupt(usize),
    Remove(usize),
    Look,
    Purge,
    RemoveOnCancel(bool),
    KeepDelayed(bool),
    KeepPeriodic(bool),
    Shutdown,
    Stop,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |value: bool| if value { "yes" } else { "no" };
        match *self {
            Self::Advance(ticks) => write!(f, "advance {ticks}"),
            Self::Last(ticks) => write!(f, "last {ticks}"),
            Self::Fail => f.write_str("fail"),
            Self::Start(task) => write!(f, "start {task}"),
            Self::Cancel(task) => write!(f, "cancel {task}"),
            Self::Interrupt(task) => write!(f, "interrupt {task}"),
            Self::Remove(task) => write!(f, "remove {task}"),
            Self::Look => f.write_str("look"),
            Self::Purge => f.write_str("purge"),
            Self::RemoveOnCancel(on) => write!(f, "remove-on-cancel {}", yes(on)),
            Self::KeepDelayed(keep) => write!(f, "keep-delayed {}", yes(keep)),
            Self::KeepPeriodic(keep) => write!(f, "keep-periodic {}", yes(keep)),
            Self::Shutdown => f.write_str("shutdown"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Execute => f.write_str("execute"),
            Self::Submit => f.write_str("submit"),
            Self::Once { delay } => write!(f, "once {delay}"),
            Self::Never => f.write_str("once forever"),
            Self::Rate { initial, period } => write!(f, "rate {initial} {period}"),
            Self::Delay { initial, delay } => write!(f, "delay {initial} {delay}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} {KEEP_ALIVE}", self.threads)?;
        for (number, task) in self.tasks.iter().enumerate() {
            writeln!(f, "task {number} {}", task.kind)?;
            for (run, action) in &task.body {
                writeln!(f, "body {number} {run} {action}")?;
            }
        }
        for action in &self.main {
            writeln!(f, "main {action}")?;
        }
        writeln!(f, "end")
    }
}

/// How long a thread beyond the core stays, in ticks.
pub(crate) const KEEP_ALIVE: u32 = 3;
/// The most tasks of one program.
const TASKS: usize = 10;

impl Program {
    /// A random program. With one thread everything has its order; with two, bodies keep to what has the same
    /// effect in whatever order they run.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let threads = match rng.u8(..16) {
            0..2 => 2,
            2..4 => 0,
            _ => 1,
        };
        let mut program = Self { threads, tasks: Vec::new(), main: Vec::new() };
        let settings = [Action::KeepDelayed(false), Action::KeepPeriodic(true), Action::RemoveOnCancel(true)];
        program.main.extend(settings.into_iter().filter(|_| rng.bool()));
        for _ in 0..rng.usize(3..24) {
            let action = program.main_action(rng);
            program.main.push(action);
        }
        program
    }

    /// Programs like this one with one thing less, simplest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let without_step = (0..self.main.len()).map(|index| {
            let mut smaller = self.clone();
            smaller.main.remove(index);
            smaller
        });
        let lines = self.tasks.iter().enumerate();
        let lines = lines.flat_map(|(task, spec)| (0..spec.body.len()).map(move |line| (task, line)));
        let without_line = lines.map(|(task, line)| {
            let mut smaller = self.clone();
            smaller.tasks[task].body.remove(line);
            smaller
        });
        without_step.chain(without_line).collect()
    }

    fn main_action(&mut self, rng: &mut Rng) -> Action {
        match rng.u8(..100) {
            0..32 if self.tasks.len() < TASKS => self.start(rng, 0),
            0..60 => Action::Advance(rng.u64(..7)),
            60..72 => self.cancel(rng, None),
            72..76 => Action::Remove(self.any_task(rng, None)),
            76..79 => Action::Purge,
            79..84 => Action::RemoveOnCancel(rng.bool()),
            84..89 => Action::KeepDelayed(rng.bool()),
            89..95 => Action::KeepPeriodic(rng.bool()),
            95..99 => Action::Shutdown,
            _ => Action::Stop,
        }
    }

    fn body_action(&mut self, rng: &mut Rng, task: usize, depth: usize) -> Action {
        if self.threads > 1 {
            return match rng.u8(..10) {
                0..4 if self.tasks.len() < TASKS && depth < 3 => self.start(rng, depth + 1),
                0..7 => Action::Fail,
                7..9 => Action::Cancel(task),
                _ => Action::Interrupt(task),
            };
        }
        match rng.u8(..100) {
            0..20 => Action::Last(rng.u64(1..6)),
            20..30 => Action::Fail,
            30..55 if self.tasks.len() < TASKS && depth < 3 => self.start(rng, depth + 1),
            30..70 => self.cancel(rng, Some(task)),
            70..75 => Action::Remove(self.any_task(rng, Some(task))),
            75..77 => Action::Purge,
            77..80 => Action::RemoveOnCancel(rng.bool()),
            80..83 => Action::KeepDelayed(rng.bool()),
            83..87 => Action::KeepPeriodic(rng.bool()),
            87..93 => Action::Shutdown,
            93..95 => Action::Stop,
            _ => Action::Look,
        }
    }

    /// Starts a task made up on the spot.
    fn start(&mut self, rng: &mut Rng, depth: usize) -> Action {
        let number = self.tasks.len();
        self.tasks.push(Task { kind: random_kind(rng), body: Vec::new() });
        for run in 1..=4 {
            let actions = if rng.u8(..10) < 3 { rng.usize(1..4) } else { 0 };
            for _ in 0..actions {
                let action = self.body_action(rng, number, depth);
                self.tasks[number].body.push((run, action));
            }
        }
        Action::Start(number)
    }

    fn cancel(&mut self, rng: &mut Rng, task: Option<usize>) -> Action {
        let target = self.any_task(rng, task);
        if rng.u8(..3) == 0 { Action::Interrupt(target) } else { Action::Cancel(target) }
    }

    /// A task that may or may not have been started; often the one that asks.
    fn any_task(&mut self, rng: &mut Rng, asks: Option<usize>) -> usize {
        match asks {
            Some(task) if rng.bool() => task,
            _ if self.tasks.is_empty() => {
                self.tasks.push(Task { kind: random_kind(rng), body: Vec::new() });
                0
            }
            _ => rng.usize(..self.tasks.len()),
        }
    }
}

/// Few different times, so that many coincide.
fn random_kind(rng: &mut Rng) -> Kind {
    match rng.u8(..100) {
        0..8 => Kind::Execute,
        8..16 => Kind::Submit,
        16..46 => Kind::Once { delay: rng.u64(..8) },
        46..50 => Kind::Never,
        50..74 => Kind::Rate { initial: rng.u64(..5), period: random_period(rng) },
        _ => Kind::Delay { initial: rng.u64(..5), delay: random_period(rng) },
    }
}

/// Rarely zero, which is refused.
fn random_period(rng: &mut Rng) -> u64 {
    if rng.u8(..50) == 0 { 0 } else { rng.u64(1..5) }
}
