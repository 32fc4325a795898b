//! What the tests of nodes have in common: a manual clock, a store on it, and handlers that tell what they do.

use std::error::Error;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Clock, ManualClock};
use punctual_durable::{
    Done, JobContext, JobError, JobId, JobState, Jobs, JobsBuilder, MemoryStore, Outcome, Result, Store,
};
use serde::{Deserialize, Serialize};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Mail {
    pub(crate) to: String,
}

pub(crate) fn mail(to: &str) -> Mail {
    Mail { to: to.to_owned() }
}

/// A clock, a store on it, and a node to be.
pub(crate) struct Bench {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<MemoryStore>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self { clock: clock.clone(), store: Arc::new(MemoryStore::with_time(clock)) }
    }

    pub(crate) fn jobs(&self) -> JobsBuilder {
        self.on(self.store.clone())
    }

    pub(crate) fn on(&self, store: Arc<dyn Store>) -> JobsBuilder {
        // Renewals and looks are rare, so that hours pass quickly.
        Jobs::on(store)
            .clock(self.clock.clone())
            .poll_interval(60 * SECOND)
            .lease(600 * SECOND)
            .concurrency(2)
    }

    pub(crate) fn state(&self, id: JobId) -> JobState {
        self.store.job(id).unwrap().expect("it is known").state
    }

    /// Everything is in order, and nothing is left running.
    pub(crate) fn end(self, jobs: Jobs) {
        assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 0);
        self.store.verify();
    }
}

/// To whom, and when.
pub(crate) type Calls = Receiver<(String, Duration)>;

/// A handler that tells when it was called and with what.
pub(crate) fn recorder(
    clock: &ManualClock,
) -> (impl Fn(Mail, &JobContext) -> Result<Outcome, JobError> + Clone + use<>, Calls) {
    let (sender, receiver) = channel();
    let clock = clock.clone();
    let start = clock.now();
    let handler = move |mail: Mail, _: &JobContext| {
        sender.send((mail.to, clock.now().since(start)))?;
        Ok(Done)
    };
    (handler, receiver)
}

/// A body that says that it has begun, and goes on when told.
pub(crate) struct Gate {
    pub(crate) begun: Receiver<()>,
    pub(crate) go_on: Sender<()>,
}

pub(crate) fn gated() -> (impl Fn(Mail, &JobContext) -> Result<Outcome, JobError>, Gate) {
    let (begin, begun) = channel();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let handler = move |_: Mail, _: &JobContext| {
        begin.send(())?;
        wait.lock().unwrap().recv()?;
        Ok(Done)
    };
    (handler, Gate { begun, go_on })
}

/// An error that misbehaves itself.
#[derive(Debug)]
pub(crate) struct Unruly {
    pub(crate) no_text: bool,
    pub(crate) no_end: bool,
}

impl fmt::Display for Unruly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.no_text, "no words for it");
        f.write_str("unruly")
    }
}

impl Error for Unruly {}

impl Drop for Unruly {
    fn drop(&mut self) {
        assert!(!self.no_end, "it does not end");
    }
}

/// Each way of an error to misbehave, and what is said of a job that failed with it.
pub(crate) fn unruly() -> [((bool, bool), &'static str); 3] {
    let wordless = "an error whose text panicked: no words for it";
    [((true, false), wordless), ((false, true), "unruly"), ((true, true), wordless)]
}

/// How many threads wait on the clock.
pub(crate) fn parked(clock: &ManualClock) -> u32 {
    let text = format!("{clock:?}");
    let (_, count) = text.split_once("parked: ").unwrap();
    count.trim_end_matches(" }").parse().unwrap()
}
