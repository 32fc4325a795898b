//! The programs that measure: built once, then started for every figure.

use super::cases::{Case, Program};
use super::results::{Sample, Trouble};
use super::{load_average, program};
use crate::process::{Ended, run};
use crate::step::Outcome;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// A process that takes longer is killed and has failed.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Where Debian's libnetty-java has the wheel.
const NETTY: &str = "/usr/share/java/netty-common.jar";

#[derive(Debug)]
pub(crate) struct Programs {
    kit: PathBuf,
    /// The class path, or why there is none.
    java: Result<String, String>,
    has_netty: bool,
    rustc: String,
    java_version: String,
}

impl Programs {
    pub(crate) fn build(workspace: &Workspace, directory: &Path) -> Result<Self, String> {
        let manifest = "benches/Cargo.toml";
        let kit = workspace.cargo(&["build", "--release", "--locked", "--manifest-path", manifest]);
        if let Outcome::Failed(why) = kit.env("CARGO_TARGET_DIR", directory).run() {
            return Err(format!("benches/ does not build: {why}"));
        }
        let has_netty = Path::new(NETTY).exists();
        let java = build_java(workspace, directory, has_netty)?;
        let first_line = |program: &str| {
            let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
            String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
        };
        Ok(Self {
            kit: directory.join("release").join("kit"),
            has_netty: has_netty && java.is_ok(),
            java,
            rustc: first_line("rustc").unwrap_or_else(|| "unknown".to_owned()),
            java_version: first_line("java").unwrap_or_else(|| "none".to_owned()),
        })
    }

    /// What is worth knowing about where this was measured.
    pub(crate) fn machine(&self) -> Vec<(&'static str, String)> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        vec![
            ("processor", model.map_or("unknown", |(_, name)| name).to_owned()),
            ("cores", cores.to_string()),
            ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
            ("rustc", self.rustc.clone()),
            ("java", self.java_version.clone()),
            ("load average", load_average()),
        ]
    }

    /// Why a peer cannot take part here, if it cannot.
    pub(crate) fn missing(&self, peer: &str) -> Option<String> {
        match (program(peer), &self.java) {
            (Program::Java, Err(why)) => Some(why.clone()),
            (Program::Java, Ok(_)) if peer == "netty" && !self.has_netty => {
                Some("libnetty-java is not installed".to_owned())
            }
            _ => None,
        }
    }

    /// One process, from start to end.
    pub(crate) fn measure(&self, peer: &str, case: &Case) -> Result<Sample, Trouble> {
        let mut command = match (program(peer), &self.java) {
            (Program::Java, Ok(class_path)) => {
                let mut java = Command::new("java");
                java.args(["-Xms1g", "-cp", class_path, "Bench"]);
                java
            }
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

fn build_java(
    workspace: &Workspace,
    directory: &Path,
    has_netty: bool,
) -> Result<Result<String, String>, String> {
    if workspace.call("javac".into(), &["-version"]).probe().is_none() {
        return Ok(Err("there is no JDK (javac) on the path".to_owned()));
    }
    let classes = directory.join("java").to_string_lossy().into_owned();
    let class_path = if has_netty { format!("{classes}:{NETTY}") } else { classes.clone() };
    let mut args = vec!["-d", &classes, "-cp", &class_path];
    args.extend(["benches/java/Bench.java", "benches/java/Peer.java", "benches/java/Machine.java"]);
    args.extend(has_netty.then_some("benches/java/Netty.java"));
    match workspace.call("javac".into(), &args).run() {
        Outcome::Failed(why) => Err(format!("benches/java does not compile: {why}")),
        _ => Ok(Ok(class_path)),
    }
}

/// The line of results: `key=value`, separated by blanks.
fn parse(output: &str) -> Result<Sample, String> {
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
