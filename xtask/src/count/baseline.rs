//! What the operations cost when somebody last said that this is all right: `benches/baseline.json`.

use crate::json::{Value, quoted};
use crate::workspace::Workspace;
use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};

/// With what it was counted. Another compiler or C library makes other instructions of the same source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) target: String,
    pub(crate) rustc: String,
    pub(crate) libc: String,
}

impl Tools {
    /// Those of this machine.
    pub(crate) fn here(workspace: &Workspace) -> Self {
        let ask = |program: &str, args: &[&str]| {
            workspace.call(program.into(), args).probe().unwrap_or_else(|| "unknown".to_owned())
        };
        Self {
            target: format!("{ARCH}-{OS}"),
            rustc: ask("rustc", &["--version"]),
            libc: ask("getconf", &["GNU_LIBC_VERSION"]),
        }
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) tools: Tools,
    /// By title; instructions for one operation.
    pub(crate) counts: Vec<(String, f64)>,
}

impl Baseline {
    pub(crate) fn path(workspace: &Workspace) -> PathBuf {
        workspace.root.join("benches").join("baseline.json")
    }

    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}; `--update` writes it", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.render()).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    pub(crate) fn count(&self, title: &str) -> Option<f64> {
        self.counts.iter().find(|(name, _)| name == title).map(|(_, count)| *count)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let json = Value::parse(text)?;
        let tool = |name: &str| {
            let text = json.member("counted_with").member(name).text();
            text.map(str::to_owned).ok_or_else(|| format!("`counted_with` has no text `{name}`"))
        };
        let count = |(title, count): &(String, Value)| match count.number().filter(|count| *count > 0.0) {
            Some(count) => Ok((title.clone(), count)),
            None => Err(format!("`{title}` has no number of instructions")),
        };
        let tools = Tools { target: tool("target")?, rustc: tool("rustc")?, libc: tool("libc")? };
        let counts = json.member("instructions").members().iter().map(count).collect::<Result<_, _>>()?;
        Ok(Self { tools, counts })
    }

    /// One line for each operation, so that a difference shows which.
    fn render(&self) -> String {
        let Tools { target, rustc, libc } = &self.tools;
        let tools = [("target", target), ("rustc", rustc), ("libc", libc)];
        let tools: Vec<_> =
            tools.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
        let counts: Vec<_> =
            self.counts.iter().map(|(title, count)| format!("    {}: {count:.1}", quoted(title))).collect();
        format!(
            "{{\n  \"counted_with\": {{{}}},\n  \"instructions\": {{\n{}\n  }}\n}}\n",
            tools.join(", "),
            counts.join(",\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_back() {
        let tools =
            Tools { target: "x86_64-linux".into(), rustc: "rustc 1 \"x\"".into(), libc: "glibc".into() };
        let baseline =
            Baseline { tools, counts: vec![("hold at 7".to_owned(), 829.5), ("pop at 7".to_owned(), 12.0)] };
        assert_eq!(Baseline::parse(&baseline.render()), Ok(baseline));
    }

    #[test]
    fn a_file_that_lacks_something_says_what() {
        assert!(Baseline::parse("{").is_err());
        assert!(Baseline::parse("{}").unwrap_err().contains("`target`"));
        let text = r#"{"counted_with":{"target":"a","rustc":"b","libc":"c"},"instructions":{"pop at 7":0}}"#;
        assert!(Baseline::parse(text).unwrap_err().contains("`pop at 7`"));
    }
}
