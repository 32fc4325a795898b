//! `cargo xtask stress`: the integration tests again and again, on a machine that is too busy for them.
//!
//! A race that needs an unlucky moment gets many moments here, and unlucky ones: busy threads take the processors
//! away, and two test processes at a time take them from each other. A process that does not end in time is
//! killed and counts as a failure: a lost wake-up shows itself as nothing at all.

use crate::json::Value;
use crate::step::now;
use crate::workspace::{Package, Workspace};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The crate whose tests are run.
const PACKAGE: &str = "punctual";
/// Test processes at a time.
const PARALLEL: usize = 2;
/// Tests that start other programs and say nothing about races; run only if named.
const LEFT_OUT: &[&str] = &["differential"];

#[derive(Debug, PartialEq)]
struct Options {
    runs: usize,
    /// A test binary by its name, or else part of the names of the tests to run.
    filter: Option<String>,
    timeout: Duration,
    /// Busy threads.
    load: usize,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        // Longer than the minute after which the test harness names the tests that are still running.
        let timeout = Duration::from_secs(120);
        let load = thread::available_parallelism().map_or(2, usize::from);
        let mut options = Options { runs: 200, filter: None, timeout, load };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--runs" => options.runs = number(flag, value()?)?.max(1),
                "--filter" => options.filter = Some(value()?.clone()),
                "--timeout" => options.timeout = Duration::from_secs(number(flag, value()?)? as u64),
                "--load" => options.load = number(flag, value()?)?,
                _ => {
                    return Err(format!(
                        "unexpected argument `{flag}`; `cargo xtask help` shows what there is"
                    ));
                }
            }
        }
        Ok(options)
    }
}

fn number(flag: &str, text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{flag}` needs a number, not `{text}`"))
}

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let options = Options::parse(args)?;
    let package = workspace.package(PACKAGE).ok_or_else(|| format!("there is no crate `{PACKAGE}`"))?;
    println!("== build");
    let binaries = build(workspace, package, options.filter.as_deref())?;
    if binaries.is_empty() {
        return Err(match options.filter {
            None => format!("the crate `{PACKAGE}` has no integration tests yet"),
            Some(filter) => {
                format!("no integration test of `{PACKAGE}` is called `{filter}` or has such a test")
            }
        });
    }
    let logs = workspace.target.join("stress");
    fs::create_dir_all(&logs).map_err(|error| format!("cannot create {}: {error}", logs.display()))?;
    let names: Vec<_> = binaries.iter().map(|binary| binary.name.as_str()).collect();
    println!(
        "== stress: {} runs of each of {}, {} busy threads",
        options.runs,
        names.join(", "),
        options.load
    );
    let start = now();
    let failures = run_all(&binaries, &options, &logs);
    let runs = options.runs * binaries.len();
    println!("{runs} runs, {failures} failures");
    println!("took {:.1} s", (now() - start).as_secs_f64());
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A test program, and how to start it.
#[derive(Debug)]
struct Binary {
    name: String,
    path: PathBuf,
    /// Tests find their files from the root of their crate.
    directory: PathBuf,
    args: Vec<String>,
}

impl Binary {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args).current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    fn has_tests(&self) -> Result<bool, String> {
        let output = self.command().arg("--list").output();
        let output = output.map_err(|error| format!("cannot start {}: {error}", self.path.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().any(|line| line.ends_with(": test")))
    }
}

/// Builds the integration tests once and chooses those to run.
fn build(workspace: &Workspace, package: &Package, filter: Option<&str>) -> Result<Vec<Binary>, String> {
    let messages = workspace.cargo(&["test", "-p", PACKAGE, "--no-run", "--message-format=json"]).read()?;
    let mut binaries = Vec::new();
    for (name, path) in executables(&messages) {
        let is_named = filter == Some(name.as_str());
        if LEFT_OUT.contains(&name.as_str()) && !is_named {
            continue;
        }
        let is_part = filter.is_some_and(|filter| !package.tests.iter().any(|test| test == filter));
        if filter.is_some() && !is_named && !is_part {
            continue;
        }
        let args = filter.filter(|_| is_part).map(str::to_owned).into_iter().collect();
        let binary = Binary { name, path: path.into(), directory: package.root.clone(), args };
        if binary.has_tests()? {
            binaries.push(binary);
        }
    }
    Ok(binaries)
}

/// The integration tests among what cargo says it has built: names and paths.
fn executables(messages: &str) -> Vec<(String, String)> {
    let artifacts = messages.lines().filter_map(|line| Value::parse(line).ok());
    let tests = artifacts.filter(|artifact| {
        let kinds = artifact.member("target").member("kind");
        artifact.member("reason").text() == Some("compiler-artifact")
            && kinds.items().iter().any(|kind| kind.text() == Some("test"))
    });
    let named = tests.filter_map(|artifact| {
        let name = artifact.member("target").member("name").text()?.to_owned();
        Some((name, artifact.member("executable").text()?.to_owned()))
    });
    named.collect()
}

/// Runs every binary as often as asked, round by round, and returns how many runs failed.
fn run_all(binaries: &[Binary], options: &Options, logs: &Path) -> usize {
    let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let total = options.runs * binaries.len();
    let work = || {
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= total {
                return;
            }
            let binary = &binaries[run % binaries.len()];
            let round = run / binaries.len() + 1;
            let log = logs.join(format!("{}-{round}.log", binary.name));
            if let Err(why) = run_one(binary, options.timeout, &log) {
                failures.fetch_add(1, Ordering::Relaxed);
                report(binary, round, &why, &log);
            } else {
                // Best effort: a log left behind does no harm.
                let _ = fs::remove_file(&log);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.load {
            scope.spawn(|| keep_busy(&is_over));
        }
        let workers: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(work)).collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        for result in ended {
            result.expect("a runner panicked");
        }
    });
    failures.into_inner()
}

/// Takes a processor away, in pieces of different length, so that what it is taken from stops at odd places.
fn keep_busy(is_over: &AtomicBool) {
    let mut length = 1_u32;
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..length % 65_536 {
            std::hint::spin_loop();
        }
        thread::yield_now();
        length = length.wrapping_mul(48_271).wrapping_add(11);
    }
}

/// One process from start to end, its output in `log`.
fn run_one(binary: &Binary, timeout: Duration, log: &Path) -> Result<(), String> {
    let output = File::create(log).map_err(|error| format!("cannot create {}: {error}", log.display()))?;
    let errors = output.try_clone().map_err(|error| format!("cannot share the log: {error}"))?;
    let child = binary.command().stdout(output).stderr(errors).spawn();
    let child = child.map_err(|error| format!("cannot start: {error}"))?;
    match wait(child, timeout)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => Err(format!("still running after {} s, killed", timeout.as_secs())),
    }
}

/// Waits for the end of a process; one that takes too long is killed, and there is no status then.
#[expect(clippy::disallowed_methods, reason = "std has no wait with a time-out for a child process")]
fn wait(mut child: Child, timeout: Duration) -> Result<Option<ExitStatus>, String> {
    let start = now();
    loop {
        match child.try_wait().map_err(|error| format!("cannot wait: {error}"))? {
            Some(status) => return Ok(Some(status)),
            None if now() - start < timeout => thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill().map_err(|error| format!("cannot kill {}: {error}", child.id()))?;
                child.wait().map_err(|error| format!("cannot wait: {error}"))?;
                return Ok(None);
            }
        }
    }
}

/// One failure, with all its output, in one piece: two may come at a time.
fn report(binary: &Binary, round: usize, why: &str, log: &Path) {
    let output = fs::read(log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    println!(
        "-- {} failed in round {round}: {why}\n{}\n-- kept in {}",
        binary.name,
        output.trim_end(),
        log.display()
    );
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
        assert_eq!((options.runs, options.timeout), (200, Duration::from_secs(120)));
        let options = parse(&["--runs", "7", "--filter", "cancel", "--timeout", "9", "--load", "0"]).unwrap();
        let expected =
            Options { runs: 7, filter: Some("cancel".to_owned()), timeout: Duration::from_secs(9), load: 0 };
        assert_eq!(options, expected);
        assert_eq!(parse(&["--runs"]).unwrap_err(), "`--runs` needs a value");
        assert_eq!(parse(&["--runs", "many"]).unwrap_err(), "`--runs` needs a number, not `many`");
        assert!(parse(&["cancel"]).is_err());
    }

    #[test]
    fn only_integration_tests_are_taken_from_what_cargo_has_built() {
        let messages = r#"not json
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"punctual"},"executable":"/t/punctual-1"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"stress"},"executable":"/t/stress-1"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"retry"},"executable":"/t/retry"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages), [("stress".to_owned(), "/t/stress-1".to_owned())]);
    }

    #[cfg(unix)]
    mod processes {
        use super::*;

        fn shell(script: &str) -> Binary {
            let args = vec!["-c".to_owned(), script.to_owned()];
            Binary { name: "sh".to_owned(), path: "/bin/sh".into(), directory: "/".into(), args }
        }

        fn run(name: &str, script: &str, timeout: Duration) -> (Result<(), String>, String) {
            let log = std::env::temp_dir().join(format!("punctual-xtask-{}-{name}.log", std::process::id()));
            let result = run_one(&shell(script), timeout, &log);
            let text = fs::read_to_string(&log).unwrap();
            fs::remove_file(&log).unwrap();
            (result, text)
        }

        #[test]
        fn a_failure_keeps_all_its_output() {
            let (result, text) = run("fails", "echo out; echo err >&2; exit 3", Duration::from_secs(60));
            assert_eq!(result.unwrap_err(), "exit status: 3");
            assert_eq!(text, "out\nerr\n");
        }

        #[test]
        fn a_process_that_hangs_is_killed_and_fails() {
            let (result, text) =
                run("hangs", "echo begun; exec cat /dev/zero > /dev/null", Duration::from_secs(1));
            assert_eq!(result.unwrap_err(), "still running after 1 s, killed");
            assert_eq!(text, "begun\n");
        }

        #[test]
        fn every_run_is_made_and_every_failure_counted() {
            let logs = std::env::temp_dir().join(format!("punctual-xtask-{}-all", std::process::id()));
            fs::create_dir_all(&logs).unwrap();
            let options = Options { runs: 5, filter: None, timeout: Duration::from_secs(60), load: 1 };
            let failures = run_all(&[shell("exit 0"), shell("exit 1")], &options, &logs);
            fs::remove_dir_all(&logs).unwrap();
            assert_eq!(failures, 5);
        }
    }
}
