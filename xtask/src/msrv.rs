//! The promise of `rust-version`: the crates build with the compiler that they name.
//!
//! Clippy knows which functions are newer than that, but not which syntax is. So the compiler itself is asked, where there is
//! one: that of rustup, or what `.ci/oldest-rust` has put below the target directory.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::ffi::OsString;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "msrv",
    about: "crates build with the oldest compiler that they promise, if it is installed",
    run: msrv,
}];

/// Where `.ci/oldest-rust` leaves a compiler, below the target directory.
const BESIDE: &str = "oldest-rust/rustc";

fn msrv(workspace: &Workspace) -> Outcome {
    let promised: BTreeSet<_> =
        workspace.packages.iter().filter_map(|package| package.rust.as_ref()).collect();
    let (mut checked, mut missing) = (Vec::new(), Vec::new());
    for version in promised {
        if says(workspace, "rustc".into(), version) {
            // Every other step shows it.
            checked.push(version.as_str());
            continue;
        }
        let Some(compiler) = compiler(workspace, version) else {
            missing.push(format!("Rust {version} is not installed: rustup toolchain install {version}"));
            continue;
        };
        let packages = workspace.packages.iter().filter(|package| package.rust.as_ref() == Some(version));
        let packages = packages.flat_map(|package| ["-p", &package.name]);
        let args: Vec<_> = ["check", "--all-features"].into_iter().chain(packages).collect();
        let target = workspace.target.join("msrv");
        let check = workspace.cargo(&args).env("RUSTC", compiler).env("CARGO_TARGET_DIR", target);
        if let Outcome::Failed(why) = check.run() {
            return Outcome::Failed(format!("with Rust {version}: {why}"));
        }
        checked.push(version.as_str());
    }
    match missing.pop() {
        Some(why) => Outcome::Skipped(why),
        None => Outcome::Passed(format!("Rust {}", checked.join(" and "))),
    }
}

/// A compiler of that version: one of rustup's, or the one beside.
fn compiler(workspace: &Workspace, version: &str) -> Option<OsString> {
    let which = |name: String| {
        let call = workspace.call("rustup".into(), &["which", "rustc", "--toolchain", &name]);
        call.env("RUSTUP_AUTO_INSTALL", "0")
    };
    let of_rustup = [version.to_owned(), format!("{version}.0")].map(|name| which(name).probe());
    let beside = workspace.target.join(BESIDE).into_os_string();
    let all = of_rustup.into_iter().flatten().map(OsString::from).chain([beside]);
    all.into_iter().find(|program| says(workspace, program.clone(), version))
}

/// Whether it is a compiler, and says that it is of that version.
fn says(workspace: &Workspace, program: OsString, version: &str) -> bool {
    let said = workspace.call(program, &["--version"]).probe();
    said.is_some_and(|said| is_of(&said, version))
}

/// Whether a compiler that says this of itself is of that version: `1.85` is any `1.85.x`.
fn is_of(said: &str, version: &str) -> bool {
    let rest = said.strip_prefix("rustc ").and_then(|said| said.strip_prefix(version));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.']))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_compiler_is_of_a_version_whatever_its_patch() {
        assert!(is_of("rustc 1.85.0 (4d91de4e4 2025-02-17) (built from a source tarball)", "1.85"));
        assert!(is_of("rustc 1.85.1 (1 2025-03-15)", "1.85") && is_of("rustc 1.85.1", "1.85.1"));
        assert!(!is_of("rustc 1.850.0 (x)", "1.85") && !is_of("rustc 1.8.5", "1.85"));
        assert!(!is_of("", "1.85"));
    }
}
