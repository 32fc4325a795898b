//! Servers that tests and benchmarks start, break and stop.
//!
//! ```no_run
//! use punctual_testbed::Postgres;
//!
//! let url = Postgres::shared().fresh_database(); // postgres://punctual@127.0.0.1:40123/test_…
//! ```
#![forbid(unsafe_code)]

mod certificate;
mod postgres;
mod process;

pub use crate::postgres::{Postgres, Settings};
