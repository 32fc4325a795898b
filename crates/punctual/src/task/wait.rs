//! Blocking until a task is done.

use punctual_engine::Tick;

use super::{Task, Typed};
use crate::clock::Clock;
use crate::context::{self, Wait};
use crate::error::WaitError;

/// Blocks as [`wait_for`] does and takes the value.
pub(crate) fn join<T>(
    task: &dyn Typed<T>,
    due: Option<Tick>,
    clock: &dyn Clock,
    until: Option<Tick>,
) -> Result<T, WaitError> {
    wait_for(task.as_task(), due, clock, until)?;
    Ok(task.take().expect("a task that is done has an outcome")?)
}

/// Blocks until `task` is done, `until` has come, or the task that the calling thread runs is interrupted.
///
/// A task that is done is reported as done, whatever the time and the interrupt flag say. `due` is when it is to run,
/// if that is known.
pub(crate) fn wait_for(
    task: &dyn Task,
    due: Option<Tick>,
    clock: &dyn Clock,
    until: Option<Tick>,
) -> Result<(), WaitError> {
    if task.state().is_done() {
        return Ok(());
    }
    if context::is_running(task) {
        return Err(WaitError::WouldDeadlock);
    }
    let wait = Wait::begin();
    if !task.listen(wait.waker()) {
        return Ok(());
    }
    if due.is_some_and(|due| due <= clock.now()) {
        // It is running or about to.
        wait.parker.linger(300);
    }
    let gave_up = loop {
        if task.state().is_done() {
            return Ok(());
        }
        if wait.is_interrupted() {
            break WaitError::Interrupted;
        }
        if until.is_some_and(|until| until <= clock.now()) {
            break WaitError::Timeout;
        }
        clock.wait(&wait.parker, until);
    };
    task.unlisten(wait.waker());
    if task.state().is_done() { Ok(()) } else { Err(gave_up) }
}
