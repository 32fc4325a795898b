//! One task: its closure, its outcome, and whoever waits for it.

mod cell;
mod header;
mod info;
#[cfg(all(test, punctual_loom))]
mod loom_cell;
mod perform;
mod wait;
mod waiters;

pub(crate) use cell::{Body, Cell, EndedEarly, Many, Once, Task, TaskRef, Typed};
pub(crate) use header::Header;
pub use header::TaskId;
pub use info::{RunOutcome, TaskInfo, TaskState};
pub(crate) use perform::{Ended, Run};
pub(crate) use wait::{join, wait_for};
