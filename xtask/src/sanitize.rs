//! `cargo xtask sanitize`: the stress tests under the address and the thread sanitizer.
//!
//! Both need a nightly toolchain and x86-64 Linux; each builds in a target directory of its own.
//!
//! # What each can see
//! *Address* (with leaks): works with the standard library as it is shipped. Tasks are allocated one by one
//! (`punctual_plain_memory`), so that a use after the end of one is seen.
//!
//! *Thread*: tasks are in chunks, as in earnest: who may use which part of one is among what is looked at. Only with a
//! standard library built with the sanitizer, hence only with the component `rust-src`.
//! The shipped one is not instrumented: the slow path of `Mutex`, `Condvar`, `park` and the join of a thread
//! are compiled into it, so their happens-before edges are not seen, and every hand-over that took a slow path
//! is reported as a race *in the code that used the lock*. The compiler refuses the mixture for that reason
//! unless told otherwise (`-Cunsafe-allow-abi-mismatch=sanitizer`). Suppressions do not help: to silence
//! those reports they would have to name our own functions, and a real race with them.
//!
//! Even then a stand-alone `fence` is invisible to it: an acquire fence after a relaxed load is reported. Use
//! an acquire load there.

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use std::path::Path;

pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "asan",
        about: "address sanitizer and leak check of the stress tests, with nightly",
        run: address,
    },
    Step {
        name: "tsan",
        about: "thread sanitizer of the stress tests, with nightly and rust-src",
        run: thread,
    },
];

const TOOLCHAIN: &str = "nightly";
const TARGET: &str = "x86_64-unknown-linux-gnu";

fn address(workspace: &Workspace) -> Outcome {
    match nightly_sysroot(workspace) {
        Ok(_) => run(workspace, "address", &[], "--cfg punctual_plain_memory"),
        Err(why) => Outcome::Skipped(why),
    }
}

fn thread(workspace: &Workspace) -> Outcome {
    match nightly_sysroot(workspace).and_then(|sysroot| can_build_std(workspace, &sysroot)) {
        Ok(()) => run(workspace, "thread", &["-Zbuild-std"], ""),
        Err(why) => Outcome::Skipped(why),
    }
}

fn run(workspace: &Workspace, sanitizer: &str, more: &[&str], flags: &str) -> Outcome {
    let args = ["test", "-p", "punctual", "--test", "stress", "--target", TARGET];
    workspace
        .of_toolchain(TOOLCHAIN, "cargo", &[&args, more].concat())
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer} {flags}"))
        .env("CARGO_TARGET_DIR", workspace.target.join(format!("sanitize-{sanitizer}")))
        .run()
}

/// Where the nightly toolchain lives, or why the sanitizers are skipped.
fn nightly_sysroot(workspace: &Workspace) -> Result<String, String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        return Err(format!("the sanitizers are set up for {TARGET} only"));
    }
    if !workspace.has_test("punctual", "stress") {
        return Err("the crate `punctual` has no test `stress` yet".to_owned());
    }
    let sysroot = workspace.of_toolchain(TOOLCHAIN, "rustc", &["--print", "sysroot"]);
    sysroot.probe().ok_or_else(|| "no nightly toolchain: rustup toolchain install nightly".to_owned())
}

fn can_build_std(workspace: &Workspace, sysroot: &str) -> Result<(), String> {
    if !Path::new(sysroot).join("lib/rustlib/src/rust/library/Cargo.lock").is_file() {
        let add = "rustup component add rust-src --toolchain nightly";
        return Err(format!("needs an instrumented std, and rust-src is not installed: {add}"));
    }
    let fetch = workspace.of_toolchain(TOOLCHAIN, "cargo", &["fetch", "-Zbuild-std", "--target", TARGET]);
    fetch.probe().map(drop).ok_or_else(|| "the dependencies of std cannot be fetched".to_owned())
}
