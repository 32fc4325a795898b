//! Runs of one task that may overlap.
//!
//! The task in the queue is then only the beat: at each point it submits a run, a task of its own that calls the same
//! body, and is queued again. The series counts the runs that are going on; at a point where there are as many as
//! may be, the beat is put off to the next ([`Series::fire`]).
//!
//! Runs that are futures overlap on however few threads, and are otherwise no different: see [`async_run`].
//!
//! A run that the pool refuses, because it is full or shut down, is made by the beat itself: nothing that was
//! accepted is lost. What a run comes to is learnt by a waker among those that wait for its end.
//!
//! # The end
//! When the beat has submitted the last run, or is to end for want of a place or a point, it is *closing* as long as
//! runs go on: not queued any more, and not over. Whoever ends the last of these completes it, with the outcome of the
//! one that began last. So the handle has the outcome of its last run as that of any other series has, and cancels what
//! goes on until then. Whether any goes on is seen, and `closing` set, under the series' lock, under which runs leave:
//! somebody completes the beat, and only once.

use std::future::Future;
use std::mem;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Wake, Waker};

use punctual_engine::{RunTimes, Tick};

use super::{After, Beat, Hold, Report, Reporting, Rules, Series};
use crate::error::{Abandoned, TaskError};
use crate::future::{Futures, Single, Wakes};
use crate::pool::{Offer, Pool};
use crate::task::{Body, Owner, TaskRef, Traits, Turn, TypedRef, allocate};
use crate::unrun::UnrunTask;

/// The beat of runs that may overlap.
pub(crate) struct Sharing<F> {
    body: Arc<F>,
    series: Hold,
    name: Option<Arc<str>>,
    pool: Weak<Pool>,
    new_run: NewRun<F>,
    /// The task that this is the body of, and goes with when it ends. Set before that is queued.
    beat: Arc<OnceLock<TypedRef<()>>>,
}

/// Makes a run, a task with a series of its own.
pub(crate) type NewRun<F> = fn(&Arc<Pool>, Traits, &Arc<Series>, Arc<F>) -> TaskRef;

/// A run that is a call.
pub(crate) fn sync_run<F, R>(_: &Arc<Pool>, traits: Traits, own: &Arc<Series>, body: Arc<F>) -> TaskRef
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Report + 'static,
{
    allocate(traits, Reporting::<_, Beat>::new(move || body(), Arc::clone(own))).1
}

/// A run that is a future, which the body makes.
pub(crate) fn async_run<M, F>(pool: &Arc<Pool>, traits: Traits, own: &Arc<Series>, make: Arc<M>) -> TaskRef
where
    M: Fn() -> F + Send + Sync + 'static,
    F: Future + Send + 'static,
    F::Output: Report + 'static,
{
    let wakes = Wakes::new(pool);
    let traits = Traits { wakes: Some(Arc::clone(&wakes)), ..traits };
    let source = Single(Some(move || make()));
    let body = Futures::<_, F, Beat>::new(Arc::clone(&wakes), Some(Arc::clone(own)), source);
    let (_, run) = allocate(traits, body);
    wakes.attach(run.clone());
    run
}

impl<F> Sharing<F> {
    pub(crate) fn new(
        body: F,
        series: Arc<Series>,
        name: Option<Arc<str>>,
        pool: &Arc<Pool>,
        new_run: NewRun<F>,
    ) -> Self {
        let (body, series, pool) = (Arc::new(body), Hold::new(series), Arc::downgrade(pool));
        Self { body, series, name, pool, new_run, beat: Arc::default() }
    }

    /// The beat as a task.
    pub(crate) fn allocate(self, traits: Traits) -> (Owner<(), Self>, TaskRef)
    where
        F: Send + Sync + 'static,
    {
        let beat = Arc::clone(&self.beat);
        let (cell, task) = allocate(traits, self);
        let _ = beat.set(cell.typed());
        (cell, task)
    }

    /// The body of a beat that never began.
    pub(crate) fn into_body(self) -> F {
        Arc::into_inner(self.body).expect("a task that was refused has no runs")
    }
}

impl<F: Send + Sync> Body<()> for Sharing<F> {
    fn call(this: &mut Option<Self>) -> Option<()> {
        let this = this.as_mut()?;
        if let (Some(pool), Some(beat)) = (this.pool.upgrade(), this.beat.get()) {
            this.begin_run(&pool, beat);
        }
        Some(())
    }
}

impl<F> Sharing<F> {
    fn begin_run(&self, pool: &Arc<Pool>, beat: &TypedRef<()>) {
        let rules = Rules { timeout: self.series.rules().timeout, ..Rules::default() };
        let own = Arc::new(Series::new(rules, None));
        let traits = Traits {
            name: self.name.clone(),
            series: Some(Arc::clone(&own)),
            priority: beat.header().priority(),
            ..Traits::default()
        };
        let run = (self.new_run)(pool, traits, &own, Arc::clone(&self.body));
        let now = pool.clock.now();
        // The deadline of one that was triggered lies ahead, and is another's.
        let deadline = beat.header().deadline().min(now);
        own.moved_to(deadline);
        own.inherit_missed(self.series.missed());
        let end = Arc::new(End {
            series: Arc::clone(&self.series),
            own,
            beat: beat.clone(),
            run: run.address(),
            number: beat.header().runs(),
            deadline,
            began: now,
            pool: Arc::downgrade(pool),
        });
        self.series.run_begins(run.clone());
        run.listen(&Waker::from(end));
        if beat.state().is_done() {
            // Whoever has ended the beat meanwhile may not have seen this run.
            pool.end(&*run, TaskError::Cancelled);
            return pool.discard(run);
        }
        let id = pool.core.lock().next_id();
        run.header().set_place(Turn { deadline, id });
        run.header().learn();
        let mut offer = Offer::new(deadline, now, Some(id));
        if let Err((run, _)) = pool.submit(run, &mut offer) {
            UnrunTask::new(run, offer.turn(), pool, Abandoned::Rejected).run();
        }
    }
}

/// Waits for the end of a run. It refers to the beat and, by way of the series, to the run; the run has it among those
/// that wait. The circle is broken where the run ends, as every task does.
struct End {
    series: Arc<Series>,
    own: Arc<Series>,
    beat: TypedRef<()>,
    /// The address of the run, by which the series finds it.
    run: usize,
    /// Which run of the beat it is.
    number: u64,
    deadline: Tick,
    began: Tick,
    pool: Weak<Pool>,
}

impl Wake for End {
    fn wake(self: Arc<Self>) {
        let run = self.series.going().into_iter().find(|run| run.address() == self.run);
        let failure = run.as_ref().and_then(|run| run.failure()).or_else(|| self.own.noted());
        let times = self.times(failure.as_ref());
        if let Some(error) = self.series.run_ended(times, self.number, failure) {
            self.fail(error);
        }
    }
}

impl End {
    /// When the run began and ended; `None` if it was never made.
    fn times(&self, failure: Option<&TaskError>) -> Option<RunTimes> {
        let unmade = matches!(failure, Some(TaskError::Cancelled | TaskError::Abandoned(_)));
        self.own.last_times().or_else(|| {
            // Nobody has judged a future that was ready when the beat first polled it.
            let ended = self.pool.upgrade().map_or(self.began, |pool| pool.clock.now());
            let times = RunTimes { deadline: self.deadline, started: self.began, ended };
            (!unmade).then_some(times)
        })
    }

    fn fail(&self, error: TaskError) {
        match self.pool.upgrade() {
            Some(pool) => pool.fail(self.beat.as_task(), error),
            // The pool has gone with a run in its queue; nobody else has the beat.
            None => drop(self.beat.end(error, &mut |_| ())),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        match self.series.run_over(self.run) {
            None => {}
            Some(Some(error)) => self.fail(error),
            // Somebody may have ended it before.
            Some(None) => drop(self.beat.complete(Ok(()))),
        }
        // There is a place now, which a trigger may have waited for.
        if let Some(pool) = self.pool.upgrade().filter(|_| self.beat.header().is_triggered()) {
            pool.make_room(self.beat.as_task());
        }
    }
}

impl Series {
    /// How many runs may go on at once, if more than one.
    fn lanes(&self) -> Option<usize> {
        match self.rules.overlap {
            crate::policy::Overlap::Allow(lanes) if lanes > 1 => Some(lanes),
            _ => None,
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.lanes().is_some()
    }

    /// Whether as many runs are going on as may. To be asked under the pool's lock, with the queueing.
    pub(crate) fn has_no_place(&self) -> bool {
        self.is_shared() && self.is_full(&self.state.lock().going)
    }

    /// Whether as many runs are going on as may.
    pub(super) fn is_full(&self, going: &[TaskRef]) -> bool {
        self.lanes().is_some_and(|lanes| going.len() >= lanes)
    }

    /// What was left out before a run that is about to be submitted, or made here.
    fn inherit_missed(&self, points: u64) {
        let mut state = self.state.lock();
        (state.skipped, state.missed) = (points, points);
    }

    fn run_begins(&self, run: TaskRef) {
        self.state.lock().going.push(run);
    }

    /// A run is out of the way. If it was the last of all, what the series ends with: its failure, or none.
    fn run_over(&self, address: usize) -> Option<Option<TaskError>> {
        let mut state = self.state.lock();
        let going = mem::take(&mut state.going).into_iter();
        let (over, going) = going.partition::<Vec<_>, _>(|run| run.address() == address);
        state.going = going;
        let ends = (state.closing && state.going.is_empty()).then(|| state.latest.1.clone());
        drop(state);
        drop(over);
        ends
    }

    /// No other run will begin: says whether one goes on, which is to end the series then.
    pub(super) fn begins_to_close(&self) -> bool {
        let mut state = self.state.lock();
        state.closing = !state.going.is_empty();
        state.closing
    }

    /// The last run has begun: says whether the series is over, or what is to end it goes on.
    pub(super) fn close(&self) -> After {
        if self.begins_to_close() {
            return After::Linger;
        }
        let failure = self.state.lock().latest.1.clone();
        failure.map_or(After::Done, After::Fail)
    }

    /// Notes what a run came to; the error if the series is to end with it.
    fn run_ended(
        &self,
        times: Option<RunTimes>,
        number: u64,
        failure: Option<TaskError>,
    ) -> Option<TaskError> {
        let outcome = (number, failure.clone());
        let earlier = {
            let mut state = self.state.lock();
            if number < state.latest.0 { outcome } else { mem::replace(&mut state.latest, outcome) }
        };
        drop(earlier);
        let times = times?;
        let stop = {
            let mut state = self.state.lock();
            let forgotten = state.history.note(times, number, failure.as_ref());
            let in_a_row = state.history.in_a_row;
            let recovery = failure.as_ref().map(|_| self.rules.on_failure.recover(in_a_row, &mut state.dice));
            drop(state);
            drop(forgotten);
            recovery == Some(super::Recovery::Stop)
        };
        failure.filter(|_| stop)
    }

    /// The runs that are going on besides the task itself.
    pub(crate) fn going(&self) -> Vec<TaskRef> {
        self.state.lock().going.clone()
    }

    fn last_times(&self) -> Option<RunTimes> {
        self.state.lock().history.last.as_ref().map(|last| last.times)
    }
}
