//! One claimed job, from the claim to the report.
//!
//! # Invariants
//! 1. Every attempt reports exactly once: if it is dropped without having run (refused by the pool, taken out of its
//!    queue, too late for its lease) the drop reports that the job is given back.
//! 2. The handler is called only while the store's clock shows the due time or later, and the lease is valid.
//! 3. An attempt whose handler has been called is given back, uncharged, only if the job may be run again when it is lost
//!    ([`OnLost::Rerun`]). Otherwise it counts, however it was stopped: so handlers are called at most `max_attempts`
//!    times.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::flight::{self, Flight};
use super::{Node, Outgoing};
use crate::context::JobContext;
use crate::job::{JobRecord, NewJob, OnLost};
use crate::journal;
use crate::outcome::{JobError, Outcome, Then};
use crate::registry::{Answer, Run};
use crate::retry::Backoff;
use crate::signal::{Signal, Stop};
use crate::store::Verdict;

/// The longest message of an error that is kept, in bytes.
const MAX_MESSAGE: usize = 16 << 10;

pub(super) struct Attempt {
    node: Arc<Node>,
    /// `None` once it has been reported.
    job: Option<Arc<JobRecord>>,
    signal: Arc<Signal>,
    /// Whether the handler has been called.
    has_begun: bool,
}

impl Attempt {
    pub(super) fn new(node: Arc<Node>, job: Arc<JobRecord>, signal: Arc<Signal>) -> Self {
        Self { node, job: Some(job), signal, has_begun: false }
    }

    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(super) fn job(&self) -> &Arc<JobRecord> {
        self.job.as_ref().expect("present until it is reported")
    }

    /// Called by a worker when the job is due by the executor's clock.
    pub(super) fn run(self) {
        if self.node.store.now() < self.job().due {
            // The store's clock was set back, or runs slower than ours: wait for the rest.
            let node = Arc::clone(&self.node);
            node.relaunch(self);
            return;
        }
        let (id, fence) = (self.job().id, self.job().fence);
        if self.signal.raised().is_some() || !self.node.may_start(id, fence) {
            return; // by 1
        }
        self.call();
    }

    fn call(mut self) {
        let node = Arc::clone(&self.node);
        let job = Arc::clone(self.job());
        let Some((run, options)) = node.handler(&job.kind) else { return };
        let (id, fence, backoff) = (job.id, job.fence, options.backoff);
        let limit = job.limits.timeout.and_then(|timeout| node.stop_later(timeout, id, fence));
        let (late, began) = (node.store.now().since(job.due), node.now());
        let context = JobContext::new(job, Arc::clone(&self.signal), node.client());
        let payload = context.job().payload.as_deref().unwrap_or_default();
        match run {
            Run::Sync(run) => {
                self.has_begun = true;
                let answer = catch_unwind(AssertUnwindSafe(|| run(payload, &context)));
                drop(limit);
                let answer = answer
                    .unwrap_or_else(|panic| Err(JobError::from(format!("panicked: {}", message(panic)))));
                self.end(answer, &context, backoff, (late, node.now().since(began)));
            }
            Run::Async(run) => {
                if !node.take_off(id, fence) {
                    return; // by 1
                }
                self.has_begun = true;
                let future = flight::make(|| run(payload, context.clone()));
                let flight = Flight::new(future, self, context, backoff, (late, began), limit);
                node.fly(id, fence, flight, options.cooperative);
            }
        }
    }

    /// Gives it back unbegun, for a while.
    pub(super) fn defer(mut self, after: Duration) {
        self.report(Verdict::Defer { after }, Vec::new(), None);
    }

    /// The handler has answered, after it was so late and ran so long.
    pub(super) fn end(
        mut self,
        answer: Answer,
        context: &JobContext,
        backoff: Backoff,
        run: (Duration, Duration),
    ) {
        let verdict = judge(answer, self.signal.raised(), backoff, context.job());
        self.report(verdict, context.take_follow_ups(), Some(run));
    }

    fn report(&mut self, verdict: Verdict, follow_ups: Vec<NewJob>, run: Option<(Duration, Duration)>) {
        if let Some(job) = self.job.take() {
            self.node.report(Outgoing { job, verdict, follow_ups, run, refused: None });
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(job) = &self.job else { return };
        let verdict = match job.limits.on_lost {
            _ if self.signal.raised() == Some(Stop::Cancelled) => Verdict::Cancelled,
            // By 3, should anything go wrong between the call and the report.
            OnLost::Fail if self.has_begun => {
                let error = "what became of it was lost".to_owned();
                Verdict::Retry { after: Duration::ZERO, error }
            }
            _ => Verdict::Release,
        };
        self.report(verdict, Vec::new(), None);
    }
}

/// What the answer of a handler means. A handler that was asked to stop, and failed, did what it was asked; unless it says
/// what is to be done about the failure, for then it knows better.
fn judge(result: Answer, stop: Option<Stop>, backoff: Backoff, job: &JobRecord) -> Verdict {
    let error = match result {
        Ok(Outcome::Done) => return Verdict::Done,
        Ok(Outcome::Discard(reason)) => return Verdict::Discard { reason: shorten(reason) },
        Ok(Outcome::Snooze(after)) => return Verdict::Snooze { after },
        Err(error) => error,
    };
    let then = error.then();
    let error = shorten(text(error));
    let after = match (stop, then) {
        (Some(Stop::Cancelled), _) => return Verdict::Cancelled,
        (_, Then::Give) => return Verdict::Fail { error },
        (_, Then::After(after)) => after,
        (Some(Stop::Shutdown | Stop::LeaseLost), Then::Backoff) => match job.limits.on_lost {
            OnLost::Rerun => return Verdict::Release,
            // By 3.
            OnLost::Fail => Duration::ZERO,
        },
        (_, Then::Backoff) => backoff.wait(job.attempt),
    };
    Verdict::Retry { after, error }
}

/// What an error says. Its text and its destructor are the user's: a panic of the first is told in its place, and one of
/// the second is contained.
fn text(error: JobError) -> String {
    let said = catch_unwind(AssertUnwindSafe(|| error.to_string()));
    if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(error))) {
        // What it said before counts.
        let _ = message(panic);
    }
    said.unwrap_or_else(|panic| format!("an error whose text panicked: {}", message(panic)))
}

fn shorten(message: String) -> String {
    journal::shorten(message, MAX_MESSAGE)
}

/// The text of a panic. Its payload is dropped here; should that panic, what comes of it is leaked.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "something that is no text".to_owned(),
    };
    if let Err(another) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
        std::mem::forget(another);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Limits};
    use crate::time::Timestamp;

    #[test]
    fn a_verdict_says_what_the_handler_meant() {
        let backoff = Backoff::fixed(Duration::from_secs(7));
        let job = |on_lost| {
            let limits = Limits { on_lost, ..Limits::default() };
            let job = NewJob { limits, ..NewJob::new("k", "{}") };
            JobRecord { attempt: 1, ..JobRecord::accepted(JobId::from_i64(1), job, Timestamp::EPOCH) }
        };
        let judge = |result, stop| judge(result, stop, backoff, &job(OnLost::Rerun));
        let failed = || Err(JobError::from("no"));
        let permanent = || Err(JobError::permanent("no"));
        let later = || Err(JobError::from("no").retry_after(Duration::from_secs(9)));
        let retry = |seconds| Verdict::Retry { after: Duration::from_secs(seconds), error: "no".to_owned() };
        let fail = Verdict::Fail { error: "no".to_owned() };
        assert_eq!(judge(Ok(Outcome::Done), Some(Stop::Cancelled)), Verdict::Done, "it was quicker");
        assert_eq!(judge(failed(), None), retry(7));
        assert_eq!(judge(failed(), Some(Stop::TimedOut)), retry(7));
        assert_eq!(judge(failed(), Some(Stop::Cancelled)), Verdict::Cancelled);
        for stop in [Some(Stop::Shutdown), Some(Stop::LeaseLost)] {
            assert_eq!(judge(failed(), stop), Verdict::Release, "it is not charged");
            let once = super::judge(failed(), stop, backoff, &job(OnLost::Fail));
            assert_eq!(once, retry(0), "it is, by 3");
        }
        for stop in [None, Some(Stop::TimedOut), Some(Stop::Shutdown)] {
            assert_eq!(judge(later(), stop), retry(9));
            assert_eq!(judge(permanent(), stop), fail);
        }
        assert_eq!(judge(permanent(), Some(Stop::Cancelled)), Verdict::Cancelled);
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let long = shorten("ä".repeat(MAX_MESSAGE));
        assert!(long.len() <= MAX_MESSAGE + '…'.len_utf8() && long.ends_with('…'));
    }
}
