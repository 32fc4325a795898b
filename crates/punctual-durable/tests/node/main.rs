//! Nodes and clients as users see them: a theme in each file.

#[path = "../delegate/mod.rs"]
mod delegate;
#[cfg(feature = "sqlite")]
#[path = "../folder/mod.rs"]
mod folder;

mod bench;
mod flaky;

mod async_handlers;
mod backfill;
mod bad_input;
mod chain;
#[cfg(feature = "sqlite")]
mod completing;
mod custody;
mod early;
mod failing;
mod journal;
#[cfg(feature = "sqlite")]
mod one_file;
mod outcome;
mod recurring;
mod running;
mod slow;
mod statistics;
mod stopping;
mod transfer;
mod trimming;
