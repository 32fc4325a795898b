//! What happens while a schedule runs, as a line for people or for programs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::file::show;
use crate::process::Outcome;

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) at: SystemTime,
    pub(crate) what: What,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The schedule runs.
    Ready { file: String, jobs: usize, disabled: usize },
    /// The file was read again.
    Reloaded { added: usize, changed: usize, removed: usize, unchanged: usize },
    /// It was read again, and is wrong: the old schedule goes on.
    ReloadFailed { report: String },
    /// Nothing new is begun any more.
    Draining { why: String, running: usize },
    /// What still runs is asked to end.
    Stopping { why: String, running: usize },
    /// What still runs is ended by force.
    Killing { why: String, running: usize },
    /// The last line.
    Over { runs: u64, failures: u64 },
    /// Something about one job.
    Job { job: Arc<str>, what: JobWhat },
}

/// What happened to a job.
#[derive(Clone, Debug)]
pub(crate) enum JobWhat {
    /// A process was started. `run` counts the times the job was due, `attempt` the tries of that run.
    Started { run: u64, attempt: u32, pid: u32, lateness: Duration },
    /// It has ended, or never began.
    Finished { run: u64, attempt: u32, outcome: Outcome, took: Duration, retry: bool },
    /// So many runs were left out, because their time had passed.
    Missed { count: u64 },
    /// Its output cannot be written to its log file; it is passed on instead.
    LogFailed { error: String },
    /// It will not run again.
    Ended { why: &'static str },
    /// It cannot be put on the schedule.
    Refused { error: String },
}

impl Event {
    pub(crate) fn now(what: What) -> Self {
        Self { at: SystemTime::now(), what }
    }

    /// Whether a command has been started.
    pub(crate) fn is_start(&self) -> bool {
        matches!(&self.what, What::Job { what: JobWhat::Started { .. }, .. })
    }

    /// Whether something is wrong.
    pub(crate) fn is_bad(&self) -> bool {
        match &self.what {
            What::ReloadFailed { .. } => true,
            What::Job { what, .. } => match what {
                JobWhat::Finished { outcome, .. } => outcome.is_failure(),
                JobWhat::LogFailed { .. } | JobWhat::Refused { .. } => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// `2026-12-24T18:00:00.123+01:00 backup: started, run 3, process 4711, 2ms late`
    pub(crate) fn line(&self) -> String {
        format!("{} {}\n", stamp(self.at), self.what)
    }

    /// One object on one line; the keys are listed in the manual.
    pub(crate) fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("time".to_owned(), json!(utc(self.at)));
        let (name, fields) = self.what.fields();
        object.insert("event".to_owned(), json!(name));
        if let Value::Object(fields) = fields {
            object.extend(fields);
        }
        format!("{}\n", Value::Object(object))
    }
}

impl What {
    fn fields(&self) -> (&'static str, Value) {
        match self {
            Self::Ready { file, jobs, disabled } => {
                ("ready", json!({ "file": file, "jobs": jobs, "disabled": disabled }))
            }
            Self::Reloaded { added, changed, removed, unchanged } => (
                "reloaded",
                json!({ "added": added, "changed": changed, "removed": removed, "unchanged": unchanged }),
            ),
            Self::ReloadFailed { report } => ("reload-failed", json!({ "report": report })),
            Self::Draining { why, running } => ("draining", json!({ "why": why, "running": running })),
            Self::Stopping { why, running } => ("stopping", json!({ "why": why, "running": running })),
            Self::Killing { why, running } => ("killing", json!({ "why": why, "running": running })),
            Self::Over { runs, failures } => ("over", json!({ "runs": runs, "failures": failures })),
            Self::Job { job, what } => {
                let (name, mut fields) = what.fields();
                fields["job"] = json!(&**job);
                (name, fields)
            }
        }
    }
}

impl JobWhat {
    fn fields(&self) -> (&'static str, Value) {
        match self {
            Self::Started { run, attempt, pid, lateness } => (
                "started",
                json!({ "run": run, "attempt": attempt, "pid": pid, "lateness_us": micros(*lateness) }),
            ),
            Self::Finished { run, attempt, outcome, took, retry } => {
                let mut fields = json!({
                    "run": run, "attempt": attempt, "took_us": micros(*took), "retry": retry,
                    "outcome": outcome_name(outcome), "ok": outcome.is_success(), "text": outcome.to_string(),
                });
                match outcome {
                    Outcome::Exited(code) => fields["code"] = json!(code),
                    Outcome::Succeeded => fields["code"] = json!(0),
                    Outcome::Signalled(signal) => fields["signal"] = json!(signal),
                    _ => {}
                }
                ("finished", fields)
            }
            Self::Missed { count } => ("missed", json!({ "count": count })),
            Self::LogFailed { error } => ("log-failed", json!({ "error": error })),
            Self::Ended { why } => ("ended", json!({ "why": why })),
            Self::Refused { error } => ("refused", json!({ "error": error })),
        }
    }
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Exited(_) => "failed",
        Outcome::Signalled(_) => "signalled",
        Outcome::TimedOut(_) => "timed-out",
        Outcome::Stopped => "stopped",
        Outcome::NotStarted(_) => "not-started",
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { file, jobs, disabled } => {
                write!(f, "ready: {} from {file}", count(*jobs, "job"))?;
                if *disabled > 0 { write!(f, ", {disabled} not enabled") } else { Ok(()) }
            }
            Self::Reloaded { added, changed, removed, unchanged } => {
                write!(
                    f,
                    "reloaded: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged"
                )
            }
            Self::ReloadFailed { report } => {
                write!(f, "the new schedule is not taken over, the old one goes on:\n{}", report.trim_end())
            }
            Self::Draining { why, running: 0 } => write!(f, "{why}: ending"),
            Self::Draining { why, running } => {
                let jobs = count(*running, "running command");
                write!(f, "{why}: waiting for {jobs}; another signal stops them")
            }
            Self::Stopping { why, running } => {
                write!(f, "{why}: stopping {}", count(*running, "running command"))
            }
            Self::Killing { why, running } => {
                write!(f, "{why}: killing {}", count(*running, "running command"))
            }
            Self::Over { runs, failures } => {
                write!(
                    f,
                    "over: {}, {failures} failed",
                    count(usize::try_from(*runs).unwrap_or(usize::MAX), "run")
                )
            }
            Self::Job { job, what } => write!(f, "{job}: {what}"),
        }
    }
}

impl fmt::Display for JobWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { run, attempt, pid, lateness } => {
                write!(f, "started, run {run}{}, process {pid}, {} late", nth(*attempt), show(*lateness))
            }
            Self::Finished { run, attempt, outcome, took, retry } => {
                write!(f, "{outcome}, run {run}{}, took {}", nth(*attempt), show(*took))?;
                if *retry { f.write_str(", will be tried again") } else { Ok(()) }
            }
            Self::Missed { count: 1 } => f.write_str("1 run was missed"),
            Self::Missed { count } => write!(f, "{count} runs were missed"),
            Self::LogFailed { error } => {
                write!(f, "output is passed on, because it cannot be logged: {error}")
            }
            Self::Ended { why } => write!(f, "will not run again: {why}"),
            Self::Refused { error } => write!(f, "cannot be scheduled: {error}"),
        }
    }
}

fn nth(attempt: u32) -> String {
    if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The local time, to the millisecond.
pub(crate) fn stamp(at: SystemTime) -> String {
    match Timestamp::try_from(at) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        Err(_) => "?".to_owned(),
    }
}

fn utc(at: SystemTime) -> String {
    match Timestamp::try_from(at) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        Err(_) => "?".to_owned(),
    }
}
