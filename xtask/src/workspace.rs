//! The workspace and how to call cargo in it.

use crate::json::Value;
use crate::step::Outcome;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The repository, and what cargo says is in it.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds; steps with flags of their own build in a directory under it.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The directory of its `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// The oldest compiler that it promises to build with.
    pub(crate) rust: Option<String>,
    /// Every feature but `default`.
    pub(crate) features: Vec<String>,
    /// Its integration tests, by name.
    pub(crate) tests: Vec<String>,
}

impl Workspace {
    pub(crate) fn find() -> Result<Workspace, String> {
        // `cargo run` sets the variable at run time: right also when the binary was built in another checkout.
        let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let xtask = xtask.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        let root = xtask.parent().ok_or("xtask has no parent directory")?.to_owned();
        let output = Command::new(cargo_program())
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(&root)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("`cargo metadata` failed: {}", output.status));
        }
        Workspace::from_metadata(root, &Value::parse(&String::from_utf8_lossy(&output.stdout))?)
    }

    fn from_metadata(root: PathBuf, metadata: &Value) -> Result<Workspace, String> {
        let target =
            metadata.member("target_directory").text().ok_or("cargo metadata: no target directory")?;
        let packages =
            metadata.member("packages").items().iter().filter_map(Package::from_metadata).collect();
        Ok(Workspace { root, target: target.into(), packages })
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Whether `package` has the integration test `test`.
    pub(crate) fn has_test(&self, package: &str, test: &str) -> bool {
        self.package(package).is_some_and(|package| package.tests.iter().any(|name| name == test))
    }

    /// A call of the cargo that runs us.
    pub(crate) fn cargo(&self, args: &[&str]) -> Call {
        self.call(cargo_program(), args)
    }

    /// A call of another toolchain's program, as in `cargo +nightly`. Only rustup understands it.
    pub(crate) fn of_toolchain(&self, toolchain: &str, program: &str, args: &[&str]) -> Call {
        let plus = format!("+{toolchain}");
        let mut call = self.call(program.into(), &[&[plus.as_str()], args].concat());
        // Without this a missing toolchain would be downloaded instead of reported as missing; and what our
        // own cargo told us about itself must not reach the other one.
        call.command.env("RUSTUP_AUTO_INSTALL", "0").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
        call
    }

    pub(crate) fn call(&self, program: OsString, args: &[&str]) -> Call {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root);
        Call { command, shown: Vec::new() }
    }
}

impl Package {
    fn from_metadata(package: &Value) -> Option<Package> {
        let features = package.member("features").members().iter().map(|(name, _)| name.clone());
        let is_test =
            |target: &&Value| target.member("kind").items().iter().any(|k| k.text() == Some("test"));
        let tests = package.member("targets").items().iter().filter(is_test);
        Some(Package {
            name: package.member("name").text()?.to_owned(),
            root: Path::new(package.member("manifest_path").text()?).parent()?.to_owned(),
            rust: package.member("rust_version").text().map(str::to_owned),
            features: features.filter(|name| name != "default").collect(),
            tests: tests.filter_map(|target| Some(target.member("name").text()?.to_owned())).collect(),
        })
    }
}

fn has_timeout() -> bool {
    Command::new("timeout").arg("--version").output().is_ok()
}

/// What `timeout` says when it was needed.
const TIMED_OUT: i32 = 124;

/// The cargo that runs us, or the one on the path.
fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// One call of a program: it shows itself as a line that can be copied into a shell, then runs.
#[derive(Debug)]
pub(crate) struct Call {
    command: Command,
    /// The variables set for it, as they are shown.
    shown: Vec<String>,
}

impl Call {
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        let value = value.into();
        self.shown.push(format!("{name}={}", quoted(&value.to_string_lossy())));
        self.command.env(name, value);
        self
    }

    /// Runs it in `directory`, below where it would run.
    pub(crate) fn at(mut self, directory: &str) -> Self {
        let root = self.command.get_current_dir().map(Path::to_owned).unwrap_or_default();
        self.command.current_dir(root.join(directory));
        self
    }

    /// The same, ended with all that it has started when so much time has passed. It does not hear the keyboard then, so only
    /// where nobody sits before it (`CI` is set), and where there is a program `timeout`.
    pub(crate) fn watched(self, limit: Duration) -> Self {
        match std::env::var_os("CI").is_some() && has_timeout() {
            true => self.within(limit),
            false => self,
        }
    }

    fn within(self, limit: Duration) -> Self {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &limit.as_secs().to_string()]);
        command.arg(self.command.get_program()).args(self.command.get_args());
        self.command.get_current_dir().map(|directory| command.current_dir(directory));
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { command, ..self }
    }

    /// Runs it to its end; a failure is a failure of the step.
    pub(crate) fn run(mut self) -> Outcome {
        println!("   $ {}", self.line());
        match self.command.status() {
            Ok(status) if status.success() => Outcome::passed(),
            Ok(status) if status.code() == Some(TIMED_OUT) && self.command.get_program() == "timeout" => {
                Outcome::Failed(
                    "still running when its time was over, and ended: see what it said last".to_owned(),
                )
            }
            Ok(status) => Outcome::Failed(status.to_string()),
            Err(error) => Outcome::Failed(format!("cannot start: {error}")),
        }
    }

    /// Runs it and returns what it wrote to its standard output; its errors go to ours.
    pub(crate) fn read(mut self) -> Result<String, String> {
        println!("   $ {}", self.line());
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(output.status.to_string()) }
    }

    /// Whether it can be run and succeeds, without a word; its standard output if so.
    pub(crate) fn probe(mut self) -> Option<String> {
        let Output { status, stdout, .. } = self.command.stdin(Stdio::null()).output().ok()?;
        status.success().then(|| String::from_utf8_lossy(&stdout).trim().to_owned())
    }

    fn line(&self) -> String {
        let program = Path::new(self.command.get_program()).file_name().unwrap_or_default();
        let words = std::iter::once(program).chain(self.command.get_args());
        let words = words.map(|word| quoted(&word.to_string_lossy()));
        self.shown.iter().cloned().chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// `text` as a shell reads it back.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+./:,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Workspace {
        let text = r#"{"target_directory":"/t","packages":[{"name":"p","rust_version":"1.85","manifest_path":"/w/crates/p/Cargo.toml",
            "features":{"default":["a"],"a":[],"b":["dep:c"]},
            "targets":[{"kind":["lib"],"name":"p"},{"kind":["test"],"name":"stress"}]}]}"#;
        Workspace::from_metadata("/w".into(), &Value::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn metadata_gives_features_without_default_and_integration_tests() {
        let workspace = sample();
        let package = workspace.package("p").unwrap();
        assert_eq!(package.features, ["a", "b"]);
        assert_eq!(package.root, Path::new("/w/crates/p"));
        assert_eq!(package.rust.as_deref(), Some("1.85"));
        assert!(workspace.has_test("p", "stress"));
        assert!(!workspace.has_test("p", "p"), "a library is not an integration test");
        assert!(!workspace.has_test("q", "stress"));
    }

    #[test]
    fn a_call_shows_itself_as_a_shell_would_read_it() {
        let call =
            sample().call("/usr/bin/cargo".into(), &["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(call.line(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[cfg(unix)]
    #[test]
    fn a_call_that_hangs_is_ended_with_what_it_has_started() {
        if !has_timeout() {
            return;
        }
        let mut call = sample().call("/bin/sh".into(), &["-c", "sleep 1000 | cat; true"]);
        call.command.current_dir("/");
        if let Outcome::Failed(why) = call.within(Duration::from_secs(1)).run() {
            assert!(why.contains("when its time was over"), "{why}");
        } else {
            panic!("it has run to its end");
        }
    }

    #[test]
    fn a_program_that_is_not_there_fails_its_step_and_its_probe() {
        let call = || sample().call("no-such-program".into(), &[]);
        assert!(call().probe().is_none());
        assert!(matches!(call().run(), Outcome::Failed(_)));
    }
}
