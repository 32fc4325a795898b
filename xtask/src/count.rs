//! `cargo xtask count`: how many instructions an operation takes, beside what it took before.
//!
//! Time on a shared machine says little; the number of instructions hardly depends on who else is there. So the gate
//! compares that with `benches/baseline.json` and fails where it has grown. It is not the cost itself (a cache miss is
//! one instruction, too): that is for `cargo xtask bench`. It is a trip-wire for what nobody meant to make slower.
//!
//! # How it is counted
//! Two small programs, `count_engine` and `count_executor`, do one operation so many times, then twice as many times,
//! under valgrind's callgrind. The difference is the operation: start, filling and end cancel out.
//!
//! # How exact it is
//! The engine's counts are the same to the last instruction in every run. The executor's have two threads in them: over
//! ten runs, with four busy loops on two cores, they differed by less than 1 %; where both threads work at the same time
//! (`schedule-now+run`) by 6 to 9 %, hence its wider margin. `--runs 10` shows it anew. What is beyond its margin is
//! counted twice more, and the middle one decides.
//!
//! Another compiler or C library makes other instructions of the same source: against a baseline of another one the
//! margins are [`WIDER`] times as wide. Another processor does not matter: the C library is told not to look at it.
//!
//! # Paths not taken
//! - Counting by the processor (`perf stat`): virtual machines have no such counters.
//! - One process in which callgrind starts and stops counting at marked functions: it would count the caller's thread
//!   only, and inlining moves the marks.

mod baseline;
mod operations;

use crate::bench::{Summary, align};
use crate::step::{self, Outcome, Step};
use crate::workspace::Workspace;
use baseline::{Baseline, Tools};
use operations::{Counter, OPERATIONS, Operation};
use std::process::ExitCode;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "count",
    about: "instructions per operation beside the baseline, if valgrind is installed",
    run: |workspace| check(workspace, 1),
}];

/// How many times as wide margins are where the baseline was counted with another compiler or C library.
const WIDER: f64 = 5.0;

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    match Options::parse(args)? {
        Options { is_update: true, runs } => update(workspace, runs).map(|()| ExitCode::SUCCESS),
        Options { runs, .. } => Ok(match check(workspace, runs) {
            Outcome::Passed(detail) => {
                println!("{detail}");
                ExitCode::SUCCESS
            }
            Outcome::Skipped(why) => return Err(why),
            Outcome::Failed(why) => {
                println!("failed: {why}");
                ExitCode::FAILURE
            }
        }),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    is_update: bool,
    runs: usize,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        // What is written down is to be the middle of several.
        let is_update = args.iter().any(|arg| arg == "--update");
        let mut options = Self { is_update, runs: if is_update { 3 } else { 1 } };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--update" => {}
                "--runs" => {
                    let value = args.next().ok_or("`--runs` needs a value")?;
                    let runs = value.parse().ok().filter(|runs| *runs > 0);
                    options.runs = runs.ok_or_else(|| format!("`--runs` needs a number, not `{value}`"))?;
                }
                other => return Err(format!("unexpected argument `{other}`; see `cargo xtask help`")),
            }
        }
        Ok(options)
    }
}

/// What was counted.
type Counts = Vec<(Operation, Summary)>;

fn check(workspace: &Workspace, runs: usize) -> Outcome {
    let has_valgrind = workspace.call("valgrind".into(), &["--version"]).probe().is_some();
    if !has_valgrind {
        return Outcome::Skipped("valgrind is not installed".to_owned());
    }
    let baseline = match Baseline::read(&Baseline::path(workspace)) {
        Ok(baseline) => baseline,
        Err(why) => return Outcome::Failed(why),
    };
    let tools = Tools::here(workspace);
    if tools.target != baseline.tools.target {
        return Outcome::Skipped(format!(
            "the baseline is for {}, this is {}",
            baseline.tools.target, tools.target
        ));
    }
    let widen = if tools == baseline.tools { 1.0 } else { WIDER };
    let counts = Counter::build(workspace).and_then(|counter| {
        let mut counts = measure(&counter, runs)?;
        recount(&counter, &mut counts, &baseline, widen)?;
        Ok(counts)
    });
    match counts {
        Err(why) => Outcome::Failed(why),
        Ok(counts) => {
            print!("{}", table(&counts, &baseline, runs > 1));
            verdict(&counts, &baseline, widen)
        }
    }
}

fn update(workspace: &Workspace, runs: usize) -> Result<(), String> {
    let counts = measure(&Counter::build(workspace)?, runs)?;
    let path = Baseline::path(workspace);
    let old = Baseline::read(&path);
    let new = Baseline {
        tools: Tools::here(workspace),
        counts: counts.iter().map(|(operation, summary)| (operation.title(), summary.median)).collect(),
    };
    print!("{}", table(&counts, old.as_ref().unwrap_or(&new), runs > 1));
    new.write(&path)?;
    println!("written to benches/baseline.json; commit it by itself, and say why the figures have moved");
    Ok(())
}

fn measure(counter: &Counter, runs: usize) -> Result<Counts, String> {
    let start = step::now();
    let count = |operation: &Operation| Ok((*operation, several(counter, operation, runs)?));
    let counts = OPERATIONS.iter().map(count).collect::<Result<_, String>>()?;
    println!("   counted in {:.0} s", (step::now() - start).as_secs_f64());
    Ok(counts)
}

fn several(counter: &Counter, operation: &Operation, runs: usize) -> Result<Summary, String> {
    let samples = (0..runs).map(|_| counter.measure(operation)).collect::<Result<Vec<_>, _>>()?;
    Summary::of(&samples).ok_or_else(|| "nothing was counted".to_owned())
}

/// Counts again what seems to have grown: of three the middle one counts.
fn recount(counter: &Counter, counts: &mut Counts, baseline: &Baseline, widen: f64) -> Result<(), String> {
    for (operation, summary) in counts {
        if growth(operation, summary, baseline).is_some_and(|growth| growth > operation.margin * widen) {
            let again = several(counter, operation, 2)?;
            *summary = Summary::of(&[summary.median, again.min, again.max]).unwrap_or(*summary);
        }
    }
    Ok(())
}

fn table(counts: &Counts, baseline: &Baseline, has_spread: bool) -> String {
    let mut lines = vec![["instructions", "baseline", "now", ""].map(str::to_owned).to_vec()];
    lines[0].extend(has_spread.then(|| "min … max".to_owned()));
    for (operation, summary @ Summary { median, min, max }) in counts {
        let before = baseline.count(&operation.title());
        let mut line = vec![operation.title()];
        line.push(before.map_or("–".to_owned(), |count| format!("{count:.1}")));
        line.push(format!("{median:.1}"));
        line.push(growth(operation, summary, baseline).map_or(String::new(), percent));
        line.extend(has_spread.then(|| format!("{min:.1} … {max:.1}")));
        lines.push(line);
    }
    align(&lines, &[])
}

/// By how much it has become dearer: 0.05 is 5 %. `None` without a baseline.
fn growth(operation: &Operation, now: &Summary, baseline: &Baseline) -> Option<f64> {
    baseline.count(&operation.title()).map(|before| now.median / before - 1.0)
}

fn percent(growth: f64) -> String {
    format!("{:+.1} %", growth * 100.0)
}

/// Fails on growth, and where the baseline and the programs do not speak of the same operations.
fn verdict(counts: &Counts, baseline: &Baseline, widen: f64) -> Outcome {
    let (mut grown, mut fallen, mut unknown) = (Vec::new(), 0, Vec::new());
    for (operation, summary) in counts {
        let margin = operation.margin * widen;
        match growth(operation, summary, baseline) {
            None => unknown.push(operation.title()),
            Some(growth) if growth > margin => {
                grown.push(format!(
                    "{} {} (at most {})",
                    operation.title(),
                    percent(growth),
                    percent(margin)
                ));
            }
            Some(growth) => fallen += usize::from(growth < -margin),
        }
    }
    let is_counted = |title: &str| counts.iter().any(|(operation, _)| operation.title() == title);
    unknown.extend(baseline.counts.iter().map(|(title, _)| title.clone()).filter(|title| !is_counted(title)));
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        return Outcome::Failed(format!("in the baseline or in the programs only: {names}; see `--update`"));
    }
    let all = counts.len();
    let Tools { rustc, libc, .. } = &baseline.tools;
    let note = if widen > 1.0 { format!(" of {rustc}, {libc}, margins widened") } else { String::new() };
    match (grown.is_empty(), fallen) {
        (false, _) => Outcome::Failed(format!("more than in the baseline{note}: {}", grown.join(", "))),
        (true, 0) => Outcome::Passed(format!("{all} operations cost what they do in the baseline{note}")),
        (true, _) => Outcome::Passed(format!(
            "{fallen} of {all} operations cost less than in the baseline{note}: `--update` keeps that"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(rustc: &str) -> Tools {
        Tools { target: "x86_64-linux".to_owned(), rustc: rustc.to_owned(), libc: "glibc 2".to_owned() }
    }

    const HOLD: Operation = Operation { program: "p", name: "hold", size: 7, times: 1, margin: 0.05 };
    const POP: Operation = Operation { name: "pop", margin: 0.15, ..HOLD };

    fn baseline() -> Baseline {
        let counts = vec![(HOLD.title(), 1000.0), (POP.title(), 200.0)];
        Baseline { tools: tools("1"), counts }
    }

    fn counts(hold: f64, pop: f64) -> Counts {
        let one = |value: f64| Summary::of(&[value]).unwrap();
        vec![(HOLD, one(hold)), (POP, one(pop))]
    }

    #[test]
    fn growth_beyond_an_operations_own_margin_fails_by_name() {
        let judge = |hold, pop| verdict(&counts(hold, pop), &baseline(), 1.0);
        assert!(matches!(judge(1049.0, 229.0), Outcome::Passed(_)));
        let Outcome::Failed(why) = judge(1051.0, 229.0) else { panic!("5.1 % more is too much") };
        assert!(why.contains("hold at 7 +5.1 %") && !why.contains("pop"), "{why}");
        assert!(matches!(judge(1000.0, 231.0), Outcome::Failed(why) if why.contains("pop at 7 +15.5 %")));
    }

    #[test]
    fn a_fall_passes_and_asks_to_be_kept() {
        let Outcome::Passed(detail) = verdict(&counts(500.0, 200.0), &baseline(), 1.0) else {
            panic!("less is better")
        };
        assert!(detail.contains("1 of 2") && detail.contains("--update"), "{detail}");
    }

    #[test]
    fn another_compiler_widens_the_margin_but_does_not_remove_it() {
        let judge = |hold| verdict(&counts(hold, 200.0), &baseline(), WIDER);
        assert!(matches!(judge(1200.0), Outcome::Passed(detail) if detail.contains("margins widened")));
        assert!(matches!(judge(1300.0), Outcome::Failed(_)));
    }

    #[test]
    fn an_operation_without_a_baseline_fails_and_so_does_a_baseline_without_an_operation() {
        let mut more = counts(1000.0, 200.0);
        more.push((Operation { name: "insert", ..HOLD }, Summary::of(&[1.0]).unwrap()));
        assert!(
            matches!(verdict(&more, &baseline(), 1.0), Outcome::Failed(why) if why.contains("insert at 7"))
        );
        let less = more[..1].to_vec();
        assert!(matches!(verdict(&less, &baseline(), 1.0), Outcome::Failed(why) if why.contains("pop at 7")));
    }

    #[test]
    fn the_checked_in_baseline_speaks_of_what_is_counted() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/baseline.json");
        let baseline = Baseline::read(&path).unwrap();
        let titles: Vec<_> = OPERATIONS.iter().map(Operation::title).collect();
        assert_eq!(baseline.counts.iter().map(|(title, _)| title.clone()).collect::<Vec<_>>(), titles);
    }

    #[test]
    fn options_are_checked() {
        let parse =
            |args: &[&str]| Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok(Options { is_update: false, runs: 1 }));
        assert_eq!(parse(&["--update"]), Ok(Options { is_update: true, runs: 3 }));
        assert_eq!(parse(&["--runs", "7", "--update"]), Ok(Options { is_update: true, runs: 7 }));
        assert!(parse(&["--runs"]).is_err() && parse(&["--runs", "0"]).is_err());
        assert!(parse(&["--upadte"]).unwrap_err().contains("`--upadte`"));
    }
}
