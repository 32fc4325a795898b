//! What comes between a call and its effect: another call, a run, a shutdown, a step of the clock.
//!
//! The other is let in where user code is called: by a calendar, a clock, a destructor.

use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use punctual::{
    Clock, Executor, Keep, Leftover, ManualClock, Overlap, Parker, Scheduler, Spawner, Steered, TaskRemote,
    Tick, WorkerThread,
};

use crate::bodies::{SECOND, at, seconds};
use crate::support::{Gate, HOUR, Log, Probe, block_worker, finish, look_round, manual};

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A calendar, every hundred seconds, during whose next answer a call is made.
#[derive(Clone, Default)]
struct Interrupted(Arc<Mutex<Option<Call>>>);

type Call = Box<dyn FnOnce() + Send>;

impl Interrupted {
    fn by(&self, call: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(call));
    }

    fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
        let call = self.0.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
        let passed = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() / 100;
        Some(wall((passed + 1) * 100))
    }
}

#[test]
fn a_task_that_is_rescheduled_while_it_is_being_resumed_runs_at_that_time() {
    let (pool, clock) = manual(1);
    let (log, calendar) = (Log::new(), Interrupted::default());
    let (seen, time, asked) = (log.clone(), clock.clone(), calendar.clone());
    let body = move || seen.add(seconds(time.now()));
    let task = pool.task(body).name("own").calendar(move |after| asked.next_after(after)).start().unwrap();
    assert_eq!(task.pause(), Steered::Now);
    clock.advance(150 * SECOND);
    let remote: TaskRemote = pool.find("own").unwrap();
    calendar.by(move || assert_eq!(remote.reschedule(at(170)), Steered::Now));
    assert_eq!(task.resume(), Steered::Now);
    clock.advance(100 * SECOND);
    assert_eq!(log.entries(), [170, 200]);
    finish(&pool);
}

/// It is about the run that is going on, which is not missed.
#[test]
fn a_task_that_is_paused_and_resumed_while_it_runs_leaves_no_point_out() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time, inner) = (log.clone(), clock.clone(), pool.scheduler());
    let body = move || {
        seen.add(seconds(time.now()));
        time.jump(5 * SECOND);
        let own = inner.find("own").unwrap();
        assert_eq!((own.pause(), own.resume()), (Steered::AfterRun, Steered::AfterRun));
    };
    let task = pool.task(body).name("own").after(10 * SECOND).every(10 * SECOND).start().unwrap();
    clock.advance(10 * SECOND);
    clock.advance(15 * SECOND);
    assert_eq!((log.entries(), task.info().missed()), (vec![10, 20, 30], 0));
    finish(&pool);
}

#[test]
fn a_trigger_waits_for_a_place_among_runs_that_overlap() {
    let (pool, clock) = manual(1);
    let log = Log::new();
    let (seen, time, timers) = (log.clone(), clock.clone(), pool.scheduler());
    let make = move || {
        seen.add(seconds(time.now()));
        timers.sleep(25 * SECOND)
    };
    let builder = pool.task_async(make).after(10 * SECOND).every(100 * SECOND).overlap(Overlap::Allow(2));
    let task = builder.start_shared().unwrap();
    clock.advance(10 * SECOND);
    assert_eq!(task.trigger_now(), Steered::Now);
    clock.advance(10 * SECOND);
    assert_eq!((task.trigger_now(), task.trigger_now()), (Steered::Now, Steered::Already));
    clock.advance(10 * SECOND);
    assert_eq!((log.entries(), task.deadline()), (vec![10, 10], at(110)));
    // The first two end at 35.
    clock.advance(100 * SECOND);
    assert_eq!((log.entries(), task.info().missed()), (vec![10, 10, 35, 110], 0));
    finish(&pool);
}

#[test]
fn a_due_task_cannot_be_moved_ahead_of_a_shutdown_that_cancels_what_is_delayed() {
    let (pool, _clock) = manual(1);
    pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
    let gate = Gate::new();
    block_worker(&pool, &gate);
    let due = pool.submit(|| 7).unwrap();
    pool.shutdown();
    assert_eq!(due.reschedule(HOUR), Steered::Over);
    assert_eq!(due.reschedule(Duration::ZERO), Steered::Now);
    gate.open();
    assert_eq!(due.join().unwrap(), 7);
    assert!(pool.await_termination(Duration::MAX));
}

#[test]
fn it_is_too_late_to_steer_a_run_that_none_can_follow() {
    let (pool, _clock) = manual(1);
    let too_late = |remote: TaskRemote| {
        assert_eq!([remote.trigger_now(), remote.reschedule(HOUR), remote.pause()], [Steered::TooLate; 3]);
    };
    // The only run, the last one, and one that a shutdown lets go to its end.
    for kind in ["only", "on the wall", "last", "shut down"] {
        let gate = Gate::new();
        let inner = gate.clone();
        let body = move || inner.pass();
        let handle = match kind {
            "only" => pool.task(body).name(kind).timeout(HOUR).start(),
            "on the wall" => pool.task(body).name(kind).first(wall(0)).start(),
            "last" => pool.task(body).name(kind).every(SECOND).at_most(1).start(),
            _ => pool.task(body).name(kind).every(SECOND).start(),
        };
        let handle = handle.unwrap_or_else(|_| unreachable!());
        gate.await_arrivals(1);
        if kind == "shut down" {
            pool.shutdown();
        }
        too_late(handle.remote());
        gate.open();
        assert!(handle.wait().is_ok());
    }
    assert!(pool.await_termination(Duration::MAX));
}

/// It may be run by hand, and go back to its executor then; until it is there nobody heeds what is asked of it.
#[test]
fn a_future_that_was_removed_under_way_cannot_be_steered() {
    let (pool, clock) = manual(1);
    let timers = pool.scheduler();
    let task = pool.task_async(move || timers.sleep(10 * SECOND)).every(60 * SECOND).start().unwrap();
    clock.wait_until_idle();
    assert_eq!(task.pause(), Steered::AfterRun);
    assert_eq!(task.resume(), Steered::AfterRun);
    let removed = task.remove().unwrap();
    assert_eq!([task.trigger_now(), task.reschedule(SECOND), task.pause()], [Steered::Over; 3]);
    assert!(removed.run());
    assert_eq!(task.trigger_now(), Steered::AfterRun);
    finish(&pool);
}

/// A clock whose wall can be held while somebody reads it, or set between two readings.
#[derive(Clone, Debug, Default)]
struct WallClock {
    clock: ManualClock,
    next: Arc<Mutex<Next>>,
}

/// What the next reading of the wall does.
#[derive(Debug, Default)]
enum Next {
    #[default]
    Nothing,
    /// The one after it waits.
    ThenWait(mpsc::Sender<()>, mpsc::Receiver<()>),
    Wait(mpsc::Sender<()>, mpsc::Receiver<()>),
    /// Sets the clock after it has been read.
    Set(SystemTime),
}

impl Clock for WallClock {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        let shown = self.clock.wall();
        let mut plan = self.next.lock().unwrap();
        let next = std::mem::take(&mut *plan);
        match next {
            Next::Nothing => {}
            Next::ThenWait(there, go_on) => *plan = Next::Wait(there, go_on),
            Next::Wait(there, go_on) => {
                drop(plan);
                there.send(()).unwrap();
                go_on.recv().unwrap();
            }
            Next::Set(wall) => self.clock.set_wall(wall),
        }
        shown
    }

    fn wait(&self, parker: &Arc<Parker>, until: Option<Tick>) {
        self.clock.wait(parker, until);
    }

    fn worker_started(&self) {
        self.clock.worker_started();
    }

    fn worker_entered(&self, parker: &Arc<Parker>) {
        self.clock.worker_entered(parker);
    }

    fn worker_stopped(&self, parker: Option<&Arc<Parker>>) {
        self.clock.worker_stopped(parker);
    }
}

fn on_wall_clock() -> (Executor, WallClock) {
    let clock = WallClock::default();
    (Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap(), clock)
}

/// A worker that has taken it looks at the wall first. Whatever is asked of the task by then is heeded.
#[test]
fn a_single_run_is_moved_as_long_as_it_has_not_begun() {
    for pauses in [true, false] {
        let (pool, clock) = on_wall_clock();
        let task = pool.task(|| 7).first(wall(30)).start().unwrap();
        clock.clock.advance(29 * SECOND);
        let ((there, arrived), (release, go_on)) = (mpsc::channel(), mpsc::channel());
        // Whoever wakes compares the clocks before it takes anything.
        *clock.next.lock().unwrap() = Next::ThenWait(there, go_on);
        clock.clock.jump(SECOND);
        arrived.recv().unwrap();
        let asked = if pauses { task.pause() } else { task.reschedule(at(90)) };
        assert_eq!(asked, Steered::AfterRun);
        release.send(()).unwrap();
        clock.clock.advance(59 * SECOND);
        assert!(!task.is_done());
        assert_eq!(task.resume(), if pauses { Steered::Now } else { Steered::Already });
        clock.clock.advance(SECOND);
        assert_eq!(task.join().unwrap(), 7);
        finish(&pool);
    }
}

#[test]
fn a_wall_clock_that_is_set_while_a_task_is_being_submitted_is_followed_at_the_next_wake() {
    let (pool, clock) = on_wall_clock();
    look_round(&pool, &clock.clock);
    *clock.next.lock().unwrap() = Next::Set(wall(1000));
    let task = pool.task(|| 7).first(wall(500)).start().unwrap();
    look_round(&pool, &clock.clock);
    assert_eq!(task.join_timeout(Duration::ZERO).unwrap(), 7);
    finish(&pool);
}

/// Handles are kept; what the schedule captured is not.
#[test]
fn what_says_when_the_next_run_is_due_goes_with_the_task() {
    let (pool, clock) = manual(1);
    let hourly = |captured: Arc<()>| {
        move |after: SystemTime| after.checked_add(HOUR).filter(|_| Arc::strong_count(&captured) > 0)
    };
    let minutely = |captured: Arc<()>| {
        move |run: punctual::RunTimes| {
            (Arc::strong_count(&captured) > 0).then(|| run.ended.after(60 * SECOND))
        }
    };
    let probes: [_; 6] = std::array::from_fn(|_| Probe::new());
    let [a, b, c, d, e, f] = probes.each_ref().map(|(_, captured)| Arc::clone(captured));
    let handles = [
        pool.task(|| ()).calendar(hourly(a)).start().unwrap(),
        pool.task(|| ()).next_by(minutely(b)).start().unwrap(),
        pool.task_async(|| async {}).calendar(hourly(c)).start().unwrap(),
        pool.task_async(|| async {}).next_by(minutely(d)).start().unwrap(),
        pool.task(|| ()).calendar(hourly(e)).overlap(Overlap::Allow(2)).start_shared().unwrap(),
    ];
    let ended = pool.task(|| ()).next_by(minutely(f)).at_most(2).start().unwrap();
    let probes = probes.map(|(probe, captured)| {
        drop(captured);
        probe
    });
    clock.advance(60 * SECOND);
    assert!(ended.is_done() && probes[5].is_dropped());
    for (handle, probe) in handles.iter().zip(&probes) {
        assert!(!probe.is_dropped());
        assert!(handle.cancel() && probe.is_dropped());
        assert!(handle.upcoming(3).is_empty());
    }
    finish(&pool);
}

/// Says when the worker that it was given has gone for good.
struct Telling(Mutex<mpsc::Sender<()>>);

impl Spawner for Telling {
    fn spawn(&self, worker: WorkerThread) -> io::Result<Option<JoinHandle<()>>> {
        let gone = self.0.lock().unwrap().clone();
        std::thread::Builder::new()
            .spawn(move || {
                worker.run();
                let _ = gone.send(());
            })
            .map(Some)
    }
}

/// Whoever sees the executor terminated sees the bodies of its tasks dropped.
#[test]
fn an_executor_is_not_over_before_the_body_of_a_cancelled_task_is_dropped() {
    struct Dropped(Scheduler, mpsc::Receiver<()>, mpsc::Sender<bool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            // There is nothing left to do for the only worker.
            self.1.recv().unwrap();
            let refused = self.0.clone().close().is_err();
            self.2.send(refused && !self.0.is_terminated()).unwrap();
        }
    }
    let (gone, worker_gone) = mpsc::channel();
    let builder = Executor::builder().core_threads(1).clock(ManualClock::new());
    let pool = builder.spawner(Telling(Mutex::new(gone))).build().unwrap();
    let (say, said) = mpsc::channel();
    let captured = Dropped(pool.scheduler(), worker_gone, say);
    let task = pool.schedule(HOUR, move || drop(captured)).unwrap();
    pool.shutdown();
    assert!(task.cancel());
    assert!(said.recv().unwrap());
    assert!(pool.await_termination(Duration::MAX));
}
