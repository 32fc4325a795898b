//! The scheduled thread pool for Rust.
#![forbid(unsafe_code)]
