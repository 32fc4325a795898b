//! All tasks, or the first that succeeds.
