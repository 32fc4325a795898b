//! `cargo xtask catalogue`: is every catalogued behaviour proved by a test, or explained?
//!
//! The tags are in `docs/catalogue-tags.txt`. A tag is *proved* when a test names it (what counts is in
//! [`scan`]), *by type* or *deliberate* when `docs/catalogue.md` says so, and otherwise *missing*. A missing
//! tag fails the command; so does a tag that does not exist, wherever it is named: it is a typing error, and
//! somewhere a behaviour goes unproved because of it.

mod lex;
mod scan;

use crate::step::{Outcome, Step};
use crate::workspace::Workspace;
use scan::Proof;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const STEPS: &[Step] =
    &[Step { name: "catalogue", about: "every catalogued behaviour is proved or explained", run: step }];

const TAGS: &str = "docs/catalogue-tags.txt";
const EXPLANATIONS: &str = "docs/catalogue.md";

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    let list = match args {
        [] => false,
        [flag] if flag == "--list" => true,
        [arg, ..] => return Err(format!("unexpected argument `{arg}`; `catalogue` takes `--list`")),
    };
    let report = Report::read(&workspace.root)?;
    if list {
        print!("{}", report.list());
    }
    print!("{}", report.table());
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn step(workspace: &Workspace) -> Outcome {
    Report::read(&workspace.root)
        .map(|report| {
            print!("{}", report.table());
            let line = report.line();
            if report.is_complete() { Outcome::Passed(line) } else { Outcome::Failed(line) }
        })
        .into()
}

/// The tags of the catalogue, in its order.
#[derive(Debug)]
pub(crate) struct Tags(Vec<String>);

impl Tags {
    fn parse(text: &str) -> Result<Tags, String> {
        let tags: Vec<String> = text.lines().map(str::to_owned).collect();
        for (index, tag) in tags.iter().enumerate() {
            if !matches!(scan::tags_in(tag).as_slice(), [found] if found.text == *tag && found.is_well_formed())
            {
                return Err(format!("{TAGS}:{}: `{tag}` is not a tag", index + 1));
            }
            if tags[..index].contains(tag) {
                return Err(format!("{TAGS}:{}: {tag} is there twice", index + 1));
            }
        }
        Ok(Tags(tags))
    }

    pub(crate) fn contains(&self, tag: &str) -> bool {
        self.0.iter().any(|known| known == tag)
    }

    /// Whether some tag has this prefix.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        self.0.iter().any(|known| known.starts_with(prefix))
    }

    /// The prefixes, in the order in which they first appear.
    fn prefixes(&self) -> Vec<&str> {
        let mut prefixes: Vec<&str> = Vec::new();
        for tag in &self.0 {
            if !prefixes.contains(&&tag[..2]) {
                prefixes.push(&tag[..2]);
            }
        }
        prefixes
    }
}

/// Why a tag needs no test.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// The type system or the platform leaves nothing to test.
    ByType,
    /// We differ on purpose.
    Deliberate,
}

#[derive(Debug)]
struct Explanation {
    tag: String,
    kind: Kind,
    why: String,
    line: usize,
}

/// Reads the table of `docs/catalogue.md`: lines `| TAG | kind | why |` outside code blocks. A line that begins
/// like one and is not one is a problem, never overlooked.
fn explanations(text: &str, tags: &Tags, problems: &mut Vec<String>) -> Vec<Explanation> {
    let mut found: Vec<Explanation> = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        let at = format!("{EXPLANATIONS}:{}", index + 1);
        let Some(row) = line.trim().strip_prefix('|').filter(|_| !in_code) else { continue };
        let cells: Vec<&str> = row.strip_suffix('|').unwrap_or(row).splitn(3, '|').map(str::trim).collect();
        if cells[0] == "Tag" || cells[0].chars().all(|c| c == '-' || c == ':') {
            continue;
        }
        let tag = cells[0].to_owned();
        if !tags.contains(&tag) {
            problems.push(format!("{at}: `{tag}` is not a tag of the catalogue"));
            continue;
        }
        if found.iter().any(|earlier| earlier.tag == tag) {
            problems.push(format!("{at}: {tag} is explained twice"));
            continue;
        }
        let kind = match cells.get(1) {
            Some(&"by type") => Kind::ByType,
            Some(&"deliberate") => Kind::Deliberate,
            other => {
                let other = other.unwrap_or(&"");
                problems.push(format!("{at}: {tag} is `{other}`: say `by type` or `deliberate`"));
                continue;
            }
        };
        match cells.get(2) {
            Some(why) if !why.is_empty() => {
                found.push(Explanation { tag, kind, why: (*why).to_owned(), line: index + 1 });
            }
            _ => problems.push(format!("{at}: {tag} has no reason")),
        }
    }
    found
}

/// What stands behind one tag.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Status {
    Proved,
    ByType,
    Deliberate,
    Missing,
}

const STATUSES: [(Status, &str); 4] = [
    (Status::Proved, "proved"),
    (Status::ByType, "by type"),
    (Status::Deliberate, "deliberate"),
    (Status::Missing, "missing"),
];

#[derive(Debug)]
struct Report {
    tags: Tags,
    /// Every naming of a tag by a test.
    proofs: HashMap<String, Vec<Proof>>,
    explained: HashMap<String, Explanation>,
    /// Unknown tags and malformed lines, each with its place.
    problems: Vec<String>,
}

impl Report {
    fn read(root: &Path) -> Result<Report, String> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let tags = Tags::parse(&read(&root.join(TAGS))?)?;
        let mut sources = Vec::new();
        for path in sources_under(&root.join("crates")) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            sources.push((name, read(&path)?));
        }
        Ok(Report::new(tags, &sources, &read(&root.join(EXPLANATIONS))?))
    }

    fn new(tags: Tags, sources: &[(String, String)], explained: &str) -> Report {
        let mut problems = Vec::new();
        let mut proofs: HashMap<String, Vec<Proof>> = HashMap::new();
        for (file, text) in sources {
            for proof in scan::scan(file, text, &tags, &mut problems) {
                proofs.entry(proof.tag.clone()).or_default().push(proof);
            }
        }
        let explained = explanations(explained, &tags, &mut problems);
        let explained = explained.into_iter().map(|entry| (entry.tag.clone(), entry)).collect();
        Report { tags, proofs, explained, problems }
    }

    /// A test is worth more than an explanation.
    fn status(&self, tag: &str) -> Status {
        match (self.proofs.contains_key(tag), self.explained.get(tag).map(|entry| entry.kind)) {
            (true, _) => Status::Proved,
            (false, Some(Kind::ByType)) => Status::ByType,
            (false, Some(Kind::Deliberate)) => Status::Deliberate,
            (false, None) => Status::Missing,
        }
    }

    fn with<'a>(&'a self, prefix: &'a str, status: Status) -> impl Iterator<Item = &'a str> {
        let tags = self.tags.0.iter().map(String::as_str).filter(move |tag| tag.starts_with(prefix));
        tags.filter(move |tag| self.status(tag) == status)
    }

    fn is_complete(&self) -> bool {
        self.problems.is_empty() && self.with("", Status::Missing).next().is_none()
    }

    /// The total, in one line.
    fn line(&self) -> String {
        let count = |status| self.with("", status).count();
        let counts = STATUSES.map(|(status, name)| format!("{} {name}", count(status)));
        let problems = match self.problems.len() {
            0 => String::new(),
            n => format!(", {n} problems"),
        };
        format!("{} tags: {}{problems}", self.tags.0.len(), counts.join(", "))
    }

    /// One line per prefix, the total, the missing tags and the problems.
    fn table(&self) -> String {
        let mut text = format!("{:<7}{:>6}", "", "tags");
        for (_, name) in STATUSES {
            text += &format!("{name:>12}");
        }
        for prefix in self.tags.prefixes().into_iter().chain([""]) {
            let tags = self.tags.0.iter().filter(|tag| tag.starts_with(prefix)).count();
            text += &format!("\n{:<7}{tags:>6}", if prefix.is_empty() { "total" } else { prefix });
            for (status, _) in STATUSES {
                text += &format!("{:>12}", self.with(prefix, status).count());
            }
        }
        text.push('\n');
        let both = |tag: &&str| self.explained.get(*tag).is_some_and(|entry| entry.kind == Kind::Deliberate);
        match self.with("", Status::Proved).filter(both).count() {
            0 => {}
            n => {
                text += &format!("{n} of the proved are deliberate differences, proved as they are with us\n")
            }
        }
        let missing: Vec<_> = self.with("", Status::Missing).collect();
        if !missing.is_empty() {
            text += "missing:\n";
            for line in missing.chunks(12) {
                text += &format!("  {}\n", line.join(" "));
            }
        }
        for problem in &self.problems {
            text += &format!("problem: {problem}\n");
        }
        text
    }

    /// Every tag, with the places that prove or explain it.
    fn list(&self) -> String {
        let mut text = String::new();
        for tag in &self.tags.0 {
            let status = self.status(tag);
            let name =
                STATUSES.iter().find(|(candidate, _)| *candidate == status).map_or("", |(_, name)| name);
            let mut places: Vec<String> =
                self.proofs.get(tag).into_iter().flatten().map(Proof::place).collect();
            if let Some(entry) = self.explained.get(tag) {
                let also = if entry.kind == Kind::Deliberate { "deliberate: " } else { "" };
                places.push(format!("{EXPLANATIONS}:{} {also}{}", entry.line, entry.why));
            }
            text += &format!("{tag}  {name:<10}  {}", places.join(&format!("\n{:20}", "")));
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// Every Rust file in the `src` and `tests` of every crate, in a fixed order.
fn sources_under(crates: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for krate in entries(crates) {
        for part in ["src", "tests"] {
            collect(&krate.join(part), &mut found);
        }
    }
    found
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(directory) {
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests;
