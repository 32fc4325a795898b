//! Delays and periods at the ends of time.
