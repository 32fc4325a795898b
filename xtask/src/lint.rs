//! `cargo xtask lint`: formatting and clippy.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] = &[
    Step { name: "fmt", about: "`cargo fmt --check`", run: fmt },
    Step {
        name: "clippy",
        about: "clippy on every target; a warning fails; MSRV from clippy.toml",
        run: clippy,
    },
];

fn fmt(workspace: &Workspace) -> Outcome {
    if workspace.cargo(&["fmt", "--version"]).probe().is_none() {
        return Outcome::Skipped("rustfmt is not installed: rustup component add rustfmt".to_owned());
    }
    workspace.cargo(&["fmt", "--all", "--check"]).run()
}

fn clippy(workspace: &Workspace) -> Outcome {
    if !is_clippy_there(workspace) {
        return Outcome::Skipped("clippy is not installed: rustup component add clippy".to_owned());
    }
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
}

pub(crate) fn is_clippy_there(workspace: &Workspace) -> bool {
    workspace.cargo(&["clippy", "--version"]).probe().is_some()
}
