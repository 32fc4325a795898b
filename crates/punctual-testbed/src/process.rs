//! Programs that run while we do, and not much longer.
//!
//! Destructors do not run when a test process is killed, nor for statics when it ends. So a server is the child of a
//! small shell that reads from a pipe of ours: when we say how to stop it, or the system closes the pipe because we are
//! gone, the shell stops the server. Nothing depends on our own last words.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// `$1`: a folder to remove if we are gone; the rest: the server. A line is the signal that stops it.
const GUARD: &str = r#"
folder=$1; shift
"$@" </dev/null & server=$!
if read -r signal; then
    kill -"$signal" "$server"; wait "$server"
else
    kill -QUIT "$server"; wait "$server"; rm -rf "$folder"
fi
"#;

/// A running server, and the shell that guards it.
#[derive(Debug)]
pub(crate) struct Guarded {
    shell: Child,
}

impl Guarded {
    /// Starts `program`. Its folder is removed if we end without having stopped it.
    pub(crate) fn start(
        user: Option<User>,
        folder: &Path,
        log: &Path,
        program: &Path,
        args: &[String],
    ) -> Self {
        let output =
            fs::OpenOptions::new().create(true).append(true).open(log).expect("the folder is writable");
        let errors = output.try_clone().expect("a file can be opened twice");
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(folder).arg(program).args(args);
        // A group of its own: Ctrl-C is for us, and the shell sees us go.
        command.process_group(0).current_dir(folder).stdin(Stdio::piped()).stdout(output).stderr(errors);
        become_user(&mut command, user);
        let shell =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        Self { shell }
    }

    /// Whether the shell, and so the server, is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// Stops the server with a signal and waits for its end.
    pub(crate) fn stop(mut self, signal: &str) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = writeln!(pipe, "{signal}");
        }
        let _ = self.shell.wait();
    }
}

/// Somebody else than root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Whom to run servers as that refuse to run as root; nobody else if we are not.
    pub(crate) fn unprivileged() -> Option<Self> {
        let we_are_root = fs::metadata("/proc/self").is_ok_and(|we| we.uid() == 0);
        if !we_are_root {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |wanted: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(wanted))?;
            let mut ids = line.split(':').skip(2).map_while(|id| id.parse().ok());
            Some(Self { uid: ids.next()?, gid: ids.next()? })
        };
        Some(find("postgres").or_else(|| find("nobody")).unwrap_or(Self { uid: 65_534, gid: 65_534 }))
    }

    /// Makes a file or folder theirs.
    pub(crate) fn give(user: Option<Self>, path: &Path) {
        if let Some(Self { uid, gid }) = user {
            chown(path, Some(uid), Some(gid))
                .unwrap_or_else(|error| panic!("chown {}: {error}", path.display()));
        }
    }
}

/// Lets a command run as somebody else.
pub(crate) fn become_user(command: &mut Command, user: Option<User>) {
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
}

/// The folder with this program of PostgreSQL: on the path, or where Debian has it, the newest version first.
pub(crate) fn find_programs(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .collect();
    versions.sort();
    let debian = versions.into_iter().rev().map(|(_, folder)| folder);
    std::env::split_paths(&on_path).chain(debian).find(|folder| folder.join(name.as_ref()).is_file())
}
