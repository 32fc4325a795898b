//! Commands that do not end by themselves, or leave something behind.

use super::support::{Place, is_alive, send, until};

#[test]
fn a_command_that_takes_too_long_is_asked_to_end() {
    let place = Place::new(
        r#"
[job.slow]
command = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
every = "1h"
timeout = "300ms"
grace = "1h"
"#,
    );
    let run = place.run();
    assert_eq!(run.line("slow"), "ready");
    // The shell may say a word about the end of its `sleep`, too.
    run.find("the answer", |event| event["line"] == "asked");
    let finished = run.job("slow", "finished");
    assert_eq!(
        (&finished["outcome"], &finished["text"]),
        (&"timed-out".into(), &"timed out after 300ms".into())
    );
    run.drain();
}

#[test]
fn a_command_that_ignores_the_request_is_killed_with_all_its_processes() {
    let place = Place::new(
        r#"
[job.stubborn]
command = "trap '' TERM; sleep 1000 & echo $!; echo $$; wait; sleep 1000"
every = "1h"
timeout = "100ms"
grace = "100ms"
"#,
    );
    let run = place.run();
    let processes = [run.line("stubborn"), run.line("stubborn")];
    assert_eq!(run.job("stubborn", "finished")["outcome"], "timed-out");
    for process in &processes {
        until("the process is gone", || !is_alive(process));
    }
    run.drain();
}

/// The shell ends at once when it is asked; its child takes its time to clean up, and may.
#[test]
fn the_grace_is_also_for_the_children_of_a_shell_that_has_gone() {
    let place = Place::new(
        r#"
[job.tidy]
command = """sh -c 'trap "sleep 0.2; echo clean > tidied; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait"""
every = "1h"
timeout = "300ms"
grace = "1h"
"#,
    );
    let run = place.run();
    assert_eq!(run.line("tidy"), "ready");
    assert_eq!(run.job("tidy", "finished")["outcome"], "timed-out");
    assert_eq!(place.read("tidied"), "clean\n");
    run.drain();
}

/// It ignores the request, and nobody could hear it any more: it goes when the others have gone.
#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    let place = Place::new(
        r#"
[job.hiding]
command = "(trap '' TERM; sleep 1000) > /dev/null 2>&1 & echo $!; sleep 1000"
every = "1h"
timeout = "300ms"
grace = "1h"
"#,
    );
    let run = place.run();
    let hidden = run.line("hiding");
    assert_eq!(run.job("hiding", "finished")["outcome"], "timed-out");
    until("the process is gone", || !is_alive(&hidden));
    run.drain();
}

#[test]
fn a_process_in_the_background_does_not_keep_its_job_open_and_is_let_be() {
    let place = Place::new(
        r#"
[job.daemon]
command = "sleep 1000 & echo $!"
every = "1h"
"#,
    );
    let run = place.run();
    let background = run.line("daemon");
    assert_eq!(run.job("daemon", "finished")["outcome"], "succeeded");
    assert!(is_alive(&background));
    run.drain();
    assert!(is_alive(&background), "it was not part of the run any more");
    send("KILL", &background);
}

/// It holds the pipe, writes to it for ever, and the job is over all the same.
#[test]
fn a_process_in_the_background_that_floods_does_not_keep_its_job_open() {
    let place = Place::new(
        r#"
[job.daemon]
command = "yes & echo $!"
output = "discard"
fixed-delay = "10ms"
"#,
    );
    let run = place.run();
    for number in 1..=3 {
        assert_eq!(run.job("daemon", "finished")["run"], number);
    }
    run.drain();
}

/// Its outputs are closed long before its end: the end is what counts.
#[test]
fn a_command_that_closes_its_outputs_is_waited_for() {
    let place = Place::new(
        "[job.mute]\ncommand = \"echo last words; exec >&- 2>&-; while ! test -e go; do sleep 0.01; done; exit 5\"\nevery = \"1h\"\n",
    );
    let run = place.run();
    assert_eq!(run.line("mute"), "last words");
    place.write("go", "");
    assert_eq!(run.job("mute", "finished")["code"], 5);
    run.drain();
}

#[test]
fn a_command_that_is_suspended_can_be_stopped() {
    let place = Place::new(
        r#"
[job.suspended]
command = "echo $$; kill -STOP $$"
every = "1h"
timeout = "100ms"
grace = "1h"
"#,
    );
    let run = place.run();
    let process = run.line("suspended");
    assert_eq!(run.job("suspended", "finished")["outcome"], "timed-out");
    assert!(!is_alive(&process));
    run.drain();
}
