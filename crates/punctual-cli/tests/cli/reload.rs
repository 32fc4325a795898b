//! A file that changes while it runs.

use super::support::{HUP, Place, Run, exists, until};

const TICK: &str = "[job.tick]\ncommand = \"echo tick\"\nevery = \"30ms\"\n";

fn reloaded(run: &Run) -> [u64; 4] {
    let event = run.event("reloaded");
    ["added", "changed", "removed", "unchanged"].map(|key| event[key].as_u64().unwrap())
}

#[test]
fn jobs_come_go_and_change_and_the_others_do_not_notice() {
    let place = Place::new(&format!(
        "{TICK}[job.goes]\ncommand = \"echo old\"\nevery = \"30ms\"\n[job.changes]\ncommand = \"echo one\"\nevery = \"30ms\"\n"
    ));
    let run = place.run();
    assert_eq!(run.line("goes"), "old");
    assert_eq!(run.line("changes"), "one");
    let before = run.job("tick", "started")["run"].as_u64().unwrap();
    place.write(
        "schedule.toml",
        &format!("{TICK}[job.changes]\ncommand = \"echo two\"\nevery = \"30ms\"\n[job.comes]\ncommand = \"echo new\"\nevery = \"30ms\"\n"),
    );
    run.signal(HUP);
    assert_eq!(reloaded(&run), [1, 1, 1, 1]);
    assert_eq!(run.line("comes"), "new");
    let after = run.job("tick", "started")["run"].as_u64().unwrap();
    assert!(after > before, "its runs are counted on: {before}, {after}");
    run.find("the new work", |event| event["job"] == "changes" && event["line"] == "two");
    let (mut ticks, mut starts) = (0, 0);
    while ticks < 10 {
        let event = run.find("another tick", |event| event["event"] == "started");
        ticks += usize::from(event["job"] == "tick");
        starts += usize::from(event["job"] == "goes");
    }
    assert!(starts <= 1, "one may have been about to start, and {starts} have");
    run.drain();
}

#[test]
fn a_change_is_noticed_without_a_signal() {
    let place = Place::new("[job.a]\ncommand = \"echo one\"\nevery = \"20ms\"\n");
    let run = place.run();
    assert_eq!(run.line("a"), "one");
    place.write("schedule.toml", "[job.a]\ncommand = \"echo two\"\nevery = \"20ms\"\n");
    assert_eq!(reloaded(&run), [0, 1, 0, 0]);
    run.find("the new work", |event| event["line"] == "two");
    run.drain();
}

#[test]
fn without_watching_only_the_signal_counts() {
    let place = Place::new("[job.a]\ncommand = \"echo one\"\nevery = \"20ms\"\n");
    let run = place.run_with(&["--no-watch"]);
    place.write("schedule.toml", "[job.a]\ncommand = \"echo two\"\nevery = \"20ms\"\n");
    // Long enough for several looks, had there been any.
    for _ in 0..60 {
        assert_eq!(run.line("a"), "one");
    }
    run.signal(HUP);
    assert_eq!(reloaded(&run), [0, 1, 0, 0]);
    run.drain();
}

#[test]
fn a_bad_file_is_reported_and_the_old_schedule_goes_on() {
    let place = Place::new(TICK);
    let run = place.run();
    place.write("schedule.toml", "[job.tick]\ncommand = \"echo new\"\nevry = \"30ms\"\n");
    run.signal(HUP);
    let report = run.event("reload-failed")["report"].as_str().unwrap().to_owned();
    assert!(report.contains("schedule.toml:3:1: error: unknown key `evry`"), "{report}");
    for _ in 0..5 {
        assert_eq!(run.line("tick"), "tick");
    }
    std::fs::remove_file(place.path("schedule.toml")).unwrap();
    run.signal(HUP);
    let report = run.event("reload-failed")["report"].as_str().unwrap().to_owned();
    assert!(report.contains("no such file or directory"), "{report}");
    assert_eq!(run.line("tick"), "tick");
    place.write("schedule.toml", "[job.tick]\ncommand = \"echo new\"\nevery = \"30ms\"\n");
    run.signal(HUP);
    run.find("the mended work", |event| event["line"] == "new");
    run.drain();
}

/// A pipe can be read once; to read it again would wait for ever.
#[test]
fn a_schedule_that_came_through_a_pipe_is_not_read_again() {
    let place = Place::new(TICK);
    let fifo = place.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut command = super::support::punctual();
    command.args(["run", "--json", fifo.to_str().unwrap()]);
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::write(fifo, TICK).unwrap()
    });
    let run = Run::start(command);
    writer.join().unwrap();
    run.signal(HUP);
    let report = run.event("reload-failed")["report"].as_str().unwrap().to_owned();
    assert!(report.ends_with("fifo: not a regular file\n"), "{report}");
    assert_eq!(run.line("tick"), "tick");
    run.drain();
}

/// What runs is not disturbed: neither by a change, nor by its job going away.
#[test]
fn a_command_that_runs_goes_on_when_its_job_changes_or_goes() {
    let wait = "while ! test -e go; do sleep 0.01; done; echo went on";
    let job = |name: &str, more: &str| format!("[job.{name}]\ncommand = \"{wait}\"\nevery = \"1h\"\n{more}");
    let place = Place::new(&(job("goes", "") + &job("work", "") + &job("timing", "")));
    let run = place.run();
    (0..3).for_each(|_| drop(run.event("started")));
    let changed = job("timing", "").replace("1h", "2h") + &job("work", "timeout = \"1ms\"\n");
    place.write("schedule.toml", &changed);
    run.signal(HUP);
    assert_eq!(reloaded(&run), [0, 2, 1, 0]);
    place.write("go", "");
    for _ in 0..3 {
        let finished = run.event("finished");
        assert_eq!(finished["outcome"], "succeeded", "{finished}");
    }
    run.drain();
}

/// Two schedules of one job are one job: what the old one began counts for the new one.
#[test]
fn a_new_schedule_does_not_run_beside_a_command_of_the_old_one() {
    let job = |period: &str| {
        format!("[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done\"\nevery = \"{period}\"\n")
    };
    let place = Place::new(&job("1h"));
    let run = place.run();
    run.job("wait", "started");
    place.write("schedule.toml", &job("20ms"));
    run.signal(HUP);
    assert_eq!(reloaded(&run), [0, 1, 0, 0]);
    for _ in 0..3 {
        let event = run.find("what follows", |event| event["job"] == "wait");
        assert_eq!(event["event"], "missed", "{event}");
    }
    place.write("go", "");
    assert_eq!(run.job("wait", "finished")["run"], 1);
    assert_eq!(run.job("wait", "started")["run"], 2);
    run.drain();
}

/// A change of the command alone leaves the schedule where it was: an hourly job does not run again at once.
#[test]
fn a_change_of_work_does_not_move_the_schedule() {
    let place = Place::new(&format!("{TICK}[job.hourly]\ncommand = \"echo one\"\nevery = \"1h\"\n"));
    let run = place.run();
    assert_eq!(run.line("hourly"), "one");
    for (text, changed) in [("echo two", "1h"), ("echo two", "2h")] {
        let hourly = format!("[job.hourly]\ncommand = \"{text}\"\nevery = \"{changed}\"\n");
        place.write("schedule.toml", &format!("{TICK}{hourly}"));
        run.signal(HUP);
        assert_eq!(reloaded(&run), [0, 1, 0, 1]);
        (0..5).for_each(|_| assert_eq!(run.line("tick"), "tick"));
    }
    let rest = run.drain();
    assert!(!rest.iter().any(|event| event["job"] == "hourly"), "{rest:#?}");
}

#[test]
fn reading_again_during_a_drain_starts_nothing() {
    let wait = "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done\"\nevery = \"1h\"\n";
    let place = Place::new(wait);
    let run = place.run();
    run.job("wait", "started");
    run.signal("TERM");
    run.event("draining");
    place.write("schedule.toml", &format!("{wait}[job.new]\ncommand = \"touch new-ran\"\nevery = \"1h\"\n"));
    run.signal(HUP);
    place.write("go", "");
    let (code, rest) = run.end();
    assert_eq!(code, 0);
    assert!(!rest.iter().any(|event| event["job"] == "new" || event["event"] == "reloaded"), "{rest:#?}");
    assert!(!exists(&place.path("new-ran")));
}

#[test]
fn a_job_that_is_switched_off_stops_and_on_again_begins() {
    let place = Place::new(TICK);
    let run = place.run();
    assert_eq!(run.line("tick"), "tick");
    place.write(
        "schedule.toml",
        &format!("{TICK}enabled = false\n[job.other]\ncommand = \"echo x >> other\"\nevery = \"20ms\"\n"),
    );
    run.signal(HUP);
    assert_eq!(reloaded(&run), [1, 0, 1, 0]);
    until("the other runs", || place.read("other").lines().count() > 3);
    place.write("schedule.toml", TICK);
    run.signal(HUP);
    assert_eq!(reloaded(&run), [1, 0, 1, 0]);
    assert_eq!(run.line("tick"), "tick");
    run.drain();
}

/// A job that is away for a while is the same job when it comes back, if its command has run all the time.
#[test]
fn a_job_that_comes_back_does_not_run_beside_its_own_command() {
    let idle = "[job.idle]\ncommand = \"true\"\nevery = \"1h\"\nstart-after = \"1h\"\n";
    let wait =
        "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done; exit 1\"\nevery = \"20ms\"\n";
    for away in [format!("{idle}{wait}enabled = false\n"), idle.to_owned()] {
        let place = Place::new(&format!("{idle}{wait}"));
        let run = place.run_with(&["--no-watch"]);
        run.job("wait", "started");
        place.write("schedule.toml", &away);
        run.signal(HUP);
        assert_eq!(reloaded(&run), [0, 0, 1, 1]);
        // Others may come and go meanwhile.
        place.write("schedule.toml", &format!("{away}[job.other]\ncommand = \"true\"\nevery = \"1h\"\n"));
        run.signal(HUP);
        assert_eq!(reloaded(&run), [1, 0, 0, 1]);
        place.write("schedule.toml", &format!("{idle}{wait}"));
        run.signal(HUP);
        assert_eq!(reloaded(&run), [1, 0, 1, 1]);
        for _ in 0..3 {
            let event = run.find("what follows", |event| event["job"] == "wait");
            assert_eq!(event["event"], "missed", "{event}");
        }
        place.write("go", "");
        assert_eq!(run.job("wait", "finished")["run"], 1);
        assert_eq!(run.job("wait", "started")["run"], 2);
        run.drain();
    }
}

/// The last line counts what has run, whether or not the file still knows it.
#[test]
fn runs_of_jobs_that_have_gone_are_counted() {
    let job = |name: &str, command: &str| {
        format!("[job.{name}]\ncommand = \"{command}\"\nevery = \"1h\"\nretries = 3\nretry-delay = \"1h\"\n")
    };
    let slow = job("slow", "while ! test -e go; do sleep 0.01; done; exit 1");
    let idle = "[job.idle]\ncommand = \"true\"\nevery = \"1h\"\nstart-after = \"1h\"\n";
    let place = Place::new(&(job("fine", "true") + &job("pausing", "exit 1") + &slow + idle));
    let run = place.run_with(&["--no-watch"]);
    let mut awaited = vec![("fine", "finished"), ("pausing", "finished"), ("slow", "started")];
    while !awaited.is_empty() {
        let seen = run.find("the first runs", |event| event["event"] != "output");
        awaited.retain(|(job, event)| seen["job"] != *job || seen["event"] != *event);
    }
    place.write("schedule.toml", idle);
    run.signal(HUP);
    assert_eq!(reloaded(&run), [0, 0, 3, 1]);
    place.write("go", "");
    assert_eq!(run.job("slow", "finished")["retry"], false, "its job has gone");
    let rest = run.drain();
    let over = rest.last().unwrap();
    assert_eq!((&over["runs"], &over["failures"]), (&3.into(), &2.into()), "{over}");
}

/// An attempt that began under the old schedule says nothing about the runs of the new one.
#[test]
fn an_attempt_of_an_old_schedule_leaves_no_retry_to_the_new_one() {
    let job = |period: &str| {
        format!(
            "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done; test $PUNCTUAL_RUN = 2\"\n\
             every = \"{period}\"\nretries = 3\nretry-delay = \"1h\"\nretry-max-delay = \"1h\"\n"
        )
    };
    let place = Place::new(&job("1h"));
    let run = place.run_with(&["--no-watch"]);
    run.job("wait", "started");
    place.write("schedule.toml", &job("20ms"));
    run.signal(HUP);
    assert_eq!(reloaded(&run), [0, 1, 0, 0]);
    place.write("go", "");
    let finished = run.job("wait", "finished");
    assert_eq!((&finished["ok"], &finished["retry"]), (&false.into(), &false.into()), "{finished}");
    let started = run.job("wait", "started");
    assert_eq!((&started["run"], &started["attempt"]), (&2.into(), &1.into()), "{started}");
    let over = run.drain().pop().unwrap();
    assert!(over["failures"].as_u64().unwrap() >= 1, "{over}");
}
