//! `cargo xtask ci`: the whole gate, cheapest steps first, or the steps named with `--only`.

use crate::step::{self, Step};
use crate::workspace::Workspace;
use crate::{catalogue, count, differential, docs, engine, features, kits, lint, loom, msrv, sanitize, test};
use std::process::ExitCode;

/// Every step, in the order in which they run.
pub(crate) fn steps() -> impl Iterator<Item = &'static Step> {
    let groups = [
        lint::STEPS,
        catalogue::STEPS,
        engine::STEPS,
        features::STEPS,
        msrv::STEPS,
        docs::STEPS,
        test::STEPS,
        kits::STEPS,
        count::STEPS,
        loom::STEPS,
        differential::STEPS,
        sanitize::STEPS,
    ];
    groups.into_iter().flatten()
}

pub(crate) fn command(workspace: &Workspace, args: &[String]) -> Result<ExitCode, String> {
    Ok(step::run_all(workspace, &chosen(args)?))
}

fn chosen(args: &[String]) -> Result<Vec<&'static Step>, String> {
    let names: Vec<&str> = match args {
        [] => return Ok(steps().collect()),
        [flag, names] if flag == "--only" => names.split(',').collect(),
        [flag] if flag == "--only" => return Err("`--only` needs the names of steps".to_owned()),
        [arg] if arg.starts_with("--only=") => arg["--only=".len()..].split(',').collect(),
        [arg, ..] => return Err(format!("unexpected argument `{arg}`; `ci` takes `--only step,step`")),
    };
    if let Some(unknown) = names.iter().find(|name| !steps().any(|step| step.name == **name)) {
        let known: Vec<_> = steps().map(|step| step.name).collect();
        return Err(format!("no step `{unknown}`; there are {}", known.join(", ")));
    }
    Ok(steps().filter(|step| names.contains(&step.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<&'static str>, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(chosen(&args)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn only_chooses_steps_and_keeps_the_order_of_the_gate() {
        assert_eq!(names(&["--only", "tests,fmt"]).unwrap(), ["fmt", "tests"]);
        assert_eq!(names(&["--only=loom"]).unwrap(), ["loom"]);
        assert_eq!(names(&[]).unwrap().len(), steps().count());
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused_by_name() {
        assert!(names(&["--only", "fmt,tset"]).unwrap_err().contains("`tset`"));
        assert!(names(&["--only"]).is_err());
        assert!(names(&["fmt"]).is_err());
    }
}
