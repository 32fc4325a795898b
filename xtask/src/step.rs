//! A step of the gate, and how steps are run and summed up.

use crate::workspace::Workspace;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One thing the gate checks.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Workspace) -> Outcome,
}

/// How a step ended. The text is for the summary: what was covered, why skipped, what failed.
#[derive(Debug)]
#[must_use]
pub(crate) enum Outcome {
    Passed(String),
    /// Something optional is not there. Never a failure, always a line.
    Skipped(String),
    Failed(String),
}

impl Outcome {
    pub(crate) fn passed() -> Self {
        Self::Passed(String::new())
    }
}

/// Errors met on the way are failures of the step.
impl From<Result<Outcome, String>> for Outcome {
    fn from(result: Result<Outcome, String>) -> Self {
        result.unwrap_or_else(Outcome::Failed)
    }
}

/// Runs every step, also after a failure, prints the summary and says whether all is well.
pub(crate) fn run_all(workspace: &Workspace, steps: &[&Step]) -> ExitCode {
    let mut ended = Vec::new();
    for step in steps {
        println!("== {}", step.name);
        let start = now();
        let outcome = (step.run)(workspace);
        match &outcome {
            Outcome::Passed(_) => {}
            Outcome::Skipped(why) => println!("skipped: {why}"),
            Outcome::Failed(why) => println!("failed: {why}"),
        }
        ended.push((step.name, now() - start, outcome));
    }
    println!("== summary\n{}", summary(&ended));
    match ended.iter().any(|(_, _, outcome)| matches!(outcome, Outcome::Failed(_))) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The clock of the commands: durations for people to read, and time-outs.
#[expect(clippy::disallowed_methods, reason = "xtask measures how long commands take; no Clock reaches here")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn summary(ended: &[(&str, Duration, Outcome)]) -> String {
    let width = ended.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut counts = [0; 3];
    for (name, took, outcome) in ended {
        let (which, verdict, detail) = match outcome {
            Outcome::Passed(detail) => (0, "passed", detail),
            Outcome::Skipped(detail) => (1, "skipped", detail),
            Outcome::Failed(detail) => (2, "FAILED", detail),
        };
        counts[which] += 1;
        let detail = if detail.is_empty() { String::new() } else { format!("  ({detail})") };
        text += &format!("{name:<width$}  {:>7.1} s  {verdict}{detail}\n", took.as_secs_f64());
    }
    let total: Duration = ended.iter().map(|(_, took, _)| *took).sum();
    let [passed, skipped, failed] = counts;
    text + &format!("{passed} passed, {skipped} skipped, {failed} failed in {:.1} s", total.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_why_a_step_was_skipped() {
        let second = Duration::from_secs(1);
        let ended = [
            ("fmt", second, Outcome::passed()),
            ("loom", second, Outcome::Skipped("no models yet".to_owned())),
            ("tests", 2 * second, Outcome::Failed("exit status 101".to_owned())),
        ];
        let text = summary(&ended);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "fmt        1.0 s  passed",
                "loom       1.0 s  skipped  (no models yet)",
                "tests      2.0 s  FAILED  (exit status 101)",
                "1 passed, 1 skipped, 1 failed in 4.0 s",
            ]
        );
    }
}
