//! Wrapped tasks.
