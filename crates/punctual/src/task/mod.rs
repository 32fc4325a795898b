//! One task: its closure, its outcome, and whoever waits for it.

#[allow(unsafe_code, reason = "see what it buys, there")]
mod cell;
mod info;
mod large;
mod perform;
mod turn;
mod view;
mod wait;
mod waiters;

pub(crate) use cell::{
    Body, ByMark, EndedEarly, Gone, Grip, Half, Header, Many, Marked, Once, Owner, Task, TaskRef, Traits,
    Typed, TypedRef, allocate, allocate_plain,
};
pub use info::{RunOutcome, TaskInfo, TaskState};
pub(crate) use large::{Large, LargeOnce, is_large};
pub(crate) use perform::{Ended, Run, Verdict};
pub use turn::TaskId;
pub(crate) use turn::Turn;
pub use view::TaskView;
pub(crate) use wait::{join, wait_for};
