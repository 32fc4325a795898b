//! The benchmark kits: workspaces of their own, so that peers are nobody's dependencies, and so nobody else builds them.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] =
    &[Step { name: "kits", about: "the benchmark kits fit what they measure", run: kits }];

/// Without the peers of durable jobs, which do not depend on us.
const KITS: [&str; 2] = ["benches/Cargo.toml", "benches/durable/ours/Cargo.toml"];

fn kits(workspace: &Workspace) -> Outcome {
    let target = workspace.target.join("bench").join("check");
    for kit in KITS {
        let check = workspace.cargo(&["check", "--quiet", "--locked", "--manifest-path", kit]);
        match check.env("CARGO_TARGET_DIR", &target).run() {
            Outcome::Passed(_) => {}
            other => return other,
        }
    }
    Outcome::Passed(format!("{} kits", KITS.len()))
}
