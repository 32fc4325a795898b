//! What may cross threads, and panics.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use punctual_durable::{
    Backoff, Cargo, Client, Density, Error, ErrorTally, Exchange, Exchanged, Finding, Firing, JobContext,
    JobError, JobLog, JobOutcome, JobRecord, Jobs, JobsBuilder, KindOptions, MemoryStore, MovingJob, NewJob,
    NewSchedule, News, Outcome, Progress, Receipt, RunTally, ScheduleRecord, Spans, StopRequested, Tallies,
    Ticket, Timestamp, Update,
};

fn shared<T: Send + Sync + Debug>() {}
fn plain<T: Send + Sync + Debug + Clone + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn handles_may_be_shared_by_threads() {
    shared::<Jobs>();
    shared::<Client>();
    shared::<JobsBuilder>();
    shared::<JobContext>();
    shared::<JobOutcome>();
    shared::<Receipt>();
    shared::<StopRequested>();
    shared::<JobError>();
    shared::<Error>();
    shared::<MemoryStore>();
    #[cfg(feature = "sqlite")]
    shared::<punctual_durable::SqliteStore>();
    shared::<punctual_durable::PostgresStore>();
}

#[test]
fn data_is_plain() {
    plain::<Timestamp>();
    plain::<NewJob>();
    plain::<News>();
    plain::<JobRecord>();
    plain::<NewSchedule>();
    plain::<ScheduleRecord>();
    plain::<Firing>();
    plain::<punctual_durable::Happening>();
    plain::<Ticket>();
    plain::<Exchange>();
    plain::<Exchanged>();
    plain::<Update>();
    plain::<Progress>();
    plain::<JobLog>();
    plain::<Cargo>();
    plain::<MovingJob>();
    plain::<Tallies>();
    plain::<RunTally>();
    plain::<ErrorTally>();
    plain::<Spans>();
    plain::<Density>();
    plain::<punctual_durable::NodeRecord>();
    plain::<Finding>();
    plain::<Backoff>();
    plain::<KindOptions>();
    plain::<Outcome>();
}
