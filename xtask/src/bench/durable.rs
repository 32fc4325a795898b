//! `cargo xtask bench --durable`: what durable jobs cost, beside the peers on the same store.
//!
//! The programs are `benches/durable/ours` and `benches/durable/peers`; both measure by `benches/durable/protocol`, which
//! says how it verifies itself. Each figure is one process on a fresh file, or on a fresh database of one PostgreSQL with
//! its own defaults, whose processor time and log are counted as well. Rounds are interleaved, as everywhere here.
//!
//! ```text
//! cargo xtask bench --durable [--quick | --full] [--only D2,D3] [--peers river,awa] [--stores sqlite,postgres] [--rounds 3]
//! ```
//! `--full` lets a million jobs wait in D3, `--quick` does everything in small, once.

mod server;

use super::cases::{Case, OURS};
use super::programs::parse;
use super::results::{Measured, Row, Sample, Trouble, to_json};
use super::stats::Better;
use super::{known, load_average, numbers, table, verdict, warn_if_busy};
use crate::process::{Ended, run};
use crate::step::{Outcome, now};
use crate::workspace::Workspace;
use server::Server;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The ids for `--only`, and what they are.
pub(super) const WORKLOADS: &[(&str, &str)] = &[
    ("D1", "enqueue"),
    ("D2", "burn-down"),
    ("D3", "lateness"),
    ("D4", "start in another process"),
    ("D5", "a node is killed"),
    ("D6", "burn-down while a snapshot is held"),
    ("D7", "two minutes, without and with a snapshot held"),
];

/// Everybody who can be named with `--peers`, and the stores they know.
const PEERS: &[(&str, &[&str])] =
    &[("river", STORES), ("graphile_worker", &["postgres"]), ("apalis", STORES), ("awa", &["postgres"])];

const STORES: &[&str] = &["sqlite", "postgres"];

/// A process that takes longer is killed and has failed.
const TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, PartialEq)]
struct Options {
    size: Size,
    only: Vec<String>,
    peers: Option<Vec<String>>,
    stores: Vec<String>,
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Quick,
    Usual,
    Full,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let stores = STORES.iter().map(|store| (*store).to_owned()).collect();
        let mut options = Options { size: Size::Usual, only: Vec::new(), peers: None, stores, rounds: 3 };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--durable" => {}
                "--quick" => (options.size, options.rounds) = (Size::Quick, 1),
                "--full" => options.size = Size::Full,
                "--only" => options.only = known(value()?, WORKLOADS)?,
                "--peers" => options.peers = Some(known(value()?, PEERS)?),
                "--stores" => {
                    options.stores = known(value()?, &STORES.iter().map(|s| (*s, ())).collect::<Vec<_>>())?
                }
                "--rounds" => options.rounds = numbers(flag, value()?)?[0] as usize,
                _ => return Err(format!("unexpected argument `{flag}`; see `cargo xtask help`")),
            }
        }
        Ok(options)
    }

    fn takes_part(&self, peer: &str) -> bool {
        self.peers.as_ref().is_none_or(|named| named.iter().any(|name| name == peer))
    }
}

/// The cases on one store.
fn cases(store: &'static str, size: Size) -> Vec<Case> {
    let jobs = if size == Size::Quick { "20000" } else { "100000" };
    let waiting = match size {
        Size::Quick => "20000",
        Size::Usual => "100000",
        Size::Full => "1000000",
    };
    let (late, seconds) = if size == Size::Quick { ("3000", "3") } else { ("10000", "10") };
    let case = |id, workload, args: &[(&'static str, &str)], figure, better, extras, has_peers| Case {
        id,
        workload,
        args: args
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .chain([("store", store.to_owned())])
            .collect(),
        figure,
        better,
        extras,
        // The same without history, where that is a setting.
        beside: if workload == "burn" && store == "postgres" { &["punctual-forgets"] } else { &[] },
        floors: &[],
        has_peers,
    };
    let per_second = ("per_s", "jobs a second");
    let mut cases = vec![
        case(
            "D1",
            "enqueue",
            &[("n", jobs)],
            per_second,
            Better::More,
            &["cpu_s", "pg_cpu_s", "wal_mb", "p50_ms", "p99_ms"],
            true,
        ),
        case(
            "D2",
            "burn",
            &[("n", jobs)],
            per_second,
            Better::More,
            &["cpu_s", "pg_cpu_s", "wal_mb", "settle_ms", "again"],
            true,
        ),
        case(
            "D3",
            "late",
            &[("n", late), ("seconds", seconds), ("waiting", waiting)],
            ("p50_ms", "ms late"),
            Better::Less,
            &["p99_ms", "p999_ms", "max_ms", "early", "cpu_s", "pg_cpu_s"],
            true,
        ),
        case("D4", "start", &[("n", "300")], ("p50_ms", "ms"), Better::Less, &["p99_ms", "max_ms"], true),
        case(
            "D5",
            "restart",
            &[],
            ("running_ms", "ms until the running job is started again"),
            Better::Less,
            &["p50_ms", "max_ms"],
            false,
        ),
    ];
    let lasts = if size == Size::Quick { "5" } else { "120" };
    let flow = |args: &[(&'static str, &str)]| {
        let extras = &["first_per_s", "last_per_s", "cpu_s", "pg_cpu_s", "again"];
        case("D7", "flow", args, per_second, Better::More, extras, false)
    };
    cases.push(flow(&[("seconds", lasts)]));
    if store == "postgres" {
        cases.push(flow(&[("seconds", lasts), ("held", "1")]));
        let held = case(
            "D6",
            "burn",
            &[("n", jobs), ("held", "1")],
            per_second,
            Better::More,
            &["cpu_s", "pg_cpu_s", "wal_mb", "settle_ms", "again"],
            true,
        );
        cases.push(held);
    }
    cases
}

/// Who takes part in a case, in the order in which they run.
fn rows(case: &Case, store: &str, options: &Options, programs: &Programs) -> Vec<Row> {
    let row = |peer, trouble| Row { peer, samples: Vec::new(), trouble };
    let mut rows = vec![row(OURS, None)];
    rows.extend(case.beside.iter().map(|peer| row(peer, None)));
    for (peer, stores) in PEERS.iter().filter(|(peer, _)| case.has_peers && options.takes_part(peer)) {
        if stores.contains(&store) {
            rows.push(row(peer, programs.peers.clone().err().map(Trouble::Unsupported)));
        }
    }
    rows
}

/// What measures, and where.
struct Programs {
    ours: PathBuf,
    /// Or why there is none.
    peers: Result<PathBuf, String>,
    server: Option<Server>,
    /// For files.
    directory: PathBuf,
}

impl Programs {
    fn build(workspace: &Workspace, options: &Options) -> Result<Self, String> {
        let directory = workspace.target.join("bench");
        let build = |kit: &str| {
            let manifest = format!("benches/durable/{kit}/Cargo.toml");
            let cargo = workspace.cargo(&["build", "--release", "--locked", "--manifest-path", &manifest]);
            let target = directory.join(format!("durable-{kit}"));
            match cargo.env("CARGO_TARGET_DIR", &target).run() {
                Outcome::Failed(why) => Err(format!("benches/durable/{kit} does not build: {why}")),
                _ => Ok(target.join("release").join(kit)),
            }
        };
        let ours = build("ours")?;
        let nobody = options.peers.as_ref().is_some_and(Vec::is_empty);
        let peers = if nobody { Err("not asked for".to_owned()) } else { build("peers") };
        let server = match options.stores.iter().any(|store| store == "postgres") {
            true => Some(Server::start(&ours)?),
            false => None,
        };
        Ok(Self { ours, peers, server, directory: directory.join("durable-files") })
    }

    /// One process on a fresh store.
    fn measure(&mut self, peer: &str, store: &str, case: &Case) -> Result<Sample, Trouble> {
        let program = match (peer, &self.peers) {
            (peer, _) if peer.starts_with(OURS) => self.ours.clone(),
            (_, Ok(peers)) => peers.clone(),
            (_, Err(why)) => return Err(Trouble::Unsupported(why.clone())),
        };
        let mut command = Command::new(program);
        command.arg(case.workload).arg(peer);
        command.args(case.args.iter().map(|(key, value)| format!("{key}={value}")));
        match (store, &mut self.server) {
            ("postgres", Some(server)) => {
                let held = case.args.iter().any(|(key, _)| *key == "held");
                server.around(held, |url| measure(command, url)).map_err(Trouble::Failed)?
            }
            _ => {
                let cannot = |error: std::io::Error| Trouble::Failed(error.to_string());
                fs::create_dir_all(&self.directory).map_err(cannot)?;
                let url = format!("sqlite:{}", self.directory.join("jobs.db").display());
                let sample = measure(command, &url);
                fs::remove_dir_all(&self.directory).map_err(cannot)?;
                sample
            }
        }
    }
}

fn measure(mut command: Command, url: &str) -> Result<Sample, Trouble> {
    command.arg(format!("url={url}"));
    // What was left to be written by others, or by the making of a fresh database, is not to be waited for by this one.
    let _ = Command::new("sync").status();
    let Ended { code, output, errors } = run(command, TIMEOUT).map_err(Trouble::Failed)?;
    match code {
        Some(0) => parse(&output).map_err(Trouble::Failed),
        Some(3) => Err(Trouble::Unsupported(output.trim().trim_start_matches("unsupported=").to_owned())),
        _ => Err(Trouble::Failed(errors.trim().lines().last().unwrap_or("ended without a word").to_owned())),
    }
}

pub(super) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let options = Options::parse(args)?;
    println!("== build");
    let mut programs = Programs::build(workspace, &options)?;
    let mut machine = super::programs::machine();
    machine.extend(programs.server.as_ref().map(|server| ("postgres", server.version().to_owned())));
    machine.push(("load average", load_average()));
    for (key, value) in &machine {
        println!("   {key}: {value}");
    }
    warn_if_busy();
    let mut all: Vec<(&str, Measured)> = Vec::new();
    for store in STORES.iter().filter(|store| options.stores.iter().any(|named| named == *store)) {
        for case in cases(store, options.size) {
            if options.only.is_empty() || options.only.iter().any(|id| id == case.id) {
                all.push((store, Measured { rows: rows(&case, store, &options, &programs), case }));
            }
        }
    }
    let start = now();
    let results = workspace.target.join("bench").join("durable.json");
    for round in 1..=options.rounds.max(1) {
        for (store, Measured { case, rows }) in &mut all {
            for row in rows.iter_mut().filter(|row| row.trouble.is_none()) {
                eprintln!("round {round}: {} · {}", case.title(), row.peer);
                match programs.measure(row.peer, store, case) {
                    Ok(sample) => row.samples.push(sample),
                    Err(trouble) => {
                        eprintln!("   {} has no figure: {}", row.peer, trouble.reason());
                        row.trouble = Some(trouble);
                    }
                }
            }
        }
        let measured: Vec<Measured> = all.iter().map(|(_, measured)| measured.clone()).collect();
        fs::write(&results, to_json(&machine, round, &measured)).map_err(|error| error.to_string())?;
    }
    println!();
    let all: Vec<Measured> = all.into_iter().map(|(_, measured)| measured).collect();
    all.iter().for_each(|measured| println!("{}", table::comparison(measured)));
    warn_if_busy();
    let took = (now() - start).as_secs_f64();
    println!("{} rounds in {took:.0} s; all samples in {}", options.rounds.max(1), results.display());
    Ok(verdict(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_defaults_and_are_checked() {
        let options = parse(&["--durable"]).unwrap();
        assert_eq!((options.rounds, options.size, options.stores.len()), (3, Size::Usual, 2));
        assert!(options.takes_part("river"));
        let options = parse(&["--durable", "--peers", "awa", "--stores", "sqlite", "--quick"]).unwrap();
        assert!(options.takes_part("awa") && !options.takes_part("river"));
        assert_eq!((options.stores, options.rounds), (vec!["sqlite".to_owned()], 1));
        assert!(parse(&["--stores", "tape"]).unwrap_err().contains("sqlite, postgres"));
        assert!(parse(&["--only", "W1"]).unwrap_err().contains("D1"));
        assert!(parse(&["--growth"]).is_err());
    }

    #[test]
    fn every_workload_has_a_case_on_some_store_and_its_title_says_which() {
        let all: Vec<Case> = STORES.iter().flat_map(|store| cases(store, Size::Quick)).collect();
        assert!(WORKLOADS.iter().all(|(id, _)| all.iter().any(|case| case.id == *id)));
        assert_eq!(all[0].title(), "D1 enqueue · enqueue n=20000 store=sqlite");
    }
}
