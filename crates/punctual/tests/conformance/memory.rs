//! What is dropped, and when.
