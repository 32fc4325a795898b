//! What a node does now and then: look ahead, fire schedules, forget what is long over.

use std::sync::Arc;

use punctual::Tick;

use super::{LEAD, MOST_TICKETS, MOST_TRIMMED, Node, Phase, TRIM_EVERY, TRIM_PAUSE, TRIM_RETRY};
use crate::error::Result;
use crate::schedule::{Firing, ScheduleRecord};
use crate::store::Peek;

impl Node {
    /// Looks ahead, three times as far as it is to the next look: every job is seen at least twice before it is due.
    pub(super) fn look(&self, now: Tick) -> Result<()> {
        let from = self.store.now();
        let until = from.after(self.settings.poll.saturating_mul(3));
        let peek = Peek::new(Arc::clone(&self.kinds), until, MOST_TICKETS).after(from);
        let peeked = self.store.peek(&peek)?;
        let mut schedules = self.store.due_schedules(&self.kinds, until)?;
        // The others are for nodes that know their zone.
        schedules.retain(ScheduleRecord::can_be_told);
        let store_now = self.store.now();
        let mut state = self.lock();
        let seen = peeked.tickets.len();
        state.schedules = schedules;
        if peeked.overdue {
            state.front.suspect_backlog();
        }
        for ticket in peeked.tickets {
            // What we hold was claimed after it was seen.
            if !state.held.contains_key(&ticket.id) {
                state.front.add(ticket);
            }
        }
        let mut next_look = now.after(self.settings.poll);
        if let Some(next) = peeked.next.filter(|next| seen == MOST_TICKETS && *next <= until) {
            // Not all of them fitted: look again before the first of the others, but let some be done.
            let wait = next.since(store_now).saturating_sub(LEAD.1).max(LEAD.0);
            next_look = next_look.min(now.after(wait));
        }
        state.next_look = next_look;
        Ok(())
    }

    /// Forgets jobs that have been over for long, some at a time. If that fails there is no hurry to try again.
    pub(super) fn trim(&self, now: Tick) -> Result<()> {
        self.lock().next_trim = now.after(TRIM_RETRY);
        let before = self.store.now().before(self.settings.retain);
        let trimmed = self.store.trim(before, MOST_TRIMMED)?;
        let wait = if trimmed < MOST_TRIMMED { TRIM_EVERY } else { TRIM_PAUSE };
        self.lock().next_trim = now.after(wait);
        Ok(())
    }

    /// What to do about schedules whose next occurrence is near, if there are any.
    pub(super) fn firings(&self, now: Tick) -> Option<Vec<Firing>> {
        let store_now = self.store.now();
        let mut state = self.lock();
        if state.phase != Phase::Active || !state.lease.is_valid(now) {
            return None;
        }
        let lead = state.lead_of_schedules();
        let until = store_now.after(lead);
        let firings: Vec<Firing> =
            state.schedules.iter().filter_map(|record| record.firing(store_now, until)).collect();
        if firings.is_empty() {
            return None;
        }
        // What they are after that is found by looking.
        state.schedules.retain(|record| record.fire_from(lead).is_none_or(|from| from > store_now));
        state.next_look = Tick::ZERO;
        Some(firings)
    }

    pub(super) fn fire(&self, firings: Vec<Firing>) -> Result<()> {
        let replaces = firings.iter().any(|firing| firing.replaces);
        let tickets = self.store.fire(firings)?;
        let now = self.now();
        let mut state = self.lock();
        if replaces && !state.held.is_empty() {
            // One that was asked to stop may be ours: a renewal says so.
            state.lease.renew_by(now);
        }
        for ticket in tickets {
            state.front.add(ticket);
        }
        Ok(())
    }
}
