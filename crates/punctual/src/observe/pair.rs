//! Two observers for one executor.

use std::io;
use std::time::Duration;

use super::{Observer, Place};
use crate::error::Panic;
use crate::task::{RunOutcome, TaskInfo};
use crate::unobserved::UnobservedFailure;
use crate::unwind;

/// Tells both, the first one first; after a run the other way round, so that they nest. Pairs of pairs make more.
///
/// Each is told, whether the other panics or not. If the second panics before a run, the first, who has been told
/// that the run begins, is told that it ended with that panic.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn before_run(&self, task: TaskInfo<'_>) {
        self.0.before_run(task);
        if let Err(panic) = unwind::catch(|| self.1.before_run(task)) {
            let _ = unwind::catch(|| self.0.after_run(task, RunOutcome::Panicked(&panic)));
            panic.resume();
        }
    }

    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        both(|| self.1.after_run(task, outcome), || self.0.after_run(task, outcome));
    }

    fn overrunning(&self, task: TaskInfo<'_>, took: Duration) {
        both(|| self.0.overrunning(task, took), || self.1.overrunning(task, took));
    }

    fn unobserved(&self, failure: &UnobservedFailure) {
        both(|| self.0.unobserved(failure), || self.1.unobserved(failure));
    }

    fn terminated(&self) {
        both(|| self.0.terminated(), || self.1.terminated());
    }

    fn worker_started(&self) {
        both(|| self.0.worker_started(), || self.1.worker_started());
    }

    fn worker_stopped(&self) {
        both(|| self.1.worker_stopped(), || self.0.worker_stopped());
    }

    fn spawn_failed(&self, error: &io::Error) {
        both(|| self.0.spawn_failed(error), || self.1.spawn_failed(error));
    }

    fn contained(&self, place: Place, panic: &Panic) {
        both(|| self.0.contained(place, panic), || self.1.contained(place, panic));
    }
}

/// Calls both; if the first panicked it goes on doing so.
fn both(first: impl FnOnce(), second: impl FnOnce()) {
    let result = unwind::catch(first);
    second();
    if let Err(panic) = result {
        panic.resume();
    }
}
