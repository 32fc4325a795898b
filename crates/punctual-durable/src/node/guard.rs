//! Handlers that must not go on when somebody else may begin.
//!
//! When a lease runs out, others may take over what its node holds, and run it again. Most handlers can bear that: they go
//! on, and the fence decides whose outcome counts. Those of [exclusive](crate::KindOptions::exclusive) kinds are asked to
//! stop before, when a sixth of the lease is left, so that they have that long to end.
//!
//! The guard is a timer of its own, on the clock of the node, and not part of a step: the step may be what hangs, in a call
//! of the store that does not return. It is set at every renewal, if there is an exclusive kind at all.

use std::sync::Arc;

use punctual::{Tick, When};

use super::Node;
use crate::signal::Stop;

impl Node {
    /// A lease was granted or refused: watches over what comes of it.
    pub(super) fn guard(&self) {
        if !self.exclusive {
            return;
        }
        let at = self.lock().lease.runs_out_at();
        let weak = self.weak.clone();
        let guard = move || {
            if let Some(node) = weak.upgrade() {
                node.stop_exclusive(node.now());
            }
        };
        let timer = self.timers.task(guard).name("guard").first(When::At(at)).start().ok();
        let timer = timer.map(|timer| timer.cancel_on_drop());
        let old = std::mem::replace(&mut self.lock().guard, timer);
        drop(old);
    }

    /// Asks exclusive handlers to stop, unless there is time.
    fn stop_exclusive(&self, now: Tick) {
        let state = self.lock();
        if now < state.lease.runs_out_at() {
            return;
        }
        let held: Vec<_> = (state.held.values().filter(|held| held.exclusive))
            .map(|held| (Arc::clone(&held.signal), held.task.clone()))
            .collect();
        held.iter().for_each(|(signal, _)| signal.raise(Stop::LeaseLost));
        drop(state);
        for (signal, task) in held {
            if let Some(task) = task {
                task.interrupt();
            }
            signal.wake();
        }
    }
}
