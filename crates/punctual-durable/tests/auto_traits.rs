//! What may cross threads, and panics.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use punctual_durable::{
    Backoff, Client, Error, Exchange, Exchanged, Firing, JobContext, JobError, JobRecord, Jobs, JobsBuilder,
    KindOptions, MemoryStore, NewJob, NewSchedule, Outcome, ScheduleRecord, Ticket, Timestamp,
};

fn shared<T: Send + Sync + Debug>() {}
fn plain<T: Send + Sync + Debug + Clone + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn handles_may_be_shared_by_threads() {
    shared::<Jobs>();
    shared::<Client>();
    shared::<JobsBuilder>();
    shared::<JobContext>();
    shared::<JobError>();
    shared::<Error>();
    shared::<MemoryStore>();
    #[cfg(feature = "sqlite")]
    shared::<punctual_durable::SqliteStore>();
}

#[test]
fn data_is_plain() {
    plain::<Timestamp>();
    plain::<NewJob>();
    plain::<JobRecord>();
    plain::<NewSchedule>();
    plain::<ScheduleRecord>();
    plain::<Firing>();
    plain::<Ticket>();
    plain::<Exchange>();
    plain::<Exchanged>();
    plain::<Backoff>();
    plain::<KindOptions>();
    plain::<Outcome>();
}
