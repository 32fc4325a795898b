//! What goes with an installation, and the demonstration.

use super::support::call;

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = call(&["completions", shell]);
        assert_eq!(said.code, Some(0), "{shell}: {}", said.err);
        assert!(said.out.contains("punctual") && said.out.contains("check"), "{shell}");
    }
    assert_eq!(call(&["completions", "cmd"]).code, Some(2));
}

#[test]
fn the_manual_has_every_command_and_the_exit_status() {
    let said = call(&["man"]);
    assert_eq!(said.code, Some(0));
    for word in
        ["PUNCTUAL RUN", "PUNCTUAL CHECK", "PUNCTUAL NEXT", "PUNCTUAL DEMO", "Exit status", "SIGHUP", "retry"]
    {
        assert!(said.out.contains(word), "{word}");
    }
}

#[test]
fn help_names_every_command_and_every_exit_status() {
    let said = call(&["--help"]);
    assert_eq!(said.code, Some(0));
    for word in ["run", "check", "next", "demo", "completions", "man", "\n  0  ", "\n  4  "] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
}

#[test]
fn the_demonstration_counts_what_it_runs_and_nothing_is_early() {
    let said = call(&["demo", "--seconds", "1", "--rate", "2000"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let last = said.out.lines().find(|line| line.contains("threads")).unwrap();
    let tasks: u64 = last.split(' ').next().unwrap().parse().unwrap();
    assert!(tasks >= 1_000, "{last}");
    assert!(last.ends_with(" tasks on 2 threads, none early"), "{last}");
    assert!(said.out.contains("late: half "), "{}", said.out);
}
