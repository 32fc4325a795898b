//! The timer queue of `punctual`, and the rules of scheduling as pure data.
//!
//! No threads, no clock, no dependencies, no unsafe code: time is a [`Tick`] that the caller passes in.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The queue's model tests also run inside the crate, where its limits are small.
#[cfg(test)]
extern crate self as punctual_engine;
#[cfg(test)]
extern crate std;

mod key;
mod queue;
mod schedule;
mod shutdown;
mod tick;

pub use key::TaskKey;
pub use queue::{Entry, Fired, Stored, Tenant, TimerQueue};
#[doc(hidden)]
pub use queue::{Footprint, ReferenceHeap};
pub use schedule::{RunTimes, Schedule};
pub use shutdown::{Keep, Leftover, RunState, ShutdownPolicy, is_finished, may_run};
pub use tick::Tick;
