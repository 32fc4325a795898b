//! The only door to locks, atomics and threads.
//!
//! Everything that threads of this crate share goes through here, so that a build with `--cfg punctual_loom`
//! explores the same code under loom. `Arc` stays the standard one: loom's cannot hold trait objects, and no
//! protocol here depends on reference counts.

#[cfg(not(punctual_loom))]
mod imp {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread;
    pub(crate) use std::thread_local;
}

#[cfg(punctual_loom)]
mod imp {
    pub(crate) use loom::sync::atomic;
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread;
    pub(crate) use loom::thread_local;
}

pub(crate) use imp::{MutexGuard, atomic, thread, thread_local};

/// A mutex that does not know poison: no user code runs under our locks, so a panic cannot leave one half-way.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A condition for the few places where many wait for one state (the manual clock).
#[derive(Debug)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(imp::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits at most `limit` of real time; the flag says whether it passed.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: std::time::Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) =
            self.0.wait_timeout(guard, limit).unwrap_or_else(std::sync::PoisonError::into_inner);
        (guard, result.timed_out())
    }
}
