//! Tasks with nothing to be dropped, which are known, far from being due, by a mark apart from them: whatever is done to them,
//! they behave like all others. So one random program is run with each kind, and what can be seen is compared.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use punctual::{
    Executor, Keep, Leftover, ManualClock, OnCancel, QueuedTask, Rejection, TaskHandle, UnrunTask,
};

use crate::support::{HOUR, finish, manual};

const SECOND: Duration = Duration::from_secs(1);

/// What has happened, in order.
type Trace = Mutex<Vec<String>>;

/// A pool, its handles, and what came back from it.
struct Side {
    pool: Executor,
    clock: ManualClock,
    handles: Vec<TaskHandle<u32>>,
    unrun: Arc<Mutex<Vec<UnrunTask>>>,
    looks_seldom: bool,
}

impl Side {
    fn new(settings: usize, looks_seldom: bool) -> Self {
        let (clock, unrun) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
        let builder = Executor::builder().core_threads(1).clock(clock.clone());
        let refused = Arc::clone(&unrun);
        let builder = match settings {
            0 => builder,
            1 => builder.on_cancel(OnCancel::KeepUntilDue),
            2 => builder.capacity(20),
            _ => builder
                .capacity(12)
                .rejection(Rejection::custom(move |task, _, _| refused.lock().unwrap().push(task))),
        };
        Self { pool: builder.build().unwrap(), clock, handles: Vec::new(), unrun, looks_seldom }
    }

    /// The same with every kind of task but for what it captures.
    fn schedule(&mut self, delay: Duration, n: u32, is_weightless: bool, trace: &'static Trace) -> String {
        let body = move || {
            trace.lock().unwrap().push(format!("{n} runs"));
            n
        };
        let weight = Arc::new(());
        let handle = if is_weightless {
            self.pool.schedule(delay, body).map_err(|rejected| rejected.reason())
        } else {
            self.pool.schedule(delay, move || (body(), weight).0).map_err(|rejected| rejected.reason())
        };
        match handle {
            Ok(handle) => {
                self.handles.push(handle);
                "accepted".into()
            }
            Err(reason) => format!("{reason:?}"),
        }
    }

    fn handle(&self, random: &mut Rng) -> Option<&TaskHandle<u32>> {
        (!self.handles.is_empty()).then(|| &self.handles[random.usize(..self.handles.len())])
    }

    /// Something random, and what came of it.
    fn act(&mut self, random: &mut Rng, n: u32, is_weightless: bool, trace: &'static Trace) -> String {
        fn say(what: impl Debug) -> String {
            format!("{what:?}")
        }
        let act = match random.u32(..40) {
            // Whoever looks has what was cancelled taken out; some look seldom.
            12..17 if self.looks_seldom && random.u8(..16) > 0 => 19,
            act => act,
        };
        match act {
            0..12 => {
                let delay = [SECOND / 2, SECOND, SECOND * random.u32(1..20)][random.usize(..3)];
                return self.schedule(delay, n, is_weightless, trace);
            }
            12 => self.clock.advance(random.u32(..3000) * Duration::from_millis(1)),
            13 => return say(self.pool.purge()),
            14 => return say(self.pool.stats()),
            15 => return say(self.pool.queue().iter().map(QueuedTask::id).collect::<Vec<_>>()),
            16 => {
                let (settings, at) =
                    ([OnCancel::Remove, OnCancel::Remove, OnCancel::KeepUntilDue], random.usize(..3));
                self.pool.set_on_cancel(settings[at]);
            }
            17 if !self.handles.is_empty() => {
                let handle = self.handles.swap_remove(random.usize(..self.handles.len()));
                if random.bool() {
                    drop(handle.cancel_on_drop());
                }
            }
            18 => {
                let task = self.unrun.lock().unwrap().pop();
                return task.map_or_else(String::new, |task| match random.u8(..3) {
                    0 => say((task.id(), task.run())),
                    1 => say((task.id(), task.cancel())),
                    _ => say((task.id(), task.remaining())),
                });
            }
            _ => {}
        }
        let Some(handle) = self.handle(random) else { return String::new() };
        match act {
            19..28 => say(handle.cancel()),
            28 => say((handle.cancel(), handle.cancel(), handle.state())),
            29 => say((handle.id(), handle.deadline(), handle.remaining())),
            30 => say((handle.interrupt(), handle.failure())),
            31 => say((
                handle.state(),
                handle.is_done(),
                handle.is_cancelled(),
                handle.is_queued(),
                handle.runs(),
            )),
            32 => say((handle.try_join(), handle.wait_timeout(Duration::ZERO))),
            33 => say((handle.pause(), handle.state())),
            34 => say(handle.resume()),
            35 => say(handle.reschedule(SECOND * random.u32(..20))),
            36 => say(handle.trigger_now()),
            37 => {
                let task = handle.remove();
                let id = task.as_ref().map(UnrunTask::id);
                self.unrun.lock().unwrap().extend(task);
                say(id)
            }
            38 => {
                let remote = handle.remote();
                say((remote.state(), remote.cancel(), remote.info()))
            }
            39 => {
                let mut handle = self.handles.swap_remove(random.usize(..self.handles.len()));
                let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
                let said = say(&polled);
                if polled.is_pending() {
                    self.handles.push(handle);
                }
                said
            }
            _ => String::new(),
        }
    }

    fn end(self, way: usize) -> String {
        self.pool.set_after_shutdown(Leftover::Delayed, if way == 0 { Keep::Run } else { Keep::Cancel });
        let left = match way {
            0 | 1 => {
                self.pool.shutdown();
                Vec::new()
            }
            2 => self.pool.shutdown_now(),
            _ => {
                self.handles.iter().for_each(|handle| _ = handle.cancel());
                Vec::new()
            }
        };
        let left: Vec<_> = left.iter().map(UnrunTask::id).collect();
        self.clock.advance(HOUR);
        let states: Vec<_> = self.handles.iter().map(TaskHandle::state).collect();
        self.unrun.lock().unwrap().clear();
        let stats = self.pool.stats();
        finish(&self.pool);
        drop(self.pool);
        // The handles are the last that know the pool.
        let cancelled: Vec<_> = self.handles.iter().map(TaskHandle::cancel).collect();
        format!("{left:?} {states:?} {stats:?} {cancelled:?}")
    }
}

/// Two pools at once, whose tasks are neighbours in memory.
fn story(seed: u64, is_weightless: bool) -> Vec<String> {
    let trace: &'static Trace = Box::leak(Box::default());
    let mut random = Rng::with_seed(seed);
    let settings = random.usize(..6).saturating_sub(2);
    let looks_seldom = random.bool();
    let mut sides = [Side::new(settings, looks_seldom), Side::new(0, looks_seldom)];
    for n in 0..400 {
        let side = &mut sides[usize::from(random.u8(..4) == 0)];
        let came_of_it = side.act(&mut random, n, is_weightless, trace);
        side.clock.wait_until_idle();
        trace.lock().unwrap().push(came_of_it);
    }
    for side in sides {
        let ended = side.end(random.usize(..4));
        trace.lock().unwrap().push(ended);
    }
    let mut trace = trace.lock().unwrap();
    std::mem::take(&mut *trace)
}

/// ST-050, ST-057: whether a task has something to be dropped changes nothing that can be seen.
#[test]
fn a_task_with_nothing_to_be_dropped_behaves_like_all_others() {
    for seed in 0..200 {
        // Each in a thread of its own: where tasks of other pools have been none goes by its mark.
        let [one, other] = [true, false]
            .map(|is_weightless| thread::spawn(move || story(seed, is_weightless)).join().unwrap());
        for (at, (one, other)) in one.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "seed {seed}, step {at}");
        }
        assert_eq!(one.len(), other.len());
    }
}

/// What waits for such a task, before it is cancelled or after, is released.
#[test]
fn whoever_waits_for_a_task_that_is_known_by_its_mark_is_released_by_its_cancel() {
    for _ in 0..50 {
        let (pool, _clock) = manual(1);
        let handle = pool.schedule(HOUR, || ()).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| drop(handle.wait()));
            assert!(handle.cancel() && !handle.cancel());
            waits.join().unwrap();
        });
        let mut handle = handle;
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled()));
        finish(&pool);
    }
}
