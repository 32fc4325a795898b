//! Jobs that survive the death of the process: run at least once, one outcome each, never early.
#![forbid(unsafe_code)]

#[cfg(feature = "testing")]
pub mod conformance;
mod error;
mod job;
mod lane;
mod retry;
mod store;
mod time;

pub use error::{Error, Result};
pub use job::{
    Due, Failure, Fence, JobId, JobRecord, JobState, Limits, NewJob, NodeId, OnConflict, OnLost, UniqueKey,
};
pub use lane::{Lane, share};
pub use retry::Backoff;
#[cfg(feature = "sqlite")]
pub use store::SqliteStore;
pub use store::{
    Cancelling, Enqueued, Exchange, Exchanged, Filter, MemoryStore, Moved, Next, Peek, Peeked, QueueChange,
    QueueRecord, Recorded, Renewal, Report, Rescued, Store, Tenure, Ticket, Verdict, lost, settle,
};
pub use time::{SystemTimeSource, TimeSource, Timestamp};
