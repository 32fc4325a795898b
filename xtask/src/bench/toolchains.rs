//! What peers in other languages need: found, and their programs built, or the reason why not.

use crate::step::Outcome;
use crate::workspace::Workspace;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian's libnetty-java has the wheel.
const NETTY: &str = "/usr/share/java/netty-common.jar";
/// Since this version `ForkJoinPool` is a scheduler.
const SCHEDULING_POOL: u32 = 25;

/// The Java program, and the virtual machines to run it on.
#[derive(Debug)]
pub(crate) struct Java {
    class_path: String,
    has_netty: bool,
    /// Version and program; the first is the one on the path.
    machines: Vec<(u32, PathBuf)>,
}

impl Java {
    /// The outer error is ours: what is there does not compile. The inner one says why there is nothing.
    pub(crate) fn build(workspace: &Workspace, directory: &Path) -> Result<Result<Self, String>, String> {
        if workspace.call("javac".into(), &["-version"]).probe().is_none() {
            return Ok(Err("there is no JDK (javac) on the path".to_owned()));
        }
        let machines = machines();
        if machines.is_empty() {
            return Ok(Err("there is no `java` on the path".to_owned()));
        }
        let has_netty = Path::new(NETTY).exists();
        let classes = directory.join("java").to_string_lossy().into_owned();
        let class_path = if has_netty { format!("{classes}:{NETTY}") } else { classes.clone() };
        let mut args = vec!["-d", &classes, "-cp", &class_path];
        args.extend(["benches/java/Bench.java", "benches/java/Peer.java", "benches/java/Machine.java"]);
        args.extend(has_netty.then_some("benches/java/Netty.java"));
        match workspace.call("javac".into(), &args).run() {
            Outcome::Failed(why) => Err(format!("benches/java does not compile: {why}")),
            _ => Ok(Ok(Self { class_path, has_netty, machines })),
        }
    }

    pub(crate) fn missing(&self, peer: &str) -> Option<String> {
        match peer {
            "netty" if !self.has_netty => Some("not installed: libnetty-java".to_owned()),
            "jdk-fjp" if self.machine_for(peer).is_none() => {
                let newest = self.machines.iter().map(|(version, _)| *version).max().unwrap_or(0);
                Some(format!("not installed: JDK {SCHEDULING_POOL} or later; the newest here is {newest}"))
            }
            _ => None,
        }
    }

    /// The newest there is for what needs a new one; the one on the path for everybody else.
    pub(crate) fn machine_for(&self, peer: &str) -> Option<&Path> {
        let machine = match peer {
            "jdk-fjp" => {
                self.machines.iter().max_by_key(|(version, _)| *version).filter(|m| m.0 >= SCHEDULING_POOL)
            }
            _ => self.machines.first(),
        };
        machine.map(|(_, program)| program.as_path())
    }

    pub(crate) fn command(&self, peer: &str) -> Command {
        let mut java = Command::new(self.machine_for(peer).unwrap_or(Path::new("java")));
        java.args(["-Xms1g", "-cp", &self.class_path, "Bench"]);
        java
    }
}

/// The `java` on the path, then those of `JAVA_HOME` and where distributions put them.
fn machines() -> Vec<(u32, PathBuf)> {
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut homes: Vec<PathBuf> =
        env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(installed).collect();
    homes.dedup();
    let programs = homes.into_iter().map(|home| home.join("bin").join("java"));
    let programs = std::iter::once(PathBuf::from("java")).chain(programs);
    programs.filter_map(|program| Some((major(&first_line(&program, "--version")?)?, program))).collect()
}

/// The major version in `openjdk 17.0.15 2025-04-15`.
fn major(line: &str) -> Option<u32> {
    line.split_whitespace().nth(1)?.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Builds the Go program, with the same two errors.
pub(crate) fn build_go(workspace: &Workspace, directory: &Path) -> Result<Result<PathBuf, String>, String> {
    if workspace.call("go".into(), &["version"]).probe().is_none() {
        return Ok(Err("not installed: Go (golang-go)".to_owned()));
    }
    let program = directory.join("kit-go");
    let call =
        workspace.call("go".into(), &["build", "-o", &program.to_string_lossy(), "."]).at("benches/go");
    match call.env("GOTOOLCHAIN", "local").run() {
        Outcome::Failed(why) => Err(format!("benches/go does not build: {why}")),
        _ => Ok(Ok(program)),
    }
}

/// The first line that a program says about its version.
pub(crate) fn first_line(program: impl AsRef<Path>, flag: &str) -> Option<String> {
    let output = Command::new(program.as_ref()).arg(flag).stdin(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn java(versions: &[u32], has_netty: bool) -> Java {
        let machines =
            versions.iter().map(|version| (*version, PathBuf::from(format!("/{version}")))).collect();
        Java { class_path: String::new(), has_netty, machines }
    }

    #[test]
    fn the_version_is_read_from_what_java_says() {
        assert_eq!(major("openjdk 17.0.15 2025-04-15"), Some(17));
        assert_eq!(major("openjdk 25 2025-09-16"), Some(25));
        assert_eq!(major("java 26-ea 2026-03-17"), Some(26));
        assert_eq!(major("Unrecognized option: --version"), None);
        assert_eq!(major(""), None);
    }

    #[test]
    fn the_scheduling_pool_runs_on_the_newest_machine_and_others_on_the_one_on_the_path() {
        let java = java(&[17, 25, 21], true);
        assert_eq!(java.command("jdk").get_program(), "/17");
        assert_eq!(java.command("jdk-fjp").get_program(), "/25");
        assert_eq!(java.missing("jdk-fjp"), None);
    }

    #[test]
    fn what_is_not_installed_is_said() {
        let java = java(&[17, 21], false);
        assert!(java.missing("jdk-fjp").unwrap().ends_with("the newest here is 21"));
        assert!(java.missing("netty").unwrap().contains("libnetty-java"));
        assert_eq!(java.missing("jdk"), None);
    }
}
