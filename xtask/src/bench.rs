//! `cargo xtask bench`: what everything costs, beside the peers and beside what the machine itself charges.
//!
//! Each figure is one process of `benches/`, which verifies what it measured. Processes are interleaved, round by
//! round: first everybody in every case, then everybody again. So a noisy minute hits all alike, and what is compared
//! was measured side by side. Medians are shown with their extremes; a ratio above 1 is always worse.
//!
//! ```text
//! cargo xtask bench [--quick] [--only W2,W4] [--peers jdk,tokio] [--rounds 5]
//!                   [--sizes 1000,100000] [--producers 1,8] [--workers 1,4]
//! cargo xtask bench --growth [--quick]
//! cargo xtask bench --plot [--growth]
//! cargo xtask bench --durable                       durable jobs: see `durable.rs`
//! ```
//! `--sizes` are the tasks of W1 and those pending in W2, `--producers` the threads of W10, `--workers` those of W3.
//! `--growth` measures how figures grow with all three, and lateness, and draws the pictures of `docs/plots/`; with
//! `--quick` they go to `target/bench/plots/` instead. `--plot` draws again what the last run has found.

mod cases;
mod durable;
mod plot;
mod programs;
mod results;
mod stats;
mod table;
mod toolchains;

use crate::step::now;
use crate::workspace::Workspace;
use cases::{Case, FEW, GROWING, OURS, PEERS, Program, Scale, WORKLOADS, cases};
use programs::Programs;
use results::{Measured, Row, Trouble, to_json};
pub(crate) use stats::Summary;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
pub(crate) use table::align;

/// All of `--quick` is to take less than two minutes; another round is begun only if it will be over by then.
const QUICK: Duration = Duration::from_secs(105);

#[derive(Debug, PartialEq)]
struct Options {
    scale: Scale,
    only: Vec<String>,
    peers: Option<Vec<String>>,
    rounds: usize,
    plot: bool,
    growth: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let [is_quick, growth] = ["--quick", "--growth"].map(|flag| args.iter().any(|arg| arg == flag));
        let scale = match (growth, is_quick) {
            (false, false) => Scale::full(),
            (false, true) => Scale::quick(),
            (true, false) => Scale::growth(),
            (true, true) => Scale::quick_growth(),
        };
        let only = if growth { GROWING.iter().map(|id| (*id).to_owned()).collect() } else { Vec::new() };
        let rounds = if growth { 3 } else { 5 };
        let mut options = Options { scale, only, peers: None, rounds, plot: false, growth };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--quick" | "--growth" => {}
                "--plot" => options.plot = true,
                "--only" => options.only = known(value()?, WORKLOADS)?,
                "--peers" => options.peers = Some(known(value()?, PEERS)?),
                "--rounds" => options.rounds = numbers(flag, value()?)?[0].max(1) as usize,
                "--sizes" => {
                    options.scale.sizes = numbers(flag, value()?)?;
                    options.scale.pending = options.scale.sizes.clone();
                }
                "--producers" => options.scale.producers = numbers(flag, value()?)?,
                "--workers" => options.scale.workers = numbers(flag, value()?)?,
                _ => return Err(format!("unexpected argument `{flag}`; see `cargo xtask help`")),
            }
        }
        Ok(options)
    }

    /// Where the samples go, and where the pictures.
    fn files(&self, workspace: &Workspace) -> (PathBuf, PathBuf) {
        let directory = workspace.target.join("bench");
        // Only what was measured in full is for readers; a trial overwrites neither figures nor pictures of it.
        match (self.growth, self.scale.is_quick) {
            (true, false) => (directory.join("growth.json"), workspace.root.join("docs").join("plots")),
            (true, true) => (directory.join("growth-quick.json"), directory.join("plots")),
            (false, _) => (directory.join("results.json"), directory.join("plots")),
        }
    }

    fn takes_part(&self, peer: &str) -> bool {
        match &self.peers {
            Some(named) => named.iter().any(|name| name == peer),
            None => !self.scale.is_quick || FEW.contains(&peer),
        }
    }
}

/// The words of a list, each of them one of `all`.
fn known<T>(list: &str, all: &[(&str, T)]) -> Result<Vec<String>, String> {
    let find = |word: &str| match all.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        Some((name, _)) => Ok((*name).to_owned()),
        None => {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            Err(format!("there is no `{word}`; there is {}", names.join(", ")))
        }
    };
    list.split(',').map(find).collect()
}

/// The numbers of a list; `1e6` is a number, too.
fn numbers(flag: &str, list: &str) -> Result<Vec<u64>, String> {
    let number = |word: &str| {
        let value = word.parse::<f64>().ok().filter(|value| *value >= 1.0 && value.fract() == 0.0);
        value.map(|value| value as u64).ok_or_else(|| format!("`{flag}` needs numbers, not `{word}`"))
    };
    list.split(',').map(number).collect()
}

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    if args.iter().any(|arg| arg == "--durable") {
        return durable::command(workspace, args);
    }
    let options = Options::parse(args)?;
    let directory = workspace.target.join("bench");
    let (results, plots) = options.files(workspace);
    if options.plot {
        return plot::command(&results, &plots).map(|()| ExitCode::SUCCESS);
    }
    println!("== build");
    let programs = Programs::build(workspace, &directory)?;
    let mut machine = programs.machine();
    for (key, value) in &machine {
        println!("   {key}: {value}");
    }
    warn_if_busy();
    let mut all: Vec<Measured> = cases(&options.scale)
        .into_iter()
        .filter(|case| options.only.is_empty() || options.only.iter().any(|id| id == case.id))
        .map(|case| Measured { rows: rows(&case, &options, &programs), case })
        .collect();

    let start = now();
    let mut rounds = 0;
    if !options.scale.is_quick && !options.growth {
        round("warm-up", &mut all, &programs);
        all.iter_mut().flat_map(|measured| &mut measured.rows).for_each(|row| row.samples.clear());
    }
    while rounds < options.rounds {
        let took = now() - start;
        let is_hurried = options.scale.is_quick && !options.growth;
        if is_hurried && rounds > 0 && took + took / rounds as u32 > QUICK {
            break;
        }
        rounds += 1;
        round(&format!("round {rounds}"), &mut all, &programs);
        let shown = to_json(&machine, rounds, &all);
        fs::write(&results, shown).map_err(|error| format!("cannot write {}: {error}", results.display()))?;
    }
    machine.push(("load average at the end", load_average()));
    fs::write(&results, to_json(&machine, rounds, &all)).map_err(|error| error.to_string())?;

    println!();
    for measured in &all {
        println!("{}", table::render(measured));
    }
    warn_if_busy();
    println!(
        "{rounds} rounds in {:.0} s; all samples in {}",
        (now() - start).as_secs_f64(),
        results.display()
    );
    if options.growth {
        plot::command(&results, &plots)?;
    }
    Ok(verdict(&all))
}

/// Who takes part in `case`, in the order in which they run.
fn rows(case: &Case, options: &Options, programs: &Programs) -> Vec<Row> {
    let row = |peer, trouble| Row { peer, samples: Vec::new(), trouble };
    let mut rows = Vec::new();
    if case.has_peers {
        rows.push(row(OURS, None));
        rows.extend(case.beside.iter().map(|peer| row(peer, None)));
        for (peer, _) in PEERS.iter().filter(|(peer, _)| options.takes_part(peer)) {
            rows.push(row(peer, programs.missing(peer).map(Trouble::Unsupported)));
        }
    }
    rows.extend(case.floors.iter().map(|floor| row(floor, None)));
    rows
}

/// Everybody once. Who cannot do a case, or has failed in it, is not asked again.
fn round(name: &str, all: &mut [Measured], programs: &Programs) {
    let start = now();
    for Measured { case, rows } in all {
        eprint!("\r{name}: {:<70}", case.title());
        for row in rows.iter_mut().filter(|row| row.trouble.is_none()) {
            match programs.measure(row.peer, case) {
                Ok(sample) => row.samples.push(sample),
                Err(trouble) => {
                    if let Trouble::Failed(why) = &trouble {
                        eprintln!("\n   {} failed: {why}", row.peer);
                    }
                    row.trouble = Some(trouble);
                }
            }
        }
    }
    eprintln!("\r{name}: {:<70}", format!("{:.0} s", (now() - start).as_secs_f64()));
}

/// A run that broke a promise makes the whole fail, whoever it was.
fn verdict(all: &[Measured]) -> ExitCode {
    let mut failed = false;
    for Measured { case, rows } in all {
        for row in rows {
            if let Some(Trouble::Failed(why)) = &row.trouble {
                println!("FAILED: {} in {}: {why}", row.peer, case.title());
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn warn_if_busy() {
    let load: f64 = load_average().parse().unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if load > 1.5 * cores as f64 {
        println!(
            "   ! the load average is {load} on {cores} cores: others are using them, do not trust the figures"
        );
    }
}

/// How a peer's program is found.
fn program(peer: &str) -> Program {
    PEERS.iter().find(|(name, _)| *name == peer).map_or(Program::Kit, |(_, program)| *program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_defaults_and_are_checked() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.rounds, options.scale.is_quick), (5, false));
        assert!(options.takes_part("async-io") && options.takes_part("jdk"));
        let options = parse(&["--only", "w2,W3b", "--peers", "jdk", "--sizes", "1e3,50000"]).unwrap();
        assert_eq!(options.only, ["W2", "W3b"]);
        assert_eq!(options.scale.pending, [1_000, 50_000]);
        assert!(!options.takes_part("tokio"));
        assert!(parse(&["--only", "W11"]).unwrap_err().contains("`W11`"));
        assert!(parse(&["--peers", "quartz"]).unwrap_err().contains("async-io"));
        assert!(parse(&["--sizes", "0"]).is_err() && parse(&["--sizes", "1.5"]).is_err());
        assert_eq!(parse(&["--rounds"]).unwrap_err(), "`--rounds` needs a value");
    }

    #[test]
    fn growth_has_its_own_sizes_and_workloads_unless_others_are_named() {
        let options = parse(&["--growth"]).unwrap();
        assert_eq!((options.scale.sizes.last(), options.rounds), (Some(&10_000_000), 3));
        assert!(options.only.iter().any(|id| id == "W2") && !options.only.iter().any(|id| id == "W6"));
        let options = parse(&["--quick", "--growth", "--only", "W1", "--sizes", "10,20"]).unwrap();
        assert_eq!((options.only, options.scale.sizes), (vec!["W1".to_owned()], vec![10, 20]));
    }

    #[test]
    fn quick_has_few_peers_unless_they_are_named() {
        let options = parse(&["--quick"]).unwrap();
        assert!(options.takes_part("jdk") && options.takes_part("tokio") && !options.takes_part("async-io"));
        assert!(parse(&["--peers", "async-io", "--quick"]).unwrap().takes_part("async-io"));
    }
}
