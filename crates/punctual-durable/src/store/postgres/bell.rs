//! How nodes in other processes are told that there is something new: LISTEN and NOTIFY.
//!
//! A courtesy in both directions: what is not heard is found when nodes next look. One thread with a connection of its own
//! listens and rings. It is started by the first who wants to hear or to ring.
//!
//! # Protocol
//! Ringing is asked for and done later, outside of any transaction that matters: the server takes one lock for the whole
//! database when a transaction that has notified commits. However often it is asked for, it is done at most every
//! [`PAUSE`]. What comes from here is not heard here: our own node has been told directly. After the connection was broken
//! whoever listens is woken, for something may have been missed.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};

use super::session::Server;
use crate::retry::Backoff;

/// Between two rings. Short, because a job that is due now waits for it; there are never more than 500 a second.
const PAUSE: Duration = Duration::from_millis(2);

/// Between attempts to connect.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(5));

/// Called when somebody has rung. Does not block.
type Wake = Arc<dyn Fn() + Send + Sync>;

pub(super) struct Bell {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    /// Tells our own rings from those of others.
    origin: String,
    wake: Mutex<Option<Wake>>,
    ring: Notify,
    stop: Notify,
    stopped: AtomicBool,
}

impl Bell {
    pub(super) fn new(server: Arc<Server>) -> Self {
        let origin = format!("{:016x}", fastrand::u64(..));
        let (wake, ring, stop, stopped) =
            (Mutex::default(), Notify::new(), Notify::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { server, origin, wake, ring, stop, stopped });
        Self { shared, thread: Mutex::default() }
    }

    /// Whom to wake when somebody else has rung.
    pub(super) fn listen(&self, wake: Wake) {
        let old = self.shared.wake().replace(wake);
        drop(old);
        self.start();
    }

    /// Rings soon.
    pub(super) fn ring(&self) {
        self.shared.ring.notify_one();
        self.start();
    }

    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let work = move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                runtime.block_on(first(shared.stop.notified(), attend(&shared)));
            }
        };
        // Without a thread nobody is told: a courtesy.
        *thread = std::thread::Builder::new().name("punctual-bell".to_owned()).spawn(work).ok();
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.stop.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its last wake may be what drops us.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake(&self) -> MutexGuard<'_, Option<Wake>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) {
        let wake = self.wake().clone();
        if let Some(wake) = wake.filter(|_| !self.stopped.load(Ordering::Relaxed)) {
            wake();
        }
    }
}

/// Keeps a connection, for ever.
async fn attend(shared: &Arc<Shared>) {
    let mut failures = 0;
    loop {
        let config = &shared.server.address.config;
        let result = match &shared.server.tls {
            Some(tls) => match config.connect(tls.clone()).await {
                Ok((client, connection)) => serve(shared, client, connection).await,
                Err(error) => Err(error),
            },
            None => match config.connect(NoTls).await {
                Ok((client, connection)) => serve(shared, client, connection).await,
                Err(error) => Err(error),
            },
        };
        // Once it has listened, what broke it need not stay.
        failures = if result.is_ok() { 1 } else { failures + 1 };
        sleep(BACKOFF.wait(failures)).await;
    }
}

/// Listens and rings until the connection breaks; an error if it never listened.
async fn serve<S>(
    shared: &Arc<Shared>,
    client: Client,
    connection: Connection<Socket, S>,
) -> Result<(), tokio_postgres::Error>
where
    S: TlsStream + Unpin + Send + 'static,
{
    let listener = tokio::spawn(hear(Arc::clone(shared), connection));
    let abort = listener.abort_handle();
    let listening = client.batch_execute("SET application_name = 'punctual bell'; LISTEN punctual").await;
    if let Err(error) = listening {
        abort.abort();
        return Err(error);
    }
    shared.call();
    let ringing = async {
        loop {
            shared.ring.notified().await;
            if client.batch_execute(&format!("NOTIFY punctual, '{}'", shared.origin)).await.is_err() {
                return;
            }
            sleep(PAUSE).await;
        }
    };
    first(ringing, async { drop(listener.await) }).await;
    abort.abort();
    Ok(())
}

async fn hear<S: TlsStream + Unpin>(shared: Arc<Shared>, mut connection: Connection<Socket, S>) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message
            && notification.payload() != shared.origin
        {
            shared.call();
        }
    }
}

/// Waits for the first of two.
async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| {
        if one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("origin", &self.shared.origin).finish_non_exhaustive()
    }
}
