//! Occurrences that give way to the next one of their schedule; see [`Overlap::Replace`](crate::Overlap::Replace).
//!
//! Jobs are locked before schedules, everywhere. So a firing that replaces others locks them first. When it has the schedule,
//! there may be more (somebody has asked for one, or given a dead one another life), which it must not wait for any more: then
//! it leaves that schedule alone. There cannot be fewer, for what is locked does not end.

use std::collections::HashMap;

use super::follow::{Moves, lock_occurrences};
use super::session::{Answer, Session};
use crate::job::{JobRecord, JobState};
use crate::schedule::Firing;
use crate::time::Timestamp;

/// Living occurrences of schedules that are about to be fired, and what becomes of them.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// Locked.
    by_schedule: HashMap<String, Vec<JobRecord>>,
    /// Those that wait are cancelled.
    moves: Moves,
    /// The owners of these are asked.
    asked: Vec<i64>,
}

impl Rivals {
    /// Locks those that are replaced, if it comes to that.
    pub(super) fn lock(session: &mut Session, firings: &[Firing]) -> Answer<Self> {
        let mut rivals = Self::default();
        let replacing = firings.iter().filter(|firing| firing.replaces);
        let names: Vec<&str> = replacing.map(|firing| firing.name.as_str()).collect();
        if names.is_empty() {
            return Ok(rivals);
        }
        for job in lock_occurrences(session, &names)? {
            if let Some((schedule, _)) = &job.series {
                rivals.by_schedule.entry(schedule.clone()).or_default().push(job);
            }
        }
        Ok(rivals)
    }

    /// Has those of a schedule give way, of which so many are alive now that it is locked. Says how many still are, until
    /// their owners have heard of it; `None` if there are others than those that are locked.
    pub(super) fn give_way(&mut self, schedule: &str, alive: usize) -> Option<usize> {
        let jobs = self.by_schedule.remove(schedule).unwrap_or_default();
        if jobs.len() != alive {
            return None;
        }
        let (claimed, waiting): (Vec<_>, Vec<_>) =
            jobs.iter().partition(|job| job.state == JobState::Claimed);
        waiting.into_iter().for_each(|job| self.moves.replace(job));
        self.asked.extend(claimed.iter().map(|job| job.id.as_i64()));
        Some(claimed.len())
    }

    /// Carries it out.
    pub(super) fn apply(self, session: &mut Session, now: Timestamp) -> Answer<()> {
        if !self.asked.is_empty() {
            session.query("UPDATE punctual.job SET cancel = true WHERE id = ANY ($1)", &[&self.asked])?;
        }
        self.moves.apply(session, now, false)
    }
}
