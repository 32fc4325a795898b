//! Jobs that the store has given us: into the hands of the workers, back out of them, and their reports. Invariants: see
//! `mod.rs`.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Sleep, TaskHandle, Tick, When};

use super::attempt::Attempt;
use super::flight::Flight;
use super::{Held, LONGEST_AHEAD, LONGEST_UNREPORTED, LONGEST_WAIT, Node, Outgoing, Phase};
use crate::job::{Fence, JobId, JobRecord};
use crate::registry::{KindOptions, Run};
use crate::signal::{Signal, Stop};

impl Node {
    /// A job that the store has given us.
    pub(super) fn accept(self: &Arc<Self>, job: JobRecord) {
        let signal = Arc::new(Signal::default());
        if job.cancel_requested {
            signal.raise(Stop::Cancelled);
        }
        let wait = job.due.since(self.store.now());
        let early = !wait.is_zero();
        let held = Held {
            fence: job.fence,
            since: self.now().after(wait),
            early,
            signal: Arc::clone(&signal),
            task: None,
            flying: false,
        };
        let mut state = self.lock();
        // After a lease that lapsed, an attempt may still run here that nobody counts on any more.
        let old = state.held.insert(job.id, held);
        state.discount(old.as_ref());
        state.early += usize::from(early);
        drop(state);
        drop(old);
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
            Ok(task) => self.attach(id, fence, task, false),
            // Shutting down: the attempt is given back as it is dropped.
            Err(refused) => drop(refused),
        }
    }

    /// From now on the job is stopped through this task, unless it has got further meanwhile: then that of its launch is
    /// over, and must not take the place of its `flight`.
    fn attach(&self, id: JobId, fence: Fence, task: TaskHandle<()>, flight: bool) {
        let task = Arc::new(task);
        let mut state = self.lock();
        let held = state.held.get_mut(&id).filter(|held| held.fence == fence && held.flying == flight);
        // Whoever asked it to stop before could not reach the task.
        let (asked, old) = held.map_or((false, None), |held| {
            (held.signal.raised().is_some(), held.task.replace(Arc::clone(&task)))
        });
        drop(state);
        drop(old);
        if asked {
            task.interrupt();
        }
    }

    /// Counts an async handler among those under way, so that the place that it took is free; false if there are too
    /// many. (What is claimed ahead is claimed for threads, and nobody knew what it would be.)
    pub(super) fn take_off(&self, id: JobId, fence: Fence) -> bool {
        let threads = self.settings.concurrency;
        let mut state = self.lock();
        let most = threads.saturating_add(self.settings.async_limit);
        let (full, room) = (state.flying >= most, state.room(threads).due);
        let Some(held) = state.held.get_mut(&id).filter(|held| held.fence == fence && !full) else {
            return false;
        };
        held.flying = true;
        let task = held.task.take();
        state.flying += 1;
        let freed = room == 0 && state.room(threads).due > 0;
        drop(state);
        drop(task);
        if freed {
            self.stir();
        }
        true
    }

    /// Gives an async handler that has taken off to the workers; see `flight.rs`.
    pub(super) fn fly(&self, id: JobId, fence: Fence, flight: Flight, cooperative: bool) {
        match self.workers.spawn(flight) {
            // A cooperative one is only told.
            Ok(task) if cooperative => drop(task),
            Ok(task) => self.attach(id, fence, task, true),
            Err(refused) => drop(refused),
        }
    }

    /// For async handlers that wait.
    pub(crate) fn timer(&self, time: Duration) -> Sleep {
        self.timers.sleep(time)
    }

    /// By 4: what was claimed ahead and has found no thread for a while is not kept from others, nor ahead of what is
    /// more urgent.
    pub(super) fn give_back(&self, now: Tick) {
        let state = self.lock();
        let long = |held: &&Held| !held.flying && now.since(held.since) >= LONGEST_AHEAD;
        let tasks: Vec<_> = state.held.values().filter(long).filter_map(|held| held.task.clone()).collect();
        drop(state);
        // Those that run are not in the queue any more.
        let unstarted: Vec<_> = tasks.iter().filter_map(|task| task.remove()).collect();
        drop(unstarted);
    }

    /// Its instant has come: whether the attempt may begin.
    pub(super) fn may_start(&self, id: JobId, fence: Fence) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let held = state.held.get_mut(&id).filter(|held| held.fence == fence);
        let was_early = held.is_some_and(|held| std::mem::take(&mut held.early));
        state.early -= usize::from(was_early);
        matches!(state.phase, Phase::Active | Phase::Draining) && state.lease.is_valid(now)
    }

    pub(super) fn handler(&self, kind: &str) -> Option<(Run, &KindOptions)> {
        let kind = self.registry.kind(kind)?;
        Some((kind.run.clone()?, &kind.options))
    }

    /// An attempt is over.
    pub(super) fn report(&self, report: Outgoing) {
        let (now, store_now) = (self.now(), self.store.now());
        let mut state = self.lock();
        let mine = state.held.get(&report.job.id).is_some_and(|held| held.fence == report.job.fence);
        let held = if mine { state.held.remove(&report.job.id) } else { None };
        state.discount(held.as_ref());
        // Others wait for it: the next occurrence, the next of the chain.
        let job = &report.job;
        let awaited = job.series.is_some() || !job.then.is_empty() || !report.follow_ups.is_empty();
        state.outbox.push(report);
        let waits = !awaited && state.may_wait(store_now, self.settings.concurrency);
        let by = if waits { now.after(LONGEST_UNREPORTED) } else { Tick::ZERO };
        state.report_by = state.report_by.min(by);
        // Otherwise a step comes in time.
        let in_time = waits && state.alarm.as_ref().is_some_and(|(tick, _)| *tick <= state.report_by);
        drop(state);
        drop(held);
        if !in_time {
            self.stir();
        }
    }
}
