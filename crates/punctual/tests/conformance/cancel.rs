//! Cancelling, with and without an interrupt.
