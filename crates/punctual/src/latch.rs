//! A lock for a few instructions, which costs one read-modify-write instead of two.
//!
//! A mutex that puts to sleep whoever waits for it has to ask, when it is given up, whether anybody does; so unlocking is as
//! dear as locking. A latch does not know who waits, and is given up by a store. Whoever finds it taken looks again a few
//! times, then yields, then sleeps for moments at a time ([`Backoff`]): should the holder be pre-empted, it gets to run,
//! whatever the priorities. It is for what is nearly always free, and else held for less time than a call of the kernel takes;
//! tasks have the same lock in a bit of theirs (`task/cell/header.rs`). If the holder is pre-empted, others go on some tens of
//! microseconds after it has given it up, whatever the slack of their timers: that is what a mutex takes to wake them.
//!
//! # Invariants
//! 1. The value is touched by whoever has taken the bit, until it is given back.
//! 2. A guard is the right to 1: it is made by whoever has taken the bit, and gives it back when it is dropped.
//!
//! # What the unsafe code buys
//! Submissions and cancels each take the lane of their thread (`pool/lane.rs`), and hardly ever meet anybody there. An insert
//! among 100,000 went from 167 to 154 ns, a schedule and cancel from 264 to 259, and a burst from 7.0 to 8.0 million a second.
//!
//! # Paths not taken
//! *For what is laid out for the workers (`pool/ready.rs`):* level. *Sleeping after a few yields:* whoever decides what comes
//! next holds all lanes for some microseconds, and others slept for a hundred; eight threads inserted a tenth slower.
//!
//! # In models
//! Users of a latch are explored with a mutex in its place, for which loom need not try how often one looks. The bit has a
//! model of its own, below.

#[cfg(punctual_loom)]
pub(crate) use crate::sync::{Mutex as Latch, MutexGuard as Guard};
#[cfg(not(punctual_loom))]
pub(crate) use imp::{Guard, Latch};

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether the latch is taken.
#[derive(Debug)]
#[cfg_attr(punctual_loom, allow(dead_code, reason = "but for the model"))]
struct Bit(AtomicBool);

#[cfg_attr(punctual_loom, allow(dead_code, reason = "but for the model"))]
impl Bit {
    #[inline]
    fn take(&self) -> bool {
        // Acquire: what earlier holders did is seen by this one. Not a swap: while it is taken only the holder writes.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn is_free(&self) -> bool {
        // Relaxed: to take it is what counts.
        !self.0.load(Ordering::Relaxed)
    }

    /// For whoever has taken it.
    #[inline]
    fn give_back(&self) {
        // Release: what was done by the holder is seen by the next.
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(not(punctual_loom))]
mod imp {
    use std::cell::UnsafeCell;
    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    use std::panic::{RefUnwindSafe, UnwindSafe};

    use super::Bit;
    use crate::sync::Backoff;
    use crate::sync::atomic::AtomicBool;

    pub(crate) struct Latch<T> {
        bit: Bit,
        value: UnsafeCell<T>,
    }

    /// The right to the value. Not to be sent, nor lent to another thread, as those of the standard library.
    #[must_use]
    pub(crate) struct Guard<'a, T> {
        latch: &'a Latch<T>,
        here: PhantomData<*const ()>,
    }

    // SAFETY: by 1 one thread at a time has the value, so it moves between them, and need not be `Sync`.
    unsafe impl<T: Send> Sync for Latch<T> {}

    // No code of a user's runs while it is taken, so a panic cannot leave the value half-way.
    impl<T> UnwindSafe for Latch<T> {}
    impl<T> RefUnwindSafe for Latch<T> {}

    impl<T> Latch<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { bit: Bit(AtomicBool::new(false)), value: UnsafeCell::new(value) }
        }

        /// `None` if somebody has it.
        #[inline]
        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            // Not `then_some`: a guard that is made for nothing would give back what another has taken.
            self.bit.take().then(|| Guard { latch: self, here: PhantomData })
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.try_lock().unwrap_or_else(|| self.wait())
        }

        #[cold]
        fn wait(&self) -> Guard<'_, T> {
            let mut backoff = Backoff::new();
            loop {
                backoff.wait();
                if self.bit.is_free() {
                    if let Some(guard) = self.try_lock() {
                        return guard;
                    }
                }
            }
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: by 2 this is the one guard, and it is borrowed.
            unsafe { &*self.latch.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, for nobody else.
            unsafe { &mut *self.latch.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            self.latch.bit.give_back();
        }
    }

    impl<T> fmt::Debug for Latch<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Latch").field("bit", &self.bit).finish_non_exhaustive()
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use super::Latch;

    #[test]
    fn who_has_it_has_it_alone() {
        const EACH: u64 = 100_000;
        let (latch, start) = (Latch::new((0_u64, 0_u64)), Barrier::new(3));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..EACH {
                        let mut pair = latch.lock();
                        assert_eq!(pair.0, pair.1);
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*latch.lock(), (3 * EACH, 3 * EACH));
    }

    #[test]
    fn it_is_refused_while_it_is_taken_and_not_after() {
        let latch = Latch::new(7);
        let guard = latch.lock();
        assert!(latch.try_lock().is_none());
        drop(guard);
        assert_eq!(latch.try_lock().map(|value| *value), Some(7));
    }

    #[test]
    fn whoever_waits_for_long_gets_it_in_the_end() {
        let (latch, (say, asked)) = (Latch::new(0), mpsc::channel());
        let guard = latch.lock();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                say.send(()).unwrap();
                *latch.lock() += 1;
            });
            asked.recv().unwrap();
            // Long enough for it to have gone through all that it does while it waits.
            (0..1_000).for_each(|_| thread::yield_now());
            drop(guard);
            waiting.join().unwrap();
        });
        assert_eq!(*latch.lock(), 1);
    }
}

#[cfg(all(test, punctual_loom))]
mod loom_latch {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::Bit;
    use crate::loom_support::explore;
    use crate::sync::atomic::AtomicBool;

    struct Shared {
        bit: Bit,
        value: UnsafeCell<u32>,
    }

    /// One attempt; loom tells of a race.
    fn attempt(shared: &Shared) -> u32 {
        if !shared.bit.take() {
            return 0;
        }
        // SAFETY: invariant 1, which is what is tried here.
        shared.value.with_mut(|value| unsafe { *value += 1 });
        shared.bit.give_back();
        1
    }

    #[test]
    fn of_those_who_come_at_once_each_has_the_value_alone() {
        explore(4, || {
            let bit = Bit(AtomicBool::new(false));
            let shared = Arc::new(Shared { bit, value: UnsafeCell::new(0) });
            let others = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || attempt(&shared))
            });
            let mine = attempt(&shared);
            let all = others.into_iter().map(|other| other.join().unwrap()).sum::<u32>() + mine;
            assert!(all > 0 && shared.bit.is_free());
            assert!(shared.bit.take());
            // SAFETY: as above.
            shared.value.with(|value| assert_eq!(unsafe { *value }, all));
        });
    }
}
