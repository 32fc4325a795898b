//! Connections, and the calls that are made on them.
//!
//! A call is made on the thread of whoever makes it: a thread in between would have to be woken, and would have to wake the
//! caller again, which on an idle machine takes longer than the server does. But the driver blocks, and refuses to be
//! called from within an async runtime, as callers of ours may be; and all connections may be busy. Then the call is put
//! into a line for threads of our own, of which there are as many as there are connections, started when they are needed.
//!
//! # Invariants
//! 1. There are at most `most` desks, each with at most one connection. One that is not in `desks` is in use.
//! 2. Nobody overtakes: while calls wait in line, whoever comes waits behind them.
//! 3. While calls wait in line and a desk is free, a thread has been told or is on its way. So no call is left lying.
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
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Tick;
use tokio::runtime::Handle;

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
    /// Connections, at most, and threads.
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
    /// Those that are free; the one that was used last is the last.
    desks: Vec<Desk>,
    /// How many there are, free or not.
    made: usize,
    threads: usize,
    /// Threads that wait.
    idle: usize,
    closed: bool,
}

type Call = Box<dyn FnOnce(&mut Seat<'_>) + Send>;

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
        let panicked = || Error::broken(format!("{what} a database: the call panicked"));
        if Handle::try_current().is_err()
            && let Some(mut seat) = self.shared.take_seat()
        {
            let served = catch_unwind(AssertUnwindSafe(|| seat.serve(what, repeat, &mut work)));
            return served.unwrap_or_else(|_| {
                // Nobody knows what it has left behind.
                seat.desk.session = None;
                Err(panicked())
            });
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let call: Call = Box::new(move |seat| {
            let _ = answer.send(seat.serve(what, repeat, &mut work));
        });
        self.put(call)?;
        // Hung up: the thread panicked, and has told where.
        answered.recv().unwrap_or_else(|_| Err(panicked()))
    }

    /// As [`call`](Self::call), without blocking.
    pub(super) async fn call_async<T: Send + 'static>(
        &self,
        what: &'static str,
        repeat: Repeat,
        mut work: impl FnMut(&mut Session) -> Answer<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let call: Call = Box::new(move |seat| {
            let _ = answer.send(seat.serve(what, repeat, &mut work));
        });
        self.put(call)?;
        answered.await.unwrap_or_else(|_| Err(Error::broken(format!("{what} a database: the call panicked"))))
    }

    fn put(&self, call: Call) -> Result<()> {
        let mut state = self.shared.lock();
        state.calls.push_back(call);
        if state.idle >= state.calls.len() || state.threads == self.shared.most {
            drop(state);
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
        let desks = std::mem::take(&mut self.shared.lock().desks);
        if Handle::try_current().is_err() {
            drop(desks);
        } else if !desks.is_empty() {
            // To say goodbye is a call, too. Should there be no thread, the system closes the connections one day.
            let desks = ManuallyDrop::new(desks);
            let close = move || drop(ManuallyDrop::into_inner(desks));
            if let Ok(thread) = std::thread::Builder::new().name("punctual-pg".to_owned()).spawn(close) {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a caller who works there itself, by 1 and 2.
    fn take_seat(&self) -> Option<Seat<'_>> {
        let mut state = self.lock();
        if state.calls.is_empty() { self.seat(&mut state) } else { None }
    }

    /// By 1.
    fn seat(&self, state: &mut State) -> Option<Seat<'_>> {
        let desk = match state.desks.pop() {
            Some(desk) => desk,
            None if state.made < self.most => {
                state.made += 1;
                Desk::default()
            }
            None => return None,
        };
        Some(Seat { shared: self, desk })
    }

    fn work(&self) {
        while let Some((call, mut seat)) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| call(&mut seat))).is_err() {
                // Nobody knows what it has left behind.
                seat.desk.session = None;
            }
        }
    }

    fn next(&self) -> Option<(Call, Seat<'_>)> {
        let mut state = self.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                match self.seat(&mut state) {
                    Some(seat) => return Some((call, seat)),
                    None => state.calls.push_front(call),
                }
            } else if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// A place for a connection.
#[derive(Default)]
struct Desk {
    session: Option<Session>,
    /// When the connection was last used.
    used: Tick,
}

/// A desk in use. Free again when this is dropped.
struct Seat<'a> {
    shared: &'a Shared,
    desk: Desk,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.desks.push(std::mem::take(&mut self.desk));
        let waiting = !state.calls.is_empty();
        drop(state);
        // By 3.
        if waiting {
            self.shared.wake.notify_one();
        }
    }
}

impl Seat<'_> {
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
            self.desk.used = self.shared.server.clock.local();
            if closed {
                self.desk.session = None;
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
        let doubtful = server.clock.local().since(self.desk.used) >= DOUBT;
        self.desk.session.take_if(|session| session.is_closed() || (doubtful && !session.answers()));
        let session = match self.desk.session.take() {
            Some(session) => session,
            None => {
                let first = !self.shared.reached.load(Ordering::Relaxed);
                let session = Session::connect(server, self.shared.patience)
                    .map_err(|error| unreachable(server, &error, first))?;
                self.shared.reached.store(true, Ordering::Relaxed);
                session
            }
        };
        Ok(self.desk.session.insert(session))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Pool")
            .field("connections", &state.made)
            .field("free", &state.desks.len())
            .field("threads", &state.threads)
            .finish_non_exhaustive()
    }
}
