//! The programs that measure: built once, then started for every figure.

use super::cases::{Case, Program};
use super::results::{Sample, Trouble};
use super::toolchains::{Java, build_go, first_line};
use super::{load_average, program};
use crate::process::{Ended, run};
use crate::step::Outcome;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A process that takes longer is killed and has failed.
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct Programs {
    kit: PathBuf,
    /// What peers in other languages are run with, or why they cannot be.
    java: Result<Java, String>,
    go: Result<PathBuf, String>,
    versions: Vec<(&'static str, String)>,
}

impl Programs {
    pub(crate) fn build(workspace: &Workspace, directory: &Path) -> Result<Self, String> {
        let manifest = "benches/Cargo.toml";
        let kit = workspace.cargo(&["build", "--release", "--locked", "--manifest-path", manifest]);
        if let Outcome::Failed(why) = kit.env("CARGO_TARGET_DIR", directory).run() {
            return Err(format!("benches/ does not build: {why}"));
        }
        let version =
            |name: &'static str, flag| (name, first_line(name, flag).unwrap_or_else(|| "none".to_owned()));
        let mut versions =
            vec![version("rustc", "--version"), version("java", "--version"), version("go", "version")];
        let java = Java::build(workspace, directory)?;
        let newest =
            java.as_ref().ok().and_then(|java| first_line(java.machine_for("jdk-fjp")?, "--version"));
        versions.extend(newest.map(|line| ("java of jdk-fjp", line)));
        let go = build_go(workspace, directory)?;
        Ok(Self { kit: directory.join("release").join("kit"), java, go, versions })
    }

    /// What is worth knowing about where this was measured.
    pub(crate) fn machine(&self) -> Vec<(&'static str, String)> {
        let mut machine = machine();
        machine.extend(self.versions.iter().cloned());
        machine.push(("load average", load_average()));
        machine
    }

    /// Why a peer cannot take part here, if it cannot.
    pub(crate) fn missing(&self, peer: &str) -> Option<String> {
        match program(peer) {
            Program::Kit => None,
            Program::Java => match &self.java {
                Ok(java) => java.missing(peer),
                Err(why) => Some(why.clone()),
            },
            Program::Go => self.go.as_ref().err().cloned(),
        }
    }

    /// One process, from start to end.
    pub(crate) fn measure(&self, peer: &str, case: &Case) -> Result<Sample, Trouble> {
        let mut command = match (program(peer), &self.java, &self.go) {
            (Program::Java, Ok(java), _) => java.command(peer),
            (Program::Go, _, Ok(go)) => Command::new(go),
            _ => Command::new(&self.kit),
        };
        command.arg(case.workload).arg(peer);
        command.args(case.args.iter().map(|(key, value)| format!("{key}={value}")));
        let Ended { code, output, errors } = run(command, TIMEOUT).map_err(Trouble::Failed)?;
        match code {
            Some(0) => parse(&output).map_err(Trouble::Failed),
            Some(3) => Err(Trouble::Unsupported(output.trim().trim_start_matches("unsupported=").to_owned())),
            _ => {
                let why = errors.trim().lines().last().unwrap_or("ended without a word").to_owned();
                Err(Trouble::Failed(why))
            }
        }
    }
}

/// The machine itself.
pub(crate) fn machine() -> Vec<(&'static str, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("processor", model.map_or("unknown", |(_, name)| name).to_owned()),
        ("cores", cores.to_string()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
    ]
}

/// The line of results: `key=value`, separated by blanks.
pub(crate) fn parse(output: &str) -> Result<Sample, String> {
    let pair = |word: &str| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    let words = output.lines().last().unwrap_or_default().split_whitespace();
    let sample: Option<Sample> = words.map(pair).collect();
    match sample {
        Some(sample) if !sample.is_empty() => Ok(sample),
        _ => Err(format!("printed no results but `{}`", output.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_results_is_read_and_anything_else_is_not() {
        let sample = parse("ns=80.5 settle_ms=0\n").unwrap();
        assert_eq!(sample, [("ns".to_owned(), 80.5), ("settle_ms".to_owned(), 0.0)]);
        for text in ["", "\n", "ns", "ns=fast", "Killed"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
