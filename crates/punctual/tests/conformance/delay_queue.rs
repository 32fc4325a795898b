//! The blocking delay queue.
