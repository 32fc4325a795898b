//! Programs on Java's executor.
//!
//! The test compiles its Java side with whatever JDK is there, into a directory of its own, and talks to one
//! long-lived process of it through pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::program::Program;

/// A running Java side.
pub(crate) struct Java {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Java {
    /// Builds and starts it; `Err` says what is missing for that.
    pub(crate) fn start() -> Result<Self, String> {
        let name = format!("differential-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let started = compile(&directory).and_then(|()| run(&directory));
        if started.is_err() {
            let _ = std::fs::remove_dir_all(&directory);
        }
        let mut process = started?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut java = Self { process, input, output, directory };
        match java.line().as_deref() {
            Some("ready") => Ok(java),
            Some(reason) => Err(reason.to_owned()),
            None => Err("`java` does not run the program it is given".to_owned()),
        }
    }

    /// `None` if it has ended.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).expect("Java answers in UTF-8");
        (read > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// What happened, line by line.
    pub(crate) fn trace(&mut self, program: &Program) -> Vec<String> {
        let input = self.input.as_mut().expect("present until dropped");
        input.write_all(program.to_string().as_bytes()).expect("Java listens");
        input.flush().expect("Java listens");
        let mut trace = Vec::new();
        loop {
            match self.line() {
                None => panic!("Java has given up on\n{program}"),
                Some(line) if line == "end" => return trace,
                Some(line) => trace.push(line),
            }
        }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // The end of its input is the end of it.
        drop(self.input.take());
        if std::thread::panicking() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Of the JDK that `JAVA_HOME` names, if it does, or of the one on the path.
fn tool(name: &str) -> Command {
    match std::env::var_os("JAVA_HOME") {
        Some(home) => Command::new(Path::new(&home).join("bin").join(name)),
        None => Command::new(name),
    }
}

fn patched(directory: &Path) -> PathBuf {
    let mut argument = std::ffi::OsString::from("java.base=");
    argument.push(directory);
    argument.into()
}

/// The Java side becomes part of the JDK's own module, as if it had come with it.
fn compile(directory: &Path) -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let files = ["VirtualTime.java", "Redirect.java", "Reference.java"].map(|name| sources.join(name));
    let mut javac = tool("javac");
    javac.args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]);
    javac.arg("--patch-module").arg(patched(&sources)).arg("-d").arg(directory).args(files);
    let output = javac.output().map_err(|error| format!("`javac` does not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`javac` fails: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn run(directory: &Path) -> Result<Child, String> {
    tool("java")
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg("--patch-module")
        .arg(patched(directory))
        .args(["-m", "java.base/java.util.concurrent.Reference"])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`java` does not start: {error}"))
}
