//! `cargo xtask differential`: the same scripts on Java's executor and on ours.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "differential",
    about: "the same scripts on Java and on punctual, if a JDK is installed",
    run: differential,
}];

fn differential(workspace: &Workspace) -> Outcome {
    if !workspace.has_test("punctual", "differential") {
        return Outcome::Skipped("the crate `punctual` has no test `differential` yet".to_owned());
    }
    for program in ["java", "javac"] {
        if workspace.call(program.into(), &["-version"]).probe().is_none() {
            return Outcome::Skipped(format!("`{program}` is not installed (any JDK from 17 on)"));
        }
    }
    workspace.cargo(&["test", "-p", "punctual", "--test", "differential", "--", "--nocapture"]).run()
}
