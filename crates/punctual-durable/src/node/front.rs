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
//! Tickets that come due soon are claimed one by one, a little early: so each starts at its very instant. If there is no
//! room for all that are overdue, these are forgotten and swept instead: then the store chooses among all that is due, by
//! lane and due time. While it does, what is early has no more room than what is due, and never more than that leaves.

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

/// How many more may be claimed: of those that are due, and in all if some are not yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    pub(super) due: usize,
    pub(super) early: usize,
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
    pub(super) fn plan(&mut self, now: Timestamp, lead: Duration, room: Room, reporting: bool) -> Plan {
        self.backlog |= reporting && self.crowded;
        // Whoever calls the store anyway asks for twice as far: so dense jobs share calls.
        let calls = reporting || self.next_due().is_some_and(|due| due <= now.after(lead));
        let soon = now.after(if calls { lead * 2 } else { lead });
        let mut claims = self.tickets_by(now, room.due.saturating_add(1));
        let mut left = room.early;
        if claims.len() > room.due {
            claims.clear();
            left = 0;
            if room.due > 0 {
                self.backlog = true;
                self.tickets_by(now, usize::MAX)
                    .iter()
                    .for_each(|ticket| self.forget((ticket.due, ticket.id)));
            }
        } else if self.backlog {
            left = left.min(room.due);
        }
        if left > claims.len() {
            // With those that are due, which come first.
            claims = self.tickets_by(soon, left);
        }
        claims.iter().for_each(|ticket| self.forget((ticket.due, ticket.id)));
        let sweep = if self.backlog { room.due.saturating_sub(claims.len()) } else { 0 };
        Plan { claims, sweep }
    }

    /// The first that are due by then, at most `most`.
    fn tickets_by(&self, until: Timestamp, most: usize) -> Vec<Ticket> {
        let until = (until, JobId::from_i64(i64::MAX));
        self.tickets.range(..=until).take(most).map(|(_, ticket)| *ticket).collect()
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

    fn room(both: usize) -> Room {
        Room { due: both, early: both }
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
        assert_eq!(front.plan(at(9), LEAD, room(9), false), Plan::default(), "a microsecond too soon");
        let plan = front.plan(at(10), LEAD, room(9), false);
        assert_eq!(plan, Plan { claims: vec![ticket(1, 1, 15), ticket(2, 1, 20)], sweep: 0 });
        assert_eq!(front.next_due(), Some(at(21)));
        assert!(front.plan(at(10), LEAD, room(9), false) == Plan::default(), "nothing is asked for twice");
        front.verify();
    }

    #[test]
    fn claims_ride_along_with_reports() {
        let mut front = Front::default();
        front.add(ticket(1, 1, 20));
        assert_eq!(front.plan(at(10), LEAD, room(9), false), Plan::default());
        assert_eq!(front.plan(at(10), LEAD, room(9), true).claims, [ticket(1, 1, 20)]);
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
        let plan = front.plan(at(10), LEAD, room(2), false);
        assert_eq!(plan, Plan { claims: vec![], sweep: 2 });
        assert_eq!(front.next_due(), Some(at(12)));
        front.learn(true, false, false);
        assert_eq!(front.plan(at(10), LEAD, room(2), false).sweep, 1, "one place is the ticket's");
        front.learn(true, true, false);
        assert_eq!(front.plan(at(10), LEAD, room(2), false), Plan::default());
        front.verify();
    }

    #[test]
    fn more_than_fit_but_none_due_yet_are_claimed_in_order() {
        let mut front = Front::default();
        for id in 1..=3 {
            front.add(ticket(id, 1, 10 + id));
        }
        let plan = front.plan(at(10), LEAD, room(2), false);
        assert_eq!(plan, Plan { claims: vec![ticket(1, 1, 11), ticket(2, 1, 12)], sweep: 0 });
        assert_eq!(front.plan(at(10), LEAD, room(0), false), Plan::default());
    }

    #[test]
    fn a_crowded_queue_is_swept_with_the_next_report_and_not_before() {
        let mut front = Front::default();
        front.learn(false, true, true);
        assert_eq!(front.plan(at(10), LEAD, room(4), false), Plan::default());
        assert_eq!(front.plan(at(10), LEAD, room(4), true).sweep, 4);
        front.learn(true, true, false);
        assert_eq!(front.plan(at(10), LEAD, room(4), true), Plan::default());
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

    #[test]
    fn what_is_early_and_what_is_due_have_rooms_of_their_own() {
        let mut front = Front::default();
        for id in 1..=4 {
            front.add(ticket(id, 1, 10 + id));
        }
        front.add(ticket(9, 1, 1));
        let plan = front.plan(at(10), LEAD, Room { due: 1, early: 3 }, false);
        assert_eq!(
            plan,
            Plan { claims: vec![ticket(9, 1, 1), ticket(1, 1, 11), ticket(2, 1, 12)], sweep: 0 }
        );
        assert_eq!(front.plan(at(10), LEAD, Room { due: 1, early: 0 }, false), Plan::default());
        front.add(ticket(9, 2, 1));
        let none = front.plan(at(10), LEAD, Room { due: 0, early: 3 }, false);
        assert_eq!(none, Plan::default(), "what is due comes first, and stays until there is room");
        assert_eq!(front.next_due(), Some(at(1)));
        front.verify();
    }

    #[test]
    fn while_the_store_chooses_nothing_early_takes_the_room_of_what_is_due() {
        let mut front = Front::default();
        front.suspect_backlog();
        for id in 1..=9 {
            front.add(ticket(id, 1, 11));
        }
        let plan = front.plan(at(10), LEAD, Room { due: 2, early: 9 }, false);
        assert_eq!((plan.claims.len(), plan.sweep), (2, 0));
        front.learn(true, true, false);
        assert_eq!(front.plan(at(10), LEAD, Room { due: 2, early: 9 }, false).claims.len(), 7);
    }
}
