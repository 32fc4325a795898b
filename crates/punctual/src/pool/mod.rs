//! The threads of an executor and what they share.
//!
//! # Locks
//! One lock, `core`, guards queue, state, sizes and worker list. It is held for a few hundred nanoseconds: no
//! user code runs under it, nothing is dropped under it that a user gave us, nobody is woken under it.
//!
//! Order: `threads`, `core`, the locks of the [`inbox`], that of what is [`ready`], then a task's own lock. A submission that
//! concerns nobody but the queue takes one lock of the inbox alone, and a worker that finds the next task ready that one. The
//! list of those [`aside`] is locked alone. The clock may be asked for the time under `core`; a clock never calls back. `spawner`, `rejection` and the lock of `limits` are held for reading by cloning and for
//! nothing else.
//!
//! # The life of a submission
//! [`submit`](Pool::submit) leaves the task in the inbox, if that will do ([`Guarded::leave`]). If not, it decides under
//! the lock ([`Core::accept`]): refused, or queued. Then, unlocked, it
//! wakes the worker or starts the thread that the decision asked for ([`act`](Pool::act)). If no thread can be
//! had and none lives, the task is taken back and refused. Others that were accepted meanwhile, in the trust that
//! the thread would come, get one more attempt ([`rescue`](Pool::rescue)); if that fails as well they end as
//! abandoned. So an accepted task has somebody to run it, or ends.

mod aside;
mod control;
mod core;
mod inbox;
mod lane;
mod leader;
mod look;
#[cfg(all(test, punctual_loom))]
mod loom_aside;
#[cfg(all(test, punctual_loom))]
mod loom_leader;
#[cfg(all(test, punctual_loom))]
mod loom_pool;
#[cfg(all(test, punctual_loom))]
mod loom_steer;
mod priority;
mod queued;
mod ready;
mod series;
mod sizes;
mod spawn;
mod spell;
mod steer;
mod tally;
mod tether;
mod wake;
mod wall;
mod withdrawn;
mod worker;

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_engine::{RunState, ShutdownPolicy, TaskKey};

use self::aside::Aside;
pub(crate) use self::core::Core;
pub(crate) use self::core::Offer;
use self::core::Then;
use self::inbox::Guarded;
pub(crate) use self::inbox::Held;
use self::lane::Withdrawn;
pub(crate) use self::leader::Waiting;
pub(crate) use self::sizes::Sizes;
use self::spawn::Asked;
pub(crate) use self::spawn::ThreadSpawner;
pub use self::spawn::{Spawner, WorkerThread};
pub use self::steer::Steered;
pub(crate) use self::tally::Tally;
pub(crate) use self::tether::{Tether, Tethers};
use crate::clock::Clock;
use crate::context::Serve;
use crate::decorate::Decorator;
use crate::error::{Abandoned, Panic, RejectReason, TaskError};
use crate::lateness::Recorder;
use crate::observe::{Observer, Place};
use crate::policy::{OnCancel, Rejection};
use crate::registry::Registry;
use crate::sync::Mutex;
use crate::task::{ByMark, EndedEarly, Task, TaskInfo, TaskRef, TaskState, Turn, Typed};
use crate::timeout::Limits;
use crate::unobserved::{Reporter, Sink, UnobservedFailure, Unread, is_failure};
use crate::unwind;

pub(crate) struct Pool {
    /// Immutable after build, like all fields up to `core`.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) decorator: Option<Arc<dyn Decorator>>,
    /// Where workers record how late runs begin, if that was asked for.
    pub(crate) lateness: Option<Recorder>,
    pub(crate) timer_slack: Duration,
    pub(crate) thread_name: String,
    pub(crate) threads_numbered: bool,
    pub(crate) core: Guarded,
    aside: Aside,
    pub(crate) spawner: Mutex<Arc<dyn Spawner>>,
    pub(crate) rejection: Mutex<Rejection>,
    pub(crate) limits: Limits,
    pub(crate) registry: Arc<Registry>,
    /// Threads being joined by whoever saw the pool terminated. Taken before `core`.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(PartialEq, Eq)]
enum Acted {
    Done,
    /// Whether it came is to be seen from the number of workers.
    AskedForThread,
}

/// What a [`Pool`] is made from.
pub(crate) struct Parts {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) unobserved: Option<Sink>,
    pub(crate) decorator: Option<Arc<dyn Decorator>>,
    pub(crate) record_lateness: bool,
    pub(crate) timer_slack: Duration,
    pub(crate) thread_name: String,
    pub(crate) threads_numbered: bool,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) rejection: Rejection,
    pub(crate) sizes: Sizes,
    pub(crate) policy: ShutdownPolicy,
    pub(crate) on_cancel: OnCancel,
}

impl Pool {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let reporter = Reporter { observer: parts.observer.clone(), sink: parts.unobserved };
        Arc::new(Self {
            clock: parts.clock,
            observer: parts.observer,
            reporter: Arc::new(reporter),
            decorator: parts.decorator,
            lateness: parts.record_lateness.then(Recorder::new),
            timer_slack: parts.timer_slack,
            thread_name: parts.thread_name,
            threads_numbered: parts.threads_numbered,
            core: Guarded::new(Core::new(parts.sizes, parts.policy, parts.on_cancel)),
            aside: Aside::new(),
            spawner: Mutex::new(parts.spawner),
            rejection: Mutex::new(parts.rejection),
            limits: Limits::new(),
            registry: Arc::new(Registry::new()),
            threads: Mutex::new(Vec::new()),
        })
    }

    /// Queues `task` for `deadline`, or says why not; a task that was not accepted is untouched.
    pub(crate) fn submit(
        self: &Arc<Self>,
        task: TaskRef,
        offer: &mut Offer<'_>,
    ) -> Result<(), (TaskRef, RejectReason)> {
        let task = match self.core.leave(task, offer) {
            Ok(()) => return Ok(()),
            Err(task) => task,
        };
        let mut core = self.core.lock_to_submit();
        let id = *offer.id.get_or_insert_with(|| core.next_id());
        let (key, then) = core.accept(task, id, offer)?;
        drop(core);
        match self.act(then) {
            Acted::Done => Ok(()),
            Acted::AskedForThread => self.ensure_worker(key),
        }
    }

    /// A thread was asked for. That it could not be had matters only if there is no other: then the task that was
    /// queued under `key` comes back, unless somebody has run it, or taken it out.
    #[cold]
    fn ensure_worker(self: &Arc<Self>, key: TaskKey) -> Result<(), (TaskRef, RejectReason)> {
        let mut core = self.core.lock();
        if core.live > 0 {
            return Ok(());
        }
        let unlinked = core.unlink(key);
        self.after_removal(core);
        self.rescue();
        unlinked.map_or(Ok(()), |task| Err((task, RejectReason::NoWorker)))
    }

    pub(crate) fn count_rejected(&self) {
        self.core.lock().counts.rejected += 1;
    }

    /// Does what was decided under the lock.
    fn act(self: &Arc<Self>, then: Then) -> Acted {
        if let Some(parker) = then.wake {
            parker.unpark();
        }
        match then.spawn {
            None => Acted::Done,
            Some(index) => {
                self.spawn(index);
                Acted::AskedForThread
            }
        }
    }

    /// Finds a thread for the worker whose place is `index`; says whether. If none is found the place is free
    /// again, and if no other worker lives the caller sees to what is queued.
    fn spawn(self: &Arc<Self>, index: usize) -> bool {
        let serve = Serve::new(self);
        self.clock.worker_started();
        let mut core = self.core.lock();
        core.asking += 1;
        let number = core.next_worker_number();
        drop(core);
        let name = match self.threads_numbered {
            true => format!("{}-thread-{number}", self.thread_name),
            false => self.thread_name.clone(),
        };
        let spawner = Arc::clone(&*self.spawner.lock());
        let asked = Arc::new(Asked::default());
        let worker = WorkerThread::new(Arc::clone(self), index, name, Arc::clone(&asked));
        let spawned = unwind::catch(move || spawner.spawn(worker));
        let lost = asked.is_over();
        let (thread, started) = self.told_of_failure(spawned, lost);
        drop(serve);
        let mut core = self.core.lock();
        core.asking -= 1;
        let (finished, alive) = mem::take(&mut core.threads).into_iter().partition(has_ended);
        core.threads = alive;
        core.threads.extend(thread);
        self.after_removal(core);
        join_all(finished);
        started
    }

    /// The thread that came of asking, and whether the worker runs on it; if not, the observer knows now.
    fn told_of_failure(
        &self,
        spawned: Result<io::Result<Option<JoinHandle<()>>>, Panic>,
        lost: bool,
    ) -> (Option<JoinHandle<()>>, bool) {
        match spawned {
            Ok(Ok(thread)) => {
                if lost {
                    self.tell_lost();
                }
                (thread, !lost)
            }
            Ok(Err(error)) => {
                // It may be one of the user's own.
                self.tell(Place::Spawner, |observer| observer.spawn_failed(&error));
                self.contain(Place::Spawner, unwind::discard(error));
                (None, false)
            }
            Err(panic) => {
                self.contain(Place::Spawner, Err(panic));
                (None, false)
            }
        }
    }

    fn tell_lost(&self) {
        let error = io::Error::other("the spawner dropped the worker");
        self.tell(Place::Spawner, |observer| observer.spawn_failed(&error));
    }

    /// The spawner failed, or lost the worker: as if it had never been asked for.
    fn worker_not_started(&self, index: usize) {
        let now = self.clock.now();
        let mut core = self.core.lock();
        core.newborn -= 1;
        let wake = core.resign(index, now);
        drop(core);
        wake.iter().for_each(|parker| parker.unpark());
        // A spawner may keep the worker for a while and lose it when nobody is asking any more.
        self.give_up();
        self.worker_gone();
        self.clock.worker_stopped(None);
    }

    /// The last that a worker does with the pool.
    fn worker_gone(&self) {
        let mut core = self.core.lock();
        core.present -= 1;
        let over = core.begin_tidying();
        drop(core);
        if over {
            self.tidy();
        }
    }

    fn tally_of(&self, index: usize) -> Arc<Tally> {
        let core = self.core.lock();
        Arc::clone(&core.workers[index].as_ref().expect("a worker that starts has a place").tally)
    }

    /// What that worker has in hand.
    pub(crate) fn task_of(&self, index: usize, tally: &Arc<Tally>) -> Option<(TaskRef, Turn)> {
        let core = self.core.lock_alone();
        core.workers[index].as_ref().filter(|worker| Arc::ptr_eq(&worker.tally, tally))?;
        core.ready.in_hand(index)
    }

    // ---- ending tasks early

    /// Cancels a task by its mark; false if that will not do, and then [`cancel`](Self::cancel) will.
    pub(crate) fn cancel_by_mark(&self, task: &ByMark<'_>) -> bool {
        self.core.withdraw_by_mark(task)
    }

    /// Cancels a task; false if it is over.
    pub(crate) fn cancel(&self, task: &dyn Task) -> bool {
        let mut left = (None, None);
        let dropped = task.cancel_bare(&mut || match self.core.withdraw(task.header()) {
            Withdrawn::Noted | Withdrawn::Enough { .. } => {}
            Withdrawn::Unsorted(task) => left.0 = Some(task),
            Withdrawn::Refused => left = self.forget(task, TaskState::Waiting),
        });
        let Some(dropped) = dropped else { return self.cancel_other(task) };
        let (unlinked, stay) = left;
        self.discard(unlinked);
        self.contain(Place::Destructor, dropped);
        drop(stay);
        true
    }

    /// [Cancels](Self::cancel) a task that does not wait, or has more than its body.
    #[cold]
    fn cancel_other(&self, task: &dyn Task) -> bool {
        let (mut unlinked, mut stay) = (None, None);
        let forget = &mut |was| (unlinked, stay) = self.forget(task, was);
        let ended = task.end(TaskError::Cancelled, forget);
        self.discard(unlinked);
        let cancelled = self.ended(ended);
        drop(stay);
        if cancelled && task.header().is_special() {
            let going = shared_runs(task);
            // What has begun goes on to its end. The rest is the same task to whoever cancels it.
            let waiting = going.iter().filter(|run| run.state() == TaskState::Waiting);
            waiting.for_each(|run| _ = self.cancel(&**run));
            self.discard_all(going);
        }
        cancelled
    }

    /// [Cancels](Self::cancel) a task, and asks its runs to stop.
    pub(crate) fn cancel_and_interrupt(&self, task: &dyn Task) -> bool {
        let going = shared_runs(task);
        let cancelled = self.cancel(task);
        if cancelled {
            // A body that has not begun never will, and nobody sees the flag.
            task.interrupt();
            going.iter().for_each(|run| run.interrupt());
        }
        self.discard_all(going);
        cancelled
    }

    /// As [`cancel`](Self::cancel), but with an outcome of the caller's.
    pub(crate) fn complete<T>(&self, task: &dyn Typed<T>, outcome: Result<T, TaskError>) -> bool {
        if let Err(error) = &outcome {
            self.note_unread(task.as_task(), error);
        }
        let (mut unlinked, mut stay) = (None, None);
        let forget = &mut |was| (unlinked, stay) = self.forget(task.as_task(), was);
        let refused = task.complete_early(outcome, forget).err();
        self.discard(unlinked);
        drop(stay);
        if let Some(late) = refused {
            // Nobody can learn of a failure that came too late, unless it is told now.
            drop(task.take_unread());
            self.discard(late);
            return false;
        }
        true
    }

    /// Leaves word of a failure with a task that it is about to end, for the case that nobody reads the outcome.
    fn note_unread(&self, task: &dyn Task, error: &TaskError) {
        if is_failure(error) {
            let turn = task.header().turn();
            let info = TaskInfo::new(task.header(), turn, None);
            let failure = UnobservedFailure::new(info, error.clone());
            // What comes back is told at once.
            drop(task.keep_unread(Unread::new(&self.reporter, failure)));
        }
    }

    /// Ends a task that is no longer queued; false if it is over.
    pub(crate) fn end(&self, task: &dyn Task, error: TaskError) -> bool {
        self.end_and(task, error, &mut |was| self.core.lock().count_ended(was))
    }

    /// Ends a task that may be queued, because it has failed elsewhere than in a run of its own.
    pub(crate) fn fail(&self, task: &dyn Task, error: TaskError) {
        let (mut unlinked, mut stay) = (None, None);
        self.end_and(task, error, &mut |_| {
            let mut core = self.core.lock();
            unlinked = core.unlink(task.header().key());
            stay = Stay::new(self, &mut core);
            self.after_removal(core);
        });
        self.discard(unlinked);
        drop(stay);
    }

    fn end_and(&self, task: &dyn Task, error: TaskError, unlink: &mut dyn FnMut(TaskState)) -> bool {
        let failure = is_failure(&error).then(|| error.clone());
        let ended = self.ended(task.end(error, unlink));
        if let Some(failure) = failure.filter(|_| ended) {
            // What ends a task from outside of a run is a plan or a series that failed.
            let turn = task.header().turn();
            let info = TaskInfo::new(task.header(), turn, None);
            self.reporter.report(&UnobservedFailure::new(info, failure));
        }
        ended
    }

    fn ended(&self, ended: EndedEarly) -> bool {
        match ended {
            EndedEarly::No => false,
            EndedEarly::Yes(panic) => {
                self.contain(Place::Destructor, panic.map_or(Ok(()), Err));
                true
            }
        }
    }

    /// Counts a cancelled task and takes it out of the queue, unless it is to stay there until it is due.
    fn forget(&self, task: &dyn Task, was: TaskState) -> (Option<TaskRef>, Option<Stay<'_>>) {
        let mut core = self.core.lock_alone();
        core.count_ended(was);
        let header = task.header();
        let unlinked = match core.on_cancel {
            // What waits for the end of time is never due.
            OnCancel::KeepUntilDue if !header.is_paused() && !header.is_under_way() => None,
            _ => self.core.unlink(&mut core, header),
        };
        let stay = Stay::new(self, &mut core);
        self.after_removal(core);
        (unlinked, stay)
    }

    /// Takes a queued task out, unrun and unharmed.
    pub(crate) fn remove(&self, task: &dyn Task) -> Option<TaskRef> {
        let mut core = self.core.lock();
        let unlinked = core.unlink(task.header().key());
        self.after_removal(core);
        unlinked
    }

    /// Takes out what has been cancelled and kept.
    pub(crate) fn purge(&self) -> usize {
        let mut core = self.core.lock();
        let gone = core.extract(|_, task| task.state().is_done());
        self.after_removal(core);
        let count = gone.len();
        self.discard_all(gone);
        count
    }

    /// Throws the earliest queued task out; false if there is none.
    pub(crate) fn displace(&self) -> bool {
        let mut core = self.core.lock();
        let oldest: Vec<TaskRef> = core.queue.pop().map(|fired| fired.value).into_iter().collect();
        let found = !oldest.is_empty();
        self.end_all(core, oldest, &TaskError::Abandoned(Abandoned::Displaced));
        found
    }

    // ---- user code and its remains

    /// [`discard`](Self::discard), one by one: two destructors that panic at once would end the process.
    pub(crate) fn discard_all<V>(&self, values: Vec<V>) {
        values.into_iter().for_each(|value| self.discard(value));
    }

    /// Drops something a user gave us, outside every lock.
    pub(crate) fn discard<V>(&self, value: V) {
        self.contain(Place::Destructor, unwind::discard(value));
    }

    /// Whether anybody wants to know when exactly each run begins.
    fn times_every_run(&self) -> bool {
        self.observer.is_some() || self.lateness.is_some()
    }

    /// Calls the observer, if there is one.
    fn tell(&self, place: Place, call: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            self.contain(place, unwind::catch(|| call(&**observer)));
        }
    }

    pub(crate) fn tell_overrun(&self, task: TaskInfo<'_>, took: Duration) {
        self.tell(Place::AfterRun, |observer| observer.overrunning(task, took));
    }

    #[inline]
    pub(crate) fn contain(&self, place: Place, result: Result<(), Panic>) {
        if let Err(panic) = result {
            self.tell_contained(place, &panic);
        }
    }

    #[cold]
    fn tell_contained(&self, place: Place, panic: &Panic) {
        // An observer that panics while being told of a panic is past help.
        let _ = self.observer.as_ref().map(|observer| unwind::catch(|| observer.contained(place, panic)));
    }
}

/// Keeps a pool that has been shut down from being over while a task that was taken out of it is being ended: whoever
/// sees it terminated sees the bodies dropped.
///
/// A pool that is running needs none. One that is shut down by another thread at this very moment may be over before the
/// body is dropped; which of the two came first, nobody can tell.
struct Stay<'a> {
    pool: &'a Pool,
    /// `None` once it is dropped.
    serve: Option<Serve>,
}

impl<'a> Stay<'a> {
    fn new(pool: &'a Pool, core: &mut Core) -> Option<Self> {
        if core.state == RunState::Running {
            return None;
        }
        core.ending += 1;
        Some(Self { pool, serve: Some(Serve::new(pool)) })
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        drop(self.serve.take());
        let mut core = self.pool.core.lock();
        core.ending -= 1;
        self.pool.after_removal(core);
    }
}

/// The runs of a task that go on, or are queued, besides itself.
fn shared_runs(task: &dyn Task) -> Vec<TaskRef> {
    task.header().series().map(|series| series.going()).unwrap_or_default()
}

/// Whether a thread can be joined at once. One that calls this as it ends, from a destructor of a thread-local, seems finished
/// to itself.
fn has_ended(thread: &JoinHandle<()>) -> bool {
    thread.is_finished() && thread.thread().id() != thread::current().id()
}

/// A worker contains every panic. If its thread died all the same, of what a spawner has put round the worker, it
/// has been reported there.
fn join_all(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        let _ = thread.join().map_err(Panic::from_payload);
    }
}
