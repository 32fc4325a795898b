//! The table on a terminal.

use std::io::Read as _;
use std::process::Stdio;

use super::support::{Place, Program, is_alive, punctual, send, until};

#[test]
fn the_table_shows_each_job_below_the_output_and_the_cursor_comes_back() {
    let place = Place::new(
        "[job.tick]\ncommand = \"echo hello; echo x >> ticks\"\nevery = \"50ms\"\n\
         [job.broken]\ncommand = \"exit 9\"\nevery = \"1h\"\n",
    );
    let args = ["run", "--table", "always", &place.schedule()];
    let mut program = Program::start(punctual().args(args).stdout(Stdio::piped()));
    let mut out = program.stdout();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        text
    });
    until("it runs", || place.read("ticks").lines().count() > 5);
    send("TERM", program.id());
    assert_eq!(program.code(), 0);
    let text = reader.join().unwrap();
    assert!(text.starts_with("\x1b[?25l") && text.ends_with("\x1b[?25h"), "the cursor: {text:?}");
    let last = text.rsplit("\x1b[?2026h").next().unwrap();
    assert!(last.contains("JOB") && last.contains("every 50ms") && last.contains("exit 9"), "{last:?}");
    assert!(text.contains("hello"));
    let frames = text.matches("\x1b[?2026h").count();
    assert_eq!(text.matches("\x1b[?2026l").count(), frames);
}

/// On a terminal SIGHUP says that it is gone, not that the file should be read again: a run without anybody to see
/// it must not go on for ever.
#[test]
fn a_terminal_shows_the_table_and_takes_the_run_with_it_when_it_goes() {
    let place = Place::new("[job.tick]\ncommand = \"echo $PPID >> ticks\"\nevery = \"20ms\"\n");
    let run = format!("exec '{}' run '{}'", env!("CARGO_BIN_EXE_punctual"), place.schedule());
    let mut command = std::process::Command::new("script");
    command.args(["-qefc", &run, place.path("screen").to_str().unwrap()]);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh").stdin(Stdio::null()).stdout(Stdio::null());
    if std::process::Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no program `script` to make a terminal with");
        return;
    }
    let terminal = Program::start(&mut command);
    until("it runs", || place.read("ticks").lines().count() > 3);
    let process = place.read("ticks").lines().next().unwrap().to_owned();
    until("the table is drawn", || place.read("screen").contains("every 20ms"));
    assert!(is_alive(&process));
    send("KILL", terminal.id());
    until("the run is over", || !is_alive(&process));
}
