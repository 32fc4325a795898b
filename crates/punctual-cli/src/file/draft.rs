//! The keys of a job that may also stand under `[defaults]`.

use std::time::Duration;

use punctual::{Gap, WallOverlap};

use super::diagnostic::Diagnostics;
use super::fields::{At, Fields};
use super::instant::{ZoneName, zone};
use super::{Missed, Output, Overlap};

/// Every key of [`Draft`].
pub(crate) const DRAFT_KEYS: [&str; 18] = [
    "clocks-back",
    "clocks-forward",
    "directory",
    "environment",
    "grace",
    "jitter",
    "log-directory",
    "log-keep",
    "log-limit",
    "missed",
    "missed-within",
    "output",
    "overlap",
    "retries",
    "retry-delay",
    "retry-max-delay",
    "timeout",
    "timezone",
];

/// Of a wall time that exists twice, which one counts.
pub(crate) const CLOCKS_BACK: [(&str, WallOverlap); 3] =
    [("first", WallOverlap::First), ("second", WallOverlap::Second), ("both", WallOverlap::Both)];

/// What becomes of a wall time that does not exist.
pub(crate) const CLOCKS_FORWARD: [(&str, Gap); 3] =
    [("first-valid", Gap::FirstValid), ("skip", Gap::Skip), ("shift", Gap::Shift)];

const MISSED: [(&str, Missed); 4] =
    [("skip", Missed::Skip), ("once", Missed::Once), ("burst", Missed::Burst), ("shift", Missed::Shift)];

const OUTPUT: [(&str, Output); 4] =
    [("pass", Output::Pass), ("log", Output::Log), ("both", Output::Both), ("discard", Output::Discard)];

/// A job as far as it was said: by itself, or by the defaults.
#[derive(Clone, Default, Debug)]
pub(crate) struct Draft {
    pub(crate) clocks_back: Option<At<WallOverlap>>,
    pub(crate) clocks_forward: Option<At<Gap>>,
    pub(crate) directory: Option<At<String>>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) grace: Option<At<Duration>>,
    pub(crate) jitter: Option<At<Duration>>,
    pub(crate) log_directory: Option<At<String>>,
    pub(crate) log_keep: Option<At<u32>>,
    pub(crate) log_limit: Option<At<u64>>,
    pub(crate) missed: Option<At<Missed>>,
    pub(crate) missed_within: Option<At<Duration>>,
    pub(crate) output: Option<At<Output>>,
    pub(crate) overlap: Option<At<Overlap>>,
    pub(crate) retries: Option<At<u32>>,
    pub(crate) retry_delay: Option<At<Duration>>,
    pub(crate) retry_max_delay: Option<At<Duration>>,
    pub(crate) timeout: Option<At<Duration>>,
    pub(crate) timezone: Option<At<ZoneName>>,
}

impl Draft {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            clocks_back: fields.choice("clocks-back", &CLOCKS_BACK, ""),
            clocks_forward: fields.choice("clocks-forward", &CLOCKS_FORWARD, ""),
            directory: fields.string("directory"),
            environment: environment(fields),
            grace: fields.duration("grace"),
            jitter: fields.duration("jitter"),
            log_directory: fields.string("log-directory"),
            log_keep: fields.integer("log-keep", 0..=1_000),
            log_limit: log_limit(fields),
            missed: fields.choice("missed", &MISSED, ""),
            missed_within: fields.duration("missed-within"),
            output: fields.choice("output", &OUTPUT, ""),
            overlap: overlap(fields),
            retries: fields.integer("retries", 0..=1_000),
            retry_delay: fields.duration("retry-delay"),
            retry_max_delay: fields.duration("retry-max-delay"),
            timeout: fields.duration_from("timeout", Duration::from_millis(1)),
            timezone: timezone(fields),
        }
    }

    /// What is said here, and otherwise what `defaults` say. Of the environment both count.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let defaults = defaults.clone();
        let mut environment = defaults.environment;
        environment.extend(self.environment);
        Self {
            clocks_back: self.clocks_back.or(defaults.clocks_back),
            clocks_forward: self.clocks_forward.or(defaults.clocks_forward),
            directory: self.directory.or(defaults.directory),
            environment,
            grace: self.grace.or(defaults.grace),
            jitter: self.jitter.or(defaults.jitter),
            log_directory: self.log_directory.or(defaults.log_directory),
            log_keep: self.log_keep.or(defaults.log_keep),
            log_limit: self.log_limit.or(defaults.log_limit),
            missed: self.missed.or(defaults.missed),
            missed_within: self.missed_within.or(defaults.missed_within),
            output: self.output.or(defaults.output),
            overlap: self.overlap.or(defaults.overlap),
            retries: self.retries.or(defaults.retries),
            retry_delay: self.retry_delay.or(defaults.retry_delay),
            retry_max_delay: self.retry_max_delay.or(defaults.retry_max_delay),
            timeout: self.timeout.or(defaults.timeout),
            timezone: self.timezone.or(defaults.timezone),
        }
    }
}

fn environment(fields: &mut Fields<'_>) -> Vec<(String, String)> {
    let Some(value) = fields.value("environment") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        fields.wrong_type("environment", value, "a table, as in { NAME = \"value\" }");
        return Vec::new();
    };
    let notes = fields.notes();
    table.iter().filter_map(|(key, value)| variable(key, value, notes)).collect()
}

fn variable(
    key: &toml::Spanned<std::borrow::Cow<'_, str>>,
    value: &toml::Spanned<toml::de::DeValue<'_>>,
    notes: &mut Diagnostics,
) -> Option<(String, String)> {
    use toml::de::DeValue;
    let name: &str = key.get_ref();
    if name.is_empty() || name.contains(['=', '\0']) {
        let message = format!("`{}` cannot be the name of a variable", name.escape_debug());
        notes.error(key.span(), message);
        return None;
    }
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => {
            notes.error(value.span(), format!("the variable `{name}` must be a string"));
            return None;
        }
    };
    if text.contains('\0') {
        notes.error(value.span(), format!("the variable `{name}` contains a NUL character"));
        return None;
    }
    Some((name.to_owned(), text))
}

fn log_limit(fields: &mut Fields<'_>) -> Option<At<u64>> {
    const LEAST: u64 = 1 << 10;
    let limit = fields.size("log-limit")?;
    if limit.value < LEAST {
        fields.notes().error(limit.span, "`log-limit` must be at least 1KB");
        return None;
    }
    Some(limit)
}

fn overlap(fields: &mut Fields<'_>) -> Option<At<Overlap>> {
    if fields.value("overlap")?.get_ref().is_integer() {
        let count = fields.integer("overlap", 2..=1_000)?;
        return Some(At { value: Overlap::Allow(count.value as usize), span: count.span });
    }
    let words = [("never", Overlap::Never), ("queue", Overlap::Queue), ("replace", Overlap::Replace)];
    fields.choice("overlap", &words, ", or how many runs may be on at once")
}

fn timezone(fields: &mut Fields<'_>) -> Option<At<ZoneName>> {
    let name = fields.string("timezone")?;
    match zone(&name.value) {
        Ok((zone, _)) => Some(At { value: zone, span: name.span }),
        Err((message, help)) => {
            fields.notes().error_with_help(name.span, message, help);
            None
        }
    }
}
