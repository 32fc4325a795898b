//! The engine by itself, on this machine and on one that has no standard library.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use std::path::Path;

pub(crate) const STEPS: &[Step] = &[
    Step { name: "engine", about: "the engine builds by itself", run: engine },
    Step {
        name: "no-std",
        about: "the engine builds for a target without std, if one is installed",
        run: no_std,
    },
];

const ENGINE: &str = "punctual-engine";

fn engine(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["build", "-p", ENGINE]).run()
}

fn no_std(workspace: &Workspace) -> Outcome {
    let Some(sysroot) = workspace.call("rustc".into(), &["--print", "sysroot"]).probe() else {
        return Outcome::Skipped("rustc does not say where its targets are".to_owned());
    };
    match installed_targets(Path::new(&sysroot)).into_iter().find(|target| is_bare(target)) {
        Some(target) => workspace.cargo(&["build", "-p", ENGINE, "--target", &target]).run(),
        None => Outcome::Skipped(
            "no target without std is installed: rustup target add thumbv7em-none-eabi".to_owned(),
        ),
    }
}

fn installed_targets(sysroot: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(sysroot.join("lib/rustlib")).into_iter().flatten().flatten();
    let with_libraries = entries.filter(|entry| entry.path().join("lib").is_dir());
    let mut targets: Vec<_> =
        with_libraries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    targets.sort_unstable();
    targets
}

/// Whether a target has no operating system and so no std: `none` stands where its system would.
fn is_bare(target: &str) -> bool {
    target.split('-').skip(1).any(|part| part == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_target_has_none_for_its_system() {
        assert!(["thumbv7em-none-eabi", "x86_64-unknown-none", "wasm32v1-none"].into_iter().all(is_bare));
        assert!(!["x86_64-unknown-linux-gnu", "wasm32-unknown-unknown", "etc"].into_iter().any(is_bare));
    }
}
