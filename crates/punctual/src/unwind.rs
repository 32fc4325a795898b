//! The only door to `catch_unwind`: user code may panic, and nothing of ours may be left half-way by it.
//!
//! Every call into user code (bodies, hooks, wakers, destructors, spawners) goes through [`catch`] or
//! [`discard`]. The closures are asserted unwind-safe because what they touch is either given up after a panic
//! (a body, a value) or is ours and never borrowed across the call.

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
