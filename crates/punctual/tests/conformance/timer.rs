//! The one-thread timer.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use punctual::{
    Clock, ManualClock, RejectReason, SystemClock, TaskContext, TaskHandle, TaskState, Tick, Timer,
};

use crate::support::{Counter, Gate, HOUR, Log, Probe, SHORT, STEP, eventually};

const NANO: Duration = Duration::from_nanos(1);

fn timer() -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    (Timer::with_clock("timer", clock.clone()).unwrap(), clock)
}

/// A timer whose clock shows `now`.
fn timer_at(now: Duration) -> (Timer, ManualClock) {
    let clock = ManualClock::new();
    clock.jump(now);
    (Timer::with_clock("timer", clock.clone()).unwrap(), clock)
}

fn finish(timer: &Timer) {
    timer.cancel();
    assert!(timer.await_termination(Duration::MAX));
}

fn tick(time: Duration) -> Tick {
    Tick::ZERO.after(time)
}

/// A body that records the time of the clock when it begins.
fn starts(clock: &ManualClock) -> (Log<Tick>, impl FnMut() + Send + Clone + 'static) {
    let (log, clock) = (Log::new(), clock.clone());
    let entries = log.clone();
    (log, move || entries.add(clock.now()))
}

/// A slot through which a body finds its own handle.
type Slot = Arc<Mutex<Option<TaskHandle<()>>>>;

/// TM-002: the timer's thread has the timer's name, exactly; a name that no thread can have is refused.
#[test]
fn the_thread_has_the_name_of_the_timer() {
    let timer = Timer::new("reminder").unwrap();
    let (sender, receiver) = mpsc::channel();
    let body = move || sender.send(thread::current().name().map(str::to_owned)).unwrap();
    drop(timer.schedule(Duration::ZERO, body).unwrap());
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("reminder"));
    finish(&timer);
    assert!(Timer::new("a\0b").is_err());
}

/// TM-003: a period of zero is refused and the closure comes back. A delay beyond the end of time is accepted, and
/// never comes.
#[test]
fn a_period_of_zero_is_refused() {
    let (timer, clock) = timer();
    let runs = Counter::new();
    let mut body = timer.schedule_repeating(STEP, Duration::ZERO, runs.body()).unwrap_err();
    assert_eq!(body.reason(), RejectReason::ZeroPeriod);
    body = timer.schedule_at_fixed_rate(Tick::ZERO, Duration::ZERO, body.into_task()).unwrap_err();
    assert_eq!(body.reason(), RejectReason::ZeroPeriod);
    body.into_task()();
    assert_eq!(runs.get(), 1);
    clock.jump(HOUR);
    let never = timer.schedule(Duration::MAX, runs.body()).unwrap();
    assert_eq!(never.deadline(), Tick::MAX);
    clock.advance(1000 * HOUR);
    assert_eq!(runs.get(), 1);
    finish(&timer);
}

/// TM-006: a cancelled timer refuses every form, for times that have passed and times to come, and gives the closure
/// back.
#[test]
fn a_cancelled_timer_refuses_everything() {
    let (timer, _) = timer_at(HOUR);
    timer.cancel();
    assert!(timer.is_cancelled());
    let runs = Counter::new();
    for when in [Tick::ZERO, tick(2 * HOUR)] {
        let refused = [
            timer.schedule(when, runs.body()).map_err(|rejected| rejected.reason()).unwrap_err(),
            timer
                .schedule_repeating(when, STEP, runs.body())
                .map_err(|rejected| rejected.reason())
                .unwrap_err(),
            timer
                .schedule_at_fixed_rate(when, STEP, runs.body())
                .map_err(|rejected| rejected.reason())
                .unwrap_err(),
        ];
        assert_eq!(refused, [RejectReason::ShutDown; 3]);
    }
    timer.schedule(STEP, runs.body()).unwrap_err().into_task()();
    assert!(timer.await_termination(Duration::MAX));
    assert_eq!(runs.get(), 1);
}

/// TM-007: a time that has passed means now, once.
#[test]
fn a_time_that_has_passed_means_now() {
    let (timer, clock) = timer_at(HOUR);
    let (log, body) = starts(&clock);
    let handle = timer.schedule(tick(STEP), body).unwrap();
    clock.advance(HOUR);
    assert_eq!(log.entries(), [tick(HOUR)]);
    assert_eq!((handle.state(), handle.deadline()), (TaskState::Succeeded, tick(STEP)));
    finish(&timer);
}

/// TM-008: a repeating task whose first time is long past runs once now and then a period later: nothing is caught
/// up.
#[test]
fn a_repeating_task_does_not_catch_up() {
    let (timer, clock) = timer_at(21 * STEP);
    let (log, body) = starts(&clock);
    drop(timer.schedule_repeating(Tick::ZERO, 2 * STEP, body).unwrap());
    clock.advance(2 * STEP - NANO);
    assert_eq!(log.entries(), [tick(21 * STEP)]);
    clock.advance(2 * STEP + NANO);
    assert_eq!(log.entries(), [21, 23, 25].map(|n| tick(n * STEP)));
    finish(&timer);
}

/// TM-009: a fixed-rate task whose first time is 10.5 periods past runs eleven times now and then on the grid.
#[test]
fn a_fixed_rate_task_catches_up_from_its_first_time() {
    let (timer, clock) = timer_at(21 * STEP);
    let (log, body) = starts(&clock);
    drop(timer.schedule_at_fixed_rate(Tick::ZERO, 2 * STEP, body).unwrap());
    clock.advance(STEP - NANO);
    assert_eq!(log.entries(), [tick(21 * STEP); 11]);
    clock.advance(2 * STEP + NANO);
    assert_eq!(log.entries()[11..], [22, 24].map(|n| tick(n * STEP)));
    finish(&timer);
}

/// TM-010, TM-011: the longest period is accepted: one run, no more. Inside the run the deadline is the nominal time
/// of that run, however late it is; after it, it is that of the run to come. Cancelling says true, and leaves the
/// deadline alone.
#[test]
fn the_longest_period_means_one_run() {
    for repeat in [Timer::schedule_repeating, Timer::schedule_at_fixed_rate] {
        let (timer, clock) = timer_at(HOUR);
        let nominal = Log::new();
        let inner = nominal.clone();
        let body: Box<dyn FnMut() + Send> =
            Box::new(move || inner.add(TaskContext::current().deadline().unwrap()));
        let handle = repeat(&timer, tick(STEP), Duration::MAX, body).unwrap();
        clock.advance(1000 * HOUR);
        assert_eq!((nominal.entries(), handle.runs()), (vec![tick(STEP)], 1));
        assert_eq!(handle.deadline(), Tick::MAX);
        assert!(handle.cancel());
        assert_eq!((handle.deadline(), handle.state()), (Tick::MAX, TaskState::Cancelled));
        finish(&timer);
    }
}

/// TM-011: a one-shot's deadline is its nominal time, in its run and ever after.
#[test]
fn the_deadline_of_a_run_is_its_nominal_time() {
    let (timer, clock) = timer();
    let (sender, receiver) = mpsc::channel();
    let body = move || sender.send(TaskContext::current().deadline().unwrap()).unwrap();
    let handle = timer.schedule(STEP, body).unwrap();
    clock.jump(3 * STEP);
    assert_eq!(receiver.recv().unwrap(), tick(STEP));
    handle.wait().unwrap();
    assert!(!handle.cancel());
    assert_eq!(handle.deadline(), tick(STEP));
    finish(&timer);
}

/// TM-012: the period of a repeating task counts from the start of a run: a body of three fifths of it changes
/// nothing, and one of twice as long is followed at once, with no catching up.
#[test]
fn a_period_counts_from_the_start_of_a_run() {
    let (timer, clock) = timer();
    let log = Log::new();
    let (inner, time) = (log.clone(), clock.clone());
    let body = move || {
        let context = TaskContext::current();
        inner.add(time.now());
        let lasts = if context.runs() == 3 { 10 } else { 3 };
        // Interrupted at the end of the test, if at all.
        let _ = context.sleep(lasts * STEP);
    };
    drop(timer.schedule_repeating(Duration::ZERO, 5 * STEP, body).unwrap());
    clock.advance(27 * STEP);
    assert_eq!(log.entries(), [0, 5, 10, 20, 25].map(|n| tick(n * STEP)));
    clock.advance(STEP);
    finish(&timer);
}

/// TM-013: cancelling says whether it changed anything: true for what waits or repeats, inside its own run as well,
/// and for what runs, whose handle it resolves; false for what is over or cancelled.
#[test]
fn cancelling_says_whether_it_ended_the_task() {
    let (timer, clock) = timer();
    let waiting = timer.schedule(HOUR, || ()).unwrap();
    assert_eq!([waiting.cancel(), waiting.cancel()], [true, false]);
    let over = timer.schedule(Duration::ZERO, || ()).unwrap();
    clock.advance(STEP);
    assert!(!over.cancel());
    let repeating = timer.schedule_repeating(Duration::ZERO, STEP, || ()).unwrap();
    clock.advance(3 * STEP);
    assert_eq!([repeating.cancel(), repeating.cancel()], [true, false]);
    let gate = Gate::new();
    let inner = gate.clone();
    let running = timer.schedule(Duration::ZERO, move || inner.pass()).unwrap();
    gate.await_arrivals(1);
    assert_eq!([running.cancel(), running.cancel()], [true, false]);
    gate.open();
    finish(&timer);
}

/// TM-013, TM-014, TM-023: a repeating task that cancels itself has had its last run. While it runs it is not
/// queued: it is put back after the run.
#[test]
fn a_task_that_cancels_itself_has_had_its_last_run() {
    for repeat in [Timer::schedule_repeating, Timer::schedule_at_fixed_rate] {
        let (timer, clock) = timer();
        let (slot, seen) = (Slot::default(), Log::new());
        let (inner, entries) = (Arc::clone(&slot), seen.clone());
        let body: Box<dyn FnMut() + Send> = Box::new(move || {
            let slot = inner.lock().unwrap();
            let handle = slot.as_ref().unwrap();
            let queued = handle.is_queued();
            let last = handle.runs() == 3;
            entries.add((queued, last && handle.cancel(), last && handle.cancel()));
        });
        let handle = repeat(&timer, STEP, STEP, body).unwrap();
        assert!(handle.is_queued());
        *slot.lock().unwrap() = Some(handle);
        clock.advance(10 * STEP);
        let (plain, last) = ((false, false, false), (false, true, false));
        assert_eq!(seen.entries(), [plain, plain, last]);
        assert!(slot.lock().unwrap().take().unwrap().is_cancelled());
        finish(&timer);
    }
}

/// TM-014: a repeating task that is cancelled between its runs never runs again.
#[test]
fn a_cancelled_task_never_runs_again() {
    let (timer, clock) = timer();
    let (runs, others) = (Counter::new(), Counter::new());
    let handle = timer.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    drop(timer.schedule_repeating(STEP, STEP, others.body()).unwrap());
    clock.advance(2 * STEP);
    assert!(handle.cancel());
    clock.advance(10 * STEP);
    assert_eq!((runs.get(), others.get()), (2, 12));
    finish(&timer);
}

/// TM-015: cancelled tasks leave at once, so that there is nothing to purge; the others are untouched.
#[test]
fn cancelled_tasks_leave_nothing_to_purge() {
    let (timer, clock) = timer();
    let runs = Counter::new();
    let handles: Vec<_> = (0..1000).map(|_| timer.schedule(STEP, runs.body()).unwrap()).collect();
    // 7 and 1000 have no common divisor: a scattered third of them.
    let cancelled = (0..333).filter(|n| handles[n * 7 % 1000].cancel()).count();
    assert_eq!(handles.iter().filter(|handle| handle.is_queued()).count(), 1000 - cancelled);
    assert_eq!([timer.purge(), timer.purge()], [0, 0]);
    clock.advance(STEP);
    assert_eq!((cancelled, runs.get()), (333, 667));
    drop(timer.schedule(HOUR, || ()).unwrap());
    assert_eq!(timer.cancel(), 1);
    assert_eq!(timer.purge(), 0);
    finish(&timer);
}

/// TM-016: cancelling the timer drops what waits and resolves its handles, so that they cannot be cancelled again;
/// a body that runs is not interrupted and goes on; doing it again does nothing.
#[test]
fn cancelling_the_timer_resolves_every_handle() {
    let (timer, _clock) = timer();
    let ((probe, captured), gate, (sender, receiver)) = (Probe::new(), Gate::new(), mpsc::channel());
    let inner = gate.clone();
    let running = timer
        .schedule(Duration::ZERO, move || {
            inner.pass();
            sender.send(TaskContext::current().is_interrupted()).unwrap();
        })
        .unwrap();
    gate.await_arrivals(1);
    let waiting = timer.schedule(HOUR, move || drop(captured)).unwrap();
    let repeating = timer.schedule_repeating(HOUR, HOUR, || ()).unwrap();
    assert_eq!(timer.cancel(), 2);
    for handle in [&waiting, &repeating] {
        assert!(handle.is_cancelled() && !handle.cancel());
    }
    assert!(probe.is_dropped());
    assert_eq!((running.state(), timer.cancel()), (TaskState::Running, 0));
    gate.open();
    assert!(timer.await_termination(Duration::MAX));
    assert_eq!((receiver.recv(), running.state()), (Ok(false), TaskState::Succeeded));
}

/// TM-016: the task that cancels its timer is the last one it ever runs, though others are due.
#[test]
fn the_task_that_cancels_its_timer_is_its_last() {
    let (timer, clock) = timer();
    let (inner, runs) = (timer.clone(), Counter::new());
    let count = runs.clone();
    let last = timer
        .schedule_repeating(STEP, STEP, move || {
            count.hit();
            inner.cancel();
        })
        .unwrap();
    let due = timer.schedule(STEP, runs.body()).unwrap();
    clock.jump(5 * STEP);
    assert!(timer.await_termination(Duration::MAX));
    assert_eq!(runs.get(), 1);
    assert!(last.is_cancelled() && due.is_cancelled());
}

/// TM-017: a panic ends the task that panicked and nothing else.
#[test]
fn a_panic_ends_its_own_task_only() {
    let (timer, clock) = timer();
    let runs = Counter::new();
    let other = timer.schedule_at_fixed_rate(STEP, STEP, runs.body()).unwrap();
    let broken = timer.schedule_repeating(STEP, STEP, || panic!("broken")).unwrap();
    clock.advance(3 * STEP);
    assert_eq!((broken.runs(), broken.state()), (1, TaskState::Failed));
    assert_eq!(broken.failure().unwrap().panic().unwrap().message(), "broken");
    assert_eq!((runs.get(), other.is_done(), timer.is_cancelled()), (3, false, false));
    drop(timer.schedule(STEP, runs.body()).unwrap());
    clock.advance(STEP);
    assert_eq!(runs.get(), 5);
    finish(&timer);
}

/// TM-018: a timer that is dropped runs what waits, each at its time, and then its thread ends. A repeating task
/// ends with the drop.
#[test]
fn a_dropped_timer_runs_what_waits_and_ends() {
    thread_local! {
        static HELD: RefCell<Option<Arc<()>>> = const { RefCell::new(None) };
    }
    let (timer, clock) = timer();
    let ((log, body), (thread_ended, held)) = (starts(&clock), Probe::new());
    // Dropped when the timer's thread is.
    drop(timer.schedule(Duration::ZERO, move || HELD.set(Some(held))).unwrap());
    let repeating = timer.schedule_repeating(STEP, STEP, || ()).unwrap();
    for n in 1..=10 {
        drop(timer.schedule(n * STEP, body.clone()).unwrap());
    }
    let clone = timer.clone();
    drop(timer);
    assert!(!repeating.is_done(), "one clone is left");
    drop(clone);
    assert!(repeating.is_cancelled());
    clock.advance(9 * STEP);
    assert!(!thread_ended.is_dropped());
    clock.advance(STEP);
    assert_eq!(log.entries(), (1..=10).map(|n| tick(n * STEP)).collect::<Vec<_>>());
    eventually("the thread has ended", || thread_ended.is_dropped());
}

/// TM-019: tasks of one time run in the order in which they were scheduled.
#[test]
fn equal_times_run_in_the_order_of_scheduling() {
    let (timer, clock) = timer();
    let log = Log::new();
    for n in 0..12 {
        drop(timer.schedule(STEP, log.body(n)).unwrap());
    }
    clock.advance(STEP);
    assert_eq!(log.entries(), (0..12).collect::<Vec<_>>());
    finish(&timer);
}

/// TM-020: there is one thread: a slow task delays the others, which then run together, in order.
#[test]
fn a_slow_task_delays_the_others() {
    let (timer, clock) = timer();
    let log = Log::new();
    let (slow, time) = (log.clone(), clock.clone());
    let add = move |name| slow.add((name, time.now()));
    let body = add.clone();
    let sleeps = move || {
        body("slow");
        TaskContext::current().sleep(5 * STEP).unwrap();
    };
    drop(timer.schedule(STEP, sleeps).unwrap());
    for (n, name) in [(3, "second"), (2, "first"), (7, "punctual")] {
        let add = add.clone();
        drop(timer.schedule(n * STEP, move || add(name)).unwrap());
    }
    clock.advance(7 * STEP);
    let at = |n: u32| tick(n * STEP);
    assert_eq!(log.entries(), [("slow", at(1)), ("first", at(6)), ("second", at(6)), ("punctual", at(7))]);
    finish(&timer);
}

/// TM-021: delays and instants are those of one clock that never goes back; no other moves them.
#[test]
fn delays_and_instants_are_on_one_clock() {
    let (timer, clock) = timer_at(HOUR);
    let (log, body) = starts(&clock);
    let after = timer.schedule(2 * STEP, body.clone()).unwrap();
    let at = timer.schedule(tick(HOUR + 2 * STEP), body).unwrap();
    assert_eq!(after.deadline(), at.deadline());
    clock.advance(2 * STEP - NANO);
    assert!(log.entries().is_empty());
    clock.advance(NANO);
    assert_eq!(log.entries(), [tick(HOUR + 2 * STEP); 2]);
    finish(&timer);
}

/// TM-022: waking the timer's thread from outside makes nothing early, on a clock that stands or on one that runs.
#[test]
fn a_stray_wake_up_makes_nothing_early() {
    fn thread_of(timer: &Timer) -> thread::Thread {
        let (sender, receiver) = mpsc::channel();
        drop(timer.schedule(Duration::ZERO, move || sender.send(thread::current()).unwrap()).unwrap());
        receiver.recv().unwrap()
    }
    let (timer, clock) = timer();
    let (thread, runs) = (thread_of(&timer), Counter::new());
    drop(timer.schedule(STEP, runs.body()).unwrap());
    for _ in 0..100 {
        clock.wait_until_idle();
        thread.unpark();
    }
    clock.wait_until_idle();
    assert_eq!(runs.get(), 0);
    clock.advance(STEP);
    assert_eq!(runs.get(), 1);
    finish(&timer);

    let clock = SystemClock::new();
    let timer = Timer::with_clock("timer", clock).unwrap();
    let thread = thread_of(&timer);
    let (sender, receiver) = mpsc::channel();
    let handle = timer.schedule(SHORT, move || sender.send(clock.now()).unwrap()).unwrap();
    while !handle.is_done() {
        thread.unpark();
        thread::yield_now();
    }
    assert!(receiver.recv().unwrap() >= handle.deadline());
    finish(&timer);
}
