//! `cargo xtask chaos`: processes killed, stopped and starved a thousand times, and what became of their jobs.
//!
//! The long form of the tests in `crates/punctual-durable/tests/chaos`, which see: the same faults, the same checker, as
//! many kills at random as asked for, in an optimised build. Each test tells what it has seen; the verdict is that of
//! the checker, which knows only what the processes and the store say.

use crate::step::{Outcome, now};
use crate::workspace::Workspace;
use std::process::ExitCode;

const PACKAGE: &str = "punctual-durable";
const TEST: &str = "chaos";
/// The stores whose nodes can be tormented, and the feature of each.
const STORES: &[&str] = &["sqlite", "postgres"];

#[derive(Debug, PartialEq)]
struct Options {
    cycles: usize,
    /// All of them if none is named.
    stores: Vec<&'static str>,
    /// Part of the names of the tests to run.
    only: Option<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options { cycles: 1_000, stores: Vec::new(), only: None };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--cycles" => {
                    let text = value()?;
                    let number = text.parse().ok().filter(|cycles| *cycles > 0);
                    options.cycles =
                        number.ok_or_else(|| format!("`{flag}` needs a number, not `{text}`"))?;
                }
                "--store" => {
                    let name = value()?;
                    let known = STORES.iter().find(|known| *known == name);
                    let unknown = || format!("there is no store `{name}`; there is {}", STORES.join(", "));
                    options.stores.push(known.ok_or_else(unknown)?);
                }
                "--only" => options.only = Some(value()?.clone()),
                _ => return Err(format!("unexpected argument `{flag}`; see `cargo xtask help`")),
            }
        }
        if options.stores.is_empty() {
            options.stores = STORES.to_vec();
        }
        Ok(options)
    }

    /// What cargo is called with: one test at a time, so that each has the machine for itself. Tests are in modules
    /// that have the names of the stores; the judge is judged first.
    fn arguments(&self) -> Vec<String> {
        let mut words =
            ["test", "--release", "-p", PACKAGE, "--test", TEST, "--features"].map(str::to_owned).to_vec();
        words.push(STORES.join(","));
        words.extend(["--", "--nocapture", "--test-threads=1"].map(str::to_owned));
        match &self.only {
            Some(part) => words.push(part.clone()),
            None => words.extend(
                std::iter::once("checker").chain(self.stores.iter().copied()).map(|m| format!("{m}::")),
            ),
        }
        words
    }
}

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let options = Options::parse(args)?;
    let start = now();
    let words = options.arguments();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let call = workspace.cargo(&words).env("PUNCTUAL_CHAOS_CYCLES", options.cycles.to_string());
    let outcome = call.run();
    let took = (now() - start).as_secs_f64();
    let what = format!("{} cycles on {} in {took:.0} s", options.cycles, options.stores.join(" and "));
    Ok(match outcome {
        Outcome::Passed(_) => {
            println!("{what}: nothing lost, nothing twice, nothing early, nothing stale believed");
            ExitCode::SUCCESS
        }
        Outcome::Skipped(why) | Outcome::Failed(why) => {
            println!("{what}: FAILED: {why}");
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, String> {
        Options::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_have_defaults_and_are_checked() {
        assert_eq!(parse(&[]).unwrap(), Options { cycles: 1_000, stores: STORES.to_vec(), only: None });
        let options = parse(&["--cycles", "7", "--store", "sqlite", "--only", "killed"]).unwrap();
        assert_eq!((options.cycles, options.stores.as_slice()), (7, ["sqlite"].as_slice()));
        assert!(options.arguments().iter().any(|word| word == "killed"));
        assert_eq!(parse(&["--cycles", "0"]).unwrap_err(), "`--cycles` needs a number, not `0`");
        assert_eq!(parse(&["--cycles"]).unwrap_err(), "`--cycles` needs a value");
        assert!(
            parse(&["--store", "tape"]).unwrap_err().starts_with("there is no store `tape`; there is sqlite")
        );
        assert!(parse(&["killed"]).is_err());
    }

    #[test]
    fn the_test_that_is_run_exists() {
        assert!(Workspace::find().unwrap().has_test(PACKAGE, TEST));
    }
}
