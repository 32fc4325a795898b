//! `cargo xtask docs`: the documentation, without a warning.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "docs",
    about: "rustdoc of the workspace; a warning (a dead link, say) fails",
    run: docs,
}];

fn docs(workspace: &Workspace) -> Outcome {
    workspace
        .cargo(&["doc", "--workspace", "--all-features", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}
