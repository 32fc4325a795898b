//! `cargo xtask test`: every test of the workspace, and the examples.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use std::time::Duration;

/// A test that hangs does not keep the gate from saying so. They take six minutes on two cores, and some more if all is built.
const LIMIT: Duration = Duration::from_secs(40 * 60);

pub(crate) const STEPS: &[Step] = &[
    Step { name: "tests", about: "unit, integration and documentation tests", run: tests },
    Step { name: "examples", about: "every example builds", run: examples },
];

/// Plain `cargo test`: other runners leave out the documentation tests. Then what needs features.
fn tests(workspace: &Workspace) -> Outcome {
    let with_features = ["test", "-p", "punctual", "--features", "tracing,metrics"];
    let observers = [&with_features[..], &["--test", "observers"]].concat();
    let documentation = [&with_features[..], &["--doc", "observe"]].concat();
    let runs = [&["test", "--workspace"][..], &observers, &documentation]
        .map(|args| workspace.cargo(args).watched(LIMIT));
    for run in runs {
        match run.run() {
            Outcome::Passed(_) => {}
            other => return other,
        }
    }
    Outcome::Passed(String::new())
}

fn examples(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["build", "--workspace", "--examples"]).run()
}
