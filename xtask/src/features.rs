//! Every feature by itself: features are additive, so each must stand without the others.

use crate::lint::is_clippy_there;
use crate::step::{Outcome, Step};
use crate::workspace::Workspace;

pub(crate) const STEPS: &[Step] = &[Step {
    name: "features",
    about: "each crate with none of its features, then with each alone",
    run: features,
}];

fn features(workspace: &Workspace) -> Outcome {
    // Clippy can turn warnings into errors without a rebuild of the dependencies; `check` is the fallback.
    let (verb, closing): (_, &[&str]) =
        if is_clippy_there(workspace) { ("clippy", &["--", "-D", "warnings"]) } else { ("check", &[]) };
    let mut count = 0;
    for package in workspace.packages.iter().filter(|package| !package.features.is_empty()) {
        for feature in std::iter::once(None).chain(package.features.iter().map(Some)) {
            let chosen: &[&str] = if let Some(feature) = feature { &["--features", feature] } else { &[] };
            let args = [&[verb, "-p", &package.name, "--no-default-features"], chosen, closing].concat();
            if let Outcome::Failed(why) = workspace.cargo(&args).run() {
                let feature = feature.map_or("no feature", String::as_str);
                return Outcome::Failed(format!("{} with {feature}: {why}", package.name));
            }
            count += 1;
        }
    }
    match count {
        0 => Outcome::Skipped("no crate has features yet".to_owned()),
        _ => Outcome::Passed(format!("{count} combinations")),
    }
}
