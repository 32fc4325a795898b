//! From the text to a [`Schedule`], or to everything that is wrong with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::{CronOptions, CronSchedule};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::draft::{DRAFT_KEYS, Draft};
use super::fields::{At, Fields};
use super::instant::{ZoneName, instant};
use super::{Command, Job, Log, Missed, Output, Overlap, Retries, Schedule, Settings, Timing, Trigger, Work};

const TOP_KEYS: [&str; 3] = ["defaults", "job", "settings"];
const SETTINGS_KEYS: [&str; 2] = ["drain-timeout", "max-running"];
/// What a job may say and the defaults may not.
const JOB_KEYS: [&str; 7] = ["at", "command", "cron", "enabled", "every", "fixed-delay", "start-after"];
const TRIGGERS: [&str; 4] = ["at", "cron", "every", "fixed-delay"];

/// The shortest time between two runs: commands are not made for less.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST_NAME: usize = 64;

const MAX_RUNNING: usize = 32;
const GRACE: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_MAX_DELAY: Duration = Duration::from_secs(60);
const LOG_LIMIT: u64 = 10 << 20;
const LOG_KEEP: u32 = 3;

pub(crate) fn read(text: &str, base: &Path) -> Result<Schedule, Vec<Diagnostic>> {
    let mut notes = Diagnostics::default();
    let (tree, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        notes.error(error.span().unwrap_or(0..0), error.message());
    }
    if !notes.is_empty() {
        // What the parser makes of a broken text would only give rise to errors that are none.
        return Err(notes.into_sorted());
    }
    let schedule = top(text, tree.get_ref(), base, &mut notes);
    if notes.is_empty() { Ok(schedule) } else { Err(notes.into_sorted()) }
}

fn top(text: &str, tree: &DeTable<'_>, base: &Path, notes: &mut Diagnostics) -> Schedule {
    Fields::new("the file".to_owned(), text, tree, notes).only(&TOP_KEYS);
    let settings = match table(tree, "settings", notes) {
        Some(table) => settings(text, table, notes),
        None => Settings { max_running: MAX_RUNNING, drain_timeout: None },
    };
    let defaults = match table(tree, "defaults", notes) {
        Some(table) => {
            let mut fields = Fields::new("the defaults".to_owned(), text, table, notes);
            only_draft(&mut fields);
            Draft::read(&mut fields)
        }
        None => Draft::default(),
    };
    let (jobs, disabled) = jobs(text, tree, &defaults, base, notes);
    Schedule { settings, jobs, disabled }
}

fn table<'t>(tree: &'t DeTable<'t>, key: &str, notes: &mut Diagnostics) -> Option<&'t DeTable<'t>> {
    let value = tree.get(key)?;
    let table = value.get_ref().as_table();
    if table.is_none() {
        notes.error(value.span(), format!("`{key}` must be a table: write `[{key}]` on a line of its own"));
    }
    table
}

fn settings(text: &str, table: &DeTable<'_>, notes: &mut Diagnostics) -> Settings {
    let mut fields = Fields::new("the settings".to_owned(), text, table, notes);
    fields.only(&SETTINGS_KEYS);
    let max_running = fields.integer("max-running", 1..=10_000).map(|count| count.value as usize);
    let drain_timeout = fields.duration("drain-timeout").map(|duration| duration.value);
    Settings { max_running: max_running.unwrap_or(MAX_RUNNING), drain_timeout }
}

/// Every key of a job.
pub(super) fn known() -> Vec<&'static str> {
    let mut keys = [&JOB_KEYS[..], &DRAFT_KEYS[..]].concat();
    keys.sort_unstable();
    keys
}

/// The defaults may hold everything but what makes a job that job.
fn only_draft(fields: &mut Fields<'_>) {
    fields.only(&known());
    for key in JOB_KEYS {
        if let Some(span) = fields.key_span(key) {
            fields.notes().error(span, format!("`{key}` belongs to a job, not to the defaults"));
        }
    }
}

fn jobs(
    text: &str,
    tree: &DeTable<'_>,
    defaults: &Draft,
    base: &Path,
    notes: &mut Diagnostics,
) -> (Vec<Job>, usize) {
    let example = "write one as `[job.name]`, with a `command` and an `every`, `fixed-delay`, `cron` or `at`";
    let Some(value) = tree.get("job") else {
        if Fields::new(String::new(), text, tree, notes).has_near("job", &TOP_KEYS) {
            return (Vec::new(), 0);
        }
        notes.error_with_help(0..0, "there is no job in this file", example);
        return (Vec::new(), 0);
    };
    let Some(table) = value.get_ref().as_table() else {
        let key = tree.keys().find(|key| key.get_ref() == "job").map_or(value.span(), Spanned::span);
        notes.error_with_help(key, "jobs are named tables", example);
        return (Vec::new(), 0);
    };
    if table.is_empty() {
        notes.error_with_help(value.span(), "there is no job in this file", example);
    }
    // The tree is sorted by name; people expect the order they wrote.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut jobs = Vec::new();
    let mut disabled = 0;
    for (key, value) in entries {
        match job(text, key, value, defaults, base, notes) {
            Some(Entry::Enabled(job)) => jobs.push(*job),
            Some(Entry::Disabled) => disabled += 1,
            None => {}
        }
    }
    (jobs, disabled)
}

enum Entry {
    Enabled(Box<Job>),
    Disabled,
}

fn job(
    text: &str,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    defaults: &Draft,
    base: &Path,
    notes: &mut Diagnostics,
) -> Option<Entry> {
    let name: &str = key.get_ref();
    check_name(name, key.span(), notes);
    let Some(table) = value.get_ref().as_table() else {
        let message =
            format!("job `{}` must be a table, not {}", name.escape_debug(), value.get_ref().type_str());
        notes.error_with_help(value.span(), message, "write `[job.name]`, and its keys on the lines below");
        return None;
    };
    let mut fields = Fields::new(format!("job `{name}`"), text, table, notes);
    fields.only(&known());
    let own = Draft::read(&mut fields);
    let command = command(&mut fields, &key.span());
    let trigger = trigger(&mut fields, name, &own, defaults, &key.span());
    if let Some(trigger) = &trigger {
        check_fit(&mut fields, &own, defaults, trigger);
    }
    check_output(&mut fields, &own, defaults);
    let enabled = fields.boolean("enabled").is_none_or(|enabled| enabled.value);
    let mut draft = own.or(defaults);
    if let Some(trigger) = &trigger {
        drop_unfit(&mut draft, &trigger.value);
    }
    check_retries(&draft, &mut fields);
    let (command, trigger) = (command?, trigger?);
    if !enabled {
        return Some(Entry::Disabled);
    }
    let timing = timing(trigger, &draft);
    let work = Arc::new(work(command, draft, base));
    Some(Entry::Enabled(Box::new(Job { name: name.into(), timing, work })))
}

/// A name is also the name of a log file, and stands before every line of output.
fn check_name(name: &str, span: Range<usize>, notes: &mut Diagnostics) {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let message = if name.is_empty() {
        "a job needs a name".to_owned()
    } else if name.len() > LONGEST_NAME {
        format!("the name of a job has at most {LONGEST_NAME} characters, not {}", name.chars().count())
    } else if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        format!("`{}` cannot be the name of a job", name.escape_debug())
    } else {
        return;
    };
    let help = "a name has letters, digits, `-`, `_` and `.`, and begins with a letter or digit";
    notes.error_with_help(span, message, help);
}

fn command(fields: &mut Fields<'_>, job: &Range<usize>) -> Option<Command> {
    let Some(value) = fields.value("command") else {
        if fields.has_near("command", &known()) {
            return None;
        }
        let message = format!("{} has no `command`", fields.what);
        fields.notes().error_with_help(
            job.clone(),
            message,
            "add `command = \"a line for the shell\"` or `command = [\"program\", \"argument\"]`",
        );
        return None;
    };
    let Some(array) = value.get_ref().as_array() else {
        if !value.get_ref().is_str() {
            fields.wrong_type("command", value, "a string, or an array of strings");
            return None;
        }
        let line = fields.string("command")?;
        if line.value.trim().is_empty() {
            fields.notes().error(line.span, "`command` is empty");
            return None;
        }
        return Some(Command::Shell(line.value));
    };
    let mut words = Vec::new();
    for word in array.iter() {
        match word.get_ref().as_str() {
            Some(text) if !text.contains('\0') => words.push(text.to_owned()),
            Some(_) => fields.notes().error(word.span(), "a word of `command` contains a NUL character"),
            None => fields.wrong_type("command", word, "an array of strings"),
        }
    }
    if words.len() < array.len() {
        return None;
    }
    if words.first().is_none_or(String::is_empty) {
        fields.notes().error(value.span(), "`command` names no program");
        return None;
    }
    Some(Command::Program(words))
}

fn trigger(
    fields: &mut Fields<'_>,
    name: &str,
    own: &Draft,
    defaults: &Draft,
    job: &Range<usize>,
) -> Option<At<Trigger>> {
    let given: Vec<&str> = TRIGGERS.into_iter().filter(|key| fields.value(key).is_some()).collect();
    let key = match given[..] {
        [key] => key,
        [] if TRIGGERS.iter().any(|key| fields.has_near(key, &known())) => return None,
        [] => {
            let message = format!("{} does not say when it runs", fields.what);
            let help = "add one of `every`, `fixed-delay`, `cron` and `at`";
            fields.notes().error_with_help(job.clone(), message, help);
            return None;
        }
        [first, second, ..] => {
            let span = fields.key_span(second).unwrap_or_else(|| job.clone());
            let message = format!("`{second}` and `{first}` cannot stand in the same job");
            fields.notes().error_with_help(
                span,
                message,
                "a job has one of `every`, `fixed-delay`, `cron` and `at`",
            );
            return None;
        }
    };
    let span = fields.key_span(key).unwrap_or_else(|| job.clone());
    let zone = own.timezone.as_ref().or(defaults.timezone.as_ref());
    let zone = zone.map_or_else(ZoneName::local, |zone| zone.value.clone());
    let start_after = fields.duration("start-after").map(|duration| duration.value);
    let value = match key {
        "every" => Trigger::Every { period: fields.duration_from(key, SHORTEST)?.value, start_after },
        "fixed-delay" => {
            Trigger::FixedDelay { delay: fields.duration_from(key, SHORTEST)?.value, start_after }
        }
        "cron" => Trigger::Cron(follow_clocks(cron(fields, name, &zone)?, own, defaults)),
        _ => at(fields, zone)?,
    };
    Some(At { value, span })
}

/// Says what changes of the clocks do to a schedule.
fn follow_clocks(schedule: CronSchedule, own: &Draft, defaults: &Draft) -> CronSchedule {
    let forward = own.clocks_forward.as_ref().or(defaults.clocks_forward.as_ref());
    let back = own.clocks_back.as_ref().or(defaults.clocks_back.as_ref());
    schedule
        .gap(forward.map(|forward| forward.value).unwrap_or_default())
        .overlap(back.map(|back| back.value).unwrap_or_default())
}

fn cron(fields: &mut Fields<'_>, name: &str, zone: &ZoneName) -> Option<CronSchedule> {
    let expression = fields.string("cron")?;
    // The name is what `H` spreads jobs by.
    let cron = CronOptions::new().seed(name).parse(&expression.value);
    match cron.and_then(|cron| CronSchedule::new(cron, zone.as_str())) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            let place = fields.inside(&expression, error.span());
            let found =
                if error.found().is_empty() { "nothing".to_owned() } else { format!("`{}`", error.found()) };
            let message = format!("expected {}, found {found}", error.expected());
            match error.suggestion() {
                Some(near) => {
                    fields.notes().error_with_help(place, message, format!("did you mean `{near}`?"))
                }
                None => fields.notes().error(place, message),
            }
            None
        }
    }
}

fn at(fields: &mut Fields<'_>, zone: ZoneName) -> Option<Trigger> {
    let value = fields.value("at")?;
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(datetime) => datetime.to_string(),
        _ => {
            fields.wrong_type("at", value, "a date and time");
            return None;
        }
    };
    match instant(&text, &zone.rules()) {
        Ok(instant) => Some(Trigger::At { instant, zone }),
        Err(message) => {
            let help = "write a date and time such as 2026-12-24T18:00:00, with an offset (`+01:00`, `Z`) or without";
            fields.notes().error_with_help(value.span(), message, help);
            None
        }
    }
}

/// Keys that would be without effect are errors: whoever wrote them expects something.
fn check_fit(fields: &mut Fields<'_>, own: &Draft, defaults: &Draft, trigger: &At<Trigger>) {
    let (is_delay, is_once) =
        (matches!(trigger.value, Trigger::FixedDelay { .. }), matches!(trigger.value, Trigger::At { .. }));
    let by_clock = is_once || matches!(trigger.value, Trigger::Cron(_));
    let mut refuse = |key: &str, why: &str| {
        if let Some(span) = fields.key_span(key) {
            fields.notes().error(span, format!("`{key}` has no effect: {why}"));
        }
    };
    if by_clock {
        refuse("start-after", "the clock says when the first run is");
    } else {
        refuse("timezone", "it is for `cron` and `at`");
    }
    if !matches!(trigger.value, Trigger::Cron(_)) {
        refuse("clocks-forward", "it is for `cron`");
        refuse("clocks-back", "it is for `cron`");
    }
    if is_delay || is_once {
        let why = if is_once { "the job runs once" } else { "the next run is planned when one has ended" };
        refuse("overlap", why);
        refuse("missed", why);
        refuse("missed-within", why);
    }
    if is_once {
        refuse("jitter", "it runs at its time");
    }
    let jitter = own.jitter.as_ref().or(defaults.jitter.as_ref());
    match (&trigger.value, jitter) {
        (Trigger::Every { period, .. }, Some(jitter)) if jitter.value >= *period => {
            let message = format!("`jitter` must be shorter than the period of {}", fields.what);
            fields.notes().error(jitter.span.clone(), message);
        }
        _ => {}
    }
}

/// Takes away what has no effect on this kind of job. The job itself has not said it, by [`check_fit`]; the defaults
/// say it for jobs of other kinds, and may say otherwise tomorrow without touching this one.
fn drop_unfit(draft: &mut Draft, trigger: &Trigger) {
    let (is_grid, is_once) = match trigger {
        Trigger::Every { .. } | Trigger::Cron(_) => (true, false),
        Trigger::FixedDelay { .. } => (false, false),
        Trigger::At { .. } => (false, true),
    };
    if !is_grid {
        (draft.overlap, draft.missed, draft.missed_within) = (None, None, None);
    }
    if is_once {
        draft.jitter = None;
    }
    if draft.retries.as_ref().is_none_or(|retries| retries.value == 0) {
        (draft.retry_delay, draft.retry_max_delay) = (None, None);
    }
}

fn check_output(fields: &mut Fields<'_>, own: &Draft, defaults: &Draft) {
    let output = own.output.as_ref().or(defaults.output.as_ref()).map_or(Output::Pass, |output| output.value);
    if matches!(output, Output::Log | Output::Both) {
        return;
    }
    for key in ["log-directory", "log-keep", "log-limit"] {
        if let Some(span) = fields.key_span(key) {
            let message = format!("`{key}` has no effect: the output is not logged");
            fields.notes().error_with_help(span, message, "add `output = \"log\"` or `output = \"both\"`");
        }
    }
}

fn check_retries(draft: &Draft, fields: &mut Fields<'_>) {
    let retries = draft.retries.as_ref().filter(|retries| retries.value > 0);
    if let (Some(At { value: Overlap::Allow(most), .. }), Some(retries)) = (&draft.overlap, retries) {
        let span = fields.key_span("retries").unwrap_or_else(|| retries.span.clone());
        let message = format!("`retries` cannot go with `overlap = {most}`");
        fields.notes().error_with_help(
            span,
            message,
            "a job pauses before it tries again, and runs side by side do not wait for each other: use `overlap = \
             \"queue\"`, or retry in the command itself",
        );
    }
    if draft.retries.as_ref().is_some_and(|retries| retries.value > 0) {
        return;
    }
    for key in ["retry-delay", "retry-max-delay"] {
        if let Some(span) = fields.key_span(key) {
            let message = format!("`{key}` has no effect: `retries` is 0");
            fields.notes().error(span, message);
        }
    }
}

fn timing(trigger: At<Trigger>, draft: &Draft) -> Timing {
    let by_default = match trigger.value {
        Trigger::Cron(_) => Missed::Once,
        _ => Missed::Skip,
    };
    let missed = draft.missed.as_ref().map_or(by_default, |missed| missed.value);
    Timing {
        trigger: trigger.value,
        overlap: draft.overlap.as_ref().map_or(Overlap::Never, |overlap| overlap.value),
        missed,
        missed_within: draft.missed_within.as_ref().map(|within| within.value),
        jitter: draft.jitter.as_ref().map_or(Duration::ZERO, |jitter| jitter.value),
    }
}

fn work(command: Command, draft: Draft, base: &Path) -> Work {
    let path = |path: Option<At<String>>, otherwise: &str| {
        base.join(path.map_or_else(|| otherwise.to_owned(), |path| path.value))
    };
    let duration = |value: Option<At<Duration>>, otherwise| value.map_or(otherwise, |value| value.value);
    let environment: BTreeMap<_, _> =
        draft.environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let delay = duration(draft.retry_delay, RETRY_DELAY);
    Work {
        command,
        environment,
        directory: path(draft.directory, ""),
        timeout: draft.timeout.map(|timeout| timeout.value),
        grace: duration(draft.grace, GRACE),
        retries: Retries {
            count: draft.retries.map_or(0, |retries| retries.value),
            delay,
            max_delay: duration(draft.retry_max_delay, RETRY_MAX_DELAY).max(delay),
        },
        output: draft.output.map_or(Output::Pass, |output| output.value),
        log: Log {
            directory: path(draft.log_directory, "logs"),
            limit: draft.log_limit.map_or(LOG_LIMIT, |limit| limit.value),
            keep: draft.log_keep.map_or(LOG_KEEP, |keep| keep.value),
        },
    }
}
