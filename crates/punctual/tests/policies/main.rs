//! What a task made by the builder does, policy by policy, on a clock that stands still until it is told.
//!
//! Bodies take their time by moving the clock themselves (`jump`), so that a run of 25 seconds is one, and the tests
//! say when each run began.

#[path = "../conformance/support.rs"]
mod support;

mod between;
mod bodies;

mod control;
#[cfg(feature = "cron")]
mod cron;
mod ends;
mod failures;
mod jitter;
mod lanes;
mod missed;
mod model;
mod overlap;
mod plans;
mod priority;
mod refused;
mod replaced;
mod retries;
mod timeouts;
mod triggers;
mod unobserved;
mod wall;
