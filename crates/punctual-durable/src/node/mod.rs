//! A node: finds what is due, claims it, runs it at its instant, and records what became of it.
//!
//! # Threads
//! Pools of `punctual` on one clock. *Control* has one thread, on which [`Node::step`] runs: the only place where
//! a node talks to its store of its own accord. *Workers* run the handlers; a claimed job is a task of theirs with the
//! due time as its deadline, so it starts as exactly as any task. No thread polls or sleeps: a step is a task, too,
//! due when there is next something to do, or at once when somebody [stirs](Node::stir).
//!
//! # A step
//! Until there is nothing to do: renew the lease if it is time; fire schedules whose next occurrence is near; send
//! reports and ask for jobs, in one exchange; look ahead if it is time. Then set the alarm for the earliest of: the next
//! renewal, the next look, the first schedule and the first ticket less the lead.
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
//! 5. *User code runs and is dropped without the lock of `state`.* Handlers run in attempts, observers are called by
//!    [`Node::tell`], and attempts, which report when dropped, are never dropped under it.
//!
//! # Locks
//! `state` alone. Under it neither the store nor a pool is called.
//!
//! # Failure
//! A store that fails is tried again, after a backoff of up to a second, for ever; the lease meanwhile lapses by itself.
//! If it refuses a batch for good, the batch is halved until the one report that cannot be recorded is found; that one is
//! given up (a job that must not be run again is reported as failed instead), and the rest goes on. One that cannot be
//! recorded for the time being is set aside (`outbox.rs`). A step that panics counts as a failure of the store.

mod attempt;
mod claimed;
mod exchange;
mod flight;
mod front;
mod guard;
mod lease;
mod look;
mod outbox;
mod pace;
mod stop;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use punctual::{CancelOnDrop, Clock, Executor, TaskHandle, Tick, When};

pub(crate) use self::attempt::message as panic_message;

use self::front::{Front, Room};
use self::lease::Lease;
use self::outbox::Outbox;
use self::pace::Pace;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::job::{Fence, JobId, JobRecord, NewJob, NodeId};
use crate::journal::Update;
use crate::post::PostBox;
use crate::registry::Registry;
use crate::retry::Backoff;
use crate::schedule::ScheduleRecord;
use crate::signal::{Signal, Stop};
use crate::store::{News, Store, Tenure, Ticket, Verdict};
use crate::tally::Counter;
use crate::time::Timestamp;
use crate::watch::Watch;

/// Jobs claimed beyond the number of threads.
const MOST_AHEAD: usize = 1_000;
/// How long a claimed job may wait for a thread.
const LONGEST_AHEAD: Duration = Duration::from_millis(250);
/// Reports in one exchange.
const MOST_REPORTS: usize = 1_000;
/// Tickets asked for in one look.
const MOST_TICKETS: usize = 10_000;
/// Jobs rescued in one call.
const MOST_RESCUED: usize = 500;
/// Jobs forgotten in one call, how often that is done, and the pause between calls while there are more.
const MOST_TRIMMED: usize = 1_000;
const TRIM_EVERY: Duration = Duration::from_secs(600);
const TRIM_PAUSE: Duration = Duration::from_millis(50);
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
    /// For the timers of async handlers, which must not wait for a busy worker, nor for the store. It has a thread while
    /// there are any.
    timers: Executor,
    /// This node, for tasks that must not keep it alive.
    weak: Weak<Self>,
    state: Mutex<State>,
}

/// Guarded by `Node::state`.
struct State {
    phase: Phase,
    lease: Lease,
    /// The store's last answer to a renewal.
    tenure: Option<Tenure>,
    front: Front,
    /// Those that were due soon at the last look.
    schedules: Vec<ScheduleRecord>,
    held: HashMap<JobId, Held>,
    /// How many of them wait for their instant.
    early: usize,
    /// How many of them are async handlers under way, and how many of those hold no place.
    flying: usize,
    async_limit: usize,
    outbox: Outbox,
    /// What attempts have said, and when it is to be sent at the latest.
    heard: HashMap<(JobId, Fence), Update>,
    tell_by: Tick,
    /// What has happened, in numbers, and when that is to be sent at the latest.
    counter: Counter,
    count_by: Tick,
    /// Whether the store may have given us jobs that we do not know of.
    disown: bool,
    pace: Pace,
    next_look: Tick,
    next_trim: Tick,
    /// Failures of the store in a row, and when to try again.
    failures: u32,
    not_before: Tick,
    /// Whether a step has been asked for and has not begun.
    stirred: bool,
    alarm: Option<(Tick, CancelOnDrop<()>)>,
    /// See `guard.rs`.
    guard: Option<CancelOnDrop<()>>,
    /// The node itself, from when it is to leave with the last report until it has: nobody else may be holding it.
    closing: Option<Arc<Node>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Not yet, or not any more, allowed to claim.
    Standby,
    Active,
    /// Shutting down: claims nothing more, reports what is left.
    Draining,
    /// Has left the store.
    Gone,
}

struct Held {
    fence: Fence,
    /// The term of the lease that it was claimed in.
    term: u64,
    exclusive: bool,
    /// Since when it could have begun.
    since: Tick,
    /// Whether it still waits for its instant.
    early: bool,
    signal: Arc<Signal>,
    /// `None` until it has been given to the workers.
    task: Option<Arc<TaskHandle<()>>>,
    /// Whether it is an async handler under way.
    flying: bool,
}

/// A report on its way.
#[derive(Clone)]
struct Outgoing {
    job: Arc<JobRecord>,
    verdict: Verdict,
    /// What is to follow, if it is done.
    follow_ups: Vec<NewJob>,
    /// How late the handler was called and how long it ran, if it was.
    run: Option<(Duration, Duration)>,
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
        // By 5 no user code can panic under it.
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

    // ---- the step

    fn step(self: &Arc<Self>) {
        let now = self.now();
        let mut state = self.lock();
        state.stirred = false;
        // It may be what runs us: then it is spent, and must not be taken for one that is still to come.
        let spent = state.alarm.take_if(|(tick, _)| *tick <= now);
        let (gone, too_soon) = (state.phase == Phase::Gone, now < state.not_before);
        drop(state);
        drop(spent);
        if gone {
            return;
        }
        if !too_soon {
            let result = self.try_work();
            self.take_note(&result);
            self.leave_if_over();
        }
        self.set_alarm();
    }

    fn try_work(self: &Arc<Self>) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| self.work())) {
            Ok(result) => result,
            Err(panic) => Err(Error::broken(format!("the store panicked: {}", attempt::message(panic)))),
        }
    }

    fn take_note(&self, result: &Result<()>) {
        let mut state = self.lock();
        match result {
            Ok(()) => state.failures = 0,
            Err(_) => {
                state.failures = state.failures.saturating_add(1);
                state.not_before = self.now().after(STORE_BACKOFF.wait(state.failures));
            }
        }
        drop(state);
        if let Err(error) = result {
            self.tell(&Event::StoreFailed(error));
        }
    }

    fn work(self: &Arc<Self>) -> Result<()> {
        loop {
            let now = self.now();
            let state = self.lock();
            let (phase, renew) = (state.phase, now >= state.lease.next_renewal());
            let look = phase == Phase::Active && now >= state.next_look;
            let trim = phase == Phase::Active && now >= state.next_trim;
            drop(state);
            if renew {
                // Reports must not wait for a renewal that fails.
                if let Err(error) = self.renew(now) {
                    self.lock().lease.failed(now);
                    self.tell(&Event::StoreFailed(&error));
                }
            } else if let Some(firings) = self.firings(now) {
                self.fire(firings)?;
            } else if let Some((sent, exchange)) = self.plan(now) {
                self.exchange(sent, exchange)?;
            } else if look {
                self.give_back(now);
                self.look(now)?;
            } else if trim {
                self.trim(now)?;
            } else {
                return Ok(());
            }
            let took_until = self.now();
            self.lock().pace.answered(took_until, took_until.since(now));
        }
    }

    fn renew(&self, sent: Tick) -> Result<()> {
        let length = self.lock().lease.length();
        let renewal = self.store.renew(self.id, length)?;
        let now = self.now();
        let mut state = self.lock();
        match renewal.tenure {
            Tenure::Active => state.lease.granted(sent, now),
            Tenure::Standby => state.lease.refused(sent, self.settings.poll),
        }
        let news = state.tenure.replace(renewal.tenure) != Some(renewal.tenure);
        match (state.phase, renewal.tenure) {
            (Phase::Standby, Tenure::Active) => {
                state.phase = Phase::Active;
                state.next_look = Tick::ZERO;
                state.front.suspect_backlog();
            }
            (Phase::Active, Tenure::Standby) => state.phase = Phase::Standby,
            _ => {}
        }
        let active = state.phase == Phase::Active;
        drop(state);
        self.guard();
        if news {
            self.tell(&if renewal.tenure == Tenure::Active { Event::Active } else { Event::Standby });
        }
        renewal.cancels.into_iter().for_each(|id| self.cancel(id));
        if active { self.rescue() } else { Ok(()) }
    }

    fn rescue(&self) -> Result<()> {
        loop {
            let rescued = self.store.rescue(self.id, MOST_RESCUED)?;
            for rescue in &rescued {
                self.tell(&Event::Rescued { id: rescue.id, from: rescue.from, state: rescue.state });
            }
            self.watch.hint(rescued.iter().filter(|rescue| rescue.state.is_over()).map(|rescue| rescue.id));
            if !rescued.is_empty() {
                self.lock().front.suspect_backlog();
            }
            if rescued.len() < MOST_RESCUED {
                return Ok(());
            }
        }
    }

    fn set_alarm(&self) {
        let (now, store_now) = (self.now(), self.store.now());
        let mut state = self.lock();
        let Some(next) = state.next_step(now, store_now, self.settings.concurrency) else { return };
        if state.alarm.as_ref().is_some_and(|(tick, task)| *tick == next && !task.is_done()) {
            return;
        }
        let old = state.alarm.take();
        drop(state);
        drop(old);
        let weak = self.weak.clone();
        let task = self.control.task(move || step(&weak)).name("step").first(When::At(next)).start();
        if let Ok(task) = task {
            let alarm = (next, task.cancel_on_drop());
            let old = self.lock().alarm.replace(alarm);
            drop(old);
        }
    }
}

/// What steps are tasks of: they do not keep the node alive.
fn step(node: &Weak<Node>) {
    if let Some(node) = node.upgrade() {
        node.step();
    }
}

impl State {
    /// By 4.
    fn room(&self, threads: usize) -> Room {
        self.room_after(threads, 0)
    }

    /// The same when so many reports have been taken.
    fn room_after(&self, threads: usize, reports: usize) -> Room {
        let begun = (self.held.len() - self.flying.min(self.async_limit)).saturating_sub(self.early);
        let taken = begun + self.outbox.burden().saturating_sub(reports);
        // Where every thread is taken, who knows until when.
        let early = if begun < threads { self.pace.early() } else { self.pace.ahead() };
        Room {
            due: threads.saturating_add(self.pace.ahead()).saturating_sub(taken),
            early: threads.saturating_add(early).saturating_sub(taken + self.early),
        }
    }

    /// What is not held any more does not count any more.
    fn discount(&mut self, held: Option<&Held>) {
        self.flying -= usize::from(held.is_some_and(|held| held.flying));
        self.early -= usize::from(held.is_some_and(|held| held.early));
    }

    /// What was heard before comes first.
    fn add_heard(&mut self, update: Update) {
        match self.heard.entry((update.id, update.fence)) {
            Entry::Occupied(entry) => entry.into_mut().add(update),
            Entry::Vacant(entry) => drop(entry.insert(update)),
        }
    }

    /// How long before its due time a job is claimed.
    fn lead(&self) -> Duration {
        self.pace.lead()
    }

    /// The same for the occurrences of schedules, which must first become jobs.
    fn lead_of_schedules(&self) -> Duration {
        self.lead() * 2
    }

    /// Whether reports may wait for others: if there will be some, because the next job is near, and nothing else waits
    /// for them. So jobs that come densely share calls.
    fn may_wait(&self, store_now: Timestamp, threads: usize) -> bool {
        let near = store_now.after(self.lead() * 3);
        self.phase == Phase::Active
            && self.room(threads).due > 0
            && !self.front.is_crowded()
            && self.front.next_due().is_some_and(|due| due <= near)
    }

    /// When the next step is to run, if nobody stirs before.
    fn next_step(&self, now: Tick, store_now: Timestamp, threads: usize) -> Option<Tick> {
        let mut next = match self.phase {
            Phase::Gone => return None,
            Phase::Standby | Phase::Draining => self.lease.next_renewal(),
            Phase::Active => self.lease.next_renewal().min(self.next_look).min(self.next_trim),
        };
        // Without a lease there is nothing to do but to renew it.
        let active = self.phase == Phase::Active && self.lease.is_valid(now);
        if active && let Some(first) = self.schedules.iter().filter_map(|record| record.next).min() {
            next = next.min(now.after(first.since(store_now.after(self.lead_of_schedules()))));
        }
        if active {
            let room = self.room(threads);
            // When it may be claimed: while there is no room for it early, not before it is due.
            let at = self.front.next_due().and_then(|due| match due <= store_now {
                false if room.early > 0 => Some(due.since(store_now.after(self.lead()))),
                _ => (room.due > 0).then(|| due.since(store_now)),
            });
            next = at.map_or(next, |wait| next.min(now.after(wait)));
            if self.front.has_backlog() && room.due > 0 {
                next = next.min(now);
            }
        }
        next = next.min(self.outbox.next()).min(self.tell_by);
        if self.counter.has_news() {
            next = next.min(self.count_by);
        }
        let next = next.max(self.not_before);
        (next < Tick::MAX).then_some(next)
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
