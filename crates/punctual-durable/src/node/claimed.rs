//! Jobs that the store has given us: into the hands of the workers, back out of them, and their reports. Invariants: see
//! `mod.rs`.

use std::sync::Arc;

use punctual::{Tick, When};

use super::attempt::Attempt;
use super::{Held, LONGEST_AHEAD, LONGEST_WAIT, Node, Outgoing, Phase};
use crate::context::{Signal, Stop};
use crate::job::JobRecord;
use crate::registry::Run;
use crate::retry::Backoff;

impl Node {
    /// A job that the store has given us.
    pub(super) fn accept(self: &Arc<Self>, job: JobRecord) {
        let signal = Arc::new(Signal::default());
        if job.cancel_requested {
            signal.raise(Stop::Cancelled);
        }
        let held = Held { fence: job.fence, since: self.now(), signal: Arc::clone(&signal), task: None };
        self.lock().held.insert(job.id, held);
        self.launch(Attempt::new(Arc::clone(self), job, signal));
    }

    /// Gives an attempt to the workers, for its due time.
    pub(super) fn launch(&self, attempt: Attempt) {
        let (id, fence, due) = (attempt.job().id, attempt.job().fence, attempt.job().due);
        // If the store's clock was set back it may be set forward again: look now and then.
        let deadline = self.now().after(due.since(self.store.now()).min(LONGEST_WAIT));
        let name: Arc<str> = attempt.job().kind.as_str().into();
        let task = self.workers.task(move || attempt.run()).name(name).first(When::At(deadline)).start();
        match task {
            Ok(task) => {
                let task = Arc::new(task);
                let mut state = self.lock();
                let held = state.held.get_mut(&id).filter(|held| held.fence == fence);
                // Whoever asked it to stop before could not reach the task.
                let asked = held.is_some_and(|held| {
                    held.task = Some(Arc::clone(&task));
                    held.signal.raised().is_some()
                });
                drop(state);
                if asked {
                    task.interrupt();
                }
            }
            // Shutting down: the attempt is given back as it is dropped.
            Err(refused) => drop(refused),
        }
    }

    /// By 4: what was claimed ahead and has found no thread for a while is not kept from others, nor ahead of what is
    /// more urgent.
    pub(super) fn give_back(&self, now: Tick) {
        let state = self.lock();
        let long = |held: &&Held| now.since(held.since) >= LONGEST_AHEAD;
        let tasks: Vec<_> = state.held.values().filter(long).filter_map(|held| held.task.clone()).collect();
        drop(state);
        // Those that run are not in the queue any more.
        let unstarted: Vec<_> = tasks.iter().filter_map(|task| task.remove()).collect();
        drop(unstarted);
    }

    pub(super) fn may_start(&self) -> bool {
        let now = self.now();
        let state = self.lock();
        matches!(state.phase, Phase::Active | Phase::Draining) && state.lease.is_valid(now)
    }

    pub(super) fn handler(&self, kind: &str) -> Option<(Run, Backoff)> {
        let kind = self.registry.kind(kind)?;
        Some((kind.run.clone()?, kind.options.backoff))
    }

    /// An attempt is over.
    pub(super) fn report(&self, report: Outgoing) {
        let store_now = self.store.now();
        let mut state = self.lock();
        let held = state.held.remove(&report.job.id);
        // Others wait for it: the next occurrence, the next of the chain.
        let job = &report.job;
        let awaited = job.series.is_some() || !job.then.is_empty() || !report.follow_ups.is_empty();
        state.outbox.push(report);
        let waits = !awaited && state.may_wait(store_now, self.settings.concurrency);
        drop(state);
        drop(held);
        if !waits {
            self.stir();
        }
    }
}
