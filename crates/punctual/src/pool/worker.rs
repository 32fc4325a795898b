//! The loop of a worker thread: take the earliest due task, run it, begin again.
//!
//! A worker survives whatever it runs: bodies, hooks and destructors are called through
//! [`unwind`](crate::unwind). It drops what it has run outside every lock, and before it is listed among those who wait: a
//! destructor may wait for a task, which is then not left to the very thread that the destructor keeps. What nobody can
//! ask for any more is gone by then, dropped with the run ([`Task::clear`]): here it is that of a handle that went at this
//! very moment.
//!
//! From one due task to the next it takes the pool's lock once: the last task is struck out of the pool's notes and the
//! next noted in one step ([`Core::take_next`]), if nobody is to be woken, started or asked for that.
//!
//! Before it waits it lets the queue bring near what will be due ([`TimerQueue::tend_ahead`]), a little at a time and only
//! while nothing is due: left to the runs themselves that is as much at once as a hundred thousand tasks a second leave no
//! time for, and they would be late by tens of milliseconds. One worker at a time does so, and whoever submits something
//! meanwhile finds somebody on its way ([`Waiting`] counts it as called): no other thread is woken or started for that. It begins
//! a tenth of a second before the first deadline, for which it wakes if need be. Not earlier: most timers are cancelled before
//! they come near, and more of them may be coming in at this moment, for whom it would be in the way.
//!
//! [`TimerQueue::tend_ahead`]: punctual_engine::TimerQueue::tend_ahead
//! [`Waiting`]: super::leader::Waiting
//! [`Task::clear`]: crate::task::Task::clear

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use punctual_engine::{RunTimes, Tick};

use super::core::{Core, Step};
use super::inbox::Gatekeeper;
use super::leader::Post;
use super::ready::Taken;
use super::spell::Spell;
use super::tally::Tally;
use super::{Pool, TaskRef};
use crate::context::Work;
use crate::error::TaskError;
use crate::observe::Place;
use crate::park::Parker;
use crate::series::Due;
use crate::slack;
use crate::task::{Ended, Half, Run, TaskId, Turn};

/// The life of a worker thread.
pub(super) fn work(pool: &Arc<Pool>, index: usize) {
    let parker = Parker::current();
    pool.clock.worker_entered(&parker);
    let tally = pool.tally_of(index);
    let work = Work::new(pool, index, &tally);
    slack::set(pool.timer_slack);
    pool.aside.arrive();
    pool.tell(Place::Worker, |observer| observer.worker_started());
    let mut worker = Worker {
        pool,
        index,
        parker: Arc::clone(&parker),
        tally,
        newborn: true,
        known: Tick::ZERO,
        times_every_run: pool.times_every_run(),
        brisk: false,
        spell: Spell::new(),
        is_spare: false,
        struck_out: Cell::new(None),
    };
    let mut last = None;
    while let Some((task, turn, now)) = worker.next(last) {
        let begun = worker.spell.begin(&*pool.clock, || pool.aside.are_several());
        worker.run(&task, turn, now);
        if worker.spell.end(begun, &*pool.clock) {
            pool.aside.note_slow();
        }
        last = Some(task);
    }
    pool.tell(Place::Worker, |observer| observer.worker_stopped());
    pool.aside.depart();
    pool.worker_gone();
    drop(work);
    pool.clock.worker_stopped(Some(&parker));
}

pub(super) struct Worker<'a> {
    pub(super) pool: &'a Arc<Pool>,
    pub(super) index: usize,
    parker: Arc<Parker>,
    pub(super) tally: Arc<Tally>,
    newborn: bool,
    /// The clock showed this, or later.
    known: Tick,
    /// Whether somebody wants to know when exactly each run begins.
    times_every_run: bool,
    /// The last wait was short and ended with a call: the next may well do so, too.
    brisk: bool,
    /// Whether it is of any use.
    spell: Spell,
    /// Whether nothing is done because it is busy, as far as it knows: see invariant 4 of [`aside`](super::aside).
    is_spare: bool,
    /// The pool's half of the task in hand, which it no longer notes.
    struck_out: Cell<Option<Half>>,
}

/// A wait that ends with a call within this time makes the worker look out for the next call before it parks, when it has run
/// what it was called for. An idle worker, one that waits for deadlines, and one that is called only to hear of an earlier
/// deadline, never does.
const BRISK: Duration = Duration::from_micros(200);
/// How long it does: some twenty microseconds, in [looks](Parker::linger). To be woken takes a sleeping thread longer than
/// that where processors are virtual, and whoever waits for the task that has just run is one.
const PATIENCE: u32 = 1_500;

impl Worker<'_> {
    /// Waits for a due task, after the `last`; `None` when the worker is no longer needed, and then it has resigned.
    fn next(&mut self, mut last: Option<Half>) -> Option<(Half, Turn, Tick)> {
        let pool = self.pool;
        let may_be_quick = !self.times_every_run && !self.newborn;
        if self.spell.has_just_timed() {
            self.leave_if_one_too_many(&mut last);
        }
        let mut core = loop {
            if may_be_quick {
                if let Some(taken) = pool.core.take_ready(self.index, &self.tally) {
                    return Some(self.go_on(taken, last));
                }
            }
            if let Some(core) = pool.core.try_lock_alone() {
                break core;
            }
            if !self.spell.is_of_no_use(pool.core.ready()) || !self.may_stand_aside() {
                break pool.core.lock_alone();
            }
            self.stand_aside(last.take());
        };
        if may_be_quick {
            let clear = || pool.core.clear_until();
            if let Some(taken) = core.take_next(self.index, &self.tally, self.known, clear) {
                drop(core);
                return Some(self.go_on(taken, last));
            }
        }
        core.collect();
        if std::mem::take(&mut self.newborn) {
            core.arrive();
        }
        self.strike_out(&mut core);
        let mut finished = last.zip(self.struck_out.take()).map(|(last, noted)| last.join(noted));
        let (mut idle_since, mut called_in_vain) = (None, false);
        loop {
            self.is_spare = core.has_all_workers();
            let mut now = self.look_at_clock(&core);
            if pool.core.is_filling(&core, now) {
                drop(core);
                pool.core.let_fill();
                core = pool.core.lock_whole();
                // What has come since is due as well.
                now = self.look_at_clock(&core);
            }
            let gate = pool.core.look(&mut core, now);
            match core.next_step(now, *idle_since.get_or_insert(now)) {
                Step::Take(fired) => {
                    let Taken { task, turn, .. } = core.ready.note(self.index, &self.tally, fired);
                    let then = core.take(now);
                    if gate.is_none() && !self.times_every_run {
                        core.lay_out(now);
                    }
                    settle(gate, &core);
                    drop(core);
                    // Before anything that may take its time. A worker that cannot be added now is asked for again at the
                    // next occasion.
                    let _ = pool.act(then);
                    pool.discard(finished);
                    return Some((task, turn, now));
                }
                Step::LookAgain => settle(gate, &core),
                // What it has run may take its time to be dropped, or wait for another task: meanwhile this worker is nobody
                // to count on, so it is not listed yet.
                Step::Wait { .. } if give_up(&mut finished) => {
                    settle(gate, &core);
                    drop(core);
                    pool.discard(finished.take());
                    core = pool.core.lock_whole();
                }
                // Not before what can be done now is done: later there may be less time.
                Step::Wait { .. } if core.may_tend(now) => {
                    core.begin_to_tend();
                    settle(gate, &core);
                    core.queue.tend_ahead();
                    drop(core);
                    core = pool.core.lock_whole();
                    core.end_tending();
                }
                // Another waits for what comes next.
                Step::Wait { post: Post::Deputy(_) | Post::Follower, kept: false, .. }
                    if self.is_spare && self.spell.waits_in_vain() && pool.aside.may_stand() =>
                {
                    settle(gate, &core);
                    drop(core);
                    // Memory, if anything.
                    pool.discard(finished.take());
                    self.stand_aside(None);
                    core = pool.core.lock_whole();
                }
                Step::Wait { post, until, kept } => {
                    core.enlist(&self.parker, post);
                    settle(gate, &core);
                    drop(core);
                    // Memory, if anything.
                    pool.discard(finished.take());
                    if self.brisk && !called_in_vain {
                        self.parker.linger(PATIENCE);
                    }
                    pool.clock.wait(&self.parker, until);
                    core = pool.core.lock_whole();
                    let called = core.waiting.leave(&self.parker);
                    self.spell.look_round(&core.ready);
                    self.known = pool.clock.now();
                    core.compare_clocks(&*pool.clock);
                    self.brisk = called && self.known.since(now) < BRISK;
                    called_in_vain = called;
                    if kept {
                        idle_since = None;
                    }
                }
                Step::Leave => {
                    let wake = core.resign(self.index, now);
                    settle(gate, &core);
                    drop(core);
                    wake.iter().for_each(|parker| parker.unpark());
                    pool.discard(finished);
                    return None;
                }
            }
        }
    }

    /// Whether a worker that is of no use may, and then has to, stand aside, between two tasks.
    fn may_stand_aside(&self) -> bool {
        let put_back = self.struck_out.take();
        let is_counted_on = put_back.is_some() || self.newborn || !self.is_spare;
        self.struck_out.set(put_back);
        !is_counted_on && self.pool.aside.may_stand()
    }

    /// Stands aside although there may be something to do, if others do it as well; not with the `last` task in hand.
    fn leave_if_one_too_many(&mut self, last: &mut Option<Half>) {
        if self.spell.is_one_too_many(self.pool.core.ready()) && self.may_stand_aside() {
            self.stand_aside(last.take());
        }
    }

    /// Leaves the work to the others as long as they get on, with nothing in hand. To be called without a lock.
    #[cold]
    fn stand_aside(&mut self, last: Option<Half>) {
        let (pool, ready) = (self.pool, self.pool.core.ready());
        if let Some(last) = last {
            let noted = ready.strike_out(self.index);
            pool.discard(noted.map(|noted| last.join(noted)));
        }
        let are_behind = || pool.core.is_behind(pool.clock.now());
        let why = pool.aside.stand(&self.parker, ready, self.spell.at_first(), are_behind);
        self.spell.begin_anew(why);
    }

    /// Gives up the last task, when the next has been taken.
    #[inline]
    fn go_on(&mut self, taken: Taken, last: Option<Half>) -> (Half, Turn, Tick) {
        let noted = taken.before.or_else(|| self.struck_out.take());
        if let Some(finished) = last.zip(noted).map(|(last, noted)| last.join(noted)) {
            self.pool.discard(finished);
        }
        // Another worker may have found it due.
        self.known = self.known.max(taken.due);
        (taken.task, taken.turn, self.known)
    }

    /// The time, or an earlier one that serves as well: what was due then is due now, and the next task is.
    ///
    /// Only an observer, or the record, learns how late a run began, so without them the clock is not read for a task
    /// that comes out of a burst.
    fn look_at_clock(&mut self, core: &Core) -> Tick {
        let known = core.queue.next_deadline().is_some_and(|next| next <= self.known);
        if !known || self.times_every_run || core.priorities.is_on() {
            self.known = self.pool.clock.now();
        }
        self.known
    }

    #[inline]
    fn run(&self, task: &TaskRef, turn: Turn, now: Tick) {
        if task.header().is_special() {
            return self.run_special(task, turn, now);
        }
        let pool = self.pool;
        let (observer, reporter, count) =
            (pool.observer.as_deref(), Some(&pool.reporter), || self.tally.finish());
        let run = Run { observer, reporter, turn, started: now, again: false, count: &count, judge: None };
        self.record_lateness(task, turn, now);
        // It may be late, but not run again.
        if let Ended::Skipped = task.perform(&run) {
            self.tally.skip();
        }
    }

    /// A run of a task that is more than plain.
    fn run_special(&self, task: &TaskRef, turn: Turn, now: Tick) {
        if let Some(series) = task.header().series() {
            return self.run_series(task, series);
        }
        let pool = self.pool;
        let again = task.header().schedule().is_periodic();
        // A period may count from here.
        let now = if again { pool.clock.now() } else { now };
        // A future under way goes on with a run: whoever triggers it meanwhile wants another after that.
        let extra = again && !task.header().is_under_way() && task.header().set_triggered(false);
        let (observer, count) = (pool.observer.as_deref(), || self.tally.finish());
        let reporter = Some(&pool.reporter);
        let run = Run { observer, reporter, turn, started: now, again, count: &count, judge: None };
        self.record_lateness(task, turn, now);
        match task.perform(&run) {
            Ended::Finished | Ended::Late => {}
            Ended::Skipped => self.tally.skip(),
            Ended::Again => self.queue_again(task, turn, now, extra),
        }
    }

    pub(super) fn record_lateness(&self, task: &TaskRef, turn: Turn, started: Tick) {
        // What was cancelled while it waited is not late. One that is being cancelled may be either.
        if let Some(lateness) = self.pool.lateness.as_ref().filter(|_| !task.state().is_done()) {
            lateness.record(self.index, started.since(turn.deadline));
        }
    }

    fn queue_again(&self, task: &TaskRef, turn: Turn, started: Tick, extra: bool) {
        let run = RunTimes { deadline: turn.deadline, started, ended: self.pool.clock.now() };
        let next = task.header().next(run, extra);
        let Some(next) = next else { unreachable!("only a periodic task or a future runs again") };
        self.requeue(task, Due::at(next), run.ended);
    }

    pub(super) fn requeue(&self, task: &TaskRef, due: Due, now: Tick) {
        let (pool, header) = (self.pool, task.header());
        let queued = match header.wakes() {
            None => self.put_back(&mut pool.core.lock_alone(), task, header.id(), due, now),
            Some(_) => {
                let mut core = pool.core.lock();
                let number = core.number_for(header);
                self.put_back(&mut core, task, number, due, now)
            }
        };
        if !queued {
            // Shut down meanwhile, or cancelled: then it is over already, and this does nothing.
            pool.end(&**task, TaskError::Cancelled);
        }
    }

    /// What the worker has in hand goes back to the queue; says whether it may.
    fn put_back(&self, core: &mut Core, task: &TaskRef, number: TaskId, due: Due, now: Tick) -> bool {
        self.tally.finish();
        self.strike_out(core);
        core.requeue(task, number, due, now)
    }

    /// The pool no longer notes that the worker has a task in hand.
    pub(super) fn strike_out(&self, core: &mut Core) {
        if let Some(noted) = core.ready.strike_out(self.index) {
            self.struck_out.set(Some(noted));
        }
    }
}

/// Gives up what a worker has run, unless that is to be dropped by it, and says whether a destructor of a user's may run then.
fn give_up(finished: &mut Option<TaskRef>) -> bool {
    *finished = finished.take().and_then(TaskRef::give_up);
    finished.as_ref().is_some_and(|last| !last.header().is_spent())
}

/// Lets go of the inbox, if it was needed, when the step is decided.
fn settle(gate: Option<Gatekeeper<'_>>, core: &Core) {
    if let Some(gate) = gate {
        gate.settle(core);
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::sync::mpsc;

    use super::super::core::SOON;
    use super::*;
    use crate::{Executor, ManualClock, Steered};

    /// A pool with some thousand tasks, the last of which is due first, then. They came while its worker was busy: one that waits
    /// may have looked at some of them before, and come to wait for less than the last.
    fn crowd(clock: &ManualClock, first: Duration) -> Executor {
        const MANY: u32 = 10_007;
        let executor = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        let busy = executor.submit(move || released.recv().unwrap()).unwrap();
        // Not in order: what is would need no bringing near.
        let later = (0..MANY).map(|at| Duration::from_millis(1) * (at * 7_919 % MANY + 1));
        for delay in later.chain([Duration::ZERO]) {
            drop(executor.schedule(first + delay, || ()).unwrap());
        }
        release.send(()).unwrap();
        busy.join().unwrap();
        clock.wait_until_idle();
        executor
    }

    fn is_left_far(executor: &Executor) -> bool {
        executor.pool().core.lock().queue.can_tend_ahead()
    }

    #[test]
    fn what_is_due_soon_is_brought_near_at_once() {
        let clock = ManualClock::new();
        let executor = crowd(&clock, SOON);
        assert!(!is_left_far(&executor));
        assert_eq!(clock.advance_to_next(), Some(SOON));
        executor.shutdown_now();
    }

    #[test]
    fn what_is_due_later_is_brought_near_shortly_before_it_is_due() {
        let (clock, hour) = (ManualClock::new(), Duration::from_secs(3_600));
        let executor = crowd(&clock, hour);
        assert!(is_left_far(&executor));
        assert_eq!(clock.advance_to_next(), Some(hour - SOON));
        assert!(!is_left_far(&executor));
        assert_eq!(executor.stats().completed, 1, "nothing is early");
        assert_eq!(clock.advance_to_next(), Some(SOON));
        assert_eq!(executor.stats().completed, 2);
        executor.shutdown_now();
    }

    #[test]
    fn nobody_wakes_for_paused_tasks_which_wait_for_the_end_of_time() {
        const MANY: usize = 10_007;
        let clock = ManualClock::new();
        let executor = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
        let second = Duration::from_secs(1);
        let handles: Vec<_> = (0..MANY).map(|_| executor.schedule(second, || ()).unwrap()).collect();
        (0..MANY).for_each(|at| assert_eq!(handles[at * 7_919 % MANY].pause(), Steered::Now));
        // It looks round, and finds nothing else.
        drop(executor.submit(|| ()).unwrap());
        clock.advance(second);
        assert!(is_left_far(&executor));
        assert_eq!(clock.advance_to_next(), None);
        executor.shutdown_now();
    }

    /// A worker in this thread, in the place of one that waits.
    fn worker(pool: &Arc<Pool>) -> Worker<'_> {
        Worker {
            pool,
            index: 0,
            parker: Parker::current(),
            tally: pool.tally_of(0),
            newborn: false,
            known: Tick::ZERO,
            times_every_run: false,
            brisk: false,
            spell: Spell::new(),
            is_spare: true,
            struck_out: Cell::new(None),
        }
    }

    /// Whoever puts a task back wakes nobody, because it is about to look itself.
    #[test]
    fn a_worker_that_is_counted_on_does_not_stand_aside() {
        let clock = ManualClock::new();
        let executor = Executor::builder().core_threads(2).clock(clock.clone()).build().unwrap();
        executor.prestart_all_core_threads();
        clock.wait_until_idle();
        drop(executor.schedule(Duration::from_secs(1), || ()).unwrap());
        let pool = executor.pool();
        let mut worker = worker(pool);
        let queued = pool.core.lock().queue.pop().expect("the task").value;
        let (half, noted) = queued.halve();
        worker.struck_out.set(Some(noted));
        assert!(!worker.may_stand_aside());
        let noted = worker.struck_out.take().expect("it is still there");
        drop(half.join(noted));
        worker.is_spare = false;
        assert!(!worker.may_stand_aside(), "nor where another would be started in its place");
        worker.is_spare = true;
        assert!(worker.may_stand_aside());
        executor.shutdown_now();
    }
    /// What it has run may have left something to be dropped, which is not to wait for others to fall behind.
    #[test]
    fn a_worker_that_stands_aside_has_nothing_in_hand() {
        struct Told(mpsc::Sender<bool>, Arc<Pool>);

        impl Drop for Told {
            fn drop(&mut self) {
                // One of two is about to stand aside, so the other may not; when it is back it might.
                self.0.send(self.1.aside.may_stand()).unwrap();
            }
        }

        let clock = ManualClock::new();
        let executor = Executor::builder().core_threads(2).clock(clock.clone()).build().unwrap();
        executor.prestart_all_core_threads();
        clock.wait_until_idle();
        let pool = executor.pool();
        let ((tell, told), value) = (mpsc::channel(), Arc::clone(pool));
        let handle = executor.schedule(Duration::from_secs(1), move || Told(tell, value)).unwrap();
        let mut worker = worker(pool);
        let fired = pool.core.lock().queue.pop().expect("the task");
        let Taken { task, turn, .. } = pool.core.ready().note(0, &worker.tally, fired);
        worker.run(&task, turn, Tick::ZERO);
        drop(handle);
        let mut last = Some(task);
        for _ in 0..9 {
            (0..64).for_each(|_| {
                pool.core.ready().count_taken();
                pool.core.ready().count_taken();
                let begun = worker.spell.begin(&clock, || true);
                worker.spell.end(begun, &clock);
            });
            worker.leave_if_one_too_many(&mut last);
        }
        assert!(last.is_none());
        assert_eq!(told.try_recv(), Ok(false));
        assert!(pool.aside.may_stand(), "it is back");
        executor.shutdown_now();
    }
}
