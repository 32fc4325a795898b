//! The behaviour catalogue, one property a test; each test names the tags it proves.
//!
//! `cargo xtask catalogue` counts them.

mod support;

mod additions;
mod cancel;
mod completion;
mod construction;
mod counters;
mod decoration;
mod delay_queue;
mod drops;
mod extremes;
mod factories;
mod fixed_delay;
mod fixed_rate;
mod future_task;
mod hooks;
mod invoke;
mod keep_alive;
mod lifecycle;
mod memory;
mod one_shot;
mod order;
mod outcome;
mod queue_view;
mod races;
mod reentrancy;
mod rejection;
mod removal;
mod shutdown;
mod sizes;
mod spawner;
mod text;
mod timer;
mod weightless;
