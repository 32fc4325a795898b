//! What a node believes of the near future, and what it asks the store for next.
//!
//! Plain data, no clock, no threads. Tickets are hints (see `store/mod.rs`): a wrong one costs a claim that fails.
//!
//! # Invariants
//! 1. `tickets` and `dues` hold the same jobs; of each the newest version that was seen.
//! 2. While `backlog` is set there may be overdue jobs that no ticket speaks of. It is cleared only by a sweep that
//!    found less than it was to take.
//! 3. Every plan that asks for something removes a ticket or sweeps. So planning ends.
//!
//! # Protocol
//! Tickets that come due soon are claimed one by one, a little early, as long as there is room for all: so each starts
//! at its very instant. If there is not, those overdue are forgotten and swept instead: then the store chooses among
//! all that is due, by lane and due time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::job::JobId;
use crate::store::Ticket;
use crate::time::Timestamp;

/// Tickets that a node remembers. Beyond that, later ones are found when they are nearer.
const MOST: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Front {
    tickets: BTreeMap<(Timestamp, JobId), Ticket>,
    dues: HashMap<JobId, (Timestamp, i64)>,
    backlog: bool,
    /// At the last exchange something was left because its queue was full.
    crowded: bool,
}

/// What to ask the store for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) claims: Vec<Ticket>,
    pub(super) sweep: usize,
}

impl Front {
    /// Remembers a ticket; says whether it is due before all others.
    pub(super) fn add(&mut self, ticket: Ticket) -> bool {
        if let Some((due, version)) = self.dues.get(&ticket.id).copied() {
            if version >= ticket.version {
                return false;
            }
            self.tickets.remove(&(due, ticket.id));
        }
        self.tickets.insert((ticket.due, ticket.id), ticket);
        self.dues.insert(ticket.id, (ticket.due, ticket.version));
        if self.tickets.len() > MOST
            && let Some((_, last)) = self.tickets.pop_last()
        {
            self.dues.remove(&last.id);
        }
        self.next_due().is_none_or(|first| ticket.due <= first)
    }

    /// What to ask for at `now`, for jobs due within `lead`, with room for `room`. `reporting`: whether the same
    /// exchange also says that jobs are over.
    pub(super) fn plan(&mut self, now: Timestamp, lead: Duration, room: usize, reporting: bool) -> Plan {
        self.backlog |= reporting && self.crowded;
        if room == 0 {
            return Plan::default();
        }
        // Whoever calls the store anyway asks for twice as far: so dense jobs share calls.
        let calls = reporting || self.next_due().is_some_and(|due| due <= now.after(lead));
        let soon = (now.after(if calls { lead * 2 } else { lead }), JobId::from_i64(i64::MAX));
        let near: Vec<Ticket> =
            self.tickets.range(..=soon).take(room.saturating_add(1)).map(|(_, ticket)| *ticket).collect();
        let mut claims = near;
        if claims.len() > room {
            let overdue: Vec<(Timestamp, JobId)> =
                self.tickets.range(..=(now, JobId::from_i64(i64::MAX))).map(|(key, _)| *key).collect();
            if overdue.is_empty() {
                claims.truncate(room);
            } else {
                self.backlog = true;
                overdue.into_iter().for_each(|key| self.forget(key));
                claims.clear();
            }
        }
        claims.iter().for_each(|ticket| self.forget((ticket.due, ticket.id)));
        let sweep = if self.backlog { room - claims.len() } else { 0 };
        Plan { claims, sweep }
    }

    fn forget(&mut self, key: (Timestamp, JobId)) {
        self.tickets.remove(&key);
        self.dues.remove(&key.1);
    }

    /// What an exchange that claimed something, or tried to, has shown.
    pub(super) fn learn(&mut self, swept: bool, drained: bool, crowded: bool) {
        self.crowded = crowded;
        if swept && drained {
            self.backlog = false;
        }
    }

    /// There may be more than the tickets tell.
    pub(super) fn suspect_backlog(&mut self) {
        self.backlog = true;
    }

    /// Whether a job waits for another of its queue to be over.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.backlog
    }

    /// When the first ticket is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.tickets.first_key_value().map(|((due, _), _)| *due)
    }

    #[cfg(test)]
    fn verify(&self) {
        assert_eq!(self.tickets.len(), self.dues.len(), "invariant 1");
        for ((due, id), ticket) in &self.tickets {
            assert_eq!((*due, *id), (ticket.due, ticket.id), "invariant 1");
            assert_eq!(self.dues[id], (*due, ticket.version), "invariant 1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Lane;

    const LEAD: Duration = Duration::from_micros(5);

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn ticket(id: i64, version: i64, due: i64) -> Ticket {
        Ticket { id: JobId::from_i64(id), version, due: at(due), lane: Lane::Normal }
    }

    #[test]
    fn what_comes_due_soon_is_claimed_and_the_rest_stays() {
        let mut front = Front::default();
        for ticket in [ticket(1, 1, 15), ticket(2, 1, 20), ticket(3, 1, 21)] {
            front.add(ticket);
        }
        assert_eq!(front.plan(at(9), LEAD, 9, false), Plan::default(), "a microsecond too soon");
        let plan = front.plan(at(10), LEAD, 9, false);
        assert_eq!(plan, Plan { claims: vec![ticket(1, 1, 15), ticket(2, 1, 20)], sweep: 0 });
        assert_eq!(front.next_due(), Some(at(21)));
        assert!(front.plan(at(10), LEAD, 9, false) == Plan::default(), "nothing is asked for twice");
        front.verify();
    }

    #[test]
    fn claims_ride_along_with_reports() {
        let mut front = Front::default();
        front.add(ticket(1, 1, 20));
        assert_eq!(front.plan(at(10), LEAD, 9, false), Plan::default());
        assert_eq!(front.plan(at(10), LEAD, 9, true).claims, [ticket(1, 1, 20)]);
    }

    #[test]
    fn the_newest_version_replaces_the_others() {
        let mut front = Front::default();
        front.add(ticket(1, 2, 50));
        front.add(ticket(1, 1, 10));
        front.add(ticket(1, 2, 11));
        assert_eq!(front.next_due(), Some(at(50)));
        front.add(ticket(1, 3, 20));
        assert_eq!(front.next_due(), Some(at(20)));
        front.verify();
    }

    #[test]
    fn when_not_all_that_is_due_fits_the_store_chooses() {
        let mut front = Front::default();
        for id in 1..=3 {
            front.add(ticket(id, 1, id));
        }
        front.add(ticket(4, 1, 12));
        let plan = front.plan(at(10), LEAD, 2, false);
        assert_eq!(plan, Plan { claims: vec![], sweep: 2 });
        assert_eq!(front.next_due(), Some(at(12)));
        front.learn(true, false, false);
        assert_eq!(front.plan(at(10), LEAD, 2, false).sweep, 1, "one place is the ticket's");
        front.learn(true, true, false);
        assert_eq!(front.plan(at(10), LEAD, 2, false), Plan::default());
        front.verify();
    }

    #[test]
    fn more_than_fit_but_none_due_yet_are_claimed_in_order() {
        let mut front = Front::default();
        for id in 1..=3 {
            front.add(ticket(id, 1, 10 + id));
        }
        let plan = front.plan(at(10), LEAD, 2, false);
        assert_eq!(plan, Plan { claims: vec![ticket(1, 1, 11), ticket(2, 1, 12)], sweep: 0 });
        assert_eq!(front.plan(at(10), LEAD, 0, false), Plan::default());
    }

    #[test]
    fn a_crowded_queue_is_swept_with_the_next_report_and_not_before() {
        let mut front = Front::default();
        front.learn(false, true, true);
        assert_eq!(front.plan(at(10), LEAD, 4, false), Plan::default());
        assert_eq!(front.plan(at(10), LEAD, 4, true).sweep, 4);
        front.learn(true, true, false);
        assert_eq!(front.plan(at(10), LEAD, 4, true), Plan::default());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_nearest_stay() {
        let mut front = Front::default();
        let count = i64::try_from(MOST).unwrap() + 10;
        for id in (1..=count).rev() {
            front.add(ticket(id, 1, id));
        }
        assert_eq!((front.tickets.len(), front.next_due()), (MOST, Some(at(1))));
        front.verify();
    }
}
