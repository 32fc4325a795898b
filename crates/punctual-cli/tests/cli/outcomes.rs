//! How commands end, and what is told about it.

use super::support::Place;

#[test]
fn every_way_to_end_has_its_outcome() {
    let place = Place::new(
        r#"
[job.fine]
command = "exit 0"
every = "1h"

[job.failing]
command = "exit 3"
every = "1h"

[job.killed]
command = "kill -KILL $$"
every = "1h"

[job.program]
command = ["no-such-program", "x"]
every = "1h"

[job.shell]
command = "no-such-program-either"
every = "1h"

[job.script]
command = ["./not-executable"]
every = "1h"

[job.directory]
command = "true"
directory = "nowhere"
every = "1h"

[job.file]
command = "true"
directory = "schedule.toml"
every = "1h"
"#,
    );
    place.write("not-executable", "text");
    let run = place.run();
    let mut finished = std::collections::BTreeMap::new();
    while finished.len() < 8 {
        let event = run.event("finished");
        finished.insert(event["job"].as_str().unwrap().to_owned(), event);
    }
    let outcome = |job: &str| finished[job]["outcome"].as_str().unwrap().to_owned();
    let text = |job: &str| finished[job]["text"].as_str().unwrap().to_owned();
    assert_eq!((outcome("fine"), finished["fine"]["code"].as_i64()), ("succeeded".into(), Some(0)));
    assert_eq!((outcome("failing"), finished["failing"]["code"].as_i64()), ("failed".into(), Some(3)));
    assert_eq!((outcome("killed"), finished["killed"]["signal"].as_i64()), ("signalled".into(), Some(9)));
    assert_eq!(text("killed"), "killed by SIGKILL");
    assert_eq!(text("program"), "cannot start: no program `no-such-program`");
    assert_eq!((outcome("shell"), finished["shell"]["code"].as_i64()), ("failed".into(), Some(127)));
    assert_eq!(text("script"), "cannot start: `./not-executable`: permission denied");
    assert!(text("directory").contains("nowhere`: no such file or directory"), "{}", text("directory"));
    assert!(text("file").contains("schedule.toml`: not a directory"), "{}", text("file"));
    let not_started = ["program", "script", "directory", "file"];
    assert!(not_started.iter().all(|job| outcome(job) == "not-started"));
    let rest = run.drain();
    let over = rest.last().unwrap();
    assert_eq!(
        (over["event"].as_str(), over["runs"].as_u64(), over["failures"].as_u64()),
        (Some("over"), Some(8), Some(7))
    );
}

#[test]
fn a_command_gets_its_arguments_environment_and_directory_as_written() {
    let place = Place::new(
        r#"
[defaults]
environment = { COLOUR = "blue", SIZE = "small" }

[job.shell]
command = 'echo "$COLOUR $SIZE $COUNT $PUNCTUAL_JOB $PUNCTUAL_RUN $PUNCTUAL_ATTEMPT in $(basename "$PWD")"'
environment = { SIZE = "large  and  wide", COUNT = 3 }
directory = "sub"
every = "1h"

[job.words]
command = ["printf", '%s|', "two words", "$HOME", "*", ""]
every = "1h"

[job.silent]
command = "cat; echo end"
every = "1h"
"#,
    );
    std::fs::create_dir(place.path("sub")).unwrap();
    let run = place.run();
    let mut lines = std::collections::BTreeMap::new();
    while lines.len() < 3 {
        let event = run.event("output");
        lines.insert(event["job"].as_str().unwrap().to_owned(), event["line"].as_str().unwrap().to_owned());
    }
    assert_eq!(lines["shell"], "blue large  and  wide 3 shell 1 1 in sub");
    assert_eq!(lines["words"], "two words|$HOME|*||");
    assert_eq!(lines["silent"], "end", "there is nothing to read");
    run.drain();
}

#[test]
fn the_two_outputs_are_told_apart_and_text_that_is_none_does_not_break_json() {
    let place = Place::new(
        r#"
[job.both]
command = 'printf "\377\001 odd\n"; echo "two \"quoted\"" >&2; printf "no end"'
every = "1h"
"#,
    );
    let run = place.run();
    let mut out = Vec::new();
    let mut err = Vec::new();
    while out.len() + err.len() < 3 {
        let event = run.event("output");
        let line = event["line"].as_str().unwrap().to_owned();
        if event["stream"] == "stdout" { out.push(line) } else { err.push(line) }
    }
    assert_eq!(out, ["\u{fffd}\u{1} odd", "no end"]);
    assert_eq!(err, ["two \"quoted\""]);
    run.drain();
}

#[test]
fn a_start_is_told_before_the_output_and_the_output_before_the_end() {
    let place = Place::new("[job.quick]\ncommand = [\"echo\", \"line\"]\nfixed-delay = \"1ms\"\n");
    let run = place.run();
    for _ in 0..20 {
        for expected in ["started", "output", "finished"] {
            let event = run.find("the next", |event| event["job"] == "quick");
            assert_eq!(event["event"], expected);
        }
    }
    run.drain();
}

/// A parent that ignores SIGCHLD hands that down; how a command ended must be known all the same.
#[test]
fn outcomes_are_known_whatever_our_parent_ignores() {
    let place = Place::new("[job.failing]\ncommand = \"exit 3\"\nevery = \"1h\"\n");
    let mut command = std::process::Command::new("env");
    command.args(["--ignore-signal=CHLD", "--ignore-signal=TERM", "--ignore-signal=PIPE"]);
    command.args([env!("CARGO_BIN_EXE_punctual"), "run", "--json", &place.schedule()]);
    let run = super::support::Run::start(command);
    assert_eq!(run.job("failing", "finished")["code"], 3);
    run.drain();
}

#[test]
fn a_run_that_fails_is_tried_again_until_it_succeeds() {
    let place = Place::new(
        r#"
[job.flaky]
command = 'test "$PUNCTUAL_ATTEMPT" = 3'
every = "1h"
retries = 5
retry-delay = "1ms"
"#,
    );
    let run = place.run();
    for attempt in 1..=3 {
        assert_eq!(run.job("flaky", "started")["attempt"], attempt);
        let finished = run.job("flaky", "finished");
        assert_eq!((&finished["run"], &finished["attempt"]), (&1.into(), &attempt.into()));
        assert_eq!((&finished["ok"], &finished["retry"]), (&(attempt == 3).into(), &(attempt < 3).into()));
    }
    let rest = run.drain();
    assert!(!rest.iter().any(|event| event["event"] == "started"), "{rest:#?}");
    assert_eq!(rest.last().unwrap()["failures"], 0);
}

#[test]
fn a_run_that_keeps_failing_is_given_up_and_the_schedule_goes_on() {
    let place = Place::new(
        r#"
[job.broken]
command = "exit 1"
every = "50ms"
retries = 2
retry-delay = "1ms"
"#,
    );
    let run = place.run();
    for number in 1..=2 {
        for attempt in 1..=3 {
            let finished = run.job("broken", "finished");
            assert_eq!((&finished["run"], &finished["attempt"]), (&number.into(), &attempt.into()));
            assert_eq!(finished["retry"], attempt < 3);
        }
    }
    run.drain();
}

#[test]
fn plain_lines_carry_the_name_of_the_job_and_errors_go_where_errors_go() {
    let said = super::support::in_time(|at| {
        let place = Place::new(&format!("[job.once]\ncommand = \"echo out; echo err >&2\"\nat = {at:.3}\n"));
        let said = super::support::call(&["run", &place.schedule()]);
        (!said.out.contains("its time has passed")).then_some(said)
    });
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.lines().any(|line| line == "once | out"), "{}", said.out);
    assert_eq!(said.err, "once | err\n");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].contains(" ready: 1 job from "), "{lines:?}");
    assert!(lines.last().unwrap().ends_with(" over: 1 run, 0 failed"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains(" once: ok, run 1, took ")), "{lines:?}");
}
