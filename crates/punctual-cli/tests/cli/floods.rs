//! Jobs that write much, and readers that do not read.

use std::io::Read as _;
use std::process::Stdio;

use super::support::{Place, Program, punctual, send, until};

const MEGABYTE: usize = 1 << 20;

/// The most memory that a process has had, in bytes.
fn peak(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn a_hundred_megabytes_pass_through_whole_in_little_memory() {
    let place = Place::new(
        r#"
[job.flood]
command = "yes 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789 | head -n 1000000"
every = "1h"
"#,
    );
    let mut program = Program::start(punctual().args(["run", &place.schedule()]).stdout(Stdio::piped()));
    let mut out = program.stdout();
    let (mut buffer, mut tail, mut bytes, mut lines) = (vec![0; MEGABYTE], Vec::new(), 0, 0);
    loop {
        let count = out.read(&mut buffer).unwrap();
        bytes += count;
        lines += buffer[..count].iter().filter(|byte| **byte == b'\n').count();
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(4096));
        if String::from_utf8_lossy(&tail).contains("flood: ok, run 1") {
            break;
        }
        assert!(count > 0, "{}", String::from_utf8_lossy(&tail));
    }
    assert!(lines >= 1_000_000 && bytes > 100 * MEGABYTE, "{lines} lines, {bytes} bytes");
    let peak = peak(program.id());
    assert!(peak < 64 * MEGABYTE, "{peak} bytes");
    send("TERM", program.id());
    assert_eq!(program.code(), 0);
}

#[test]
fn a_hundred_megabytes_without_a_newline_do_not_pile_up() {
    let place = Place::new(
        r#"
[job.flood]
command = "head -c 100000000 /dev/zero"
output = "log"
log-limit = "1MB"
log-keep = 2
every = "1h"
"#,
    );
    let run = place.run();
    assert_eq!(run.job("flood", "finished")["outcome"], "succeeded");
    assert!(peak(run.pid()) < 64 * MEGABYTE);
    let names: Vec<_> = std::fs::read_dir(place.path("logs")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(names.len(), 3);
    let size: u64 = names.iter().map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(size <= 3 * (MEGABYTE as u64 + (128 << 10)), "{size} bytes");
    run.drain();
}

/// Nobody reads what we say: the flood is dropped, other jobs go on, and the end is an end.
#[test]
fn a_reader_that_does_not_read_holds_up_nothing() {
    let place = Place::new(
        r#"
[job.flood]
command = "yes"
timeout = "500ms"
every = "1h"

[job.other]
command = "echo x >> ticks"
output = "discard"
every = "20ms"
"#,
    );
    let mut program = Program::start(punctual().args(["run", &place.schedule()]).stdout(Stdio::piped()));
    let out = program.stdout();
    until("the other job goes on", || place.read("ticks").lines().count() > 20);
    send("TERM", program.id());
    assert_eq!(program.code(), 0);
    drop(out);
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let place = Place::new("[job.tick]\ncommand = \"echo x | tee -a ticks\"\nevery = \"20ms\"\n");
    let mut program = Program::start(punctual().args(["run", &place.schedule()]).stdout(Stdio::piped()));
    drop(program.stdout());
    until("the job goes on", || place.read("ticks").lines().count() > 20);
    send("TERM", program.id());
    assert_eq!(program.code(), 0);
}

/// The file that our output goes to may not grow beyond a limit for a while, as on a disk that is full.
#[test]
fn a_full_disk_costs_what_did_not_fit_and_is_told_when_there_is_room_again() {
    let place = Place::new("[job.tick]\ncommand = \"echo x; echo x >> ticks\"\nevery = \"20ms\"\n");
    let (program, schedule) = (env!("CARGO_BIN_EXE_punctual"), place.schedule());
    let line = format!("ulimit -f 2; exec env --ignore-signal=XFSZ {program} run --json {schedule} >> out");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(place.path("")).stdin(Stdio::null());
    let mut program = Program::start(&mut command);
    // Several runs are made, and it does not grow.
    let (mut size, mut ticks) = (0, 0);
    until("it is full", || {
        let (now, run) = (place.read("out").len(), place.read("ticks").lines().count());
        if now != size {
            (size, ticks) = (now, run);
        }
        size > 0 && run > ticks + 5
    });
    std::fs::File::options().write(true).open(place.path("out")).unwrap().set_len(0).unwrap();
    until("it goes on", || place.read("out").lines().count() > 5);
    send("TERM", program.id());
    assert_eq!(program.code(), 0);
    let out = place.read("out");
    // A line that was torn, if it is full once more, is none.
    let events = out.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let dropped = events.filter(|event| event["event"] == "dropped" && event["bytes"].as_u64() > Some(0));
    assert!(dropped.count() > 0, "{out}");
}
