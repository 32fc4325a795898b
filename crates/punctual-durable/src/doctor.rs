//! What is wrong with a store, or may soon be.

use std::fmt;
use std::time::Duration;

use crate::client::Client;
use crate::error::Result;
use crate::job::JobState;
use crate::store::Filter;
use crate::time::{SystemTimeSource, TimeSource, Timestamp};

/// How late the first job of a line may be before that is worth telling.
const LATE: Duration = Duration::from_secs(60);
/// How far the clock of the store may be from that of the machine.
const SKEW: Duration = Duration::from_secs(1);

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be, or worth knowing.
    Info,
    /// Somebody should look at it.
    Warning,
    /// Jobs are lost, damaged or out of reach.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something that [`Client::doctor`](crate::Client::doctor) has found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, in a word or two that stay the same.
    pub check: &'static str,
    /// What was found.
    pub message: String,
}

impl Finding {
    /// Something worth knowing.
    #[must_use]
    pub fn info(check: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Info, check, message: message.into() }
    }

    /// Something that somebody should look at.
    #[must_use]
    pub fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, check, message: message.into() }
    }

    /// Something that is lost, damaged or out of reach.
    #[must_use]
    pub fn error(check: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, check, message: message.into() }
    }

    /// A schedule that waits for the end of an occurrence, and there is none.
    pub(crate) fn stands_still(schedule: &str) -> Self {
        let message = format!(
            "the schedule {schedule:?} waits for the end of an occurrence, and none is alive: pause and resume it"
        );
        Self::error("schedules", message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.check, self.message)
    }
}

/// All findings, the worst first.
pub(crate) fn examine(client: &Client) -> Result<Vec<Finding>> {
    let mut findings = client.store().check()?;
    match look(client) {
        Ok(more) => findings.extend(more),
        // Where tables are missing, nobody can look into them: that has been said.
        Err(_) if findings.iter().any(|f| f.severity == Severity::Error && f.check == "schema") => {}
        Err(error) => return Err(error),
    }
    findings.extend(clock(client.store().now(), SystemTimeSource.timestamp()));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// What can be seen with the eyes of any client.
fn look(client: &Client) -> Result<Vec<Finding>> {
    let mut findings = queues(client)?;
    findings.extend(kinds(client)?);
    findings.extend(dead(client)?);
    Ok(findings)
}

fn queues(client: &Client) -> Result<Vec<Finding>> {
    let (lines, now) = (client.store().lines()?, client.store().now());
    let mut findings = Vec::new();
    for queue in client.queues()? {
        let waiting = lines.iter().filter(|line| line.queue == queue.name);
        let Some(first) = waiting.filter_map(|line| line.first_due).min().filter(|first| *first <= now)
        else {
            continue;
        };
        if let Some((since, reason)) = &queue.paused {
            let name = &queue.name;
            let message = format!(
                "{name:?} has been paused since {since} ({reason}), and jobs wait there since {first}"
            );
            findings.push(Finding::warning("paused queue", message));
        } else if queue.limit == Some(0) {
            let message = format!("{:?} has a limit of 0, and jobs wait there since {first}", queue.name);
            findings.push(Finding::warning("closed queue", message));
        }
    }
    Ok(findings)
}

fn kinds(client: &Client) -> Result<Vec<Finding>> {
    let (lines, now) = (client.store().lines()?, client.store().now());
    let paused: Vec<String> = (client.queues()?.into_iter())
        .filter(|queue| queue.paused.is_some() || queue.limit == Some(0))
        .map(|queue| queue.name)
        .collect();
    let mut findings = Vec::new();
    let mut kinds: Vec<&str> = lines.iter().map(|line| line.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let open = lines.iter().filter(|line| line.kind == kind && !paused.contains(&line.queue));
        let Some(first) = open.filter_map(|line| line.first_due).min() else { continue };
        let late = now.since(first);
        if !client.is_run_here(kind) && first <= now {
            let message = format!("jobs of the kind {kind:?} wait since {first}, and nothing here runs them");
            findings.push(Finding::warning("unhandled kind", message));
        } else if client.is_run_here(kind) && late > LATE {
            findings.push(Finding::warning(
                "backlog",
                format!("jobs of the kind {kind:?} wait since {first}, for {} seconds", late.as_secs()),
            ));
        }
    }
    for schedule in client.schedules()? {
        let (name, kind) = (&schedule.definition.name, &schedule.definition.job.kind);
        if let Err(error) = schedule.definition.check() {
            // Its zone is gone, say.
            findings
                .push(Finding::warning("schedules", format!("the schedule {name:?} cannot fire: {error}")));
        }
        if schedule.paused.is_none()
            && !client.is_run_here(kind)
            && schedule.next.is_some_and(|next| next <= now)
        {
            let message =
                format!("the schedule {name:?} makes jobs of the kind {kind:?}, and nothing here fires it");
            findings.push(Finding::warning("unhandled kind", message));
        }
    }
    Ok(findings)
}

fn dead(client: &Client) -> Result<Option<Finding>> {
    const MOST: usize = 1_000;
    let dead = client.find(&Filter::new().state(JobState::Dead).limit(MOST))?.len();
    let count = if dead == MOST { format!("{MOST} or more") } else { dead.to_string() };
    Ok((dead > 0).then(|| {
        Finding::info("dead jobs", format!("{count} have failed for good, and wait for a decision"))
    }))
}

fn clock(store: Timestamp, machine: Timestamp) -> Option<Finding> {
    let skew = store.since(machine).max(machine.since(store));
    (skew > SKEW).then(|| {
        let message = format!("the store has {store}, this machine {machine}");
        Finding::warning("clock", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_a_second_either_way() {
        let second = Timestamp::from_micros(1_000_000);
        assert_eq!(clock(second, Timestamp::EPOCH), None);
        assert_eq!(clock(Timestamp::EPOCH, second), None);
        let later = Timestamp::from_micros(1_000_001);
        assert!(clock(later, Timestamp::EPOCH).is_some() && clock(Timestamp::EPOCH, later).is_some());
    }

    #[test]
    fn the_worst_is_the_greatest() {
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Info);
        assert_eq!(Finding::error("file", "torn").to_string(), "error: file: torn");
    }
}
