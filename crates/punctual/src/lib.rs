//! The scheduled thread pool for Rust: exact order, never early, nothing lost.
//!
//! ```
//! use punctual::Executor;
//! use std::time::Duration;
//!
//! let pool = Executor::new(4);
//!
//! // A value after a delay: join it, or await it under any async runtime.
//! let answer = pool.schedule(Duration::from_millis(5), || 6 * 7)?;
//! assert_eq!(answer.join()?, 42);
//!
//! // A timeout that usually does not happen.
//! let guard = pool.schedule(Duration::from_secs(30), || eprintln!("too slow"))?.cancel_on_drop();
//! drop(guard);
//!
//! // Every five seconds, until cancelled.
//! let beat = pool.task(|| println!("still here")).name("heartbeat").every(Duration::from_secs(5)).start()?;
//! beat.cancel();
//!
//! pool.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is where
//! - [`Executor`] is the pool, [`Builder`] its settings, [`Scheduler`] the pool without them.
//! - [`TaskHandle`] is the grip on one task, [`TaskContext`] what a body knows of its own.
//! - [`TaskBuilder`] describes a task with everything: [`Missed`], [`Overlap`], [`OnFailure`], [`Jitter`], [`Spread`],
//!   [`Priority`], timeouts, retries with a [`Backoff`], and a [`Calendar`] to go by the clock on the wall.
//! - [`TaskRemote`] is the grip on a task that was found by name or tag, [`TaskView`] what can be seen of it.
//! - [`Scheduler::spawn`] runs a future on the pool, [`Scheduler::task_async`] describes a task that makes one for each
//!   run, with the same builder; [`run_on`] lets a [`Runtime`] of your own do the polling. [`Sleep`], [`Scheduler::timeout`] and [`Interval`] are timers to
//!   await, under any runtime or none.
//! - [`CompletionQueue`], [`FutureTask`], [`DelayQueue`] and [`Timer`] complete the family.
//! - [`Clock`] is where time comes from: [`SystemClock`], `BootClock` on Linux, or [`ManualClock`] in tests that do not sleep.
//! - `Cron` and `CronSchedule` (feature `cron`, on by default) know when it is nine o'clock in Berlin.
//! - [`Observer`], [`Decorator`] and [`Spawner`] are the places for code of your own.
//! - [`Stats`] and [`Lateness`] are the numbers.
//!
//! # Features
//! `cron` is on by default; these are off, and free when off.
//! - `tracing`: `TracingObserver`, a span for every run and an event for every failure.
//! - `metrics`: `MetricsObserver`, runs, lateness and failures through the `metrics` facade.
//!
//! # What is promised
//! - Tasks start in the exact order of (deadline, submission), never early, however late. A [`Priority`] moves a task
//!   ahead among those that are due, by as much as it says.
//! - What was done before a task is submitted is seen by its body; what the body did is seen by whoever has
//!   its outcome; what one run of a periodic task did is seen by the next; what all tasks did is seen by
//!   whoever sees the executor terminated.
//! - No failure vanishes: it is read from the handle, or told to the observer, a sink or standard error.
//! - Every handle resolves. A cancelled task that waits has dropped what it captured when `cancel` returns.
//! - No closure, value, waker or hook of yours runs or is dropped under a lock of ours, and none of their panics
//!   costs a thread or a task of others. The exceptions say so: [`DelayQueue::snapshot`],
//!   [`DelayQueue::peek`], [`DelayQueue::retain`] and [`Panic::with_payload`].
//!
//! Not promised: how soon a thread is scheduled by the operating system, and fairness among workers.
#![deny(unsafe_code)]

/// The example on the front page is a test, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod builder;
mod calendar;
mod clock;
mod completion;
mod context;
#[cfg(feature = "cron")]
mod cron;
mod decorate;
mod delay_queue;
mod error;
mod executor;
mod failure;
#[allow(unsafe_code, reason = "see what it buys, there")]
mod fetch;
mod future;
mod future_task;
mod handle;
mod invoke;
#[allow(unsafe_code, reason = "see what it buys, there")]
mod latch;
mod lateness;
#[cfg(all(test, punctual_loom))]
mod loom_support;
mod observe;
mod park;
mod policy;
mod pool;
mod registry;
mod remote;
mod scheduler;
mod series;
mod slack;
mod stats;
mod sync;
mod task;
mod task_builder;
mod timeout;
mod timer;
mod unobserved;
mod unrun;
mod unwind;
mod when;

pub use builder::Builder;
pub use calendar::Calendar;
#[cfg(target_os = "linux")]
pub use clock::BootClock;
pub use clock::{Clock, ManualClock, SystemClock};
pub use completion::CompletionQueue;
pub use context::TaskContext;
#[cfg(feature = "cron")]
pub use cron::{
    ClockChange, Cron, CronError, CronErrorKind, CronOptions, CronSchedule, DayRule, Gap, Occurrence,
    Occurrences, Upcoming, WallOverlap,
};
pub use decorate::{Decoration, Decorator};
pub use delay_queue::{DelayKey, DelayQueue, Delayed};
pub use error::{
    Abandoned, Interrupted, InvalidArgument, InvokeAllError, InvokeAnyError, Message, Panic, RejectReason,
    Rejected, TaskError, WaitError,
};
pub use executor::Executor;
pub use failure::FailedRun;
pub use future::{
    BoxedFuture, Interval, MissedTicks, RunOn, Runtime, Sleep, TimeoutError, TimerError, run_on,
};
pub use future_task::FutureTask;
pub use handle::{CancelOnDrop, Remaining, TaskHandle};
pub use lateness::Lateness;
#[cfg(feature = "metrics")]
pub use observe::MetricsObserver;
#[cfg(feature = "tracing")]
pub use observe::TracingObserver;
pub use observe::{Observer, Place};
pub use park::Parker;
pub use policy::{
    Backoff, Jitter, Missed, MissedRule, OnCancel, OnDrop, OnFailure, Overlap, Priority, Rejection,
    RejectionHandler, Spread,
};
pub use pool::{Spawner, Steered, WorkerThread};
pub use punctual_engine::{Keep, Leftover, RunState, RunTimes, Schedule, ShutdownPolicy, Tick};
pub use remote::TaskRemote;
pub use scheduler::{QueuedTask, Scheduler};
pub use series::Report;
pub use stats::Stats;
pub use task::{RunOutcome, TaskId, TaskInfo, TaskState, TaskView};
pub use task_builder::{Async, Blocking, PeriodicBuilder, RetryBuilder, TaskBuilder};
pub use timer::Timer;
pub use unobserved::UnobservedFailure;
pub use unrun::UnrunTask;
pub use when::When;
