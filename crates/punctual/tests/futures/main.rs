//! Futures as bodies of tasks, timers as futures: on the pool's own workers, and under whatever else polls them.

mod ends;
mod policies;
mod races;
mod runtime;
mod series;
mod spawn;
mod steer;
#[path = "../conformance/support.rs"]
mod support;
mod timers;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use punctual::Parker;

/// The smallest executor there is: the calling thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Parker::current();
    let waker = Waker::from(Arc::clone(&parker));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}

/// A waker that counts how often it is called.
#[derive(Default)]
struct Calls(support::Counter);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.hit();
    }
}

/// Something that happens once, to be awaited by one future. Keeps the waker of the last poll.
#[derive(Clone, Default)]
struct Event(Arc<Mutex<Happening>>);

#[derive(Default)]
struct Happening {
    has_happened: bool,
    polls: usize,
    waker: Option<Waker>,
}

impl Event {
    fn new() -> Self {
        Self::default()
    }

    /// Lets it happen and wakes whoever awaits it.
    fn happen(&self) {
        self.0.lock().unwrap().has_happened = true;
        self.wake();
    }

    /// Wakes whoever awaits it, for nothing.
    fn wake(&self) {
        let waker = self.0.lock().unwrap().waker.clone();
        waker.into_iter().for_each(Waker::wake);
    }

    fn polls(&self) -> usize {
        self.0.lock().unwrap().polls
    }

    /// The waker of the last poll.
    fn waker(&self) -> Waker {
        self.0.lock().unwrap().waker.clone().expect("it has been polled")
    }

    /// Drops the waker of the last poll uncalled.
    fn forget(&self) {
        let waker = self.0.lock().unwrap().waker.take();
        drop(waker);
    }
}

impl Future for Event {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        state.polls += 1;
        if state.has_happened {
            return Poll::Ready(());
        }
        let old = state.waker.replace(context.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }
}

/// Lets everything else that is due go first, once.
#[derive(Default)]
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
