//! The same programs on `java.util.concurrent.ScheduledThreadPoolExecutor` and here.
//!
//! Random programs ([`program`]) schedule, cancel, remove, change policies, shut down and stop, from outside and
//! from inside bodies. Both executors write down what happens ([`ours`], `Reference.java`): every run with its
//! time and its place in the order, every answer, and after every step the queue, the counters, the state of the
//! pool and of each handle. The traces must be equal, line by line, but for the [`differences`] that are meant.
//!
//! # Time
//! Both run in time that stands still until it is moved, so a trace depends on nothing but the program, however
//! busy the machine is, and thousands of programs take seconds. For us that is a [`punctual::ManualClock`]. Java
//! has no such thing, so it gets one: `VirtualTime.java` takes the place of `System.nanoTime` and of the condition
//! on which idle workers wait, `Redirect.java` puts it there. What is compared is the JDK's own class, instruction
//! for instruction; of what it stands on, only the time is exchanged. The test is skipped if there is no JDK, or
//! one whose class reads the time in another way.
//!
//! # Paths not taken
//! - *Real time on a coarse grid:* two tasks that meet on the grid have been given deadlines some microseconds
//!   apart, in an order that the load of the machine decides. So exact ties, where FIFO matters, could not be
//!   made, late programs would have to be found and repeated, and a program would take as long as it says.
//! - *Wrapping tasks through `decorateTask`:* then the delay, the order and the re-queueing that are compared
//!   would be the wrapper's; and Java does not remove wrapped tasks on cancel.
//!
//! # Settings
//! `PUNCTUAL_SEED` repeats a run, `PUNCTUAL_PROGRAMS` makes it longer, `JAVA_HOME` chooses the JDK. A program on
//! which the two disagree is made smaller before it is shown.

mod differences;
mod java;
mod ours;
mod program;

use fastrand::Rng;

use java::Java;
use program::Program;

const PROGRAMS: u64 = 3_000;
/// So many programs have shown all [`SIGHTS`].
const ENOUGH: u64 = 1_000;

/// The test claims no tag of the catalogue, because where there is no JDK it proves nothing.
#[test]
fn programs_leave_the_same_trace_as_in_java() {
    let seed = setting("PUNCTUAL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let programs = setting("PUNCTUAL_PROGRAMS").unwrap_or(PROGRAMS);
    let mut java = match Java::start() {
        Ok(java) => java,
        Err(reason) => return println!("skipped, no comparison with Java: {reason}"),
    };
    println!("PUNCTUAL_SEED={seed} PUNCTUAL_PROGRAMS={programs}");
    let mut rng = Rng::with_seed(seed);
    let mut seen = [false; SIGHTS.len()];
    for number in 0..programs {
        let program = Program::random(&mut rng);
        let traces = Traces::of(&program, &mut java);
        if !traces.agree() {
            let explained = explain(program, &mut java);
            panic!("program {number} of PUNCTUAL_SEED={seed}, made smaller:\n{explained}");
        }
        for (seen, (_, is_it)) in seen.iter_mut().zip(SIGHTS) {
            *seen |= traces.raw.iter().any(|line| is_it(line));
        }
    }
    let missed = SIGHTS.iter().zip(seen).filter(|(_, seen)| !seen).map(|((name, _), _)| *name);
    let missed: Vec<&str> = missed.collect();
    assert!(programs < ENOUGH || missed.is_empty(), "PUNCTUAL_SEED={seed}: no program had {missed:?}");
}

/// The value of an environment variable, if it is set.
fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

struct Traces {
    /// Java's, as it was written.
    raw: Vec<String>,
    theirs: Vec<String>,
    ours: Vec<String>,
}

impl Traces {
    fn of(program: &Program, java: &mut Java) -> Self {
        let raw = java.trace(program);
        let traces = [differences::translate(&raw), ours::trace(program)];
        let [theirs, ours] = traces.map(|trace| differences::blur(program.threads, trace));
        Self { raw, theirs, ours }
    }

    fn agree(&self) -> bool {
        self.theirs == self.ours
    }
}

/// Makes a program on which the two disagree as small as it gets, and says how they do.
fn explain(mut program: Program, java: &mut Java) -> String {
    let mut disagrees = |program: &Program| !Traces::of(program, java).agree();
    while let Some(smaller) = program.smaller().into_iter().find(&mut disagrees) {
        program = smaller;
    }
    let Traces { theirs, ours, .. } = Traces::of(&program, java);
    let same = theirs.iter().zip(&ours).take_while(|(theirs, ours)| theirs == ours).count();
    let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let common = indented(&theirs[..same]);
    let [theirs, ours] = [theirs, ours].map(|trace| indented(&trace[same..]));
    format!("{program}both:\n{common}then Java:\n{theirs}but punctual:\n{ours}")
}

type Sight = (&'static str, fn(&str) -> bool);

/// What a test worth its name must have met with, and how it looks in Java's trace.
const SIGHTS: [Sight; 19] = [
    ("a task refused after shutdown", |line| line.ends_with(": rejected")),
    ("a period of zero", |line| line.ends_with(": invalid")),
    ("a cancel that comes too late", |line| line.contains(" cancel ") && line.ends_with(": false")),
    ("a cancelled entry that stays", |line| line.contains("cancelled+queued")),
    ("a cancelled entry that comes due", |line| line.contains("idle-runs=") && !line.contains("idle-runs=0")),
    ("a cancelled entry that is drained", |line| line.contains(" stop: ") && line.contains('!')),
    ("a task that is drained", |line| line.contains(" stop: ") && line.ends_with(char::is_numeric)),
    ("a task that is removed", |line| line.contains(" remove ") && line.ends_with(": true")),
    ("a task that is not there to be removed", |line| line.contains(" remove ") && line.ends_with(": false")),
    ("a task that is never due", |line| line.contains("+queued@far")),
    ("a body that is interrupted", |line| line.ends_with(" ends interrupted")),
    ("a body that fails", |line| line.contains(" outcome ") && line.contains(" failed ")),
    ("a run that is overdue", |line| line.contains("+queued@-")),
    ("a value", |line| line.contains(" outcome ") && line.contains(" value ")),
    ("a shutdown that waits for tasks", |line| line.contains(" main look: terminating closed queued=")),
    ("a body that starts a task", |line| line.contains('#') && line.ends_with(": accepted")),
    ("a body that shuts down", |line| line.contains('#') && line.ends_with(" shutdown")),
    ("a body that stops the pool", |line| line.contains('#') && line.contains(" stop:")),
    ("a pool whose thread has gone", |line| {
        line.contains(" running open ") && line.contains(" threads=0 most-threads=1")
    }),
];
