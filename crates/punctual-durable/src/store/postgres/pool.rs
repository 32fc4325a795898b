//! Threads with a connection each, and the calls that they take.
//!
//! The driver blocks, and may not be called from within an async runtime, as callers of ours may be: so it runs on threads
//! of its own. A call is put into a line; a thread that is idle takes it, or a new thread is started if there are not
//! enough; the caller waits.
//!
//! # Protocol
//! A connection is made by the first call that needs it, and again after it broke; the call that finds it broken fails,
//! unless it only looks (then it is tried again, once) or the transaction lost against another (then it is, too). A
//! connection that nobody has used for a while is asked whether it is still there before it is trusted. Whoever calls again
//! and again decides how long to wait in between: nodes do, see `node/mod.rs`.
//!
//! # Locks
//! `State` alone. Under it nothing is called.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Tick;

use super::session::{Answer, Server, Session, unreachable};
use crate::error::{Error, Result};

/// After this long a connection is asked whether it is still there.
const DOUBT: Duration = Duration::from_secs(1);

/// How often a transaction is begun anew that lost against others.
const COLLISIONS: u32 = 5;

/// What becomes of a call whose connection breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeat {
    /// It only looks, or does the same the second time: it is tried once more.
    Yes,
    /// It may have taken effect: the caller is told.
    No,
}

pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    /// Threads, at most.
    most: usize,
    /// How long a connection waits for locks.
    patience: Duration,
    /// Whether a connection has ever been made.
    reached: AtomicBool,
    state: Mutex<State>,
    wake: Condvar,
}

/// Guarded by `Shared::state`.
#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    threads: usize,
    idle: usize,
    closed: bool,
}

type Call = Box<dyn FnOnce(&mut Desk) + Send>;

impl Pool {
    /// At most `most` connections, which wait for locks for as long as `patience`.
    pub(super) fn new(server: Arc<Server>, most: usize, patience: Duration) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        let reached = AtomicBool::new(false);
        Self {
            shared: Arc::new(Shared { server, most, patience, reached, state, wake }),
            threads: Mutex::default(),
        }
    }

    /// Runs `work` with a connection, and waits for it; `what` names it in messages.
    pub(super) fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        repeat: Repeat,
        mut work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let call: Call = Box::new(move |desk| {
            let _ = answer.send(desk.serve(what, repeat, &mut work));
        });
        self.put(call)?;
        // Hung up: the thread panicked, and has told where.
        answered
            .recv()
            .unwrap_or_else(|_| Err(Error::broken(format!("{what} a database: the call panicked"))))
    }

    /// As [`call`](Self::call), without blocking.
    pub(super) async fn call_async<T: Send + 'static>(
        &self,
        what: &'static str,
        repeat: Repeat,
        mut work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let call: Call = Box::new(move |desk| {
            let _ = answer.send(desk.serve(what, repeat, &mut work));
        });
        self.put(call)?;
        answered.await.unwrap_or_else(|_| Err(Error::broken(format!("{what} a database: the call panicked"))))
    }

    fn put(&self, call: Call) -> Result<()> {
        let mut state = self.shared.lock();
        state.calls.push_back(call);
        if state.idle >= state.calls.len() || state.threads == self.shared.most {
            self.shared.wake.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("punctual-pg".to_owned()).spawn(move || shared.work());
        match thread {
            Ok(thread) => {
                self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                Ok(())
            }
            Err(error) => {
                let mut state = self.shared.lock();
                state.threads -= 1;
                if state.threads > 0 {
                    return Ok(()); // another one takes it
                }
                let call = state.calls.pop_back();
                drop(state);
                drop(call);
                Err(Error::transient("cannot start a thread for the database").with_source(error))
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(self: Arc<Self>) {
        let mut desk = Desk { shared: Arc::clone(&self), session: None, used: Tick::ZERO };
        while let Some(call) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| call(&mut desk))).is_err() {
                // Nobody knows what it has left behind.
                desk.session = None;
            }
        }
    }

    fn next(&self) -> Option<Call> {
        let mut state = self.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                return Some(call);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// One thread's connection.
struct Desk {
    shared: Arc<Shared>,
    session: Option<Session>,
    /// When the connection was last used.
    used: Tick,
}

impl Desk {
    fn serve<T>(
        &mut self,
        what: &str,
        repeat: Repeat,
        work: &mut impl FnMut(&mut Session) -> Answer<T>,
    ) -> Result<T> {
        let (mut collisions, mut breaks) = (0, 0);
        loop {
            let session = self.session()?;
            let result = work(session);
            let closed = session.is_closed();
            self.used = self.shared.server.clock.local();
            if closed {
                self.session = None;
            }
            match result {
                Ok(value) => return Ok(value),
                Err(fault) if fault.is_collision() && collisions < COLLISIONS => collisions += 1,
                Err(_) if closed && repeat == Repeat::Yes && breaks == 0 => breaks += 1,
                Err(fault) => return Err(fault.tell(what, &self.shared.server)),
            }
        }
    }

    fn session(&mut self) -> Result<&mut Session> {
        let server = &self.shared.server;
        let doubtful = server.clock.local().since(self.used) >= DOUBT;
        self.session.take_if(|session| session.is_closed() || (doubtful && !session.answers()));
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let first = !self.shared.reached.load(Ordering::Relaxed);
                let session = Session::connect(server, self.shared.patience)
                    .map_err(|error| unreachable(server, &error, first))?;
                self.shared.reached.store(true, Ordering::Relaxed);
                session
            }
        };
        Ok(self.session.insert(session))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Pool")
            .field("threads", &state.threads)
            .field("idle", &state.idle)
            .finish_non_exhaustive()
    }
}
