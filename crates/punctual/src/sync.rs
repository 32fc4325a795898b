//! The only door to locks, atomics and threads.
//!
//! Everything that threads of this crate share goes through here, so that a build with `--cfg punctual_loom`
//! explores the same code under loom. `Arc` stays the standard one: loom's cannot hold trait objects, and no
//! protocol here depends on its counts. (Tasks have counts of their own.)

#[cfg(not(punctual_loom))]
mod imp {
    pub(crate) use std::sync::atomic;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread_local;

    /// A cell whose accesses loom can watch.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            access(self.0.get())
        }
    }

    /// How to wait for what takes others a few instructions, unless they are pre-empted.
    pub(crate) struct Backoff(u32);

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self(0)
        }

        pub(crate) fn wait(&mut self) {
            const LOOKS: u32 = 64;
            // Some tens of microseconds if nobody else wants the processor; a nap takes longer.
            const YIELDS: u32 = LOOKS + 256;
            self.0 = self.0.saturating_add(1);
            match self.0 {
                ..LOOKS => std::hint::spin_loop(),
                LOOKS..YIELDS => std::thread::yield_now(),
                // A thread of higher priority that only yields may keep the holder from ever going on.
                _ => nap(),
            }
        }
    }

    #[cold]
    #[expect(clippy::disallowed_methods, reason = "the one wait without a clock: for a pre-empted thread")]
    fn nap() {
        // A worker may have been given seconds of slack, and others wait for what it has meanwhile.
        crate::slack::precisely(|| std::thread::sleep(std::time::Duration::from_micros(50)));
    }

    /// What a thread is woken by: a token, left by [`unpark`](Self::unpark), taken by its own thread.
    pub(crate) struct Seat(std::thread::Thread);

    impl Seat {
        pub(crate) fn of_current() -> Self {
            Self(std::thread::current())
        }

        pub(crate) fn unpark(&self) {
            self.0.unpark();
        }

        /// Waits for the token; may return without one.
        pub(crate) fn park(&self) {
            std::thread::park();
        }

        /// As [`park`](Self::park), but at most for about `limit`.
        pub(crate) fn park_timeout(&self, limit: std::time::Duration) {
            std::thread::park_timeout(limit);
        }
    }
}

#[cfg(punctual_loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic;
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread_local;

    pub(crate) struct Backoff(());

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self(())
        }

        pub(crate) fn wait(&mut self) {
            loom::thread::yield_now();
        }
    }

    /// The token spelt out: an unpark of loom's own would also release a thread that is blocked on a lock.
    pub(crate) struct Seat {
        token: Mutex<bool>,
        left: Condvar,
    }

    impl Seat {
        pub(crate) fn of_current() -> Self {
            Self { token: Mutex::new(false), left: Condvar::new() }
        }

        pub(crate) fn unpark(&self) {
            *self.token.lock().unwrap() = true;
            self.left.notify_one();
        }

        pub(crate) fn park(&self) {
            let mut token = self.token.lock().unwrap();
            while !std::mem::take(&mut *token) {
                token = self.left.wait(token).unwrap();
            }
        }

        /// Loom knows no time: this ends when nobody else can go on. Models that need a time-out at any moment
        /// let a thread of their own move a manual clock.
        pub(crate) fn park_timeout(&self, _limit: std::time::Duration) {
            loom::thread::yield_now();
            *self.token.lock().unwrap() = false;
        }
    }
}

pub(crate) use imp::{Backoff, MutexGuard, Seat, UnsafeCell, atomic, thread_local};

/// A mutex that does not know poison: no user code runs under our locks, so a panic cannot leave one half-way.
#[derive(Debug)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// `None` if somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
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
