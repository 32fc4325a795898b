//! The program as a black box: real files, real processes, real signals.
//!
//! Time is the subject here, so tests wait for what they expect, up to [`support::LIMIT`]; none of them waits for
//! time to pass, and none fails because a machine is slow.

mod check;
mod floods;
mod live;
mod logs;
mod next;
mod outcomes;
mod papers;
mod reload;
mod signals;
mod stops;
mod support;
mod timing;
