//! How many threads.
