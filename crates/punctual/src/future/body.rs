//! Bodies that are futures: one, or a new one for each run.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use super::Wakes;
use super::wakes::Wakeup;
use crate::task::Body;

/// Polls the futures of one task.
struct Poller {
    wakes: Arc<Wakes>,
    /// That of the present run, while anybody holds a waker of it.
    wakeup: Weak<Wakeup>,
}

enum Polling<T> {
    Ready(T),
    Pending,
    /// Nobody has woken it, and nobody can.
    Lost,
}

impl Poller {
    fn new(wakes: Arc<Wakes>) -> Self {
        Self { wakes, wakeup: Weak::new() }
    }

    fn poll<F: Future>(&mut self, future: Pin<&mut F>) -> Polling<F::Output> {
        let woken = self.wakes.answer();
        let waker = match self.wakeup.upgrade() {
            Some(wakeup) => Waker::from(wakeup),
            None if self.wakes.is_under_way() && !woken => return Polling::Lost,
            None => {
                let wakeup = Wakeup::new(&self.wakes);
                self.wakeup = Arc::downgrade(&wakeup);
                Waker::from(wakeup)
            }
        };
        match future.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => {
                self.wakes.ready();
                self.wakeup = Weak::new();
                Polling::Ready(value)
            }
            Poll::Pending => {
                // Before `waker` is dropped, which may be the last.
                self.wakes.not_ready();
                Polling::Pending
            }
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.wakes.detach();
    }
}

/// One future.
pub(crate) struct Polled<F> {
    /// Dropped first: what the future's destructor wakes is over.
    poller: Poller,
    future: Stage<F>,
}

enum Stage<F> {
    /// May still be given back.
    Fresh(Box<F>),
    Begun(Pin<Box<F>>),
    /// Between the two.
    Moving,
}

impl<F> Polled<F> {
    pub(crate) fn new(wakes: Arc<Wakes>, future: F) -> Self {
        Self { poller: Poller::new(wakes), future: Stage::Fresh(Box::new(future)) }
    }

    /// Gives the future of a refused task back.
    pub(crate) fn into_future(self) -> F {
        match self.future {
            Stage::Fresh(future) => *future,
            _ => unreachable!("a task that was refused has not been polled"),
        }
    }
}

impl<F> Stage<F> {
    fn pinned(&mut self) -> Pin<&mut F> {
        if let Self::Fresh(_) = self {
            let Self::Fresh(future) = std::mem::replace(self, Self::Moving) else {
                unreachable!("matched above")
            };
            *self = Self::Begun(Box::into_pin(future));
        }
        match self {
            Self::Begun(future) => future.as_mut(),
            _ => unreachable!("begun above"),
        }
    }
}

impl<F> Body<F::Output> for Polled<F>
where
    F: Future + Send,
{
    fn call(body: &mut Option<Self>) -> Option<F::Output> {
        let this = body.as_mut()?;
        match this.poller.poll(this.future.pinned()) {
            // The future stays: whoever runs the body drops it where a panic does not cost the value.
            Polling::Ready(value) => Some(value),
            Polling::Pending => None,
            Polling::Lost => {
                *body = None;
                None
            }
        }
    }
}

/// One future, made when it is due.
pub(crate) struct Made<M, F> {
    /// Dropped first: what the destructors wake is over.
    poller: Poller,
    future: Option<Pin<Box<F>>>,
    /// `None` once it has been called.
    make: Option<M>,
}

impl<M, F> Made<M, F> {
    pub(crate) fn new(wakes: Arc<Wakes>, make: M) -> Self {
        Self { poller: Poller::new(wakes), future: None, make: Some(make) }
    }

    /// Gives what makes the future of a refused task back.
    pub(crate) fn into_make(self) -> M {
        self.make.expect("a task that was refused has not been run")
    }
}

impl<M, F> Body<F::Output> for Made<M, F>
where
    M: FnOnce() -> F + Send,
    F: Future + Send,
{
    fn call(body: &mut Option<Self>) -> Option<F::Output> {
        let this = body.as_mut()?;
        if let Some(make) = this.make.take() {
            this.future = Some(Box::pin(make()));
        }
        let future = this.future.as_mut()?;
        match this.poller.poll(future.as_mut()) {
            Polling::Ready(value) => Some(value),
            Polling::Pending => None,
            Polling::Lost => {
                *body = None;
                None
            }
        }
    }
}

/// A future for each run, made when the run is due.
pub(crate) struct Remade<M, F> {
    /// Dropped first: what the destructors wake is over.
    poller: Poller,
    /// One place for the futures of all runs.
    future: Option<Pin<Box<Option<F>>>>,
    make: M,
}

impl<M, F> Remade<M, F> {
    pub(crate) fn new(wakes: Arc<Wakes>, make: M) -> Self {
        Self { poller: Poller::new(wakes), future: None, make }
    }

    /// Gives what makes the futures back.
    pub(crate) fn into_make(self) -> M {
        self.make
    }
}

impl<M, F> Body<()> for Remade<M, F>
where
    M: FnMut() -> F + Send,
    F: Future<Output = ()> + Send,
{
    fn call(body: &mut Option<Self>) -> Option<()> {
        let this = body.as_mut()?;
        let place = this.future.get_or_insert_with(|| Box::pin(None));
        if place.as_ref().is_none() {
            place.set(Some((this.make)()));
        }
        let future = place.as_mut().as_pin_mut().expect("made above");
        match this.poller.poll(future) {
            Polling::Ready(()) => {
                place.set(None);
                Some(())
            }
            Polling::Pending => None,
            Polling::Lost => {
                *body = None;
                None
            }
        }
    }
}
