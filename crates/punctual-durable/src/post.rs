//! Enqueue without waiting: jobs are posted, and a receipt tells when they are kept.
//!
//! Posted jobs wait in a list. One task at a time takes all that wait, sends them to the store together, and tells
//! everybody; what is posted meanwhile goes together the next time. So a thousand callers, threads or futures, share one
//! commit, and a lone one pays no delay.
//!
//! # Invariants
//! 1. `busy` is set exactly while a task has been asked for or runs; it is cleared only under the lock that shows the
//!    list empty. So nothing posted is left lying.
//! 2. Every receipt resolves, see `promise.rs`.
//! 3. A batch in which the store finds fault with a job is sent one by one: nobody suffers for another's job.
//! 4. Nothing is sent again that may have been kept. Faults of a job (invalid, conflict) are found before anything is
//!    kept; any other error may come after the commit, when the connection broke or the answer could not be read, and is
//!    told to everybody in the batch. Only they can know whether a second job would hurt.
//!
//! # Locks
//! The list, and one for each receipt; neither is held while the other is, nor while the store or a pool is called.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use punctual::{Clock, Executor};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::job::NewJob;
use crate::promise::{Promise, Promised, lock, promise};
use crate::store::Enqueued;

/// Jobs in one batch.
const MOST: usize = 1_000;

/// Where jobs are posted.
pub(crate) struct PostBox {
    list: Mutex<List>,
    /// A thread that comes when something is posted, and goes when nothing has been for a while.
    carrier: Executor,
}

#[derive(Default)]
struct List {
    posted: Vec<(NewJob, Promise<Enqueued>)>,
    busy: bool,
}

impl PostBox {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let builder = Executor::builder().core_threads(0).keep_alive(Duration::from_secs(10)).clock(clock);
        let carrier = builder.thread_name("punctual-post").build();
        let carrier = carrier.map_err(|error| Error::invalid(error.to_string()))?;
        Ok(Arc::new(Self { list: Mutex::default(), carrier }))
    }

    /// Posts a job; `client` knows the way to the store.
    pub(crate) fn post(self: &Arc<Self>, job: Result<NewJob>, client: &Client) -> Receipt {
        let (promise, promised) = promise("the job was not sent: no thread could be started");
        let receipt = Receipt(promised);
        let job = match job.and_then(|job| job.check().map(|()| job)) {
            Ok(job) => job,
            Err(error) => {
                promise.keep(Err(error));
                return receipt;
            }
        };
        let mut list = lock(&self.list);
        list.posted.push((job, promise));
        let idle = !std::mem::replace(&mut list.busy, true);
        drop(list);
        if idle {
            let (this, client) = (Arc::clone(self), client.clone());
            if self.carrier.execute(move || this.carry(&client)).is_err() {
                // No thread can be had. What is in the list is given up, by 2.
                let mut list = lock(&self.list);
                list.busy = false;
                let given_up = std::mem::take(&mut list.posted);
                drop(list);
                drop(given_up);
            }
        }
        receipt
    }

    fn carry(&self, client: &Client) {
        loop {
            let mut list = lock(&self.list);
            if list.posted.is_empty() {
                list.busy = false;
                return;
            }
            let count = list.posted.len().min(MOST);
            let batch: Vec<(NewJob, Promise<Enqueued>)> = list.posted.drain(..count).collect();
            drop(list);
            deliver(batch, client);
        }
    }
}

fn deliver(batch: Vec<(NewJob, Promise<Enqueued>)>, client: &Client) {
    let (jobs, promises): (Vec<NewJob>, Vec<Promise<Enqueued>>) = batch.into_iter().unzip();
    match send(client, jobs.clone()) {
        Ok(answers) => {
            promises.into_iter().zip(answers).for_each(|(promise, answer)| promise.keep(Ok(answer)))
        }
        // By 4.
        Err(error) if jobs.len() == 1 || !(error.is_conflict() || error.is_invalid()) => {
            promises.into_iter().for_each(|promise| promise.keep(Err(error.copy())))
        }
        // By 3.
        Err(_) => {
            for (job, promise) in jobs.into_iter().zip(promises) {
                let answer = send(client, vec![job]).and_then(|mut answers| {
                    answers.pop().ok_or_else(|| Error::broken("the store gave no answer"))
                });
                promise.keep(answer);
            }
        }
    }
}

/// A panic of the store is an error like others.
fn send(client: &Client, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
    catch_unwind(AssertUnwindSafe(|| client.send(jobs))).unwrap_or_else(|panic| {
        Err(Error::broken(format!("the store panicked: {}", crate::node::panic_message(panic))))
    })
}

impl fmt::Debug for PostBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostBox").field("posted", &lock(&self.list).posted.len()).finish_non_exhaustive()
    }
}

/// Tells when a posted job is kept; see [`NewJobBuilder::post`](crate::NewJobBuilder::post).
///
/// Wait for it with [`join`](Self::join), or await it, under any runtime or none. Dropping it changes nothing: the job is
/// on its way.
#[must_use = "a job is kept for certain only when its receipt says so"]
pub struct Receipt(Promised<Enqueued>);

impl Receipt {
    /// Waits until the job is kept.
    ///
    /// # Errors
    /// As [`NewJobBuilder::send`](crate::NewJobBuilder::send).
    pub fn join(self) -> Result<Enqueued> {
        let answer = self.0.wait(|parker| {
            parker.park();
            true
        });
        answer.unwrap_or_else(|| Err(Error::closed("nobody waits any more")))
    }
}

impl Future for Receipt {
    type Output = Result<Enqueued>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.look(context.waker())
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receipt").field(&self.0.state()).finish()
    }
}
