//! A future becomes due because it was woken.
//!
//! A future that waits is queued like any other task, for the end of time; a wake moves it to the present. What
//! may happen to a task in the queue may happen to it there: it is listed, counted, cancelled, removed, drained,
//! and kept or ended by the shutdown policy. The protocol of wakes is in [`future`](crate::future).

use std::sync::Arc;

use punctual_engine::{RunState, RunTimes, Tick};

use super::core::{Core, Then};
use super::{Acted, Held, Pool};
use crate::future::Wakes;
use crate::park::Parker;
use crate::series::Due;
use crate::task::{TaskRef, Turn};

impl Held<'_> {
    /// Moves a future that waits to `at`, which has come; nothing if it does not wait.
    fn wake(&mut self, task: &TaskRef, wakes: &Wakes, at: Tick) -> Then {
        if !wakes.is_idle() {
            // Being polled, or about to be: `requeue` finds the wake.
            return Then::default();
        }
        let Some(task) = self.unlink(task.header().key()) else {
            // Over, or in the hands of whoever took it out.
            return Then::default();
        };
        wakes.stir();
        let number = self.next_id().number();
        let (_, wake) = self.insert(task, at, number, true);
        self.attend(wake)
    }
}

impl Core {
    /// Whoever is called for a task that has just been queued, and a new worker if it takes one.
    fn attend(&mut self, wake: Option<Arc<Parker>>) -> Then {
        let comes = wake.is_some() || self.waiting.called() > 0;
        let grow = self.state < RunState::Stop && self.wants_worker(true, comes);
        let spawn = grow.then(|| self.add_worker());
        Then { wake, spawn }
    }
}

impl Pool {
    /// Lets `task` be polled, from `at` on.
    pub(crate) fn wake(self: &Arc<Self>, task: &TaskRef, wakes: &Wakes, at: Tick) {
        let then = self.core.lock().wake(task, wakes, at);
        self.see_to(then);
    }

    /// Takes a future back that somebody else has polled, beginning at `started`, and that is not ready; false if
    /// it is over, or nothing runs here any more, or it is no such future.
    pub(crate) fn readmit(self: &Arc<Self>, task: &TaskRef, turn: Turn, started: Tick) -> bool {
        let header = task.header();
        if !header.is_under_way() {
            return false;
        }
        let run = RunTimes { deadline: turn.deadline, started, ended: self.clock.now() };
        let Some(next) = header.next(run, false) else { return false };
        let mut core = self.core.lock();
        let number = core.number_for(header);
        if !core.requeue(task, number, Due::at(next), run.ended) {
            return false;
        }
        // Unlike a worker that re-queues, the calling thread will not look for itself.
        let wake = core.waiting.call_for_due();
        let then = core.attend(wake);
        drop(core);
        self.see_to(then);
        true
    }

    /// Does what was decided; if that took a thread which could not be had, and no other lives, what is queued
    /// gets one more attempt or ends.
    pub(super) fn see_to(self: &Arc<Self>, then: Then) {
        if self.act(then) == Acted::AskedForThread {
            self.rescue();
        }
    }
}
