//! Enqueue without waiting: jobs are posted, and a receipt tells when they are kept.
//!
//! Posted jobs wait in a list. One task at a time takes all that wait, sends them to the store together, and tells
//! everybody; what is posted meanwhile goes together the next time. So a thousand callers, threads or futures, share one
//! commit, and a lone one pays no delay.
//!
//! # Invariants
//! 1. `busy` is set exactly while a task has been asked for or runs; it is cleared only under the lock that shows the
//!    list empty. So nothing posted is left lying.
//! 2. Every receipt resolves: a promise that is dropped unkept resolves it with an error.
//! 3. A batch that the store refuses is sent one by one: nobody suffers for another's job.
//!
//! # Locks
//! The list, and one for each receipt; neither is held while the other is, nor while the store, a pool or a waker is
//! called.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use punctual::{Clock, Executor, Parker};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::job::NewJob;
use crate::store::Enqueued;

/// Jobs in one batch.
const MOST: usize = 1_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where jobs are posted.
pub(crate) struct PostBox {
    list: Mutex<List>,
    /// A thread that comes when something is posted, and goes when nothing has been for a while.
    carrier: Executor,
}

#[derive(Default)]
struct List {
    posted: Vec<(NewJob, Promise)>,
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
        let (promise, receipt) = promise();
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
            let batch: Vec<(NewJob, Promise)> = list.posted.drain(..count).collect();
            drop(list);
            deliver(batch, client);
        }
    }
}

fn deliver(batch: Vec<(NewJob, Promise)>, client: &Client) {
    let (jobs, promises): (Vec<NewJob>, Vec<Promise>) = batch.into_iter().unzip();
    match send(client, jobs.clone()) {
        Ok(answers) => {
            promises.into_iter().zip(answers).for_each(|(promise, answer)| promise.keep(Ok(answer)))
        }
        Err(error) if jobs.len() == 1 => {
            promises.into_iter().for_each(|promise| promise.keep(Err(error.copy())))
        }
        // By 3. A store that is down says so to each of them.
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
pub struct Receipt {
    slot: Arc<Mutex<Slot>>,
}

/// The other side of a receipt.
struct Promise {
    slot: Arc<Mutex<Slot>>,
}

enum Slot {
    Open(Option<Waker>),
    Answered(Result<Enqueued>),
    /// The answer has been taken.
    Taken,
}

fn promise() -> (Promise, Receipt) {
    let slot = Arc::new(Mutex::new(Slot::Open(None)));
    (Promise { slot: Arc::clone(&slot) }, Receipt { slot })
}

impl Promise {
    fn keep(self, answer: Result<Enqueued>) {
        self.settle(answer);
    }

    fn settle(&self, answer: Result<Enqueued>) {
        let mut slot = lock(&self.slot);
        let waker = match &mut *slot {
            Slot::Open(waker) => {
                let waker = waker.take();
                *slot = Slot::Answered(answer);
                waker
            }
            Slot::Answered(_) | Slot::Taken => None,
        };
        drop(slot);
        if let Some(waker) = waker
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
        {
            let _ = crate::node::panic_message(panic);
        }
    }
}

impl Drop for Promise {
    /// By 2.
    fn drop(&mut self) {
        self.settle(Err(Error::transient("the job was not sent: no thread could be started")));
    }
}

impl Receipt {
    /// Waits until the job is kept.
    ///
    /// # Errors
    /// As [`NewJobBuilder::send`](crate::NewJobBuilder::send).
    pub fn join(mut self) -> Result<Enqueued> {
        let parker = Parker::current();
        let waker = Waker::from(Arc::clone(&parker));
        loop {
            if let Poll::Ready(answer) = self.look(&waker) {
                return answer;
            }
            parker.park();
        }
    }

    fn look(&mut self, waker: &Waker) -> Poll<Result<Enqueued>> {
        let mut slot = lock(&self.slot);
        match &mut *slot {
            Slot::Open(place) => {
                let old = place.replace(waker.clone());
                drop(slot);
                drop(old);
                Poll::Pending
            }
            Slot::Answered(_) => match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Answered(answer) => Poll::Ready(answer),
                Slot::Open(_) | Slot::Taken => Poll::Pending,
            },
            Slot::Taken => Poll::Ready(Err(Error::closed("the receipt has been taken before"))),
        }
    }
}

impl Future for Receipt {
    type Output = Result<Enqueued>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.look(context.waker())
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*lock(&self.slot) {
            Slot::Open(_) => "open",
            Slot::Answered(_) => "answered",
            Slot::Taken => "taken",
        };
        f.debug_tuple("Receipt").field(&state).finish()
    }
}
