//! What only some tasks have, and how a task finds it.
//!
//! # The seat
//! An odd seat is the number, an even one the address of the [`Extra`], which then has the number. It becomes even once, under
//! the lock of the task. So that a number is never written over an address, it is changed by a compare-and-swap, or by whoever
//! has the task for itself, or not at all where it is the same.

use std::sync::Arc;
use std::task::Waker;

use punctual_engine::Schedule;

use crate::decorate::Decoration;
use crate::future::Wakes;
use crate::policy::Priority;
use crate::series::Series;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::task::Turn;
use crate::task::waiters::Waiters;
use crate::unobserved::Unread;

/// What sets a task apart from one that runs once and has no name: the default.
#[derive(Default)]
pub(crate) struct Traits {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) schedule: Schedule,
    pub(crate) series: Option<Arc<Series>>,
    /// For a task whose body is a future.
    pub(crate) wakes: Option<Arc<Wakes>>,
    pub(crate) priority: Option<Priority>,
}

impl Traits {
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.name.is_none()
            && self.tags.is_empty()
            && self.schedule == Schedule::Once
            && self.series.is_none()
            && self.wakes.is_none()
            && self.priority.is_none()
    }
}

/// What only some tasks have.
pub(super) struct Extra {
    /// Under which the queue has it, or `UNKNOWN`.
    pub(super) queued: AtomicU64,
    /// The place of the task in the order, as planned: `UNKNOWN`, or the number, and the deadline. Written under the
    /// pool's lock, or before the task is queued; and under the lock of the task.
    pub(super) number: AtomicU64,
    pub(super) deadline: AtomicU64,
    pub(super) special: Option<Special>,
    /// Guarded by the lock.
    pub(super) links: UnsafeCell<Links>,
}

pub(super) struct Special {
    /// Immutable after construction.
    pub(super) traits: Traits,
    /// Runs begun. Written by the one thread that runs the task, under the lock.
    pub(super) runs: AtomicU64,
}

pub(super) const UNKNOWN: u64 = u64::MAX;

/// Who has to do with the task.
#[derive(Default)]
pub(super) struct Links {
    pub(super) decoration: Option<Box<dyn Decoration>>,
    pub(super) waiters: Waiters,
    /// Waits inside the running body that are to return when it is interrupted.
    pub(super) watchers: Vec<Waker>,
    /// A failure that nobody has read.
    pub(super) unread: Option<Unread>,
}

impl Extra {
    #[cold]
    pub(super) fn of(traits: Traits) -> u64 {
        Self::make(Some(Special { traits, runs: AtomicU64::new(0) }), UNKNOWN)
    }

    /// A new one, in a box, as a seat.
    pub(super) fn make(special: Option<Special>, queued: u64) -> u64 {
        let extra = Box::new(Self {
            queued: AtomicU64::new(queued),
            number: AtomicU64::new(UNKNOWN),
            deadline: AtomicU64::new(0),
            special,
            links: UnsafeCell::new(Links::default()),
        });
        Box::into_raw(extra).expose_provenance() as u64
    }

    pub(super) fn set_turn(&self, turn: Turn) {
        self.deadline.store(turn.deadline.as_nanos(), Ordering::Relaxed);
        // Release: whoever sees the number for the first time sees the deadline, too.
        self.number.store(turn.id.number(), Ordering::Release);
    }
}

/// A number as a seat. It loses a bit that no number has, but for `UNKNOWN`, which comes back as it was.
#[inline]
pub(super) const fn seat(number: u64) -> u64 {
    number << 1 | 1
}

#[inline]
pub(super) const fn is_number(seat: u64) -> bool {
    seat & 1 == 1
}

#[inline]
pub(super) const fn number(seat: u64) -> u64 {
    (seat as i64 >> 1) as u64
}
