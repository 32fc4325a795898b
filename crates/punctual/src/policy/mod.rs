//! Choices as data, each with the one pure function that is its rule.
//!
//! [`executor`] has those an executor is built with. The others belong to a single task, and a
//! [`Series`](crate::series::Series) obeys them.

mod backoff;
mod executor;
mod failure;
mod jitter;
mod missed;
mod overlap;
mod priority;

pub use backoff::Backoff;
pub use executor::{OnCancel, OnDrop, Rejection, RejectionHandler};
pub use failure::OnFailure;
pub(crate) use failure::Recovery;
pub(crate) use jitter::Dice;
pub use jitter::{Jitter, Spread};
pub(crate) use missed::{Choice, Moment, Overdue};
pub use missed::{Missed, MissedRule};
pub use overlap::Overlap;
pub use priority::Priority;
