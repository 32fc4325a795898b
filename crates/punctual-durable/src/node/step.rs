//! One step of a node, as `mod.rs` tells it: work until there is nothing to do, then set the alarm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use punctual::{Tick, When};

use super::state::Phase;
use super::{MOST_IN_A_ROW, MOST_RESCUED, Node, STORE_BACKOFF, attempt};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::store::Tenure;

/// What steps are tasks of: they do not keep the node alive.
pub(super) fn step(node: &Weak<Node>) {
    if let Some(node) = node.upgrade() {
        node.step();
    }
}

impl Node {
    fn step(self: &Arc<Self>) {
        let now = self.now();
        let mut state = self.lock();
        state.stirred = false;
        // It may be what runs us: then it is spent, and must not be taken for one that is still to come.
        let spent = state.alarm.take_if(|(tick, _)| *tick <= now);
        let (gone, too_soon) = (state.phase == Phase::Gone, now < state.not_before);
        drop(state);
        drop(spent);
        if gone {
            return;
        }
        if !too_soon {
            let result = self.try_work();
            self.take_note(&result);
            self.leave_if_over();
        }
        self.set_alarm();
    }

    pub(super) fn try_work(self: &Arc<Self>) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| self.work())) {
            Ok(result) => result,
            Err(panic) => Err(Error::broken(format!("the store panicked: {}", attempt::message(panic)))),
        }
    }

    pub(super) fn take_note(&self, result: &Result<()>) {
        let mut state = self.lock();
        match result {
            Ok(()) => state.failures = 0,
            Err(_) => {
                state.failures = state.failures.saturating_add(1);
                state.not_before = self.now().after(STORE_BACKOFF.wait(state.failures));
            }
        }
        drop(state);
        if let Err(error) = result {
            self.tell(&Event::StoreFailed(error));
        }
    }

    /// However slow the store is and however much there is to exchange, everything has its turn.
    fn work(self: &Arc<Self>) -> Result<()> {
        let (mut renewed, mut exchanges) = (false, 0);
        loop {
            let now = self.now();
            let state = self.lock();
            let phase = state.phase;
            // The answer may have come when the next renewal was due.
            renewed = !renewed && now >= state.lease.next_renewal();
            let look = phase == Phase::Active && now >= state.next_look;
            let trim = phase == Phase::Active && now >= state.next_trim;
            drop(state);
            let chore_first = (look || trim) && exchanges >= MOST_IN_A_ROW;
            if renewed {
                // Reports must not wait for a renewal that fails.
                if let Err(error) = self.renew(now) {
                    self.lock().lease.failed(now);
                    self.tell(&Event::StoreFailed(&error));
                }
            } else if let Some(firings) = self.firings(now) {
                self.fire(firings)?;
            } else if !chore_first && let Some((sent, exchange)) = self.plan(now) {
                exchanges += 1;
                self.exchange(sent, exchange)?;
            } else if look {
                exchanges = 0;
                self.give_back(now);
                self.look(now)?;
            } else if trim {
                exchanges = 0;
                self.trim(now)?;
            } else {
                return Ok(());
            }
            let took_until = self.now();
            self.lock().pace.answered(took_until, took_until.since(now));
        }
    }

    fn renew(&self, sent: Tick) -> Result<()> {
        let length = self.lock().lease.length();
        let renewal = self.store.renew(self.id, length)?;
        let now = self.now();
        let mut state = self.lock();
        match renewal.tenure {
            Tenure::Active => state.lease.granted(sent, now),
            Tenure::Standby => state.lease.refused(sent, self.settings.poll),
        }
        let news = state.tenure.replace(renewal.tenure) != Some(renewal.tenure);
        match (state.phase, renewal.tenure) {
            (Phase::Standby, Tenure::Active) => {
                state.phase = Phase::Active;
                state.next_look = Tick::ZERO;
                state.front.suspect_backlog();
            }
            (Phase::Active, Tenure::Standby) => state.phase = Phase::Standby,
            _ => {}
        }
        let active = state.phase == Phase::Active;
        drop(state);
        self.guard();
        if news {
            self.tell(&if renewal.tenure == Tenure::Active { Event::Active } else { Event::Standby });
        }
        renewal.cancels.into_iter().for_each(|id| self.cancel(id));
        // The lease is granted, whatever comes of this: those that are left are rescued after the next renewal.
        if active && let Err(error) = self.rescue() {
            self.tell(&Event::StoreFailed(&error));
        }
        Ok(())
    }

    fn rescue(&self) -> Result<()> {
        loop {
            let rescued = self.store.rescue(self.id, MOST_RESCUED)?;
            for rescue in &rescued {
                self.tell(&Event::Rescued { id: rescue.id, from: rescue.from, state: rescue.state });
            }
            self.watch.hint(rescued.iter().filter(|rescue| rescue.state.is_over()).map(|rescue| rescue.id));
            if !rescued.is_empty() {
                self.lock().front.suspect_backlog();
            }
            if rescued.len() < MOST_RESCUED {
                return Ok(());
            }
        }
    }

    pub(super) fn set_alarm(&self) {
        let (now, store_now) = (self.now(), self.store.now());
        let mut state = self.lock();
        let Some(next) = state.next_step(now, store_now, self.settings.concurrency) else { return };
        if state.alarm.as_ref().is_some_and(|(tick, task)| *tick == next && !task.is_done()) {
            return;
        }
        let old = state.alarm.take();
        drop(state);
        drop(old);
        let weak = self.weak.clone();
        let task = self.control.task(move || step(&weak)).name("step").first(When::At(next)).start();
        if let Ok(task) = task {
            let alarm = (next, task.cancel_on_drop());
            let old = self.lock().alarm.replace(alarm);
            drop(old);
        }
    }
}
