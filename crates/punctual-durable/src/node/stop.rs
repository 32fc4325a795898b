//! How one job is stopped, and how the whole node is.

use std::sync::Arc;
use std::time::Duration;

use punctual::{CancelOnDrop, TaskHandle, WaitError};

use super::{Held, Node, Phase, State};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::{Fence, JobId};
use crate::signal::Stop;

/// Attempts to reach a store that fails, at once, when the node is shutting down. After them come steps, with pauses.
const LAST_TRIES: u32 = 5;

/// How long a node that is shutting down waits for its store, at least, if that does not answer.
const LAST_PATIENCE: Duration = Duration::from_secs(10);

/// What came of an attempt to leave.
enum Closing {
    Left(Result<()>),
    /// So many handlers run; or what has ended could not be recorded.
    Stays(Result<()>, usize),
}

impl Node {
    /// Asks the attempt of a job to stop; with a fence, only that very one.
    pub(super) fn stop(&self, id: JobId, fence: Option<Fence>, reason: Stop) {
        let state = self.lock();
        let Some(held) = state.held.get(&id).filter(|held| fence.is_none_or(|fence| fence == held.fence))
        else {
            return;
        };
        held.signal.raise(reason);
        let (signal, task) = (Arc::clone(&held.signal), held.task.clone());
        drop(state);
        // One that has not begun, or an async one that waits, is dropped here, and reports; one that runs finds its waits
        // interrupted.
        if let Some(task) = task {
            task.interrupt();
        }
        // What is still there is cooperative, or runs.
        signal.wake();
    }

    /// A timer that stops an attempt which takes too long; dropping it takes it back. It does not wait for control, which may
    /// be what hangs, in a call of the store that does not return.
    pub(super) fn stop_later(&self, timeout: Duration, id: JobId, fence: Fence) -> Option<CancelOnDrop<()>> {
        let weak = self.weak.clone();
        let stop = move || {
            if let Some(node) = weak.upgrade() {
                node.stop(id, Some(fence), Stop::TimedOut);
            }
        };
        self.timers.schedule(timeout, stop).ok().map(TaskHandle::cancel_on_drop)
    }

    /// Claims nothing more, gives back what has not begun, lets what runs go on for `patience`, then asks it to stop
    /// and waits as long again; records everything and leaves the store. What is left of the time it waits for a store
    /// that fails; for one that does not answer, [`LAST_PATIENCE`] at least. Says how many handlers are still running: with
    /// those, or with reports that the store has not taken, the node stays until they have been recorded. (Should it die
    /// before, its lease runs out.)
    ///
    /// May be called again, and by several threads.
    pub(crate) fn shut_down(self: &Arc<Self>, patience: Duration) -> Result<usize> {
        let mut until = self.now().after(patience);
        let mut state = self.lock();
        if state.phase == Phase::Gone {
            return Ok(0);
        }
        state.phase = Phase::Draining;
        let waiting = state.tasks(|held| !held.flying);
        let unbegun = state.custody.take();
        drop(state);
        drop(unbegun);
        // Those that have begun are not in the queue any more, and stay.
        waiting.iter().for_each(|task| drop(task.remove()));
        self.workers.shutdown();
        if !self.workers.await_termination(patience) {
            until = self.now().after(patience);
            let state = self.lock();
            let running = state.tasks(|_| true);
            state.held.values().for_each(|held| held.signal.raise(Stop::Shutdown));
            let signals: Vec<_> = state.held.values().map(|held| Arc::clone(&held.signal)).collect();
            drop(state);
            for task in running {
                task.interrupt();
            }
            signals.iter().for_each(|signal| signal.wake());
            let _ = self.workers.await_termination(patience);
        }
        let node = Arc::clone(self);
        // Refused if it has left meanwhile.
        let Ok(last) = self.control.submit(move || node.close()) else { return Ok(0) };
        match last.join_timeout(until.since(self.now()).max(LAST_PATIENCE)) {
            Ok(Closing::Left(result)) => result.map(|()| 0),
            Ok(Closing::Stays(Ok(()), running)) => Ok(running),
            // It goes on trying; control ends when it has left.
            Ok(Closing::Stays(Err(_), _)) if self.control.await_termination(until.since(self.now())) => Ok(0),
            Ok(Closing::Stays(Err(error), _)) => Err(error),
            // Control is in a call of the store. What was submitted is done when that returns.
            Err(WaitError::Timeout) => {
                Err(Error::transient("the store did not answer before the node was to be gone"))
            }
            Err(_) => Ok(self.lock().held.len()),
        }
    }

    /// The last step, if nothing runs any more and everything has been recorded; otherwise the last step is left to the
    /// last report.
    fn close(self: &Arc<Self>) -> Closing {
        // Asked again, it has been trying all the while.
        let mut tries = if self.lock().closing.is_some() { 1 } else { LAST_TRIES };
        loop {
            let result = self.try_work();
            self.take_note(&result);
            tries -= u32::from(result.is_err());
            let mut state = self.lock();
            let (running, unsent) = (state.held.len(), state.outbox.len());
            if tries > 0 && (result.is_err() || running == 0 && unsent > 0) {
                continue; // it failed, or the last report has come meanwhile
            }
            if running == 0 && unsent == 0 {
                drop(state);
                let left = self.leave();
                return Closing::Left(result.and(left));
            }
            state.closing = Some(Arc::clone(self));
            drop(state);
            self.set_alarm();
            return Closing::Stays(result, running);
        }
    }

    /// Leaves if the node is closing and everything has been recorded.
    pub(super) fn leave_if_over(&self) {
        let state = self.lock();
        let over = state.closing.is_some() && state.held.is_empty() && state.outbox.len() == 0;
        drop(state);
        if over && let Err(error) = self.leave() {
            self.tell(&Event::StoreFailed(&error));
        }
    }

    fn leave(&self) -> Result<()> {
        let left = self.store.leave(self.id);
        let mut state = self.lock();
        state.phase = Phase::Gone;
        let (alarm, guard, closing) = (state.alarm.take(), state.guard.take(), state.closing.take());
        drop(state);
        drop(alarm);
        drop(guard);
        self.control.shutdown();
        self.timers.shutdown();
        drop(closing);
        left
    }
}

impl State {
    fn tasks(&self, wanted: impl Fn(&Held) -> bool) -> Vec<Arc<TaskHandle<()>>> {
        self.held.values().filter(|held| wanted(held)).filter_map(|held| held.task.clone()).collect()
    }
}
