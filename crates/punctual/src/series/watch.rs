//! What watches over a run: its timeout, and the next run that is to replace it.
//!
//! Both are entries in the pool for limits, whose thread is never busy with runs ([`timeout`](crate::timeout)). They
//! name the run by its serial number. The series knows the number of the run going on; one that finds another there
//! has come too late and does nothing. Flag and number are seen together, under the series' lock, so no run is asked
//! to stop for what the one before it did; whoever waits inside the body is woken after unlocking.
//!
//! A run that is a future lasts from its first poll to its end, and between its polls no thread has it. What watches over
//! it is kept by the series meanwhile ([`Watch::keep`]), until the run ends or the body is dropped. To stop it is to make
//! it due: the worker that takes it finds that it was stopped, and drops the future instead of polling it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use punctual_engine::Tick;

use super::{Now, Series};
use crate::error::TaskError;
use crate::handle::CancelOnDrop;
use crate::pool::Pool;
use crate::task::{TaskInfo, TaskRef};
use crate::unwind;

/// The run going on, as its series knows it. Guarded by the series' lock.
#[derive(Default)]
pub(super) struct Going {
    /// Counts runs; odd while one is going on.
    serial: u64,
    stopped: Option<Stopped>,
    overrunning: bool,
    /// Waits for a run that does not stop.
    patience: Option<CancelOnDrop<()>>,
    /// Of a future between two polls.
    limits: Limits,
}

/// The timeout of a run, and the next run that replaces it.
type Limits = [Option<CancelOnDrop<()>>; 2];

/// Why a run was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopped {
    TimedOut,
    Replaced,
}

impl Going {
    fn is_on(&self, serial: u64) -> bool {
        self.serial == serial
    }

    /// The run is over; what comes back is to be dropped unlocked.
    fn end(&mut self) -> Self {
        let serial = self.serial + 1;
        std::mem::replace(self, Self { serial, ..Self::default() })
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    pub(super) fn is_overrunning(&self) -> bool {
        self.overrunning
    }
}

/// While it lives, a run is being watched over.
pub(crate) struct Watch<'a> {
    series: &'a Series,
    task: &'a TaskRef,
    /// `None` if the run goes on without.
    serial: Option<u64>,
    limits: Limits,
}

impl Series {
    /// Begins to watch over a run of `task`. Calls the calendar.
    pub(crate) fn watch<'a>(self: &'a Arc<Self>, pool: &Arc<Pool>, task: &'a TaskRef, now: Now) -> Watch<'a> {
        let serial = {
            let mut state = self.state.lock();
            state.run.serial += 1;
            state.run.serial
        };
        let limit = Limit {
            series: Arc::downgrade(self),
            task: task.clone(),
            pool: Arc::downgrade(pool),
            serial,
            started: now.tick,
        };
        let timeout = self.rules.timeout.and_then(|timeout| {
            let limit = limit.clone();
            pool.limits.arm(pool, now.tick.after(timeout), move || limit.time_out(timeout))
        });
        let replace = self.replaced_at(now).and_then(|tick| {
            pool.limits.arm(pool, tick, move || {
                limit.stop(Stopped::Replaced);
            })
        });
        Watch { series: self, task, serial: Some(serial), limits: [timeout, replace] }
    }

    /// Goes on watching over a run that is a future.
    pub(crate) fn watch_on<'a>(&'a self, task: &'a TaskRef) -> Watch<'a> {
        let mut state = self.state.lock();
        // Nobody watches over one that was first polled outside of the pool.
        state.run.serial |= 1;
        Watch { series: self, task, serial: Some(state.run.serial), limits: Limits::default() }
    }

    /// The body is gone, and with it the run that was under way, if one was.
    pub(crate) fn abandon_run(&self) {
        let mut state = self.state.lock();
        if state.run.serial % 2 == 1 {
            let over = state.run.end();
            drop(state);
            drop(over);
        }
    }

    /// Whether the run going on has been asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().run.stopped.is_some()
    }

    /// When the next run replaces the one that begins now.
    fn replaced_at(&self, now: Now) -> Option<Tick> {
        if !self.rules.overlap.replaces() {
            return None;
        }
        let point = self.state.lock().point;
        // A calendar that panics does so again when it is asked for the next run, and is heard then.
        let seen = now.earlier(self.rules.spread);
        let backlog = unwind::catch(|| self.rules.plan.backlog(point, seen)).ok()?;
        backlog.next.map(|next| now.tick_after(next, self.rules.spread))
    }

    /// Ends the run of that number: whatever watches over it comes too late from now on.
    fn unwatch(&self, task: &TaskRef, serial: u64) {
        let mut state = self.state.lock();
        if !state.run.is_on(serial) {
            return;
        }
        let over = state.run.end();
        if over.stopped.is_some() {
            // The next run has not been asked to stop.
            let _ = task.header().take_interrupt();
        }
        drop(state);
        drop(over);
    }
}

impl Watch<'_> {
    /// The run is not over: it waits to be polled again.
    pub(crate) fn keep(mut self) {
        let Some(serial) = self.serial.take() else { return };
        let mut state = self.series.state.lock();
        // Unless the body has been dropped meanwhile. Later polls have none to keep.
        if state.run.is_on(serial) {
            for (kept, limit) in state.run.limits.iter_mut().zip(&mut self.limits) {
                *kept = limit.take().or_else(|| kept.take());
            }
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(serial) = self.serial {
            self.series.unwatch(self.task, serial);
        }
    }
}

#[derive(Clone)]
struct Limit {
    series: Weak<Series>,
    task: TaskRef,
    pool: Weak<Pool>,
    serial: u64,
    started: Tick,
}

impl Limit {
    /// Asks the run to stop, if it is still going on; says whether.
    fn stop(&self, why: Stopped) -> bool {
        let (Some(series), task) = (self.series.upgrade(), &self.task) else { return false };
        let mut state = series.state.lock();
        let going = state.run.is_on(self.serial);
        if going {
            state.run.stopped.get_or_insert(why);
            task.header().set_interrupted();
        }
        drop(state);
        if going {
            task.nudge();
            if let Some(wakes) = task.header().wakes() {
                wakes.make_due();
            }
        }
        going
    }

    fn time_out(self, timeout: Duration) {
        let Some(pool) = self.pool.upgrade() else { return };
        if !self.stop(Stopped::TimedOut) {
            return;
        }
        let (series, serial) = (self.series.upgrade(), self.serial);
        let at = self.started.after(timeout.saturating_mul(2));
        let mut patience = pool.limits.arm(&pool, at, move || self.overrun());
        if let Some(series) = series {
            let mut state = series.state.lock();
            if state.run.is_on(serial) {
                state.run.patience = patience.take();
            }
        }
        // If the run is over meanwhile, so is the patience with it.
        drop(patience);
    }

    fn overrun(&self) {
        let (Some(series), Some(pool)) = (self.series.upgrade(), self.pool.upgrade()) else { return };
        let mut state = series.state.lock();
        let going = state.run.is_on(self.serial);
        state.run.overrunning |= going;
        drop(state);
        if going {
            let took = pool.clock.now().since(self.started);
            let header = self.task.header();
            let turn = header.turn();
            pool.tell_overrun(TaskInfo::new(header, turn, Some(self.started)), took);
        }
    }
}

impl Series {
    /// The failure of a run that did not panic: that it did not stop in time, or what it said of itself. One that was to
    /// be replaced has done what it was told.
    pub(super) fn failure_of(
        &self,
        noted: Option<&TaskError>,
        stopped: Option<Stopped>,
    ) -> Option<TaskError> {
        match stopped {
            Some(Stopped::TimedOut) => self.rules.timeout.map(TaskError::TimedOut),
            Some(Stopped::Replaced) => None,
            None => noted.cloned(),
        }
    }
}
