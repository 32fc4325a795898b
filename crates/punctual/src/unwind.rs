//! The only door to `catch_unwind`: user code may panic, and nothing of ours may be left half-way by it.
//!
//! Every call into user code (bodies, hooks, wakers, destructors, spawners) goes through [`catch`] or
//! [`discard`]. The closures are asserted unwind-safe because what they touch is either given up after a panic
//! (a body, a value) or is ours and never borrowed across the call.
//!
//! Two panics at once end the process: a destructor that panics while another panic unwinds. What one thing of
//! a user's does to itself is beyond help, but two of them are never dropped together: one [`discard`] each, or, where one
//! value of ours has several of theirs, one [`Guest`] each.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::thread;

use crate::completion::CompletionQueue;
use crate::context::TaskContext;
use crate::delay_queue::DelayQueue;
use crate::error::Panic;
use crate::future_task::FutureTask;
use crate::handle::TaskHandle;
use crate::pool::Pool;
use crate::series::Series;
use crate::task_builder::PeriodicBuilder;
use crate::unrun::UnrunTask;

/// Calls `f`; a panic comes back as a value.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(f)).map_err(Panic::from_payload)
}

/// Drops `value`, whose destructor may panic; says so if it did.
#[inline]
pub(crate) fn discard<V>(value: V) -> Result<(), Panic> {
    if !std::mem::needs_drop::<V>() {
        return Ok(());
    }
    catch(move || drop(value))
}

/// Something of a user's that goes with others in one drop: the first of them to panic is heard, and the rest is dropped
/// quietly by the same unwinding.
pub(crate) struct Guest<V>(Option<V>);

impl<V> Guest<V> {
    pub(crate) fn new(value: Option<V>) -> Self {
        Self(value)
    }
}

impl<V> Deref for Guest<V> {
    type Target = Option<V>;

    fn deref(&self) -> &Option<V> {
        &self.0
    }
}

impl<V> DerefMut for Guest<V> {
    fn deref_mut(&mut self) -> &mut Option<V> {
        &mut self.0
    }
}

impl<V> Drop for Guest<V> {
    fn drop(&mut self) {
        let value = self.0.take();
        if thread::panicking() {
            let _ = discard(value);
        }
    }
}

/// Drops the payload of a panic for good. If its destructor panics, what that panicked with is leaked: it may
/// well be of the same kind.
pub(crate) fn bury(payload: Option<Box<dyn Any + Send>>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(another);
    }
}

// What a user holds can be used after a panic was caught, like a mutex: no call of theirs that unwinds leaves
// anything of ours half-way. The compiler cannot see it through trait objects.

impl RefUnwindSafe for Pool {}
impl RefUnwindSafe for Series {}

impl<T> UnwindSafe for TaskHandle<T> {}
impl<T> RefUnwindSafe for TaskHandle<T> {}

// A builder is data and closures that are only called once it is used up.
impl<F: UnwindSafe> UnwindSafe for PeriodicBuilder<'_, F> {}
impl<F: RefUnwindSafe> RefUnwindSafe for PeriodicBuilder<'_, F> {}

impl UnwindSafe for UnrunTask {}
impl RefUnwindSafe for UnrunTask {}

impl UnwindSafe for TaskContext {}
impl RefUnwindSafe for TaskContext {}

impl<T> UnwindSafe for FutureTask<T> {}
impl<T> RefUnwindSafe for FutureTask<T> {}

impl<T> UnwindSafe for CompletionQueue<T> {}
impl<T> RefUnwindSafe for CompletionQueue<T> {}

impl<T> UnwindSafe for DelayQueue<T> {}
impl<T> RefUnwindSafe for DelayQueue<T> {}
