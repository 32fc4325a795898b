//! A node: finds what is due, claims it, runs it at its instant, and records what became of it.
//!
//! # Threads
//! Pools of `punctual` on one clock. *Control* has one thread, on which [`Node::step`] runs: the only place where
//! a node talks to its store of its own accord. *Workers* run the handlers; a claimed job is a task of theirs with the
//! due time as its deadline, so it starts as exactly as any task. No thread polls or sleeps: a step is a task, too,
//! due when there is next something to do, or at once when somebody [stirs](Node::stir).
//!
//! # A step
//! `step.rs`. Until there is nothing to do: renew the lease if it is time; fire schedules whose next occurrence is near; send
//! reports and ask for jobs, in one exchange; look ahead if it is time. Then set the alarm for the earliest of: the next
//! renewal, the next look, the first schedule and the first ticket less the lead.
//! None of these keeps the others waiting for good: no renewal follows another at once, and after some exchanges in a row
//! comes the look that is due.
//! What piles up while an exchange is under way is the next exchange: batches are as large as the store is slow. While jobs
//! come densely a report also waits for others, for [`LONGEST_UNREPORTED`] at most (`State::may_wait`).
//!
//! # Invariants
//! 1. *Every claim ends in a report.* A claimed job is in `held` until its attempt reports, then in `outbox` until the
//!    store has answered.
//! 2. *Reports are not lost.* An exchange that fails puts its reports back; they may be sent again (invariant 7 of the
//!    store). What that exchange may have claimed unheard is disowned by the next one.
//! 3. *Nothing starts without a lease,* nor under another one than it was claimed under; see `lease.rs`.
//! 4. *No more is claimed than there is room for:* threads, as many async handlers under way as are allowed beyond
//!    them (`flight.rs`), and some more (at most [`MOST_AHEAD`], see `pace.rs`), so that workers do not wait for the
//!    store while jobs are short. Those that wait for their instant need no thread yet, and leave room for what is due
//!    now. What has found none [`LONGEST_AHEAD`] after it could have begun is given back. Reports that the store has not
//!    taken count as well, but for those that were set aside: when it is down, claiming stops.
//! 5. *Of jobs that may be poison pills one is begun at a time;* see `custody.rs`.
//! 6. *User code runs and is dropped without the lock of `state`.* Handlers run in attempts, observers are called by
//!    [`Node::tell`], and attempts, which report when dropped, are never dropped under it.
//!
//! # Locks
//! `state` alone. Under it neither the store nor a pool is called.
//!
//! # Failure
//! A store that fails is tried again, after a backoff of up to a second, for ever; the lease meanwhile lapses by itself.
//! If it refuses a batch for good, the batch is halved until the one report that cannot be recorded is found; if the store
//! takes others meanwhile, that one is given up (a job that must not be run again is reported as failed instead). One that
//! cannot be recorded for the time being is set aside (`outbox.rs`). A step that panics counts as a failure of the store.

mod attempt;
mod claimed;
mod custody;
mod exchange;
mod flight;
mod front;
mod guard;
mod lease;
mod look;
mod outbox;
mod pace;
mod state;
mod step;
mod stop;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use punctual::{Clock, Executor, Tick};

pub(crate) use self::attempt::message as panic_message;

use self::front::Front;
use self::lease::Lease;
use self::outbox::Outbox;
use self::pace::Pace;
use self::state::{Held, Outgoing, Phase, State};
use self::step::step;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::{JobId, NodeId};
use crate::journal::Update;
use crate::post::PostBox;
use crate::registry::Registry;
use crate::retry::Backoff;
use crate::signal::Stop;
use crate::store::{News, Store, Ticket};
use crate::tally::Counter;
use crate::watch::Watch;

/// Jobs claimed beyond the number of threads.
const MOST_AHEAD: usize = 1_000;
/// How long a claimed job may wait for a thread.
const LONGEST_AHEAD: Duration = Duration::from_millis(250);
/// Reports in one exchange.
const MOST_REPORTS: usize = 1_000;
/// Exchanges in a row, after which it is the turn of what is done now and then.
const MOST_IN_A_ROW: u32 = 4;
/// Tickets asked for in one look.
const MOST_TICKETS: usize = 10_000;
/// Jobs rescued in one call.
const MOST_RESCUED: usize = 500;
/// Jobs forgotten in one call, how often that is done, and the pause between calls while there are more.
const MOST_TRIMMED: usize = 1_000;
const TRIM_EVERY: Duration = Duration::from_secs(600);
const TRIM_PAUSE: Duration = Duration::from_millis(50);
/// After a failure.
const TRIM_RETRY: Duration = Duration::from_secs(60);
/// How long before its due time a job is claimed, at least and at most.
const LEAD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// Who is claimed longer before its due time is given back: the ticket was wrong, as hints may be, or the store's clock has
/// been set back.
const TOO_EARLY: Duration = Duration::from_secs(1);
/// How long a report waits for others.
const LONGEST_UNREPORTED: Duration = Duration::from_millis(10);
/// How long what attempts say waits for an exchange that is made anyway.
const LONGEST_UNTOLD: Duration = Duration::from_millis(250);
/// How often a node tells what it has counted.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// How long a claimed job waits before the store's clock is looked at again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Between attempts to reach a store that fails.
const STORE_BACKOFF: Backoff =
    Backoff::exponential(Duration::from_millis(20), Duration::from_secs(1)).without_jitter();

/// Told of events. Called without any lock held; a panic in it is contained.
pub(crate) type Observe = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// What a node is built with. Immutable.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    /// Async handlers under way beyond that.
    pub(crate) async_limit: usize,
    pub(crate) poll: Duration,
    pub(crate) lease: Duration,
    /// How long jobs that are over are kept.
    pub(crate) retain: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observe: Option<Observe>,
}

pub(crate) struct Node {
    id: NodeId,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    kinds: Arc<[String]>,
    /// Whether one of them is exclusive.
    exclusive: bool,
    settings: Settings,
    post: Arc<PostBox>,
    /// Who waits for jobs to be over.
    watch: Arc<Watch>,
    control: Executor,
    workers: Executor,
    /// For the timers of async handlers, and those that stop handlers, which must not wait for a busy worker, nor for the
    /// store. It has a thread while there are any.
    timers: Executor,
    /// This node, for tasks that must not keep it alive.
    weak: Weak<Self>,
    state: Mutex<State>,
}

impl Node {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let pool = |threads: usize, name: &str| {
            let clock = Arc::clone(&settings.clock);
            let builder = Executor::builder().core_threads(threads).max_threads(threads);
            builder.clock(clock).thread_name(name).build().map_err(|error| Error::invalid(error.to_string()))
        };
        let post = PostBox::new(Arc::clone(&settings.clock))?;
        let watch = Watch::new(Arc::clone(&store), Arc::clone(&settings.clock), settings.poll)?;
        let control = pool(1, "punctual-control")?;
        let workers = pool(settings.concurrency, "punctual-worker")?;
        let timers = Executor::builder().core_threads(0).keep_alive(Duration::from_secs(10));
        let timers = timers.clock(Arc::clone(&settings.clock)).thread_name("punctual-timer").build();
        let timers = timers.map_err(|error| Error::invalid(error.to_string()))?;
        let state = State {
            phase: Phase::Standby,
            lease: Lease::new(settings.lease),
            tenure: None,
            front: Front::default(),
            schedules: Vec::new(),
            held: HashMap::new(),
            custody: None,
            early: 0,
            flying: 0,
            async_limit: settings.async_limit,
            outbox: Outbox::new(),
            heard: HashMap::new(),
            tell_by: Tick::MAX,
            counter: Counter::default(),
            count_by: Tick::ZERO,
            disown: false,
            pace: Pace::default(),
            next_look: Tick::ZERO,
            next_trim: Tick::ZERO,
            failures: 0,
            not_before: Tick::ZERO,
            stirred: false,
            alarm: None,
            guard: None,
            closing: None,
        };
        let node = Arc::new_cyclic(|weak| Self {
            id: NodeId::random(),
            store,
            kinds: registry.runnable(),
            exclusive: registry.has_exclusive(),
            registry,
            settings,
            post,
            watch,
            control,
            workers,
            timers,
            weak: weak.clone(),
            state: Mutex::new(state),
        });
        let weak = node.weak.clone();
        node.watch.is_told();
        node.store.on_news(Arc::new(move |news| {
            let Some(node) = weak.upgrade() else { return false };
            match news {
                News::Jobs => node.look_again(),
                News::New(kind, tickets) => {
                    if node.kinds.contains(kind) {
                        node.hint(tickets.clone());
                    }
                }
                News::Waiting(_) | News::Over(_) => node.watch.hear(news),
            }
            true
        }));
        node.stir();
        Ok(node)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // By 6 no user code can panic under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Tick {
        self.settings.clock.now()
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn client(&self) -> Client {
        let (store, registry) = (Arc::clone(&self.store), Arc::clone(&self.registry));
        let (post, watch) = (Arc::clone(&self.post), Arc::clone(&self.watch));
        Client::new(store, registry, post, watch, self.weak.clone())
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(observe) = &self.settings.observe
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| observe(event)))
        {
            let _ = attempt::message(panic);
        }
    }

    // ---- what others tell a node

    /// These jobs wait; it may be worth claiming them.
    pub(crate) fn hint(&self, tickets: Vec<Ticket>) {
        let mut state = self.lock();
        let sooner = tickets.into_iter().fold(false, |sooner, ticket| state.front.add(ticket) | sooner);
        drop(state);
        // Otherwise the alarm is set for an earlier one.
        if sooner {
            self.stir();
        }
    }

    /// A queue has been changed: jobs that were out of reach may not be any more.
    pub(crate) fn look_again(&self) {
        let mut state = self.lock();
        state.next_look = Tick::ZERO;
        state.front.suspect_backlog();
        drop(state);
        self.stir();
    }

    /// What an attempt has said goes to the store with the next exchange, or soon.
    pub(crate) fn hear(&self, update: Update) {
        let now = self.now();
        let mut state = self.lock();
        if state.phase == Phase::Gone {
            return;
        }
        let first = state.heard.is_empty();
        state.add_heard(update);
        if first {
            state.tell_by = now.after(LONGEST_UNTOLD);
        }
        drop(state);
        // So that the alarm is set.
        if first {
            self.stir();
        }
    }

    /// A job that this node may hold has been asked to stop.
    pub(crate) fn cancel(&self, id: JobId) {
        self.stop(id, None, Stop::Cancelled);
    }

    /// Has a step run soon.
    fn stir(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.stirred, true) {
            return;
        }
        drop(state);
        let weak = self.weak.clone();
        // Refused only after the end.
        let _ = self.control.execute(move || step(&weak));
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("phase", &state.phase)
            .field("kinds", &self.kinds)
            .field("held", &state.held.len())
            .field("unreported", &state.outbox.len())
            .finish_non_exhaustive()
    }
}
