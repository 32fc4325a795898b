//! What is counted, and the counting.

use crate::process::{Ended, run};
use crate::step::Outcome;
use crate::workspace::Workspace;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// One operation, done so many times with so many entries waiting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Operation {
    /// The example program that does it.
    pub(crate) program: &'static str,
    pub(crate) name: &'static str,
    pub(crate) size: u64,
    pub(crate) times: u64,
    /// How much dearer it may be than in the baseline: 0.05 is 5 %.
    pub(crate) margin: f64,
}

const fn engine(name: &'static str, size: u64, times: u64) -> Operation {
    Operation { program: "count_engine", name, size, times, margin: 0.05 }
}

const fn executor(name: &'static str, size: u64, times: u64) -> Operation {
    Operation { program: "count_executor", name, size, times, margin: 0.05 }
}

/// For what two threads do at the same time, in an order that differs from run to run.
const fn racing(operation: Operation) -> Operation {
    Operation { margin: 0.2, ..operation }
}

/// Where the size grows with each operation, it is the least there was.
pub(crate) const OPERATIONS: &[Operation] = &[
    engine("insert", 1_000, 5_000),
    engine("insert", 100_000, 20_000),
    engine("insert-ascending", 100_000, 20_000),
    engine("insert-descending", 100_000, 20_000),
    engine("cancel+insert", 1_000, 20_000),
    engine("cancel+insert", 100_000, 20_000),
    engine("hold", 1_000, 20_000),
    engine("hold", 100_000, 20_000),
    engine("pop", 100_000, 20_000),
    executor("schedule", 1_000, 5_000),
    executor("schedule", 20_000, 10_000),
    executor("schedule+cancel", 1_000, 10_000),
    executor("schedule+cancel", 20_000, 10_000),
    executor("schedule+cancel-plain", 20_000, 10_000),
    executor("schedule+run", 1_000, 10_000),
    racing(executor("schedule-now+run", 1_000, 10_000)),
    executor("periodic", 1_000, 10_000),
];

impl Operation {
    /// As it is shown: `engine insert at 1000`.
    pub(crate) fn title(&self) -> String {
        let room = self.program.trim_start_matches("count_");
        format!("{room} {} at {}", self.name, self.size)
    }
}

/// glibc chooses how to copy memory by the processor it finds, and by the size of its caches. With these it chooses
/// the same everywhere; names that a version does not know are passed over.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-SSE4_2,-ERMS,-FSRM,\
    -AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-Fast_Unaligned_Load:\
    glibc.cpu.x86_non_temporal_threshold=0x10000000";
/// A process takes about a second; one that hangs is killed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The programs, built.
#[derive(Debug)]
pub(crate) struct Counter {
    examples: PathBuf,
}

impl Counter {
    pub(crate) fn build(workspace: &Workspace) -> Result<Self, String> {
        let mut args =
            vec!["build", "--quiet", "--profile", "count", "-p", "punctual-engine", "-p", "punctual"];
        args.extend(["--example", "count_engine", "--example", "count_executor"]);
        match workspace.cargo(&args).run() {
            Outcome::Failed(why) => Err(format!("the programs do not build: {why}")),
            _ => Ok(Self { examples: workspace.target.join("count").join("examples") }),
        }
    }

    /// Instructions for one operation: the difference between so many and twice as many. The first half warms up, and
    /// whatever the process does beside, it does in both.
    pub(crate) fn measure(&self, operation: &Operation) -> Result<f64, String> {
        let [once, twice] = thread::scope(|scope| {
            let count = |times: u64| scope.spawn(move || self.count(operation, times));
            [operation.times, 2 * operation.times].map(count).map(|counting| {
                counting.join().unwrap_or_else(|_| Err("the counting thread has panicked".to_owned()))
            })
        });
        let (once, twice) = (once?, twice?);
        let more = twice.checked_sub(once).ok_or_else(|| {
            format!("{}: {twice} instructions for twice as much as {once} do", operation.title())
        })?;
        Ok(more as f64 / operation.times as f64)
    }

    /// All instructions of one process, on all its threads.
    fn count(&self, operation: &Operation, times: u64) -> Result<u64, String> {
        let mut command = Command::new("valgrind");
        // Nothing of our environment: its size alone moves the stack and with it some copying.
        command.env_clear().env("GLIBC_TUNABLES", TUNABLES);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // Threads take turns in a fixed order instead of racing for whose turn it is.
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--fair-sched=yes"]);
        command.arg(self.examples.join(operation.program));
        command.args([operation.name, &operation.size.to_string(), &times.to_string()]);
        let failed = |why: &str| format!("{}: {why}", operation.title());
        let Ended { code, errors, .. } = run(command, TIMEOUT).map_err(|why| failed(&why))?;
        match (code, collected(&errors)) {
            (Some(0), Some(instructions)) => Ok(instructions),
            (Some(0), None) => Err(failed("valgrind does not say how many instructions it has counted")),
            _ => Err(failed(own_words(&errors))),
        }
    }
}

/// What callgrind says at the end: `==123== Collected : 4567`.
fn collected(errors: &str) -> Option<u64> {
    errors.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

/// The last line that is not valgrind's.
fn own_words(errors: &str) -> &str {
    errors.lines().rev().find(|line| !line.starts_with("==")).unwrap_or("ended without a word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_among_what_valgrind_says() {
        let errors =
            "==7== Command: x\ncount_engine: no\n==7== \n==7== Events    : Ir\n==7== Collected : 63465697\n";
        assert_eq!(collected(errors), Some(63_465_697));
        assert_eq!(collected("==7== Collected : many"), None);
        assert_eq!(own_words(errors), "count_engine: no");
        assert_eq!(own_words("==7== Command: x"), "ended without a word");
    }

    #[test]
    fn no_two_operations_have_the_same_title() {
        let mut titles: Vec<_> = OPERATIONS.iter().map(Operation::title).collect();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), OPERATIONS.len());
    }
}
