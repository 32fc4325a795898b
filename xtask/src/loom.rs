//! `cargo xtask loom`: model checking of what threads do to each other.
//!
//! Loom replaces the atomics and locks, so everything is built again with `--cfg punctual_loom`, in a target
//! directory of its own lest it and the ordinary build throw each other's work away.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use std::path::Path;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "loom",
    about: "the models in `src/**/loom_*.rs`, every interleaving up to a bound",
    run: loom,
}];

/// Three switches forced on a thread find nearly all that more would find, in seconds instead of hours.
const PREEMPTIONS: &str = "3";

fn loom(workspace: &Workspace) -> Outcome {
    let Some(package) = workspace.package("punctual") else {
        return Outcome::Skipped("there is no crate `punctual` yet".to_owned());
    };
    if !has_models(&package.root.join("src")) {
        return Outcome::Skipped("the crate `punctual` has no models yet".to_owned());
    }
    check(workspace).into()
}

/// Lists the models first: a run that finds none would be green and prove nothing.
fn check(workspace: &Workspace) -> Result<Outcome, String> {
    let preemptions = std::env::var("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|_| PREEMPTIONS.to_owned());
    let args = ["test", "-p", "punctual", "--release", "--lib", "loom"];
    let call = |more: &[&str]| {
        workspace
            .cargo(&[&args, more].concat())
            .env("RUSTFLAGS", "--cfg punctual_loom")
            .env("LOOM_MAX_PREEMPTIONS", &preemptions)
            .env("CARGO_TARGET_DIR", workspace.target.join("loom"))
    };
    let models = call(&["--", "--list"]).read()?.lines().filter(|line| line.ends_with(": test")).count();
    if models == 0 {
        return Ok(Outcome::Failed("there are loom files but no test with `loom` in its path".to_owned()));
    }
    Ok(match call(&[]).run() {
        Outcome::Passed(_) => Outcome::Passed(format!("{models} models, {preemptions} pre-emptions")),
        other => other,
    })
}

fn has_models(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("loom") && name.ends_with(".rs") || has_models(&entry.path())
    })
}
