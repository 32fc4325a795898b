//! The reader against texts that nobody would write, and the documents against the reader.

use super::read::known;
use super::{Missed, Output, Overlap, Trigger, parse};
use std::path::Path;
use std::time::Duration;

const WHOLE: &str = include_str!("../../../../examples/schedule.toml");

/// Whatever is done to a file, it is either read or refused with places inside it.
fn survives(text: &str) {
    if let Err(diagnostics) = parse(text, Path::new(".")) {
        assert!(!diagnostics.is_empty(), "{text}");
        for diagnostic in diagnostics {
            assert!(diagnostic.render("f", text).contains('^'));
        }
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let characters: Vec<char> = WHOLE.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % bound as u64).unwrap()
    };
    let odd =
        ['\0', '"', '\'', '[', ']', '=', '\n', '{', '}', '.', '-', '9', 'ü', '\u{1f389}', '\r', '\\', '#'];
    for _ in 0..300 {
        let mut text = characters.clone();
        for _ in 0..=random(6) {
            let place = random(text.len());
            match random(4) {
                0 => drop(text.remove(place)),
                1 => text.insert(place, odd[random(odd.len())]),
                2 => text[place] = odd[random(odd.len())],
                _ => text.truncate(place.max(1)),
            }
        }
        survives(&text.into_iter().collect::<String>());
    }
}

#[test]
fn extremes_are_read_or_refused() {
    let huge = "9".repeat(400);
    for text in [
        "[".repeat(10_000),
        format!("[job.a]\ncommand = \"x\"\nevery = \"{huge}s\"\n"),
        format!("[job.a]\ncommand = \"x\"\nevery = \"1s\"\nretries = {huge}\n"),
        format!("[job.a]\ncommand = \"x\"\ncron = \"{}\"\n", "* ".repeat(5_000)),
        format!("[job.a]\ncommand = {}\nevery = \"1s\"\n", "[".repeat(200) + &"]".repeat(200)),
        format!("[job.{}]\ncommand = \"x\"\nevery = \"1s\"\n", "a".repeat(10_000)),
        "[job.a]\ncommand = \"x\"\nat = 9999-12-31T23:59:60-23:59\n".to_owned(),
        "[job.a]\ncommand = \"x\"\nat = 0000-01-01T00:00:00\n".to_owned(),
        "\u{feff}[job.a]\ncommand = \"x\"\nevery = \"1s\"\n".to_owned(),
        "[job.a]\r\ncommand = \"x\"\r\nevry = \"1s\"\r\n".to_owned(),
    ] {
        survives(&text);
    }
}

#[test]
fn what_is_not_said_has_the_documented_value() {
    let text = "[job.a]\ncommand = \"x\"\nevery = \"1s\"\n[job.b]\ncommand = [\"y\"]\ncron = \"@daily\"\n";
    let schedule = parse(text, Path::new("/base")).unwrap();
    let [a, b] = &schedule.jobs[..] else { panic!("two jobs") };
    assert_eq!((schedule.settings.max_running, schedule.settings.drain_timeout), (32, None));
    assert_eq!(
        (a.timing.missed, b.timing.missed, a.timing.overlap),
        (Missed::Skip, Missed::Once, Overlap::Never)
    );
    assert_eq!((a.timing.jitter, a.timing.missed_within), (Duration::ZERO, None));
    let work = &a.work;
    assert_eq!((work.timeout, work.grace, work.output), (None, Duration::from_secs(10), Output::Pass));
    assert_eq!(
        (work.retries.count, work.retries.delay.as_secs(), work.retries.max_delay.as_secs()),
        (0, 1, 60)
    );
    assert_eq!(work.directory, Path::new("/base/"));
    assert_eq!(
        (work.log.directory.as_path(), work.log.limit, work.log.keep),
        (Path::new("/base/logs"), 10 << 20, 3)
    );
    assert!(matches!(&b.timing.trigger, Trigger::Cron(schedule) if schedule.cron().source() == "@daily"));
}

#[test]
fn a_job_overrides_the_defaults_and_shares_their_environment() {
    let text = "[defaults]\ntimeout = \"5s\"\ngrace = \"1s\"\nenvironment = { A = \"1\", B = \"1\" }\n\
                [job.a]\ncommand = \"x\"\nevery = \"1s\"\ntimeout = \"9s\"\nenvironment = { B = \"2\" }\n";
    let schedule = parse(text, Path::new(".")).unwrap();
    let work = &schedule.jobs[0].work;
    assert_eq!((work.timeout, work.grace), (Some(Duration::from_secs(9)), Duration::from_secs(1)));
    let environment: Vec<_> = work
        .environment
        .iter()
        .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
        .collect();
    assert_eq!(environment, [("A", "1"), ("B", "2")]);
}

/// The defaults are for jobs of every kind: each takes what has an effect on it, and nothing else.
#[test]
fn defaults_without_effect_on_a_job_are_not_taken_over() {
    let bare = "[job.delay]\ncommand = \"x\"\nfixed-delay = \"1s\"\n\
                [job.once]\ncommand = \"x\"\nat = 2999-01-01T00:00:00Z\n\
                [job.grid]\ncommand = \"x\"\nevery = \"1s\"\n";
    let defaults = "[defaults]\noverlap = 2\nmissed = \"burst\"\nmissed-within = \"1m\"\njitter = \"500ms\"\n\
                    retry-delay = \"7s\"\nretry-max-delay = \"9s\"\n";
    let (plain, given) =
        (parse(bare, Path::new(".")).unwrap(), parse(&format!("{defaults}{bare}"), Path::new(".")).unwrap());
    let [delay, once, grid] = &given.jobs[..] else { panic!("three jobs") };
    let jitter = delay.timing.jitter;
    assert_eq!((jitter, once.timing.jitter), (Duration::from_millis(500), Duration::ZERO));
    let mut without_jitter = delay.timing.clone();
    without_jitter.jitter = Duration::ZERO;
    assert_eq!((&without_jitter, &once.timing), (&plain.jobs[0].timing, &plain.jobs[1].timing));
    assert_eq!((grid.timing.overlap, grid.timing.missed), (Overlap::Allow(2), Missed::Burst));
    assert_eq!(grid.timing.missed_within, Some(Duration::from_secs(60)));
    assert_eq!(grid.work, plain.jobs[2].work, "without retries there are no pauses between them");
    let retrying = bare
        .replace("[job.grid]", "retries = 3\n[job.grid]")
        .replace("[job.once]", "retries = 3\n[job.once]");
    let given = parse(&format!("{defaults}{retrying}"), Path::new(".")).unwrap();
    assert_eq!(given.jobs[0].work.retries.delay, Duration::from_secs(7));
    let clash = parse(&format!("{defaults}{bare}retries = 3\n"), Path::new(".")).unwrap_err();
    assert_eq!(clash.len(), 1, "a job on a grid does have the overlap of the defaults");
}

#[test]
fn what_the_clocks_do_is_part_of_the_schedule() {
    let text = |rules: &str| {
        format!("[job.a]\ncommand = \"x\"\ncron = \"30 2 * * *\"\ntimezone = \"Europe/Berlin\"\n{rules}")
    };
    let trigger = |rules: &str| parse(&text(rules), Path::new(".")).unwrap().jobs[0].timing.trigger.clone();
    let plain = trigger("");
    assert_eq!(plain, trigger("clocks-forward = \"first-valid\"\nclocks-back = \"first\"\n"));
    assert_ne!(plain, trigger("clocks-forward = \"skip\"\n"));
    assert_ne!(plain, trigger("clocks-back = \"both\"\n"));
    assert_eq!(trigger("[defaults]\nclocks-back = \"both\"\n"), trigger("clocks-back = \"both\"\n"));
}

#[test]
fn jobs_keep_the_order_of_the_file() {
    let text: String =
        ["z", "a", "m"].map(|name| format!("[job.{name}]\ncommand = \"x\"\nevery = \"1s\"\n")).concat();
    let schedule = parse(&text, Path::new(".")).unwrap();
    assert_eq!(schedule.jobs.iter().map(|job| &*job.name).collect::<Vec<_>>(), ["z", "a", "m"]);
}

#[test]
fn the_example_of_the_manual_is_right() {
    let manual = include_str!("../../README.md");
    let (_, rest) = manual.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    assert_eq!(parse(example, Path::new(".")).unwrap().jobs.len(), 2);
}

#[test]
fn the_manual_and_the_help_name_every_key() {
    let manual = include_str!("../../README.md");
    for key in known() {
        assert!(manual.contains(&format!("`{key}`")), "README.md lacks {key}");
        assert!(crate::args::RUN_HELP.contains(key), "the help of `run` lacks {key}");
    }
}
