//! How other processes are told that there is something new: LISTEN and NOTIFY.
//!
//! A courtesy in both directions: what is not heard is found when nodes next look. One thread with a connection of its own
//! listens and rings. It is started by the first who wants to hear or to ring, and listens when somebody wants to hear: a
//! process that only enqueues is not woken by its own rings.
//!
//! # Protocol
//! A transaction that has notified takes one lock for the whole database when it commits, so it must not wait for the
//! disk. However often somebody wants to ring, it is done at most every [`PAUSE`]. What comes from here is not heard here:
//! our own node has been told directly. After the connection was broken whoever listens is woken, for something may have
//! been missed.
//!
//! *Along.* Who enqueues after a pause rings in the same call, `punctual.accept_and_ring`, and says which jobs there are, so
//! that nodes need not look for them. Its transaction does not wait for the disk: nodes see the job, hear of it and claim
//! it meanwhile. A second one, which has nothing to do, does, and only then is the caller answered. The log of the server is
//! written in order, so
//! 1. what the caller has been told is on the disk;
//! 2. so is what a node starts: its claim, for which it waits, comes after the job in the log;
//! 3. if the server dies in between, nobody has been told of the job, and it has not been started.
//!
//! Not so a job with a unique key. Somebody else might be told that the key is taken, which writes nothing to the log and so
//! waits for nothing: and then the job that has it might be gone.
//!
//! *Later.* Otherwise the thread rings, soon: if there has just been a ring; if there is something else to tell; and for a
//! while after two calls along in a row have taken [`LONG`], because others may have so much to tell that whoever rings
//! waits in line. One alone says nothing: any disk is slow now and then.

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::Tick;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};

use super::super::News;
use super::super::news::{Ears, Hear};
use super::session::Server;
use crate::job::JobId;
use crate::retry::Backoff;

/// Between two rings. Short, because a job that is due now waits for it; there are never more than 500 a second.
const PAUSE: Duration = Duration::from_millis(2);

/// Who has taken so long to enqueue and to ring along, twice in a row, lets the thread ring for a while, so that no caller
/// waits for it.
const LONG: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Between attempts to connect.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(5));

/// Jobs of which there is something to say, kept until it is said; more are found by looking.
const MOST: usize = 10_000;

pub(super) struct Bell {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: Arc<Server>,
    /// Tells our own rings from those of others: every message begins with it.
    origin: String,
    ears: Ears,
    /// Whether somebody wants to hear.
    listens: AtomicBool,
    unsaid: Mutex<Unsaid>,
    ring: Notify,
    stop: Notify,
    stopped: AtomicBool,
}

/// What is to be said with the next ring.
#[derive(Default)]
struct Unsaid {
    jobs: bool,
    waiting: BTreeSet<JobId>,
    over: BTreeSet<JobId>,
    /// Before this nobody rings along.
    not_before: Tick,
    /// When the first call along that took long ended, if none has been quicker since.
    long: Option<Tick>,
}

impl Unsaid {
    fn add(&mut self, news: News) {
        let (set, ids) = match news {
            News::Jobs | News::New(..) => {
                self.jobs = true;
                return;
            }
            News::Waiting(ids) => (&mut self.waiting, ids),
            News::Over(ids) => (&mut self.over, ids),
        };
        set.extend(ids.into_iter().take(MOST.saturating_sub(set.len())));
    }

    /// Whether to say at once that there are jobs. If not, it has just been said, and is to be said again soon.
    fn may_ring(&mut self, now: Tick) -> bool {
        let may = !self.jobs && now >= self.not_before;
        if may {
            self.not_before = now.after(PAUSE);
        }
        may
    }

    fn rang_along(&mut self, began: Tick, now: Tick) {
        if now.since(began) < LONG.0 {
            self.long = None;
            return;
        }
        match self.long {
            // It met the same trouble as the first.
            Some(ended) if began < ended => {}
            Some(_) => {
                self.not_before = now.after(LONG.1);
                self.long = Some(now);
            }
            None => self.long = Some(now),
        }
    }

    fn take(&mut self, now: Tick) -> Vec<News> {
        if self.jobs {
            self.not_before = self.not_before.max(now.after(PAUSE));
        }
        let (jobs, waiting, over) = (
            std::mem::take(&mut self.jobs),
            std::mem::take(&mut self.waiting),
            std::mem::take(&mut self.over),
        );
        let ids = |set: BTreeSet<JobId>| set.into_iter().collect();
        let jobs = jobs.then_some(News::Jobs);
        jobs.into_iter().chain([News::Waiting(ids(waiting)), News::Over(ids(over))]).collect()
    }
}

impl Bell {
    pub(super) fn new(server: Arc<Server>) -> Self {
        let origin = format!("{:016x}", fastrand::u64(..));
        let (ears, listens, unsaid) = (Ears::default(), AtomicBool::new(false), Mutex::default());
        let (ring, stop, stopped) = (Notify::new(), Notify::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { server, origin, ears, listens, unsaid, ring, stop, stopped });
        Self { shared, thread: Mutex::default() }
    }

    /// Who is to be told when somebody else has rung.
    pub(super) fn listen(&self, hear: Hear) {
        self.shared.ears.add(hear);
        self.shared.listens.store(true, Ordering::Relaxed);
        self.shared.ring.notify_one();
        self.start();
    }

    /// Lets whoever is about to enqueue say at once that there are jobs; `None` if it is to [ring](Self::ring) afterwards.
    pub(super) fn along(&self) -> Option<Along<'_>> {
        let began = self.shared.server.clock.local();
        // Made when the lock is free again: as it goes, it takes it.
        let may = self.shared.unsaid().may_ring(began);
        may.then(|| Along { shared: &self.shared, began })
    }

    /// Rings soon.
    pub(super) fn ring(&self, news: News) {
        self.shared.unsaid().add(news);
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

/// Somebody who rings along. Kept until that is done.
pub(super) struct Along<'a> {
    shared: &'a Shared,
    began: Tick,
}

impl Along<'_> {
    /// Who rings; the rest is said by whoever knows the jobs.
    pub(super) fn origin(&self) -> String {
        self.shared.origin.clone()
    }
}

impl Drop for Along<'_> {
    fn drop(&mut self) {
        self.shared.unsaid().rang_along(self.began, self.shared.server.clock.local());
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
    fn unsaid(&self) -> MutexGuard<'_, Unsaid> {
        self.unsaid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, news: &News) {
        if !self.stopped.load(Ordering::Relaxed) {
            self.ears.tell(news);
        }
    }

    /// The statements that say what is to be said.
    fn words(&self) -> String {
        let news = self.unsaid().take(self.server.clock.local());
        let messages = news.iter().flat_map(News::encode);
        messages.map(|message| format!("NOTIFY punctual, '{}{message}';", self.origin)).collect()
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

/// Listens and rings until the connection breaks; an error if it could not begin.
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
    // A ring writes to the log, too: nobody is to wait until that is on the disk.
    let begin = "SET application_name = 'punctual bell'; SET synchronous_commit = off";
    if let Err(error) = client.batch_execute(begin).await {
        abort.abort();
        return Err(error);
    }
    let ringing = async {
        let mut listening = false;
        loop {
            if !listening && shared.listens.load(Ordering::Relaxed) {
                if client.batch_execute("LISTEN punctual").await.is_err() {
                    return;
                }
                listening = true;
                shared.tell(&News::Jobs);
            }
            shared.ring.notified().await;
            let words = shared.words();
            if words.is_empty() {
                continue;
            }
            if client.batch_execute(&words).await.is_err() {
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
            && !notification.payload().starts_with(&shared.origin)
        {
            // Functions in the database say nothing of where they are from.
            let message = notification.payload().get(shared.origin.len()..).unwrap_or_default();
            shared.tell(&News::decode(message));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_enqueues_rings_along_after_a_pause_and_never_past_what_is_to_be_said() {
        let (mut unsaid, start) = (Unsaid::default(), Tick::ZERO.after(Duration::from_secs(1)));
        assert!(unsaid.may_ring(start));
        assert!(!unsaid.may_ring(start.after(PAUSE - Duration::from_nanos(1))), "it has just been said");
        assert!(unsaid.may_ring(start.after(PAUSE)));
        unsaid.add(News::Jobs);
        assert!(!unsaid.may_ring(start.after(PAUSE * 3)), "the thread is about to");
        unsaid.add(News::Over(vec![JobId::from_i64(1)]));
        assert_eq!(unsaid.take(start.after(PAUSE * 3))[0], News::Jobs);
        assert!(!unsaid.may_ring(start.after(PAUSE * 4 - Duration::from_nanos(1))), "it has");
        assert!(!unsaid.take(start.after(PAUSE * 4)).contains(&News::Jobs));
        let later = start.after(PAUSE * 4);
        assert!(unsaid.may_ring(later), "what else is said does not count");
        unsaid.rang_along(later, later.after(LONG.0 - Duration::from_nanos(1)));
        assert!(unsaid.may_ring(later.after(LONG.0)));
        let over = later.after(LONG.0);
        unsaid.rang_along(later, over);
        unsaid.rang_along(over, over.after(LONG.0 - Duration::from_nanos(1)));
        unsaid.rang_along(later, over);
        assert!(unsaid.may_ring(over.after(PAUSE)), "never twice in a row");
        unsaid.rang_along(later.after(PAUSE), over.after(PAUSE));
        assert!(unsaid.may_ring(over.after(PAUSE * 2)), "both met the same trouble");
        let (began, over) = (over.after(PAUSE), over.after(PAUSE + LONG.0));
        unsaid.rang_along(began, over);
        assert!(!unsaid.may_ring(over.after(LONG.1 - Duration::from_nanos(1))), "it took long, twice");
        let again = over.after(LONG.1);
        assert!(unsaid.may_ring(again));
        unsaid.rang_along(again, again.after(LONG.0));
        assert!(!unsaid.may_ring(again.after(LONG.1)), "and still does");
    }

    /// Each begins before the last one is over.
    #[test]
    fn two_long_calls_in_a_row_are_noticed_among_many_at_once() {
        let (mut unsaid, start) = (Unsaid::default(), Tick::ZERO.after(Duration::from_secs(1)));
        let mut call = |nth: u32| {
            let began = start.after(LONG.0 / 2 * nth);
            unsaid.rang_along(began, began.after(LONG.0));
            unsaid.may_ring(began.after(LONG.0))
        };
        assert!(call(0) && call(1), "both met the same trouble");
        assert!(!call(2), "this one began when the first was over");
    }
}
