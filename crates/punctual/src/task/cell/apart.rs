//! What is known of a task apart from it, so that most cancels need not look at the task.
//!
//! Among many tasks each is a line of memory that is not at hand, and to cancel one is to wait for it, after the wait for the
//! handle. But what a cancel has to know is little: whether it came first, and which pool the task is in. So each task has a
//! *mark* of two bits, and the marks of a chunk of tasks are one line of memory, at hand as a rule. A plain task whose closure has
//! nothing to be dropped *goes by its mark* if it is far from being due: a cancel changes the mark, and leaves the task on a list.
//! When there are some thirty they are seen to together, so that all of them are waited for at once; if nobody has the task any
//! more its memory is taken back as it is. Whoever meets the task before that finds it cancelled.
//!
//! # States of a mark
//! ```text
//!           close
//!   Open ──────────▶ Closed
//!    │                 ▲
//!    │ cancel          │ settle, while there is the grip
//!    ▼                 │
//!   Cancelled ─────────┘
//!    │ let go: the grip is dropped
//!    ▼
//!   LetGo
//! ```
//! What the mark is when a task is made is its *base*, whatever was there before, and means `Open` for this task. So who frees
//! a task need not know of marks, nor look at one. Whoever looks at the mark has the base with him: the word of the task has it, and the
//! word of the grip.
//!
//! The word of a task (`header.rs`) says whether it goes by its mark. Whoever takes the lock of such a task *closes* the mark
//! first: from then on the word alone counts, and says "cancelled" if the mark did. So nobody who has the lock need know of
//! marks. Of all grips of a task one at most goes by the mark; a second one is made without.
//!
//! # Invariants
//! 1. While the word goes by the mark, the mark is `Open`, and then the task waits, or it is `Cancelled` or `LetGo`, and then
//!    the task is cancelled. (Between the two steps of closing it is `Closed`, and the task waits.)
//! 2. Whoever makes a mark `Cancelled` has a [`Gone`](super::Gone), which settles it, once. Until then the task is there, and what
//!    keeps the pool there: the grip has its references to both, or, when the mark is `LetGo`, has left them to the `Gone`.
//! 3. Nobody changes the mark of memory in which there is no task, or one that does not go by it.
//! 4. All tasks of a chunk that go by their marks hold the pool by the same tether, whose address the chunk has. It is given
//!    another when there is no task in it. (An address that was used anew is that of another tether, to which no task here can
//!    belong: it would keep the first one there.)
//! 5. Only what was queued goes by its mark: its key tells where it is, or that it is on its way.
//!
//! # Cost
//! A task that goes by its mark and runs all the same closes it: a read-modify-write of a line that others use as well, and may
//! not be at hand. So only what is far goes by its mark. Where the tasks of several pools share a chunk, those of the first alone do.

use std::ptr;

use super::header::Header;
#[cfg(not(any(punctual_loom, punctual_plain_memory)))]
use super::memory;
use crate::pool::{Tether, Tethers};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Marks of so many tasks are in one word.
const EACH: usize = 32;
/// Every chunk has room for fewer blocks than that.
pub(super) const MARKS: usize = if cfg!(any(punctual_loom, punctual_plain_memory)) { 1 } else { 256 };

/// What a chunk has of its tasks.
#[repr(C)]
pub(super) struct Apart {
    /// Invariant 4; zero if nobody has come yet. An address and no pointer: what had it when it was written here may be gone, and
    /// another tether be there.
    owner: AtomicUsize,
    marks: [AtomicU64; MARKS.div_ceil(EACH)],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Open = 0,
    Closed = 1,
    Cancelled = 2,
    LetGo = 3,
}

/// The mark of one task.
pub(super) struct Mark<'a> {
    word: &'a AtomicU64,
    shift: usize,
    base: Base,
}

/// What the mark of a task was when it was made.
#[derive(Clone, Copy, Default)]
pub(super) struct Base(u64);

impl Base {
    /// So many bits it has, the lowest, where it is kept.
    pub(super) const BITS: usize = 2;

    #[inline]
    pub(super) fn from_bits(bits: usize) -> Self {
        Self(bits as u64 & 3)
    }

    #[inline]
    pub(super) fn bits(self) -> usize {
        self.0 as usize
    }
}

impl Apart {
    pub(super) fn new() -> Self {
        // Where there has been no task before, to have had one or not is the same: models see that it is.
        let marks =
            if cfg!(any(punctual_loom, punctual_plain_memory)) { Standing::Cancelled as u64 } else { 0 };
        Self { owner: AtomicUsize::new(0), marks: std::array::from_fn(|_| AtomicU64::new(marks)) }
    }

    /// Of a task with that base: what is known of it apart, and its mark there.
    ///
    /// # Safety
    /// The task goes by its mark, or did, and is there; or it may be about to, and its memory is [of that kind](memory::has_marks).
    #[inline]
    pub(super) unsafe fn of<'a>(header: *const Header, base: Base) -> (&'a Self, Mark<'a>) {
        #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
        // SAFETY: for the caller to see to.
        let (apart, at) = unsafe { memory::apart(header.addr()) };
        #[cfg(any(punctual_loom, punctual_plain_memory))]
        // SAFETY: for the caller to see to. There is nothing else, so each task has its own.
        let (apart, at) = unsafe { (&(*header).apart, 0) };
        (apart, Mark { word: &apart.marks[at / EACH % apart.marks.len()], shift: at % EACH * 2, base })
    }

    /// By which of these tethers, which are of one pool, a task may hold that pool; `None` if the tasks that are here hold another.
    #[inline]
    pub(super) fn owner_among<'a>(&self, tethers: &'a Tethers) -> Option<&'a std::sync::Arc<Tether>> {
        let mine = tethers.mine();
        let own = std::sync::Arc::as_ptr(mine).addr();
        // Relaxed, as all of these: it is an address. Whoever follows it has the tether by other means: see `Grip`.
        let mut owner = self.owner.load(Ordering::Relaxed);
        if owner == 0 {
            let set = self.owner.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
            owner = set.map_or_else(|other| other, |_| own);
        }
        if owner == own { Some(mine) } else { tethers.find(owner) }
    }

    /// The tether of those tasks that go by their marks; not to be followed without one of them.
    #[inline]
    pub(super) fn owner(&self) -> *mut Tether {
        // Exposed when it was made.
        ptr::with_exposed_provenance_mut(self.owner.load(Ordering::Relaxed))
    }

    /// There is no task here.
    #[cfg(not(any(punctual_loom, punctual_plain_memory)))]
    pub(super) fn vacate(&self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl Mark<'_> {
    /// Where it is, for whoever wants to have it at hand.
    #[inline]
    pub(super) fn place(&self) -> *const AtomicU64 {
        self.word
    }

    #[inline]
    pub(super) fn standing(&self) -> Standing {
        // Acquire: whoever finds it cancelled finds what was done before.
        self.of(self.word.load(Ordering::Acquire))
    }

    /// What the base of a task is that is about to go by this.
    #[inline]
    pub(super) fn as_base(&self) -> Base {
        // Relaxed: by 3 nobody else changes it.
        Base(self.word.load(Ordering::Relaxed) >> self.shift & 3)
    }

    #[inline]
    fn of(&self, word: u64) -> Standing {
        match word >> self.shift & 3 ^ self.base.0 {
            0 => Standing::Open,
            1 => Standing::Closed,
            2 => Standing::Cancelled,
            _ => Standing::LetGo,
        }
    }

    /// In one step, if it is `from`; says whether it was.
    #[inline]
    pub(super) fn change(&self, from: Standing, to: Standing) -> bool {
        // Acquire and release: what was done with the task before is seen by whoever takes the next step, or finds that it need not.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if self.of(word) != from {
                return false;
            }
            let new = word ^ (from as u64 ^ to as u64) << self.shift;
            match self.word.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(any(punctual_loom, punctual_plain_memory))))]
mod tests {
    use super::{Apart, Base, EACH, MARKS, Mark, Standing};

    #[test]
    fn a_mark_is_changed_alone_and_only_from_what_it_is() {
        use Standing::{Cancelled, Closed, LetGo, Open};
        let apart = Apart::new();
        let mark = |at: usize| {
            let mark = Mark { word: &apart.marks[at / EACH], shift: at % EACH * 2, base: Base(0) };
            Mark { base: mark.as_base(), ..mark }
        };
        // Whatever was left there by those who were in the same memory before.
        for round in 1..5 {
            let marks: Vec<_> = (0..MARKS).map(mark).collect();
            let is_cancelled = |at: usize| at % 3 == round % 3 || at % 7 == round;
            for (at, mark) in marks.iter().enumerate().filter(|(at, _)| is_cancelled(*at)) {
                assert!(mark.change(Open, Cancelled) && !mark.change(Open, Closed));
                assert!(mark.change(Cancelled, if at % 2 == 0 { LetGo } else { Closed }));
            }
            for (at, mark) in marks.iter().enumerate() {
                let expected = match (is_cancelled(at), at % 2) {
                    (true, 0) => LetGo,
                    (true, _) => Closed,
                    (false, _) => Open,
                };
                assert_eq!(mark.standing(), expected, "{at}");
                assert!(!mark.change(Cancelled, Open));
            }
        }
    }
}
