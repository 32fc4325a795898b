//! An async handler under way.
//!
//! The claimed job becomes due as a task like any other (`claimed.rs`); that task makes the future and spawns it on the
//! workers, and is over. While the future waits it holds no thread, and the place that the job took is free again,
//! as far as [`Settings::async_limit`](super::Settings) goes.
//!
//! # How it ends
//! - It is ready, or panics: that is its answer.
//! - It is asked to stop, and its kind is not cooperative: the node interrupts its task, which drops the future where it
//!   waits. A cooperative one is woken if it listens, and goes on.
//! - Nobody can wake it any more: the pool drops it, see `Scheduler::spawn`. That is a failure.
//! - The pool goes away: that is a shutdown, as if it had been asked to stop.
//!
//! # Invariants
//! 1. A flight reports exactly once, be it dropped: by 1 of `attempt.rs`, and by its own drop.
//! 2. The future is dropped before the report: whoever sees the job over sees the handler gone.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use punctual::{CancelOnDrop, Tick};

use super::attempt::{Attempt, message};
use super::{Node, Phase};
use crate::context::JobContext;
use crate::outcome::{JobError, Outcome};
use crate::registry::{Answer, Coming};
use crate::retry::Backoff;
use crate::signal::Stop;

pub(super) struct Flight {
    /// `None` once it is over.
    future: Option<Coming>,
    /// `None` once it has been reported.
    attempt: Option<Attempt>,
    node: Arc<Node>,
    context: JobContext,
    backoff: Backoff,
    late: Duration,
    began: Tick,
    /// Taken back when the flight is over.
    _limit: Option<CancelOnDrop<()>>,
}

impl Flight {
    pub(super) fn new(
        future: Coming,
        attempt: Attempt,
        context: JobContext,
        backoff: Backoff,
        (late, began): (Duration, Tick),
        limit: Option<CancelOnDrop<()>>,
    ) -> Self {
        let node = Arc::clone(attempt.node());
        Self {
            future: Some(future),
            attempt: Some(attempt),
            node,
            context,
            backoff,
            late,
            began,
            _limit: limit,
        }
    }

    /// By 2.
    fn land(&mut self, answer: Answer) {
        if let Some(future) = self.future.take()
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future)))
        {
            // What it said before counts.
            let _ = message(panic);
        }
        if let Some(attempt) = self.attempt.take() {
            attempt.end(answer, &self.context, self.backoff, (self.late, self.node.now().since(self.began)));
        }
    }
}

impl Future for Flight {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let answer = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => answer,
            Err(panic) => Err(JobError::from(format!("panicked: {}", message(panic)))),
        };
        this.land(answer);
        Poll::Ready(())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.attempt.is_none() {
            return;
        }
        if !matches!(self.node.lock().phase, Phase::Active | Phase::Standby) {
            // Unless there was another reason before.
            self.context.signal().raise(Stop::Shutdown);
        }
        let why = self.context.stopped().map_or_else(
            || JobError::from("the handler waits for something that can never happen"),
            JobError::from,
        );
        self.land(Err(why));
    }
}

/// Makes the future of a handler; if that panics, the panic is its answer.
pub(super) fn make(run: impl FnOnce() -> Coming) -> Coming {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let error = format!("panicked: {}", message(panic));
        Box::pin(async move { Err::<Outcome, _>(JobError::from(error)) })
    })
}
