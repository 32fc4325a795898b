//! `punctual check`: every kind of bad file, and where the finger points.

use std::process::Stdio;

use super::support::{Place, call, punctual};

/// One file with everything wrong, and the whole answer.
#[test]
fn all_errors_of_a_file_are_shown_with_their_lines() {
    let place = Place::new(
        r#"[settings]
max-runing = 3
drain-timeout = 5

[job.backup]
comand = "pg_dump"
every = "10 parsecs"

[job.mail]
command = ["sendmail", 7]
cron = "61 * * * *"
overlap = "skip"
"#,
    );
    let said = place.check();
    assert_eq!(said.code, Some(1));
    assert_eq!(said.out, "");
    let expected = r#"F:2:1: error: unknown key `max-runing` in the settings
  |
2 | max-runing = 3
  | ^^^^^^^^^^
  = help: did you mean `max-running`?

F:3:17: error: `drain-timeout` has no unit
  |
3 | drain-timeout = 5
  |                 ^
  = help: write `drain-timeout = "5s"` if you mean seconds

F:6:1: error: unknown key `comand` in job `backup`
  |
6 | comand = "pg_dump"
  | ^^^^^^
  = help: did you mean `command`?

F:7:9: error: the duration `10 parsecs` has the unknown unit `parsecs`
  |
7 | every = "10 parsecs"
  |         ^^^^^^^^^^^^
  = help: write a duration such as "500ms", "30s", "5m", "1h30m" or "2d"

F:10:24: error: `command` must be an array of strings, not an integer
   |
10 | command = ["sendmail", 7]
   |                        ^

F:11:9: error: expected a minute from 0 to 59, found `61`
   |
11 | cron = "61 * * * *"
   |         ^^

F:12:11: error: `overlap` cannot be "skip"
   |
12 | overlap = "skip"
   |           ^^^^^^
   = help: known: "never", "queue", "replace", or how many runs may be on at once

F: 7 errors
"#;
    assert_eq!(said.err, expected);
}

/// Each is one mistake in an otherwise right job: the place, and words that must be in the message.
#[test]
fn each_mistake_has_its_place_and_its_words() {
    let job = "[job.a]\ncommand = \"true\"\n";
    let cases: &[(&str, &str, &str)] = &[
        ("every = \"0s\"", "3:9", "`every` must be at least 1ms"),
        ("every = \"1h\"\ncron = \"@daily\"", "3:1", "`every` and `cron` cannot stand in the same job"),
        ("fixed-delay = 3", "3:15", "`fixed-delay` has no unit"),
        ("fixed-delay = true", "3:15", "must be a duration in quotes, not a boolean"),
        ("cron = \"0 0 30 2 *\"", "3:13", "expected a date that exists, found `30 2 *`"),
        ("cron = \"* * *\"", "3:", "expected"),
        ("cron = \"\"", "3:", "expected"),
        ("cron = \"@dayly\"", "3:9", "expected"),
        ("at = 2026-12-24", "3:6", "`2026-12-24` has no time of day"),
        ("at = 18:00:00", "3:6", "`18:00:00` is not a date and time"),
        ("at = \"soon\"", "3:6", "`soon` is not a date and time"),
        ("at = 2026-03-29T02:30:00\ntimezone = \"Europe/Berlin\"", "3:6", "does not exist in this zone"),
        ("cron = \"@daily\"\ntimezone = \"Europe/Berln\"", "4:12", "did you mean \"Europe/Berlin\"?"),
        ("cron = \"@daily\"\nstart-after = \"5s\"", "4:1", "`start-after` has no effect"),
        ("every = \"5s\"\nclocks-back = \"both\"", "4:1", "`clocks-back` has no effect: it is for `cron`"),
        ("cron = \"@daily\"\nclocks-forward = \"skipp\"", "4:18", "did you mean \"skip\"?"),
        ("every = \"5s\"\ntimezone = \"UTC\"", "4:1", "`timezone` has no effect"),
        ("fixed-delay = \"5s\"\noverlap = \"queue\"", "4:1", "`overlap` has no effect"),
        ("fixed-delay = \"5s\"\nmissed = \"skip\"", "4:1", "`missed` has no effect"),
        ("at = 2999-01-01T00:00:00\nmissed = \"once\"", "4:1", "`missed` has no effect: the job runs once"),
        ("every = \"5s\"\noverlap = 1", "4:11", "`overlap` must be from 2 to 1000, not 1"),
        ("every = \"5s\"\noverlap = 4\nretries = 2", "5:1", "`retries` cannot go with `overlap = 4`"),
        ("every = \"5s\"\nmissed = \"onse\"", "4:10", "did you mean \"once\"?"),
        ("every = \"5s\"\njitter = \"5s\"", "4:10", "`jitter` must be shorter than the period"),
        ("every = \"5s\"\nretries = -1", "4:11", "`retries` must be from 0 to 1000, not -1"),
        ("every = \"5s\"\nretries = 2.5", "4:11", "`retries` must be a whole number, not a float"),
        ("every = \"5s\"\nretries = 99999999999999999999", "4:11", "from 0 to 1000"),
        ("every = \"5s\"\nretry-delay = \"1s\"", "4:1", "`retry-delay` has no effect: `retries` is 0"),
        ("every = \"5s\"\nlog-limit = \"1MB\"", "4:1", "the output is not logged"),
        ("every = \"5s\"\noutput = \"log\"\nlog-limit = \"1TB\"", "5:13", "`1TB` is not a size"),
        ("every = \"5s\"\noutput = \"log\"\nlog-limit = 3", "5:13", "at least 1KB"),
        ("every = \"5s\"\noutput = \"file\"", "4:10", "`output` cannot be \"file\""),
        ("every = \"5s\"\ntimeout = \"0s\"", "4:11", "`timeout` must be at least 1ms"),
        ("every = \"5s\"\nenabled = \"no\"", "4:11", "`enabled` must be true or false, not a string"),
        ("every = \"5s\"\nenvironment = \"A=b\"", "4:15", "`environment` must be a table"),
        ("every = \"5s\"\nenvironment = { A = [1] }", "4:21", "the variable `A` must be a string"),
        ("every = \"5s\"\nenvironment = { \"A=B\" = 1 }", "4:17", "`A=B` cannot be the name of a variable"),
        ("every = \"5s\"\ndirectory = \"a\\u0000b\"", "4:13", "contains a NUL character"),
        ("every = \"5s\"\ncolour = 3", "4:1", "unknown key `colour` in job `a`"),
        ("", "1:6", "job `a` does not say when it runs"),
    ];
    for (lines, place, words) in cases {
        let said = Place::new(&format!("{job}{lines}\n")).check();
        assert_eq!(said.code, Some(1), "{lines}\n{}", said.err);
        assert!(said.err.starts_with(&format!("F:{place}")), "{lines} is at {place}:\n{}", said.err);
        assert!(said.err.contains(words), "{lines} says {words}:\n{}", said.err);
        assert!(said.err.ends_with("F: 1 error\n"), "{lines} is one mistake:\n{}", said.err);
    }
}

#[test]
fn each_mistake_of_the_whole_has_its_place_and_its_words() {
    let cases: &[(&str, &str, &str)] = &[
        ("", "1:1", "there is no job in this file"),
        ("# nothing\n[settings]\n", "1:1", "there is no job in this file"),
        ("[job]\n", "1:", "there is no job in this file"),
        ("job = 3\n", "1:1", "jobs are named tables"),
        ("[[job]]\nname = \"a\"\n", "1:3", "jobs are named tables"),
        ("[job]\na = \"true\"\n", "2:5", "job `a` must be a table"),
        ("[job.\"a b\"]\ncommand = \"true\"\nevery = \"1s\"\n", "1:6", "`a b` cannot be the name of a job"),
        ("[job.\"../a\"]\ncommand = \"true\"\nevery = \"1s\"\n", "1:6", "`../a` cannot be the name of a job"),
        ("[job.\"\"]\ncommand = \"true\"\nevery = \"1s\"\n", "1:6", "a job needs a name"),
        ("[job.a]\nevery = \"1s\"\n", "1:6", "job `a` has no `command`"),
        ("[job.a]\nevery = \"1s\"\ncommand = \" \"\n", "3:11", "`command` is empty"),
        ("[job.a]\nevery = \"1s\"\ncommand = []\n", "3:11", "`command` names no program"),
        ("[job.a]\nevery = \"1s\"\ncommand = [\"\"]\n", "3:11", "`command` names no program"),
        (
            "[job.a]\nevery = \"1s\"\ncommand = 7\n",
            "3:11",
            "a string, or an array of strings, not an integer",
        ),
        ("settings = 3\n[job.a]\nevery = \"1s\"\ncommand = \"x\"\n", "1:12", "`settings` must be a table"),
        ("[setings]\n[job.a]\nevery = \"1s\"\ncommand = \"x\"\n", "1:2", "did you mean `settings`?"),
        (
            "[defaults]\ncommand = \"x\"\n[job.a]\nevery = \"1s\"\ncommand = \"x\"\n",
            "2:1",
            "belongs to a job",
        ),
        (
            "[settings]\nmax-running = 0\n[job.a]\nevery = \"1s\"\ncommand = \"x\"\n",
            "2:15",
            "from 1 to 10000, not 0",
        ),
        ("[job.a]\nevery = \"1s\n", "2:", "error: "),
        ("[job.a\n", "1:", "error: "),
        ("[job.a]\ncommand = \"x\"\ncommand = \"y\"\nevery = \"1s\"\n", "3:1", "duplicate key"),
    ];
    for (text, place, words) in cases {
        let said = Place::new(text).check();
        assert_eq!(said.code, Some(1), "{text}\n{}", said.err);
        assert!(said.err.starts_with(&format!("F:{place}")), "{text:?} is at {place}:\n{}", said.err);
        assert!(said.err.contains(words), "{text:?} says {words}:\n{}", said.err);
    }
}

#[test]
fn a_right_file_is_listed_and_one_that_is_not_enabled_is_not() {
    let place = Place::new(
        "[job.tick]\ncommand = \"date\"\nevery = \"90s\"\n\
         [job.off]\ncommand = \"x\"\nevery = \"1s\"\nenabled = false\n\
         [job.nightly]\ncommand = [\"backup\", \"--all\"]\ncron = \"30 2 * * *\"\n",
    );
    let said = place.check();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[..2], ["tick     every 1m30s  date", "nightly  30 2 * * *   backup --all"]);
    assert!(lines[2].ends_with("schedule.toml: 3 jobs, no errors"), "{lines:?}");
    let quiet = call(&["check", "-q", &place.schedule()]);
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "", ""));
}

#[test]
fn the_example_is_right() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/schedule.toml");
    let said = call(&["check", example]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn a_file_that_cannot_be_read_is_not_called_wrong() {
    let place = Place::new("");
    for (path, words) in [
        (place.path("missing.toml"), "missing.toml: no such file or directory"),
        (place.path(""), ": is a directory"),
    ] {
        let said = call(&["check", path.to_str().unwrap()]);
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""));
        assert!(said.err.contains(words), "{}", said.err);
        assert_eq!(call(&["run", path.to_str().unwrap()]).code, Some(3));
    }
    let endless = call(&["check", "/dev/zero"]);
    assert_eq!((endless.code, endless.err.as_str()), (Some(3), "/dev/zero: larger than 16 MB\n"));
    std::fs::write(place.path("latin1.toml"), b"# a\n# \xfc\n").unwrap();
    let said = call(&["check", place.path("latin1.toml").to_str().unwrap()]);
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("line 2 is not UTF-8"), "{}", said.err);
}

/// A file that is refused by `check` is refused by `run`, with the same words, and nothing is started.
#[test]
fn run_refuses_what_check_refuses() {
    let place = Place::new("[job.a]\ncommand = \"touch started\"\nevery = \"1s\"\nretires = 3\n");
    let (check, run) = (call(&["check", &place.schedule()]), call(&["run", &place.schedule()]));
    assert_eq!((run.code, run.err), (Some(1), check.err));
    assert!(!super::support::exists(&place.path("started")));
}

#[test]
fn wrong_arguments_have_a_status_of_their_own() {
    for args in
        [&["run"][..], &["frobnicate"], &["next", "* * * * *", "-n", "0"], &["demo", "--rate", "x"], &[]]
    {
        let said = call(args);
        assert_eq!(said.code, Some(2), "{args:?}");
    }
    let place = Place::new("");
    assert_eq!(call(&["run", "--json", "--table", "always", &place.schedule()]).code, Some(2));
}

#[test]
fn a_status_is_given_also_when_nobody_reads_what_is_wrong() {
    let place = Place::new("[job.a]\ncommand = \"true\"\nevry = \"1s\"\n");
    let (schedule, missing) = (place.schedule(), place.path("missing.toml"));
    let missing = missing.to_str().unwrap();
    for (args, code) in [
        (&["check", &schedule][..], 1),
        (&["run", &schedule], 1),
        (&["run", missing], 3),
        (&["next", "no cron"], 1),
    ] {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let status = punctual().args(args).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}
