//! `cargo xtask test`: every test of the workspace, and the examples.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] = &[
    Step { name: "tests", about: "unit, integration and documentation tests", run: tests },
    Step { name: "examples", about: "every example builds", run: examples },
];

/// Plain `cargo test`: other runners leave out the documentation tests. Then what needs features.
fn tests(workspace: &Workspace) -> Outcome {
    match workspace.cargo(&["test", "--workspace"]).run() {
        Outcome::Passed(_) => observers(workspace),
        other => other,
    }
}

fn observers(workspace: &Workspace) -> Outcome {
    let args = ["test", "-p", "punctual", "--features", "tracing,metrics", "--test", "observers"];
    workspace.cargo(&args).run()
}

fn examples(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["build", "--workspace", "--examples"]).run()
}
