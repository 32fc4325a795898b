//! How a run comes to its end.

use super::support::{HUP, INT, Place, TERM, is_alive, until};

const WAIT: &str =
    "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done; echo done\"\nevery = \"10ms\"\n";

#[test]
fn the_first_signal_lets_what_runs_come_to_its_end() {
    for signal in [TERM, INT] {
        let place = Place::new(WAIT);
        let run = place.run();
        run.job("wait", "started");
        run.signal(signal);
        let draining = run.event("draining");
        assert_eq!(
            (draining["running"].as_u64(), draining["why"].as_str()),
            (Some(1), Some(&*format!("SIG{signal}")))
        );
        place.write("go", "");
        assert_eq!(run.line("wait"), "done");
        assert_eq!(run.job("wait", "finished")["outcome"], "succeeded");
        let (code, rest) = run.end();
        assert_eq!(code, 0);
        assert!(!rest.iter().any(|event| event["event"] == "started"), "nothing new: {rest:#?}");
    }
}

#[test]
fn the_second_signal_stops_what_runs() {
    let place = Place::new(
        "[job.slow]\ncommand = \"trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.01; done\"\nevery = \"1h\"\n",
    );
    let run = place.run();
    let process = run.line("slow");
    run.signal(TERM);
    run.event("draining");
    run.signal(TERM);
    assert_eq!(run.event("stopping")["running"], 1);
    run.find("the answer", |event| event["line"] == "asked");
    assert_eq!(run.job("slow", "finished")["outcome"], "stopped");
    let (code, _) = run.end();
    assert_eq!(code, 4);
    assert!(!is_alive(&process));
}

#[test]
fn the_second_signal_also_stops_the_command_of_a_job_that_has_gone() {
    let idle = "[job.idle]\ncommand = \"true\"\nevery = \"1h\"\nstart-after = \"1h\"\n";
    let place = Place::new(&format!("{idle}[job.slow]\ncommand = \"sleep 1000\"\nevery = \"1h\"\n"));
    let run = place.run_with(&["--no-watch"]);
    run.job("slow", "started");
    place.write("schedule.toml", idle);
    run.signal(HUP);
    run.event("reloaded");
    run.signal(TERM);
    assert_eq!(run.event("draining")["running"], 1);
    run.signal(TERM);
    assert_eq!(run.job("slow", "finished")["outcome"], "stopped");
    assert_eq!(run.end().0, 4);
}

#[test]
fn a_stop_kills_after_the_grace_and_a_third_signal_at_once() {
    for (grace, third) in [("50ms", false), ("1h", true)] {
        let place = Place::new(&format!(
            "[job.stubborn]\ncommand = \"trap '' TERM; echo $$; while :; do sleep 0.01; done\"\nevery = \"1h\"\ngrace = \"{grace}\"\nretries = 3\n"
        ));
        let run = place.run();
        let process = run.line("stubborn");
        run.signal(TERM);
        run.event("draining");
        run.signal(TERM);
        run.event("stopping");
        if third {
            run.signal(TERM);
            run.event("killing");
        }
        let finished = run.job("stubborn", "finished");
        assert_eq!((&finished["outcome"], &finished["retry"]), (&"stopped".into(), &false.into()));
        let (code, _) = run.end();
        assert_eq!(code, 4);
        until("the process is gone", || !is_alive(&process));
    }
}

#[test]
fn a_drain_that_takes_too_long_is_a_stop() {
    let place = Place::new(
        "[settings]\ndrain-timeout = \"50ms\"\n[job.slow]\ncommand = \"sleep 1000\"\nevery = \"1h\"\n",
    );
    let run = place.run();
    run.job("slow", "started");
    run.signal(TERM);
    assert_eq!(run.event("stopping")["why"], "the drain took too long");
    assert_eq!(run.end().0, 4);
}

#[test]
fn retries_that_wait_do_not_hold_up_the_end() {
    let place = Place::new(
        "[job.broken]\ncommand = \"exit 1\"\nevery = \"1h\"\nretries = 9\nretry-delay = \"1h\"\nretry-max-delay = \"1h\"\n",
    );
    let run = place.run();
    assert_eq!(run.job("broken", "finished")["retry"], true);
    let over = run.drain().pop().unwrap();
    assert_eq!((&over["runs"], &over["failures"]), (&1.into(), &1.into()), "no attempt will mend it");
}

#[test]
fn an_attempt_that_fails_during_a_drain_is_not_said_to_be_tried_again() {
    let place = Place::new(
        "[job.wait]\ncommand = \"while ! test -e go; do sleep 0.01; done; exit 1\"\nevery = \"1h\"\nretries = 3\n",
    );
    let run = place.run();
    run.job("wait", "started");
    run.signal(TERM);
    run.event("draining");
    place.write("go", "");
    assert_eq!(run.job("wait", "finished")["retry"], false);
    let (code, rest) = run.end();
    let over = rest.last().unwrap();
    assert_eq!((code, &over["runs"], &over["failures"]), (0, &1.into(), &1.into()));
}

#[test]
fn an_idle_schedule_ends_at_once() {
    let place = Place::new("[job.later]\ncommand = \"true\"\nevery = \"1h\"\nstart-after = \"1h\"\n");
    let run = place.run();
    let rest = run.drain();
    let events: Vec<_> = rest.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["draining", "over"]);
}
