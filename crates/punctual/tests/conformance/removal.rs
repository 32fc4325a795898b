//! Leaving the queue: on cancel, by remove, by purge.
