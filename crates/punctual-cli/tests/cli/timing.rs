//! When jobs run: schedules and policies, as far as they can be seen from outside.

use serde_json::Value;

use super::support::{Place, Run, in_time};

/// A job that is on until there is a file `go`, and one that measures time meanwhile.
fn waiting(more: &str) -> Place {
    Place::new(&format!(
        "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done\"\nevery = \"20ms\"\n{more}\n\
         [job.clock]\ncommand = \"echo tick\"\nevery = \"20ms\"\n"
    ))
}

/// Lets several periods go by.
fn let_time_pass(run: &Run) {
    (0..12).for_each(|_| assert_eq!(run.line("clock"), "tick"));
}

/// The next event about the job `wait`.
fn next(run: &Run, names: &[&str]) -> serde_json::Value {
    run.find(&format!("{names:?} of wait"), |event| {
        event["job"] == "wait" && names.iter().any(|name| event["event"] == *name)
    })
}

#[test]
fn a_run_that_is_due_while_one_is_on_is_missed_and_told() {
    let place = waiting("");
    let run = place.run();
    assert_eq!(next(&run, &["started"])["run"], 1);
    let_time_pass(&run);
    place.write("go", "");
    assert_eq!(next(&run, &["started", "finished"])["event"], "finished", "never two at once");
    let missed = next(&run, &["started", "missed"]);
    assert!(missed["count"].as_u64().unwrap() >= 5, "{missed}");
    assert_eq!(next(&run, &["started"])["run"], 2);
    run.drain();
}

#[test]
fn missed_runs_are_made_up_for_one_by_one_in_a_burst() {
    let place = waiting("missed = \"burst\"");
    let run = place.run();
    next(&run, &["started"]);
    let_time_pass(&run);
    place.write("go", "");
    for number in 2..=5 {
        let started = next(&run, &["started", "missed"]);
        assert_eq!((&started["event"], &started["run"]), (&"started".into(), &number.into()));
        assert!(started["lateness_us"].as_u64().unwrap() > 50_000, "{started}");
    }
    run.drain();
}

#[test]
fn one_run_is_queued_and_follows_at_once() {
    let place = waiting("overlap = \"queue\"");
    let run = place.run();
    next(&run, &["started"]);
    let_time_pass(&run);
    place.write("go", "");
    assert_eq!(next(&run, &["finished", "started"])["event"], "finished");
    assert_eq!(next(&run, &["started"])["run"], 2);
    run.drain();
}

#[test]
fn the_next_run_replaces_the_one_that_is_on() {
    let place = Place::new(
        "[job.poll]\ncommand = \"echo on; sleep 1000\"\nevery = \"300ms\"\noverlap = \"replace\"\nretries = 5\n",
    );
    let run = place.run();
    for number in 1..=2 {
        assert_eq!(run.job("poll", "started")["run"], number);
        let finished = run.job("poll", "finished");
        assert_eq!((&finished["run"], &finished["outcome"]), (&number.into(), &"stopped".into()));
        assert_eq!(finished["retry"], false, "nobody wants it any more");
    }
    run.signal("TERM");
    run.event("draining");
    run.signal("TERM");
    let (code, rest) = run.end();
    assert_eq!((code, &rest.last().unwrap()["failures"]), (4, &0.into()), "to be replaced is no failure");
}

/// The next run comes due again and again while the one before it cleans up: it has its grace all the same.
#[test]
fn a_run_that_is_replaced_has_its_grace() {
    let place = Place::new(
        r#"
[job.poll]
command = "trap 'sleep 0.5; echo clean; exit 0' TERM; echo on; while :; do sleep 0.01; done"
every = "200ms"
overlap = "replace"
grace = "1h"
"#,
    );
    let run = place.run();
    run.find("the cleaning up", |event| event["line"] == "clean");
    assert_eq!(run.job("poll", "finished")["outcome"], "stopped");
    assert!(run.job("poll", "started")["run"].as_u64() > Some(1));
    run.signal("TERM");
    run.event("draining");
    (0..2).for_each(|_| run.signal("TERM"));
    run.end();
}

#[test]
fn so_many_runs_may_be_on_at_once_and_no_more() {
    let place = waiting("overlap = 3");
    let run = place.run();
    let mut numbers: Vec<u64> =
        (0..3).map(|_| next(&run, &["started", "finished"])["run"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    let_time_pass(&run);
    place.write("go", "");
    assert_eq!(next(&run, &["started", "finished"])["event"], "finished", "a fourth had no place");
    run.drain();
}

#[test]
fn commands_beyond_the_most_wait_for_a_place() {
    let wait = "while ! test -e go; do sleep 0.01; done";
    let place = Place::new(&format!(
        "[settings]\nmax-running = 2\n\
         [job.a]\ncommand = \"{wait}\"\nevery = \"1h\"\n[job.b]\ncommand = \"{wait}\"\nevery = \"1h\"\n\
         [job.c]\ncommand = \"{wait}\"\nevery = \"1h\"\n"
    ));
    let run = place.run();
    run.event("started");
    run.event("started");
    place.write("go", "");
    let third = run.find("the third", |event| event["event"] == "started" || event["event"] == "finished");
    assert_eq!(third["event"], "finished");
    run.event("started");
    run.drain();
}

#[test]
fn a_fixed_delay_begins_when_a_run_has_ended() {
    let place =
        Place::new("[job.sweep]\ncommand = \"sleep 0.1\"\nfixed-delay = \"20ms\"\nstart-after = \"10ms\"\n");
    let run = place.run();
    for number in 1..=3 {
        assert_eq!(run.job("sweep", "started")["run"], number);
        assert_eq!(run.job("sweep", "finished")["run"], number);
    }
    let rest = run.drain();
    assert!(!rest.iter().any(|event| event["event"] == "missed"), "nothing is missed: {rest:#?}");
}

#[test]
fn a_cron_job_fires_in_seconds_of_the_wall_clock() {
    let place = Place::new(
        "[job.second]\ncommand = \"true\"\ncron = \"* * * * * *\"\ntimezone = \"Asia/Kathmandu\"\n",
    );
    let run = place.run();
    let seconds = [(); 2].map(|()| {
        let started = run.job("second", "started");
        let time: jiff::Timestamp = started["time"].as_str().unwrap().parse().unwrap();
        let lateness = jiff::SignedDuration::from_micros(started["lateness_us"].as_i64().unwrap());
        // The event is told after the start, so its time less the lateness is not before the whole second.
        (time - lateness).as_second()
    });
    assert!(seconds[1] > seconds[0], "{seconds:?}");
    run.drain();
}

/// A schedule that runs `once` at an instant soon, when it has started; and the instant.
fn once(command: &str, more: &str) -> (Place, Run, Value, jiff::Timestamp) {
    in_time(|at| {
        let place = Place::new(&format!("[job.once]\ncommand = '{command}'\nat = {at:.6}\n{more}"));
        let run = place.run();
        let event = run.find("its start", |event| event["event"] == "started" || event["event"] == "ended");
        (event["event"] == "started").then_some((place, run, event, at))
    })
}

#[test]
fn a_job_at_an_instant_runs_once_and_the_program_ends() {
    let (_place, run, started, at) = once("echo now", "");
    let time: jiff::Timestamp = started["time"].as_str().unwrap().parse().unwrap();
    assert!(time.as_microsecond() >= at.as_microsecond(), "{time} is before {at}");
    let (code, rest) = run.end();
    assert_eq!(code, 0);
    assert!(rest.iter().any(|event| event["line"] == "now"));
    assert!(!rest.iter().any(|event| event["event"] == "started"));
}

#[test]
fn a_job_at_an_instant_is_tried_again() {
    let (_place, run, ..) = once("test \"$PUNCTUAL_ATTEMPT\" = 2", "retries = 3\nretry-delay = \"1ms\"\n");
    assert_eq!(run.job("once", "finished")["retry"], true);
    let finished = run.job("once", "finished");
    assert_eq!(
        (&finished["attempt"], &finished["ok"], &finished["run"]),
        (&2.into(), &true.into(), &1.into())
    );
    assert_eq!(run.end().0, 0);
}

#[test]
fn an_instant_that_has_passed_is_told_and_not_run() {
    let place = Place::new("[job.past]\ncommand = \"touch ran\"\nat = 2001-01-01T00:00:00Z\n");
    let run = place.run();
    assert_eq!(run.job("past", "ended")["why"], "its time has passed");
    assert_eq!(run.end().0, 0);
    assert!(!super::support::exists(&place.path("ran")));
}
