//! Log files.

use super::support::{Place, exists};

#[test]
fn output_goes_to_the_file_of_the_job_and_not_to_ours() {
    let place = Place::new(
        r#"
[defaults]
output = "log"
log-directory = "deep/logs"

[job.logged]
command = "echo out; echo err >&2"
every = "50ms"

[job.both]
command = "echo twice"
output = "both"
every = "1h"
"#,
    );
    let run = place.run();
    assert_eq!(run.line("both"), "twice");
    run.job("logged", "finished");
    run.job("logged", "finished");
    let rest = run.drain();
    assert!(!rest.iter().any(|event| event["event"] == "output" && event["job"] == "logged"));
    let log = place.read("deep/logs/logged.log");
    let titles = log.lines().filter(|line| line.starts_with("=== ")).count();
    assert!(titles >= 2 && log.lines().next().unwrap().ends_with(" run 1, attempt 1"), "{log}");
    assert_eq!(log.lines().filter(|line| *line == "out").count(), titles);
    assert_eq!(log.lines().filter(|line| *line == "err").count(), titles);
    assert!(place.read("deep/logs/both.log").contains("twice"));
}

#[test]
fn a_log_that_cannot_be_written_is_told_and_the_output_passed_on() {
    let place = Place::new(
        r#"
[job.logged]
command = "echo precious"
output = "log"
log-directory = "a-file/logs"
every = "1h"
"#,
    );
    place.write("a-file", "");
    let run = place.run();
    let failed = run.job("logged", "log-failed");
    assert!(
        failed["error"].as_str().unwrap().ends_with("a-file/logs/logged.log: not a directory"),
        "{failed}"
    );
    assert_eq!(run.line("logged"), "precious");
    assert_eq!(run.job("logged", "finished")["outcome"], "succeeded");
    run.drain();
}

#[test]
fn discarded_output_is_nowhere() {
    let place =
        Place::new("[job.quiet]\ncommand = \"echo x; echo y >&2\"\noutput = \"discard\"\nevery = \"1h\"\n");
    let run = place.run();
    assert_eq!(run.job("quiet", "finished")["outcome"], "succeeded");
    let rest = run.drain();
    assert!(!rest.iter().any(|event| event["event"] == "output"));
    assert!(!exists(&place.path("logs")));
}
