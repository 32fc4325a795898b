//! A run of a task that has a [`Series`].

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use punctual_engine::{RunTimes, Tick};

use super::TaskRef;
use super::worker::Worker;
use crate::error::TaskError;
use crate::future::Began;
use crate::observe::Place;
use crate::series::{After, Due, Fire, Now, Series, Watch};
use crate::task::{Ended, Run, TaskState, Turn, Verdict};
use crate::unwind;

impl Worker<'_> {
    /// Asks the series, runs the task if it says so, and queues it for what the series says next.
    #[cold]
    pub(super) fn run_series(&self, task: &TaskRef, series: &Arc<Series>) {
        let (pool, header) = (self.pool, task.header());
        let now = series.now(&*pool.clock);
        if let Some(began) = header.wakes().and_then(|wakes| wakes.under_way()) {
            return self.perform(task, series, began, now, series.watch_on(task));
        }
        // A trigger waits for a place as long as there is none; whoever makes one sees to it.
        let triggered = !header.is_full() && header.set_triggered(false);
        // The only run of a task is not besides those that are planned: it is the one, only sooner.
        let extra = triggered && header.schedule().is_periodic();
        let fire = match triggered {
            true => Ok(series.begin_extra(header.deadline())),
            false => unwind::catch(|| series.fire(header.deadline(), now)),
        };
        match fire {
            Ok(Fire::Run(planned)) => match self.begin(task, planned, triggered) {
                true => self.run_planned(task, series, now, extra),
                false => self.put_off(task, Due::at(planned), now.tick),
            },
            Ok(Fire::Later(due)) => self.put_off(task, due, now.tick),
            Ok(Fire::Linger) => {
                self.tally.skip();
                self.strike_out(&mut pool.core.lock());
            }
            Ok(Fire::End(error)) => self.give_up(task, error),
            Err(panic) => self.give_up(task, TaskError::Panicked(panic)),
        }
    }

    /// A run is about to begin, perhaps for another point than it was queued for; false if it is not to begin: a task
    /// that runs once may have been moved, or paused, since it was taken. One that was triggered is run for all that: the
    /// trigger is used up.
    fn begin(&self, task: &TaskRef, planned: Tick, triggered: bool) -> bool {
        let header = task.header();
        let (once, elsewhere) = (!header.schedule().is_periodic(), planned != header.deadline());
        if !once && !elsewhere {
            return true;
        }
        let core = self.pool.core.lock();
        if once {
            if !triggered && (header.is_moved() || header.is_paused()) {
                return false;
            }
            header.set_begun(true);
        }
        if !header.is_moved() {
            header.set_deadline(planned);
        }
        // What the body sees.
        core.ready.replan(self.index, planned);
        true
    }

    fn run_planned(&self, task: &TaskRef, series: &Arc<Series>, started: Now, extra: bool) {
        // Read now: whoever reschedules the task while it runs writes the next deadline over it.
        let began = Began { deadline: task.header().deadline(), started: started.tick, extra };
        self.perform(task, series, began, started, series.watch(self.pool, task, started));
    }

    /// Calls the body, or polls it at `now` in a run that `began` then, or before.
    fn perform(&self, task: &TaskRef, series: &Arc<Series>, began: Began, now: Now, watch: Watch<'_>) {
        let (pool, header) = (self.pool, task.header());
        let (next, lingers) = (RefCell::new(None), Cell::new(false));
        let judge = |thrown: Option<&TaskError>| {
            let Began { deadline, started, extra } = began;
            let now = series.now(&*pool.clock);
            let times = RunTimes { deadline, started, ended: now.tick };
            if let Some(wakes) = header.wakes() {
                wakes.set_began(None);
            }
            match series.after(times, header.runs(), thrown, extra, now) {
                After::Again(due) => {
                    next.replace(Some((due, now.tick)));
                    Verdict::Again
                }
                After::Linger => {
                    lingers.set(true);
                    Verdict::Again
                }
                After::Done => Verdict::Over,
                After::Fail(error) => Verdict::Fail(error),
            }
        };
        let (observer, count) = (pool.observer.as_deref(), &|| self.tally.finish());
        // A poll has a deadline of its own, when it was woken.
        let deadline = if header.is_under_way() { header.deadline() } else { began.deadline };
        let turn = Turn { deadline, id: header.id() };
        let (reporter, started) = (Some(&pool.reporter), now.tick);
        let run = Run { observer, reporter, turn, started, again: false, count, judge: Some(&judge) };
        self.record_lateness(task, turn, started);
        match (task.perform(&run), next.take()) {
            (Ended::Again, Some((due, now))) => {
                drop(watch);
                header.set_begun(false);
                self.requeue(task, due, now);
            }
            (Ended::Again, None) if lingers.get() => {
                drop(watch);
                self.tally.finish();
                self.strike_out(&mut pool.core.lock());
            }
            (Ended::Again, None) => {
                if let Some(wakes) = header.wakes() {
                    wakes.set_began(Some(began));
                }
                watch.keep();
                self.requeue(task, Due::at(Tick::MAX), now.tick);
            }
            (Ended::Skipped, _) => self.tally.skip(),
            (Ended::Finished | Ended::Late, _) => {}
        }
    }

    /// Back to the queue, unrun.
    fn put_off(&self, task: &TaskRef, due: Due, now: Tick) {
        self.tally.skip();
        let mut core = self.pool.core.lock();
        self.strike_out(&mut core);
        let allowed = core.may_wait(task.header(), false);
        let waits = task.state() == TaskState::Waiting;
        if allowed && waits {
            let number = core.number_for(task.header());
            core.link(task.clone(), number, due, now);
        }
        drop(core);
        if !allowed {
            self.pool.end(&**task, TaskError::Cancelled);
        }
    }

    fn give_up(&self, task: &TaskRef, error: TaskError) {
        self.tally.skip();
        self.pool.end(&**task, error);
        self.pool.contain(Place::Destructor, task.clear());
    }
}
