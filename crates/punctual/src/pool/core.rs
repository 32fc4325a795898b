//! Everything the pool's lock guards, and every decision taken under it.
//!
//! The methods here change data and say what is to be done; they call no user code, wake nobody and block
//! nowhere. Whoever holds the lock takes the answer, unlocks, and then acts.
//!
//! # Invariants
//! 1. Every task in `queue`, or in the [`inbox`](super::inbox), may run under the present state and policy: what may not is
//!    taken out by the call that changed either.
//! 2. `live` counts the workers that have been asked for and have not decided to leave; `present` those whose
//!    threads have not got through leaving. `live ≤ present`.
//! 3. While `queue` is not empty, a worker lives. If none can be started, whoever asked for it empties the queue
//!    (`asking` tells that somebody will).
//! 4. Those of [`leader`](super::leader), with this lock.

use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_engine::{Fired, RunState, ShutdownPolicy, TaskKey, Tick, TimerQueue, is_finished, may_run};

use super::inbox::{CROWD, LANES};
use super::lane::{Letter, MOST, ROOM};
use super::leader::{Post, Waiting};
use super::priority::Priorities;
use super::queued::Queued;
use super::ready::{Ready, Taken};
use super::sizes::Sizes;
use super::tally::Tally;
use super::tether::Tether;
use super::wall::Compared;
use crate::error::RejectReason;
use crate::park::Parker;
use crate::policy::OnCancel;
use crate::series::Due;
use crate::stats::Stats;
use crate::task::{Gone, TaskId, TaskRef, TaskState, Turn};

/// The engine's slots are numbered with 32 bits, and come in chunks.
pub(super) const MOST_QUEUED: usize = if cfg!(test) { 50_000 } else { u32::MAX as usize - 8_192 };

/// What is due later than this is not brought near by a worker that would wait: see [`worker`](super::worker).
pub(super) const SOON: Duration = Duration::from_millis(100);

pub(crate) struct Core {
    pub(crate) queue: TimerQueue<TaskRef, Queued>,
    pub(crate) state: RunState,
    pub(crate) policy: ShutdownPolicy,
    pub(crate) on_cancel: OnCancel,
    /// Whether tasks may be queued that were cancelled when it was to keep them, which it is no more.
    pub(super) may_have_kept: bool,
    pub(crate) sizes: Sizes,
    pub(crate) waiting: Waiting,
    pub(crate) workers: Vec<Option<Worker>>,
    pub(crate) live: usize,
    pub(crate) present: usize,
    /// Workers that were asked for and have not looked at the queue yet.
    pub(crate) newborn: usize,
    /// Threads that are asking the spawner for a worker and will look what came of it. The pool does not end
    /// before they have: the handle of the new thread is still in their hands.
    pub(crate) asking: usize,
    /// Calls that have taken tasks out of the queue and are still ending them.
    pub(crate) ending: usize,
    pub(crate) counts: Counts,
    /// Set while tasks may go by the wall clock.
    pub(super) wall: Option<Compared>,
    pub(super) priorities: Priorities,
    /// Wakes whoever waits for termination.
    pub(crate) termination: Vec<Waker>,
    /// Threads that may still be on their way out, to be joined by whoever waits for termination.
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// What has been taken out of the inbox; empty but for the moment of sorting it in.
    pub(super) letters: Vec<Letter>,
    /// Keys of cancelled tasks out of the inbox, which are to be taken out of the queue.
    pub(super) withdrawn: Vec<TaskKey>,
    /// Such tasks out of the inbox that were cancelled by their marks, and may be on their way to the queue.
    pub(super) gone: Vec<Gone>,
    /// Room for the keys of those.
    pub(super) gone_keys: Vec<TaskKey>,
    /// What the handles of those counted for, by its lane, for the handles of others: see [`tether`](super::tether).
    pub(super) left: [Vec<Arc<Tether>>; LANES],
    /// Whether several came out of the inbox when it was last emptied.
    pub(super) in_crowds: bool,
    pub(super) ready: Arc<Ready>,
    /// The place in the order of the last task that was laid out, until what is left of them is taken back.
    pub(super) laid_out: Option<(Tick, u64)>,
    /// How many are laid out the next time.
    pub(super) portion: usize,
    /// Whether a worker is at the upkeep of the queue.
    tends: bool,
    named: u64,
}

/// A worker as the pool knows it. What it has in hand is noted in [`Ready`].
pub(crate) struct Worker {
    pub(crate) tally: Arc<Tally>,
}

/// Counted under the lock.
#[derive(Default)]
pub(crate) struct Counts {
    /// Completed by workers that have left, and by threads that are no workers.
    pub(crate) completed: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    pub(crate) largest: usize,
}

/// What is known of a task that comes in.
pub(crate) struct Offer<'a> {
    pub(crate) deadline: Tick,
    pub(crate) now: Tick,
    /// Given when the task is first looked at, accepted or not.
    pub(crate) id: Option<TaskId>,
    /// What the handle is to count for, if a count for it may have been [left](super::tether).
    pub(crate) tether: Option<&'a Arc<Tether>>,
    /// Such a count.
    pub(crate) left: Option<Arc<Tether>>,
}

impl Offer<'_> {
    #[inline]
    pub(crate) fn new(deadline: Tick, now: Tick, id: Option<TaskId>) -> Self {
        Self { deadline, now, id, tether: None, left: None }
    }

    /// The place of the task among all, once it has a number.
    pub(crate) fn turn(&self) -> Turn {
        Turn { deadline: self.deadline, ..self.id.map_or(Turn::NONE, |id| Turn { id, ..Turn::NONE }) }
    }
}

/// What a worker does next.
pub(crate) enum Step {
    Take(Fired<TaskRef>),
    /// What came first was cancelled, and is gone.
    LookAgain,
    /// `kept`: only because it is the last; its keep-alive begins when nothing is queued any more.
    Wait {
        post: Post,
        until: Option<Tick>,
        kept: bool,
    },
    Leave,
}

/// What is to be done after unlocking.
#[derive(Default)]
#[must_use]
pub(crate) struct Then {
    pub(crate) wake: Option<Arc<Parker>>,
    /// The index of a worker that wants a thread.
    pub(crate) spawn: Option<usize>,
}

impl Core {
    pub(crate) fn new(sizes: Sizes, policy: ShutdownPolicy, on_cancel: OnCancel) -> Self {
        Self {
            queue: TimerQueue::with_tenants(),
            state: RunState::Running,
            policy,
            on_cancel,
            may_have_kept: false,
            sizes,
            waiting: Waiting::default(),
            workers: Vec::new(),
            live: 0,
            present: 0,
            newborn: 0,
            asking: 0,
            ending: 0,
            counts: Counts::default(),
            wall: None,
            priorities: Priorities::default(),
            termination: Vec::new(),
            threads: Vec::new(),
            letters: Vec::with_capacity(ROOM),
            withdrawn: Vec::new(),
            gone: Vec::new(),
            gone_keys: Vec::new(),
            left: [const { Vec::new() }; LANES],
            in_crowds: false,
            ready: Arc::new(Ready::new()),
            laid_out: None,
            portion: 1,
            tends: false,
            named: 0,
        }
    }

    // ---- submission

    /// Queues a new task, or says why not.
    pub(crate) fn accept(
        &mut self,
        task: TaskRef,
        id: TaskId,
        offer: &Offer<'_>,
    ) -> Result<(TaskKey, Then), (TaskRef, RejectReason)> {
        if self.state != RunState::Running {
            return Err((task, RejectReason::ShutDown));
        }
        let is_due = offer.deadline <= offer.now;
        let grow = match self.admit(is_due) {
            Ok(grow) => grow,
            Err(reason) => return Err((task, reason)),
        };
        let (key, wake) = self.insert(task, offer.deadline, id.number(), is_due);
        let idle = wake.is_some() || self.waiting.called() > 0;
        let spawn = if grow || self.wants_worker(is_due, idle) { Some(self.add_worker()) } else { None };
        Ok((key, Then { wake, spawn }))
    }

    /// From which deadline on a task may be left in the inbox; `None` if every submission is to be decided here.
    pub(super) fn gate(&self) -> Option<Tick> {
        let settled = self.state == RunState::Running
            && self.has_all_workers()
            && self.newborn == 0
            && !self.priorities.is_on()
            && self.queue.len() < MOST_QUEUED - 2 * LANES * MOST;
        match settled {
            true => self.waiting.looks_round(),
            false => None,
        }
    }

    /// Whether no worker is started, and no task refused, because another is busy.
    pub(super) fn has_all_workers(&self) -> bool {
        self.sizes.capacity.is_none() && self.live >= self.sizes.max()
    }

    pub(crate) fn set_on_cancel(&mut self, on_cancel: OnCancel) {
        self.may_have_kept |= self.on_cancel == OnCancel::KeepUntilDue && on_cancel == OnCancel::Remove;
        self.on_cancel = on_cancel;
    }

    /// Queues what has come out of the inbox.
    pub(super) fn sort_in(&mut self) {
        let mut letters = std::mem::take(&mut self.letters);
        if !letters.is_empty() {
            self.in_crowds = letters.len() >= CROWD;
        }
        loop {
            // As many as may share a step of the upkeep: usually all.
            let most = letters.len().min(64);
            for Letter { deadline, number, task } in letters.drain(..most) {
                self.enter(task, deadline, number, deadline);
            }
            self.queue.upkeep();
            if letters.is_empty() {
                break;
            }
        }
        self.letters = letters;
    }

    /// Whether anything in the queue is due.
    pub(super) fn has_due(&self, now: Tick) -> bool {
        self.queue.next_deadline().is_some_and(|next| next <= now)
    }

    /// Whether a worker is to take the first task of the queue, with nothing else to decide: what is in the inbox does not come
    /// before it, because that is `clear` so far, and nobody is idle who could take the next.
    pub(super) fn has_plain_step(&self, now: Tick, clear: Option<Tick>) -> bool {
        let Some(clear) = clear else { return false };
        let is_next = self.queue.next_deadline().is_some_and(|next| next <= now && next <= clear);
        is_next && self.waiting.len() == 0 && !self.priorities.is_on() && !self.has_to_go()
    }

    fn has_to_go(&self) -> bool {
        self.state >= RunState::Stop || self.arrived() > self.sizes.max()
    }

    /// Whether there is room, and whether making it takes another thread.
    fn admit(&self, is_due: bool) -> Result<bool, RejectReason> {
        let queued = self.queue.len();
        let room = match self.sizes.capacity {
            _ if queued >= MOST_QUEUED => false,
            None => true,
            Some(capacity) if is_due => {
                let hands = self.newborn + self.waiting.called() + self.waiting.len();
                self.live < self.sizes.core || queued < capacity.saturating_add(hands)
            }
            Some(capacity) => queued < capacity,
        };
        match room {
            true => Ok(false),
            false if is_due && queued < MOST_QUEUED && self.live < self.sizes.max() => Ok(true),
            false => Err(RejectReason::Saturated),
        }
    }

    /// Rule *insert* of the leader protocol.
    pub(super) fn insert(
        &mut self,
        task: TaskRef,
        deadline: Tick,
        number: u64,
        is_due: bool,
    ) -> (TaskKey, Option<Arc<Parker>>) {
        let is_first =
            self.queue.peek().is_none_or(|(_, first, other, _)| (deadline, number) < (first, other));
        let key = self.enqueue(task, deadline, number, deadline);
        let wake = match (is_first, is_due) {
            (true, true) => self.waiting.call_for_due(),
            (true, false) => self.waiting.call_to_lead(),
            (false, _) => None,
        };
        (key, wake)
    }

    /// Into the queue, for `look`, which is usually when the task is due.
    pub(super) fn enqueue(&mut self, task: TaskRef, look: Tick, number: u64, planned: Tick) -> TaskKey {
        let key = self.enter(task, look, number, planned);
        self.queue.upkeep();
        key
    }

    /// The same without the upkeep of the queue.
    #[inline]
    fn enter(&mut self, task: TaskRef, look: Tick, number: u64, planned: Tick) -> TaskKey {
        if self.laid_out.is_some_and(|last| (look, number) < last) {
            self.collect();
        }
        let key = self.queue.insert_untended(look, number, task);
        if let Some(task) = self.queue.get(key) {
            task.header().set_queued(key, planned);
        }
        if self.priorities.is_on() {
            self.index(key, look, number);
        }
        key
    }

    /// Below the core size every task brings a worker, as in Java. Above it one is added where a task would
    /// otherwise have nobody to run it or to watch its deadline, unless the queue is bounded: then threads are
    /// added only when it is full.
    pub(super) fn wants_worker(&self, is_due: bool, somebody_comes: bool) -> bool {
        if self.live < self.sizes.core || self.live == 0 {
            return true;
        }
        let unattended = self.waiting.len() == 0 && !somebody_comes && (is_due || self.newborn == 0);
        unattended && self.sizes.capacity.is_none() && self.live < self.sizes.max()
    }

    /// Queues a periodic task again, or a future that is not ready. False if it is over.
    pub(crate) fn requeue(&mut self, task: &TaskRef, number: TaskId, due: Due, now: Tick) -> bool {
        let woken = task.header().wakes().and_then(|wakes| wakes.rest());
        if !self.may_wait(task.header(), woken.is_some()) || !task.re_arm() {
            return false;
        }
        self.link(task.clone(), number, woken.map_or(due, Due::at), now);
        // Nobody is called: the worker that re-queues is about to look for itself.
        true
    }

    // ---- workers

    /// Reserves a place for a worker, which the caller then finds a thread for.
    pub(crate) fn add_worker(&mut self) -> usize {
        let worker = Some(Worker { tally: Arc::new(Tally::new()) });
        self.live += 1;
        self.present += 1;
        self.newborn += 1;
        let index = match self.workers.iter().position(Option::is_none) {
            Some(free) => {
                self.workers[free] = worker;
                free
            }
            None => {
                self.workers.push(worker);
                self.workers.len() - 1
            }
        };
        self.ready.add(index);
        index
    }

    /// A worker has its thread and looks at the queue for the first time.
    pub(crate) fn arrive(&mut self) {
        self.newborn -= 1;
        self.counts.largest = self.counts.largest.max(self.arrived());
    }

    /// Living workers that are known to have a thread: one that is on its way may never come.
    fn arrived(&self) -> usize {
        self.live - self.newborn
    }

    pub(crate) fn next_worker_number(&mut self) -> u64 {
        self.named += 1;
        self.named
    }

    /// What comes first, if it is due.
    fn pop(&mut self, now: Tick) -> Option<Fired<TaskRef>> {
        match self.priorities.is_on() {
            false => self.queue.pop_due(now),
            true => self.pop_urgent(now),
        }
    }

    /// Decides what a worker does that has nothing in hand and went idle at `idle_since`.
    pub(crate) fn next_step(&mut self, now: Tick, idle_since: Tick) -> Step {
        if self.has_to_go() {
            return Step::Leave;
        }
        if let Some(fired) = self.pop(now) {
            if self.on_cancel == OnCancel::Remove && fired.value.header().is_cancelled_and_plain() {
                // Its key is on the way. Nobody is to be called or started for what comes after it; and nothing of a user's is
                // dropped here: see invariant 6 of the inbox.
                return Step::LookAgain;
            }
            return Step::Take(fired);
        }
        let next = self.queue.next_deadline();
        if self.state == RunState::Shutdown && next.is_none() {
            return Step::Leave;
        }
        let expiry = self.expiry(idle_since);
        if expiry.is_some_and(|expiry| expiry <= now) {
            return Step::Leave;
        }
        let next = next.map(|next| self.wake_for(next, now));
        let post = self.waiting.post(next, self.queue.second_deadline());
        Step::Wait { post, until: post.until().into_iter().chain(expiry).min(), kept: self.keeps_the_last() }
    }

    /// When a worker that is idle since then may go.
    fn expiry(&self, idle_since: Tick) -> Option<Tick> {
        let may_go = self.has_surplus() && !self.keeps_the_last();
        may_go.then(|| idle_since.after(self.sizes.keep_alive))
    }

    /// Whether a worker that comes to wait may not go because it is the last, and something is queued. It is so also if
    /// another is on its way.
    fn keeps_the_last(&self) -> bool {
        self.has_surplus() && self.arrived() <= 1 && !self.queue.is_empty()
    }

    /// Whether there are workers that may go when they have been idle for long enough.
    fn has_surplus(&self) -> bool {
        self.sizes.core_times_out || self.live > self.sizes.core
    }

    /// Rule *wait* of the leader protocol; goes with [`Step::Wait`].
    pub(crate) fn enlist(&mut self, parker: &Arc<Parker>, post: Post) {
        if self.keeps_the_last() {
            self.waiting.keep(parker);
        }
        self.waiting.take_post(parker, post);
    }

    /// Whether a worker that would wait has something better to do.
    pub(super) fn may_tend(&self, now: Tick) -> bool {
        let is_soon = |next: Tick| next.since(now) <= SOON;
        !self.tends && self.queue.next_deadline().is_some_and(is_soon) && self.queue.can_tend_ahead()
    }

    /// When to look round for the `next` deadline: then, or a little earlier if there will be something to do before.
    fn wake_for(&self, next: Tick, now: Tick) -> Tick {
        // The end of time does not come.
        match next.since(now).checked_sub(SOON) {
            Some(wait) if next < Tick::MAX && !self.tends && self.queue.can_tend_ahead() => now.after(wait),
            _ => next,
        }
    }

    /// From now on it counts as one that will look at the queue soon.
    pub(super) fn begin_to_tend(&mut self) {
        self.tends = true;
        self.waiting.will_look();
    }

    pub(super) fn end_tending(&mut self) {
        self.tends = false;
        self.waiting.has_looked();
    }

    /// Rule *take* of the leader protocol; goes with [`Step::Take`].
    pub(crate) fn take(&mut self, now: Tick) -> Then {
        let next = self.queue.peek().map(|(_, next, _, task)| {
            // It is likely to be taken when this one has run, and lay idle since it was queued.
            task.prefetch();
            next
        });
        let wake = match next {
            Some(_) => self.waiting.hand_on(next, now),
            None => self.release_kept(),
        };
        let attended =
            wake.is_some() || self.waiting.called() > 0 || self.waiting.len() > 0 || self.newborn > 0;
        let grow = next.is_some() && !attended && self.may_grow();
        let spawn = grow.then(|| self.add_worker());
        Then { wake, spawn }
    }

    /// The next task for a worker that comes from another, or from none, if there is nothing else to decide: see
    /// [`has_plain_step`](Self::has_plain_step), and nobody is to be woken or started for what is left. It is what
    /// [`next_step`](Self::next_step) and [`take`](Self::take) would come to, in a fraction of the instructions.
    #[inline]
    pub(super) fn take_next(
        &mut self,
        index: usize,
        tally: &Tally,
        now: Tick,
        clear: impl Fn() -> Option<Tick>,
    ) -> Option<Taken> {
        if self.laid_out.is_some() {
            if let Some(taken) = self.ready.take(index, tally, &clear) {
                return Some(taken);
            }
            self.collect();
        }
        if !self.has_plain_step(now, clear()) || self.may_grow() {
            return None;
        }
        // The next is likely to be taken when this one has run, and lay idle since it was queued.
        let fired = self.queue.pop_and_show(TaskRef::prefetch)?;
        self.lay_out(now);
        Some(self.ready.note(index, tally, fired))
    }

    /// Whether a worker may be added for what is queued although nobody submits.
    fn may_grow(&self) -> bool {
        self.sizes.capacity.is_none() && self.live < self.sizes.max() && self.state < RunState::Stop
    }

    /// A worker has decided to go (goes with [`Step::Leave`]), with nothing in hand. Returns who is to be woken.
    pub(crate) fn resign(&mut self, index: usize, now: Tick) -> Vec<Arc<Parker>> {
        self.live -= 1;
        let worker = self.workers[index].take().expect("a worker that leaves has a place");
        self.counts.completed += worker.tally.completed();
        if self.has_run_dry() {
            self.release()
        } else {
            self.waiting.hand_on(self.queue.next_deadline(), now).into_iter().collect()
        }
    }

    /// Whether idle workers may have nothing left to wait for.
    #[inline]
    pub(crate) fn has_run_dry(&self) -> bool {
        self.queue.is_empty() || self.state >= RunState::Stop
    }

    /// Calls the idle workers that wait for nothing when the queue [has run dry](Self::has_run_dry): after a shutdown all of
    /// them; otherwise the one that was kept for what was queued.
    pub(crate) fn release(&mut self) -> Vec<Arc<Parker>> {
        match self.state {
            RunState::Running => self.release_kept().into_iter().collect(),
            _ => self.waiting.call_all(),
        }
    }

    /// Rule *the queue has run empty* of the leader protocol, if it has.
    fn release_kept(&mut self) -> Option<Arc<Parker>> {
        (self.queue.is_empty() && self.has_surplus()).then(|| self.waiting.call_kept()).flatten()
    }

    /// Whether the caller is to end the pool: true once.
    pub(crate) fn begin_tidying(&mut self) -> bool {
        let busy = self.present + self.asking + self.ending;
        let finished = is_finished(self.state, self.queue.is_empty(), busy);
        if finished {
            self.state = RunState::Tidying;
        }
        finished
    }

    // ---- removal

    /// Counts a task that was ended early. One that was running is counted by its run.
    pub(crate) fn count_ended(&mut self, was: TaskState) {
        self.counts.cancelled += u64::from(was == TaskState::Waiting);
    }

    /// Takes a task out of the queue by the key it is queued under.
    pub(crate) fn unlink(&mut self, key: TaskKey) -> Option<TaskRef> {
        self.queue.cancel(key)
    }

    /// Takes out every task that `goes`; they are dropped by the caller, unlocked.
    pub(crate) fn extract(&mut self, mut goes: impl FnMut(Tick, &TaskRef) -> bool) -> Vec<TaskRef> {
        let keys: Vec<TaskKey> = self
            .queue
            .iter()
            .filter(|entry| goes(entry.deadline, entry.value))
            .map(|entry| entry.key)
            .collect();
        keys.into_iter().filter_map(|key| self.queue.cancel(key)).collect()
    }

    /// Takes out what state and policy no longer allow: keeps invariant 1.
    pub(crate) fn enforce_policy(&mut self, now: Tick) -> Vec<TaskRef> {
        let (state, policy) = (self.state, self.policy);
        self.extract(|deadline, task| {
            !may_run(state, policy, task.header().awaits_period(), deadline <= now)
                || task.header().awaits_resumption()
                || task.state().is_done()
        })
    }

    // ---- reading

    pub(crate) fn stats(&self, now: Tick, timeouts: usize) -> Stats {
        let (mut active, mut completed) = (0, self.counts.completed);
        for worker in self.workers.iter().flatten() {
            let (busy, done) = worker.tally.read();
            active += usize::from(busy);
            completed += done;
        }
        let queued = self.queue.len();
        Stats {
            state: self.state,
            pool_size: self.live,
            largest_pool_size: self.counts.largest.max(self.live),
            core_threads: self.sizes.core,
            max_threads: self.sizes.max(),
            active,
            queued,
            delayed: queued - self.queue.due_count(now),
            completed,
            cancelled: self.counts.cancelled,
            rejected: self.counts.rejected,
            timeouts,
        }
    }
}
