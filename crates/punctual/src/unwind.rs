//! The only door to `catch_unwind`: user code may panic, and nothing of ours may be left half-way by it.
//!
//! Every call into user code (bodies, hooks, wakers, destructors, spawners) goes through [`catch`] or
//! [`discard`]. The closures are asserted unwind-safe because what they touch is either given up after a panic
//! (a body, a value) or is ours and never borrowed across the call.
//!
//! Two panics at once end the process: a destructor that panics while another panic unwinds. What one thing of
//! a user's does to itself is beyond help, but two of them are never dropped together: one [`discard`] each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Panic;

/// Calls `f`; a panic comes back as a value.
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(f)).map_err(Panic::from_payload)
}

/// Drops `value`, whose destructor may panic; says so if it did.
pub(crate) fn discard<V>(value: V) -> Result<(), Panic> {
    catch(move || drop(value))
}

/// Drops the payload of a panic for good. If its destructor panics, what that panicked with is leaked: it may
/// well be of the same kind.
pub(crate) fn bury(payload: Option<Box<dyn Any + Send>>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(another);
    }
}
