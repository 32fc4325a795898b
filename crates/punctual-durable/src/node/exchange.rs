//! One exchange with the store: verdicts in, jobs out; and what becomes of it if it fails. Invariants: see `mod.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use punctual::Tick;

use super::front::{Plan, Room};
use super::outbox::Load;
use super::{COUNT_EVERY, Node, Outgoing, Phase, State, panic_message};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::{JobState, OnLost};
use crate::journal::Update;
use crate::store::{Exchange, Exchanged, Recorded, Report, Ticket, Verdict, is_suspect};
use crate::tally::Ending;
use crate::time::Timestamp;

/// What an exchange carries that must not be lost if it fails.
pub(super) struct Sent {
    reports: Vec<Outgoing>,
    load: Load,
    updates: Vec<Update>,
    /// Whether it tells what the node has counted.
    counts: bool,
}

impl Node {
    /// What the next exchange is to carry, if there is anything.
    pub(super) fn plan(&self, now: Tick) -> Option<(Sent, Exchange)> {
        let store_now = self.store.now();
        let mut state = self.lock();
        let active = state.phase == Phase::Active && state.lease.is_valid(now);
        let (load, reporting) = state.outbox.load(now, state.phase != Phase::Active);
        let room = match load {
            // Where the exchange succeeds these are no longer ours, and where it fails nothing is claimed.
            Load::Batch(count) if active => state.room_after(self.settings.concurrency, count),
            Load::Batch(_) | Load::Lone => Room { due: 0, early: 0 },
        };
        let lead = state.lead();
        let Plan { claims, sweep } = state.front.plan(store_now, lead, room, reporting);
        let leaving = state.phase == Phase::Draining;
        let tell = !state.heard.is_empty() && (leaving || now >= state.tell_by);
        let count_now = state.counter.has_news() && (leaving || now >= state.count_by);
        if !reporting && claims.is_empty() && sweep == 0 && !tell && !count_now {
            return None;
        }
        // All of it, so that no report overtakes what was said before it.
        let updates: Vec<Update> = std::mem::take(&mut state.heard).into_values().collect();
        state.tell_by = Tick::MAX;
        let reports = state.outbox.take(&load);
        let report = |out: &Outgoing| {
            Report::new(out.job.id, out.job.fence, out.verdict.clone()).follow_ups(out.follow_ups.clone())
        };
        let mut exchange = Exchange::new(Arc::clone(&self.kinds)).claims(claims).sweep(sweep);
        exchange.reports = reports.iter().map(report).collect();
        exchange.updates.clone_from(&updates);
        if count_now {
            state.count_by = now.after(COUNT_EVERY);
            exchange.tallies = state.counter.tell(store_now);
        }
        if state.disown {
            // What waits to be reported is still ours.
            let ours = state.held.keys().copied().chain(state.outbox.ids());
            exchange = exchange.disown_all_but(ours.collect());
        }
        Some((Sent { reports, load, updates, counts: count_now }, exchange))
    }

    pub(super) fn exchange(self: &Arc<Self>, sent: Sent, exchange: Exchange) -> Result<()> {
        let (started, swept) = (self.now(), exchange.sweep > 0);
        let claiming = swept || !exchange.claims.is_empty();
        match catch_unwind(AssertUnwindSafe(|| self.store.exchange(self.id, exchange))) {
            Ok(Ok(answer)) => {
                let took = self.now().since(started);
                self.settle(sent, answer, took, claiming, swept);
                Ok(())
            }
            Ok(Err(error)) => {
                self.put_back(sent, &error, started);
                Err(error)
            }
            Err(panic) => {
                let error = Error::broken(format!("the store panicked: {}", panic_message(panic)));
                self.put_back(sent, &error, started);
                Err(error)
            }
        }
    }

    /// By 2.
    fn put_back(&self, sent: Sent, error: &Error, started: Tick) {
        let Sent { reports: mut sent, load, updates, counts } = sent;
        let now = self.now();
        let mut state = self.lock();
        state.disown = true;
        state.front.suspect_backlog();
        let mut given_up = None;
        if error.is_transient() {
            let later = std::mem::take(&mut state.heard);
            updates.into_iter().chain(later.into_values()).for_each(|update| state.add_heard(update));
            if !state.heard.is_empty() {
                state.tell_by = Tick::ZERO;
            }
            if counts {
                state.counter.untold();
            }
            let again = state.failures > 0;
            state.outbox.failed(sent, &load, again, now, now.since(started));
        } else if updates.is_empty() && !counts {
            if let [_] = sent.as_slice() {
                let (leaving, took) = (state.phase == Phase::Draining, now.since(started));
                let refused = sent.pop().and_then(|out| state.outbox.refused(out, leaving, now, took));
                given_up = refused.and_then(|mut out| {
                    if !out.must_be_recorded() {
                        return Some(out);
                    }
                    // The least is said of it that ends it; and until that is taken it is ours.
                    let error = format!("what became of it could not be recorded: {error}");
                    out.verdict = Verdict::Fail { error };
                    out.follow_ups.clear();
                    state.outbox.set_aside([out], now, took);
                    None
                });
            }
            let half = sent.len() / 2;
            state.outbox.put_back(sent, Some(half));
        } else {
            // It may be what was said or counted that the store refuses: it is dropped, and all reports are tried again.
            state.outbox.put_back(sent, None);
        }
        drop(state);
        if let Some(Outgoing { job, .. }) = given_up {
            self.tell(&Event::Unrecorded { id: job.id, kind: &job.kind, error });
        }
    }

    pub(super) fn settle(
        self: &Arc<Self>,
        sent: Sent,
        answer: Exchanged,
        took: Duration,
        claiming: bool,
        swept: bool,
    ) {
        let Sent { reports: sent, counts, .. } = sent;
        let (now, store_now) = (self.now(), self.store.now());
        let mut state = self.lock();
        state.disown = false;
        state.outbox.sent();
        if counts {
            state.counter.told();
        }
        if !state.counter.has_news() {
            state.count_by = state.count_by.max(now.after(COUNT_EVERY));
        }
        let released = sent.iter().filter(|out| out.verdict == Verdict::Release).count();
        let deferred = sent.iter().filter(|out| matches!(out.verdict, Verdict::Defer { .. })).count();
        let finished = sent.len() - released - deferred;
        if released > 0 {
            state.pace.overreached();
        }
        state.pace.exchanged(now, took, finished);
        if claiming {
            state.front.learn(swept, answer.drained, answer.crowded);
        }
        for (out, recorded) in sent.iter().zip(&answer.recorded) {
            state.count(out, *recorded, store_now);
            if let Recorded::Waits(due) = recorded {
                let (id, lane) = (out.job.id, out.job.lane);
                state.front.add(Ticket { id, version: out.job.version.saturating_add(1), due: *due, lane });
            } else if out.job.series.is_some() {
                // Its schedule may have got a next time, or made another job.
                state.next_look = Tick::ZERO;
            }
        }
        for ticket in answer.followed {
            state.front.add(ticket);
        }
        let alone = !answer.claimed.iter().any(is_suspect);
        let cleared = if alone { state.leave_custody() } else { None };
        drop(state);
        for (out, recorded) in sent.iter().zip(&answer.recorded) {
            self.tell_recorded(out, *recorded);
        }
        let over =
            sent.iter().zip(&answer.recorded).filter(|(_, recorded)| matches!(recorded, Recorded::Over(_)));
        self.watch.hint(over.map(|(out, _)| out.job.id));
        if let Some(attempt) = cleared {
            self.relaunch(attempt);
        }
        self.accept(answer.claimed);
    }

    pub(super) fn tell_recorded(&self, out: &Outgoing, recorded: Recorded) {
        let id = out.job.id;
        match recorded {
            Recorded::Over(_) | Recorded::Waits(_) => {
                let state = if let Recorded::Over(state) = recorded { state } else { JobState::Scheduled };
                let error = match &out.verdict {
                    Verdict::Retry { error, .. } | Verdict::Fail { error } => Some(error.as_str()),
                    _ => None,
                };
                self.tell(&Event::Recorded { id, kind: &out.job.kind, state, error });
            }
            Recorded::Already => {}
            Recorded::Stale => self.tell(&Event::Stale { id }),
        }
    }
}

impl Outgoing {
    /// Whether its job, disowned, would be run again though it must not.
    fn must_be_recorded(&self) -> bool {
        let has_begun = !matches!(self.verdict, Verdict::Release | Verdict::Defer { .. });
        has_begun && self.job.limits.on_lost == OnLost::Fail
    }
}

impl State {
    /// Counts an attempt whose end has been recorded.
    fn count(&mut self, out: &Outgoing, recorded: Recorded, now: Timestamp) {
        let ending = match (recorded, &out.verdict) {
            (Recorded::Already | Recorded::Stale, _) | (_, Verdict::Release | Verdict::Defer { .. }) => {
                return;
            }
            (Recorded::Over(JobState::Done), _) => Ending::Done,
            (Recorded::Over(JobState::Discarded), _) => Ending::Discarded,
            (Recorded::Over(JobState::Cancelled), _) => Ending::Cancelled,
            (Recorded::Over(_), _) => Ending::Dead,
            (Recorded::Waits(_), Verdict::Snooze { .. }) => Ending::Snoozed,
            (Recorded::Waits(_), _) => Ending::Retried,
        };
        if let Some((late, ran)) = out.run {
            self.counter.run(now, &out.job.kind, ending, late, ran);
        }
        if let Verdict::Retry { error, .. } | Verdict::Fail { error } = &out.verdict {
            self.counter.error(now, &out.job.kind, error);
        }
    }
}
