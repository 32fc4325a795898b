//! Every command a person or CI runs: `cargo xtask <command>`.
//!
//! This file is the table of contents: one line of [`COMMANDS`] per command, one file per command. A command
//! is either a list of steps, run and summed up by [`step::run_all`], or a small program of its own.

mod bench;
mod catalogue;
mod chaos;
mod ci;
mod count;
mod differential;
mod docs;
mod engine;
mod features;
mod json;
mod kits;
mod lint;
mod loom;
mod msrv;
mod process;
mod sanitize;
mod step;
mod stress;
mod test;
mod workspace;

use std::process::ExitCode;
use workspace::Workspace;

/// One command: its name, its arguments as shown in the usage text, what it does, and the doing.
struct Command {
    name: &'static str,
    args: &'static str,
    about: &'static str,
    run: fn(&Workspace, &[String]) -> Result<ExitCode, String>,
}

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    Command { name: "ci", args: "[--only step,step]", about: "every step of the gate, or the named ones", run: ci::command },
    Command { name: "lint", args: "", about: "formatting and clippy", run: |w, a| steps(w, a, lint::STEPS) },
    Command { name: "docs", args: "", about: "the documentation; a warning fails", run: |w, a| steps(w, a, docs::STEPS) },
    Command { name: "test", args: "", about: "unit, integration and documentation tests; examples", run: |w, a| steps(w, a, test::STEPS) },
    Command { name: "loom", args: "", about: "model checking (LOOM_MAX_PREEMPTIONS, default 3)", run: |w, a| steps(w, a, loom::STEPS) },
    Command { name: "sanitize", args: "", about: "address and thread sanitizer, with a nightly toolchain", run: |w, a| steps(w, a, sanitize::STEPS) },
    Command { name: "differential", args: "", about: "the same scripts on Java and on punctual, with a JDK", run: |w, a| steps(w, a, differential::STEPS) },
    Command { name: "catalogue", args: "[--list]", about: "is every catalogued behaviour proved or explained", run: catalogue::command },
    Command { name: "count", args: "[--update] [--runs n]", about: "instructions per operation beside the baseline, with valgrind", run: count::command },
    Command { name: "stress", args: "[--runs 200] [--filter name] [--timeout 120] [--load n]", about: "the integration tests again and again, under load", run: stress::command },
    Command { name: "chaos", args: "[--cycles 1000] [--store sqlite|postgres] [--only name]", about: "durable jobs whose processes are killed, stopped and starved", run: chaos::command },
    Command { name: "bench", args: "[--quick] [--growth] [--plot] [--only W2,W4] [--peers jdk,tokio] [--rounds 5] [--sizes 1e3,1e6] [--producers 1,8] [--workers 1,4]\n                  --durable [--quick] [--full] [--only D2] [--peers river] [--stores sqlite,postgres] [--rounds 3]", about: "what everything costs, beside the peers and the machine's own price", run: bench::command },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode, String> {
    let Some(name) = args.first() else {
        print!("{}", usage());
        return Err("name a command".to_owned());
    };
    if name == "help" || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{}", usage());
        return Ok(ExitCode::SUCCESS);
    }
    let command = COMMANDS.iter().find(|command| command.name == name);
    let command = command.ok_or_else(|| format!("no command `{name}`; `cargo xtask help` lists them"))?;
    (command.run)(&Workspace::find()?, &args[1..])
}

/// Runs a command that is a plain list of steps and takes no arguments.
fn steps(workspace: &Workspace, args: &[String], steps: &[step::Step]) -> Result<ExitCode, String> {
    match args.first() {
        Some(arg) => Err(format!("unexpected argument `{arg}`")),
        None => Ok(step::run_all(workspace, &steps.iter().collect::<Vec<_>>())),
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask <command>\n\ncommands:\n");
    for Command { name, args, about, .. } in COMMANDS {
        text += &format!("  {name:<13} {about}\n");
        if !args.is_empty() {
            text += &format!("  {:<13}   {args}\n", "");
        }
    }
    text += "\nsteps of `ci`, for `--only`:\n";
    for step in ci::steps() {
        text += &format!("  {:<13} {}\n", step.name, step.about);
    }
    text += "\nA step that does not find what it needs (a target, a toolchain, a JDK, valgrind) is skipped, not failed.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_text_names_every_command_and_every_step() {
        let text = usage();
        assert!(COMMANDS.iter().all(|command| text.contains(&format!("  {} ", command.name))));
        assert!(ci::steps().all(|step| text.contains(&format!("  {} ", step.name))));
    }

    #[test]
    fn names_of_commands_and_of_steps_are_unique() {
        let commands: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        let steps: Vec<_> = ci::steps().map(|step| step.name).collect();
        for names in [commands, steps] {
            let mut unique = names.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn an_unknown_command_is_refused_by_name() {
        let error = dispatch(&["tset".to_owned()]).unwrap_err();
        assert!(error.contains("`tset`"), "{error}");
    }
}
