//! Futures as the bodies of tasks, polled by the workers of a pool, and timers for them.
//!
//! A task whose body is a future goes through the same cell, queue and handle as every other. What is particular
//! to it is who decides when it runs again: not a schedule, but whoever wakes it. That is [`Wakes`]: shared by the
//! task's header, its body and its wakers.
//!
//! # States
//! ```text
//!             wake: moved to now            a worker takes it
//!   idle ─────────────────────────▶ queued ───────────────────▶ polling ── ready, panic ──▶ done
//!    ▲ ▲                               ▲                          │ │ wake
//!    │ └──────────── pending ──────────┼──────────────────────────┘ ▼
//!    │                                 └──────── pending ──── polling, woken
//!    └ (cancel, abandon: done, from all; one that is polled is dropped by its poller)
//! ```
//! *Idle* and *queued* are both `Waiting` in the cell and an entry in the queue: one due at the end of time, the
//! other at the instant of the wake. *Polling* is `Running`. So cancel, remove, drain, shutdown policies, listings
//! and statistics need to know nothing of futures: an idle one is a task that is not due.
//!
//! # Invariants
//! 1. `woken` is the instant of the first wake that no poll has answered, or never. It is set by wakers, without
//!    a lock, and cleared by the poller before it polls; all by read-modify-write, so a poll that clears it
//!    sees what was done before every wake that found it set.
//! 2. `idle` is written under the pool's lock, together with the entry in the queue: true exactly if the entry
//!    is the one at the end of time (or was, when somebody took it out).
//! 3. A wake sets `woken` before it looks at `idle`, under the lock; a poller that puts the future back looks at
//!    `woken` before it sets `idle`, under the lock. So a wake is either seen by the poller, who queues the future
//!    as due, or sees the idle entry and moves it. None is lost, and none queues a future twice.
//! 4. A periodic task that waits for its period is not idle: no left-over waker can make it run early. Wakers
//!    know the run they were made for, and do nothing after it.
//! 5. There is at most one [`Wakeup`] for a run, however many clones of its waker there are. When the last is
//!    dropped nobody can ever wake the future again. It is then made due like one that was woken, and the worker,
//!    finding no waker and no wake, ends it as abandoned: its handle resolves. (Not the thread that drops the
//!    waker: it may hold locks that the future's destructor needs.)
//! 6. `Wakes` refers to the task while the task has a body, and no longer: a waker that is kept for ever keeps
//!    neither future nor value.
//!
//! # Runs and series
//! A task with policies has a [`Series`](crate::series), which is asked before the first poll of a run and after its end.
//! Between polls the run is kept here (`began`) and what watches over it there. Whoever stops a run, because its time is
//! over or the next is to replace it, notes that in the series and then makes the future due; a poll answers the wakes
//! first and looks for the note after that, so one of the two is seen. The worker then drops the future as it drops any
//! other: unlocked, and with its panic contained. A future that panicked, or was stopped or lost, is dropped when its
//! run has been judged ([`Body::end_run`](crate::task::Body::end_run)), and the next run has a new one.
//!
//! # Order
//! A wake is a submission: the future is due at that instant, and among equal deadlines behind what was submitted
//! before. So futures that wake each other, or themselves, take turns, even while a clock stands still.
//!
//! # Locks
//! `Wakes::state` is taken alone. The pool's lock is taken after it has been released, and the atomics are read
//! and written under that one as the invariants say.
//!
//! # Paths not taken
//! A task per wake, with the future behind a lock: simpler, but every poll is another task with another number,
//! is refused by a pool that is full or shut down, and an idle future is nowhere to be seen. A future whose time is over
//! dropped by the thread for limits: sooner while all workers are busy, but its destructor could keep every other limit
//! waiting. The crate
//! `async-task`: one allocation instead of three, but a second cell with states, handle and waiters of its own
//! beside the one that exists.

mod body;
mod interval;
mod limit;
#[cfg(all(test, punctual_loom))]
mod loom_wakes;
mod runtime;
mod sleep;
mod spawn;
mod wakes;

use body::Polled;
pub(crate) use body::{Each, Futures, Single};
pub use interval::{Interval, MissedTicks};
pub use limit::TimeoutError;
pub use runtime::{BoxedFuture, RunOn, Runtime, run_on};
pub use sleep::{Sleep, TimerError};
pub(crate) use wakes::{Began, Wakes};
