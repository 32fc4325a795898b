//! Bodies that are futures: one, or a new one for each run.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use super::Wakes;
use super::wakes::Wakeup;
use crate::series::{Ending, Hold, Series};
use crate::task::Body;
use crate::unwind::Guest;

/// Polls the futures of one task.
struct Poller {
    wakes: Arc<Wakes>,
    /// That of the present run, while anybody holds a waker of it.
    wakeup: Weak<Wakeup>,
    /// Who may stop a run. Dropped with what watches over it.
    series: Option<Hold>,
}

/// What is to be done with a future that is due.
enum Turn {
    Poll(Waker),
    /// Nobody has woken it, and nobody can.
    Lost,
    /// Its time is over, or the next run is to replace it.
    Stopped,
}

impl Poller {
    fn new(wakes: Arc<Wakes>, series: Option<Arc<Series>>) -> Self {
        Self { wakes, wakeup: Weak::new(), series: series.map(Hold::new) }
    }

    /// Answers the wakes so far.
    fn turn(&mut self) -> Turn {
        let woken = self.wakes.answer();
        // After the answer: whoever stops the run from here on makes it due once more.
        if self.series.as_ref().is_some_and(|series| series.is_stopped()) {
            return Turn::Stopped;
        }
        match self.wakeup.upgrade() {
            Some(wakeup) => Turn::Poll(Waker::from(wakeup)),
            None if self.wakes.is_under_way() && !woken => Turn::Lost,
            None => {
                let wakeup = Wakeup::new(&self.wakes);
                self.wakeup = Arc::downgrade(&wakeup);
                Turn::Poll(Waker::from(wakeup))
            }
        }
    }

    fn poll<F: Future>(&mut self, waker: &Waker, future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => {
                self.end_run();
                Some(value)
            }
            Poll::Pending => {
                // Before `waker` is dropped, which may be the last.
                self.wakes.not_ready();
                None
            }
        }
    }

    fn end_run(&mut self) {
        self.wakes.ready();
        self.wakeup = Weak::new();
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
        Self { poller: Poller::new(wakes, None), future: Stage::Fresh(Box::new(future)) }
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
        // Without a waker it has ended without a value, while it was under way.
        let Turn::Poll(waker) = this.poller.turn() else { return None };
        // The future stays: whoever runs the body drops it where a panic does not cost the value.
        this.poller.poll(&waker, this.future.pinned())
    }
}

/// What makes the futures of a task.
pub(crate) trait Make<F>: Send {
    /// The future of the next run; `None` if there is none.
    fn make(&mut self) -> Option<F>;
}

/// Makes one future. `None` once it has.
pub(crate) struct Single<M>(pub(crate) Option<M>);

/// Makes a future for each run.
pub(crate) struct Each<M>(pub(crate) M);

impl<M: FnOnce() -> F + Send, F> Make<F> for Single<M> {
    fn make(&mut self) -> Option<F> {
        self.0.take().map(|make| make())
    }
}

impl<M: FnMut() -> F + Send, F> Make<F> for Each<M> {
    fn make(&mut self) -> Option<F> {
        Some((self.0)())
    }
}

/// Futures, each made when its run is due. What becomes of that which they return is up to `E`.
pub(crate) struct Futures<S, F, E> {
    /// Dropped first: what the destructors wake is over.
    poller: Poller,
    /// One place for the futures of all runs.
    future: Guest<Pin<Box<Option<F>>>>,
    /// `None` once it was given back.
    source: Guest<S>,
    ending: PhantomData<fn() -> E>,
}

impl<S, F, E> Futures<S, F, E> {
    pub(crate) fn new(wakes: Arc<Wakes>, series: Option<Arc<Series>>, source: S) -> Self {
        let (future, source) = (Guest::new(None), Guest::new(Some(source)));
        Self { poller: Poller::new(wakes, series), future, source, ending: PhantomData }
    }

    /// Gives what makes the futures of a refused task back.
    pub(crate) fn into_source(mut self) -> S {
        self.source.take().expect("it is given back once")
    }
}

impl<S, F, E> Body<E::Value> for Futures<S, F, E>
where
    S: Make<F>,
    F: Future + Send,
    E: Ending<F::Output>,
{
    fn call(body: &mut Option<Self>) -> Option<E::Value> {
        let this = body.as_mut()?;
        let waker = match this.poller.turn() {
            Turn::Poll(waker) => waker,
            // The run has ended without a value, while it was under way.
            Turn::Lost => return None,
            Turn::Stopped => {
                this.poller.end_run();
                return E::of_stopped();
            }
        };
        let place = this.future.get_or_insert_with(|| Box::pin(None));
        if place.as_ref().is_none() {
            place.set(this.source.as_mut()?.make());
        }
        // It stays when it is ready: see `end_run`.
        let returned = this.poller.poll(&waker, place.as_mut().as_pin_mut()?)?;
        let (value, failure) = E::split(returned);
        if let (Some(failure), Some(series)) = (failure, &this.poller.series) {
            series.note(failure);
        }
        Some(value)
    }

    fn end_run(body: &mut Option<Self>) {
        let Some(this) = body else { return };
        this.poller.end_run();
        if let Some(place) = &mut *this.future {
            place.set(None);
        }
    }
}
