//! The lock of one task, held: what its holder alone may do. The word, the states and the invariants are in [`header`](super).

use super::super::extra::{Extra, Links, is_number, number};
use super::{Header, PHASE, PHASE_SHIFT, Phase, STARTED};
use crate::sync::atomic::Ordering;

/// The lock of one task, held.
pub(in crate::task::cell) struct Guard<'a> {
    pub(super) header: &'a Header,
    /// As it will be when the lock is given up.
    pub(super) word: u32,
    #[cfg(punctual_loom)]
    pub(super) _gate: loom::sync::MutexGuard<'a, ()>,
}

impl Guard<'_> {
    pub(in crate::task::cell) fn phase(&self) -> Phase {
        Phase::of(self.word)
    }

    pub(in crate::task::cell) fn set_phase(&mut self, phase: Phase) {
        self.word = self.word & !PHASE | (phase as u32) << PHASE_SHIFT;
    }

    /// Whether the task has nothing but its payload: nobody waits, nothing clings to it, nothing sets it apart.
    #[inline]
    pub(in crate::task::cell) fn is_bare(&self) -> bool {
        // Relaxed: written under the lock.
        is_number(self.header.seat.load(Ordering::Relaxed))
    }

    pub(in crate::task::cell) fn count_run(&mut self) {
        match self.header.special() {
            // Another poll of the run that is counted already.
            Some(_) if self.header.is_under_way() => {}
            Some(special) => {
                special.runs.store(special.runs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            None => self.word |= STARTED,
        }
    }

    /// Whoever has to do with the task, if anybody has had.
    pub(in crate::task::cell) fn links<R>(&mut self, look: impl FnOnce(&mut Links) -> R) -> Option<R> {
        let extra = self.header.extra()?;
        // SAFETY: by 1 the links are the lock's, which is held and borrowed mutably.
        Some(extra.links.with_mut(|links| look(unsafe { &mut *links })))
    }

    /// As [`links`](Self::links), for somebody who comes to have to do with it.
    pub(in crate::task::cell) fn links_of_own<R>(&mut self, look: impl FnOnce(&mut Links) -> R) -> R {
        self.extra_of_own();
        self.links(look).expect("it has just been made")
    }

    /// The extra, made now if there was none.
    pub(super) fn extra_of_own(&mut self) -> &Extra {
        let mut was = self.header.seat.load(Ordering::Acquire);
        if is_number(was) {
            let new = Extra::make(None, number(was));
            // Release: whoever follows it finds the extra finished. By the lock nobody else makes one meanwhile.
            while let Err(now) =
                self.header.seat.compare_exchange(was, new, Ordering::Release, Ordering::Acquire)
            {
                // It was given another number while the extra was made.
                self.header.extra_in(new).expect("an address").queued.store(number(now), Ordering::Relaxed);
                was = now;
            }
        }
        self.header.extra().expect("it has just been made")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.header.unlock_word(self.word);
    }
}
