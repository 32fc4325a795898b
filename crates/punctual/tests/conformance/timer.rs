//! The one-thread timer.
