//! How many refer to a task.
//!
//! As in `Arc`, but for two things: there are no weak references, and the last reference is not counted down. Whoever
//! finds that his is the only one needs no read-modify-write to give it up: nobody else could make another.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The word that counts. Tasks use the standard one even in models, as they do `Arc`: it would cost every model
/// interleavings that have nothing to do with it. The model of this file uses loom's.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32;
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            fn load(&self, order: Ordering) -> u32 {
                self.load(order)
            }

            fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
                self.fetch_add(value, order)
            }

            fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
                self.fetch_sub(value, order)
            }
        }
    };
}

word!(AtomicU32);
#[cfg(punctual_loom)]
word!(loom::sync::atomic::AtomicU32);

pub(super) struct Count<W = AtomicU32>(W);

impl Count {
    pub(super) fn new(count: u32) -> Self {
        Self(AtomicU32::new(count))
    }
}

impl<W: Word> Count<W> {
    /// One more.
    pub(super) fn retain(&self) {
        // Relaxed: whoever has a reference may make another. Far from overflowing, somebody leaks them.
        if self.0.fetch_add(1, Ordering::Relaxed) > u32::MAX / 2 {
            process::abort();
        }
    }

    /// Whether there is one alone. Then it stays so, unless its holder makes another.
    pub(super) fn is_one(&self) -> bool {
        // Acquire: what was done with the other references comes before what is done with this one.
        self.0.load(Ordering::Acquire) == 1
    }

    /// Whether there are two.
    pub(super) fn is_two(&self) -> bool {
        // Acquire: as above.
        self.0.load(Ordering::Acquire) == 2
    }

    /// Gives one up; says whether it was the last, and then what it referred to is the caller's to free.
    #[must_use]
    pub(super) fn release(&self) -> bool {
        // Acquire, in both ways: what was done with the other references comes before the end of the task.
        if self.is_one() {
            return true;
        }
        let last = self.0.fetch_sub(1, Ordering::Release) == 1;
        // A load, where `Arc` has a fence, because the thread sanitizer does not see fences.
        last && self.0.load(Ordering::Acquire) == 0
    }

    /// Gives one up unless it is the last, and then it counts on; says whether it is gone.
    #[must_use]
    pub(super) fn release_if_shared(&self) -> bool {
        if !self.release() {
            return true;
        }
        // Relaxed: there is nobody else who could look. It is zero if the others went at the same moment.
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(all(test, punctual_loom))]
mod loom_count {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    use super::Count;
    use crate::loom_support::explore;

    struct Shared {
        count: Count<AtomicU32>,
        what: UnsafeCell<u32>,
        freed: AtomicUsize,
    }

    fn give_up(shared: &Shared) {
        // Each looks at it as long as it has a reference, and the last one owns it: loom tells of a race.
        shared.what.with(|what| assert!(!what.is_null()));
        if shared.count.release() {
            shared.what.with_mut(|what| assert!(!what.is_null()));
            shared.freed.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn of_two_that_are_given_up_together_one_is_the_last_and_counts() {
        explore(4, || {
            let count = Count(AtomicU32::new(2));
            let shared = Arc::new(Shared { count, what: UnsafeCell::new(0), freed: AtomicUsize::new(0) });
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || give_up(&shared))
            };
            shared.what.with(|what| assert!(!what.is_null()));
            if !shared.count.release_if_shared() {
                assert!(shared.count.is_one());
                shared.what.with_mut(|what| assert!(!what.is_null()));
                give_up(&shared);
            }
            other.join().unwrap();
            assert_eq!(shared.freed.load(Ordering::SeqCst), 1);
        });
    }

    #[test]
    fn the_last_of_three_owns_what_they_shared() {
        explore(4, || {
            let count = Count(AtomicU32::new(2));
            let shared = Arc::new(Shared { count, what: UnsafeCell::new(0), freed: AtomicUsize::new(0) });
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.count.retain();
                    give_up(&shared);
                    give_up(&shared);
                })
            };
            give_up(&shared);
            other.join().unwrap();
            assert_eq!(shared.freed.load(Ordering::SeqCst), 1);
        });
    }
}
