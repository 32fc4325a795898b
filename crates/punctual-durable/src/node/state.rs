//! What a node knows at a moment, behind its one lock, and what follows from it. Invariants: see `mod.rs`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use punctual::{CancelOnDrop, TaskHandle, Tick};

use super::Node;
use super::attempt::Attempt;
use super::front::{Front, Room};
use super::lease::Lease;
use super::outbox::Outbox;
use super::pace::Pace;
use crate::job::{Fence, JobId, JobRecord, NewJob};
use crate::journal::Update;
use crate::schedule::ScheduleRecord;
use crate::signal::Signal;
use crate::store::{Tenure, Verdict};
use crate::tally::Counter;
use crate::time::Timestamp;

/// Guarded by `Node::state`.
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) lease: Lease,
    /// The store's last answer to a renewal.
    pub(super) tenure: Option<Tenure>,
    pub(super) front: Front,
    /// Those that were due soon at the last look.
    pub(super) schedules: Vec<ScheduleRecord>,
    pub(super) held: HashMap<JobId, Held>,
    /// One of them, which is not begun yet; see `custody.rs`.
    pub(super) custody: Option<Attempt>,
    /// How many of them wait for their instant.
    pub(super) early: usize,
    /// How many of them are async handlers under way, and how many of those hold no place.
    pub(super) flying: usize,
    pub(super) async_limit: usize,
    pub(super) outbox: Outbox,
    /// What attempts have said, and when it is to be sent at the latest.
    pub(super) heard: HashMap<(JobId, Fence), Update>,
    pub(super) tell_by: Tick,
    /// What has happened, in numbers, and when that is to be sent at the latest.
    pub(super) counter: Counter,
    pub(super) count_by: Tick,
    /// Whether the store may have given us jobs that we do not know of.
    pub(super) disown: bool,
    pub(super) pace: Pace,
    pub(super) next_look: Tick,
    pub(super) next_trim: Tick,
    /// Failures of the store in a row, and when to try again.
    pub(super) failures: u32,
    pub(super) not_before: Tick,
    /// Whether a step has been asked for and has not begun.
    pub(super) stirred: bool,
    pub(super) alarm: Option<(Tick, CancelOnDrop<()>)>,
    /// See `guard.rs`.
    pub(super) guard: Option<CancelOnDrop<()>>,
    /// The node itself, from when it is to leave with the last report until it has: nobody else may be holding it.
    pub(super) closing: Option<Arc<Node>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Not yet, or not any more, allowed to claim.
    Standby,
    Active,
    /// Shutting down: claims nothing more, reports what is left.
    Draining,
    /// Has left the store.
    Gone,
}

pub(super) struct Held {
    pub(super) fence: Fence,
    /// The term of the lease that it was claimed in.
    pub(super) term: u64,
    pub(super) exclusive: bool,
    /// Whether it may be a poison pill; see `custody.rs`.
    pub(super) suspect: bool,
    /// Since when it could have begun.
    pub(super) since: Tick,
    /// Whether it still waits for its instant.
    pub(super) early: bool,
    pub(super) signal: Arc<Signal>,
    /// `None` until it has been given to the workers.
    pub(super) task: Option<Arc<TaskHandle<()>>>,
    /// Whether it is an async handler under way.
    pub(super) flying: bool,
}

/// A report on its way.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) job: Arc<JobRecord>,
    pub(super) verdict: Verdict,
    /// What is to follow, if it is done.
    pub(super) follow_ups: Vec<NewJob>,
    /// How late the handler was called and how long it ran, if it was.
    pub(super) run: Option<(Duration, Duration)>,
    /// How many exchanges had succeeded when the store refused this one for good; see `outbox.rs`.
    pub(super) refused: Option<u64>,
}

impl State {
    /// By 4.
    pub(super) fn room(&self, threads: usize) -> Room {
        self.room_after(threads, 0)
    }

    /// The same when so many reports have been taken.
    pub(super) fn room_after(&self, threads: usize, reports: usize) -> Room {
        let begun = (self.held.len() - self.flying.min(self.async_limit)).saturating_sub(self.early);
        let taken = begun + self.outbox.burden().saturating_sub(reports);
        // Where every thread is taken, who knows until when.
        let early = if begun < threads { self.pace.early() } else { self.pace.ahead() };
        Room {
            due: threads.saturating_add(self.pace.ahead()).saturating_sub(taken),
            early: threads.saturating_add(early).saturating_sub(taken + self.early),
        }
    }

    /// What is not held any more does not count any more.
    pub(super) fn discount(&mut self, held: Option<&Held>) {
        self.flying -= usize::from(held.is_some_and(|held| held.flying));
        self.early -= usize::from(held.is_some_and(|held| held.early));
    }

    /// What was heard before comes first.
    pub(super) fn add_heard(&mut self, update: Update) {
        match self.heard.entry((update.id, update.fence)) {
            Entry::Occupied(entry) => entry.into_mut().add(update),
            Entry::Vacant(entry) => drop(entry.insert(update)),
        }
    }

    /// How long before its due time a job is claimed.
    pub(super) fn lead(&self) -> Duration {
        self.pace.lead()
    }

    /// The same for the occurrences of schedules, which must first become jobs.
    pub(super) fn lead_of_schedules(&self) -> Duration {
        self.lead() * 2
    }

    /// Whether reports may wait for others: if there will be some, because the next job is near, and nothing else waits
    /// for them. So jobs that come densely share calls.
    pub(super) fn may_wait(&self, store_now: Timestamp, threads: usize) -> bool {
        let near = store_now.after(self.lead() * 3);
        self.phase == Phase::Active
            && self.room(threads).due > 0
            && !self.front.is_crowded()
            && self.front.next_due().is_some_and(|due| due <= near)
    }

    /// When the next step is to run, if nobody stirs before.
    pub(super) fn next_step(&self, now: Tick, store_now: Timestamp, threads: usize) -> Option<Tick> {
        let mut next = match self.phase {
            Phase::Gone => return None,
            Phase::Standby | Phase::Draining => self.lease.next_renewal(),
            Phase::Active => self.lease.next_renewal().min(self.next_look).min(self.next_trim),
        };
        // Without a lease there is nothing to do but to renew it.
        let active = self.phase == Phase::Active && self.lease.is_valid(now);
        let lead = self.lead_of_schedules();
        if active && let Some(first) = self.schedules.iter().filter_map(|record| record.fire_from(lead)).min()
        {
            next = next.min(now.after(first.since(store_now)));
        }
        if active {
            let room = self.room(threads);
            // When it may be claimed: while there is no room for it early, not before it is due.
            let at = self.front.next_due().and_then(|due| match due <= store_now {
                false if room.early > 0 => Some(due.since(store_now.after(self.lead()))),
                _ => (room.due > 0).then(|| due.since(store_now)),
            });
            next = at.map_or(next, |wait| next.min(now.after(wait)));
            if self.front.has_backlog() && room.due > 0 {
                next = next.min(now);
            }
        }
        next = next.min(self.outbox.next(self.phase != Phase::Active)).min(self.tell_by);
        if self.counter.has_news() {
            next = next.min(self.count_by);
        }
        let next = next.max(self.not_before);
        (next < Tick::MAX).then_some(next)
    }
}
