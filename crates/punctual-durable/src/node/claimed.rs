//! Jobs that the store has given us: into the hands of the workers, back out of them, and their reports. Invariants: see
//! `mod.rs`.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Sleep, TaskHandle, Tick, When};

use super::attempt::Attempt;
use super::custody;
use super::flight::Flight;
use super::{Held, LONGEST_AHEAD, LONGEST_UNREPORTED, LONGEST_WAIT, Node, Outgoing, Phase, TOO_EARLY};
use crate::job::{Fence, JobId, JobRecord};
use crate::registry::{KindOptions, Run};
use crate::signal::{Signal, Stop};
use crate::store::is_suspect;

/// A job that the workers have, and its task.
type Launched = (JobId, Fence, Arc<TaskHandle<()>>);

impl Node {
    /// Jobs that the store has given us.
    pub(super) fn accept(self: &Arc<Self>, jobs: Vec<JobRecord>) {
        let (now, store_now) = (self.now(), self.store.now());
        let mut attempts = Vec::with_capacity(jobs.len());
        let (mut replaced, mut given_back, mut deferred) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = None;
        let mut state = self.lock();
        for job in jobs {
            let signal = Arc::new(Signal::default());
            if job.cancel_requested {
                signal.raise(Stop::Cancelled);
            }
            let wait = job.due.since(store_now);
            if wait > TOO_EARLY {
                given_back.push(Attempt::new(Arc::clone(self), Arc::new(job), signal));
                continue;
            }
            let suspect = is_suspect(&job);
            if suspect && state.has_suspect() {
                deferred.push(Attempt::new(Arc::clone(self), Arc::new(job), signal));
                continue;
            }
            let early = !wait.is_zero();
            let held = Held {
                fence: job.fence,
                term: state.lease.term(),
                exclusive: self.exclusive && self.handler(&job.kind).is_some_and(|(_, kind)| kind.exclusive),
                suspect,
                since: now.after(wait),
                early,
                signal: Arc::clone(&signal),
                task: None,
                flying: false,
            };
            // After a lease that lapsed, an attempt may still run here that nobody counts on any more.
            let old = state.held.insert(job.id, held);
            state.discount(old.as_ref());
            state.early += usize::from(early);
            replaced.extend(old);
            let attempt = Attempt::new(Arc::clone(self), Arc::new(job), signal);
            if suspect { kept = Some(attempt) } else { attempts.push(attempt) }
        }
        if deferred.is_empty() {
            attempts.extend(kept);
        } else if kept.is_some() {
            state.custody = kept;
        }
        let wait = state.deferral(now, deferred.len());
        drop(state);
        drop(replaced);
        drop(given_back);
        deferred.into_iter().for_each(|attempt| attempt.defer(custody::spread(wait)));
        let launched = attempts.into_iter().filter_map(|attempt| self.launch(attempt)).collect();
        self.attach(launched, false);
    }

    /// Gives an attempt to the workers again, for what is left until its due time.
    pub(super) fn relaunch(&self, attempt: Attempt) {
        let launched = self.launch(attempt).into_iter().collect();
        self.attach(launched, false);
    }

    /// Gives an attempt to the workers, for its due time.
    fn launch(&self, attempt: Attempt) -> Option<Launched> {
        let (id, fence, due) = (attempt.job().id, attempt.job().fence, attempt.job().due);
        let now = self.now();
        let wait = due.since(self.store.now());
        let run = move || attempt.run();
        let task = if wait.is_zero() {
            self.workers.submit(run)
        } else {
            // If the store's clock was set back it may be set forward again: look now and then.
            let deadline = now.after(wait.min(LONGEST_WAIT));
            self.workers.task(run).first(When::At(deadline)).start()
        };
        // Refused when shutting down: the attempt is given back as it is dropped.
        task.ok().map(|task| (id, fence, Arc::new(task)))
    }

    /// From now on these jobs are stopped through these tasks, unless they have got further meanwhile: then that of the
    /// launch is over, and must not take the place of a `flight`.
    fn attach(&self, launched: Vec<Launched>, flight: bool) {
        let (mut asked, mut old) = (Vec::new(), Vec::new());
        let mut state = self.lock();
        for (id, fence, task) in launched {
            let held = state.held.get_mut(&id).filter(|held| held.fence == fence && held.flying == flight);
            let Some(held) = held else {
                old.push(task);
                continue;
            };
            // Whoever asked it to stop before could not reach the task.
            if held.signal.raised().is_some() {
                asked.push(Arc::clone(&task));
            }
            old.extend(held.task.replace(task));
        }
        drop(state);
        drop(old);
        for task in asked {
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
            Ok(task) => self.attach(vec![(id, fence, Arc::new(task))], true),
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
        let Some(held) = state.held.get_mut(&id).filter(|held| held.fence == fence) else { return false };
        let (term, was_early) = (held.term, std::mem::take(&mut held.early));
        state.early -= usize::from(was_early);
        let active = matches!(state.phase, Phase::Active | Phase::Draining);
        active && state.lease.is_valid(now) && state.lease.term() == term
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
        let by = state.outbox.send_by(if waits { now.after(LONGEST_UNREPORTED) } else { Tick::ZERO });
        // Otherwise a step comes in time.
        let in_time = waits && state.alarm.as_ref().is_some_and(|(tick, _)| *tick <= by);
        drop(state);
        drop(held);
        if !in_time {
            self.stir();
        }
    }
}
